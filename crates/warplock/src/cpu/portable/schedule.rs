//! The key schedule (FIPS 197, section 5.2) of one key.

use super::sbox;

/// Round keys of FIPS 197, bytes in the order of the standard; those a key has no use for are
/// zero.
pub(crate) type RoundKeys = [[u8; 16]; 15];

/// Expands a key of 16, 24 or 32 bytes into its round keys and their number of rounds.
///
/// # Panics
///
/// If the key has another length.
pub(crate) fn expand(key: &[u8]) -> (RoundKeys, usize) {
    assert!(
        matches!(key.len(), 16 | 24 | 32),
        "an AES key has 16, 24 or 32 bytes"
    );
    let rounds = key.len() / 4 + 6;
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

pub(super) fn next_rcon(rcon: u8) -> u8 {
    (rcon << 1) ^ (0x1b * (rcon >> 7))
}

fn sub_word(word: u32) -> u32 {
    sbox::sub_bytes(u64::from(word)) as u32
}
