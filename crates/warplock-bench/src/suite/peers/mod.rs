//! `peers`: the usual alternatives, on the same buffers and the same thread, in turn.

mod aws_lc;
mod evp;
mod gcrypt;
mod held;
mod ipsec_mb;
mod ours;
mod ring;
mod rustcrypto;
mod task;

use std::cell::RefCell;
use std::time::Duration;

use self::held::Held;
use self::task::{Task, Texts, Work};
use super::Suite;
use crate::context::portable;
use crate::error::Result;
use crate::measure::interleave;
use crate::report::{Column, Report, Unit, Value};
use crate::{Context, Error, Machine, Plan, Sample};

/// A library. All of them work in place: on a copy of the task's input, which copying left in the
/// cache.
trait Peer {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// Its version.
    fn version(&self) -> String;

    /// The task in the library's fastest way, or none if it has no such thing. If one key serves
    /// all messages, its schedule is computed here, outside of the timed part.
    ///
    /// A failed call needs no report: it leaves the plaintext or the poisoned tag, which every
    /// check refuses.
    fn prepare(&self, task: &Task, texts: &Texts) -> Option<Work>;
}

/// A library that is loaded if it is installed, or the reason why not.
type Found = std::result::Result<Box<dyn Peer>, String>;

/// The suite; it has no options. With `cpu:aesni` on a machine that has more, the others are also
/// limited to AES-NI, or left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peers;

impl Peers {
    /// The variable and value that libraries must find in the environment when the program starts,
    /// to be held to what Warplock uses in `context`; none if it has a value, or need not.
    ///
    /// # Errors
    /// There is no such backend.
    pub fn wants(context: &Context<'_>) -> Result<Option<(&'static str, &'static str)>> {
        Ok(Held::like(&context.on_cpu().one_thread()?).missing())
    }
}

impl Suite for Peers {
    fn name(&self) -> &'static str {
        "peers"
    }

    fn run(&self, context: &Context<'_>) -> Result<Report> {
        let cpu = context.on_cpu();
        let machine = Machine::here(&cpu)?;
        let engine = cpu.one_thread()?;
        let (peers, notes) = peers(Held::like(&engine));
        let ours = ours::Ours::new(engine);
        let reference = ours::Ours::new(portable()?);
        let mut report = Report {
            suite: self.name().to_owned(),
            title: "peers: bytes per second on one thread, against what a user would take instead"
                .to_owned(),
            notes,
            columns: columns(&peers),
            rows: Vec::new(),
            machine,
            stopped: false,
        };
        for task in task::all() {
            (context.notify)(&task.name());
            let all: Vec<&dyn Peer> = std::iter::once(&ours as &dyn Peer)
                .chain(peers.iter().map(AsRef::as_ref))
                .collect();
            let samples = measure(context.plan, &task, &all, &reference)?;
            report.rows.push(row(&task, &samples));
            (context.progress)(&report);
        }
        Ok(report)
    }
}

/// All libraries that are found, and lines for the report: versions, and those that are missing.
fn peers(held: Held) -> (Vec<Box<dyn Peer>>, Vec<String>) {
    let found: [Found; 6] = [
        held.by_environment("OpenSSL", evp::openssl),
        held.by_environment("AWS-LC", || Ok(Box::new(aws_lc::AwsLc::new()))),
        held.left_out("ring", || Ok(Box::new(ring::Ring))),
        held.left_out("RustCrypto", || Ok(Box::new(rustcrypto::RustCrypto))),
        gcrypt::load(held),
        ipsec_mb::load(held),
    ];
    let mut notes = vec![
        "In place, one thread, contenders in turn, a megabyte at a time: short tasks are repeated \
         on their own results. Each result compared with cpu:portable. With \
         one key its schedule is made before the time starts, with a key each within it. The last \
         column: ours against the fastest peer."
            .to_owned(),
    ];
    if held.is_held() {
        notes.push("All are held to AES-NI, as Warplock is here.".to_owned());
    }
    let mut peers = Vec::new();
    for peer in found {
        match peer {
            Ok(peer) => {
                notes.push(format!("{}: {}", peer.name(), peer.version()));
                peers.push(peer);
            }
            Err(reason) => notes.push(reason),
        }
    }
    (peers, notes)
}

/// Seconds of each peer; none for one that does not have the task.
fn measure(
    plan: Plan,
    task: &Task,
    peers: &[&dyn Peer],
    reference: &dyn Peer,
) -> Result<Vec<Option<Sample>>> {
    let mut texts = Texts::new(task)?;
    let mut right = reference
        .prepare(task, &texts)
        .expect("the engine has every task");
    let repeats = task.repeats();
    (0..repeats).for_each(|_| right(&mut texts));
    texts.expect();

    let works: Vec<Option<RefCell<Work>>> = peers
        .iter()
        .map(|peer| peer.prepare(task, &texts).map(RefCell::new))
        .collect();
    let able: Vec<usize> = (0..peers.len())
        .filter(|&peer| works[peer].is_some())
        .collect();
    let plan = Plan {
        // The task itself says how often it is repeated: in place, it works on its own result.
        shortest: Duration::ZERO,
        ..plan
    };
    let samples = interleave(
        &plan,
        able.len(),
        &mut texts,
        Texts::reset,
        |texts, number| {
            if let Some(work) = &works[able[number]] {
                let mut work = work.borrow_mut();
                (0..repeats).for_each(|_| work(texts));
            }
            Ok(())
        },
        |texts, number| match texts.is_right() {
            true => Ok(()),
            false => Err(Error::Wrong(format!(
                "{}: {} does not agree with cpu:portable",
                task.name(),
                peers[able[number]].name()
            ))),
        },
    )?;
    let mut all = vec![None; peers.len()];
    for (peer, sample) in able.into_iter().zip(samples) {
        all[peer] = Some(sample.map(|seconds| seconds / repeats as f64));
    }
    Ok(all)
}

fn columns(peers: &[Box<dyn Peer>]) -> Vec<Column> {
    let mut columns = vec![
        Column::new("task", "task", Unit::Text).name(),
        Column::new("bytes", "bytes", Unit::Bytes),
        Column::new("warplock", "warplock", Unit::BytesPerSecond),
    ];
    columns.extend(peers.iter().map(|peer| {
        let key = peer.name().to_lowercase().replace('-', "_");
        Column::new(key, peer.name(), Unit::BytesPerSecond)
    }));
    columns.push(Column::new("ratio", "ratio", Unit::Ratio));
    columns
}

fn row(task: &Task, samples: &[Option<Sample>]) -> Vec<Value> {
    let bytes = task.bytes() as f64;
    let rates: Vec<Option<Sample>> = samples
        .iter()
        .map(|sample| sample.map(|sample| sample.map(|seconds| bytes / seconds)))
        .collect();
    let median = |rate: &Option<Sample>| rate.map(|rate| rate.median);
    let fastest = rates[1..].iter().filter_map(median).reduce(f64::max);
    let ratio = median(&rates[0])
        .zip(fastest)
        .map(|(ours, fastest)| ours / fastest);
    let mut row = vec![task.name().into(), bytes.into()];
    row.extend(rates.into_iter().map(Value::from));
    row.push(ratio.into());
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_that_has_a_task_agrees_on_it() {
        let reference = ours::Ours::new(portable().unwrap());
        let (peers, _) = peers(Held::NO);
        let all: Vec<&dyn Peer> = peers.iter().map(AsRef::as_ref).collect();
        for mut task in task::all() {
            task.count = task.count.min(20);
            task.len = task.len.min(4096);
            let samples = measure(Plan::quick(), &task, &all, &reference).unwrap();
            assert!(samples.iter().any(Option::is_some), "{}", task.name());
        }
    }

    #[test]
    fn a_peer_that_does_nothing_is_found() {
        struct Lazy;
        impl Peer for Lazy {
            fn name(&self) -> &'static str {
                "lazy"
            }
            fn version(&self) -> String {
                String::new()
            }
            fn prepare(&self, _: &Task, _: &Texts) -> Option<Work> {
                Some(Box::new(|_| {}))
            }
        }
        let reference = ours::Ours::new(portable().unwrap());
        for task in task::all()
            .into_iter()
            .filter(|task| task.bytes() < 1 << 20)
        {
            let error = measure(Plan::quick(), &task, &[&Lazy], &reference).unwrap_err();
            assert!(error.to_string().contains("lazy does not agree"));
        }
    }
}
