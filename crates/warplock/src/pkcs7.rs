//! PKCS#7 padding (RFC 5652, 6.3) for CBC: 1 to 16 bytes, each holding their count.

use subtle::{Choice, ConstantTimeEq, ConstantTimeLess};

use crate::Error;
use crate::secret::declassify;

/// How many bytes of padding a text of `len` bytes gets: 1 to 16.
pub const fn padding_len(len: usize) -> usize {
    16 - len % 16
}

/// Appends the padding.
///
/// ```
/// let mut text = b"attack at dawn".to_vec();
/// warplock::pkcs7::pad(&mut text);
/// assert_eq!(text, b"attack at dawn\x02\x02");
/// assert_eq!(warplock::pkcs7::unpadded_len(&text)?, 14);
/// # Ok::<(), warplock::Error>(())
/// ```
pub fn pad(text: &mut Vec<u8>) {
    let padding = padding_len(text.len());
    text.resize(text.len() + padding, padding as u8);
}

/// The length of a decrypted text without its padding, in time that depends on `text.len()`
/// alone.
///
/// # Errors
/// [`Error::Padding`] if the text does not end in PKCS#7 padding. An attacker who
/// learns which ciphertexts fail this way can decrypt with it: authenticate CBC ciphertexts first.
pub fn unpadded_len(text: &[u8]) -> Result<usize, Error> {
    let Some(block) = text
        .len()
        .checked_sub(16)
        .and_then(|start| text[start..].first_chunk::<16>())
    else {
        return Err(Error::Padding);
    };
    let padding = block[15];
    let mut good = !padding.ct_eq(&0) & !16u8.ct_lt(&padding);
    for (place, byte) in block.iter().rev().enumerate() {
        let inside = (place as u8).ct_lt(&padding);
        good &= !inside | byte.ct_eq(&padding);
    }
    good &= Choice::from(text.len().is_multiple_of(16) as u8);
    if declassify(good) {
        // At most 16; a check for overflow would branch on it.
        Ok(text.len().wrapping_sub(padding.into()))
    } else {
        Err(Error::Padding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_round_trips_and_every_broken_byte_is_noticed() {
        for len in 0..48 {
            let mut text = vec![0xA5; len];
            pad(&mut text);
            assert_eq!(text.len() % 16, 0);
            assert_eq!(unpadded_len(&text).unwrap(), len);
            for place in len..text.len() {
                let mut broken = text.clone();
                broken[place] ^= 0x40;
                assert!(
                    unpadded_len(&broken).is_err(),
                    "length {len}, place {place}"
                );
            }
        }
        for bad in [&[] as &[u8], &[1], &[0; 16], &[17; 32], &[16; 15]] {
            assert!(unpadded_len(bad).is_err());
        }
    }
}
