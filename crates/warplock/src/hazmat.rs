//! Hazardous: only for old data of other programs, never for new data.

use crate::{Algorithm, Error, Key, Lack, Mode};

/// An XTS key whose halves may be equal, to decrypt data that was encrypted with such a key.
///
/// [`Key::new`] refuses these keys. XTS is only secure under two independent keys: if they are
/// equal, an attacker who can have chosen texts decrypted learns the tweaks. FIPS 140 forbids them.
///
/// # Errors
/// [`Error::KeyLength`] if the length does not fit, [`Error::Batch`] if the algorithm is not XTS.
pub fn xts_key_with_equal_halves(algorithm: Algorithm, bytes: &[u8]) -> Result<Key, Error> {
    if algorithm.info().mode != Mode::Xts {
        return Err(Lack::KeyHalves.of(algorithm));
    }
    Key::of_bytes(algorithm, bytes)
}
