//! The layout of a stream: sizes, offsets, the header.

use crate::error::{Error, Result};

/// Bytes of plaintext in every chunk but the last, which has fewer.
pub const CHUNK_LEN: usize = if cfg!(fuzzing) { 64 } else { 16 * 1024 };
/// Bytes of the tag that follows each chunk's ciphertext.
pub const TAG_LEN: usize = 16;
/// Bytes of a whole chunk in the stream.
pub const SEALED_CHUNK_LEN: usize = CHUNK_LEN + TAG_LEN;
/// Bytes of the header.
pub const HEADER_LEN: usize = Header::SALT_LEN + Header::COMMITMENT_LEN;
/// The most chunks a stream may have (4 PiB), so that AES in counter mode does not wear out.
pub const MAX_CHUNKS: u64 = 1 << 38;

/// The first 56 bytes of a stream. Nothing in it is secret.
///
/// ```text
/// 0        24                              56
/// | salt   | commitment                    | chunk 0 ...
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header([u8; HEADER_LEN]);

impl Header {
    const SALT_LEN: usize = 24;
    const COMMITMENT_LEN: usize = 32;

    /// The header with these bytes; whether a key fits it shows when the key is derived.
    pub const fn from_bytes(bytes: [u8; HEADER_LEN]) -> Self {
        Header(bytes)
    }

    pub(crate) fn new(salt: &[u8; 24], commitment: &[u8; 32]) -> Self {
        let mut bytes = [0; HEADER_LEN];
        bytes[..Self::SALT_LEN].copy_from_slice(salt);
        bytes[Self::SALT_LEN..].copy_from_slice(commitment);
        Header(bytes)
    }

    /// The bytes as they stand in the stream.
    pub fn as_bytes(&self) -> &[u8; HEADER_LEN] {
        &self.0
    }

    /// The random value that gives each stream under one input key a key of its own.
    pub fn salt(&self) -> &[u8; 24] {
        self.0
            .first_chunk()
            .expect("the header is longer than the salt")
    }

    /// Binds the stream to its input key and context: checked before any chunk.
    pub fn commitment(&self) -> &[u8; 32] {
        self.0
            .last_chunk()
            .expect("the header is longer than the commitment")
    }
}

/// How many chunks a plaintext of `plain_len` bytes makes: always a last, shorter one, so 16 KiB
/// make two.
pub const fn chunk_count(plain_len: u64) -> u64 {
    plain_len / CHUNK_LEN as u64 + 1
}

/// Where chunk `chunk` starts, counted from the start of the stream.
pub const fn chunk_offset(chunk: u64) -> u64 {
    HEADER_LEN as u64 + chunk * SEALED_CHUNK_LEN as u64
}

/// The length of the stream that a plaintext of `plain_len` bytes makes; `None` above the limit
/// of 4 PiB.
///
/// ```
/// use warplock_container::{opened_len, sealed_len};
/// assert_eq!(sealed_len(0), Some(56 + 16));
/// assert_eq!(sealed_len(16384), Some(56 + 16400 + 16));
/// assert_eq!(opened_len(56 + 16400 + 16), Some(16384));
/// assert_eq!(opened_len(56 + 16400), None); // the last chunk is missing
/// ```
pub const fn sealed_len(plain_len: u64) -> Option<u64> {
    let chunks = chunk_count(plain_len);
    if chunks > MAX_CHUNKS {
        return None;
    }
    Some(HEADER_LEN as u64 + plain_len + chunks * TAG_LEN as u64)
}

/// The length of the plaintext in a stream of `sealed_len` bytes; `None` if no stream has this
/// length.
pub const fn opened_len(sealed_len: u64) -> Option<u64> {
    if sealed_len < HEADER_LEN as u64 {
        return None;
    }
    let body = sealed_len - HEADER_LEN as u64;
    let whole = body / SEALED_CHUNK_LEN as u64;
    let last = body % SEALED_CHUNK_LEN as u64;
    if last < TAG_LEN as u64 || whole >= MAX_CHUNKS {
        return None;
    }
    Some(whole * CHUNK_LEN as u64 + last - TAG_LEN as u64)
}

/// Like [`opened_len`], but says what is wrong with a length: nothing is read, so a stream that was
/// extended may count as cut.
///
/// # Errors
/// [`Error::HeaderCut`], [`Error::LastChunkMissing`], [`Error::LastChunk`], [`Error::TooLong`].
pub fn content_len(sealed_len: u64) -> Result<u64> {
    match sealed_len.checked_sub(HEADER_LEN as u64) {
        Some(body) => opened_body_len(body),
        None => Err(Error::HeaderCut { found: sealed_len }),
    }
}

/// Like [`opened_len`] for the chunks alone (no header), but says what is wrong.
pub(crate) fn opened_body_len(body: u64) -> Result<u64> {
    let (whole, last) = (
        body / SEALED_CHUNK_LEN as u64,
        body % SEALED_CHUNK_LEN as u64,
    );
    if whole >= MAX_CHUNKS {
        return Err(Error::TooLong);
    }
    match last {
        0 => Err(Error::LastChunkMissing { chunk: whole }),
        _ => opened_len(body + HEADER_LEN as u64).ok_or(Error::LastChunk { chunk: whole }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_inverse_and_their_gaps_are_refused() {
        let mut expected = 0;
        // Every length of a stream of up to three chunks belongs to one length of plaintext or to
        // none.
        for sealed in 0..3 * SEALED_CHUNK_LEN as u64 {
            match opened_len(sealed) {
                Some(plain) => {
                    assert_eq!(plain, expected);
                    assert_eq!(sealed_len(plain), Some(sealed));
                    expected += 1;
                }
                None => assert!(sealed < 72 || (sealed - 56) % 16400 < 16),
            }
        }
        let most = MAX_CHUNKS * CHUNK_LEN as u64 - 1;
        assert_eq!(opened_len(sealed_len(most).unwrap()), Some(most));
        assert_eq!(sealed_len(most + 1), None);
        assert_eq!(opened_len(sealed_len(most).unwrap() + 17), None);
        assert_eq!(sealed_len(u64::MAX), None);
        assert_eq!(opened_len(u64::MAX), None);
    }
}
