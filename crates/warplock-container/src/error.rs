//! Errors: variants for programs, sentences for people. The caller adds which file it was.

use std::io;
use std::ops::Range;

use crate::foreign::Foreign;
use crate::layout::{CHUNK_LEN, HEADER_LEN};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The classes of [`Error`] that a caller treats differently (the command line: as exit codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The key does not fit, or the data was altered or cut.
    Authentication,
    /// The request does not fit the input, for example a range after its end.
    Usage,
    /// [`crate::Monitor::cancel`] was called.
    Cancelled,
    /// Everything else: input that is no encrypted file, files that cannot be read or written.
    Failure,
}

/// Why a stream could not be sealed, opened or looked at.
///
/// Chunks count from 0; the byte ranges in the sentences are those of the plaintext.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No bytes at all.
    #[error("the input is empty: not even an empty file encrypts to nothing; fetch it again")]
    Empty,
    /// The input does not begin as an encrypted file does.
    #[error("not an encrypted Warplock file{}", foreign_hint(.looks_like))]
    NotWarplock {
        /// What it looks like.
        looks_like: Option<Foreign>,
    },
    /// An envelope whose version this program does not know.
    #[error(
        "the file has the Warplock format '{found}', and this program knows 'warplock/1': \
         take a newer Warplock"
    )]
    NewerVersion {
        /// The first line, cut to a sensible length.
        found: String,
    },
    /// The envelope contradicts its format.
    #[error("the envelope is damaged: {0}")]
    BadEnvelope(String),
    /// The input ends inside the envelope.
    #[error(
        "the file was cut short: it ends inside its envelope, before any content; fetch it again"
    )]
    EnvelopeCut,
    /// The input ends inside the stream's header.
    #[error(
        "the file was cut short: it ends after {found} of the {HEADER_LEN} bytes of the stream's \
         header, before any content; fetch it again"
    )]
    HeaderCut {
        /// How many bytes of the header are there.
        found: u64,
    },
    /// A key of the wrong length.
    #[error("{suite} needs a key of {expected} bytes, not {found}", suite = .suite.name())]
    KeyLength {
        /// What the key was meant for.
        suite: crate::Suite,
        /// The length that fits, in bytes.
        expected: usize,
        /// The length that was given, in bytes.
        found: usize,
    },
    /// The commitment is not the key's.
    #[error(
        "this key does not open this file: it is another file's key (or context), or the file's \
         header was altered"
    )]
    WrongKey,
    /// The stream ends after a whole chunk.
    #[error(
        "the file was cut short: its last chunk is missing after {} bytes of content; \
         fetch it again", *chunk as u128 * CHUNK_LEN as u128
    )]
    LastChunkMissing {
        /// The number of the chunk that is not there.
        chunk: u64,
    },
    /// The last chunk does not verify.
    #[error(
        "the last chunk, {}, failed authentication: the file was cut short or altered; restore it \
         from a copy", place(*chunk)
    )]
    LastChunk {
        /// Its number.
        chunk: u64,
    },
    /// A chunk does not verify.
    #[error(
        "{} failed authentication: the file was altered there; restore it from a copy",
        place(*chunk)
    )]
    Chunk {
        /// Its number.
        chunk: u64,
    },
    /// A chunk is whole, but belongs elsewhere in the same stream.
    #[error(
        "{} holds what belongs at chunk {belongs}: chunks were moved, repeated or left out; \
         restore the file from a copy", place(*chunk)
    )]
    Misplaced {
        /// Where it lies.
        chunk: u64,
        /// Where it belongs.
        belongs: u64,
    },
    /// The stream continues after its last chunk.
    #[error(
        "data follows the end: the file is complete after {content} bytes of content, but at least \
         {extra} bytes were added after it; cut them off or restore the file from a copy"
    )]
    TrailingData {
        /// The chunk that should be the last.
        chunk: u64,
        /// Bytes of plaintext that verify.
        content: u64,
        /// Bytes known to lie after the end.
        extra: u64,
    },
    /// More than the format can hold.
    #[error("the input is longer than 4 PiB, the most that one stream may hold: split it")]
    TooLong,
    /// A regular file was cut while it was read.
    #[error(
        "the input became shorter while it was read ({found} bytes instead of {expected}): \
         try again when nothing writes to it"
    )]
    InputShrank {
        /// Its length at the start, in bytes.
        expected: u64,
        /// Its length now, in bytes.
        found: u64,
    },
    /// A range that the content does not have.
    #[error(
        "the range {} does not lie in the content, which has {len} bytes",
        shown(range)
    )]
    OutOfRange {
        /// The range asked for; up to `u64::MAX` if that has no end.
        range: Range<u64>,
        /// The length of the content, in bytes.
        len: u64,
    },
    /// A place in GPU memory that is not as long as what it is for.
    #[error("the place in GPU memory has {found} bytes, and the content {expected}")]
    RegionLength {
        /// The length of the content (from front to back: what has come of it), in bytes.
        expected: u64,
        /// The length of the place, in bytes.
        found: u64,
    },
    /// A part of an input that can only be read from front to back.
    #[error("parts can only be read from a regular file or a device, not from a pipe")]
    NotSeekable,
    /// A part of a stream whose length does not fit its chunks.
    #[error("chunks {}..{} of this stream hold {expected} bytes, not {found}", chunks.start, chunks.end)]
    PartLength {
        /// The chunks asked for.
        chunks: Range<u64>,
        /// The bytes that they hold.
        expected: u64,
        /// The bytes that were given.
        found: u64,
    },
    /// A part of no chunks, or of chunks that the stream does not have.
    #[error("chunks {}..{} are no part of this stream, which has chunks 0..{count}", chunks.start, chunks.end)]
    NoSuchChunks {
        /// The chunks asked for.
        chunks: Range<u64>,
        /// How many the stream has.
        count: u64,
    },
    /// [`crate::Monitor::cancel`] was called.
    #[error("cancelled")]
    Cancelled,
    /// The input could not be read, for the system's reason.
    #[error("reading the input failed: {0}")]
    Read(#[source] io::Error),
    /// The output could not be written, for the system's reason: a full disk, a closed pipe.
    #[error("writing the output failed: {0}")]
    Write(#[source] io::Error),
    /// The system started no thread.
    #[error(
        "cannot start a thread: {0}; limits are those of memory and threads (ulimit -v, -u) and a \
         container's (pids.max)"
    )]
    NoThread(#[source] io::Error),
    /// A file has the output's name, and was not to be replaced.
    #[error("the output exists already")]
    OutputExists,
    /// What has the output's name is no regular file.
    #[error("the output {0}")]
    OutputUnusable(&'static str),
    /// A file whose envelope cannot be replaced.
    #[error("the file cannot be rewrapped: {0}")]
    NotRewrappable(&'static str),
    /// The output could not be created, for the system's reason.
    #[error("creating the output failed: {0}")]
    Create(#[source] io::Error),
    /// The operating system gave no random bytes.
    #[error("the operating system's random generator failed")]
    Randomness,
    /// The engine failed.
    #[error(transparent)]
    Engine(warplock::Error),
    /// The wrapped key does not parse.
    #[error(transparent)]
    Keyring(#[from] warplock_keyring::Error),
}

impl Error {
    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::EnvelopeCut
            | Error::HeaderCut { .. }
            | Error::WrongKey
            | Error::LastChunkMissing { .. }
            | Error::LastChunk { .. }
            | Error::Chunk { .. }
            | Error::Misplaced { .. }
            | Error::TrailingData { .. } => ErrorKind::Authentication,
            Error::OutOfRange { .. }
            | Error::NotSeekable
            | Error::KeyLength { .. }
            | Error::RegionLength { .. }
            | Error::NoSuchChunks { .. }
            | Error::PartLength { .. } => ErrorKind::Usage,
            Error::Cancelled => ErrorKind::Cancelled,
            Error::Keyring(error) => match error.kind() {
                warplock_keyring::ErrorKind::Authentication => ErrorKind::Authentication,
                warplock_keyring::ErrorKind::Usage => ErrorKind::Usage,
                warplock_keyring::ErrorKind::Failure => ErrorKind::Failure,
            },
            _ => ErrorKind::Failure,
        }
    }

    /// The chunk at fault.
    pub fn chunk(&self) -> Option<u64> {
        match self {
            Error::LastChunkMissing { chunk }
            | Error::LastChunk { chunk }
            | Error::Chunk { chunk }
            | Error::Misplaced { chunk, .. }
            | Error::TrailingData { chunk, .. } => Some(*chunk),
            _ => None,
        }
    }

    /// The system's kind of a failed read or write, or of a thread that did not start.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Error::Read(source)
            | Error::Write(source)
            | Error::Create(source)
            | Error::NoThread(source)
            | Error::Keyring(warplock_keyring::Error::Io { source, .. }) => Some(source.kind()),
            _ => None,
        }
    }
}

impl From<warplock::Error> for Error {
    fn from(error: warplock::Error) -> Self {
        match error {
            warplock::Error::Randomness => Error::Randomness,
            other => Error::Engine(other),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Read(source) | Error::Write(source) | Error::Create(source) => source,
            other if other.kind() == ErrorKind::Authentication => {
                io::Error::new(io::ErrorKind::InvalidData, other)
            }
            other => io::Error::other(other),
        }
    }
}

fn shown(range: &Range<u64>) -> String {
    match range.end {
        u64::MAX => format!("{}..", range.start),
        end => format!("{}..{end}", range.start),
    }
}

fn place(chunk: u64) -> String {
    let start = chunk * CHUNK_LEN as u64;
    format!("chunk {chunk} (from byte {start} of the content)")
}

fn foreign_hint(looks_like: &Option<Foreign>) -> String {
    match looks_like {
        Some(foreign) => format!(": it looks like {foreign}"),
        None => ": it does not begin with 'warplock/1'".to_owned(),
    }
}
