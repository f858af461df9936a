//! Cipher block chaining.

use std::sync::atomic::{Ordering, compiler_fence};

use zeroize::Zeroize;

use super::aes::{Padding, Step, Steps, decrypt_rounds, load, store, xor_each};
use super::{Lanes, WIDE};
use crate::cpu::kernels::{Chain, Io};
use crate::cpu::prepared::AesKey;

/// CBC decryption, see [`crate::cpu::kernels::Kernels::cbc_decrypt`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn cbc_decrypt<L: Lanes, const W: usize>(
    key: &AesKey,
    prev: &mut [u8; 16],
    io: Io,
) {
    // SAFETY: by this function's contract; each step touches the blocks that it is given.
    unsafe {
        let first = L::splat(&key.dec[0]);
        let last = L::splat(&key.dec[key.rounds]);
        let mut before = <L::One as Lanes>::load(prev.as_ptr());
        let (mut steps, mut padding) = (Steps::new::<L, W>(io), Padding::uninit());
        while let Some(Step { src, dst, count }) = steps.next(&mut padding) {
            let mut blocks = load::<L, W>(src);
            xor_each(&mut blocks, first);
            decrypt_rounds(key, &mut blocks);
            // The ciphertext is loaded a second time: kept, it would need as many registers again.
            compiler_fence(Ordering::SeqCst);
            let mut chained = L::load(src).shift_in(before);
            for (i, block) in blocks.iter_mut().enumerate() {
                if i > 0 {
                    chained = L::load(src.add(16 * (L::N * i - 1)));
                }
                // By the last round's key, as in `last_round_with_text`.
                *block = block.decrypt_last(chained.xor(last));
            }
            // Before the store: in place, it overwrites this block.
            before = <L::One as Lanes>::load(src.add(16 * (count - 1)));
            store(blocks, dst);
        }
        before.store(prev.as_mut_ptr());
    }
}

/// The most chains in step: four lanes of each of [`WIDE`] registers.
const MOST: usize = 4 * WIDE;

/// CBC encryption of many chains, see [`crate::cpu::kernels::Kernels::cbc_encrypt`]: a chain is
/// serial, so [`WIDE`] registers of them fill the pipeline.
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn cbc_encrypt<L: Lanes>(chains: &mut [Chain<'_>]) {
    // Chains in work are swapped to the front; finished ones gather behind them.
    let mut left = chains.len();
    let mut done = vec![0; left];
    loop {
        let mut i = 0;
        while i < left {
            if done[i] == chains[i].io.len {
                left -= 1;
                chains.swap(i, left);
                done.swap(i, left);
            } else {
                i += 1;
            }
        }
        let (chains, done) = (&mut chains[..left], &mut done[..left]);
        // SAFETY: by this function's contract; each arm leaves out no more chains than there are.
        unsafe {
            match left {
                0 => return,
                _ if left >= L::N * WIDE => rows::<L, WIDE>(chains, done),
                _ if left >= L::N * WIDE / 2 => rows::<L, { WIDE / 2 }>(chains, done),
                WIDE.. => rows::<L::One, WIDE>(chains, done),
                4.. => rows::<L::One, 4>(chains, done),
                2 | 3 => rows::<L::One, 2>(chains, done),
                1 => rows::<L::One, 1>(chains, done),
            }
        }
    }
}

/// Encrypts the first `W * N` chains in step until one of them ends.
///
/// # Safety
/// As [`cbc_encrypt`]; there are that many chains.
#[inline(always)]
unsafe fn rows<L: Lanes, const W: usize>(chains: &mut [Chain<'_>], done: &mut [usize]) {
    let count = W * L::N;
    let chains = &mut chains[..count];
    let rounds = chains[0].key.rounds;
    let mut len = usize::MAX;
    // Side by side, so that one pointer reaches the keys of all chains, and a load those of all
    // lanes.
    let mut keys = [[0u128; MOST]; 15];
    let mut prev = [[0; 16]; MOST];
    let mut src = [std::ptr::null(); MOST];
    let mut dst = [std::ptr::null_mut(); MOST];
    for (i, chain) in chains.iter().enumerate() {
        len = len.min(chain.io.len - done[i]);
        prev[i] = chain.prev;
        for (row, key) in keys.iter_mut().zip(&chain.key.enc) {
            row[i] = u128::from_ne_bytes(*key);
        }
        // SAFETY: `done` never exceeds a chain's length.
        unsafe {
            src[i] = chain.io.src.add(done[i]);
            dst[i] = chain.io.dst.add(done[i]);
        }
    }
    // SAFETY: `len` bytes are left in each chain; the rest by this function's contract.
    unsafe {
        let mut state = [L::load(prev[0].as_ptr()); W];
        for (i, state) in state.iter_mut().enumerate() {
            *state = L::load(prev[i * L::N].as_ptr());
        }
        for offset in (0..len).step_by(16) {
            for (i, state) in state.iter_mut().enumerate() {
                let text = L::gather(&src[i * L::N..], offset);
                *state = state.xor(text.xor(L::load((&raw const keys[0][i * L::N]).cast())));
            }
            for row in &keys[1..rounds] {
                for (i, state) in state.iter_mut().enumerate() {
                    *state = state.encrypt_round(L::load((&raw const row[i * L::N]).cast()));
                }
            }
            for (i, state) in state.iter_mut().enumerate() {
                *state = state.encrypt_last(L::load((&raw const keys[rounds][i * L::N]).cast()));
                state.scatter(&dst[i * L::N..], offset);
            }
        }
        for (i, state) in state.iter().enumerate() {
            state.store(prev[i * L::N].as_mut_ptr());
        }
    }
    for ((chain, done), prev) in chains.iter_mut().zip(done).zip(prev) {
        chain.prev = prev;
        *done += len;
    }
    // Only what was written, and by words: by bytes, it would take longer than short messages.
    for row in &mut keys[..=rounds] {
        row[..count].zeroize();
    }
}
