//! Short GCM messages in step: one block of each message at a time, a message a lane. A message
//! needs no setup that only pays off over many blocks: the key schedules are computed side by side,
//! and no powers of H are needed, because the other messages fill the time that a hash waits for
//! its last block.
//!
//! # Safety of all unsafe functions
//! As [`gcm_short`](super::gcm_short).

use std::hint::black_box;

use zeroize::Zeroize;

use super::counter;
use crate::Direction;
use crate::cpu::body::{Lanes, WIDE};
use crate::cpu::kernels::{SHORT, Short};

/// The state of a group: message `i` has lane `i`. Blocks of text and key are in the order of their
/// bytes, those of counters and hashes reversed. There are exactly as many lanes as the registers
/// hold: with the rows next to each other, loads do not wait for stores that are a multiple of 4
/// KiB away.
#[repr(C, align(64))]
pub(super) struct InStep<const M: usize> {
    pub(super) keys: [[u128; M]; 15],
    /// The hash key in the form of [`Lanes::hash`].
    pub(super) hash_keys: [[u128; M]; 2],
    counters: [u128; M],
    /// Blocks of ciphertext that are not hashed yet.
    pending: [u128; M],
    pub(super) hashes: [u128; M],
    /// The hash of the associated data.
    starts: [u128; M],
    /// The mask of the tag.
    masks: [u128; M],
    /// Scratch text for lanes that have none.
    scratch: [u128; SHORT / 16],
    src: [*const u8; M],
    dst: [*mut u8; M],
    /// The keys that are in place.
    pub(super) known: [*const crate::cpu::Prepared; M],
    pub(super) rounds: usize,
    /// Lanes and blocks of the scratch text that were used, which have to be wiped.
    lanes: usize,
    scratched: usize,
}

impl<const M: usize> InStep<M> {
    pub(super) fn new() -> Self {
        InStep {
            keys: [[0; M]; 15],
            hash_keys: [[0; M]; 2],
            counters: [0; M],
            pending: [0; M],
            hashes: [0; M],
            starts: [0; M],
            masks: [0; M],
            scratch: [0; SHORT / 16],
            src: [std::ptr::null(); M],
            dst: [std::ptr::null_mut(); M],
            known: [std::ptr::null(); M],
            rounds: 0,
            lanes: 0,
            scratched: 0,
        }
    }

    /// Encrypts or decrypts up to `WIDE * N` messages.
    #[inline(always)]
    pub(super) unsafe fn run<L: Lanes>(
        &mut self,
        direction: Direction,
        messages: &mut [Short<'_>],
    ) {
        self.lanes = self.lanes.max(WIDE * L::N);
        // SAFETY: by this function's contract, as each `unsafe` below; lanes without a message
        // work on the scratch text.
        unsafe {
            for (lane, message) in messages.iter().enumerate() {
                self.counters[lane] = counter(message.iv, 1);
            }
            self.set_keys::<L>(messages);
            self.set_masks::<L>();
            self.hash_aad::<L>(messages);
            self.text::<L>(direction, messages);

            for (lane, message) in messages.iter().enumerate() {
                let bits = |bytes: usize| 8 * bytes as u128;
                self.pending[lane] =
                    bits(message.message.aad.len()) << 64 | bits(message.message.len);
            }
            for i in 0..WIDE {
                let lengths = load::<L, M>(&self.pending, i);
                let hash = self.hashed::<L>(i, lengths).reverse();
                store(hash.xor(load(&self.masks, i)), &mut self.hashes, i);
            }
        }
        for (message, tag) in messages.iter_mut().zip(&self.hashes) {
            message.tag = tag.to_ne_bytes();
        }
    }

    /// Encrypts the first counter blocks, which mask the tags.
    #[inline(always)]
    unsafe fn set_masks<L: Lanes>(&mut self) {
        // SAFETY: by this function's contract.
        unsafe {
            let mut blocks = [L::splat(&[0; 16]); WIDE];
            for (i, block) in blocks.iter_mut().enumerate() {
                *block = load::<L, M>(&self.counters, i).reverse();
            }
            self.encrypt(&mut blocks);
            store_all(blocks, &mut self.masks);
        }
    }

    #[inline(always)]
    pub(super) unsafe fn encrypt<L: Lanes>(&self, blocks: &mut [L; WIDE]) {
        // SAFETY: by this function's contract.
        unsafe {
            for (i, block) in blocks.iter_mut().enumerate() {
                *block = block.xor(load(&self.keys[0], i));
            }
            for row in &self.keys[1..self.rounds] {
                for (i, block) in blocks.iter_mut().enumerate() {
                    *block = block.encrypt_round(load(row, i));
                }
            }
            for (i, block) in blocks.iter_mut().enumerate() {
                *block = block.encrypt_last(load(&self.keys[self.rounds], i));
            }
        }
    }

    /// The hashes of register `i` after one more block each, which is given reversed.
    #[inline(always)]
    unsafe fn hashed<L: Lanes>(&self, i: usize, blocks: L) -> L {
        // SAFETY: by this function's contract.
        unsafe {
            let [low, high] = &self.hash_keys;
            let hash = load::<L, M>(&self.hashes, i).xor(blocks);
            hash.hash([load(low, i), load(high, i)])
        }
    }

    /// Hashes the pending blocks of register `i`.
    #[inline(always)]
    unsafe fn hash_pending<L: Lanes>(&mut self, i: usize) {
        // SAFETY: by this function's contract.
        unsafe {
            let blocks = load::<L, M>(&self.pending, i).reverse();
            store(self.hashed(i, blocks), &mut self.hashes, i);
        }
    }

    /// Hashes the associated data. All end in step: zeros before them leave a hash zero.
    #[inline(always)]
    unsafe fn hash_aad<L: Lanes>(&mut self, messages: &[Short<'_>]) {
        self.hashes = [0; M];
        let blocks = |message: &Short<'_>| message.message.aad.len().div_ceil(16);
        let mut most = 0;
        for message in messages {
            most = most.max(blocks(message));
        }
        for step in 0..most {
            for (lane, message) in messages.iter().enumerate() {
                let mut block = [0; 16];
                if let Some(number) = (step + blocks(message)).checked_sub(most) {
                    let data = &message.message.aad[16 * number..];
                    match data.first_chunk() {
                        Some(whole) => block = *whole,
                        None => block[..data.len()].copy_from_slice(data),
                    }
                }
                self.pending[lane] = u128::from_ne_bytes(block);
            }
            for i in 0..WIDE {
                // SAFETY: by this function's contract.
                unsafe { self.hash_pending::<L>(i) };
            }
        }
        self.starts = self.hashes;
    }

    /// Encrypts or decrypts and hashes the texts. All end in step; until a message begins, its
    /// lane works on the scratch text.
    #[inline(always)]
    unsafe fn text<L: Lanes>(&mut self, direction: Direction, messages: &[Short<'_>]) {
        let blocks = |message: &Short<'_>| message.message.len.div_ceil(16);
        let (mut total, mut partial) = (0, false);
        for message in messages {
            total = total.max(blocks(message));
            partial |= !message.message.len.is_multiple_of(16);
        }
        // Messages of one length share a counter, which takes a tenth fewer instructions.
        let together = messages.iter().all(|message| blocks(message) == total) && !partial;
        if together {
            // SAFETY: by this function's contract.
            unsafe { self.text_together::<L>(direction, messages, total) };
            return;
        }
        let mut done = 0;
        // SAFETY: by this function's contract; each part ends where a message begins, and the
        // last block, where it is partial, is apart.
        unsafe {
            let none = L::splat(&[0; 16]);
            loop {
                let mut until = total;
                if partial && done + 1 < total {
                    until -= 1;
                }
                self.src = [self.scratch.as_ptr().cast(); M];
                self.dst = [self.scratch.as_mut_ptr().cast(); M];
                for (lane, message) in messages.iter().enumerate() {
                    let start = total - blocks(message);
                    if start > done {
                        until = until.min(start);
                        continue;
                    }
                    if start == done {
                        self.hashes[lane] = self.starts[lane];
                        self.counters[lane] = counter(message.iv, 2);
                    }
                    let offset = 16 * (done - start);
                    self.src[lane] = message.message.input.add(offset);
                    self.dst[lane] = message.message.output.add(offset);
                }
                if done == total {
                    return;
                }
                if partial && done + 1 == total {
                    self.last_blocks::<L>(direction, messages);
                    done = total;
                    continue;
                }
                self.scratched = self.scratched.max(until - done);
                self.step::<L, false, false>(direction, 0, none);
                for number in 1..until - done {
                    self.step::<L, true, false>(direction, 16 * number, none);
                }
                for i in 0..WIDE {
                    self.hash_pending::<L>(i);
                }
                done = until;
            }
        }
    }

    /// [`InStep::text`] for messages of the same number of whole blocks.
    #[inline(always)]
    unsafe fn text_together<L: Lanes>(
        &mut self,
        direction: Direction,
        messages: &[Short<'_>],
        total: usize,
    ) {
        self.hashes = self.starts;
        if total == 0 {
            return;
        }
        self.scratched = self.scratched.max(total);
        self.src = [self.scratch.as_ptr().cast(); M];
        self.dst = [self.scratch.as_mut_ptr().cast(); M];
        for (lane, message) in messages.iter().enumerate() {
            self.counters[lane] = counter(message.iv, 0);
            self.src[lane] = message.message.input;
            self.dst[lane] = message.message.output;
        }
        // SAFETY: by this function's contract.
        unsafe {
            // The common part of all counters is added in every step; the rest, and the first round
            // key, once.
            for i in 0..WIDE {
                let head = load::<L, M>(&self.counters, i).reverse();
                store(head.xor(load(&self.keys[0], i)), &mut self.counters, i);
            }
            let mut number = L::splat(&2u128.to_le_bytes());
            self.step::<L, false, true>(direction, 0, number);
            for place in 1..total {
                number = number.add32(1);
                self.step::<L, true, true>(direction, 16 * place, number);
            }
            for i in 0..WIDE {
                self.hash_pending::<L>(i);
            }
        }
    }

    /// The last step, if any message ends with a partial block: through padded copies.
    #[inline(always)]
    unsafe fn last_blocks<L: Lanes>(&mut self, direction: Direction, messages: &[Short<'_>]) {
        let mut copies = [[0u8; 16]; M];
        // SAFETY: by this function's contract; a copy takes less than a block.
        unsafe {
            let none = L::splat(&[0; 16]);
            self.scratched = self.scratched.max(1);
            let mut ends = self.dst;
            for (lane, message) in messages.iter().enumerate() {
                let len = message.message.len % 16;
                if len > 0 {
                    let copy = copies[lane].as_mut_ptr();
                    copy.copy_from_nonoverlapping(self.src[lane], len);
                    ends[lane] = self.dst[lane];
                    self.src[lane] = copy;
                    self.dst[lane] = copy;
                }
            }
            self.step::<L, false, false>(direction, 0, none);
            for (lane, message) in messages.iter().enumerate() {
                let len = message.message.len % 16;
                if len > 0 {
                    ends[lane].copy_from_nonoverlapping(copies[lane].as_ptr(), len);
                    // The hash needs zeros after the text.
                    self.pending[lane] &= !0 >> (128 - 8 * len);
                }
            }
            for i in 0..WIDE {
                self.hash_pending::<L>(i);
            }
        }
        copies.as_flattened_mut().zeroize();
    }

    /// One block of every message, `offset` bytes after the pointers; while it is encrypted, the
    /// pending one is hashed. `number` is the common part of the counters of messages that share
    /// one.
    #[inline(always)]
    unsafe fn step<L: Lanes, const HASH: bool, const TOGETHER: bool>(
        &mut self,
        direction: Direction,
        offset: usize,
        number: L,
    ) {
        // SAFETY: by this function's contract.
        unsafe {
            let mut blocks = [L::splat(&[0; 16]); WIDE];
            for (i, block) in blocks.iter_mut().enumerate() {
                let counter = load::<L, M>(&self.counters, i);
                if TOGETHER {
                    *block = counter.xor(number.reverse());
                } else {
                    store(counter.add32(1), &mut self.counters, i);
                    *block = counter.reverse().xor(load(&self.keys[0], i));
                }
            }
            // The compiler would move all products before or after all rounds; not in a loop whose
            // bound it does not know.
            for round in 1..black_box(WIDE) {
                for (i, block) in blocks.iter_mut().enumerate() {
                    *block = block.encrypt_round(load(&self.keys[round], i));
                }
                if HASH {
                    self.hash_pending::<L>(round);
                }
            }
            if HASH {
                self.hash_pending::<L>(0);
            }
            for round in WIDE..self.rounds {
                for (i, block) in blocks.iter_mut().enumerate() {
                    *block = block.encrypt_round(load(&self.keys[round], i));
                }
            }
            for (i, block) in blocks.iter_mut().enumerate() {
                let stream = block.encrypt_last(load(&self.keys[self.rounds], i));
                let text = L::gather(&self.src[i * L::N..], offset);
                let out = text.xor(stream);
                out.scatter(&self.dst[i * L::N..], offset);
                let cipher = match direction {
                    Direction::Encrypt => out,
                    Direction::Decrypt => text,
                };
                store(cipher, &mut self.pending, i);
            }
        }
    }
}

impl<const M: usize> Drop for InStep<M> {
    fn drop(&mut self) {
        let lanes = ..self.lanes;
        for row in &mut self.keys[..=self.rounds] {
            row[lanes].zeroize();
        }
        let [low, high] = &mut self.hash_keys;
        for row in [
            low,
            high,
            &mut self.hashes,
            &mut self.starts,
            &mut self.masks,
        ] {
            row[lanes].zeroize();
        }
        self.scratch[..self.scratched].zeroize();
    }
}

/// Register `i` of a row.
#[inline(always)]
pub(super) unsafe fn load<L: Lanes, const M: usize>(row: &[u128; M], i: usize) -> L {
    // SAFETY: the index is checked, and `M` has room for `WIDE` registers.
    unsafe { L::load((&raw const row[i * L::N]).cast()) }
}

#[inline(always)]
pub(super) fn store<L: Lanes, const M: usize>(lanes: L, row: &mut [u128; M], i: usize) {
    // SAFETY: as above.
    unsafe { lanes.store((&raw mut row[i * L::N]).cast()) }
}

#[inline(always)]
pub(super) fn store_all<L: Lanes, const M: usize>(registers: [L; WIDE], row: &mut [u128; M]) {
    for (i, lanes) in registers.into_iter().enumerate() {
        store(lanes, row, i);
    }
}
