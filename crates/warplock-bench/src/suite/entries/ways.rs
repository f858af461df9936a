//! Ways through the files: the simple loop, the tool's own, and plain copies as the limit.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;

use warplock::Engine;

use crate::buffer::Buffer;
use crate::error::Result;
use crate::generate::{ENTRY, encrypt_entries_in_place};
use crate::{Error, size, workers};

/// Bytes of each file that a worker reads, encrypts in place and writes at a time: keys and texts
/// together stay in the second cache, and the three system calls cost under 1 % of the work on
/// them, which is all that `io_uring` could save.
///
/// What else was measured (16 M entries, ext4 and tmpfs, 2 AES-NI cores): mapped inputs took 12 %
/// less CPU time where the kernel has large folios, but no less wall time, and a file that shrinks
/// would kill the process; direct I/O was slower from a cold disk, read-ahead and write-behind
/// already overlap; pieces of 4 MiB took twice the CPU time; more workers than cores gained
/// nothing. Preallocated outputs were a little faster to disk, and a full disk shows at once.
const PIECE: u64 = 128 << 10;

/// One way from keys and plaintexts to an output.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// One thread: read a chunk of keys, one of plaintexts, encrypt, write, as the published loop.
    Simple {
        /// Bytes of a chunk.
        chunk: u64,
    },
    /// The tool's own way: each thread reads, encrypts and writes pieces of its own.
    Overlapped {
        /// How many.
        threads: NonZeroUsize,
    },
    /// The same without the cipher: the output is the plaintexts.
    ParallelCopy {
        /// How many.
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
                format!("overlapped pread/pwrite, {threads} threads")
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
                ends.pieces(NonZeroUsize::MIN, chunk, cipher)
            }
            Way::Overlapped { threads } => ends.pieces(threads, PIECE, cipher),
            Way::ParallelCopy { threads } => ends.pieces(threads, PIECE, none),
            Way::PlainCopy => ends.copy().map_err(failed),
        }
    }
}

fn failed(source: io::Error) -> Error {
    Error::Input(format!("reading or writing the entries failed: {source}"))
}

impl Ends<'_> {
    /// Threads that take pieces in turn: read keys and texts, work on them, write.
    fn pieces(
        &self,
        threads: NonZeroUsize,
        piece: u64,
        work: impl Fn(&[u8], &mut [u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let buffers = || [(); 2].map(|()| Buffer::new(piece as usize));
        workers::run(threads, self.len, piece, buffers, |[keys, texts], range| {
            let len = (range.end - range.start) as usize;
            let (keys, texts) = (&mut keys[..len], &mut texts[..len]);
            self.keys.read_exact_at(keys, range.start).map_err(failed)?;
            self.plains
                .read_exact_at(texts, range.start)
                .map_err(failed)?;
            work(keys, texts)?;
            self.output.write_all_at(texts, range.start).map_err(failed)
        })
    }

    fn copy(&self) -> io::Result<()> {
        let mut buffer = Buffer::new(PIECE as usize);
        let mut pieces = |from: &File, to: Option<&File>| {
            for start in (0..self.len).step_by(PIECE as usize) {
                let piece = &mut buffer[..PIECE.min(self.len - start) as usize];
                from.read_exact_at(piece, start)?;
                to.map_or(Ok(()), |to| to.write_all_at(piece, start))?;
            }
            Ok(())
        };
        pieces(self.keys, None)?;
        pieces(self.plains, Some(self.output))
    }
}
