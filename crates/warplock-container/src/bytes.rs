//! Streams in memory, in one call.

use warplock::Engine;

use crate::cipher::{Cipher, Run};
use crate::error::{Error, Result};
use crate::key::InputKey;
use crate::layout::{HEADER_LEN, opened_body_len, sealed_len};

/// Seals `plain` as one stream, under a fresh salt. The engine runs all chunks as one batch.
///
/// ```
/// use warplock_container::{InputKey, Suite, open_bytes, seal_bytes};
/// let engine = warplock::Engine::new()?;
/// let key = InputKey::new(Suite::Cobblestone256, &[7; 32])?.with_context(b"notes.txt");
/// let sealed = seal_bytes(b"hello", &key, &engine)?;
/// assert_eq!(open_bytes(&sealed, &key, &engine)?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::TooLong`], [`Error::Randomness`], [`Error::Engine`].
pub fn seal_bytes(plain: &[u8], key: &InputKey, engine: &Engine) -> Result<Vec<u8>> {
    let len = sealed_len(plain.len() as u64).ok_or(Error::TooLong)?;
    let mut sealed = vec![0; usize::try_from(len).map_err(|_| Error::TooLong)?];
    let cipher = Cipher::fresh(key)?;
    let (header, body) = sealed.split_at_mut(HEADER_LEN);
    header.copy_from_slice(cipher.header().as_bytes());
    cipher.seal(
        engine,
        &mut Vec::new(),
        Run {
            first: 0,
            last: true,
            bytes: plain,
        },
        body,
    )?;
    Ok(sealed)
}

/// Verifies and opens a whole stream.
///
/// # Errors
/// Those of [`crate::open`].
pub fn open_bytes(sealed: &[u8], key: &InputKey, engine: &Engine) -> Result<Vec<u8>> {
    let mut body = sealed;
    let cipher = Cipher::for_stream(key, &mut body)?;
    // A body of impossible length is refused by `open`, which needs no room for it.
    let len = opened_body_len(body.len() as u64).unwrap_or(body.len() as u64);
    let mut plain = vec![0; len as usize];
    cipher.open(
        engine,
        &mut Vec::new(),
        Run {
            first: 0,
            last: true,
            bytes: body,
        },
        &mut plain,
    )?;
    Ok(plain)
}
