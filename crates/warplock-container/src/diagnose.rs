//! Why a chunk does not verify: altered, from another place, or followed by foreign data.
//!
//! This runs only after authentication has failed, and nothing that it computes leaves it but
//! the error.

use subtle::ConstantTimeEq;
use warplock::{Batch, Engine, Ivs, Keys, Span, Spans, Tags, Text};
use zeroize::Zeroizing;

use crate::cipher::Cipher;
use crate::error::Error;
use crate::layout::{CHUNK_LEN, MAX_CHUNKS, TAG_LEN};

/// How many places around it are tried for a chunk: 512 MiB of content to either side.
const PLACES: u64 = if cfg!(fuzzing) { 1 << 6 } else { 1 << 16 };
/// How many nonces or lengths go into one batch.
const BATCH: usize = 64;

/// A tag, or a summand of one; with the ciphertext it reveals the hash key.
type Tag = Zeroizing<[u8; TAG_LEN]>;

/// The error for chunk `chunk`, whose bytes `sealed` (tag included) did not verify.
pub(crate) fn diagnose(
    cipher: &Cipher,
    engine: &Engine,
    chunk: u64,
    sealed: &[u8],
    last: bool,
) -> Error {
    // The chunk is refused whatever the engine says here, so its errors only cost the details.
    if let Some(belongs) = true_place(cipher, engine, chunk, sealed).unwrap_or(None) {
        return Error::Misplaced { chunk, belongs };
    }
    if let Some(len) = true_end(cipher, engine, chunk, sealed).unwrap_or(None) {
        let extra = (sealed.len() - TAG_LEN - len) as u64;
        let content = chunk * CHUNK_LEN as u64 + len as u64;
        return Error::TrailingData {
            chunk,
            content,
            extra,
        };
    }
    if last {
        Error::LastChunk { chunk }
    } else {
        Error::Chunk { chunk }
    }
}

/// The number under which these bytes were sealed, if it is near.
///
/// A GCM tag is GHASH(ciphertext) XOR E(nonce), and E(nonce) is the tag of an empty message. So
/// GHASH is computed once, and each place costs one block of AES instead of the whole chunk.
fn true_place(
    cipher: &Cipher,
    engine: &Engine,
    chunk: u64,
    sealed: &[u8],
) -> Result<Option<u64>, warplock::Error> {
    let Some((text, tag)) = sealed.split_last_chunk::<TAG_LEN>() else {
        return Ok(None);
    };
    let mut nonces = Vec::new();
    cipher.nonces(chunk, 1, &mut nonces);
    let seal = |text: &mut [u8]| -> Result<Tag, warplock::Error> {
        let mut tag = Tag::default();
        let batch = Batch::seal(Keys::One(cipher.key()), Text::in_place(text));
        engine.run(
            batch
                .ivs(Ivs::Each(&nonces))
                .tags(Tags::Apart(&mut tag[..])),
        )?;
        Ok(tag)
    };
    // Sealing zeros yields the keystream; sealing text XOR keystream yields the text's tag.
    let mut work = Zeroizing::new(vec![0; text.len()]);
    seal(&mut work)?;
    for (byte, text) in work.iter_mut().zip(text) {
        *byte ^= text;
    }
    let (own_tag, mask) = (seal(&mut work)?, seal(&mut [])?);
    let hash = xor(&own_tag, &mask);
    let wanted = xor(tag, &hash);

    let start = chunk.saturating_sub(PLACES / 2);
    let end = (start + PLACES).min(MAX_CHUNKS);
    let mut tags = Zeroizing::new([0; BATCH * TAG_LEN]);
    for first in (start..end).step_by(BATCH) {
        let count = BATCH.min((end - first) as usize);
        cipher.nonces(first, count, &mut nonces);
        let spans = Spans::Even {
            count,
            len: 0,
            stride: 0,
        };
        let text = Text::InPlace {
            buffer: &mut [],
            spans,
        };
        let tags = &mut tags[..count * TAG_LEN];
        let batch = Batch::seal(Keys::One(cipher.key()), text).ivs(Ivs::Each(&nonces));
        engine.run(batch.tags(Tags::Apart(tags)))?;
        // In constant time, as the tags of these empty messages are secret.
        let found = |tag: &[u8]| bool::from(tag.ct_eq(&wanted[..]));
        if let Some(index) = tags.chunks_exact(TAG_LEN).position(found) {
            return Ok(Some(first + index as u64));
        }
    }
    Ok(None)
}

/// The length of plaintext with which these bytes verify as the last chunk once what follows is
/// cut off: every length is tried (about 128 MiB of GCM).
fn true_end(
    cipher: &Cipher,
    engine: &Engine,
    chunk: u64,
    sealed: &[u8],
) -> Result<Option<usize>, warplock::Error> {
    let lengths = sealed.len().saturating_sub(TAG_LEN).min(CHUNK_LEN);
    let mut nonce = Vec::new();
    cipher.nonces(chunk, 1, &mut nonce);
    let nonces = nonce.repeat(BATCH);
    let mut output = Zeroizing::new(vec![0; BATCH * CHUNK_LEN]);
    for first in (0..lengths).step_by(BATCH) {
        let count = BATCH.min(lengths - first);
        let inputs: Vec<Span> = (0..count)
            .map(|i| Span {
                offset: 0,
                len: first + i,
            })
            .collect();
        let outputs: Vec<Span> = (0..count)
            .map(|i| Span {
                offset: i * CHUNK_LEN,
                len: first + i,
            })
            .collect();
        let text = Text::Apart {
            input: sealed,
            input_spans: Spans::Ragged(&inputs),
            output: &mut output,
            output_spans: Spans::Ragged(&outputs),
        };
        let ivs = Ivs::Each(&nonces[..count * nonce.len()]);
        match engine.run(Batch::open(Keys::One(cipher.key()), text).ivs(ivs)) {
            Ok(()) => return Ok(Some(first)),
            Err(warplock::Error::Authentication { failed, .. }) if failed.len() < count => {
                let index = (0..count).find(|index| !failed.contains(index));
                return Ok(index.map(|index| first + index));
            }
            Err(warplock::Error::Authentication { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

fn xor(a: &[u8; TAG_LEN], b: &[u8; TAG_LEN]) -> Tag {
    Zeroizing::new(std::array::from_fn(|i| a[i] ^ b[i]))
}
