//! GHASH of one short message: two powers of H, so that two blocks share a reduction. With one, a
//! hash would take longer than the cipher; a third one costs as much as it saves in 16 blocks.
//!
//! # Safety of all unsafe functions
//! The machine has the instructions, and what one says of its own.

use super::keys::hash_key;
use crate::cpu::body::Block;

/// H and its square, each in the form of [`crate::cpu::body::Lanes::hash`].
pub(super) type Powers = [[u128; 2]; 2];

/// The powers of the hash key H.
#[inline(always)]
pub(super) unsafe fn powers<One: Block>(h: One) -> Powers {
    let mut powers = [[0; 2]; 2];
    // SAFETY: by this function's contract; a block has 16 bytes.
    unsafe {
        let key = hash_key(h);
        let square = key[1].hash(key);
        for (to, from) in powers.iter_mut().zip([key, [square.fold(), square]]) {
            store(from[0], &mut to[0]);
            store(from[1], &mut to[1]);
        }
    }
    powers
}

/// A block in the order of its bytes.
#[inline(always)]
pub(super) unsafe fn load<One: Block>(block: &u128) -> One {
    // SAFETY: 16 bytes; the rest by this function's contract.
    unsafe { One::load((&raw const *block).cast()) }
}

#[inline(always)]
pub(super) fn store<One: Block>(block: One, to: &mut u128) {
    // SAFETY: 16 bytes.
    unsafe { block.store((&raw mut *to).cast()) };
}

#[inline(always)]
unsafe fn load_key<One: Block>([low, high]: &[u128; 2]) -> [One; 2] {
    // SAFETY: by this function's contract.
    unsafe { [load(low), load(high)] }
}

/// The hash, reversed, after two more blocks.
///
/// # Safety
/// The machine has the instructions, and 32 bytes can be read.
#[inline(always)]
pub(super) unsafe fn hash_pair<One: Block>(powers: &Powers, hash: One, data: *const u8) -> One {
    // SAFETY: by this function's contract.
    unsafe {
        let [first, second] = [One::load(data).reverse(), One::load(data.add(16)).reverse()];
        let [below, above] = first.xor(hash).hash_products(load_key(&powers[1]));
        let [second_below, second_above] = second.hash_products(load_key(&powers[0]));
        let below = below.xor(second_below).fold();
        above.xor(second_above).xor(below)
    }
}

/// The hash, reversed, after any number of bytes, padded with zeros to whole blocks.
#[inline(always)]
pub(super) unsafe fn hash_bytes<One: Block>(powers: &Powers, mut hash: One, bytes: &[u8]) -> One {
    let (pairs, rest) = bytes.as_chunks::<32>();
    // SAFETY: by this function's contract.
    unsafe {
        for pair in pairs {
            hash = hash_pair(powers, hash, pair.as_ptr());
        }
        if rest.is_empty() {
            return hash;
        }
        let mut last = [0; 32];
        last[..rest.len()].copy_from_slice(rest);
        if rest.len() > 16 {
            return hash_pair(powers, hash, last.as_ptr());
        }
        hash_block(powers, hash, One::load(last.as_ptr()).reverse())
    }
}

/// The hash, reversed, after one more block, which is given reversed.
#[inline(always)]
pub(super) unsafe fn hash_block<One: Block>(powers: &Powers, hash: One, block: One) -> One {
    // SAFETY: by this function's contract.
    block.xor(hash).hash(unsafe { load_key(&powers[0]) })
}
