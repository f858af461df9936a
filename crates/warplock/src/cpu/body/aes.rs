//! The cipher itself over several registers, and ECB.

use std::mem::MaybeUninit;

use super::{Lanes, WIDE};
use crate::Direction;
use crate::cpu::kernels::Io;
use crate::cpu::prepared::AesKey;

/// Encrypts registers whose blocks were already XORed with round key 0.
#[inline(always)]
pub(super) fn encrypt<L: Lanes, const W: usize>(key: &AesKey, blocks: &mut [L; W]) {
    for round in 1..key.rounds {
        // SAFETY: the caller holds lanes, so the machine has the instructions.
        let round_key = unsafe { L::splat(&key.enc[round]) };
        for block in blocks.iter_mut() {
            *block = block.encrypt_round(round_key);
        }
    }
    // SAFETY: as above.
    let last = unsafe { L::splat(&key.enc[key.rounds]) };
    for block in blocks.iter_mut() {
        *block = block.encrypt_last(last);
    }
}

/// The inverse of [`encrypt`], after the XOR with `key.dec[0]`.
#[inline(always)]
pub(super) fn decrypt<L: Lanes, const W: usize>(key: &AesKey, blocks: &mut [L; W]) {
    for round in 1..key.rounds {
        // SAFETY: the caller holds lanes, so the machine has the instructions.
        let round_key = unsafe { L::splat(&key.dec[round]) };
        for block in blocks.iter_mut() {
            *block = block.decrypt_round(round_key);
        }
    }
    // SAFETY: as above.
    let last = unsafe { L::splat(&key.dec[key.rounds]) };
    for block in blocks.iter_mut() {
        *block = block.decrypt_last(last);
    }
}

/// Cuts a run of bytes into steps of [`WIDE`] registers; what is left at the end goes through a
/// padded copy. Not a loop that takes a closure: closures are compiled without the instructions
/// unless they happen to be inlined (five times slower where they were not).
pub(super) struct Steps {
    io: Io,
    stride: usize,
    done: usize,
    copy: MaybeUninit<[u8; 16 * 4 * WIDE]>,
}

/// `WIDE * N` blocks to work on, of which `count` are wanted.
pub(super) struct Step {
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    pub(super) count: usize,
}

impl Steps {
    #[inline(always)]
    pub(super) fn new<L: Lanes>(io: Io) -> Self {
        const { assert!(L::N <= 4, "a stride must fit the copy") };
        Steps {
            io,
            stride: 16 * L::N * WIDE,
            done: 0,
            copy: MaybeUninit::uninit(),
        }
    }

    /// The next step; what the one before has written is in place then.
    ///
    /// # Safety
    /// The [`Io`] is still valid, and the pointers of the last step are not used any more.
    #[inline(always)]
    pub(super) unsafe fn next(&mut self) -> Option<Step> {
        let copy = self.copy.as_mut_ptr().cast::<u8>();
        // SAFETY: no access goes past `len`, nor past one stride of the copy.
        unsafe {
            let left = self.io.len.wrapping_sub(self.done);
            if left >= self.stride && self.done <= self.io.len {
                let (src, dst) = (self.io.src.add(self.done), self.io.dst.add(self.done));
                self.done += self.stride;
                return Some(Step {
                    src,
                    dst,
                    count: self.stride / 16,
                });
            }
            if self.done > self.io.len {
                // The last step was the padded one.
                let start = self.done - self.stride;
                self.io
                    .dst
                    .add(start)
                    .copy_from_nonoverlapping(copy, self.io.len - start);
                self.done = self.io.len;
                return None;
            }
            if left == 0 {
                return None;
            }
            copy.write_bytes(0, self.stride);
            copy.copy_from_nonoverlapping(self.io.src.add(self.done), left);
            self.done += self.stride;
            Some(Step {
                src: copy,
                dst: copy,
                count: left.div_ceil(16),
            })
        }
    }
}

/// Loads [`WIDE`] registers.
///
/// # Safety
/// `16 * N * WIDE` bytes can be read, and the machine has the instructions.
#[inline(always)]
pub(super) unsafe fn load<L: Lanes>(src: *const u8) -> [L; WIDE] {
    // SAFETY: by this function's contract.
    unsafe {
        let mut blocks = [L::load(src); WIDE];
        for (i, block) in blocks.iter_mut().enumerate().skip(1) {
            *block = L::load(src.add(16 * L::N * i));
        }
        blocks
    }
}

/// Stores [`WIDE`] registers.
///
/// # Safety
/// `16 * N * WIDE` bytes can be written.
#[inline(always)]
pub(super) unsafe fn store<L: Lanes>(blocks: [L; WIDE], dst: *mut u8) {
    for (i, block) in blocks.into_iter().enumerate() {
        // SAFETY: by this function's contract.
        unsafe { block.store(dst.add(16 * L::N * i)) };
    }
}

/// XORs one register into all.
#[inline(always)]
pub(super) fn xor_each<L: Lanes, const W: usize>(blocks: &mut [L; W], other: L) {
    for block in blocks.iter_mut() {
        *block = block.xor(other);
    }
}

/// ECB, see [`crate::cpu::kernels::Kernels::ecb`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ecb<L: Lanes>(key: &AesKey, direction: Direction, io: Io) {
    if io.len == 16 {
        // SAFETY: one block on each side; the rest by this function's contract.
        unsafe { single::<L::One>(key, direction, io) };
        return;
    }
    // SAFETY: by this function's contract.
    let first = unsafe { L::splat(&key.round_keys(direction)[0]) };
    let mut steps = Steps::new::<L>(io);
    // SAFETY: each step touches the blocks that it is given.
    unsafe {
        while let Some(Step { src, dst, .. }) = steps.next() {
            let mut blocks = load::<L>(src);
            xor_each(&mut blocks, first);
            match direction {
                Direction::Encrypt => encrypt(key, &mut blocks),
                Direction::Decrypt => decrypt(key, &mut blocks),
            }
            store(blocks, dst);
        }
    }
}

/// One block, for what a message needs once: tweaks, hash keys, masks.
///
/// # Safety
/// As [`ecb`].
#[inline(always)]
unsafe fn single<One: Lanes>(key: &AesKey, direction: Direction, io: Io) {
    // SAFETY: by this function's contract.
    unsafe {
        let first = One::splat(&key.round_keys(direction)[0]);
        let mut block = [One::load(io.src).xor(first)];
        match direction {
            Direction::Encrypt => encrypt(key, &mut block),
            Direction::Decrypt => decrypt(key, &mut block),
        }
        block[0].store(io.dst);
    }
}
