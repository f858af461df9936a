//! Sources of input: anything that can be read at a position, or only front to back.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;

use crate::system;

/// Input that can be read at any position, by many threads at the same time.
pub trait ReadAt: Sync {
    /// Reads into `buffer` from byte `offset` on, as `pread` does: returns how many bytes it
    /// read, and 0 only at the end.
    ///
    /// # Errors
    /// What the system says; `Interrupted` is tried again.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `buffer` from byte `offset` on.
    ///
    /// # Errors
    /// What the system says; `UnexpectedEof` if there are not as many bytes.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = |rest: &mut [u8], done| self.read_at(rest, offset + done);
        match read_full(read, buffer, || false)? {
            len if len == buffer.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// On Windows, this also moves the file's own position.
impl ReadAt for &File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        system::read_at(self, buffer, offset)
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).map_or(self.len(), |offset| offset.min(self.len()));
        (&self[start..]).read(buffer)
    }
}

/// The source of input. `Read` takes bytes from its start, an envelope for example; the rest is for
/// [`crate::seal`] or [`crate::open`].
pub struct Source<'a>(pub(crate) Kind<'a>);

pub(crate) enum Kind<'a> {
    /// The bytes from `start` to `end`.
    Positioned {
        data: Box<dyn ReadAt + 'a>,
        start: u64,
        end: u64,
    },
    Sequential(Box<dyn Read + Send + 'a>),
}

impl<'a> Source<'a> {
    /// An open file, from its current position to its end: a regular file is read by many threads
    /// at the same time, anything else (a pipe, a terminal, a file in `/proc` that claims to be
    /// empty) from front to back.
    ///
    /// A regular file's length is taken now: what is appended later is left out. One that has no
    /// byte at the end of that length, such as the files of `/sys`, is read from front to back.
    ///
    /// # Errors
    /// What the system says about the file.
    pub fn file(file: &'a File) -> io::Result<Self> {
        let len = system::regular(file)?.map(|metadata| metadata.len());
        let Some(len) = len.filter(|&len| system::has_length(file, len)) else {
            return Ok(Source::sequential(file));
        };
        let start = (&mut &*file).stream_position()?;
        Ok(Source::positioned(file, start..len))
    }

    /// The bytes `range` of something that can be read at any position.
    pub fn positioned(data: impl ReadAt + 'a, range: Range<u64>) -> Self {
        let (start, end) = (range.start, range.end.max(range.start));
        Source(Kind::Positioned {
            data: Box::new(data),
            start,
            end,
        })
    }

    /// Bytes in memory.
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Source::positioned(bytes, 0..bytes.len() as u64)
    }

    /// Anything that can only be read from front to back.
    pub fn sequential(reader: impl Read + Send + 'a) -> Self {
        Source(Kind::Sequential(Box::new(reader)))
    }

    /// How many bytes are left, if that is known before reading them.
    pub fn remaining(&self) -> Option<u64> {
        match &self.0 {
            Kind::Positioned { start, end, .. } => Some(end - start),
            Kind::Sequential(_) => None,
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Positioned { data, start, end } => {
                let len = (*end - *start).min(buffer.len() as u64) as usize;
                let read = data.read_at(&mut buffer[..len], *start)?;
                *start += read as u64;
                Ok(read)
            }
            Kind::Sequential(reader) => reader.read(buffer),
        }
    }
}

/// Fills `buffer`; returns fewer bytes than fit only at the end. An interrupted read is tried
/// again, unless `cancelled` says that it was interrupted to stop.
pub(crate) fn read_full(
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    buffer: &mut [u8],
    cancelled: impl Fn() -> bool,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match read(&mut buffer[done..], done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted && !cancelled() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Fills `buffer` from a reader's front; returns fewer bytes than fit only at the end.
pub(crate) fn take(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    read_full(|rest, _| reader.read(rest), buffer, || false)
}
