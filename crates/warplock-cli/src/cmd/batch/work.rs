//! The work on pieces of a batch, in bounded memory.

use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use warplock::{
    Aad, Algorithm, Batch, Direction, Engine, Error, Ivs, Key, Keys, Spans, Tags, Text,
};
use warplock_container::WriteAt;

use super::streams::{Piece, Streams};
use crate::args::Common;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress::Progress;

/// Bytes of all inputs of a piece: with several workers they stay in the caches of a core.
const CACHED: usize = 256 << 10;
/// The same where all threads work on one piece.
const SHARED: usize = 4 << 20;
/// The same where a GPU may do it.
const FOR_GPU: usize = 32 << 20;

/// Bytes of a tag.
pub(super) const TAG: usize = 16;

/// What is done with each message.
pub(super) struct Task {
    pub(super) algorithm: Algorithm,
    pub(super) direction: Direction,
    /// The key of all; otherwise each has one.
    pub(super) key: Option<Key>,
    /// Bytes of each message's associated data.
    pub(super) aad_len: usize,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

/// Where results go.
struct Sinks<'a> {
    output: &'a Output,
    tags: Option<&'a Output>,
}

impl Sinks<'_> {
    fn failed(output: &Output, error: &std::io::Error) -> Failure {
        Failure::writing(error).about(&output.name)
    }

    /// In order.
    fn append(&self, text: &[u8], tags: &[u8]) -> Result<()> {
        let mut file = self.output.file();
        file.write_all(text)
            .map_err(|error| Self::failed(self.output, &error))?;
        match self.tags {
            Some(output) => output
                .file()
                .write_all(tags)
                .map_err(|error| Self::failed(output, &error)),
            None => Ok(()),
        }
    }

    /// At their places.
    fn put(&self, first: u64, (text, len): (&[u8], usize), tags: &[u8]) -> Result<()> {
        let file = self.output.file();
        file.write_all_at(text, first * len as u64)
            .map_err(|error| Self::failed(self.output, &error))?;
        match self.tags {
            Some(output) => output
                .file()
                .write_all_at(tags, first * TAG as u64)
                .map_err(|error| Self::failed(output, &error)),
            None => Ok(()),
        }
    }

    /// Whether all can be written at any place.
    fn are_positioned(&self) -> bool {
        !self.output.is_direct() && self.tags.is_none_or(|tags| !tags.is_direct())
    }
}

/// Works on all messages: files on the CPU by several threads that read, work and write pieces of
/// their own; everything else in order, piece by piece on the whole engine.
pub(super) fn run(
    task: &Task,
    streams: Streams,
    output: &Output,
    tags: Option<&Output>,
    engine: &Engine,
    common: &Common,
) -> Result<Done> {
    let sinks = Sinks { output, tags };
    let text = streams.parts.last().expect("there is a text");
    let done = Arc::new(AtomicU64::new(0));
    let progress = {
        let (done, wanted) = (done.clone(), !common.quiet && !output.is_terminal());
        let total = text.input().len;
        let shown = move || done.load(Ordering::Relaxed);
        Progress::start(&text.input().name, total, shown, wanted)
    };
    let on_cpu = engine.backend().starts_with("cpu");
    let all = match streams.count {
        Some(count) if sinks.are_positioned() && on_cpu => {
            spread(task, &streams, &sinks, count, common, &done)
        }
        _ => {
            let most = items(&streams, if on_cpu { SHARED } else { FOR_GPU });
            in_order(task, &streams, &sinks, engine, (most, &done))
        }
    };
    drop(progress);
    all
}

fn items(streams: &Streams, bytes: usize) -> usize {
    (bytes / streams.item()).max(1)
}

fn spread(
    task: &Task,
    streams: &Streams,
    sinks: &Sinks<'_>,
    count: u64,
    common: &Common,
    done: &AtomicU64,
) -> Result<Done> {
    // Each worker is a thread of its own, on which its engine runs.
    let engine = Common {
        threads: Some(NonZeroUsize::MIN),
        ..common.clone()
    };
    let engine = engine.engine()?;
    let each = items(streams, CACHED);
    let len = streams.parts.last().expect("there is a text").item;
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let worker = || -> Result<()> {
        // Only the last piece of all is shorter.
        let mut piece = streams.room(each);
        while !failed.load(Ordering::Relaxed) {
            let first = next.fetch_add(each as u64, Ordering::Relaxed);
            if first >= count {
                break;
            }
            let own = (count - first).min(each as u64) as usize;
            streams.read_at(first, own, &mut piece)?;
            let tags = task.work(&engine, &mut piece, streams)?;
            let text = piece.bytes.last().expect("there is a text");
            sinks.put(first, (text, len), &tags)?;
            done.fetch_add(text.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    };
    let usual = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = common.threads.unwrap_or(usual).get() as u64;
    let threads = threads.min(count.div_ceil(each as u64)).max(1);
    thread::scope(|scope| {
        let run = || worker().inspect_err(|_| failed.store(true, Ordering::Relaxed));
        // Where no more threads may start, those that run do the work.
        let start = |_| thread::Builder::new().spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..threads).map_while(start).collect();
        let mut outcome = run();
        for other in others {
            let theirs = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(theirs);
        }
        outcome
    })?;
    Ok(Done {
        messages: count,
        bytes: count * len as u64,
    })
}

/// A thread reads ahead.
fn in_order(
    task: &Task,
    streams: &Streams,
    sinks: &Sinks<'_>,
    engine: &Engine,
    (most, done): (usize, &AtomicU64),
) -> Result<Done> {
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<Result<Piece>>(1);
        let reading = thread::Builder::new().spawn_scoped(scope, move || {
            let mut first = 0;
            while let Some(piece) = streams.next(first, most).transpose() {
                let (count, is_last) = match &piece {
                    Ok(piece) => (piece.count as u64, piece.count < most),
                    Err(_) => (0, true),
                };
                first += count;
                // If nothing receives any more, the other thread has failed.
                if sender.send(piece).is_err() || is_last {
                    break;
                }
            }
        });
        reading.map_err(|error| Failure::no_thread(&error))?;
        let mut sum = Done::default();
        for piece in receiver {
            let mut piece = piece?;
            let tags = task.work(engine, &mut piece, streams)?;
            let text = piece.bytes.last().expect("there is a text");
            sinks.append(text, &tags)?;
            sum.messages += piece.count as u64;
            sum.bytes += text.len() as u64;
            done.store(sum.bytes, Ordering::Relaxed);
        }
        Ok(sum)
    })
}

impl Task {
    /// Encrypts or decrypts a piece in place; gives the tags of sealed messages.
    fn work(&self, engine: &Engine, piece: &mut Piece, streams: &Streams) -> Result<Vec<u8>> {
        let (first, count) = (piece.first, piece.count);
        let even = |len| Spans::Even {
            count,
            len,
            stride: len,
        };
        let (text, others) = piece.bytes.split_last_mut().expect("there is a text");
        let part = |name: &str| {
            let parts = streams.parts.iter().zip(others.iter());
            let own = parts.filter(|(part, _)| part.name == name);
            own.map(|(_, bytes)| bytes.as_slice()).next()
        };
        let len = text.len() / count;
        let text = Text::InPlace {
            buffer: text,
            spans: even(len),
        };
        let keys = match &self.key {
            Some(key) => Keys::One(key),
            None => Keys::Each {
                algorithm: self.algorithm,
                bytes: part("keys").unwrap_or_default(),
            },
        };
        let mut batch = Batch::new(self.direction, keys, text);
        if let Some(ivs) = part("IVs") {
            batch = batch.ivs(Ivs::Each(ivs));
        }
        if let Some(bytes) = part("associated data") {
            batch = batch.aad(Aad::Each {
                bytes,
                spans: even(self.aad_len),
            });
        }
        let mut made = Vec::new();
        if self.algorithm.is_aead() {
            batch = match self.direction {
                Direction::Encrypt => {
                    made = vec![0; TAG * count];
                    batch.tags(Tags::Apart(&mut made))
                }
                Direction::Decrypt => batch.tags(Tags::Given(part("tags").unwrap_or_default())),
            };
        }
        engine.run(batch).map_err(|error| match error {
            Error::Authentication { failed, .. } => Failure::authentication(format_args!(
                "authentication failed for {} of messages {first} to {} (the first is message {}): \
                 wrong key, IV, tag or associated data, or the data was changed",
                failed.len(),
                first + count as u64 - 1,
                first + failed[0] as u64
            )),
            other => other.into(),
        })?;
        Ok(made)
    }
}
