//! AES-128 with a key for each block: the schedule is computed in registers, alongside the rounds.

use std::mem::MaybeUninit;

use super::Lanes;
use super::aes::put;
use super::expand::{ROUND_CONSTANTS, next_key};
use crate::cpu::kernels::Io;

/// Registers of keys in flight, each with one of blocks: a round takes three shuffles for each, so
/// four registers cover the latency of a key's next round (a shuffle, an AES instruction, a XOR).
const FLIGHT: usize = 4;

/// A block each under its own key, see [`crate::cpu::kernels::Kernels::ecb_each`].
///
/// # Safety
/// As the trait's method; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ecb_each<L: Lanes>(keys: &[u8], io: Io) {
    let stride = 16 * L::N * FLIGHT;
    let whole = io.len - io.len % stride;
    // SAFETY: the parts lie inside the keys and the text, which are equally long.
    unsafe {
        for offset in (0..whole).step_by(stride) {
            let text = io.part(offset, stride);
            step::<L>(keys.as_ptr().add(offset), text);
        }
        let rest = io.len - whole;
        if rest > 0 {
            let mut copies = MaybeUninit::<[[u8; 16 * 4 * FLIGHT]; 2]>::zeroed().assume_init();
            let [key, text] = &mut copies;
            key[..rest].copy_from_slice(&keys[whole..]);
            io.src
                .add(whole)
                .copy_to_nonoverlapping(text.as_mut_ptr(), rest);
            step::<L>(key.as_ptr(), Io::in_place(text));
            io.dst
                .add(whole)
                .copy_from_nonoverlapping(text.as_ptr(), rest);
            zeroize::Zeroize::zeroize(key);
        }
    }
}

/// [`FLIGHT`] registers of keys and blocks.
///
/// # Safety
/// `16 * N * FLIGHT` bytes can be read at `keys` and lie in `io`, and the machine has the
/// instructions.
#[inline(always)]
unsafe fn step<L: Lanes>(keys: *const u8, io: Io) {
    // SAFETY: by this function's contract.
    unsafe {
        let mut key = [L::load(keys); FLIGHT];
        let mut block = key;
        for i in 0..FLIGHT {
            key[i] = L::load(keys.add(16 * L::N * i));
            block[i] = L::load(io.src.add(16 * L::N * i)).xor(key[i]);
        }
        for constant in &ROUND_CONSTANTS[..9] {
            let constant = L::splat(constant);
            for i in 0..FLIGHT {
                key[i] = next_key(key[i], key[i], constant);
                block[i] = block[i].encrypt_round(key[i]);
            }
        }
        let constant = L::splat(&ROUND_CONSTANTS[9]);
        for i in 0..FLIGHT {
            key[i] = next_key(key[i], key[i], constant);
            block[i] = block[i].encrypt_last(key[i]);
        }
        put(block, io.dst, io.non_temporal);
    }
}
