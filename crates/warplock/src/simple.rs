//! The short way for messages that have their own memory: a nonce is drawn, the result is
//! allocated, and everything that opening needs is in it.

use crate::batch::{Aad, Batch, Ivs, Keys, Span, Spans, Tags, Text};
use crate::{Algorithm, Engine, Error, Key, Lack};

const TAG_LEN: usize = 16;

/// The nonce of one message, drawn at random or given by a protocol. It cannot be copied: sealing a
/// second message takes a second one.
#[derive(Debug)]
pub struct Nonce<'a>(Option<&'a [u8]>);

impl<'a> Nonce<'a> {
    /// A nonce that is drawn from the operating system when the message is sealed: at most 2^32
    /// messages under one key of GCM (NIST SP 800-38D, 8.3).
    pub fn random() -> Self {
        Nonce(None)
    }

    /// A nonce that a protocol prescribes, such as a counter, of [`crate::AlgorithmInfo::iv_len`] bytes. The
    /// caller makes sure that no other message is ever sealed with it under the same key: that
    /// would reveal the XOR of both texts, and with GCM allow forgeries.
    pub fn given(bytes: &'a [u8]) -> Self {
        Nonce(Some(bytes))
    }
}

impl Key {
    /// Seals one message: the result is nonce, ciphertext and 16-byte tag, one after the other.
    /// `aad` is authenticated, but not part of the result: opening needs the same.
    ///
    /// ```
    /// use warplock::{Algorithm, Engine, Key, Nonce};
    ///
    /// let engine = Engine::new()?;
    /// let key = Key::generate(Algorithm::Aes256Gcm)?;
    /// let sealed = key.seal(&engine, Nonce::random(), b"v1", b"hello")?;
    /// assert_eq!(sealed.len(), 12 + 5 + 16);
    /// assert_eq!(key.open(&engine, b"v1", &sealed)?, b"hello");
    /// assert!(key.open(&engine, b"v2", &sealed).is_err());
    /// # Ok::<(), warplock::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Batch`] if the key's algorithm does not authenticate or a given nonce has the wrong
    /// length, and those of [`Engine::run`].
    pub fn seal(
        &self,
        engine: &Engine,
        nonce: Nonce<'_>,
        aad: &[u8],
        text: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let nonce_len = self.algorithm().info().iv_len();
        let mut sealed = vec![0; nonce_len + text.len() + TAG_LEN];
        let (drawn, body) = sealed.split_at_mut(nonce_len);
        body[..text.len()].copy_from_slice(text);
        let ivs = match nonce.0 {
            None => Ivs::Random(drawn),
            Some(given) => {
                if given.len() == nonce_len {
                    drawn.copy_from_slice(given);
                }
                Ivs::Each(given)
            }
        };
        let text = Text::InPlace {
            spans: Spans::one(text.len()),
            buffer: body,
        };
        engine.run(
            Batch::seal(Keys::One(self), text)
                .ivs(ivs)
                .aad(Aad::Shared(aad)),
        )?;
        Ok(sealed)
    }

    /// Opens what [`Key::seal`] made, or any nonce, ciphertext and 16-byte tag one after the other.
    ///
    /// # Errors
    /// [`Error::Authentication`] if key, `aad` or any byte is not what it was, or if there are too
    /// few bytes for nonce and tag; [`Error::Batch`] if the key's algorithm does not authenticate;
    /// and those of [`Engine::run`].
    pub fn open(&self, engine: &Engine, aad: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let nonce_len = self.algorithm().info().iv_len();
        let Some(len) = sealed.len().checked_sub(nonce_len + TAG_LEN) else {
            authenticates(self.algorithm())?;
            return Err(Error::Authentication {
                failed: vec![0],
                total: 1,
            });
        };
        let (nonce, input) = sealed.split_at(nonce_len);
        let mut output = vec![0; len];
        let text = Text::Apart {
            input,
            input_spans: Spans::one(len),
            output: &mut output,
            output_spans: Spans::one(len),
        };
        let open = Batch::open(Keys::One(self), text).ivs(Ivs::Each(nonce));
        engine.run(open.aad(Aad::Shared(aad)))?;
        Ok(output)
    }
}

/// Refuses algorithms that detect no changes.
pub(crate) fn authenticates(algorithm: Algorithm) -> Result<(), Error> {
    match algorithm.is_aead() {
        true => Ok(()),
        false => Err(Lack::Authentication.of(algorithm)),
    }
}

/// Messages that are gathered one by one, then sealed or opened together: for many short ones much
/// faster than one call each.
///
/// ```
/// use warplock::{Algorithm, Engine, Key, Keys, OwnedBatch};
///
/// let engine = Engine::new()?;
/// let key = Key::generate(Algorithm::Aes256Gcm)?;
/// let mut records = OwnedBatch::new();
/// for number in 0..1000u32 {
///     records.push(&number.to_be_bytes(), b"a record");
/// }
/// let sealed = records.seal(&engine, Keys::One(&key))?;
///
/// let mut received = OwnedBatch::new();
/// for (number, record) in (0..1000u32).zip(&sealed) {
///     received.push(&number.to_be_bytes(), record);
/// }
/// let opened = received.open(&engine, Keys::One(&key))?;
/// assert!(opened.iter().all(|text| text == b"a record"));
/// # Ok::<(), warplock::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct OwnedBatch {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    aad: Vec<u8>,
    aad_spans: Vec<Span>,
}

impl OwnedBatch {
    /// An empty batch.
    pub fn new() -> Self {
        OwnedBatch::default()
    }

    /// Adds a message: a text to seal, or what [`OwnedBatch::seal`] made of one to open.
    pub fn push(&mut self, aad: &[u8], message: &[u8]) {
        let append = |to: &mut Vec<u8>, spans: &mut Vec<Span>, bytes: &[u8]| {
            let (offset, len) = (to.len(), bytes.len());
            spans.push(Span { offset, len });
            to.extend_from_slice(bytes);
        };
        append(&mut self.bytes, &mut self.spans, message);
        append(&mut self.aad, &mut self.aad_spans, aad);
    }

    /// How many messages it has.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether it has no messages.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Seals all messages, each with a nonce of its own, as [`Key::seal`] with [`Nonce::random`].
    ///
    /// # Errors
    /// Those of [`Key::seal`].
    pub fn seal(mut self, engine: &Engine, keys: Keys<'_>) -> Result<Vec<Vec<u8>>, Error> {
        let nonce_len = nonce_len(&keys);
        let mut nonces = vec![0; self.len() * nonce_len];
        let mut tags = vec![0; self.len() * TAG_LEN];
        let text = Text::InPlace {
            buffer: &mut self.bytes,
            spans: Spans::Ragged(&self.spans),
        };
        let aad = Aad::Each {
            bytes: &self.aad,
            spans: Spans::Ragged(&self.aad_spans),
        };
        let seal = Batch::seal(keys, text).ivs(Ivs::Random(&mut nonces));
        engine.run(seal.aad(aad).tags(Tags::Apart(&mut tags)))?;
        let parts = nonces
            .chunks_exact(nonce_len)
            .zip(tags.chunks_exact(TAG_LEN));
        let texts = self
            .spans
            .iter()
            .map(|span| &self.bytes[span.offset..][..span.len]);
        Ok(texts
            .zip(parts)
            .map(|(text, (nonce, tag))| [nonce, text, tag].concat())
            .collect())
    }

    /// Opens all messages, as [`Key::open`].
    ///
    /// # Errors
    /// [`Error::Authentication`] with the numbers of the messages that did not verify; and those of
    /// [`Key::open`].
    pub fn open(mut self, engine: &Engine, keys: Keys<'_>) -> Result<Vec<Vec<u8>>, Error> {
        let nonce_len = nonce_len(&keys);
        let total = self.len();
        let is_short = |span: &Span| span.len < nonce_len + TAG_LEN;
        let failed: Vec<usize> = (0..total).filter(|&i| is_short(&self.spans[i])).collect();
        if !failed.is_empty() {
            return Err(Error::Authentication { failed, total });
        }
        let mut nonces = Vec::with_capacity(total * nonce_len);
        for span in &mut self.spans {
            nonces.extend_from_slice(&self.bytes[span.offset..][..nonce_len]);
            span.offset += nonce_len;
            span.len -= nonce_len + TAG_LEN;
        }
        let text = Text::InPlace {
            buffer: &mut self.bytes,
            spans: Spans::Ragged(&self.spans),
        };
        let aad = Aad::Each {
            bytes: &self.aad,
            spans: Spans::Ragged(&self.aad_spans),
        };
        engine.run(Batch::open(keys, text).ivs(Ivs::Each(&nonces)).aad(aad))?;
        let texts = self.spans.iter();
        Ok(texts
            .map(|span| self.bytes[span.offset..][..span.len].to_vec())
            .collect())
    }
}

fn nonce_len(keys: &Keys<'_>) -> usize {
    keys.algorithm()
        .map_or(0, |algorithm| algorithm.info().iv_len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> Engine {
        Engine::builder().build().unwrap()
    }

    #[test]
    fn any_change_is_refused() {
        let engine = engine();
        for algorithm in Algorithm::all().filter(|algorithm| algorithm.is_aead()) {
            let key = Key::generate(algorithm).unwrap();
            let sealed = key.seal(&engine, Nonce::random(), b"ad", b"text").unwrap();
            assert_eq!(key.open(&engine, b"ad", &sealed).unwrap(), b"text");
            for at in 0..sealed.len() {
                let mut altered = sealed.clone();
                altered[at] ^= 1;
                let refused = key.open(&engine, b"ad", &altered);
                assert!(matches!(refused, Err(Error::Authentication { .. })), "{at}");
                let cut = key.open(&engine, b"ad", &sealed[..at]);
                assert!(matches!(cut, Err(Error::Authentication { .. })), "{at}");
            }
            assert!(key.open(&engine, b"", &sealed).is_err());
            let nonce = &sealed[..algorithm.info().iv_len()];
            let again = key.seal(&engine, Nonce::given(nonce), b"ad", b"text");
            assert_eq!(again.unwrap(), sealed);
            let short = key.seal(&engine, Nonce::given(&nonce[1..]), b"", b"");
            assert!(matches!(short, Err(Error::Batch { .. })), "{short:?}");
        }
    }

    #[test]
    fn what_does_not_authenticate_neither_seals_nor_opens() {
        let engine = engine();
        for algorithm in Algorithm::all().filter(|algorithm| !algorithm.is_aead()) {
            let key = Key::generate(algorithm).unwrap();
            let (mut text, ivs) = ([0; 16], [0; 16]);
            let ivs = || match algorithm.info().iv_len() {
                0 => Ivs::None,
                len => Ivs::Each(&ivs[..len]),
            };
            for refused in [
                key.seal(&engine, Nonce::random(), b"", &text).map(drop),
                key.open(&engine, b"", &text).map(drop),
                key.open(&engine, b"", &[0; 99]).map(drop),
                engine.run(Batch::seal(Keys::One(&key), Text::in_place(&mut text)).ivs(ivs())),
                engine.run(Batch::open(Keys::One(&key), Text::in_place(&mut text)).ivs(ivs())),
            ] {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains("does not authenticate"), "{refused}");
            }
            assert_eq!(text, [0; 16]);
        }
    }

    #[test]
    fn a_batch_says_which_messages_were_altered() {
        let engine = engine();
        let key = Key::generate(Algorithm::Aes128Gcm).unwrap();
        let mut batch = OwnedBatch::new();
        (0..100usize).for_each(|i| batch.push(&[i as u8], &vec![i as u8; i]));
        let sealed = batch.seal(&engine, Keys::One(&key)).unwrap();
        for (i, message) in sealed.iter().enumerate() {
            let alone = key.open(&engine, &[i as u8], message).unwrap();
            assert_eq!(alone, vec![i as u8; i]);
        }
        let received = |change: &dyn Fn(usize, &mut Vec<u8>)| {
            let mut batch = OwnedBatch::new();
            for (i, message) in sealed.iter().enumerate() {
                let mut message = message.clone();
                change(i, &mut message);
                batch.push(&[i as u8], &message);
            }
            batch.open(&engine, Keys::One(&key))
        };
        let opened = received(&|_, _| {}).unwrap();
        assert!((0..100).all(|i| opened[i] == vec![i as u8; i]));
        let altered = received(&|i, message| message[0] ^= u8::from(i == 7)).unwrap_err();
        assert!(matches!(altered, Error::Authentication { failed, total: 100 } if failed == [7]));
        let cut = received(&|i, message| message.truncate(if i == 9 { 27 } else { 999 }));
        assert!(matches!(cut, Err(Error::Authentication { failed, .. }) if failed == [9]));
    }
}
