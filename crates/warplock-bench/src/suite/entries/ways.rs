//! Ways through the files: the simple loop, the tool's own, and plain copies as the limit.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;

use warplock::Engine;

use super::access::{Access, CACHED_PIECE};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::generate::{ENTRY, encrypt_entries_in_place};
use crate::{Error, size, workers};

/// One way from keys and plaintexts to an output.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// One thread: read a chunk of keys, one of plaintexts, encrypt, write, as the published loop.
    Simple {
        /// Bytes of a chunk.
        chunk: u64,
    },
    /// The tool's own way: each worker reads, encrypts and writes pieces of its own.
    Overlapped {
        /// CPU threads; from a disk, there are more workers.
        threads: NonZeroUsize,
    },
    /// The same without the cipher: the output is the plaintexts.
    ParallelCopy {
        /// As above.
        threads: NonZeroUsize,
    },
    /// One thread that copies as `cat` and `cp` do: reads the keys, then copies the plaintexts.
    PlainCopy,
}

/// The files of a run. All hold `len` bytes at the end.
pub(super) struct Ends<'a> {
    pub(super) keys: &'a File,
    pub(super) plains: &'a File,
    pub(super) output: &'a File,
    pub(super) len: u64,
}

impl Way {
    /// Its label.
    pub(super) fn name(&self) -> String {
        match self {
            Way::Simple { chunk } => format!("simple loop, {}, 1 thread", size::name(*chunk)),
            Way::Overlapped { threads } => {
                format!("overlapped reads and writes, {threads} threads")
            }
            Way::ParallelCopy { threads } => {
                format!("limit: the same without the cipher, {threads} threads")
            }
            Way::PlainCopy => "limit: plain copy, 1 thread".to_owned(),
        }
    }

    /// Bytes of the simple loop's chunk.
    pub(super) fn chunk(&self) -> Option<u64> {
        match self {
            Way::Simple { chunk } => Some(*chunk),
            _ => None,
        }
    }

    /// Whether the output is ciphertext.
    pub(super) fn is_cipher(&self) -> bool {
        matches!(self, Way::Simple { .. } | Way::Overlapped { .. })
    }

    /// Goes through the files. `engine` runs on the thread that calls it.
    pub(super) fn run(&self, engine: &Engine, ends: &Ends<'_>) -> Result<()> {
        let none = |_: &[u8], _: &mut [u8]| Ok(());
        let cipher = |keys: &[u8], texts: &mut [u8]| encrypt_entries_in_place(engine, keys, texts);
        match *self {
            Way::Simple { chunk } => {
                let chunk = (chunk - chunk % ENTRY).min(ends.len);
                let access = Access::cached(ends.files(), NonZeroUsize::MIN, chunk);
                ends.pieces(&access, cipher)
            }
            Way::Overlapped { threads } => ends.pieces(&ends.best(threads), cipher),
            Way::ParallelCopy { threads } => ends.pieces(&ends.best(threads), none),
            Way::PlainCopy => ends.copy().map_err(failed),
        }
    }
}

fn failed(source: io::Error) -> Error {
    Error::Input(format!("reading or writing the entries failed: {source}"))
}

impl Ends<'_> {
    fn files(&self) -> [&File; 3] {
        [self.keys, self.plains, self.output]
    }

    fn best(&self, threads: NonZeroUsize) -> Access<'_, 3> {
        Access::best(self.files(), 2, self.len, threads)
    }

    /// Workers that take pieces in turn: read keys and texts, work on them, write.
    fn pieces(
        &self,
        access: &Access<'_, 3>,
        work: impl Fn(&[u8], &mut [u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let Access {
            files: [from_keys, from_plains, to],
            workers,
            piece,
        } = access;
        let buffers = || [(); 2].map(|()| Buffer::new(*piece as usize));
        workers::run(
            *workers,
            self.len,
            *piece,
            buffers,
            |[keys, texts], range| {
                let len = (range.end - range.start) as usize;
                let (keys, texts) = (&mut keys[..len], &mut texts[..len]);
                from_keys.read(keys, range.start).map_err(failed)?;
                from_plains.read(texts, range.start).map_err(failed)?;
                work(keys, texts)?;
                to.write(texts, range.start).map_err(failed)
            },
        )
    }

    fn copy(&self) -> io::Result<()> {
        let mut buffer = Buffer::new(CACHED_PIECE as usize);
        let mut pieces = |from: &File, to: Option<&File>| {
            for start in (0..self.len).step_by(CACHED_PIECE as usize) {
                let piece = &mut buffer[..CACHED_PIECE.min(self.len - start) as usize];
                from.read_exact_at(piece, start)?;
                to.map_or(Ok(()), |to| to.write_all_at(piece, start))?;
            }
            Ok(())
        };
        pieces(self.keys, None)?;
        pieces(self.plains, Some(self.output))
    }
}
