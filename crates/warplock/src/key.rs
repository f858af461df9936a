//! Keys: secret bytes bound to the algorithm they are for.

use std::fmt;
use std::sync::OnceLock;

use zeroize::Zeroizing;

use crate::checks::has_equal_halves;
use crate::cpu::{self, Prepared};
use crate::random::fill_random;
use crate::{Algorithm, Error, Mode};

/// A secret key for one algorithm; wiped from memory when dropped, never printed.
///
/// With GCM and random nonces, encrypt at most 2^32 messages under one key (NIST SP 800-38D, 8.3).
///
/// ```
/// use warplock::{Algorithm, Key};
/// let key = Key::generate(Algorithm::Aes256Gcm)?;
/// assert_eq!(format!("{key:?}"), "Key(aes-256-gcm)");
/// assert!(Key::new(Algorithm::Aes128Gcm, &[0; 15]).is_err());
/// # Ok::<(), warplock::Error>(())
/// ```
pub struct Key {
    algorithm: Algorithm,
    bytes: Zeroizing<Vec<u8>>,
    /// What the CPU backends derive from the bytes (round keys, powers of H), once per instruction
    /// set.
    prepared: [OnceLock<Box<Prepared>>; cpu::SETS],
}

impl Key {
    /// A key from its bytes: [`Algorithm::key_len`] of them, for XTS the data key and then the
    /// tweak key.
    ///
    /// # Errors
    /// [`Error::KeyLength`] if the length does not fit, [`Error::EqualHalves`] if the halves of an
    /// XTS key are equal; [`crate::hazmat`] has a way for old data.
    pub fn new(algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let key = Key::of_bytes(algorithm, bytes)?;
        match algorithm.info().mode == Mode::Xts && has_equal_halves(bytes) {
            true => Err(Error::EqualHalves { algorithm }),
            false => Ok(key),
        }
    }

    /// [`Key::new`] without the check of XTS's halves.
    pub(crate) fn of_bytes(algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() != algorithm.key_len() {
            return Err(Error::KeyLength {
                algorithm,
                expected: algorithm.key_len(),
                found: bytes.len(),
            });
        }
        Ok(Key {
            algorithm,
            bytes: Zeroizing::new(bytes.to_vec()),
            prepared: Default::default(),
        })
    }

    /// A fresh random key from the operating system's generator.
    ///
    /// # Errors
    /// [`Error::Randomness`] if the generator fails.
    pub fn generate(algorithm: Algorithm) -> Result<Self, Error> {
        let mut bytes = Zeroizing::new(vec![0; algorithm.key_len()]);
        fill_random(&mut bytes)?;
        Key::new(algorithm, &bytes)
    }

    /// The algorithm that this key is for.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The secret bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key as the CPU backends use it, computed at the first call.
    pub(crate) fn prepared(&self, kernels: &dyn cpu::Kernels) -> &Prepared {
        self.prepared[kernels.set() as usize]
            .get_or_init(|| Box::new(Prepared::new(kernels, self.algorithm, &self.bytes)))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hazmat::xts_key_with_equal_halves;

    #[test]
    fn xts_keys_with_equal_halves_are_refused_outside_hazmat() {
        for algorithm in Algorithm::all() {
            let len = algorithm.key_len();
            let mut bytes = vec![7; len];
            let is_xts = algorithm.info().mode == Mode::Xts;
            let refused = matches!(Key::new(algorithm, &bytes), Err(Error::EqualHalves { .. }));
            assert_eq!(refused, is_xts, "{algorithm}");
            assert_eq!(xts_key_with_equal_halves(algorithm, &bytes).is_ok(), is_xts);
            assert!(xts_key_with_equal_halves(algorithm, &bytes[1..]).is_err());
            for place in [0, len / 2 - 1, len / 2, len - 1] {
                bytes[place] ^= 1;
                assert!(Key::new(algorithm, &bytes).is_ok(), "{algorithm}");
                bytes[place] ^= 1;
            }
        }
    }
}
