//! One stream made in parts, by any number of machines.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use warplock::Engine;

use crate::cipher::{Cipher, Run};
use crate::error::{Error, Result};
use crate::key::InputKey;
use crate::layout::{CHUNK_LEN, Header, SEALED_CHUNK_LEN, chunk_count, chunk_offset, sealed_len};

/// Seals runs of chunks of a stream whose length is known, each independent of the others.
///
/// One machine starts the stream ([`PartSealer::new`]) and hands its [`Header`] to the others
/// ([`PartSealer::resume`]; the header is not secret, the input key is). Put together in order, the
/// parts are one ordinary stream: the part that starts with chunk 0 has the header in front.
///
/// **Multipart uploads**: give part `p` the chunks `p * n .. (p + 1) * n`, the last one fewer. With
/// `n = 640` a part has 10 MiB (S3 wants at least 5 MiB in each but the last, and at most 10,000
/// parts: larger objects take a larger `n`). A part that failed to arrive is sealed and sent
/// again from the same plaintext.
///
/// **Danger**: never seal different plaintext as the same chunk under the same header. That
/// uses a nonce twice, which reveals both texts and allows forgeries. If the plaintext may have
/// changed, start a new stream.
///
/// ```
/// use std::sync::Arc;
/// use warplock_container::{CHUNK_LEN, InputKey, PartSealer, Suite, open_bytes};
///
/// let engine = Arc::new(warplock::Engine::new()?);
/// let key = InputKey::new(Suite::Cobblestone256, &[7; 32])?;
/// let object = vec![42; 100_000]; // 7 chunks
///
/// let here = PartSealer::new(&key, object.len() as u64, engine.clone())?;
/// let there = PartSealer::resume(&key, here.header(), object.len() as u64, engine.clone())?;
/// let mut stream = here.seal(0..4, &object[..4 * CHUNK_LEN])?;
/// stream.extend(there.seal(4..7, &object[4 * CHUNK_LEN..])?);
/// assert_eq!(open_bytes(&stream, &key, &engine)?, object);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PartSealer {
    cipher: Cipher,
    engine: Arc<Engine>,
    plain_len: u64,
}

impl PartSealer {
    /// Starts a new stream of `plain_len` bytes, under a fresh salt.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Randomness`], [`Error::Engine`].
    pub fn new(key: &InputKey, plain_len: u64, engine: Arc<Engine>) -> Result<Self> {
        sealed_len(plain_len).ok_or(Error::TooLong)?;
        Ok(PartSealer {
            cipher: Cipher::fresh(key)?,
            engine,
            plain_len,
        })
    }

    /// Continues the stream of `plain_len` bytes that has this header.
    ///
    /// # Errors
    /// [`Error::WrongKey`], [`Error::TooLong`], [`Error::Engine`].
    pub fn resume(
        key: &InputKey,
        header: &Header,
        plain_len: u64,
        engine: Arc<Engine>,
    ) -> Result<Self> {
        sealed_len(plain_len).ok_or(Error::TooLong)?;
        Ok(PartSealer {
            cipher: Cipher::for_header(key, header)?,
            engine,
            plain_len,
        })
    }

    /// The stream's header, for the other machines.
    pub fn header(&self) -> &Header {
        self.cipher.header()
    }

    /// How many chunks the stream has.
    pub fn chunk_count(&self) -> u64 {
        chunk_count(self.plain_len)
    }

    /// The bytes of the plaintext that `chunks` hold; chunks after the last one hold none.
    pub fn plain_range(&self, chunks: &Range<u64>) -> Range<u64> {
        let at = |chunk: u64| chunk.saturating_mul(CHUNK_LEN as u64).min(self.plain_len);
        at(chunks.start)..at(chunks.end)
    }

    /// The bytes of the stream that [`PartSealer::seal`] makes for `chunks`.
    pub fn sealed_range(&self, chunks: &Range<u64>) -> Range<u64> {
        let at = |chunk: u64| match chunk {
            0 => 0,
            chunk if chunk < self.chunk_count() => chunk_offset(chunk),
            _ => sealed_len(self.plain_len).expect("checked when the sealer was made"),
        };
        at(chunks.start)..at(chunks.end)
    }

    /// Seals `chunks`, whose plaintext is `plain`; with the header in front if chunk 0 is among
    /// them.
    ///
    /// # Errors
    /// [`Error::NoSuchChunks`], [`Error::PartLength`] unless `plain` is as long as
    /// [`PartSealer::plain_range`], [`Error::Write`] if there is no memory for the result,
    /// [`Error::Engine`].
    pub fn seal(&self, chunks: Range<u64>, plain: &[u8]) -> Result<Vec<u8>> {
        let range = self.plain_range(&chunks);
        let expected = range.end.saturating_sub(range.start);
        let count = self.chunk_count();
        if chunks.end > count || chunks.is_empty() {
            return Err(Error::NoSuchChunks { chunks, count });
        }
        if plain.len() as u64 != expected {
            return Err(Error::PartLength {
                chunks,
                expected,
                found: plain.len() as u64,
            });
        }
        let last = chunks.end == self.chunk_count();
        let count = (chunks.end - chunks.start) as usize;
        let header: &[u8] = if chunks.start == 0 {
            self.header().as_bytes()
        } else {
            &[]
        };
        let len = header.len() + plain.len() + count * (SEALED_CHUNK_LEN - CHUNK_LEN);
        // The caller's length: that there is no room for it must not end the program.
        let mut sealed = Vec::new();
        let room = sealed.try_reserve_exact(len);
        room.map_err(|_| Error::Write(io::ErrorKind::OutOfMemory.into()))?;
        sealed.resize(len, 0);
        sealed[..header.len()].copy_from_slice(header);
        let run = Run {
            first: chunks.start,
            last,
            bytes: plain,
        };
        let body = &mut sealed[header.len()..];
        self.cipher.seal(&self.engine, &mut Vec::new(), run, body)?;
        Ok(sealed)
    }
}
