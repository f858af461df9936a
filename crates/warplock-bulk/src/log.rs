//! Logs of the outcome of each unit. A row is appended as soon as its unit has ended.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::job::{Job, Name, Shard};

/// What became of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Its result is complete, or it was verified. The result's name is on the disk when the run
    /// ends.
    Done,
    /// Its result existed already.
    Unchanged,
    /// A kind of file that is left out.
    Skipped,
    /// It failed; another run tries again.
    Failed,
    /// It failed authentication: wrong keys, or the file was altered or cut.
    Authentication,
}

/// A line of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Its number in the job.
    pub unit: u64,
    /// Its path in the tree.
    pub path: Name,
    /// What became of it.
    pub status: Status,
    /// Bytes of the source file.
    pub bytes: u64,
    /// Time taken.
    pub seconds: f64,
    /// Why it was skipped or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The sum of rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Units of the job, or of the shard.
    pub units: u64,
    /// Units by their status.
    pub done: u64,
    /// See [`Status::Unchanged`].
    pub unchanged: u64,
    /// See [`Status::Skipped`].
    pub skipped: u64,
    /// See [`Status::Failed`].
    pub failed: u64,
    /// See [`Status::Authentication`].
    pub authentication: u64,
    /// Units without a row.
    pub pending: u64,
    /// Bytes of the source files that are done.
    pub bytes: u64,
    /// Time that units took, of all threads together.
    pub seconds: f64,
}

impl Report {
    pub(crate) fn add(&mut self, status: Status, bytes: u64, seconds: f64) {
        let count = match status {
            Status::Done => &mut self.done,
            Status::Unchanged => &mut self.unchanged,
            Status::Skipped => &mut self.skipped,
            Status::Failed => &mut self.failed,
            Status::Authentication => &mut self.authentication,
        };
        *count += 1;
        if status == Status::Done {
            self.bytes += bytes;
        }
        self.seconds += seconds;
    }
}

/// Adds up the logs of a job: the last row of each unit counts. Calls `problem` with the row of
/// each unit that failed.
///
/// # Errors
/// [`Error::Io`].
pub fn report(path: &Path, job: &Job, mut problem: impl FnMut(&Row)) -> Result<Report> {
    let mut rows: HashMap<u64, Row> = HashMap::new();
    each_row(path, |row: Row| {
        rows.insert(row.unit, row);
    })?;
    let mut report = Report {
        units: job.units,
        ..Report::default()
    };
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by_key(|row| row.unit);
    for row in &rows {
        report.add(row.status, row.bytes, row.seconds);
        if matches!(row.status, Status::Failed | Status::Authentication) {
            problem(row);
        }
    }
    report.pending = job.units.saturating_sub(rows.len() as u64);
    Ok(report)
}

/// The units that are done, by the last row of each.
pub(crate) fn done(path: &Path) -> Result<HashSet<u64>> {
    /// The fields of a row that are needed here: there may be millions of rows.
    #[derive(Deserialize)]
    struct Ended {
        unit: u64,
        status: Status,
    }
    let mut done = HashSet::new();
    each_row(path, |row: Ended| match row.status {
        Status::Done | Status::Unchanged => drop(done.insert(row.unit)),
        _ => drop(done.remove(&row.unit)),
    })?;
    Ok(done)
}

/// Calls `act` with each whole row of all logs, older ones of a log first.
pub(crate) fn each_row<R: DeserializeOwned>(path: &Path, mut act: impl FnMut(R)) -> Result<()> {
    let failed = Error::io;
    let mut logs = Vec::new();
    for entry in fs::read_dir(path).map_err(failed(path))? {
        let entry = entry.map_err(failed(path))?;
        if entry.file_name().to_string_lossy().starts_with("log-") {
            let changed = entry.metadata().and_then(|found| found.modified());
            logs.push((changed.map_err(failed(path))?, entry.path()));
        }
    }
    logs.sort();
    for (_, log) in logs {
        let file = File::open(&log).map_err(failed(&log))?;
        for line in BufReader::new(file).split(b'\n') {
            let line = line.map_err(failed(&log))?;
            // A row that a killed process left incomplete does not count.
            if let Ok(row) = serde_json::from_slice(&line) {
                act(row);
            }
        }
    }
    Ok(())
}

/// The log of a shard, of which there is one writer at a time.
pub(crate) struct Log(Mutex<File>);

impl Log {
    pub(crate) fn open(path: &Path, shard: Shard) -> Result<Self> {
        let path = path.join(format!("log-{}of{}.jsonl", shard.index, shard.count));
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path);
        let mut file = file.map_err(Error::io(&path))?;
        let lock = FlockOperation::NonBlockingLockExclusive;
        if flock(&file, lock) == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(Error::Usage(
                "another process runs this shard of the job; wait for it, or use another shard"
                    .to_owned(),
            ));
        }
        let mut ends_cut = || {
            if file.metadata()?.len() == 0 {
                return Ok(false);
            }
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            Ok(last != *b"\n")
        };
        if ends_cut().map_err(Error::io(&path))? {
            file.write_all(b"\n").map_err(Error::io(&path))?;
        }
        Ok(Log(Mutex::new(file)))
    }

    pub(crate) fn add(&self, path: &Path, row: &Row) -> Result<()> {
        let mut line = serde_json::to_vec(row).map_err(|error| Error::job(path, error))?;
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).map_err(Error::io(path))
    }
}
