//! The source of an encrypted file, and the destination of the plain one.

use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::error::{Error, Place, Result};

/// The input. However its metadata overlap, at most the file's length is read.
pub(crate) struct Input<R> {
    reader: R,
    /// Where the footer begins.
    end: u64,
    /// Bytes that may still be read: the parts of a file do not overlap.
    left: u64,
}

impl<R: Read + Seek> Input<R> {
    pub(crate) fn new(reader: R, end: u64) -> Self {
        Input {
            reader,
            end,
            left: end,
        }
    }

    /// Seeks to a part of the file.
    fn part(&mut self, start: u64, len: u64, place: &Place) -> Result<&mut R> {
        // Nothing may lie anywhere.
        let is_inside =
            len == 0 || start >= 4 && start.checked_add(len).is_some_and(|end| end <= self.end);
        if !is_inside {
            return Err(place.malformed("it lies outside the file's data"));
        }
        self.left = match self.left.checked_sub(len) {
            Some(left) => left,
            None => return Err(place.malformed("it overlaps other parts of the file")),
        };
        self.reader
            .seek(SeekFrom::Start(start))
            .map_err(Error::Read)?;
        Ok(&mut self.reader)
    }

    /// Reads a part of the file; `buffer` keeps its memory.
    pub(crate) fn read_into(
        &mut self,
        start: u64,
        len: u64,
        buffer: &mut Vec<u8>,
        place: &Place,
    ) -> Result<()> {
        let reader = self.part(start, len, place)?;
        let len = usize::try_from(len).map_err(|_| place.malformed("it is too long"))?;
        buffer.resize(len, 0);
        reader.read_exact(buffer).map_err(Error::Read)
    }

    pub(crate) fn read(&mut self, start: u64, len: u64, place: &Place) -> Result<Vec<u8>> {
        let mut buffer = Vec::new();
        self.read_into(start, len, &mut buffer, place)?;
        Ok(buffer)
    }

    /// Reads the module at `start`, whose length is in its first four bytes.
    pub(crate) fn read_module(&mut self, start: u64, place: &Place) -> Result<Vec<u8>> {
        let prefix = self.read(start, 4, place)?;
        self.left += 4;
        let len = prefix
            .iter()
            .rev()
            .fold(0, |len, byte| len << 8 | u64::from(*byte));
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
        start: u64,
        len: u64,
        output: &mut Output<impl Write>,
        place: &Place,
    ) -> Result<()> {
        let mut reader = self.part(start, len, place)?.take(len);
        let mut buffer = vec![0; 1 << 18];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) if reader.limit() == 0 => return Ok(()),
                Ok(0) => return Err(Error::Read(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => output.write(&buffer[..read])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Read(error)),
            }
        }
    }
}

/// An output that knows how far it is.
pub(crate) struct Output<W> {
    writer: W,
    at: u64,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(writer: W) -> Self {
        Output { writer, at: 0 }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(Error::Write)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(Error::Write)
    }
}
