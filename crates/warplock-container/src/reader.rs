//! Random access as `Read + Seek`.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use warplock::Engine;
use warplock_keyring::{Identities, unwrap};
use zeroize::Zeroizing;

use crate::cipher::{Cipher, Run};
use crate::envelope::Envelope;
use crate::error::{Error, ErrorKind, Result};
use crate::key::InputKey;
use crate::layout::{
    CHUNK_LEN, HEADER_LEN, SEALED_CHUNK_LEN, chunk_count, chunk_offset, opened_body_len,
};
use crate::source::take;

/// Chunks that a miss reads and opens together, if it follows the chunks before.
const AHEAD: u64 = 16;

/// The plaintext of a stream, readable at any offset. Only verified bytes come out; the length is
/// verified when the reader is made.
///
/// ```
/// use std::io::{Cursor, Read, Seek, SeekFrom};
/// use std::sync::Arc;
/// use warplock_container::{InputKey, Reader, Suite, seal_bytes};
///
/// let engine = Arc::new(warplock::Engine::new()?);
/// let key = InputKey::new(Suite::Cobblestone256, &[7; 32])?;
/// let sealed = seal_bytes(&[b'a'; 100_000], &key, &engine)?;
///
/// let mut reader = Reader::new(Cursor::new(sealed), &key, engine)?;
/// reader.seek(SeekFrom::End(-3))?;
/// let mut end = String::new();
/// reader.read_to_string(&mut end)?;
/// assert_eq!(end, "aaa");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader<R> {
    inner: R,
    /// Where the stream starts in `inner`.
    start: u64,
    /// Bytes of plaintext.
    len: u64,
    cipher: Cipher,
    engine: Arc<Engine>,
    position: u64,
    /// The chunks that `plain` holds.
    cached: Range<u64>,
    plain: Zeroizing<Vec<u8>>,
    sealed: Vec<u8>,
    nonces: Vec<u8>,
}

impl<R: Read + Seek> Reader<R> {
    /// Reads a `.wl` file, whose envelope one of `identities` opens.
    ///
    /// # Errors
    /// Those of [`crate::decrypt_file`], as far as envelope, header and last chunk show them.
    pub fn unlock(mut inner: R, identities: &Identities, engine: Arc<Engine>) -> Result<Self> {
        let envelope = Envelope::read(&mut inner)?;
        let key = unwrap(envelope.wrapped(), identities)?;
        Reader::new(inner, &InputKey::from(&key), engine)
    }

    /// Reads the stream from `inner`'s position (after an [`crate::Envelope`], say) to its end.
    ///
    /// # Errors
    /// Those of [`crate::open`], as far as header and last chunk show them.
    pub fn new(mut inner: R, key: &InputKey, engine: Arc<Engine>) -> Result<Self> {
        let start = inner.stream_position().map_err(Error::Read)?;
        let cipher = Cipher::for_stream(key, &mut inner)?;
        let end = inner.seek(SeekFrom::End(0)).map_err(Error::Read)?;
        let body = end.saturating_sub(start).saturating_sub(HEADER_LEN as u64);
        let len = opened_body_len(body)?;
        let most = AHEAD.min(chunk_count(len)) as usize;
        let mut reader = Reader {
            inner,
            start,
            len,
            cipher,
            engine,
            position: 0,
            cached: 0..0,
            // Never grows, so that no copy of the plaintext is left behind.
            plain: Zeroizing::new(Vec::with_capacity(most * CHUNK_LEN)),
            sealed: Vec::new(),
            nonces: Vec::new(),
        };
        let chunks = chunk_count(len);
        reader.load(chunks - 1..chunks)?;
        Ok(reader)
    }

    /// Bytes of plaintext, verified.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the plaintext is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What the stream is read from, at no particular position.
    pub fn into_inner(self) -> R {
        self.inner
    }

    /// Opens `chunks` into the cache.
    fn load(&mut self, chunks: Range<u64>) -> Result<()> {
        self.cached = 0..0;
        let last = chunks.end == chunk_count(self.len);
        let plain_end = (chunks.end * CHUNK_LEN as u64).min(self.len);
        let plain_len = (plain_end - chunks.start * CHUNK_LEN as u64) as usize;
        let count = (chunks.end - chunks.start) as usize;
        let sealed_len = plain_len + count * (SEALED_CHUNK_LEN - CHUNK_LEN);
        self.plain.resize(plain_len, 0);
        self.sealed.resize(sealed_len, 0);

        let offset = self.start + chunk_offset(chunks.start);
        self.inner
            .seek(SeekFrom::Start(offset))
            .map_err(Error::Read)?;
        let found = take(&mut self.inner, &mut self.sealed).map_err(Error::Read)?;
        if found < sealed_len {
            let expected = offset + sealed_len as u64;
            return Err(Error::InputShrank {
                expected,
                found: offset + found as u64,
            });
        }
        let run = Run {
            first: chunks.start,
            last,
            bytes: &self.sealed,
        };
        self.cipher
            .open(&self.engine, &mut self.nonces, run, &mut self.plain)?;
        self.cached = chunks;
        Ok(())
    }
}

impl<R: Read + Seek> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.len || buffer.is_empty() {
            return Ok(0);
        }
        let chunk = self.position / CHUNK_LEN as u64;
        if !self.cached.contains(&chunk) {
            // Continues after the cache, or asks for much: open several chunks together.
            let ahead = match chunk == self.cached.end {
                true => AHEAD,
                false => (buffer.len() as u64)
                    .div_ceil(CHUNK_LEN as u64)
                    .clamp(1, AHEAD),
            };
            let end = (chunk + ahead).min(chunk_count(self.len));
            if let Err(error) = self.load(chunk..end) {
                // What was read ahead may be damaged where the chunk that is wanted is not.
                if end == chunk + 1 || error.kind() != ErrorKind::Authentication {
                    return Err(error.into());
                }
                self.load(chunk..chunk + 1)?;
            }
        }
        let from = (self.position - self.cached.start * CHUNK_LEN as u64) as usize;
        let read = (&self.plain[from..]).read(buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl<R: Read + Seek> Seek for Reader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(delta) => self.len.checked_add_signed(delta),
            SeekFrom::Current(delta) => self.position.checked_add_signed(delta),
        };
        self.position = position.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "cannot seek before the start of the content",
            )
        })?;
        Ok(self.position)
    }
}
