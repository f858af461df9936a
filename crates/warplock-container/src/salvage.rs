//! What verifies of a damaged stream.

use std::ops::Range;

use zeroize::Zeroizing;

use crate::cipher::{Cipher, Run};
use crate::error::{Error, Result};
use crate::key::InputKey;
use crate::layout::{CHUNK_LEN, SEALED_CHUNK_LEN, TAG_LEN};
use crate::pipeline::Pipeline;
use crate::source::{Kind, ReadAt, Source, read_full};

/// The result of [`salvage`].
#[derive(Debug)]
pub struct Salvaged {
    /// Bytes of plaintext that verified.
    pub verified: u64,
    /// The end of the last one: the length of the output, holes included.
    pub len: u64,
    /// The places in the plaintext that did not verify, in order. Those after `len` are as long as
    /// what is left of them in the stream.
    pub holes: Vec<Range<u64>>,
    /// Whether the end of the stream was found, so that nothing is missing after `len`.
    pub has_end: bool,
    /// The first fault, if there is one.
    pub fault: Option<Error>,
}

impl Salvaged {
    fn lose(&mut self, range: Range<u64>) {
        match self.holes.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.holes.push(range),
        }
    }

    /// Where the fault is data after the end: gives out the last chunk, which is the beginning of
    /// `first`.
    fn end_at_trailing(
        &mut self,
        first: &Failed,
        cipher: &Cipher,
        pipeline: &Pipeline,
        plain: &mut [u8],
        write: &mut impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let Some(Error::TrailingData { content, .. }) = self.fault else {
            return Ok(false);
        };
        let at = first.chunk * CHUNK_LEN as u64;
        let end = &first.bytes[..(content - at) as usize + TAG_LEN];
        let (engine, chunk) = (pipeline.engine(), first.chunk);
        if let Some(count) = cipher.verifies(engine, &mut Vec::new(), chunk, end, plain)? {
            write(at, &plain[..count])?;
            self.verified += count as u64;
            (self.len, self.has_end) = (content, true);
            self.holes.retain(|hole| hole.start < at);
        }
        Ok(true)
    }
}

/// Gives every chunk that verifies of a stream that was cut, altered, extended, or cannot be read
/// everywhere, to `write`, with its place in the plaintext. `source` must be positioned.
///
/// What is given out was encrypted with this key in this stream, at this place; whether something
/// is missing says the result. Chunks that were moved count as lost.
///
/// # Errors
/// [`Error::NotSeekable`], the error of `write`, and those of [`crate::open`] about the stream's
/// header, without which nothing can be opened.
pub fn salvage(
    mut source: Source<'_>,
    key: &InputKey,
    pipeline: &Pipeline,
    mut write: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Salvaged> {
    if source.remaining().is_none() {
        return Err(Error::NotSeekable);
    }
    let cipher = Cipher::for_stream(key, &mut source)?;
    let Kind::Positioned { data, start, end } = &source.0 else {
        return Err(Error::NotSeekable);
    };
    let (engine, monitor) = (pipeline.engine(), pipeline.monitor());
    // The first chunk of the present run of those that do not verify.
    let mut run: Option<Failed> = None;
    let mut nonces = Vec::new();
    let mut sealed = vec![0; SEALED_CHUNK_LEN];
    let mut plain = Zeroizing::new(vec![0; CHUNK_LEN]);
    let mut found = Salvaged {
        verified: 0,
        len: 0,
        holes: Vec::new(),
        has_end: false,
        fault: None,
    };
    for chunk in 0.. {
        if monitor.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let offset = start + chunk * SEALED_CHUNK_LEN as u64;
        let len = end.saturating_sub(offset).min(SEALED_CHUNK_LEN as u64) as usize;
        let last = len < SEALED_CHUNK_LEN;
        let at = chunk * CHUNK_LEN as u64;
        let bytes = &mut sealed[..len];
        let verifies = match read(&**data, bytes, offset) {
            Ok(()) => cipher.verifies(engine, &mut nonces, chunk, bytes, &mut plain)?,
            Err(error) => {
                found.fault.get_or_insert(error);
                bytes.fill(0);
                None
            }
        };
        match verifies {
            Some(count) => {
                write(at, &plain[..count])?;
                found.verified += count as u64;
                found.len = at + count as u64;
                found.has_end = last;
                run = None;
            }
            None => {
                let first = Failed {
                    chunk,
                    last,
                    bytes: bytes.to_vec(),
                };
                // The diagnosis takes a while: the first fault and what may be the end get one.
                if found.fault.is_none() {
                    let fault = first.diagnose(&cipher, pipeline, &mut plain);
                    found.fault = Some(fault);
                    if found.end_at_trailing(&first, &cipher, pipeline, &mut plain, &mut write)? {
                        return Ok(found);
                    }
                }
                run.get_or_insert(first);
                let lost = match last {
                    true => len.saturating_sub(TAG_LEN),
                    false => CHUNK_LEN,
                };
                found.lose(at..at + lost as u64);
            }
        }
        monitor.add(len as u64);
        if last {
            break;
        }
    }
    if let Some(first) = run {
        let kept = found
            .fault
            .replace(first.diagnose(&cipher, pipeline, &mut plain));
        found.end_at_trailing(&first, &cipher, pipeline, &mut plain, &mut write)?;
        found.fault = kept;
    }
    Ok(found)
}

/// A chunk that did not verify.
struct Failed {
    chunk: u64,
    last: bool,
    bytes: Vec<u8>,
}

impl Failed {
    fn diagnose(&self, cipher: &Cipher, pipeline: &Pipeline, plain: &mut [u8]) -> Error {
        let run = Run {
            first: self.chunk,
            last: self.last,
            bytes: &self.bytes,
        };
        cipher
            .open(pipeline.engine(), &mut Vec::new(), run, plain)
            .err()
            .unwrap_or(Error::Chunk { chunk: self.chunk })
    }
}

fn read(data: &dyn ReadAt, bytes: &mut [u8], offset: u64) -> Result<()> {
    let read = |rest: &mut [u8], done| data.read_at(rest, offset + done);
    let expected = bytes.len();
    match read_full(read, bytes, || false).map_err(Error::Read)? {
        found if found == expected => Ok(()),
        found => Err(Error::InputShrank {
            expected: offset + expected as u64,
            found: offset + found as u64,
        }),
    }
}
