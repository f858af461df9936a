//! The keys of messages in step: schedules side by side, and hash keys.
//!
//! # Safety of all unsafe functions
//! As [`gcm_short`](super::gcm_short), and what one says of its own.

use super::in_step::{InStep, load, store, store_all};
use crate::cpu::body::expand::{ROUND_CONSTANTS, expand, next_key};
use crate::cpu::body::{Lanes, WIDE};
use crate::cpu::kernels::{MessageKey, Short};
use crate::cpu::prepared::AesKey;

/// x^129 in GHASH's field (of byte-reversed blocks): a product with it and x^-128 is a product
/// with x (RFC 8452, appendix A).
const X129: u128 = 1 << 126 | 1 << 122 | 1 << 121 | 1 << 1 | 1;

impl<const M: usize> InStep<M> {
    /// Writes the round keys and hash keys to their places.
    #[inline(always)]
    pub(super) unsafe fn set_keys<L: Lanes>(&mut self, messages: &[Short<'_>]) {
        let mut raw = [[0u8; 0].as_ptr(); M];
        let mut len = 0;
        let mut changed = false;
        for (lane, message) in messages.iter().enumerate() {
            match message.key {
                MessageKey::Bytes(bytes) => {
                    raw[lane] = bytes.as_ptr();
                    len = bytes.len();
                }
                MessageKey::Prepared(prepared) => {
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
        // SAFETY: by this function's contract: there are `len` bytes at each raw key.
        unsafe {
            if len > 0 {
                // Lanes without a message take any key.
                let any = raw[0];
                raw[messages.len()..].fill(any);
                self.rounds = len / 4 + 6;
                match len {
                    16 => expand128::<L, WIDE>(&raw, self.places::<L>(0)),
                    24 => self.expand192::<L>(messages),
                    _ => {
                        // Two registers for each key: half of the keys at a time.
                        const HALF: usize = WIDE / 2;
                        expand256::<L, HALF>(&raw, self.places::<L>(0));
                        expand256::<L, HALF>(&raw[HALF * L::N..], self.places::<L>(HALF));
                    }
                }
                let mut blocks = [L::splat(&[0; 16]); WIDE];
                self.encrypt(&mut blocks);
                store_all(blocks, &mut self.hashes);
            } else if !changed {
                return;
            }
            for i in 0..WIDE {
                let [low, high] = hash_key(load::<L, M>(&self.hashes, i));
                store(low, &mut self.hash_keys[0], i);
                store(high, &mut self.hash_keys[1], i);
            }
        }
    }

    /// The place of the schedules of registers from `first` on.
    fn places<L: Lanes>(&mut self, first: usize) -> Places {
        Places {
            to: (&raw mut self.keys)
                .cast::<u8>()
                .wrapping_add(16 * L::N * first),
            round: size_of::<[u128; M]>(),
            register: 16 * L::N,
        }
    }

    /// One after the other: six words do not fill registers of four.
    #[inline(always)]
    unsafe fn expand192<L: Lanes>(&mut self, messages: &[Short<'_>]) {
        let mut key = AesKey::empty();
        for (lane, message) in messages.iter().enumerate() {
            let MessageKey::Bytes(bytes) = message.key else {
                unreachable!("a batch has keys of one kind");
            };
            // SAFETY: by this function's contract.
            unsafe { expand::<L>(bytes, false, &mut key) };
            for (row, key) in self.keys.iter_mut().zip(&key.enc) {
                row[lane] = u128::from_ne_bytes(*key);
            }
        }
    }
}

/// The key of [`Lanes::hash`] from the hash key H itself.
#[inline(always)]
pub(super) unsafe fn hash_key<L: Lanes>(h: L) -> [L; 2] {
    // SAFETY: by this function's contract.
    let x = unsafe { L::splat(&X129.to_le_bytes()) };
    let key = h.reverse().hash([x.fold(), x]);
    [key.fold(), key]
}

/// The places of round keys: those of register `i` and round `r` go to `to + i * register + r *
/// round`.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) to: *mut u8,
    pub(super) round: usize,
    pub(super) register: usize,
}

impl Places {
    /// # Safety
    /// There is room for `16 * N` bytes.
    #[inline(always)]
    unsafe fn put<L: Lanes>(self, key: L, register: usize, round: usize) {
        // SAFETY: by this function's contract.
        unsafe { key.store(self.to.add(register * self.register + round * self.round)) };
    }
}

/// The schedules of `G` registers side by side.
///
/// # Safety
/// The machine has the instructions, 16 bytes can be read at each pointer, and there are
/// places for 11 keys a register.
#[inline(always)]
pub(super) unsafe fn expand128<L: Lanes, const G: usize>(raw: &[*const u8], places: Places) {
    // SAFETY: by this function's contract.
    unsafe {
        let mut keys = [L::splat(&[0; 16]); G];
        for (i, key) in keys.iter_mut().enumerate() {
            *key = L::gather(&raw[i * L::N..], 0);
            places.put(*key, i, 0);
        }
        for (before, constant) in ROUND_CONSTANTS.iter().enumerate() {
            let constant = L::splat(constant);
            for (i, key) in keys.iter_mut().enumerate() {
                *key = next_key(*key, *key, constant);
                places.put(*key, i, before + 1);
            }
        }
    }
}

/// The same for keys of 32 bytes, and 15 places.
///
/// # Safety
/// As [`expand128`].
#[inline(always)]
pub(super) unsafe fn expand256<L: Lanes, const G: usize>(raw: &[*const u8], places: Places) {
    // SAFETY: by this function's contract.
    unsafe {
        let zero = L::splat(&[0; 16]);
        let mut pairs = [[zero; 2]; G];
        for (i, pair) in pairs.iter_mut().enumerate() {
            let raw = &raw[i * L::N..];
            *pair = [L::gather(raw, 0), L::gather(raw, 16)];
            places.put(pair[0], i, 0);
            places.put(pair[1], i, 1);
        }
        for (before, constant) in ROUND_CONSTANTS[..7].iter().enumerate() {
            let constant = L::splat(constant);
            for (i, pair) in pairs.iter_mut().enumerate() {
                pair[0] = next_key(pair[0], pair[1], constant);
                places.put(pair[0], i, 2 * before + 2);
            }
            if before == 6 {
                break;
            }
            for (i, pair) in pairs.iter_mut().enumerate() {
                let substituted = pair[0].last_word().encrypt_last(zero);
                pair[1] = pair[1].sum_words_before().xor(substituted);
                places.put(pair[1], i, 2 * before + 3);
            }
        }
    }
}
