//! The plaintext encrypted here, and again with one thing changed.

use warplock::{Algorithm, Direction, Engine, Key, MessageStream, Mode, fill_random, pkcs7};
use warplock_analyze::{Data, Random};
use zeroize::Zeroizing;

use super::Pair;
use super::statistics::Statistics;
use crate::args::Change;
use crate::failure::{Failure, Result};

/// Where keys and nonces come from.
pub(super) enum Randomness {
    System,
    Seed(Random),
}

impl Randomness {
    pub(super) fn new(seed: Option<u64>) -> Self {
        seed.map_or(Randomness::System, |seed| {
            Randomness::Seed(Random::new(seed))
        })
    }

    fn bytes(&mut self, len: usize) -> Result<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(vec![0; len]);
        match self {
            Randomness::System => fill_random(&mut bytes)?,
            Randomness::Seed(random) => random.fill(&mut bytes),
        }
        Ok(bytes)
    }
}

/// A plaintext under a key and a nonce.
pub(super) struct Encryption<'a> {
    engine: &'a Engine,
    algorithm: Algorithm,
    plain: &'a Data<'a>,
    key: Zeroizing<Vec<u8>>,
    iv: Zeroizing<Vec<u8>>,
}

impl<'a> Encryption<'a> {
    /// With a fresh key and nonce.
    pub(super) fn new(
        engine: &'a Engine,
        algorithm: Algorithm,
        plain: &'a Data<'a>,
        random: &mut Randomness,
    ) -> Result<Self> {
        let info = algorithm.info();
        Ok(Encryption {
            engine,
            algorithm,
            plain,
            key: random.bytes(info.key_len)?,
            iv: random.bytes(info.iv_len())?,
        })
    }

    /// The ciphertext, without padding or tag: as many bytes as the plaintext.
    pub(super) fn run(&self) -> Result<Data<'static>> {
        self.encrypt(self.plain.as_bytes().to_vec(), &self.key, &self.iv)
    }

    fn encrypt(&self, mut text: Vec<u8>, key: &[u8], iv: &[u8]) -> Result<Data<'static>> {
        let info = self.algorithm.info();
        let len = text.len();
        if matches!(info.mode, Mode::Ecb | Mode::Cbc) {
            pkcs7::pad(&mut text);
        }
        if !info.accepts_text_len(text.len() as u64) {
            return Err(Failure::error(format_args!(
                "the plaintext has {len} bytes; {} needs {}",
                info.name,
                info.text_rule()
            )));
        }
        let key = Key::new(self.algorithm, key)?;
        MessageStream::new(self.engine, Direction::Encrypt, &key, iv, b"")?.finish(&mut text)?;
        text.truncate(len);
        match self.plain.shape() {
            Some(shape) => Data::image(text, shape).map_err(Failure::error),
            None => Ok(Data::bytes(text)),
        }
    }

    /// The ciphertext against that with one thing changed; `None` if the algorithm has no nonce, or
    /// the plaintext no byte.
    pub(super) fn changed(
        &self,
        change: Change,
        cipher: &Data<'_>,
        random: &mut Randomness,
        statistics: &Statistics,
    ) -> Result<Option<Pair>> {
        let mut plain = self.plain.as_bytes().to_vec();
        let (mut key, mut iv) = (self.key.clone(), self.iv.clone());
        let place = plain.len() / 2;
        let what = match change {
            Change::Pixel if plain.is_empty() => return Ok(None),
            Change::Pixel => {
                plain[place] ^= 1;
                format!("changed: the lowest bit of byte {place} of the plaintext")
            }
            Change::Key => {
                key[0] ^= 1;
                "changed: one bit of the key".to_owned()
            }
            Change::Nonce if iv.is_empty() => return Ok(None),
            Change::Nonce => {
                iv = random.bytes(iv.len())?;
                "changed: the nonce".to_owned()
            }
        };
        let other = self.encrypt(plain, &key, &iv)?;
        let comparison = statistics.compare(cipher, &other);
        let comparison = comparison.map_err(Failure::error)?;
        Ok(Some(Pair {
            change: Some(change),
            what,
            meaning: meaning(change, self.algorithm.info().mode),
            comparison,
        }))
    }
}

/// What a comparison says of a mode.
fn meaning(change: Change, mode: Mode) -> &'static str {
    match (change, mode) {
        (Change::Pixel, Mode::Ctr | Mode::Gcm) => {
            "A stream mode under the same key and nonce changes only the bytes that differ: NPCR \
             and UACI near 0 are its design. They show why no nonce may be used twice; with a fresh \
             one, as the mode requires, everything changes (change: nonce)."
        }
        (Change::Pixel, Mode::Ecb) => {
            "ECB changes only the block of 16 bytes: NPCR and UACI near 0 are its design, and so \
             are equal ciphertexts of equal blocks."
        }
        (Change::Pixel, Mode::Xts) => {
            "XTS changes only the block of 16 bytes under the same key and tweak, as disks need it: \
             NPCR and UACI near 0 are its design."
        }
        (Change::Pixel, Mode::Cbc) => {
            "CBC changes the block and all later ones under the same key and IV: about half of the \
             bytes here, and all of them only for a change in the first block. With a fresh IV, as \
             the mode requires, everything changes (change: nonce)."
        }
        (Change::Pixel, Mode::Acorn) => {
            "ACORN changes bytes only from the differing one on, under the same key and nonce: \
             about half of them here. With a fresh nonce, as it requires, everything changes \
             (change: nonce)."
        }
        (Change::Key, _) => "Key sensitivity: every byte should look random.",
        (Change::Nonce, _) => {
            "The proper use of the mode, a fresh nonce for each message: every byte should look \
             random."
        }
    }
}
