//! One step of a short message's text: counter mode, and alongside it the hash of blocks that are
//! ready.

use super::in_turn::{HALF, Lane};
use super::pairs::{Powers, hash_pair, load};
use crate::Direction;
use crate::cpu::body::Block;
use crate::cpu::body::aes::{encrypt_round, opaque, rounds_after_ninth};
use crate::cpu::body::gcm::pin;
use crate::cpu::kernels::SHORT;
use crate::cpu::prepared::{AesKey, MAX_POWERS};

/// The counter whose block masks the tag, and the first one of a text (SP 800-38D, 7.1).
pub(super) const MASK: usize = 1;
pub(super) const FIRST: usize = 2;

/// Numbers as they are stored in counter blocks: for the longest text, up to the end of the widest
/// step after it.
pub(super) static NUMBERS: [[u8; 16]; FIRST + SHORT / 16 + MAX_POWERS] = {
    let mut blocks = [[0; 16]; FIRST + SHORT / 16 + MAX_POWERS];
    let mut number = 0;
    while number < blocks.len() {
        blocks[number][15] = number as u8;
        number += 1;
    }
    assert!(number <= 256, "a number takes one byte");
    blocks
};

/// A step: `WIDE` blocks, or `HALF`; the last ones of a message may be a padded copy.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    /// Bytes that are needed.
    pub(super) len: usize,
    /// The number of the first block in the text.
    pub(super) number: usize,
    pub(super) copied: bool,
}

impl Step {
    /// Whether it takes `WIDE` blocks.
    pub(super) fn is_wide(&self) -> bool {
        self.len > 16 * HALF
    }
}

/// Encrypts or decrypts a step of `W` blocks, and hashes `P` blocks of `data` between the rounds.
///
/// # Safety
/// The machine has the instructions; the blocks lie at the step's pointers and `data`.
#[inline(always)]
pub(super) unsafe fn crypt<One: Block, const W: usize, const P: usize>(
    lane: &Lane<'_>,
    step: Step,
    mut hash: One,
    data: *const u8,
    powers: &Powers,
) -> One {
    let key = opaque(lane.key());
    // SAFETY: by this function's contract.
    unsafe {
        let counter: One = load(&lane.counter);
        let mut blocks = [counter; W];
        let numbers = &NUMBERS[FIRST + step.number..][..W];
        each!(W, i => {
            blocks[i] = counter.xor(One::splat(&numbers[i]));
        });
        // Spelt out, as the compiler would not unroll a loop of this length.
        hash = two_rounds::<One, W, P, 0>(key, &mut blocks, hash, data, powers);
        hash = two_rounds::<One, W, P, 1>(key, &mut blocks, hash, data, powers);
        hash = two_rounds::<One, W, P, 2>(key, &mut blocks, hash, data, powers);
        hash = two_rounds::<One, W, P, 3>(key, &mut blocks, hash, data, powers);
        encrypt_round(&key.enc[9], &mut blocks);
        rounds_after_ninth(Direction::Encrypt, key, &mut blocks);
        let last = One::splat(&key.enc[key.rounds]);
        each!(W, i => {
            let text = One::load(step.src.add(16 * i));
            let out = blocks[i].encrypt_last(text.xor(last));
            out.store(step.dst.add(16 * i));
        });
    }
    hash
}

/// Rounds `2 * I + 1` and the next one of [`crypt`], and the blocks that are hashed alongside them.
///
/// # Safety
/// As [`crypt`].
#[inline(always)]
unsafe fn two_rounds<One: Block, const W: usize, const P: usize, const I: usize>(
    key: &AesKey,
    blocks: &mut [One; W],
    mut hash: One,
    data: *const u8,
    powers: &Powers,
) -> One {
    const { assert!(P <= 8, "pairs of blocks go with pairs of rounds") };
    let key = opaque(key);
    encrypt_round(&key.enc[2 * I + 1], blocks);
    if 2 * I < P {
        // Kept apart by pins, see `body::gcm`.
        pin(blocks);
        // SAFETY: by this function's contract.
        hash = unsafe { hash_pair(powers, hash, data.add(32 * I)) }.pin();
    }
    encrypt_round(&key.enc[2 * I + 2], blocks);
    hash
}
