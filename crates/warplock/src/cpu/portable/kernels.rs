//! The modes over the portable cores: plain, and what all other kernels are tested against.

use zeroize::Zeroize;

use super::{GhashKey, decrypt_blocks, encrypt_blocks, encrypt_blocks_each, expand, xts_double};
use crate::Direction;
use crate::cpu::InstructionSet;
use crate::cpu::kernels::{Chain, CounterBits, Io, Kernels};
use crate::cpu::prepared::{AesKey, GhashKey as PreparedGhashKey};

/// Blocks worked on at a time: enough to fill the wide core, few enough for the first cache.
const STEP: usize = 256;

/// The portable kernels; they need no proof of instructions.
pub(crate) struct Portable;

/// Copies a kernel's input to its output, and gives the output to work on in place.
///
/// # Safety
/// As [`Kernels`].
unsafe fn output<'a>(io: Io) -> &'a mut [u8] {
    // SAFETY: by this function's contract; where the two differ, they do not overlap.
    unsafe {
        if !std::ptr::eq(io.src, io.dst) {
            io.dst.copy_from_nonoverlapping(io.src, io.len);
        }
        std::slice::from_raw_parts_mut(io.dst, io.len)
    }
}

fn blocks_of(bytes: &mut [u8]) -> &mut [[u8; 16]] {
    let (blocks, rest) = bytes.as_chunks_mut();
    debug_assert!(rest.is_empty());
    blocks
}

fn xor(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

fn crypt(key: &AesKey, direction: Direction, blocks: &mut [[u8; 16]]) {
    match direction {
        Direction::Encrypt => encrypt_blocks(&key.enc, key.rounds, blocks),
        Direction::Decrypt => decrypt_blocks(&key.enc, key.rounds, blocks),
    }
}

impl Kernels for Portable {
    fn set(&self) -> InstructionSet {
        InstructionSet::Portable
    }

    fn expand(&self, key: &[u8]) -> AesKey {
        let (enc, rounds) = expand(key);
        AesKey {
            enc,
            dec: super::inverse_keys(&enc, rounds),
            rounds,
        }
    }

    fn ghash_key(&self, h: [u8; 16], _blocks: usize) -> PreparedGhashKey {
        PreparedGhashKey::Portable {
            h,
            key: GhashKey::new(h),
        }
    }

    unsafe fn ecb(&self, key: &AesKey, direction: Direction, io: Io) {
        // SAFETY: by the trait's contract.
        crypt(key, direction, blocks_of(unsafe { output(io) }));
    }

    unsafe fn ctr(&self, key: &AesKey, counter: &mut [u8; 16], bits: CounterBits, io: Io) {
        // SAFETY: by the trait's contract.
        let text = unsafe { output(io) };
        let mut stream = [[0; 16]; STEP];
        for text in text.chunks_mut(16 * STEP) {
            let stream = &mut stream[..text.len().div_ceil(16)];
            for block in stream.iter_mut() {
                *block = *counter;
                let next = u128::from_be_bytes(*counter);
                *counter = match bits {
                    CounterBits::B32 => {
                        let low = (next as u32).wrapping_add(1);
                        next & !u128::from(u32::MAX) | u128::from(low)
                    }
                    CounterBits::B128 => next.wrapping_add(1),
                }
                .to_be_bytes();
            }
            encrypt_blocks(&key.enc, key.rounds, stream);
            xor(text, stream.as_flattened());
        }
        stream.zeroize();
    }

    unsafe fn cbc_decrypt(&self, key: &AesKey, prev: &mut [u8; 16], io: Io) {
        // SAFETY: by the trait's contract.
        let text = blocks_of(unsafe { output(io) });
        let mut chained = [[0; 16]; STEP];
        for text in text.chunks_mut(STEP) {
            let chained = &mut chained[..text.len()];
            chained[0] = *prev;
            chained[1..].copy_from_slice(&text[..text.len() - 1]);
            *prev = text[text.len() - 1];
            decrypt_blocks(&key.enc, key.rounds, text);
            xor(text.as_flattened_mut(), chained.as_flattened());
        }
    }

    unsafe fn cbc_encrypt(&self, chains: &mut [Chain<'_>]) {
        let longest = chains.iter().map(|chain| chain.io.len).max().unwrap_or(0);
        let mut keys = Vec::with_capacity(chains.len());
        let mut blocks = Vec::with_capacity(chains.len());
        // Block after block of all chains in step; the ones that ended are left out.
        for offset in (0..longest).step_by(16) {
            let open = chains.iter_mut().filter(|chain| offset < chain.io.len);
            keys.clear();
            blocks.clear();
            for chain in open {
                // SAFETY: `offset` is inside; the rest by the trait's contract.
                let block = unsafe { output(chain.io.part(offset, 16)) };
                xor(block, &chain.prev);
                keys.push(&chain.key.enc);
                blocks.push(*block.first_chunk().expect("a part of one block"));
            }
            encrypt_blocks_each(&keys, chains[0].key.rounds, &mut blocks);
            let open = chains.iter_mut().filter(|chain| offset < chain.io.len);
            for (chain, block) in open.zip(&blocks) {
                // SAFETY: as above.
                unsafe {
                    let to = chain.io.part(offset, 16).dst;
                    to.copy_from_nonoverlapping(block.as_ptr(), 16);
                }
                chain.prev = *block;
            }
        }
    }

    unsafe fn xts(&self, key: &AesKey, direction: Direction, tweak: &mut [u8; 16], io: Io) {
        // SAFETY: by the trait's contract.
        let text = blocks_of(unsafe { output(io) });
        let mut tweaks = [[0; 16]; STEP];
        for text in text.chunks_mut(STEP) {
            let tweaks = &mut tweaks[..text.len()];
            for block in tweaks.iter_mut() {
                *block = *tweak;
                *tweak = xts_double(*tweak);
            }
            xor(text.as_flattened_mut(), tweaks.as_flattened());
            crypt(key, direction, text);
            xor(text.as_flattened_mut(), tweaks.as_flattened());
        }
        tweaks.zeroize();
    }

    unsafe fn gcm(
        &self,
        key: &AesKey,
        hash: &PreparedGhashKey,
        direction: Direction,
        counter: &mut [u8; 16],
        y: &mut [u8; 16],
        io: Io,
    ) {
        for offset in (0..io.len).step_by(16 * STEP) {
            // SAFETY: by the trait's contract; a step is hashed as ciphertext, and `output`
            // leaves it as it is in place.
            unsafe {
                let part = io.part(offset, (16 * STEP).min(io.len - offset));
                if direction == Direction::Decrypt {
                    self.ghash(hash, y, output(part));
                }
                self.ctr(key, counter, CounterBits::B32, part);
                if direction == Direction::Encrypt {
                    self.ghash(hash, y, std::slice::from_raw_parts(part.dst, part.len));
                }
            }
        }
    }

    fn ghash(&self, hash: &PreparedGhashKey, y: &mut [u8; 16], data: &[u8]) {
        let PreparedGhashKey::Portable { key, .. } = hash else {
            unreachable!("kernels get hash keys that they made");
        };
        let (blocks, rest) = data.as_chunks::<16>();
        key.update(y, blocks.as_flattened());
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            key.update(y, &last);
        }
    }
}
