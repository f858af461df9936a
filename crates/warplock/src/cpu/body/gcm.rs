//! GCM in one pass, and GHASH by carry-less multiplication.
//!
//! GHASH is computed as POLYVAL on byte-reversed blocks, with the hash key times x (RFC 8452,
//! appendix A): no shift of the 256-bit product is needed then. A group of [`WIDE`] registers is
//! multiplied by descending powers of H and reduced once.

use std::hint::black_box;

use super::aes::{encrypt, load, store, xor_each};
use super::ctr::{advance, counters, ctr};
use super::{Block, Lanes, WIDE};
use crate::cpu::kernels::{CounterBits, Io};
use crate::cpu::prepared::{AesKey, MAX_POWERS};

/// Powers of the hash key `h` as [`crate::cpu::prepared::GhashKey::Clmul`] holds them, as many as
/// messages of `blocks` blocks need.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ghash_powers<L: Lanes>(h: &[u8; 16], blocks: usize) -> [u128; MAX_POWERS] {
    let value = u128::from_be_bytes(*h);
    let carry = 0u128.wrapping_sub(value >> 127);
    let shifted = value << 1 ^ carry & (0xC2 << 120 | 1);
    let mut powers = [0; MAX_POWERS];
    let needed = (WIDE * L::N).min(blocks.next_multiple_of(L::N));
    // SAFETY: one block on each side; the rest by this function's contract.
    unsafe {
        let zero = L::One::splat(&[0; 16]);
        let mut known = [zero; MAX_POWERS + 1];
        known[1] = L::One::splat(&shifted.to_le_bytes());
        for k in 1..=needed {
            if k > 1 {
                // From its halves, so that most do not wait for the one before.
                known[k] = L::One::reduce(known[k.div_ceil(2)].multiply(known[k / 2]));
            }
            known[k].store((&raw mut powers[MAX_POWERS - k]).cast());
        }
    }
    powers
}

/// The products of a group of [`WIDE`] registers and their powers, one register at a time.
struct Group<L: Lanes> {
    sums: [L; 3],
    data: *const u8,
    powers: *const u8,
}

impl<L: Lanes> Group<L> {
    /// # Safety
    /// `data` points to `WIDE * N` blocks, and the machine has the instructions.
    #[inline(always)]
    unsafe fn new(data: *const u8, powers: &[u128; MAX_POWERS]) -> Self {
        // SAFETY: by this function's contract.
        let zero = unsafe { L::splat(&[0; 16]) };
        let powers = powers[MAX_POWERS - WIDE * L::N..].as_ptr().cast();
        Group {
            sums: [zero; 3],
            data,
            powers,
        }
    }

    /// Adds register `i` of the group; `y` is the hash so far, for the first.
    #[inline(always)]
    fn add(&mut self, i: usize, y: Option<L::One>) {
        // SAFETY: `i < WIDE`, and the group's pointers hold that many registers.
        let (mut data, power) = unsafe {
            let offset = 16 * L::N * i;
            (
                L::load(self.data.add(offset)).reverse(),
                L::load(self.powers.add(offset)),
            )
        };
        if let Some(y) = y {
            data = data.xor(L::widen(y));
        }
        for (sum, product) in self.sums.iter_mut().zip(data.multiply(power)) {
            *sum = sum.xor(product);
        }
    }

    #[inline(always)]
    fn finish(self) -> L::One {
        let [low, middle, high] = self.sums;
        L::One::reduce([low.sum(), middle.sum(), high.sum()])
    }
}

/// Encrypts counter blocks (already XORed with round key 0) while hashing the group at `data`:
/// one register of it in each of the first [`WIDE`] rounds, so that both units stay busy.
///
/// # Safety
/// `data` points to `WIDE * N` blocks, and the machine has the instructions.
#[inline(always)]
unsafe fn encrypt_and_hash<L: Lanes>(
    key: &AesKey,
    blocks: &mut [L; WIDE],
    data: *const u8,
    powers: &[u128; MAX_POWERS],
    y: &mut L::One,
) {
    // SAFETY: by this function's contract.
    let mut group = unsafe { Group::<L>::new(data, powers) };
    // A bound that the compiler cannot see keeps this a loop: unrolled, it moves all products
    // behind all rounds, and the two units take turns (a quarter slower).
    for round in 1..black_box(WIDE) {
        // SAFETY: by this function's contract.
        let round_key = unsafe { L::splat(&key.enc[round]) };
        for block in blocks.iter_mut() {
            *block = block.encrypt_round(round_key);
        }
        group.add(round, None);
    }
    // The register that waits for the hash so far comes last.
    group.add(0, Some(*y));
    for round in WIDE..key.rounds {
        // SAFETY: by this function's contract.
        let round_key = unsafe { L::splat(&key.enc[round]) };
        for block in blocks.iter_mut() {
            *block = block.encrypt_round(round_key);
        }
    }
    *y = group.finish();
    // SAFETY: by this function's contract.
    let last = unsafe { L::splat(&key.enc[key.rounds]) };
    for block in blocks.iter_mut() {
        *block = block.encrypt_last(last);
    }
}

/// XORs a group of key stream into text.
///
/// # Safety
/// `src` and `dst` point to `WIDE * N` blocks.
#[inline(always)]
unsafe fn xor_text<L: Lanes>(mut blocks: [L; WIDE], src: *const u8, dst: *mut u8) {
    // SAFETY: by this function's contract.
    unsafe {
        for (block, text) in blocks.iter_mut().zip(load::<L>(src)) {
            *block = block.xor(text);
        }
        store(blocks, dst);
    }
}

/// GCM encryption, see [`crate::cpu::kernels::Kernels::gcm`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn gcm_encrypt<L: Lanes>(
    key: &AesKey,
    powers: &[u128; MAX_POWERS],
    counter: &mut [u8; 16],
    y: &mut [u8; 16],
    io: Io,
) {
    let stride = 16 * L::N * WIDE;
    let whole = io.len - io.len % stride;
    // SAFETY: all offsets stay below `whole`, then below `len`; the rest by this contract.
    unsafe {
        if whole > 0 {
            let first = L::splat(&key.enc[0]);
            let start = u128::from_be_bytes(*counter);
            let mut base = L::splat(&start.to_le_bytes()).number32();
            let mut hash = <L::One as Lanes>::load(y.as_ptr()).reverse();
            for offset in (0..whole).step_by(stride) {
                let mut blocks = counters(base, CounterBits::B32);
                base = base.add32((WIDE * L::N) as u32);
                xor_each(&mut blocks, first);
                if offset == 0 {
                    encrypt(key, &mut blocks);
                } else {
                    // The ciphertext of the group before: still in the first cache.
                    let before = io.dst.add(offset - stride);
                    encrypt_and_hash(key, &mut blocks, before, powers, &mut hash);
                }
                xor_text(blocks, io.src.add(offset), io.dst.add(offset));
            }
            let mut group = Group::<L>::new(io.dst.add(whole - stride), powers);
            for i in 1..WIDE {
                group.add(i, None);
            }
            group.add(0, Some(hash));
            group.finish().reverse().store(y.as_mut_ptr());
            *counter = advance(start, CounterBits::B32, (whole / 16) as u64);
        }
        let rest = io.part(whole, io.len - whole);
        ctr::<L>(key, counter, CounterBits::B32, rest);
        ghash::<L>(powers, y, std::slice::from_raw_parts(rest.dst, rest.len));
    }
}

/// GCM decryption, see [`crate::cpu::kernels::Kernels::gcm`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn gcm_decrypt<L: Lanes>(
    key: &AesKey,
    powers: &[u128; MAX_POWERS],
    counter: &mut [u8; 16],
    y: &mut [u8; 16],
    io: Io,
) {
    let stride = 16 * L::N * WIDE;
    let whole = io.len - io.len % stride;
    // SAFETY: all offsets stay below `whole`, then below `len`; the rest by this contract.
    unsafe {
        let first = L::splat(&key.enc[0]);
        let start = u128::from_be_bytes(*counter);
        let mut base = L::splat(&start.to_le_bytes()).number32();
        let mut hash = <L::One as Lanes>::load(y.as_ptr()).reverse();
        for offset in (0..whole).step_by(stride) {
            let mut blocks = counters(base, CounterBits::B32);
            base = base.add32((WIDE * L::N) as u32);
            xor_each(&mut blocks, first);
            encrypt_and_hash(key, &mut blocks, io.src.add(offset), powers, &mut hash);
            xor_text(blocks, io.src.add(offset), io.dst.add(offset));
        }
        hash.reverse().store(y.as_mut_ptr());
        *counter = advance(start, CounterBits::B32, (whole / 16) as u64);
        let rest = io.part(whole, io.len - whole);
        ghash::<L>(powers, y, std::slice::from_raw_parts(rest.src, rest.len));
        ctr::<L>(key, counter, CounterBits::B32, rest);
    }
}

/// GHASH, see [`crate::cpu::kernels::Kernels::ghash`].
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ghash<L: Lanes>(powers: &[u128; MAX_POWERS], y: &mut [u8; 16], data: &[u8]) {
    let mut groups = data.chunks_exact(16 * L::N * WIDE);
    // SAFETY: each group is whole; the rest by this function's contract.
    unsafe {
        let mut hash = <L::One as Lanes>::load(y.as_ptr()).reverse();
        for data in &mut groups {
            let mut group = Group::<L>::new(data.as_ptr(), powers);
            for i in 1..WIDE {
                group.add(i, None);
            }
            group.add(0, Some(hash));
            hash = group.finish();
        }
        hash.reverse().store(y.as_mut_ptr());
    }
    let rest = groups.remainder();
    if rest.is_empty() {
        return;
    }
    // Moved to the end of whole registers: blocks of zeros before the first add nothing.
    let mut copy = [[0u8; 16]; 4 * WIDE];
    let blocks = rest.len().div_ceil(16);
    let total = blocks.next_multiple_of(L::N);
    copy[total - blocks..].as_flattened_mut()[..rest.len()].copy_from_slice(rest);
    for (byte, y) in copy[total - blocks].iter_mut().zip(*y) {
        *byte ^= y;
    }
    // SAFETY: `total` blocks lie in the copy and at the end of the powers.
    unsafe {
        let mut sums = [L::splat(&[0; 16]); 3];
        for i in (0..total).step_by(L::N) {
            let power = L::load(powers[MAX_POWERS - total + i..].as_ptr().cast());
            let products = L::load(copy[i].as_ptr()).reverse().multiply(power);
            for (sum, product) in sums.iter_mut().zip(products) {
                *sum = sum.xor(product);
            }
        }
        let [low, middle, high] = sums;
        L::One::reduce([low.sum(), middle.sum(), high.sum()])
            .reverse()
            .store(y.as_mut_ptr());
    }
}
