//! Sealing as `Write`.

use std::io::{self, Write};
use std::sync::Arc;

use warplock::Engine;
use zeroize::Zeroizing;

use crate::cipher::{Cipher, Run};
use crate::error::{Error, Result};
use crate::key::InputKey;
use crate::layout::{CHUNK_LEN, SEALED_CHUNK_LEN, TAG_LEN};

/// Chunks that are gathered before they are sealed: one batch for the engine.
const RUN_CHUNKS: usize = 16;

/// Seals what is written to it, as one stream. [`Writer::finish`] must be called: without its
/// last chunk the stream counts as cut. For files and pipes [`crate::seal`] is faster.
#[must_use = "call finish, or the stream counts as cut"]
pub struct Writer<W> {
    inner: W,
    cipher: Cipher,
    engine: Arc<Engine>,
    plain: Zeroizing<Vec<u8>>,
    sealed: Vec<u8>,
    nonces: Vec<u8>,
    /// The number of the chunk that `plain` starts with.
    first: u64,
    /// A write failed: how much arrived is unknown, so nothing more may follow.
    failed: bool,
}

impl<W: Write> Writer<W> {
    /// Starts a stream with its header.
    ///
    /// # Errors
    /// [`Error::Write`], [`Error::Randomness`], [`Error::Engine`].
    pub fn new(mut inner: W, key: &InputKey, engine: Arc<Engine>) -> Result<Self> {
        let cipher = Cipher::fresh(key)?;
        inner
            .write_all(cipher.header().as_bytes())
            .map_err(Error::Write)?;
        Ok(Writer {
            inner,
            cipher,
            engine,
            // Never grows, so that no copy of the plaintext is left behind.
            plain: Zeroizing::new(Vec::with_capacity(RUN_CHUNKS * CHUNK_LEN)),
            // The last run may be full, and the empty last chunk follows it.
            sealed: vec![0; RUN_CHUNKS * SEALED_CHUNK_LEN + TAG_LEN],
            nonces: Vec::new(),
            first: 0,
            failed: false,
        })
    }

    /// Seals the last chunk, and returns the underlying writer (flushed).
    ///
    /// # Errors
    /// [`Error::Write`], [`Error::TooLong`], [`Error::Engine`].
    pub fn finish(mut self) -> Result<W> {
        self.seal_run(true)?;
        self.inner.flush().map_err(Error::Write)?;
        Ok(self.inner)
    }

    fn seal_run(&mut self, last: bool) -> Result<()> {
        if self.failed {
            let source = io::Error::other("an earlier write failed, so the stream is incomplete");
            return Err(Error::Write(source));
        }
        self.failed = true;
        let run = Run {
            first: self.first,
            last,
            bytes: &self.plain,
        };
        let len = self
            .cipher
            .seal(&self.engine, &mut self.nonces, run, &mut self.sealed)?;
        self.inner
            .write_all(&self.sealed[..len])
            .map_err(Error::Write)?;
        self.first += RUN_CHUNKS as u64;
        self.plain.clear();
        self.failed = false;
        Ok(())
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.plain.len() == RUN_CHUNKS * CHUNK_LEN {
            self.seal_run(false)?;
        }
        let taken = bytes.len().min(RUN_CHUNKS * CHUNK_LEN - self.plain.len());
        self.plain.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Flushes the underlying writer; a chunk that is not full yet stays here.
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
