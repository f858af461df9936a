//! GCM in one pass, and GHASH by carry-less multiplication.
//!
//! GHASH is computed as POLYVAL on byte-reversed blocks, with the hash key times x (RFC 8452,
//! appendix A): no shift of the 256-bit product is needed then. A group of [`WIDE`] registers is
//! multiplied by descending powers of H and reduced once.

use std::hint::black_box;

use super::aes::{anew, encrypt_further, encrypt_round, encrypt_rounds};
use super::ctr::{advance, counters, ctr, last_round_with_text, unaligned};
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

/// Encrypts a group of text in steps of `D` registers, while hashing the group at `data`: after
/// each round, or each two if a step is half a group, one register of it, so that both units stay
/// busy. The hash before is `y`, the one behind is returned.
///
/// # Safety
/// `data`, `src` and `dst` point to `WIDE * N` blocks, and the machine has the instructions.
#[inline(always)]
unsafe fn encrypt_and_hash<L: Lanes, const D: usize>(
    key: &AesKey,
    counters: &mut Counters<L>,
    powers: &[u128; MAX_POWERS],
    y: L::One,
    data: *const u8,
    io: Io,
) -> L::One {
    const { assert!(WIDE == 8 && (D == WIDE || D == WIDE / 2)) };
    // SAFETY: by this function's contract.
    unsafe {
        let mut group = Group::<L>::new(data, powers);
        encrypt_beside::<L, D>(key, counters, &mut group, 0, y, io);
        if D < WIDE {
            let half = 16 * L::N * D;
            encrypt_beside::<L, D>(key, counters, &mut group, D, y, io.part(half, half));
        }
        group.finish()
    }
}

/// A step of [`encrypt_and_hash`]: encrypts registers from `first` on and hashes as many.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn encrypt_beside<L: Lanes, const D: usize>(
    key: &AesKey,
    counters: &mut Counters<L>,
    group: &mut Group<L>,
    first: usize,
    y: L::One,
    io: Io,
) {
    let key = anew(key);
    let mut blocks = counters.next::<D>();
    let rounds = WIDE / D;
    // The compiler would move all products in front of or behind all rounds, where the two units
    // take turns (a quarter slower): pins keep them apart, or else a loop, by a bound that it
    // cannot see.
    let most = match L::PINS {
        true => D - 1,
        false => black_box(D - 1),
    };
    for i in 0..most {
        for round_key in &key.enc[1 + i * rounds..][..rounds] {
            encrypt_round(round_key, &mut blocks);
        }
        pin(&mut blocks);
        group.add(first + i + 1, None);
        pin(&mut group.sums);
    }
    for round_key in &key.enc[9 - rounds..9] {
        encrypt_round(round_key, &mut blocks);
    }
    pin(&mut blocks);
    // The register that waits for the hash so far comes last.
    match first + D {
        WIDE => group.add(0, Some(y)),
        register => group.add(register, None),
    }
    encrypt_round(&key.enc[9], &mut blocks);
    encrypt_further(key, &mut blocks);
    // SAFETY: by this function's contract.
    unsafe { last_round_with_text(key, &mut blocks, io.src, io.dst) };
}

/// Pins registers, see [`Lanes::pin`].
#[inline(always)]
fn pin<L: Lanes>(registers: &mut [L]) {
    for register in registers {
        *register = register.pin();
    }
}

/// The counter blocks of a part, XORed with round key 0.
struct Counters<L: Lanes> {
    base: L,
    aligned: bool,
    first_key: L,
}

impl<L: Lanes> Counters<L> {
    #[inline(always)]
    fn next<const D: usize>(&mut self) -> [L; D] {
        let blocks = counters::<L, D>(self.base, CounterBits::B32, self.aligned, self.first_key);
        self.base = self.base.add32((D * L::N) as u32);
        blocks
    }
}

/// A part of a message: whole groups, or what comes before and behind them.
struct Part {
    io: Io,
    /// Whether it is whole groups.
    whole: bool,
    /// The first counter.
    start: u128,
}

impl Part {
    /// The first part of `io`, whose first counter is `counter`, for steps of `D` registers.
    ///
    /// # Safety
    /// The [`Io`] is valid.
    #[inline(always)]
    unsafe fn next<L: Lanes, const D: usize>(counter: &[u8; 16], io: Io) -> Self {
        let stride = 16 * L::N * WIDE;
        let start = u128::from_be_bytes(*counter);
        let (len, whole) = match 16 * unaligned(start, D * L::N, io.len) {
            0 if io.len >= stride => (io.len - io.len % stride, true),
            0 => (io.len, false),
            before => (before, false),
        };
        // SAFETY: `len` is at most `io.len`, as only long runs have something before them.
        let io = unsafe { io.part(0, len) };
        Part { io, whole, start }
    }

    /// # Safety
    /// The machine has the instructions.
    #[inline(always)]
    unsafe fn counters<L: Lanes, const D: usize>(&self, key: &AesKey) -> Counters<L> {
        // SAFETY: by this function's contract.
        unsafe {
            Counters {
                base: L::splat(&self.start.to_le_bytes()).number32(),
                aligned: self.start.is_multiple_of((D * L::N) as u128),
                first_key: L::splat(&key.enc[0]),
            }
        }
    }

    /// The counter behind this part.
    #[inline(always)]
    fn end(&self) -> [u8; 16] {
        advance(self.start, CounterBits::B32, (self.io.len / 16) as u64)
    }
}

/// GCM encryption, see [`crate::cpu::kernels::Kernels::gcm`].
///
/// # Safety
/// As there; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn gcm_encrypt<L: Lanes, const D: usize>(
    key: &AesKey,
    powers: &[u128; MAX_POWERS],
    counter: &mut [u8; 16],
    y: &mut [u8; 16],
    io: Io,
) {
    let stride = 16 * L::N * WIDE;
    let mut done = 0;
    // SAFETY: all parts lie in `io`; the rest by this contract.
    unsafe {
        while done < io.len {
            let part = Part::next::<L, D>(counter, io.part(done, io.len - done));
            let io = part.io;
            done += io.len;
            if !part.whole {
                ctr::<L, D>(key, counter, CounterBits::B32, io);
                ghash::<L>(powers, y, std::slice::from_raw_parts(io.dst, io.len));
                continue;
            }
            let mut counters = part.counters::<L, D>(key);
            for step in (0..stride).step_by(16 * L::N * D) {
                let mut blocks = counters.next::<D>();
                encrypt_rounds(key, &mut blocks);
                last_round_with_text(key, &mut blocks, io.src.add(step), io.dst.add(step));
            }
            let mut hash = <L::One as Lanes>::load(y.as_ptr()).reverse();
            for offset in (stride..io.len).step_by(stride) {
                let group = io.part(offset, stride);
                // The ciphertext of the group before: still in the first cache.
                let before = group.dst.sub(stride);
                hash = encrypt_and_hash::<L, D>(key, &mut counters, powers, hash, before, group);
            }
            let mut group = Group::<L>::new(io.dst.add(io.len - stride), powers);
            for i in 1..WIDE {
                group.add(i, None);
            }
            group.add(0, Some(hash));
            group.finish().reverse().store(y.as_mut_ptr());
            *counter = part.end();
        }
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
    let mut done = 0;
    // SAFETY: all parts lie in `io`; the rest by this contract.
    unsafe {
        while done < io.len {
            let part = Part::next::<L, WIDE>(counter, io.part(done, io.len - done));
            let io = part.io;
            done += io.len;
            if !part.whole {
                ghash::<L>(powers, y, std::slice::from_raw_parts(io.src, io.len));
                ctr::<L, WIDE>(key, counter, CounterBits::B32, io);
                continue;
            }
            let mut counters = part.counters::<L, WIDE>(key);
            let mut hash = <L::One as Lanes>::load(y.as_ptr()).reverse();
            for offset in (0..io.len).step_by(stride) {
                let group = io.part(offset, stride);
                // One step, not halves: in place, the first would overwrite what the second hashes.
                hash =
                    encrypt_and_hash::<L, WIDE>(key, &mut counters, powers, hash, group.src, group);
            }
            hash.reverse().store(y.as_mut_ptr());
            *counter = part.end();
        }
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
