//! The keys of messages in step: schedules side by side, and hash keys.

use super::{InStep, load, store, store_all};
use crate::cpu::body::expand::{ROUND_CONSTANTS, expand, next_key};
use crate::cpu::body::{Lanes, WIDE};
use crate::cpu::kernels::{Short, ShortKey};

/// x^129 in GHASH's field (of byte-reversed blocks): a product with it and x^-128 is a product
/// with x (RFC 8452, appendix A).
const X129: u128 = 1 << 126 | 1 << 122 | 1 << 121 | 1 << 1 | 1;

impl<const M: usize> InStep<M> {
    /// Puts the round keys and hash keys in place.
    ///
    /// # Safety
    /// As [`super::gcm_short`].
    #[inline(always)]
    pub(super) unsafe fn set_keys<L: Lanes>(&mut self, messages: &[Short<'_>]) {
        let mut raw = [[0u8; 0].as_ptr(); M];
        let mut len = 0;
        let mut changed = false;
        for (lane, message) in messages.iter().enumerate() {
            match message.key {
                ShortKey::Bytes(bytes) => {
                    raw[lane] = bytes.as_ptr();
                    len = bytes.len();
                }
                ShortKey::Prepared(prepared) => {
                    if !std::ptr::eq(prepared, self.known[lane]) {
                        changed = true;
                        self.known[lane] = prepared;
                        self.rounds = prepared.aes.rounds;
                        for (row, key) in self.keys.iter_mut().zip(&prepared.aes.enc) {
                            row[lane] = u128::from_ne_bytes(*key);
                        }
                    }
                    let hash = prepared.ghash.as_ref().expect("a GCM key has a hash key");
                    self.hashes[lane] = u128::from_ne_bytes(hash.h());
                }
            }
        }
        // SAFETY: by this function's contract: there are `len` bytes behind each raw key.
        unsafe {
            if len > 0 {
                // Lanes without a message take any key.
                let any = raw[0];
                raw[messages.len()..].fill(any);
                self.rounds = len / 4 + 6;
                match len {
                    16 => self.expand128::<L>(&raw),
                    24 => self.expand192::<L>(messages),
                    _ => self.expand256::<L>(&raw),
                }
                let mut blocks = [L::splat(&[0; 16]); WIDE];
                self.encrypt(&mut blocks);
                store_all(blocks, &mut self.hashes);
            } else if !changed {
                return;
            }
            let x = L::splat(&X129.to_le_bytes());
            let times_x = [x.fold(), x];
            for i in 0..WIDE {
                let key = load::<L, M>(&self.hashes, i).reverse().hash(times_x);
                store(key.fold(), &mut self.hash_keys[0], i);
                store(key, &mut self.hash_keys[1], i);
            }
        }
    }

    /// # Safety
    /// As [`super::gcm_short`]; there are 16 bytes behind each pointer.
    #[inline(always)]
    unsafe fn expand128<L: Lanes>(&mut self, raw: &[*const u8; M]) {
        // SAFETY: by this function's contract.
        unsafe {
            let mut keys = [L::splat(&[0; 16]); WIDE];
            for (i, key) in keys.iter_mut().enumerate() {
                *key = L::gather(&raw[i * L::N..], 0);
                store(*key, &mut self.keys[0], i);
            }
            for (row, constant) in self.keys[1..].iter_mut().zip(&ROUND_CONSTANTS) {
                let constant = L::splat(constant);
                for (i, key) in keys.iter_mut().enumerate() {
                    *key = next_key(*key, *key, constant);
                    store(*key, row, i);
                }
            }
        }
    }

    /// # Safety
    /// As [`super::gcm_short`]; there are 32 bytes behind each pointer.
    #[inline(always)]
    unsafe fn expand256<L: Lanes>(&mut self, raw: &[*const u8; M]) {
        // Two registers for each key: half of the keys at a time.
        const HALF: usize = WIDE / 2;
        // SAFETY: by this function's contract.
        unsafe {
            let zero = L::splat(&[0; 16]);
            for half in [0, HALF] {
                let mut pairs = [[zero; 2]; HALF];
                for (i, pair) in pairs.iter_mut().enumerate() {
                    let raw = &raw[(half + i) * L::N..];
                    *pair = [L::gather(raw, 0), L::gather(raw, 16)];
                    store(pair[0], &mut self.keys[0], half + i);
                    store(pair[1], &mut self.keys[1], half + i);
                }
                for (rows, constant) in self.keys[2..].chunks_mut(2).zip(&ROUND_CONSTANTS) {
                    let constant = L::splat(constant);
                    for (i, pair) in pairs.iter_mut().enumerate() {
                        pair[0] = next_key(pair[0], pair[1], constant);
                        store(pair[0], &mut rows[0], half + i);
                    }
                    let Some(row) = rows.get_mut(1) else { break };
                    for (i, pair) in pairs.iter_mut().enumerate() {
                        let substituted = pair[0].last_word().encrypt_last(zero);
                        pair[1] = pair[1].sum_words_before().xor(substituted);
                        store(pair[1], row, half + i);
                    }
                }
            }
        }
    }

    /// One after the other: six words do not fill registers of four.
    ///
    /// # Safety
    /// As [`super::gcm_short`].
    #[inline(always)]
    unsafe fn expand192<L: Lanes>(&mut self, messages: &[Short<'_>]) {
        for (lane, message) in messages.iter().enumerate() {
            let ShortKey::Bytes(bytes) = message.key else {
                unreachable!("a batch has keys of one kind");
            };
            // SAFETY: by this function's contract.
            let key = unsafe { expand::<L>(bytes, false) };
            for (row, key) in self.keys.iter_mut().zip(&key.enc) {
                row[lane] = u128::from_ne_bytes(*key);
            }
        }
    }
}
