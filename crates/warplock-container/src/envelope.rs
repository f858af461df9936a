//! The envelope: the wrapped key before the stream, so that one file has everything.

use std::io::{Read, Write};

use warplock_keyring::MAX_WRAPPED_LEN;

use crate::error::{Error, Result};
use crate::foreign::{Foreign, LONGEST_MAGIC};
use crate::source::take;

/// The first line of every envelope.
pub(crate) const MAGIC: &[u8; 11] = b"warplock/1\n";
/// The beginning of every version's first line.
const FAMILY: &[u8] = b"warplock/";
const LENGTH_LEN: usize = 4;
/// The most bytes of a wrapped key that is written: what every reader must accept. Warplock's reader
/// takes more, [`MAX_WRAPPED_LEN`], as there are files that it wrote before this limit.
const MAX_WRITTEN_LEN: usize = 128 * 1024;
/// The most of an unknown first line that is shown.
const SHOWN: usize = 24;

/// The part of a `.wl` file before the stream: `warplock/1\n`, the length of the wrapped key as a
/// 32-bit big-endian number, the wrapped key (an age file).
///
/// ```no_run
/// # fn run(wrapped: Vec<u8>, key: &warplock_container::InputKey) -> warplock_container::Result<()> {
/// # let pipeline = warplock_container::Pipeline::new()?;
/// use std::fs::File;
/// use warplock_container::{Envelope, Sink, Source, seal};
///
/// let (input, output) = (File::open("a.txt").unwrap(), File::create("a.txt.wl").unwrap());
/// let mut sink = Sink::file(&output).unwrap();
/// Envelope::new(wrapped)?.write(&mut sink)?;
/// seal(Source::file(&input).unwrap(), sink, key, &pipeline)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    wrapped: Vec<u8>,
}

impl Envelope {
    /// The envelope with this wrapped key.
    ///
    /// # Errors
    /// [`Error::BadEnvelope`] if it is empty, [`warplock_keyring::Error::TooManyRecipients`] if it
    /// is longer than the 128 KiB that every reader must accept.
    pub fn new(wrapped: Vec<u8>) -> Result<Self> {
        check_wrapped_len(wrapped.len())?;
        if wrapped.len() > MAX_WRITTEN_LEN {
            return Err(Error::Keyring(warplock_keyring::Error::TooManyRecipients {
                found: wrapped.len(),
                limit: MAX_WRITTEN_LEN,
            }));
        }
        Ok(Envelope { wrapped })
    }

    /// The wrapped key: an age file that opens to the stream's 32-byte input key.
    pub fn wrapped(&self) -> &[u8] {
        &self.wrapped
    }

    /// Bytes of the whole envelope, the stream's offset in the file.
    pub fn encoded_len(&self) -> u64 {
        (MAGIC.len() + LENGTH_LEN + self.wrapped.len()) as u64
    }

    /// Writes the envelope; the stream follows.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write(&self, output: &mut impl Write) -> Result<()> {
        let len = u32::try_from(self.wrapped.len()).expect("the limit is under 4 GiB");
        let bytes = [MAGIC, &len.to_be_bytes()[..], &self.wrapped].concat();
        output.write_all(&bytes).map_err(Error::Write)
    }

    /// Reads the envelope from the start of `input`; the stream is left.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::NotWarplock`], [`Error::NewerVersion`], [`Error::BadEnvelope`],
    /// [`Error::EnvelopeCut`], [`Error::Read`].
    pub fn read(input: &mut impl Read) -> Result<Self> {
        let mut start = [0; LONGEST_MAGIC];
        let (first, rest) = start.split_at_mut(MAGIC.len());
        let found = take(input, first).map_err(Error::Read)?;
        if first != MAGIC {
            let more = match found == MAGIC.len() {
                true => take(input, rest).map_err(Error::Read)?,
                false => 0,
            };
            return Err(not_an_envelope(&start[..found + more]));
        }
        let mut len = [0; LENGTH_LEN];
        let found = take(input, &mut len).map_err(Error::Read)?;
        if found < LENGTH_LEN {
            return Err(Error::EnvelopeCut);
        }
        let len = u32::from_be_bytes(len) as usize;
        check_wrapped_len(len)?;
        let mut wrapped = vec![0; len];
        let found = take(input, &mut wrapped).map_err(Error::Read)?;
        if found < len {
            return Err(Error::EnvelopeCut);
        }
        Ok(Envelope { wrapped })
    }
}

fn check_wrapped_len(len: usize) -> Result<()> {
    if (1..=MAX_WRAPPED_LEN).contains(&len) {
        return Ok(());
    }
    Err(Error::BadEnvelope(format!(
        "its wrapped key should have 1 to {MAX_WRAPPED_LEN} bytes, not {len}"
    )))
}

/// The error for an input with these first bytes, which are not an envelope's.
fn not_an_envelope(start: &[u8]) -> Error {
    if start.is_empty() {
        return Error::Empty;
    }
    if MAGIC.starts_with(start) {
        return Error::EnvelopeCut;
    }
    let changed = |how: &str| {
        Error::BadEnvelope(format!(
            "{how} when it was transferred or saved as text; fetch it again as binary data"
        ))
    };
    if start.starts_with(b"warplock/1\r") {
        return changed("its line ends were changed");
    }
    if start.starts_with(b"\xef\xbb\xbfwarplock/") {
        return changed("it got a byte order mark");
    }
    if start.starts_with(FAMILY) {
        let line = start.split(|&byte| byte == b'\n').next().unwrap_or(start);
        let line = &line[..line.len().min(SHOWN)];
        let found = String::from_utf8_lossy(line).escape_default().to_string();
        return Error::NewerVersion { found };
    }
    Error::NotWarplock {
        looks_like: Foreign::of(start),
    }
}
