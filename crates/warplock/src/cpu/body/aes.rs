//! The cipher itself over several registers, and ECB.

use std::arch::asm;

use super::Lanes;
use crate::Direction;
use crate::cpu::kernels::{Io, LINE};
use crate::cpu::prepared::AesKey;

/// The keys, opaque to the compiler. If it saw that they are the same in every step, it would copy
/// the round keys that do not fit into registers to the stack, where they would not be wiped.
#[inline(always)]
#[allow(
    clippy::pointers_in_nomem_asm_block,
    reason = "nothing is read or written there"
)]
pub(super) fn opaque<T>(key: &T) -> &T {
    let mut pointer: *const T = key;
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(reg) pointer, options(nomem, nostack, preserves_flags)) };
    // SAFETY: the pointer is unchanged.
    unsafe { &*pointer }
}

/// One round of the cipher, or of the equivalent inverse cipher.
#[inline(always)]
pub(super) fn round<L: Lanes, const W: usize>(
    direction: Direction,
    round_key: &[u8; 16],
    blocks: &mut [L; W],
) {
    // SAFETY: the caller holds lanes, so the machine has the instructions.
    let round_key = unsafe { L::splat(round_key) };
    each!(W, i => {
        blocks[i] = match direction {
            Direction::Encrypt => blocks[i].encrypt_round(round_key),
            Direction::Decrypt => blocks[i].decrypt_round(round_key),
        };
    });
}

/// One round of the cipher.
#[inline(always)]
pub(super) fn encrypt_round<L: Lanes, const W: usize>(round_key: &[u8; 16], blocks: &mut [L; W]) {
    round(Direction::Encrypt, round_key, blocks);
}

/// The rounds after the first `DONE` ones, except the last.
#[inline(always)]
pub(super) fn encrypt_rounds_after<const DONE: usize, L: Lanes, const W: usize>(
    key: &AesKey,
    blocks: &mut [L; W],
) {
    let key = opaque(key);
    encrypt_before_tenth::<L, W, DONE>(key, blocks);
    rounds_after_ninth(Direction::Encrypt, key, blocks);
}

/// The rounds after the first `DONE` ones and before the tenth.
#[inline(always)]
pub(super) fn encrypt_before_tenth<L: Lanes, const W: usize, const DONE: usize>(
    key: &AesKey,
    blocks: &mut [L; W],
) {
    macro_rules! rounds {
        ($($round:literal)*) => {
            $(if const { $round > DONE } {
                encrypt_round(&key.enc[$round], blocks);
            })*
        };
    }
    rounds!(1 2 3 4 5 6 7 8 9);
}

/// The rounds that longer keys have in addition to those of AES-128, except the last. Straight-line
/// code: a loop to `rounds` would cost a compare and a branch every round, and a mispredicted branch
/// at its end.
#[inline(always)]
pub(super) fn rounds_after_ninth<L: Lanes, const W: usize>(
    direction: Direction,
    key: &AesKey,
    blocks: &mut [L; W],
) {
    let keys = key.round_keys(direction);
    if key.rounds > 10 {
        round(direction, &keys[10], blocks);
        round(direction, &keys[11], blocks);
        if key.rounds > 12 {
            round(direction, &keys[12], blocks);
            round(direction, &keys[13], blocks);
        }
    }
}

/// All rounds of the inverse cipher but the last, after the XOR with `key.dec[0]`.
#[inline(always)]
pub(super) fn decrypt_rounds<L: Lanes, const W: usize>(key: &AesKey, blocks: &mut [L; W]) {
    let keys = opaque(key);
    // Written out: for many registers, the compiler would make a loop of it.
    each!(10, number => {
        round(Direction::Decrypt, &keys.dec[number], blocks);
    }, 1 2 3 4 5 6 7 8 9);
    rounds_after_ninth(Direction::Decrypt, opaque(key), blocks);
}

/// All rounds but the last, of registers whose blocks were already XORed with the first round key.
#[inline(always)]
pub(super) fn rounds<L: Lanes, const W: usize>(
    direction: Direction,
    key: &AesKey,
    blocks: &mut [L; W],
) {
    match direction {
        Direction::Encrypt => encrypt_rounds_after::<0, L, W>(key, blocks),
        Direction::Decrypt => decrypt_rounds(key, blocks),
    }
}

/// The last round of the cipher, or of its inverse.
#[inline(always)]
pub(super) fn last_round<L: Lanes>(direction: Direction, block: L, key: L) -> L {
    match direction {
        Direction::Encrypt => block.encrypt_last(key),
        Direction::Decrypt => block.decrypt_last(key),
    }
}

/// Encrypts or decrypts registers whose blocks were already XORed with the first round key.
#[inline(always)]
pub(super) fn crypt<L: Lanes, const W: usize>(
    direction: Direction,
    key: &AesKey,
    blocks: &mut [L; W],
) {
    rounds(direction, key, blocks);
    // SAFETY: the caller holds lanes, so the machine has the instructions.
    let last = unsafe { L::splat(&key.round_keys(direction)[key.rounds]) };
    each!(W, i => {
        blocks[i] = last_round(direction, blocks[i], last);
    });
}

/// Loads `W` registers.
///
/// # Safety
/// `16 * N * W` bytes can be read, and the machine has the instructions.
#[inline(always)]
pub(super) unsafe fn load<L: Lanes, const W: usize>(src: *const u8) -> [L; W] {
    // SAFETY: by this function's contract.
    unsafe {
        let mut blocks = [L::splat(&[0; 16]); W];
        each!(W, i => {
            blocks[i] = L::load(src.add(16 * L::N * i));
        });
        blocks
    }
}

/// Loads the first `len` bytes into `W` registers, followed by zeros.
///
/// # Safety
/// `len` bytes can be read, at most `16 * N * W`, and the machine has the instructions.
#[inline(always)]
pub(super) unsafe fn load_tail<L: Lanes, const W: usize>(src: *const u8, len: usize) -> [L; W] {
    // SAFETY: by this function's contract.
    unsafe {
        let mut blocks = [L::splat(&[0; 16]); W];
        for (i, block) in blocks.iter_mut().enumerate() {
            let before = 16 * L::N * i;
            if len >= before + 16 * L::N {
                *block = L::load(src.add(before));
            } else if len > before {
                *block = L::load_part(src.add(before), len - before);
            }
        }
        blocks
    }
}

/// Stores the first `len` bytes of `W` registers.
///
/// # Safety
/// `len` bytes can be written, at most `16 * N * W`.
#[inline(always)]
pub(super) unsafe fn store_tail<L: Lanes, const W: usize>(
    blocks: [L; W],
    dst: *mut u8,
    len: usize,
) {
    for (i, block) in blocks.into_iter().enumerate() {
        let before = 16 * L::N * i;
        // SAFETY: by this function's contract.
        unsafe {
            if len >= before + 16 * L::N {
                block.store(dst.add(before));
            } else if len > before {
                block.store_part(dst.add(before), len - before);
            }
        }
    }
}

/// Stores `W` registers.
///
/// # Safety
/// `16 * N * W` bytes can be written.
#[inline(always)]
pub(super) unsafe fn store<L: Lanes, const W: usize>(blocks: [L; W], dst: *mut u8) {
    each!(W, i => {
        // SAFETY: by this function's contract.
        unsafe { blocks[i].store(dst.add(16 * L::N * i)) };
    });
}

/// Stores `W` registers of output, with non-temporal stores where `non_temporal` says so.
///
/// # Safety
/// `16 * N * W` bytes can be written; for non-temporal stores, as [`Lanes::stream`].
#[inline(always)]
pub(super) unsafe fn put<L: Lanes, const W: usize>(
    blocks: [L; W],
    dst: *mut u8,
    non_temporal: bool,
) {
    debug_assert!(!non_temporal || (dst as usize).is_multiple_of(16 * L::N));
    // SAFETY: by this function's contract.
    unsafe {
        if !non_temporal {
            return store(blocks, dst);
        }
        each!(W, i => {
            blocks[i].stream(dst.add(16 * L::N * i));
        });
    }
}

/// How far ahead of the cipher its text is prefetched.
const AHEAD: usize = 2048;

/// Prefetches what a step this many bytes later reads. The CPU's own prefetcher does not detect
/// loads that touch two lines each in an order of their own, or follows too closely: GCM and XTS
/// then run at half the speed from memory (Zen 4, Zen 5). From caches everything is some hundredths
/// faster without it.
#[inline(always)]
pub(super) fn ask_ahead<L: Lanes>(src: *const u8, len: usize) {
    for line in (0..len).step_by(LINE) {
        L::prefetch(src.wrapping_add(AHEAD + line));
    }
}

/// XORs one register into all.
#[inline(always)]
pub(super) fn xor_each<L: Lanes, const W: usize>(blocks: &mut [L; W], other: L) {
    each!(W, i => {
        blocks[i] = blocks[i].xor(other);
    });
}

/// ECB, see [`crate::cpu::kernels::Kernels::ecb`].
///
/// # Safety
/// As the trait's method; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ecb<L: Lanes, const W: usize>(key: &AesKey, direction: Direction, io: Io) {
    if io.len == 16 {
        // SAFETY: one block on each side; the rest by this function's contract.
        unsafe { single::<L::One>(key, direction, io) };
        return;
    }
    let (stride, mut left) = (16 * L::N * W, io);
    // SAFETY: each step touches the blocks that it is given; the rest by this function's contract.
    unsafe {
        while left.len >= stride {
            let blocks = ecb_step(key, direction, load::<L, W>(left.src));
            put(blocks, left.dst, left.non_temporal);
            left = left.part(stride, left.len - stride);
        }
        match left.len.div_ceil(16 * L::N) {
            0 => {}
            1 => ecb_tail::<L, 1>(key, direction, left),
            2..=4 => ecb_tail::<L, 4>(key, direction, left),
            _ => ecb_tail::<L, W>(key, direction, left),
        }
    }
}

/// ECB on less than a step.
///
/// # Safety
/// As [`ecb`]; there are at most `W` registers.
#[inline(always)]
unsafe fn ecb_tail<L: Lanes, const W: usize>(key: &AesKey, direction: Direction, io: Io) {
    // SAFETY: by this function's contract.
    unsafe {
        let blocks = ecb_step(key, direction, load_tail::<L, W>(io.src, io.len));
        store_tail(blocks, io.dst, io.len);
    }
}

/// Each block of `W` registers on its own.
#[inline(always)]
fn ecb_step<L: Lanes, const W: usize>(
    key: &AesKey,
    direction: Direction,
    mut blocks: [L; W],
) -> [L; W] {
    // SAFETY: the caller holds lanes, so the machine has the instructions.
    let first = unsafe { L::splat(&key.round_keys(direction)[0]) };
    xor_each(&mut blocks, first);
    crypt(direction, key, &mut blocks);
    blocks
}

/// Encrypts one block.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn encrypt_one<L: Lanes>(key: &AesKey, block: &mut [u8; 16]) {
    // SAFETY: the block is borrowed alone; the rest by this function's contract.
    unsafe { single::<L::One>(key, Direction::Encrypt, Io::in_place(block)) };
}

/// One block, for values that a message needs once: tweaks, hash keys, masks.
///
/// # Safety
/// As [`ecb`].
#[inline(always)]
unsafe fn single<One: Lanes>(key: &AesKey, direction: Direction, io: Io) {
    // SAFETY: by this function's contract.
    unsafe {
        let [block] = ecb_step(key, direction, [One::load(io.src)]);
        block.store(io.dst);
    }
}
