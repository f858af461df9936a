//! GCM in one pass, and GHASH by carry-less multiplication.
//!
//! GHASH is computed as POLYVAL on byte-reversed blocks, with the hash key times x (RFC 8452,
//! appendix A): no shift of the 256-bit product is needed then. A group of [`WIDE`] registers is
//! multiplied by descending powers of H and reduced once, and only by half: the other half is done
//! in the powers, see [`Lanes::hash`].

use super::aes::{
    ask_ahead, crypt, encrypt_round, encrypt_rounds_after, opaque, rounds_after_ninth,
};
use super::counter_cache::{Cached, Computed, CounterCache, Source, computed};
use super::ctr::{ctr, last_round_with_text};
use super::{Lanes, WIDE};
use crate::Direction;
use crate::cpu::kernels::{CounterBits, GcmCounter, Io};
use crate::cpu::prepared::{AesKey, MAX_POWERS, Powers};

/// Powers of the hash key `h` as [`crate::cpu::prepared::GhashKey::Clmul`] holds them, as many as
/// messages of `blocks` blocks need.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ghash_powers<L: Lanes>(h: &[u8; 16], blocks: usize, powers: &mut Powers) {
    let value = u128::from_be_bytes(*h);
    let carry = 0u128.wrapping_sub(value >> 127);
    let shifted = value << 1 ^ carry & (0xC2 << 120 | 1);
    let needed = (WIDE * L::N).min(blocks.next_multiple_of(L::N));
    // SAFETY: one block on each side; the rest by this function's contract.
    unsafe {
        let mut power = L::One::splat(&shifted.to_le_bytes());
        for k in 1..=needed {
            if k > 1 {
                // The product of two powers with half the exponent, so that few wait for the
                // previous one.
                let [half, other] = [k.div_ceil(2), k / 2].map(|k| MAX_POWERS - k);
                let half = L::One::load((&raw const powers.0[1][half]).cast());
                power = half.hash(powers.at(other));
            }
            power
                .fold()
                .store((&raw mut powers.0[0][MAX_POWERS - k]).cast());
            power.store((&raw mut powers.0[1][MAX_POWERS - k]).cast());
        }
    }
}

impl Powers {
    /// A register of powers starting at a place, in the form of [`Lanes::hash`].
    ///
    /// # Safety
    /// There are that many, and the machine has the instructions.
    #[inline(always)]
    unsafe fn at<L: Lanes>(&self, place: usize) -> [L; 2] {
        debug_assert!(place + L::N <= MAX_POWERS);
        // SAFETY: by this function's contract.
        unsafe {
            [
                L::load(self.0[0].as_ptr().add(place).cast()),
                L::load(self.0[1].as_ptr().add(place).cast()),
            ]
        }
    }

    /// A register of powers starting at that of the last `count` blocks; zeros after the last
    /// power.
    ///
    /// # Safety
    /// There are that many, and the machine has the instructions.
    #[inline(always)]
    unsafe fn last<L: Lanes>(&self, count: usize) -> [L; 2] {
        let place = MAX_POWERS - count;
        if count >= L::N {
            // SAFETY: by this function's contract.
            return unsafe { self.at(place) };
        }
        // SAFETY: that many powers are left.
        self.0
            .each_ref()
            .map(|powers| unsafe { L::load_part(powers[place..].as_ptr().cast(), 16 * count) })
    }
}

/// A group to be hashed.
#[derive(Clone, Copy)]
enum Data<L> {
    /// In memory.
    At(*const u8),
    /// Still in registers, see [`Lanes::HOLDS`].
    Held([L; WIDE]),
}

impl<L: Lanes> Data<L> {
    /// Register `i`.
    ///
    /// # Safety
    /// The group is readable, and the machine has the instructions.
    #[inline(always)]
    unsafe fn register(&self, i: usize) -> L {
        match self {
            // SAFETY: by this function's contract.
            Data::At(data) => unsafe { L::load(data.add(16 * L::N * i)) },
            Data::Held(registers) => registers[i],
        }
    }

    /// A group that was just written and is still in registers.
    #[inline(always)]
    fn written(registers: [L; WIDE], to: *const u8) -> Self {
        match L::HOLDS {
            true => Data::Held(registers),
            false => Data::At(to),
        }
    }
}

/// The products of a group of [`WIDE`] registers and their powers, one register at a time.
struct Group<'a, L: Lanes> {
    sums: [L; 2],
    data: Data<L>,
    powers: &'a Powers,
}

impl<'a, L: Lanes> Group<'a, L> {
    /// # Safety
    /// The data is readable, and the machine has the instructions.
    #[inline(always)]
    unsafe fn new(data: Data<L>, powers: &'a Powers) -> Self {
        Group {
            // SAFETY: by this function's contract.
            sums: [unsafe { L::splat(&[0; 16]) }; 2],
            data,
            powers,
        }
    }

    /// Adds register `i` of the group; `y` is the hash so far, for the first.
    #[inline(always)]
    fn add(&mut self, i: usize, y: Option<L::One>) {
        // SAFETY: `i < WIDE`, and there are that many registers of data and of powers.
        let (mut data, powers) = unsafe {
            (
                self.data.register(i).reverse(),
                self.powers.at(MAX_POWERS - WIDE * L::N + L::N * i),
            )
        };
        if let Some(y) = y {
            data = data.xor(L::widen(y));
        }
        add_products(&mut self.sums, data.hash_products(powers));
    }

    #[inline(always)]
    fn finish(self) -> L::One {
        let [below, above] = self.sums;
        above.xor(below.fold()).sum()
    }

    /// The hash after the group, if nothing else runs alongside.
    #[inline(always)]
    fn hash(mut self, y: L::One) -> L::One {
        for i in 1..WIDE {
            self.add(i, None);
        }
        self.add(0, Some(y));
        self.finish()
    }
}

/// Encrypts a group of text, with counter blocks after two rounds, while hashing the group `data`:
/// after each round one register of it, so that both units stay busy. `y` is the hash before; the
/// hash after it and the result of the encryption are returned.
///
/// # Safety
/// The data is readable, `io` has `WIDE * N` blocks, and the machine has the instructions.
#[inline(always)]
unsafe fn encrypt_and_hash<L: Lanes>(
    key: &AesKey,
    mut blocks: [L; WIDE],
    powers: &Powers,
    y: L::One,
    data: Data<L>,
    io: Io,
) -> (L::One, [L; WIDE]) {
    let (key, powers) = (opaque(key), opaque(powers));
    // SAFETY: by this function's contract.
    let mut group = unsafe { Group::<L>::new(data, powers) };
    // Six rounds before round 9 alternate with products, and one product is left.
    group.add(WIDE - 1, None);
    pin(&mut group.sums);
    // The compiler would move all products before or after all rounds, although the two units
    // alternate (a quarter slower): pins keep them apart.
    each!(6, i => {
        encrypt_round(&key.enc[3 + i], &mut blocks);
        pin(&mut blocks);
        group.add(1 + i, None);
        pin(&mut group.sums);
    }, 0 1 2 3 4 5);
    // The register that waits for the hash so far comes last.
    group.add(0, Some(y));
    encrypt_round(&key.enc[9], &mut blocks);
    rounds_after_ninth(Direction::Encrypt, key, &mut blocks);
    // SAFETY: by this function's contract.
    unsafe { last_round_with_text(key, &mut blocks, io) };
    (group.finish(), blocks)
}

/// Pins registers, see [`Lanes::pin`].
#[inline(always)]
pub(super) fn pin<L: Lanes, const W: usize>(registers: &mut [L; W]) {
    each!(W, i => {
        registers[i] = registers[i].pin();
    });
}

/// Adds both products of [`Lanes::hash_products`] to their sums.
#[inline(always)]
pub(super) fn add_products<L: Lanes>(sums: &mut [L; 2], [below, above]: [L; 2]) {
    *sums = [sums[0].xor(below), sums[1].xor(above)];
}

/// GCM, see [`crate::cpu::kernels::Kernels::gcm`].
///
/// # Safety
/// As the trait's method; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn gcm<L: Lanes, const ENCRYPT: bool>(
    key: &AesKey,
    powers: &Powers,
    counter: &mut GcmCounter,
    y: &mut [u8; 16],
    io: Io,
) {
    let stride = 16 * L::N * WIDE;
    let whole = io.len - io.len % stride;
    // Data that is hashed from memory must still be in the caches.
    let io = io.with_non_temporal(io.non_temporal && (L::HOLDS || !ENCRYPT));
    // SAFETY: all parts lie in `io`; the rest by this contract.
    unsafe {
        if whole > 0 {
            groups::<L, ENCRYPT>(key, powers, counter, y, io.part(0, whole));
        }
        let rest = io.part(whole, io.len - whole);
        if rest.len == 0 {
            return;
        }
        if !ENCRYPT {
            ghash::<L>(powers, y, std::slice::from_raw_parts(rest.src, rest.len));
        }
        let GcmCounter { block, hidden } = counter;
        ctr::<L, WIDE>(key, block, CounterBits::B32, *hidden, rest);
        if ENCRYPT {
            ghash::<L>(powers, y, std::slice::from_raw_parts(rest.dst, rest.len));
        }
    }
}

/// Whole groups, at least one. In decryption each is hashed during its own rounds, in encryption
/// during those of the next.
///
/// # Safety
/// As [`gcm`].
#[inline(always)]
unsafe fn groups<L: Lanes, const ENCRYPT: bool>(
    key: &AesKey,
    powers: &Powers,
    counter: &mut GcmCounter,
    y: &mut [u8; 16],
    io: Io,
) {
    let (bits, stride) = (CounterBits::B32, 16 * L::N * WIDE);
    let all = io.len / stride;
    let GcmCounter {
        block: counter,
        hidden,
    } = counter;
    let computed = computed::<L, WIDE>(all, *hidden);
    let mut kept = CounterCache::new();
    let states = kept.states();
    // SAFETY: all parts lie in `io`, and the states have room; the rest by this contract.
    unsafe {
        let mut hash = <L::One as Lanes>::load(y.as_ptr()).reverse();
        let mut source = Computed::<L>::new::<WIDE>(key, bits, counter, *hidden, computed < all);
        let mut first = io.part(0, computed * stride);
        let mut data = Data::At(io.src);
        if ENCRYPT {
            let mut blocks = source.next::<WIDE>(key, states);
            encrypt_rounds_after::<2, L, WIDE>(key, &mut blocks);
            last_round_with_text(key, &mut blocks, first.part(0, stride));
            data = Data::written(blocks, io.dst);
            first = first.part(stride, first.len - stride);
        }
        (hash, data) = run::<L, ENCRYPT>(key, source, states, powers, hash, data, first);
        if computed < all {
            let source = Cached::<L>::new(key, bits, counter);
            let rest = io.part(computed * stride, io.len - computed * stride);
            (hash, data) = run::<L, ENCRYPT>(key, source, states, powers, hash, data, rest);
            kept.wipe::<L>();
        }
        if ENCRYPT {
            hash = Group::new(data, powers).hash(hash);
        }
        hash.reverse().store(y.as_mut_ptr());
    }
    *counter = bits.advance(*counter, (io.len / 16) as u64);
}

/// A run of groups whose states come from the same source. In encryption, `data` is the group
/// before, and the last one is returned.
///
/// # Safety
/// As [`encrypt_and_hash`], for all groups, and [`Source::next`].
#[inline(always)]
unsafe fn run<L: Lanes, const ENCRYPT: bool>(
    key: &AesKey,
    mut source: impl Source<L>,
    states: *mut u8,
    powers: &Powers,
    mut hash: L::One,
    mut data: Data<L>,
    io: Io,
) -> (L::One, Data<L>) {
    let stride = 16 * L::N * WIDE;
    for offset in (0..io.len).step_by(stride) {
        // SAFETY: by this function's contract.
        unsafe {
            let group = io.part(offset, stride);
            let mut blocks = source.next::<WIDE>(key, states);
            if !ENCRYPT || group.cold {
                ask_ahead::<L>(group.src, stride);
            }
            if !ENCRYPT {
                data = Data::At(group.src);
            }
            (hash, blocks) = encrypt_and_hash::<L>(key, blocks, powers, hash, data, group);
            if ENCRYPT {
                data = Data::written(blocks, group.dst);
            }
        }
    }
    (hash, data)
}

/// GHASH, see [`crate::cpu::kernels::Kernels::ghash`].
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn ghash<L: Lanes>(powers: &Powers, y: &mut [u8; 16], data: &[u8]) {
    let mut groups = data.chunks_exact(16 * L::N * WIDE);
    // SAFETY: each group is whole; the rest by this function's contract.
    unsafe {
        let mut hash = <L::One as Lanes>::load(y.as_ptr()).reverse();
        for data in &mut groups {
            hash = Group::<L>::new(Data::At(data.as_ptr()), powers).hash(hash);
        }
        hash.reverse().store(y.as_mut_ptr());
    }
    let rest = groups.remainder();
    if rest.is_empty() {
        return;
    }
    if rest.len() <= 16 {
        let mut block = [0; 16];
        block[..rest.len()].copy_from_slice(rest);
        // SAFETY: as above, and 16 bytes lie at each reference.
        unsafe {
            let sum = L::One::splat(&block).xor(L::One::splat(y));
            let hash = sum.reverse().hash(powers.at(MAX_POWERS - 1));
            hash.reverse().store(y.as_mut_ptr());
        }
        return;
    }
    let blocks = rest.len().div_ceil(16);
    // SAFETY: that many blocks and powers are left; the rest by this function's contract.
    unsafe {
        let mut sums = [L::splat(&[0; 16]); 2];
        for done in (0..blocks).step_by(L::N) {
            let text = &rest[16 * done..];
            let mut text = L::load_part(text.as_ptr(), text.len().min(16 * L::N)).reverse();
            if done == 0 {
                text = text.xor(L::widen(<L::One as Lanes>::load(y.as_ptr()).reverse()));
            }
            let powers = powers.last(blocks - done);
            add_products(&mut sums, text.hash_products(powers));
        }
        let [below, above] = sums;
        let hash = above.xor(below.fold()).sum();
        hash.reverse().store(y.as_mut_ptr());
    }
}

/// The end of a message, see [`crate::cpu::kernels::Kernels::gcm_tag`]. Mask and hash side by side:
/// both are latency chains, and the mask need not wait for the text's hash either.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn gcm_tag<L: Lanes>(
    key: &AesKey,
    powers: &Powers,
    first: [u8; 16],
    y: [u8; 16],
    lengths: &[u8; 16],
) -> [u8; 16] {
    let mut tag = [0; 16];
    // SAFETY: 16 bytes lie at each reference; the rest by this function's contract.
    unsafe {
        let mut mask = [L::One::splat(&first).xor(L::One::splat(&key.enc[0]))];
        crypt(Direction::Encrypt, key, &mut mask);
        let sum = L::One::splat(&y).xor(L::One::splat(lengths));
        let hash = sum.reverse().hash(powers.at(MAX_POWERS - 1)).reverse();
        mask[0].xor(hash).store(tag.as_mut_ptr());
    }
    tag
}
