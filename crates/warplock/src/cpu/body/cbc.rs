//! Cipher block chaining.

use zeroize::Zeroize;

use super::aes::{Step, Steps, decrypt, load, store, xor_each};
use super::{Block, Lanes, WIDE};
use crate::cpu::kernels::{Chain, Io};
use crate::cpu::prepared::AesKey;

/// CBC decryption, see [`crate::cpu::kernels::Kernels::cbc_decrypt`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn cbc_decrypt<L: Lanes>(key: &AesKey, prev: &mut [u8; 16], io: Io) {
    // SAFETY: by this function's contract; each step touches the blocks that it is given.
    unsafe {
        let first = L::splat(&key.dec[0]);
        let mut before = <L::One as Lanes>::load(prev.as_ptr());
        let mut steps = Steps::new::<L>(io);
        while let Some(Step { src, dst, count }) = steps.next() {
            let mut blocks = load::<L>(src);
            let mut chained = [blocks[0].shift_in(before); WIDE];
            for i in 1..WIDE {
                chained[i] = blocks[i].shift_in(blocks[i - 1].last());
            }
            // Before the store: in place, it overwrites this block.
            before = <L::One as Lanes>::load(src.add(16 * (count - 1)));
            xor_each(&mut blocks, first);
            decrypt(key, &mut blocks);
            for (block, chained) in blocks.iter_mut().zip(chained) {
                *block = block.xor(chained);
            }
            store(blocks, dst);
        }
        before.store(prev.as_mut_ptr());
    }
}

/// CBC encryption of many chains, see [`crate::cpu::kernels::Kernels::cbc_encrypt`]: a chain is
/// serial, so [`WIDE`] of them fill the pipeline.
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
        // SAFETY: by this function's contract; every chain below `left` has blocks to do.
        unsafe {
            match left {
                0 => return,
                1 => rows::<L::One, 1>(&mut chains[..1], &mut done[..1]),
                2 | 3 => rows::<L::One, 2>(&mut chains[..2], &mut done[..2]),
                4..WIDE => rows::<L::One, 4>(&mut chains[..4], &mut done[..4]),
                _ => rows::<L::One, WIDE>(&mut chains[..WIDE], &mut done[..WIDE]),
            }
        }
    }
}

/// Encrypts `W` chains in step until the first one ends.
///
/// # Safety
/// As [`cbc_encrypt`]; there are `W` chains.
#[inline(always)]
unsafe fn rows<One: Block, const W: usize>(chains: &mut [Chain<'_>], done: &mut [usize]) {
    let rounds = chains[0].key.rounds;
    let len = (0..W)
        .map(|i| chains[i].io.len - done[i])
        .min()
        .expect("at least one chain");
    // Side by side, so that one pointer reaches the keys of all chains.
    let mut keys = [[[0; 16]; W]; 15];
    for (round, row) in keys.iter_mut().enumerate() {
        for (key, chain) in row.iter_mut().zip(chains.iter()) {
            *key = chain.key.enc[round];
        }
    }
    // SAFETY: `len` bytes are left in each chain; the rest by this function's contract.
    unsafe {
        let mut state = [One::load(chains[0].prev.as_ptr()); W];
        let mut src = [std::ptr::null(); W];
        let mut dst = [std::ptr::null_mut(); W];
        for i in 0..W {
            state[i] = One::load(chains[i].prev.as_ptr());
            src[i] = chains[i].io.src.add(done[i]);
            dst[i] = chains[i].io.dst.add(done[i]);
        }
        for offset in (0..len).step_by(16) {
            for i in 0..W {
                let text = One::load(src[i].add(offset)).xor(One::load(keys[0][i].as_ptr()));
                state[i] = state[i].xor(text);
            }
            for row in &keys[1..rounds] {
                for i in 0..W {
                    state[i] = state[i].encrypt_round(One::load(row[i].as_ptr()));
                }
            }
            for i in 0..W {
                state[i] = state[i].encrypt_last(One::load(keys[rounds][i].as_ptr()));
                state[i].store(dst[i].add(offset));
            }
        }
        for i in 0..W {
            state[i].store(chains[i].prev.as_mut_ptr());
            done[i] += len;
        }
    }
    keys.zeroize();
}
