//! The source of an encrypted file, and the destination of the plain one: streams, or memory, which
//! saves copies.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use crate::error::{Error, Place, Result};
use crate::pages::GROUP;
use crate::sheet::Sheet;

/// The bytes of a file.
pub(crate) trait Source {
    fn len(&mut self) -> io::Result<u64>;

    /// A part that lies inside; `buffer` has memory for it.
    fn part<'b>(
        &'b mut self,
        start: u64,
        len: usize,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<&'b [u8]>;

    /// A column chunk that lies inside; `buffer` has memory for it.
    fn chunk<'b>(
        &'b mut self,
        start: u64,
        len: usize,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<ChunkBytes<'b>> {
        self.part(start, len, buffer).map(ChunkBytes::Whole)
    }
}

pub(crate) struct Stream<R>(pub(crate) R);

impl<R: Read + Seek> Source for Stream<R> {
    fn len(&mut self) -> io::Result<u64> {
        self.0.seek(SeekFrom::End(0))
    }

    fn part<'b>(
        &'b mut self,
        start: u64,
        len: usize,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<&'b [u8]> {
        self.0.seek(SeekFrom::Start(start))?;
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        self.0.read_exact(&mut buffer[..len])?;
        Ok(&buffer[..len])
    }
}

impl Source for &[u8] {
    fn len(&mut self) -> io::Result<u64> {
        Ok(<[u8]>::len(self) as u64)
    }

    fn part<'b>(&'b mut self, start: u64, len: usize, _: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        let rest = usize::try_from(start)
            .ok()
            .and_then(|start| self.get(start..));
        let part = rest.and_then(|rest| rest.get(..len));
        part.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Fills `buffer` from byte `offset` of a file on, whatever other threads read.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

/// As on Unix.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    let mut done = 0;
    while done < buffer.len() {
        match file.seek_read(&mut buffer[done..], offset + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => done += read,
        }
    }
    Ok(())
}

/// A mapping, for targets that are filled later: of the file, if it is given, a few bytes are read
/// faster than a page fault takes.
pub(crate) struct Mapped<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) file: Option<&'a File>,
}

impl Source for Mapped<'_> {
    fn len(&mut self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn part<'b>(
        &'b mut self,
        start: u64,
        len: usize,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<&'b [u8]> {
        self.bytes.part(start, len, buffer)
    }

    fn chunk<'b>(
        &'b mut self,
        from: u64,
        len: usize,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<ChunkBytes<'b>> {
        let Some(file) = self.file else {
            return self.part(from, len, buffer).map(ChunkBytes::Whole);
        };
        if buffer.len() < len {
            // The system gives memory only to what is written.
            *buffer = vec![0; len];
        }
        let buffer = &mut buffer[..len];
        Ok(ChunkBytes::Sparse { file, from, buffer })
    }
}

/// The bytes of a column chunk.
pub(crate) enum ChunkBytes<'a> {
    Whole(&'a [u8]),
    /// Only what was looked at is there.
    Sparse {
        file: &'a File,
        /// Where the chunk begins.
        from: u64,
        buffer: &'a mut [u8],
    },
}

impl ChunkBytes<'_> {
    pub(crate) fn all(&self) -> &[u8] {
        match self {
            ChunkBytes::Whole(bytes) => bytes,
            ChunkBytes::Sparse { buffer, .. } => buffer,
        }
    }

    /// Makes sure that this part is there, as far as the chunk goes.
    pub(crate) fn look(&mut self, part: Range<usize>) -> Result<()> {
        let ChunkBytes::Sparse { file, from, buffer } = self else {
            return Ok(());
        };
        let part = part.start..part.end.min(buffer.len());
        if part.is_empty() {
            return Ok(());
        }
        let place = *from + part.start as u64;
        read_exact_at(file, &mut buffer[part], place).map_err(Error::Read)
    }
}

/// Where the plain file goes, from front to back.
pub(crate) trait Target {
    /// Room for the next `len` bytes, which [`Target::filled`] writes.
    fn room(&mut self, len: usize) -> io::Result<&mut [u8]>;

    fn filled(&mut self, len: usize) -> io::Result<()>;

    fn flush(&mut self) -> io::Result<()>;

    /// For a target that is filled later: where it notes what belongs where.
    fn sheet(&mut self) -> Option<&mut Sheet> {
        None
    }
}

pub(crate) struct Writer<W> {
    inner: W,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are not written yet.
    full: usize,
}

/// Bytes that are gathered before they are written.
const GATHER: usize = 1 << 18;

impl<W: Write> Writer<W> {
    pub(crate) fn new(inner: W) -> Self {
        Writer {
            inner,
            buffer: Vec::new(),
            full: 0,
        }
    }

    fn empty(&mut self) -> io::Result<()> {
        let full = std::mem::take(&mut self.full);
        self.inner.write_all(&self.buffer[..full])
    }
}

impl<W: Write> Target for Writer<W> {
    fn room(&mut self, len: usize) -> io::Result<&mut [u8]> {
        if self.full + len > GATHER {
            self.empty()?;
        }
        let end = self.full + len;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        Ok(&mut self.buffer[self.full..end])
    }

    fn filled(&mut self, len: usize) -> io::Result<()> {
        self.full += len;
        if self.full >= GATHER {
            self.empty()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.empty()?;
        self.inner.flush()
    }
}

/// The caller's memory.
pub(crate) struct Memory<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) full: usize,
}

impl Target for Memory<'_> {
    fn room(&mut self, len: usize) -> io::Result<&mut [u8]> {
        let room = self.bytes[self.full..].get_mut(..len);
        room.ok_or_else(|| io::ErrorKind::WriteZero.into())
    }

    fn filled(&mut self, len: usize) -> io::Result<()> {
        self.full += len;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The input. However its metadata overlap, at most the file's length is read.
pub(crate) struct Input<'a> {
    source: &'a mut dyn Source,
    /// Where the footer begins.
    end: u64,
    /// Bytes that may still be read: the parts of a file do not overlap.
    left: u64,
}

impl<'a> Input<'a> {
    pub(crate) fn new(source: &'a mut dyn Source, end: u64) -> Self {
        Input {
            source,
            end,
            left: end,
        }
    }

    /// Refuses a part outside the file, and parts that together are longer than it.
    fn claim(&mut self, start: u64, len: u64, place: &Place) -> Result<usize> {
        // An empty part may lie anywhere.
        let is_inside =
            len == 0 || start >= 4 && start.checked_add(len).is_some_and(|end| end <= self.end);
        if !is_inside {
            return Err(place.malformed("it lies outside the file's data"));
        }
        self.left = match self.left.checked_sub(len) {
            Some(left) => left,
            None => return Err(place.malformed("it overlaps other parts of the file")),
        };
        usize::try_from(len).map_err(|_| place.malformed("it is too long"))
    }

    /// A part of the file; `buffer` has memory for it.
    pub(crate) fn part<'b>(
        &'b mut self,
        start: u64,
        len: u64,
        buffer: &'b mut Vec<u8>,
        place: &Place,
    ) -> Result<&'b [u8]> {
        match self.claim(start, len, place)? {
            0 => Ok(&[]),
            len => self.source.part(start, len, buffer).map_err(Error::Read),
        }
    }

    /// A column chunk; `buffer` has memory for it.
    pub(crate) fn chunk<'b>(
        &'b mut self,
        from: u64,
        len: u64,
        buffer: &'b mut Vec<u8>,
        place: &Place,
    ) -> Result<ChunkBytes<'b>> {
        match self.claim(from, len, place)? {
            0 => Ok(ChunkBytes::Whole(&[])),
            len => self.source.chunk(from, len, buffer).map_err(Error::Read),
        }
    }

    pub(crate) fn read(&mut self, start: u64, len: u64, place: &Place) -> Result<Vec<u8>> {
        let mut buffer = Vec::new();
        let part = self.part(start, len, &mut buffer, place)?;
        Ok(part.to_vec())
    }

    /// Reads the module at `start`, whose length is in its first four bytes.
    pub(crate) fn read_module(&mut self, start: u64, place: &Place) -> Result<Vec<u8>> {
        let prefix = self.read(start, 4, place)?;
        self.left += 4;
        let prefix = prefix.iter().rev();
        let len = prefix.fold(0, |len, byte| len << 8 | u64::from(*byte));
        self.read(start, len + 4, place)
    }

    /// Up to `most` bytes from `start` on, of something whose length is not known yet.
    pub(crate) fn peek(&mut self, start: u64, most: u64, place: &Place) -> Result<Vec<u8>> {
        let len = most.min(self.end.saturating_sub(start));
        let left = self.left;
        self.left = u64::MAX;
        let bytes = self.read(start, len, place);
        self.left = left;
        bytes
    }

    /// Copies a part of the file.
    pub(crate) fn copy(
        &mut self,
        mut start: u64,
        len: u64,
        output: &mut Output<'_>,
        place: &Place,
    ) -> Result<()> {
        let mut left = self.claim(start, len, place)?;
        let mut buffer = Vec::new();
        while left > 0 {
            let some = left.min(GROUP);
            let noted = output.note(|sheet| {
                sheet.copy(start, some);
                some
            });
            if noted.is_some() {
                start += some as u64;
                left -= some;
                continue;
            }
            let some = left.min(GATHER);
            let bytes = self.source.part(start, some, &mut buffer);
            output.write(bytes.map_err(Error::Read)?)?;
            start += some as u64;
            left -= some;
        }
        Ok(())
    }
}

/// An output that knows how far it is.
pub(crate) struct Output<'a> {
    target: &'a mut dyn Target,
    at: u64,
}

impl<'a> Output<'a> {
    pub(crate) fn new(target: &'a mut dyn Target) -> Self {
        Output { target, at: 0 }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Lets a target that is filled later note bytes, and gives their number; `None` for others.
    pub(crate) fn note(&mut self, note: impl FnOnce(&mut Sheet) -> usize) -> Option<()> {
        self.at += note(self.target.sheet()?) as u64;
        Some(())
    }

    /// Writes `len` bytes that `fill` puts in place.
    pub(crate) fn fill(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        fill(self.target.room(len).map_err(Error::Write)?)?;
        self.target.filled(len).map_err(Error::Write)?;
        self.at += len as u64;
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.fill(bytes.len(), |room| {
            room.copy_from_slice(bytes);
            Ok(())
        })
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.target.flush().map_err(Error::Write)
    }
}
