//! Ways through the files: the simple loop, the tool's own, and plain copies as the limit.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;

use warplock::Engine;

use super::access::{Access, CACHED_PIECE};
use super::profile::{Meter, Step};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::generate::{ENTRY, encrypt_entries_in_place};
use crate::{Error, size, workers};

/// One way from keys and plaintexts to an output.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// One thread, which reads and writes an entry at a time through buffers as C's `fread` and
    /// `fwrite` have them, as the first version of the published program. The engine encrypts a
    /// buffer's entries in one call: a call takes 0.1 us, much longer than an entry.
    OneByOne,
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
            Way::OneByOne => "an entry at a time, buffered".to_owned(),
            Way::Simple { chunk } => format!("simple loop, {}", size::name(*chunk)),
            Way::Overlapped { threads } => format!("overlapped, {}", named(*threads)),
            Way::ParallelCopy { threads } => {
                format!("limit: overlapped, no cipher, {}", named(*threads))
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
        !matches!(self, Way::ParallelCopy { .. } | Way::PlainCopy)
    }

    /// Goes through the files. `engine` runs on the thread that calls it.
    pub(super) fn run(&self, engine: &Engine, ends: &Ends<'_>, meter: &Meter) -> Result<()> {
        let none = |_: &[u8], _: &mut [u8]| Ok(());
        let cipher = |keys: &[u8], texts: &mut [u8]| encrypt_entries_in_place(engine, keys, texts);
        match *self {
            Way::OneByOne => ends.one_by_one(engine),
            Way::Simple { chunk } => {
                let chunk = (chunk - chunk % ENTRY).min(ends.len);
                let access = Access::cached(ends.files(), NonZeroUsize::MIN, chunk);
                ends.pieces(&access, cipher, meter)
            }
            Way::Overlapped { threads } => ends.pieces(&ends.best(threads), cipher, meter),
            Way::ParallelCopy { threads } => ends.pieces(&ends.best(threads), none, meter),
            Way::PlainCopy => ends.copy().map_err(failed),
        }
    }
}

const ENTRY_LEN: usize = ENTRY as usize;

/// Bytes that libraries of C read and write at a time.
const LIBC_BUFFER: usize = 4 << 10;

/// A file from its start on, whatever its position.
struct Offset<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> Offset<'a> {
    fn new(file: &'a File) -> Self {
        Offset { file, at: 0 }
    }
}

impl Read for Offset<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Write for Offset<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(buffer, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `1 thread`, `2 threads`.
pub(super) fn named(threads: NonZeroUsize) -> String {
    match threads.get() {
        1 => "1 thread".to_owned(),
        many => format!("{many} threads"),
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
        meter: &Meter,
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
                meter.step(Step::Read, || {
                    from_keys.read(keys, range.start).map_err(failed)?;
                    from_plains.read(texts, range.start).map_err(failed)
                })?;
                meter.step(Step::Cipher, || work(keys, texts))?;
                meter.step(Step::Write, || to.write(texts, range.start).map_err(failed))
            },
        )
    }

    fn one_by_one(&self, engine: &Engine) -> Result<()> {
        let mut keys = BufReader::with_capacity(LIBC_BUFFER, Offset::new(self.keys));
        let mut plains = BufReader::with_capacity(LIBC_BUFFER, Offset::new(self.plains));
        let mut output = BufWriter::with_capacity(LIBC_BUFFER, Offset::new(self.output));
        let (mut own_keys, mut texts) = ([0; LIBC_BUFFER], [0; LIBC_BUFFER]);
        for start in (0..self.len).step_by(LIBC_BUFFER) {
            let len = (self.len - start).min(LIBC_BUFFER as u64) as usize;
            let (own_keys, texts) = (&mut own_keys[..len], &mut texts[..len]);
            let each = own_keys.as_chunks_mut::<ENTRY_LEN>().0.iter_mut();
            for (key, text) in each.zip(texts.as_chunks_mut::<ENTRY_LEN>().0) {
                keys.read_exact(key).map_err(failed)?;
                plains.read_exact(text).map_err(failed)?;
            }
            encrypt_entries_in_place(engine, own_keys, texts)?;
            for text in texts.as_chunks::<ENTRY_LEN>().0 {
                output.write_all(text).map_err(failed)?;
            }
        }
        output.flush().map_err(failed)
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
