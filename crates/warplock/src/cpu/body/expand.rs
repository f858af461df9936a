//! The key schedule (FIPS 197, 5.2). Without `aeskeygenassist`, which is slow: with four equal
//! columns, the last round of the cipher is SubWord and a XOR in one.

use super::{Block, Lanes};
use crate::cpu::prepared::AesKey;

/// The round constants (FIPS 197, 5.2), in every word of a block.
pub(super) const ROUND_CONSTANTS: [[u8; 16]; 10] = {
    let values = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1B, 0x36];
    let mut blocks = [[0; 16]; 10];
    let mut i = 0;
    while i < 40 {
        blocks[i / 4][i % 4 * 4] = values[i / 4];
        i += 1;
    }
    blocks
};

/// The next four words of each lane's key: `key` are the ones a key length before, `last` those
/// directly before.
#[inline(always)]
pub(super) fn next_key<L: Lanes>(key: L, last: L, constant: L) -> L {
    key.sum_words_before()
        .xor(last.rotated_last_word().encrypt_last(constant))
}

/// Round keys, see [`crate::cpu::kernels::Kernels::expand`].
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn expand<L: Lanes>(key: &[u8], inverse: bool, expanded: &mut AesKey) {
    let rounds = key.len() / 4 + 6;
    expanded.rounds = rounds;
    // SAFETY: by this function's contract.
    unsafe {
        match key.len() {
            16 => expand128::<L::One>(key, &mut expanded.enc),
            24 => expand192::<L::One>(key, &mut expanded.enc),
            _ => expand256::<L::One>(key, &mut expanded.enc),
        }
    }
    if inverse {
        expanded.dec[0] = expanded.enc[rounds];
        expanded.dec[rounds] = expanded.enc[0];
        for round in 1..rounds {
            // SAFETY: one block on each side; the rest by this function's contract.
            unsafe {
                let key = <L::One as Lanes>::load(expanded.enc[rounds - round].as_ptr());
                key.inverse_mix_columns()
                    .store(expanded.dec[round].as_mut_ptr());
            }
        }
    }
}

/// # Safety
/// The machine has the instructions, and `key` has 16 bytes.
#[inline(always)]
unsafe fn expand128<One: Block>(key: &[u8], enc: &mut [[u8; 16]; 15]) {
    // SAFETY: by this function's contract.
    unsafe {
        let mut last = One::load(key.as_ptr());
        last.store(enc[0].as_mut_ptr());
        for (to, constant) in enc[1..].iter_mut().zip(&ROUND_CONSTANTS) {
            last = next_key(last, last, One::splat(constant));
            last.store(to.as_mut_ptr());
        }
    }
}

/// # Safety
/// The machine has the instructions, and `key` has 32 bytes.
#[inline(always)]
unsafe fn expand256<One: Block>(key: &[u8], enc: &mut [[u8; 16]; 15]) {
    // SAFETY: by this function's contract.
    unsafe {
        let zero = One::splat(&[0; 16]);
        let mut pair = [One::load(key.as_ptr()), One::load(key.as_ptr().add(16))];
        pair[0].store(enc[0].as_mut_ptr());
        pair[1].store(enc[1].as_mut_ptr());
        for i in 2..15 {
            let [before, last] = pair;
            let next = if i % 2 == 0 {
                next_key(before, last, One::splat(&ROUND_CONSTANTS[i / 2 - 1]))
            } else {
                before
                    .sum_words_before()
                    .xor(last.last_word().encrypt_last(zero))
            };
            next.store(enc[i].as_mut_ptr());
            pair = [last, next];
        }
    }
}

/// Word by word: six words do not fill registers of four.
///
/// # Safety
/// The machine has the instructions, and `key` has 24 bytes.
#[inline(always)]
unsafe fn expand192<One: Block>(key: &[u8], enc: &mut [[u8; 16]; 15]) {
    let enc = enc.as_flattened_mut();
    enc[..24].copy_from_slice(key);
    let mut last = word(enc, 5);
    for i in 6..52 {
        if i % 6 == 0 {
            // FIPS 197's words are little-endian here, so that RotWord turns right.
            // SAFETY: by this function's contract.
            last = unsafe { substitute::<One>(last.rotate_right(8)) };
            last ^= word(ROUND_CONSTANTS[i / 6 - 1].as_slice(), 0);
        }
        last ^= word(enc, i - 6);
        enc[4 * i..4 * i + 4].copy_from_slice(&last.to_le_bytes());
    }
}

#[inline(always)]
fn word(schedule: &[u8], i: usize) -> u32 {
    u32::from_le_bytes(
        *schedule[4 * i..]
            .first_chunk()
            .expect("a word inside the schedule"),
    )
}

/// SubWord (FIPS 197, 5.2) in constant time.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
unsafe fn substitute<One: Block>(word: u32) -> u32 {
    let mut bytes = [0; 16];
    for column in bytes.chunks_exact_mut(4) {
        column.copy_from_slice(&word.to_le_bytes());
    }
    // SAFETY: one block on each side; the rest by this function's contract.
    unsafe {
        One::load(bytes.as_ptr())
            .encrypt_last(One::splat(&[0; 16]))
            .store(bytes.as_mut_ptr());
    }
    u32::from_le_bytes(*bytes.first_chunk().expect("a block has four bytes"))
}
