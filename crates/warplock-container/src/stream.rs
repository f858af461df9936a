//! Sealing and opening whole streams and ranges of them.

use std::io::{self, Write};
use std::ops::{Bound, Range, RangeBounds};

use warplock::Direction;
use zeroize::Zeroizing;

use crate::cipher::{Cipher, Run};
use crate::error::{Error, Result};
use crate::foreign::Foreign;
use crate::key::InputKey;
use crate::layout::{
    CHUNK_LEN, HEADER_LEN, Header, SEALED_CHUNK_LEN, chunk_count, opened_body_len, sealed_len,
};
use crate::pipeline::Pipeline;
use crate::sink::Sink;
use crate::source::{Kind, ReadAt, Source, read_full, take};
use crate::workers::{Task, run};

const EVERYTHING: Range<u64> = 0..u64::MAX;

/// Seals all of `source` as one stream into `sink`, under a fresh salt. Returns the stream's
/// length in bytes.
///
/// # Errors
/// [`Error::Read`], [`Error::Write`], [`Error::InputShrank`], [`Error::TooLong`],
/// [`Error::Cancelled`], [`Error::Randomness`], [`Error::Engine`]. The output is then to be thrown
/// away.
pub fn seal(
    source: Source<'_>,
    mut sink: Sink<'_>,
    key: &InputKey,
    pipeline: &Pipeline,
) -> Result<u64> {
    if let Some(plain_len) = source.remaining() {
        let len = sealed_len(plain_len).ok_or(Error::TooLong)?;
        sink.reserve(len).map_err(Error::Write)?;
    }
    let cipher = Cipher::fresh(key)?;
    sink.write_all(cipher.header().as_bytes())
        .map_err(Error::Write)?;
    let task = Task {
        direction: Direction::Encrypt,
        cipher: &cipher,
        pipeline,
        chunks: None,
        clip: EVERYTHING,
    };
    Ok(HEADER_LEN as u64 + run(source, sink, &task)?)
}

/// Verifies and opens the stream in `source` into `sink`. Returns the length of the plaintext in
/// bytes.
///
/// A sequential sink gets each segment as soon as it was verified, and of one with a fault all chunks
/// before it; only when this function returns is it certain that nothing is missing. If an error comes back, a positioned sink's
/// content is to be thrown away.
///
/// # Errors
/// Those of kind [`crate::ErrorKind::Authentication`] say what is wrong with the stream; of several
/// faults, the one with the lowest chunk number is reported (the length of a positioned source is
/// checked first). Also [`Error::Empty`], [`Error::NotWarplock`], and those of [`seal`].
pub fn open(
    mut source: Source<'_>,
    mut sink: Sink<'_>,
    key: &InputKey,
    pipeline: &Pipeline,
) -> Result<u64> {
    let cipher = Cipher::for_stream(key, &mut source)?;
    pipeline.monitor().add(HEADER_LEN as u64);
    if let Kind::Positioned { data, start, end } = &source.0 {
        let body = Body {
            data: &**data,
            start: *start,
            len: end - start,
        };
        match opened_body_len(body.len) {
            Ok(len) => sink.reserve(len).map_err(Error::Write)?,
            // What verifies is given out, and then the error comes.
            Err(Error::LastChunk { .. } | Error::LastChunkMissing { .. })
                if sink.is_sequential() => {}
            Err(error) => return Err(body.confirm(error, &cipher, pipeline)),
        }
    }
    let task = Task {
        direction: Direction::Decrypt,
        cipher: &cipher,
        pipeline,
        chunks: None,
        clip: EVERYTHING,
    };
    run(source, sink, &task)
}

/// Verifies the whole stream in `source`, and keeps nothing. Returns the length of the plaintext
/// in bytes.
///
/// # Errors
/// Those of [`open`].
pub fn verify(source: Source<'_>, key: &InputKey, pipeline: &Pipeline) -> Result<u64> {
    open(source, Sink::nowhere(), key, pipeline)
}

/// Verifies and opens the bytes `range` of the plaintext, and reads only the chunks around them.
/// Returns the length of the range in bytes.
///
/// A range up to the end of the plaintext (or without an end) also verifies that the end is the
/// true one.
///
/// # Errors
/// [`Error::NotSeekable`] for a sequential source, [`Error::OutOfRange`] if the plaintext is
/// shorter (verified first), and those of [`open`].
pub fn open_range(
    mut source: Source<'_>,
    mut sink: Sink<'_>,
    key: &InputKey,
    range: impl RangeBounds<u64>,
    pipeline: &Pipeline,
) -> Result<u64> {
    if source.remaining().is_none() {
        return Err(Error::NotSeekable);
    }
    let cipher = Cipher::for_stream(key, &mut source)?;
    let Kind::Positioned { data, start, end } = &source.0 else {
        return Err(Error::NotSeekable);
    };
    let body = Body {
        data: &**data,
        start: *start,
        len: end - start,
    };

    let from = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(&end) => Some(end.saturating_add(1)),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => None,
    };
    let (chunks, ends_stream, to) = match opened_body_len(body.len) {
        Ok(len) => {
            let count = chunk_count(len);
            let asked = from..to.unwrap_or(u64::MAX).max(from);
            let to = to.unwrap_or(len);
            if from > to || to > len {
                body.verify_last(&cipher, pipeline)?;
                return Err(Error::OutOfRange { range: asked, len });
            }
            let first = from / CHUNK_LEN as u64;
            let end = match to == len {
                true => count,
                false => to.div_ceil(CHUNK_LEN as u64).max(first),
            };
            (first..end, end == count, to)
        }
        // The whole chunks of a stream that was cut can still be read.
        Err(error) => match to {
            Some(to) if from <= to && to <= body.whole_chunks() * CHUNK_LEN as u64 => {
                let first = from / CHUNK_LEN as u64;
                (first..to.div_ceil(CHUNK_LEN as u64).max(first), false, to)
            }
            _ => return Err(body.confirm(error, &cipher, pipeline)),
        },
    };
    if chunks.is_empty() {
        sink.flush().map_err(Error::Write)?;
        return Ok(0);
    }
    sink.reserve(to - from).map_err(Error::Write)?;
    let task = Task {
        direction: Direction::Decrypt,
        cipher: &cipher,
        pipeline,
        chunks: Some((chunks, ends_stream)),
        clip: from..to,
    };
    run(source, sink, &task)
}

impl Cipher {
    /// Reads the header from the start of a stream, and checks that the key is the stream's.
    pub(crate) fn for_stream(key: &InputKey, stream: &mut impl io::Read) -> Result<Self> {
        let mut header = [0; HEADER_LEN];
        let found = take(stream, &mut header).map_err(Error::Read)?;
        let foreign = || match Foreign::of(&header[..found]) {
            None => Ok(()),
            looks_like => Err(Error::NotWarplock { looks_like }),
        };
        match found {
            0 => Err(Error::Empty),
            HEADER_LEN => {
                let cipher = Cipher::for_header(key, &Header::from_bytes(header));
                // The header is random bytes: only one that no key fits may be something else.
                if matches!(cipher, Err(Error::WrongKey)) {
                    foreign()?;
                }
                cipher
            }
            _ => {
                foreign()?;
                Err(Error::HeaderCut {
                    found: found as u64,
                })
            }
        }
    }
}

/// The chunks of a stream that can be read at any position.
struct Body<'a> {
    data: &'a dyn ReadAt,
    /// Where chunk 0 starts.
    start: u64,
    len: u64,
}

impl Body<'_> {
    fn whole_chunks(&self) -> u64 {
        self.len / SEALED_CHUNK_LEN as u64
    }

    /// Verifies one chunk; `last` if it is the stream's last.
    fn verify(&self, chunk: u64, last: bool, cipher: &Cipher, pipeline: &Pipeline) -> Result<()> {
        let offset = chunk * SEALED_CHUNK_LEN as u64;
        let len = (self.len - offset).min(SEALED_CHUNK_LEN as u64) as usize;
        let mut sealed = vec![0; len];
        let read = |rest: &mut [u8], done| self.data.read_at(rest, self.start + offset + done);
        let found = read_full(read, &mut sealed, || false).map_err(Error::Read)?;
        if found < len {
            let found = offset + found as u64;
            return Err(Error::InputShrank {
                expected: self.len,
                found,
            });
        }
        let run = Run {
            first: chunk,
            last,
            bytes: &sealed,
        };
        let mut plain = Zeroizing::new(vec![0; CHUNK_LEN]);
        cipher
            .open(pipeline.engine(), &mut Vec::new(), run, &mut plain)
            .map(drop)
    }

    /// Verifies the last chunk, and with it the length.
    fn verify_last(&self, cipher: &Cipher, pipeline: &Pipeline) -> Result<()> {
        self.verify(self.whole_chunks(), true, cipher, pipeline)
    }

    /// The error for a stream whose length says `error`: the last whole chunk tells a stream that
    /// was cut from one that was extended.
    fn confirm(&self, error: Error, cipher: &Cipher, pipeline: &Pipeline) -> Error {
        match self.whole_chunks().checked_sub(1) {
            Some(chunk) => self
                .verify(chunk, false, cipher, pipeline)
                .err()
                .unwrap_or(error),
            None => error,
        }
    }
}
