//! The folder's files: opened, checked, and compared.

use std::fs::File;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, fadvise};
use warplock::Engine;

use super::access::Access;
use super::profile::Meter;
use super::ways::{Ends, Way};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::generate::{CIPHERS, ENTRY, KEYS, PLAINS};
use crate::measure::{Timing, time};
use crate::output::{Output, check_room};
use crate::table::grouped;
use crate::{Error, workers};

/// The file that a run makes.
const OUTPUT: &str = "ciphers.out.bin";

/// Buffers for reading inputs outside of measurements.
const READ: usize = 1 << 20;

/// The three files of a folder, equally long.
pub(super) struct Files {
    dir: PathBuf,
    keys: File,
    plains: File,
    ciphers: File,
    len: u64,
    threads: NonZeroUsize,
}

impl Files {
    pub(super) fn open(dir: &Path, threads: NonZeroUsize) -> Result<Self> {
        let [(keys, len), (plains, plains_len), (ciphers, ciphers_len)] =
            [open(dir, KEYS)?, open(dir, PLAINS)?, open(dir, CIPHERS)?];
        for (name, other) in [(PLAINS, plains_len), (CIPHERS, ciphers_len)] {
            if other != len {
                return Err(Error::Input(format!(
                    "{} has {} bytes, but {name} next to it has {}: the files must hold equally \
                     many entries",
                    dir.join(KEYS).display(),
                    grouped(len),
                    grouped(other)
                )));
            }
        }
        if len == 0 || !len.is_multiple_of(ENTRY) {
            return Err(Error::Input(format!(
                "{} has {} bytes: entries have {ENTRY} bytes each, and there must be at least one",
                dir.join(KEYS).display(),
                grouped(len)
            )));
        }
        check_room(dir, len)?;
        Ok(Files {
            dir: dir.to_owned(),
            keys,
            plains,
            ciphers,
            len,
            threads,
        })
    }

    /// Bytes of each file.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn entries(&self) -> u64 {
        self.len / ENTRY
    }

    /// Reads the inputs once: otherwise the first way would fetch them for all.
    pub(super) fn read_inputs(&self) -> Result<()> {
        let mut buffer = Buffer::new(READ);
        for (file, name) in [(&self.keys, KEYS), (&self.plains, PLAINS)] {
            let path = self.dir.join(name);
            for start in (0..self.len).step_by(READ) {
                let piece = &mut buffer[..(self.len - start).min(READ as u64) as usize];
                file.read_exact_at(piece, start)
                    .map_err(Error::file("read", &path))?;
            }
        }
        Ok(())
    }

    /// One timed run into a new file.
    pub(super) fn run(
        &self,
        way: &Way,
        engine: &Engine,
        cold: bool,
        meter: &Meter,
    ) -> Result<(Output, Timing)> {
        let path = self.dir.join(OUTPUT);
        let output = Output::create(&path)?;
        if cold {
            for file in [&self.keys, &self.plains] {
                let dropped = fadvise(file, 0, None, Advice::DontNeed);
                dropped
                    .map_err(|error| Error::file("drop from memory", &self.dir)(error.into()))?;
            }
        }
        let ends = Ends {
            keys: &self.keys,
            plains: &self.plains,
            output: output.file(),
            len: self.len,
        };
        let ((), timing) = time(|| {
            output.allocate(self.len)?;
            way.run(engine, &ends, meter)?;
            match cold {
                true => output
                    .file()
                    .sync_all()
                    .map_err(Error::file("write", &path)),
                false => Ok(()),
            }
        })?;
        Ok((output, timing))
    }

    /// Refuses an output with wrong content.
    pub(super) fn compare(&self, way: &Way, output: &File) -> Result<()> {
        let (expected, name) = if way.is_cipher() {
            (&self.ciphers, CIPHERS)
        } else {
            (&self.plains, PLAINS)
        };
        let first = AtomicU64::new(u64::MAX);
        let Access {
            files: [expected, output],
            workers,
            piece,
        } = Access::best([expected, output], 2, self.len, self.threads);
        let buffers = || [(); 2].map(|()| Buffer::new(piece as usize));
        workers::run(workers, self.len, piece, buffers, |[a, b], range| {
            let len = (range.end - range.start) as usize;
            let (a, b) = (&mut a[..len], &mut b[..len]);
            let failed = || Error::file("read", &self.dir);
            expected.read(a, range.start).map_err(failed())?;
            output.read(b, range.start).map_err(failed())?;
            if a != b {
                let byte = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
                first.fetch_min((range.start + byte as u64) / ENTRY, Ordering::Relaxed);
            }
            Ok(())
        })?;
        match first.into_inner() {
            u64::MAX => Ok(()),
            entry => Err(Error::Wrong(format!(
                "{}: entry {} differs from what '{}' computed (byte {} of the file)",
                self.dir.join(name).display(),
                grouped(entry),
                way.name(),
                grouped(entry * ENTRY)
            ))),
        }
    }
}

/// A file and its length.
fn open(dir: &Path, name: &str) -> Result<(File, u64)> {
    let path = dir.join(name);
    let file = File::open(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::Input(format!(
            "there is no {}; `warplock gen --entries N {}` makes it",
            path.display(),
            dir.display()
        )),
        _ => Error::file("read", &path)(error),
    })?;
    let len = file.metadata().map_err(Error::file("read", &path))?.len();
    Ok((file, len))
}
