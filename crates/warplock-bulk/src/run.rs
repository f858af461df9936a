//! Running a shard of a job: several small files at the same time, a large one on all cores.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use warplock_container::Pipeline;
use warplock_keyring::{AskPassphrase, Identities, Recipients};

use crate::error::{Error, Result};
use crate::job::{Job, Kind, Operation, Shard};
use crate::log::{self, Log, Report, Row, Status};
use crate::unit::{Key, OutputFolder, Trouble, Worker};

/// The keys of a run. They are no part of the job; recipients are.
pub struct Keys {
    /// What opens files; needed unless they are encrypted.
    pub identities: Option<Identities>,
    /// Answers questions of recipients' plugins.
    pub prompt: Arc<dyn AskPassphrase>,
}

/// With this many units, work is spent once to save it on each.
const MANY: u64 = 1000;

/// Runs a shard of the job in the folder `path`; with `force`, other files that have the results'
/// names are replaced. `small_done` counts finished bytes that `pipeline`'s monitor does not count.
/// Calls `ended` with each row. What is done already is not done again.
///
/// # Errors
/// [`Error::Usage`] if another process runs the shard, [`Error::Io`] and [`Error::Job`] about the
/// job's own files. Whatever is wrong with a unit is a row.
#[expect(clippy::too_many_arguments, reason = "one caller")]
pub fn run(
    path: &Path,
    job: &Job,
    shard: Shard,
    keys: &Keys,
    force: bool,
    pipeline: &Pipeline,
    threads: NonZeroUsize,
    small_done: &AtomicU64,
    ended: &(dyn Fn(&Row) + Sync),
) -> Result<Report> {
    if shard.index >= shard.count {
        return Err(Error::Usage(format!(
            "of {} shards, the last is number {}",
            shard.count,
            shard.count.saturating_sub(1)
        )));
    }
    let log = Log::open(path, shard)?;
    let logged = log::done(path)?;
    let worker = Worker {
        job,
        force,
        pipeline,
        small_done,
        logged,
        large: Mutex::new(()),
        rewrapped: Mutex::default(),
    };
    let units = Mutex::new(job.units(path, shard));
    let work = || -> Result<Report> {
        let (mut report, key) = (Report::default(), key(job, keys)?);
        let mut folder = OutputFolder::default();
        while !pipeline.monitor().is_cancelled() {
            let next = units.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(next) = next else { break };
            let (number, unit) = next?;
            let started = Instant::now();
            let (status, message) = match worker.unit(number, &unit, &key, &mut folder) {
                Ok(status) => (status, None),
                Err(Trouble(status, message)) => (status, Some(message)),
            };
            let row = Row {
                unit: number,
                bytes: if unit.kind == Kind::File {
                    unit.size
                } else {
                    0
                },
                path: unit.path,
                status,
                seconds: started.elapsed().as_secs_f64(),
                message,
            };
            if status == Status::Unchanged {
                small_done.fetch_add(row.bytes, Ordering::Relaxed);
            }
            // It has a row already.
            if status != Status::Unchanged || !worker.logged.contains(&number) {
                log.add(path, &row)?;
            }
            report.units += 1;
            report.add(row.status, row.bytes, row.seconds);
            ended(&row);
        }
        Ok(report)
    };
    let parts = thread::scope(|scope| {
        // Where no more threads may start, those that run do the work.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let threads: Vec<_> = (1..threads.get()).map_while(start).collect();
        let mut parts = vec![work()];
        for thread in threads {
            let part = thread.join();
            parts.push(part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        parts
    });
    let mut sum = Report::default();
    for part in parts {
        let part = part?;
        sum.units += part.units;
        sum.done += part.done;
        sum.unchanged += part.unchanged;
        sum.skipped += part.skipped;
        sum.failed += part.failed;
        sum.authentication += part.authentication;
        sum.bytes += part.bytes;
        sum.seconds += part.seconds;
    }
    Ok(sum)
}

/// Makes the keys of one thread.
fn key<'a>(job: &Job, keys: &'a Keys) -> Result<Key<'a>> {
    let recipients = || -> Result<Recipients> {
        let mut recipients = Recipients::new(keys.prompt.clone());
        for recipient in &job.recipients {
            recipients.add(recipient)?;
        }
        if job.units > MANY {
            recipients.prepare_for_many();
        }
        Ok(recipients)
    };
    let missing = || Error::Usage("name the identities that open the files".to_owned());
    let identities = || keys.identities.as_ref().ok_or_else(missing);
    Ok(match job.operation {
        Operation::Encrypt => Key::Encrypt(recipients()?),
        Operation::Decrypt | Operation::Verify => Key::Open(identities()?),
        Operation::Rewrap => Key::Rewrap(identities()?, recipients()?),
    })
}
