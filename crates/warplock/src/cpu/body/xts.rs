//! XEX: XTS without ciphertext stealing (IEEE 1619, 5.3 and 5.4).

use super::aes::{Padding, Step, Steps, decrypt_rounds, encrypt_rounds, load, store};
use super::{Lanes, WIDE};
use crate::Direction;
use crate::cpu::kernels::Io;
use crate::cpu::prepared::AesKey;

/// XTS, see [`crate::cpu::kernels::Kernels::xts`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn xts<L: Lanes, const W: usize>(
    key: &AesKey,
    direction: Direction,
    tweak: &mut [u8; 16],
    io: Io,
) {
    const { assert!(W == L::DEPTH) };
    let keys = key.round_keys(direction);
    // SAFETY: by this function's contract.
    let (first, last, mut base) = unsafe {
        (
            L::splat(&keys[0]),
            L::splat(&keys[key.rounds]),
            L::splat(tweak).xts_powers(),
        )
    };
    // SAFETY: each step touches the blocks that it is given.
    unsafe {
        let (mut steps, mut padding) = (Steps::new::<L, W>(io), Padding::uninit());
        let ahead = base.xts_ahead().is_some();
        let mut tweaks = row::<L, W>(base);
        while let Some(Step { src, dst, count }) = steps.next(&mut padding) {
            if !ahead {
                // Here and not at the step's end, where they would need registers.
                tweaks = row(base);
            }
            let mut blocks = load::<L, W>(src);
            for (block, tweak) in blocks.iter_mut().zip(tweaks) {
                *block = block.xor(first).xor(tweak);
            }
            // By the last round's key, as in `last_round_with_text`.
            match direction {
                Direction::Encrypt => {
                    encrypt_rounds(key, &mut blocks);
                    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
                        *block = block.encrypt_last(tweak.xor(last));
                    }
                }
                Direction::Decrypt => {
                    decrypt_rounds(key, &mut blocks);
                    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
                        *block = block.decrypt_last(tweak.xor(last));
                    }
                }
            }
            store(blocks, dst);
            if count < W * L::N {
                let mut all = [[0; 16]; 4 * WIDE];
                store(tweaks, all.as_mut_ptr().cast());
                base = L::splat(&all[count]);
            } else if ahead {
                for tweak in &mut tweaks {
                    *tweak = tweak.xts_ahead().unwrap_or(*tweak);
                }
                base = tweaks[0];
            } else {
                base = tweaks[W - 1].xts_next();
            }
        }
        let mut lanes = [[0; 16]; 4];
        base.store(lanes.as_mut_ptr().cast());
        *tweak = lanes[0];
    }
}

/// The tweaks of a step.
#[inline(always)]
fn row<L: Lanes, const W: usize>(base: L) -> [L; W] {
    let mut tweaks = [base; W];
    for i in 1..W {
        tweaks[i] = tweaks[i - 1].xts_next();
    }
    tweaks
}
