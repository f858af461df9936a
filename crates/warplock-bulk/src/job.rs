//! The files of a job: `job.json`, and `units-NNNNN.jsonl` with a unit in each line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::iter;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What is done to each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// NAME becomes NAME.wl in the destination.
    Encrypt,
    /// NAME.wl becomes NAME in the destination.
    Decrypt,
    /// Every byte of NAME.wl is verified, and nothing kept.
    Verify,
    /// NAME.wl gets other recipients, in place.
    Rewrap,
}

impl Operation {
    /// Whether its results are files of a destination.
    pub(crate) fn has_destination(self) -> bool {
        matches!(self, Operation::Encrypt | Operation::Decrypt)
    }

    /// Whether a job of it has recipients.
    pub fn has_recipients(self) -> bool {
        matches!(self, Operation::Encrypt | Operation::Rewrap)
    }
}

/// A path of a job. In JSON it is a string, or where it is not UTF-8, its bytes as numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Text", into = "Text")]
pub struct Name(pub PathBuf);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Text> for Name {
    fn from(text: Text) -> Self {
        Name(match text {
            Text::Text(text) => text.into(),
            Text::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

impl From<Name> for Text {
    fn from(name: Name) -> Self {
        match name.0.into_os_string().into_string() {
            Ok(text) => Text::Text(text),
            Err(bytes) => Text::Bytes(bytes.as_bytes().to_vec()),
        }
    }
}

/// `job.json`: written last, so that a job without it is incomplete.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The version of these files: 1.
    pub version: u32,
    /// What is done to each file.
    pub operation: Operation,
    /// The tree, absolute.
    pub source: Name,
    /// Where the results go, absolute; none to verify or rewrap.
    pub destination: Option<Name>,
    /// For whom files are encrypted.
    pub recipients: Vec<String>,
    /// Lines in the files of units.
    pub units: u64,
    /// Bytes of all files to be worked on.
    pub bytes: u64,
    /// Files of units.
    pub parts: u32,
}

/// What all versions of `job.json` have.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A file to be worked on.
    File,
    /// A folder to be made.
    Folder,
    /// A symbolic link to be made again, with the same text.
    Link,
    /// Nothing is to be done, for this reason.
    Skipped(String),
    /// It should be worked on, and cannot be, for this reason.
    Failed(String),
}

/// One line of a file of units.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Unit {
    /// Relative to the source.
    pub(crate) path: Name,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    /// Of the last change of the content: seconds and nanoseconds.
    pub(crate) mtime: (i64, u32),
    pub(crate) inode: u64,
    pub(crate) mode: u32,
}

/// The cost of a unit besides its bytes, in bytes.
const OVERHEAD: u64 = 16 * 1024;

impl Unit {
    fn cost(&self) -> u128 {
        let size = match self.kind {
            Kind::File => self.size,
            _ => 0,
        };
        u128::from(size) + u128::from(OVERHEAD)
    }
}

/// Which part of a job: `index` of `count`, from 0. All shards have about the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

impl Shard {
    /// The whole job.
    pub const WHOLE: Shard = Shard { index: 0, count: 1 };
}

impl Job {
    /// Reads the job in the folder `path`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Job`].
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.join("job.json");
        let text = std::fs::read_to_string(&file).map_err(Error::io(&file))?;
        let version: Version =
            serde_json::from_str(&text).map_err(|error| Error::job(&file, error))?;
        match version.version {
            1 => serde_json::from_str(&text).map_err(|error| Error::job(&file, error)),
            2 => Err(Error::Usage(format!(
                "{} is a job of buckets: run it with `python -m warplock.bulk`",
                path.display()
            ))),
            other => Err(Error::job(&file, format_args!("its version is {other}"))),
        }
    }

    /// Units of a shard with their numbers, in the order of the files. Shards are runs of units.
    pub(crate) fn units(
        &self,
        path: &Path,
        shard: Shard,
    ) -> impl Iterator<Item = Result<(u64, Unit)>> + use<> {
        let path = path.to_owned();
        let planned = self.units;
        let total = u128::from(self.bytes) + u128::from(planned) * u128::from(OVERHEAD);
        let (mut number, mut before, parts) = (0, 0, self.parts);
        let folder = path.clone();
        let mut lines = (0..parts).flat_map(move |part| Lines::open(path.join(part_name(part))));
        let mut told = false;
        iter::from_fn(move || {
            for unit in lines.by_ref() {
                let unit = match unit {
                    Ok(unit) => unit,
                    Err(error) => {
                        // This is why some are missing, whichever thread asks next.
                        told = true;
                        return Some(Err(error));
                    }
                };
                // Each unit belongs to a shard, whatever `job.json` says about the sum.
                let own = u128::from(shard.count) * before / total.max(1);
                let own = own.min(u128::from(shard.count) - 1);
                let result = (number, unit);
                number += 1;
                before += result.1.cost();
                if own == u128::from(shard.index) {
                    return Some(Ok(result));
                }
            }
            // A file of units that was cut between two lines looks complete.
            let all = number == planned || std::mem::replace(&mut told, true);
            let why = || format!("it has {number} of {planned} units");
            (!all).then(|| Err(Error::job(&folder, why())))
        })
    }

    pub(crate) fn source_of(&self, unit: &Unit) -> PathBuf {
        self.source.0.join(&unit.path.0)
    }

    /// Where the result of a unit goes, if it has one.
    pub(crate) fn destination_of(&self, unit: &Unit) -> Option<PathBuf> {
        let folder = &self.destination.as_ref()?.0;
        let name = match unit.kind {
            Kind::File => result_name(self.operation, &unit.path.0)?,
            _ => unit.path.0.clone(),
        };
        Some(folder.join(name))
    }
}

/// The name of a file's result; `None` for what is not decrypted or verified.
pub(crate) fn result_name(operation: Operation, path: &Path) -> Option<PathBuf> {
    match operation {
        Operation::Encrypt => {
            let mut name = path.as_os_str().to_owned();
            name.push(".wl");
            Some(name.into())
        }
        _ => {
            let fits = path.extension()? == "wl";
            fits.then(|| path.with_extension(""))
        }
    }
}

pub(crate) fn part_name(part: u32) -> String {
    format!("units-{part:05}.jsonl")
}

/// The units in one file.
struct Lines {
    path: PathBuf,
    lines: Option<std::io::Lines<BufReader<File>>>,
    failed: Option<Error>,
}

impl Lines {
    fn open(path: PathBuf) -> Self {
        let (lines, failed) = match File::open(&path) {
            Ok(file) => (Some(BufReader::new(file).lines()), None),
            Err(error) => (None, Some(Error::io(&path)(error))),
        };
        Lines {
            path,
            lines,
            failed,
        }
    }
}

impl Iterator for Lines {
    type Item = Result<Unit>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let line = match self.lines.as_mut()?.next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(Error::io(&self.path)(error))),
        };
        let unit = serde_json::from_str(&line);
        Some(unit.map_err(|error| Error::job(&self.path, error)))
    }
}
