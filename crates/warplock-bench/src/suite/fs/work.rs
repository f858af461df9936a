//! The tasks: typical work of programs with files.

use std::fs::{self, OpenOptions};
use std::hash::Hasher;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use super::tree::{Tree, run};
use crate::error::Result;
use crate::report::Unit;
use crate::{Error, random};

/// A sequential read or write.
const CHUNK: usize = 1 << 20;
/// A random read or write.
const BLOCK: usize = 4096;
/// Random reads or writes in one run.
const RANDOM: usize = 40_000;
/// Threads that read or write at random.
const THREADS: usize = 4;

/// One task.
pub(super) struct Task {
    /// Name in JSON.
    pub(super) key: &'static str,
    /// Heading.
    pub(super) title: &'static str,
    /// What is shown.
    pub(super) unit: Unit,
    work: fn(&Path, &File, &Tree) -> Result<f64>,
}

/// In this order: each starts with the files that those before it left.
pub(super) const TASKS: [Task; 8] = [
    Task {
        key: "write",
        title: "write\n1 MiB",
        unit: Unit::BytesPerSecond,
        work: write,
    },
    Task {
        key: "read",
        title: "read\n1 MiB",
        unit: Unit::BytesPerSecond,
        work: read,
    },
    Task {
        key: "random_read",
        title: "read\n4 KiB/s",
        unit: Unit::PerSecond,
        work: random_read,
    },
    Task {
        key: "random_write",
        title: "write\n4 KiB/s",
        unit: Unit::PerSecond,
        work: random_write,
    },
    Task {
        key: "untar",
        title: "untar",
        unit: Unit::Seconds,
        work: untar,
    },
    Task {
        key: "list",
        title: "ls -lR",
        unit: Unit::Seconds,
        work: list,
    },
    Task {
        key: "checksum",
        title: "read all",
        unit: Unit::Seconds,
        work: read_all,
    },
    Task {
        key: "remove",
        title: "rm -r",
        unit: Unit::Seconds,
        work: remove,
    },
];

impl Task {
    /// Does it in `folder`; the seconds it took.
    pub(super) fn run(&self, folder: &Path, file: &File, tree: &Tree) -> Result<f64> {
        (self.work)(folder, file, tree)
    }

    /// What is shown for `seconds`.
    pub(super) fn value(&self, seconds: f64, file: &File, _: &Tree) -> f64 {
        match self.unit {
            Unit::BytesPerSecond => file.len() as f64 / seconds,
            Unit::PerSecond => file.places.len() as f64 / seconds,
            _ => seconds,
        }
    }
}

/// The content of the large file: one random piece again and again, which differs at each place
/// by where it starts.
pub(super) struct File {
    piece: Vec<u8>,
    chunks: usize,
    /// Blocks in random order.
    places: Vec<u64>,
}

impl File {
    pub(super) fn new(len: u64) -> Result<Self> {
        let chunks = usize::try_from(len / CHUNK as u64).unwrap_or(0).max(1);
        let blocks = chunks * (CHUNK / BLOCK);
        let mut places: Vec<u64> = (0..blocks as u64).collect();
        // Fisher and Yates.
        for last in (1..places.len()).rev() {
            let other = random::number()? % (last as u64 + 1);
            places.swap(last, other as usize);
        }
        places.truncate(RANDOM);
        Ok(File {
            piece: random::bytes(2 * CHUNK)?,
            chunks,
            places,
        })
    }

    fn len(&self) -> u64 {
        (self.chunks * CHUNK) as u64
    }

    fn chunk(&self, number: usize) -> &[u8] {
        &self.piece[number * 8 % CHUNK..][..CHUNK]
    }

    fn block(&self, number: u64) -> &[u8] {
        let each = CHUNK / BLOCK;
        let (chunk, block) = (number as usize / each, number as usize % each);
        &self.chunk(chunk)[block * BLOCK..][..BLOCK]
    }
}

const NAME: &str = "large file";

fn open(folder: &Path, options: &mut OpenOptions) -> Result<fs::File> {
    let path = folder.join(NAME);
    options.open(&path).map_err(Error::file("open", &path))
}

fn write(folder: &Path, content: &File, _: &Tree) -> Result<f64> {
    let mut file = open(folder, OpenOptions::new().write(true).create_new(true))?;
    let failed = |error| Error::file("write", &folder.join(NAME))(error);
    let start = Instant::now();
    for number in 0..content.chunks {
        file.write_all(content.chunk(number)).map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;
    Ok(start.elapsed().as_secs_f64())
}

fn read(folder: &Path, content: &File, _: &Tree) -> Result<f64> {
    let mut file = open(folder, OpenOptions::new().read(true))?;
    let failed = |error| Error::file("read", &folder.join(NAME))(error);
    let mut buffer = vec![0; CHUNK];
    let start = Instant::now();
    for _ in 0..content.chunks {
        file.read_exact(&mut buffer).map_err(failed)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    // Now from the kernel's cache.
    for number in 0..content.chunks {
        let place = (number * CHUNK) as u64;
        file.read_exact_at(&mut buffer, place).map_err(failed)?;
        if buffer != content.chunk(number) {
            return Err(Error::Wrong(format!("megabyte {number} was read wrongly")));
        }
    }
    Ok(seconds)
}

/// Seconds for `work` on all random blocks, by several threads.
fn at_random(content: &File, work: impl Fn(u64, &mut [u8]) -> Result<()> + Sync) -> Result<f64> {
    let share = content.places.len().div_ceil(THREADS);
    let start = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = content
            .places
            .chunks(share)
            .map(|places| {
                let work = &work;
                scope.spawn(move || {
                    let mut buffer = [0; BLOCK];
                    places
                        .iter()
                        .try_for_each(|&place| work(place, &mut buffer))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_| Error::Wrong("a thread panicked".to_owned()))?
        })
    })?;
    Ok(start.elapsed().as_secs_f64())
}

fn random_read(folder: &Path, content: &File, _: &Tree) -> Result<f64> {
    let file = open(folder, OpenOptions::new().read(true))?;
    // No read-ahead: only requested bytes are read.
    fadvise(&file, 0, None, Advice::Random)
        .map_err(|error| Error::file("read", &folder.join(NAME))(error.into()))?;
    at_random(content, |place, buffer| {
        file.read_exact_at(buffer, place * BLOCK as u64)
            .map_err(Error::file("read", &folder.join(NAME)))?;
        match &buffer[..] == content.block(place) {
            true => Ok(()),
            false => Err(Error::Wrong(format!("block {place} was read wrongly"))),
        }
    })
}

fn random_write(folder: &Path, content: &File, _: &Tree) -> Result<f64> {
    let file = open(folder, OpenOptions::new().write(true))?;
    let start = Instant::now();
    at_random(content, |place, _| {
        file.write_all_at(content.block(place), place * BLOCK as u64)
            .map_err(Error::file("write", &folder.join(NAME)))
    })?;
    file.sync_all()
        .map_err(Error::file("write", &folder.join(NAME)))?;
    let seconds = start.elapsed().as_secs_f64();
    drop(file);
    // Makes room for the small files.
    let path = folder.join(NAME);
    fs::remove_file(&path).map_err(Error::file("remove", &path))?;
    Ok(seconds)
}

fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    run(command)?;
    Ok(start.elapsed().as_secs_f64())
}

fn untar(folder: &Path, _: &File, tree: &Tree) -> Result<f64> {
    timed(
        Command::new("tar")
            .arg("-xf")
            .arg(tree.archive())
            .arg("-C")
            .arg(folder),
    )
}

fn list(folder: &Path, _: &File, _: &Tree) -> Result<f64> {
    timed(Command::new("ls").arg("-lR").arg(folder))
}

fn read_all(folder: &Path, _: &File, tree: &Tree) -> Result<f64> {
    let start = Instant::now();
    for (path, sum) in tree.files() {
        let path = folder.join(path);
        let content = fs::read(&path).map_err(Error::file("read", &path))?;
        if checksum(&content) != *sum {
            return Err(Error::Wrong(format!("{} was read wrongly", path.display())));
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

fn remove(folder: &Path, _: &File, _: &Tree) -> Result<f64> {
    timed(Command::new("rm").arg("-r").arg(folder.join("tree")))
}

/// Tells contents apart; no more.
pub(super) fn checksum(content: &[u8]) -> u64 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}
