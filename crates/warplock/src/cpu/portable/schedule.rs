//! Key schedules (FIPS 197, section 5.2), one key or many at a time.

use super::{WIDE_LANES, WIDE_WORDS, sbox, wide};

/// Round keys of FIPS 197, bytes in the order of the standard; those a key has no use for are
/// zero.
pub(crate) type RoundKeys = [[u8; 16]; 15];

/// From how many keys on the wide core expands them; one by one, a key takes 0.4 µs.
const EXPAND_WIDE_MIN: usize = 40;

/// The number of rounds for a key of 16, 24 or 32 bytes: 10, 12 or 14.
///
/// # Panics
///
/// On any other length.
pub(super) fn rounds_for(key_len: usize) -> usize {
    assert!(
        matches!(key_len, 16 | 24 | 32),
        "an AES key has 16, 24 or 32 bytes, not {key_len}"
    );
    key_len / 4 + 6
}

/// Expands a key of 16, 24 or 32 bytes into its round keys and their number of rounds.
///
/// # Panics
///
/// If the key has another length.
pub(crate) fn expand(key: &[u8]) -> (RoundKeys, usize) {
    let rounds = rounds_for(key.len());
    let words_in_key = key.len() / 4;
    let mut keys = [[0; 16]; 15];
    keys.as_flattened_mut()[..key.len()].copy_from_slice(key);
    let (words, _) = keys.as_flattened_mut().as_chunks_mut::<4>();
    let mut rcon = 1;
    for i in words_in_key..4 * (rounds + 1) {
        let mut word = u32::from_le_bytes(words[i - 1]);
        if i % words_in_key == 0 {
            word = sub_word(word.rotate_right(8)) ^ u32::from(rcon);
            rcon = next_rcon(rcon);
        } else if words_in_key == 8 && i % 8 == 4 {
            word = sub_word(word);
        }
        words[i] = (word ^ u32::from_le_bytes(words[i - words_in_key])).to_le_bytes();
    }
    (keys, rounds)
}

/// The round keys of the equivalent inverse cipher (FIPS 197, section 5.3.5). The bitsliced cipher
/// does without them; GPUs take them.
pub(super) fn inverse(keys: &RoundKeys, rounds: usize) -> RoundKeys {
    let mut inverse = [[0; 16]; 15];
    for (to, from) in inverse.iter_mut().zip(keys[..=rounds].iter().rev()) {
        *to = *from;
    }
    for column in inverse[1..rounds].as_flattened_mut().as_chunks_mut().0 {
        *column = inv_mix_column(u32::from_le_bytes(*column)).to_le_bytes();
    }
    inverse
}

/// InvMixColumns of one column, without tables.
fn inv_mix_column(column: u32) -> u32 {
    // Each byte times x in AES's field.
    let double = |a: u32| ((a & 0x7f7f_7f7f) << 1) ^ (((a >> 7) & 0x0101_0101) * 0x1b);
    // The inverse matrix is the forward one times circ(5, 0, 4, 0).
    let a = column ^ double(double(column ^ column.rotate_right(16)));
    let b = double(a);
    b ^ (a ^ b).rotate_right(8) ^ a.rotate_right(16) ^ a.rotate_right(24)
}

/// Expands many keys of `key_len` bytes, which lie one after the other in `keys`.
///
/// # Panics
///
/// If the length of a key is not 16, 24 or 32, or `keys` does not hold one for each of `out`.
pub(crate) fn expand_each(keys: &[u8], key_len: usize, out: &mut [RoundKeys]) {
    rounds_for(key_len);
    assert_eq!(keys.len(), key_len * out.len(), "as many keys as schedules");
    let groups = keys
        .chunks(WIDE_LANES * key_len)
        .zip(out.chunks_mut(WIDE_LANES));
    for (keys, out) in groups {
        if out.len() >= EXPAND_WIDE_MIN {
            out.fill([[0; 16]; 15]);
            wide::expand::<WIDE_WORDS>(keys, key_len, out);
        } else {
            for (key, out) in keys.chunks_exact(key_len).zip(out) {
                *out = expand(key).0;
            }
        }
    }
}

pub(super) fn next_rcon(rcon: u8) -> u8 {
    (rcon << 1) ^ (0x1b * (rcon >> 7))
}

fn sub_word(word: u32) -> u32 {
    sbox::sub_bytes(u64::from(word)) as u32
}
