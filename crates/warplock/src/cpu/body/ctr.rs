//! Counter mode.

use super::aes::{Step, Steps, encrypt, load, store, xor_each};
use super::{Lanes, WIDE};
use crate::cpu::kernels::{CounterBits, Io};
use crate::cpu::prepared::AesKey;

/// Counters for [`WIDE`] registers from `base` on; `base` holds one little-endian counter a lane.
#[inline(always)]
pub(super) fn counters<L: Lanes>(base: L, bits: CounterBits) -> [L; WIDE] {
    let mut blocks = [base; WIDE];
    for (i, block) in blocks.iter_mut().enumerate() {
        *block = match bits {
            CounterBits::B32 => block.add32((i * L::N) as u32).reverse(),
            CounterBits::B128 => block.add64((i * L::N) as u64).reverse(),
        };
    }
    blocks
}

/// CTR, see [`crate::cpu::kernels::Kernels::ctr`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ctr<L: Lanes>(
    key: &AesKey,
    counter: &mut [u8; 16],
    bits: CounterBits,
    io: Io,
) {
    // SAFETY: by this function's contract.
    let first = unsafe { L::splat(&key.enc[0]) };
    let mut done = 0;
    while done < io.len {
        // The registers count in 64 bits (or 32, which wrap as they should): stop where the
        // lower half of the 128 overflows, and start again with the carry in the upper half.
        let start = u128::from_be_bytes(*counter);
        let room = match bits {
            CounterBits::B32 => usize::MAX,
            CounterBits::B128 => {
                let blocks = (1u128 << 64) - u128::from(start as u64);
                usize::try_from(blocks)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(16)
            }
        };
        let len = room.min(io.len - done);
        // SAFETY: by this function's contract.
        let mut base = unsafe { L::splat(&start.to_le_bytes()) };
        base = match bits {
            CounterBits::B32 => base.number32(),
            CounterBits::B128 => base.number64(),
        };
        // SAFETY: `len` bytes are left; each step touches the blocks that it is given.
        unsafe {
            let mut steps = Steps::new::<L>(io.part(done, len));
            while let Some(Step { src, dst, .. }) = steps.next() {
                let mut blocks = counters(base, bits);
                xor_each(&mut blocks, first);
                encrypt(key, &mut blocks);
                for (block, text) in blocks.iter_mut().zip(load::<L>(src)) {
                    *block = block.xor(text);
                }
                store(blocks, dst);
                base = match bits {
                    CounterBits::B32 => base.add32((WIDE * L::N) as u32),
                    CounterBits::B128 => base.add64((WIDE * L::N) as u64),
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
