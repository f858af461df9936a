//! XEX: XTS without ciphertext stealing (IEEE 1619, 5.3 and 5.4).

use super::aes::{Step, Steps, decrypt, encrypt, load, store, xor_each};
use super::{Lanes, WIDE};
use crate::Direction;
use crate::cpu::kernels::Io;
use crate::cpu::prepared::AesKey;

/// XTS, see [`crate::cpu::kernels::Kernels::xts`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn xts<L: Lanes>(
    key: &AesKey,
    direction: Direction,
    tweak: &mut [u8; 16],
    io: Io,
) {
    // SAFETY: by this function's contract.
    let (first, mut base) = unsafe {
        (
            L::splat(&key.round_keys(direction)[0]),
            L::splat(tweak).xts_powers(),
        )
    };
    // SAFETY: each step touches the blocks that it is given.
    unsafe {
        let mut steps = Steps::new::<L>(io);
        while let Some(Step { src, dst, count }) = steps.next() {
            let mut tweaks = [base; WIDE];
            for i in 1..WIDE {
                tweaks[i] = tweaks[i - 1].xts_next();
            }
            let mut blocks = load::<L>(src);
            for (block, tweak) in blocks.iter_mut().zip(tweaks) {
                *block = block.xor(tweak);
            }
            xor_each(&mut blocks, first);
            match direction {
                Direction::Encrypt => encrypt(key, &mut blocks),
                Direction::Decrypt => decrypt(key, &mut blocks),
            }
            for (block, tweak) in blocks.iter_mut().zip(tweaks) {
                *block = block.xor(tweak);
            }
            store(blocks, dst);
            base = tweaks[WIDE - 1].xts_next();
            if count < WIDE * L::N {
                let mut all = [[0; 16]; 4 * WIDE];
                store(tweaks, all.as_mut_ptr().cast());
                base = L::splat(&all[count]);
            }
        }
        let mut lanes = [[0; 16]; 4];
        base.store(lanes.as_mut_ptr().cast());
        *tweak = lanes[0];
    }
}
