//! Counter mode.

use super::Lanes;
use super::aes::{Padding, Step, Steps, encrypt_rounds, store};
use crate::cpu::kernels::{CounterBits, Io};
use crate::cpu::prepared::AesKey;

/// Counters for `W` registers from `base` on, XORed with round key 0; `base` holds one
/// little-endian counter a lane. If the first counter is `aligned`, a multiple of their number,
/// the others differ from it in a few bits, which is one instruction a register instead of three.
#[inline(always)]
pub(super) fn counters<L: Lanes, const W: usize>(
    base: L,
    bits: CounterBits,
    aligned: bool,
    key: L,
) -> [L; W] {
    let mut blocks = [base; W];
    if aligned {
        // SAFETY: a register exists, so the machine has the instructions.
        let zero = unsafe { L::splat(&[0; 16]) };
        // Pinned, or the compiler would add the key to each.
        let first = base.reverse().xor(key).pin();
        for (i, block) in blocks.iter_mut().enumerate() {
            *block = first.xor(zero.add64((i * L::N) as u64).reverse());
        }
        return blocks;
    }
    for (i, block) in blocks.iter_mut().enumerate() {
        let counter = match bits {
            CounterBits::B32 => base.add32((i * L::N) as u32),
            CounterBits::B128 => base.add64((i * L::N) as u64),
        };
        *block = counter.reverse().xor(key);
    }
    blocks
}

/// From this many bytes on, it pays to bring the counter to a multiple of a step first.
const LONG: usize = 4096;

/// Blocks up to the next multiple of `step` blocks, if the `len` bytes that follow are worth it.
#[inline(always)]
pub(super) fn unaligned(start: u128, step: usize, len: usize) -> usize {
    match len >= LONG {
        true => (start as usize).wrapping_neg() % step,
        false => 0,
    }
}

/// XORs text into registers by the last round, whose key the text is added to: that waits for
/// nothing, where an addition behind the round would wait for it and hold up what comes next.
///
/// # Safety
/// `src` and `dst` point to `W * N` blocks.
#[inline(always)]
pub(super) unsafe fn last_round_with_text<L: Lanes, const W: usize>(
    key: &AesKey,
    blocks: &mut [L; W],
    src: *const u8,
    dst: *mut u8,
) {
    // SAFETY: by this function's contract; the caller holds lanes.
    unsafe {
        let last = L::splat(&key.enc[key.rounds]);
        for (i, block) in blocks.iter_mut().enumerate() {
            *block = block.encrypt_last(L::load(src.add(16 * L::N * i)).xor(last));
        }
        store(*blocks, dst);
    }
}

/// CTR, see [`crate::cpu::kernels::Kernels::ctr`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ctr<L: Lanes, const W: usize>(
    key: &AesKey,
    counter: &mut [u8; 16],
    bits: CounterBits,
    io: Io,
) {
    // SAFETY: by this function's contract.
    let first = unsafe { L::splat(&key.enc[0]) };
    let mut padding = Padding::uninit();
    let mut done = 0;
    while done < io.len {
        let start = u128::from_be_bytes(*counter);
        let room = match (unaligned(start, W * L::N, io.len - done), bits) {
            // The registers count in 64 bits (or 32, which wrap as they should): stop where the
            // lower half of the 128 overflows, and start again with the carry in the upper half.
            (0, CounterBits::B128) => {
                let blocks = (1u128 << 64) - u128::from(start as u64);
                usize::try_from(blocks)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(16)
            }
            (0, CounterBits::B32) => usize::MAX,
            (blocks, _) => 16 * blocks,
        };
        let len = room.min(io.len - done);
        let aligned = start.is_multiple_of((W * L::N) as u128);
        // SAFETY: by this function's contract.
        let mut base = unsafe { L::splat(&start.to_le_bytes()) };
        base = match bits {
            CounterBits::B32 => base.number32(),
            CounterBits::B128 => base.number64(),
        };
        // SAFETY: `len` bytes are left; each step touches the blocks that it is given.
        unsafe {
            let mut steps = Steps::new::<L, W>(io.part(done, len));
            while let Some(Step { src, dst, .. }) = steps.next(&mut padding) {
                let mut blocks = counters::<L, W>(base, bits, aligned, first);
                encrypt_rounds(key, &mut blocks);
                last_round_with_text(key, &mut blocks, src, dst);
                base = match bits {
                    CounterBits::B32 => base.add32((W * L::N) as u32),
                    CounterBits::B128 => base.add64((W * L::N) as u64),
                };
            }
        }
        *counter = advance(start, bits, len.div_ceil(16) as u64);
        done += len;
    }
}

/// The counter `blocks` later.
pub(super) fn advance(start: u128, bits: CounterBits, blocks: u64) -> [u8; 16] {
    let next = match bits {
        CounterBits::B32 => {
            let low = (start as u32).wrapping_add(blocks as u32);
            start & !u128::from(u32::MAX) | u128::from(low)
        }
        CounterBits::B128 => start.wrapping_add(u128::from(blocks)),
    };
    next.to_be_bytes()
}
