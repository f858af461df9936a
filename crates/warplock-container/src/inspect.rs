//! Information about a file that needs no key.

use std::io::{self, Read};

use warplock_keyring::{StanzaKind, inspect_wrapped};

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::foreign::{Foreign, LONGEST_MAGIC};
use crate::layout::{CHUNK_LEN, HEADER_LEN, SEALED_CHUNK_LEN, TAG_LEN};
use crate::source::{Source, take};

/// The result of [`inspect`]. Nothing in it is verified: that takes the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Bytes of the whole input.
    pub size: u64,
    /// What the input is.
    pub format: Format,
    /// The stream in it, where there can be one.
    pub stream: Option<StreamInfo>,
}

/// The kind of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// No bytes at all.
    Empty,
    /// An envelope of version 1.
    Envelope(WrappedKey),
    /// Unlike anything known: a bare stream begins with random bytes, so this may be one.
    MaybeStream,
    /// Something else.
    Foreign(Foreign),
}

/// The wrapped key of an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// Its length in bytes.
    pub len: u64,
    /// What it can be opened with, one for each stanza of the age file.
    pub stanzas: Vec<StanzaKind>,
}

/// A stream, judged by its length alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// Where it starts in the input, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Whether a stream can have this length.
    pub length: Length,
    /// Chunks that are there, the last one included.
    pub chunks: u64,
    /// Bytes of plaintext that are there.
    pub plain_len: u64,
}

/// Whether a stream can have its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// It can.
    Plausible,
    /// It ends inside the header.
    HeaderCut,
    /// It ends after a whole chunk: it was cut, exactly there.
    LastChunkMissing,
    /// It ends inside a tag: it was cut.
    TagCut,
}

impl Length {
    /// Judges a stream that is `len` bytes long, with its header. Nearly every length is plausible:
    /// of 16,400 places where a stream can be cut, 16 show.
    ///
    /// ```
    /// use warplock_container::{Length, sealed_len};
    /// assert_eq!(Length::of(sealed_len(20_000).unwrap()), Length::Plausible);
    /// assert_eq!(Length::of(56 + 16400), Length::LastChunkMissing);
    /// ```
    pub fn of(len: u64) -> Self {
        let Some(body) = len.checked_sub(HEADER_LEN as u64) else {
            return Length::HeaderCut;
        };
        match body % SEALED_CHUNK_LEN as u64 {
            0 => Length::LastChunkMissing,
            last if last < TAG_LEN as u64 => Length::TagCut,
            _ => Length::Plausible,
        }
    }
}

impl StreamInfo {
    fn new(offset: u64, len: u64) -> Self {
        let body = len.saturating_sub(HEADER_LEN as u64);
        let (whole, last) = (
            body / SEALED_CHUNK_LEN as u64,
            body % SEALED_CHUNK_LEN as u64,
        );
        let length = Length::of(len);
        let chunks = whole + u64::from(length == Length::Plausible);
        let plain_len = whole * CHUNK_LEN as u64 + last.saturating_sub(TAG_LEN as u64);
        StreamInfo {
            offset,
            len,
            length,
            chunks,
            plain_len,
        }
    }
}

/// Finds out what `source` is, as far as possible without a key. A sequential source is read to its
/// end.
///
/// # Errors
/// [`Error::NewerVersion`], [`Error::BadEnvelope`], [`Error::EnvelopeCut`], [`Error::Keyring`] if
/// the wrapped key is not an age file, [`Error::Read`].
pub fn inspect(mut source: Source<'_>) -> Result<Inspection> {
    let mut start = [0; LONGEST_MAGIC];
    let found = take(&mut source, &mut start).map_err(Error::Read)?;
    let mut front = &start[..found];
    let (format, offset) = match Envelope::read(&mut (&mut front).chain(&mut source)) {
        Ok(envelope) => {
            let stanzas = inspect_wrapped(envelope.wrapped())?;
            let len = envelope.wrapped().len() as u64;
            (
                Format::Envelope(WrappedKey { len, stanzas }),
                envelope.encoded_len(),
            )
        }
        Err(Error::Empty) => (Format::Empty, 0),
        Err(Error::NotWarplock {
            looks_like: Some(foreign),
        }) => (Format::Foreign(foreign), 0),
        Err(Error::NotWarplock { looks_like: None }) => (Format::MaybeStream, 0),
        Err(other) => return Err(other),
    };
    let taken = match &format {
        Format::Envelope(_) => offset.max(found as u64),
        _ => found as u64,
    };
    let size = taken + count_rest(source)?;
    let stream = match format {
        Format::Envelope(_) | Format::MaybeStream => Some(StreamInfo::new(offset, size - offset)),
        Format::Empty | Format::Foreign(_) => None,
    };
    Ok(Inspection {
        size,
        format,
        stream,
    })
}

fn count_rest(mut source: Source<'_>) -> Result<u64> {
    match source.remaining() {
        Some(rest) => Ok(rest),
        None => io::copy(&mut source, &mut io::sink()).map_err(Error::Read),
    }
}
