//! One stream's key: derivation, nonces, and runs of chunks sealed and opened.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha512;
use subtle::ConstantTimeEq;
use warplock::{Batch, Engine, Ivs, Key, Keys, Spans, Text};
use zeroize::{Zeroize, Zeroizing};

use crate::diagnose::diagnose;
use crate::error::{Error, Result};
use crate::key::InputKey;
use crate::layout::{CHUNK_LEN, Header, MAX_CHUNKS, SEALED_CHUNK_LEN, TAG_LEN};

const INFO: &[u8] = b"c2sp.org/chunked-encryption@v1+";
const NONCE_LEN: usize = 12;
const COMMITMENT_LEN: usize = 32;
/// Bytes that are derived for the longest key.
const DERIVED_LEN: usize = 32 + NONCE_LEN + COMMITMENT_LEN;

/// Seals or opens the chunks of one stream.
pub(crate) struct Cipher {
    header: Header,
    key: Key,
    base_nonce: Zeroizing<[u8; NONCE_LEN]>,
}

impl Cipher {
    /// For a new stream, under a fresh salt.
    pub(crate) fn fresh(input_key: &InputKey) -> Result<Self> {
        let mut salt = [0; 24];
        getrandom::fill(&mut salt).map_err(|_| Error::Randomness)?;
        Cipher::with_salt(input_key, &salt)
    }

    /// For the stream with this header.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if the header's commitment is not the key's.
    pub(crate) fn for_header(input_key: &InputKey, header: &Header) -> Result<Self> {
        let cipher = Cipher::with_salt(input_key, header.salt())?;
        if bool::from(cipher.header.commitment().ct_eq(header.commitment())) {
            Ok(cipher)
        } else {
            Err(Error::WrongKey)
        }
    }

    fn with_salt(input_key: &InputKey, salt: &[u8; 24]) -> Result<Self> {
        let derived = derive(input_key, salt);
        let (key, rest) = derived.split_at(input_key.suite().key_len());
        let (nonce, rest) = rest.split_at(NONCE_LEN);
        let commitment = rest
            .first_chunk()
            .expect("the longest key leaves room for it");
        let mut base_nonce = Zeroizing::new([0; NONCE_LEN]);
        base_nonce.copy_from_slice(nonce);
        Ok(Cipher {
            header: Header::new(salt, commitment),
            key: Key::new(input_key.suite().algorithm(), key)?,
            base_nonce,
        })
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// The nonce of chunk 0; that of chunk `k` is this one XOR `k`, big-endian.
    #[cfg(feature = "cuda")]
    pub(crate) fn base_nonce(&self) -> &[u8; NONCE_LEN] {
        &self.base_nonce
    }

    /// The nonces of `count` chunks from `first` on, one after the other: the base nonce XOR the
    /// chunk's number as a big-endian integer.
    pub(crate) fn nonces(&self, first: u64, count: usize, nonces: &mut Vec<u8>) {
        nonces.clear();
        for chunk in first..first + count as u64 {
            let mut nonce = *self.base_nonce;
            for (byte, counter) in nonce[NONCE_LEN - 8..].iter_mut().zip(chunk.to_be_bytes()) {
                *byte ^= counter;
            }
            nonces.extend_from_slice(&nonce);
        }
    }

    /// Seals `run` into `output`; returns how many bytes it wrote there.
    pub(crate) fn seal(
        &self,
        engine: &Engine,
        nonces: &mut Vec<u8>,
        run: Run<'_>,
        output: &mut [u8],
    ) -> Result<usize> {
        let (whole, tail) = (run.bytes.len() / CHUNK_LEN, run.bytes.len() % CHUNK_LEN);
        debug_assert!(run.last || tail == 0, "only the last chunk is shorter");
        let count = whole + usize::from(run.last);
        check_count(run.first, count)?;
        self.nonces(run.first, count, nonces);
        let (whole_nonces, last_nonce) = nonces.split_at(whole * NONCE_LEN);

        let (whole_in, last_in) = run.bytes.split_at(whole * CHUNK_LEN);
        let (whole_out, last_out) = output.split_at_mut(whole * SEALED_CHUNK_LEN);
        let keys = Keys::One(&self.key);
        if whole > 0 {
            let text = Text::Apart {
                input: whole_in,
                input_spans: plain_spans(whole),
                output: whole_out,
                output_spans: sealed_spans(whole),
            };
            engine.run(Batch::seal(keys, text).ivs(Ivs::Each(whole_nonces)))?;
        }
        if !run.last {
            return Ok(whole_out.len());
        }
        let text = one_apart(last_in, &mut last_out[..tail + TAG_LEN], tail);
        engine.run(Batch::seal(keys, text).ivs(Ivs::Each(last_nonce)))?;
        Ok(whole_out.len() + tail + TAG_LEN)
    }

    /// Verifies and opens `run` into `output`; returns how many bytes it wrote there. The error
    /// is about the first chunk of the run that is not right; then `output` is to be thrown away.
    pub(crate) fn open(
        &self,
        engine: &Engine,
        nonces: &mut Vec<u8>,
        run: Run<'_>,
        output: &mut [u8],
    ) -> Result<usize> {
        let whole = run.bytes.len() / SEALED_CHUNK_LEN;
        let sealed_tail = run.bytes.len() % SEALED_CHUNK_LEN;
        debug_assert!(
            run.last || sealed_tail == 0,
            "only the last chunk is shorter"
        );
        let count = whole + usize::from(run.last);
        check_count(run.first, count)?;
        self.nonces(run.first, count, nonces);
        let (whole_nonces, last_nonce) = nonces.split_at(whole * NONCE_LEN);

        let (whole_in, last_in) = run.bytes.split_at(whole * SEALED_CHUNK_LEN);
        let (whole_out, last_out) = output.split_at_mut(whole * CHUNK_LEN);
        let keys = Keys::One(&self.key);
        if whole > 0 {
            let text = Text::Apart {
                input: whole_in,
                input_spans: sealed_spans(whole),
                output: whole_out,
                output_spans: plain_spans(whole),
            };
            let opened = engine.run(Batch::open(keys, text).ivs(Ivs::Each(whole_nonces)));
            if let Some(index) = first_failed(opened)? {
                let sealed = &whole_in[index * SEALED_CHUNK_LEN..][..SEALED_CHUNK_LEN];
                return Err(diagnose(
                    self,
                    engine,
                    run.first + index as u64,
                    sealed,
                    false,
                ));
            }
        }
        if !run.last {
            return Ok(whole_out.len());
        }
        let chunk = run.first + whole as u64;
        let tail = match sealed_tail.checked_sub(TAG_LEN) {
            Some(tail) => tail,
            None if sealed_tail == 0 => return Err(Error::LastChunkMissing { chunk }),
            None => return Err(Error::LastChunk { chunk }),
        };
        let text = one_apart(last_in, &mut last_out[..tail], tail);
        let opened = engine.run(Batch::open(keys, text).ivs(Ivs::Each(last_nonce)));
        if first_failed(opened)?.is_some() {
            return Err(diagnose(self, engine, chunk, last_in, true));
        }
        Ok(whole_out.len() + tail)
    }
}

impl Cipher {
    /// Opens one chunk, the last one if it is shorter than the others; returns the length of its
    /// plaintext, or `None` without a diagnosis if it does not verify.
    pub(crate) fn verifies(
        &self,
        engine: &Engine,
        nonces: &mut Vec<u8>,
        chunk: u64,
        sealed: &[u8],
        output: &mut [u8],
    ) -> Result<Option<usize>> {
        let Some(len) = sealed.len().checked_sub(TAG_LEN) else {
            return Ok(None);
        };
        check_count(chunk, 1)?;
        self.nonces(chunk, 1, nonces);
        let text = one_apart(sealed, &mut output[..len], len);
        let batch = Batch::open(Keys::One(&self.key), text).ivs(Ivs::Each(nonces));
        Ok(first_failed(engine.run(batch))?.is_none().then_some(len))
    }
}

/// A run of neighbouring chunks.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// The number of the first.
    pub(crate) first: u64,
    /// Whether the last chunk of the stream, the shorter one, is among them.
    pub(crate) last: bool,
    /// Their bytes: plaintext to seal, ciphertext and tags to open.
    pub(crate) bytes: &'a [u8],
}

/// HKDF-Expand-SHA512 (RFC 5869, 2.3) with the input key as PRK: key, base nonce, commitment.
fn derive(input_key: &InputKey, salt: &[u8; 24]) -> Zeroizing<[u8; DERIVED_LEN]> {
    let prk = Hmac::<Sha512>::new_from_slice(input_key.bytes()).expect("HMAC takes any key");
    let mut derived = Zeroizing::new([0; DERIVED_LEN]);
    let mut previous = Zeroizing::new([0; 64]);
    for (index, block) in derived.chunks_mut(64).enumerate() {
        let mut mac = prk.clone();
        if index > 0 {
            mac.update(&previous[..]);
        }
        mac.update(INFO);
        mac.update(input_key.suite().aead().as_bytes());
        mac.update(&[0]);
        mac.update(salt);
        mac.update(input_key.context());
        mac.update(&[index as u8 + 1]);
        let mut made = mac.finalize().into_bytes();
        previous.copy_from_slice(&made);
        made.as_mut_slice().zeroize();
        block.copy_from_slice(&previous[..block.len()]);
    }
    derived
}

fn check_count(first: u64, count: usize) -> Result<()> {
    match first.checked_add(count as u64) {
        Some(end) if end <= MAX_CHUNKS => Ok(()),
        _ => Err(Error::TooLong),
    }
}

fn plain_spans<'a>(count: usize) -> Spans<'a> {
    Spans::Even {
        count,
        len: CHUNK_LEN,
        stride: CHUNK_LEN,
    }
}

/// The texts of whole chunks, each followed by its tag.
fn sealed_spans<'a>(count: usize) -> Spans<'a> {
    Spans::Even {
        count,
        len: CHUNK_LEN,
        stride: SEALED_CHUNK_LEN,
    }
}

/// One message of `len` bytes, followed by its tag in one of the buffers.
fn one_apart<'a>(input: &'a [u8], output: &'a mut [u8], len: usize) -> Text<'a> {
    let spans = Spans::one(len);
    Text::Apart {
        input,
        input_spans: spans,
        output,
        output_spans: spans,
    }
}

/// Which message of an opened batch failed first, if any.
fn first_failed(opened: std::result::Result<(), warplock::Error>) -> Result<Option<usize>> {
    match opened {
        Ok(()) => Ok(None),
        Err(warplock::Error::Authentication { failed, .. }) => Ok(failed.first().copied()),
        Err(other) => Err(other.into()),
    }
}
