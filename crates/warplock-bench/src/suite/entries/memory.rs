//! The same work in memory, without files: the CPU's own speed.

use std::num::NonZeroUsize;
use std::thread;

use warplock::Engine;

use super::ways::named;
use crate::context::{self, Context};
use crate::error::Result;
use crate::generate::{ENTRY, encrypt_entries};
use crate::measure::interleave;
use crate::report::Value;
use crate::table::grouped;
use crate::{Error, random};

/// Entries whose keys, plaintexts and ciphertexts stay in a core's L2 cache (192 KiB).
const CACHED: usize = 4 << 10;

/// Entries that come from memory: 16 MB of each kind.
const FROM_MEMORY: usize = 1_000_000;

/// About how many entries a run works on, so that starting threads does not show.
const RUN: usize = 2_000_000;

/// One thread's share of a run.
struct Share {
    keys: Vec<u8>,
    plains: Vec<u8>,
    ciphers: Vec<u8>,
    expected: Vec<u8>,
}

impl Share {
    fn new(entries: usize, reference: &Engine) -> Result<Self> {
        let len = entries * ENTRY as usize;
        let mut share = Share {
            keys: random::bytes(len)?,
            plains: random::bytes(len)?,
            ciphers: vec![0; len],
            expected: Vec::new(),
        };
        share.encrypt(reference)?;
        share.expected = share.ciphers.clone();
        Ok(share)
    }

    fn encrypt(&mut self, engine: &Engine) -> Result<()> {
        encrypt_entries(engine, &self.keys, &self.plains, &mut self.ciphers)
    }
}

/// Rows for one core and for all, from cache and from memory, and for a GPU.
pub(super) fn rows(
    context: &Context<'_>,
    engine: &Engine,
    gpu: Option<&Engine>,
    mut each_row: impl FnMut(Vec<Value>),
) -> Result<()> {
    let mut threads = vec![NonZeroUsize::MIN, context.threads];
    threads.dedup();
    for (place, entries) in [("cache", CACHED), ("memory", FROM_MEMORY)] {
        for &threads in &threads {
            // From memory, the threads share the 16 MB; in caches, each thread has its own entries.
            let each = match place {
                "cache" => entries,
                _ => entries.div_ceil(threads.get()),
            };
            let repeats = (RUN / each).max(1);
            let name = format!("in memory, from {place}, {}", named(threads));
            each_row(row(context, engine, name, threads, each, repeats)?);
        }
    }
    if let Some(gpu) = gpu {
        for entries in [FROM_MEMORY, 16 * FROM_MEMORY] {
            let name = format!("in memory, {}, with copies", gpu.backend());
            each_row(row(context, gpu, name, NonZeroUsize::MIN, entries, 1)?);
        }
    }
    Ok(())
}

/// Measures: each thread has `each` entries, and encrypts them `repeats` times.
fn row(
    context: &Context<'_>,
    engine: &Engine,
    name: String,
    threads: NonZeroUsize,
    each: usize,
    repeats: usize,
) -> Result<Vec<Value>> {
    let reference = context::portable()?;
    let shares = (0..threads.get()).map(|_| Share::new(each, &reference));
    let mut shares = shares.collect::<Result<Vec<_>>>()?;
    let seconds = interleave(
        &context.plan,
        1,
        &mut shares,
        |shares| shares.iter_mut().for_each(|share| share.ciphers.fill(0xa5)),
        |shares, _| run(engine, shares, repeats),
        |shares, _| check(shares),
    )?[0];
    let count = (each * threads.get() * repeats) as f64;
    Ok(vec![
        name.into(),
        Value::None,
        ((each * threads.get()) as f64).into(),
        Value::None,
        Value::None,
        seconds.map(|seconds| count / seconds).into(),
        seconds.map(|seconds| seconds / count).into(),
        Value::None,
        Value::None,
        Value::None,
        Value::None,
        Value::None,
        Value::None,
    ])
}

/// Each thread encrypts its share, again and again.
fn run(engine: &Engine, shares: &mut [Share], repeats: usize) -> Result<()> {
    let work = |share: &mut Share| (0..repeats).try_for_each(|_| share.encrypt(engine));
    let (first, others) = shares.split_first_mut().expect("at least one thread");
    thread::scope(|scope| {
        let start = |share| {
            let thread = thread::Builder::new().spawn_scoped(scope, move || work(share));
            thread.map_err(Error::NoThread)
        };
        let others = others.iter_mut().map(start).collect::<Result<Vec<_>>>()?;
        let mut outcome = work(first);
        for other in others {
            let theirs = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(theirs);
        }
        outcome
    })
}

fn check(shares: &[Share]) -> Result<()> {
    match shares.iter().all(|share| share.ciphers == share.expected) {
        true => Ok(()),
        false => Err(Error::Wrong(format!(
            "a key for each of {} blocks in memory: the result does not agree with cpu:portable",
            grouped((shares[0].ciphers.len() as u64) / ENTRY)
        ))),
    }
}
