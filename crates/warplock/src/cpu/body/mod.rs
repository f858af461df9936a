//! The bodies of the algorithms, written once over [`Lanes`]: a register that holds one or more
//! AES blocks. An instruction set provides the register; see [`super::x86`].

/// The same for each of `W` registers, spelt out. The compiler would unroll a loop, too, but takes
/// minutes for thousands of them, and in some it keeps the registers in memory.
macro_rules! each {
    ($w:expr, $i:ident => $body:block) => {
        const { assert!($w <= 12) };
        each!($w, $i => $body, 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    ($w:expr, $i:ident => $body:block, $($number:literal)*) => {
        $(if const { $number < $w } {
            let $i: usize = $number;
            $body
        })*
    };
}

/// Methods of [`Lanes`] for registers of one block.
macro_rules! one_lane {
    () => {
        #[inline(always)]
        unsafe fn gather(from: &[*const u8], offset: usize) -> Self {
            // SAFETY: by the trait's contract.
            unsafe { Self::load(from[0].add(offset)) }
        }
        #[inline(always)]
        unsafe fn scatter(self, to: &[*mut u8], offset: usize) {
            // SAFETY: by the trait's contract.
            unsafe { self.store(to[0].add(offset)) }
        }
        #[inline(always)]
        fn number64(self) -> Self {
            self
        }
        #[inline(always)]
        fn number32(self) -> Self {
            self
        }
        #[inline(always)]
        fn widen(one: Self) -> Self {
            one
        }
        #[inline(always)]
        fn shift_in(self, before: Self) -> Self {
            before
        }
        #[inline(always)]
        fn xts_powers(self) -> Self {
            self
        }
        #[inline(always)]
        fn sum(self) -> Self {
            self
        }
    };
}

mod aes;
mod cbc;
mod counter_cache;
mod ctr;
mod each;
mod expand;
mod gcm;
mod short;
mod xts;

pub(crate) use aes::{ecb, encrypt_one};
pub(crate) use cbc::{cbc_decrypt, cbc_encrypt};
pub(crate) use ctr::ctr;
pub(crate) use each::ecb_each;
pub(crate) use expand::expand;
pub(crate) use gcm::{gcm, gcm_tag, ghash, ghash_powers};
pub(crate) use one_lane;
pub(crate) use short::{Apart, gcm_in_step, gcm_in_turn, gcm_short};
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use xts::rows as xts_rows;
pub(crate) use xts::xts;

use crate::Direction;

/// Registers in flight. Eight cover the latency of an AES round (4 cycles on AES-NI, 3 to 5 with
/// VAES) at one or two instructions a cycle, and leave eight of SSE's sixteen registers for keys
/// and hashes.
pub(crate) const WIDE: usize = 8;

/// A direction that is known at compile time.
#[inline(always)]
pub(crate) const fn direction(encrypt: bool) -> Direction {
    match encrypt {
        true => Direction::Encrypt,
        false => Direction::Decrypt,
    }
}

/// A register of `N` AES blocks. A value is proof that the CPU has the instructions: the functions
/// that make one from nothing are unsafe, the others are not.
///
/// Each method must be `#[inline(always)]`: the bodies are compiled inside functions that enable
/// the instructions, and only what is inlined there may use them.
///
/// # Safety of all unsafe methods
/// The machine has the instructions. `16 * N` bytes can be read or written at a pointer, or as many
/// as a method says; where there are several, a block at each of the first `N`.
pub(crate) trait Lanes: Copy {
    /// The register that holds one block.
    type One: Block;
    /// Blocks in this register.
    const N: usize;
    /// Registers in flight where a step's blocks do not depend on those of the previous step. At
    /// most [`WIDE`].
    const DEPTH: usize;
    /// The same in XTS.
    const XTS_DEPTH: usize = Self::DEPTH;
    /// Whether there are enough registers for a step's results during the next step.
    const HOLDS: bool = false;
    /// Whether there is a [`Lanes::xts_ahead`].
    const AHEAD: bool = false;
    /// Whether there is a [`Lanes::xts_row_ahead`].
    const ROWS: bool = false;
    /// Whether there are [`Lanes::first_bytes`] and [`Lanes::last`], so that any part of a register
    /// costs little.
    const PARTS: bool = false;

    unsafe fn load(from: *const u8) -> Self;
    /// One block in every lane.
    unsafe fn splat(block: &[u8; 16]) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// The first `len` bytes, at most `16 * N`, followed by zeros.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, len: usize) -> Self {
        let mut copy = [[0; 16]; 4];
        // SAFETY: a register is at most four blocks; the rest by this function's contract.
        unsafe {
            if Self::N > 1 && len == 16 {
                return Self::widen(Self::One::load(from));
            }
            from.copy_to_nonoverlapping(copy.as_mut_ptr().cast(), len);
            Self::load(copy.as_ptr().cast())
        }
    }
    /// A store of the first `len` bytes, at most `16 * N`.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, len: usize) {
        let mut copy = [[0u8; 16]; 4];
        // SAFETY: a register is at most four blocks; the rest by this function's contract.
        unsafe {
            self.store(copy.as_mut_ptr().cast());
            to.copy_from_nonoverlapping(copy.as_ptr().cast(), len);
        }
    }
    /// A non-temporal store: the line is not fetched first, and the caches keep their content. The
    /// place is aligned to the register, and [`store_fence`](crate::cpu::kernels::store_fence) is
    /// called before the bytes are read.
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: by this function's contract.
        unsafe { self.store(to) }
    }
    /// Prefetches a cache line that will be read soon; any address.
    #[inline(always)]
    fn prefetch(_from: *const u8) {}

    /// One block from each of the first `N` pointers, `offset` bytes after it.
    unsafe fn gather(from: &[*const u8], offset: usize) -> Self;
    /// One block to each of the first `N` pointers, `offset` bytes after it.
    unsafe fn scatter(self, to: &[*mut u8], offset: usize);

    /// Blocks exchanged among the first `N` registers: lane `i` of register `j` becomes lane `j` of
    /// register `i`.
    #[inline(always)]
    fn transpose(_tile: &mut [Self; 4]) {
        const { assert!(Self::N == 1, "more lanes need a transposition of their own") };
    }

    /// The register itself, opaque to the compiler, which keeps all pins in their order.
    fn pin(self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// One round of the cipher: ShiftRows, SubBytes, MixColumns, then the key.
    fn encrypt_round(self, key: Self) -> Self;
    fn encrypt_last(self, key: Self) -> Self;
    /// One round of the equivalent inverse cipher.
    fn decrypt_round(self, key: Self) -> Self;
    fn decrypt_last(self, key: Self) -> Self;

    /// The bytes of each block reversed.
    fn reverse(self) -> Self;
    /// `n` added to the low 64 bits of each lane, seen as a little-endian number.
    fn add64(self, n: u64) -> Self;
    /// `n` added to the low 32 bits of each lane, without carry into the others.
    fn add32(self, n: u32) -> Self;
    /// `i` added to the low 64 bits of lane `i`.
    fn number64(self) -> Self;
    /// `i` added to the low 32 bits of lane `i`, without carry into the others.
    fn number32(self) -> Self;

    /// The first `count` lanes, followed by those of `other`.
    #[inline(always)]
    fn followed_by(self, count: usize, other: Self) -> Self {
        const { assert!(Self::N == 1, "more lanes need one of their own") };
        if count > 0 { self } else { other }
    }

    /// The first `len` bytes, followed by zeros.
    #[inline(always)]
    fn first_bytes(self, _len: usize) -> Self {
        const { assert!(!Self::PARTS, "it needs one of its own") };
        self
    }
    /// The last lane.
    #[inline(always)]
    fn last(self) -> Self::One {
        const { assert!(!Self::PARTS, "it needs one of its own") };
        self.sum()
    }
    /// An IV of 12 bytes, followed by zeros, in every lane.
    #[inline(always)]
    unsafe fn splat_iv(iv: &[u8; 12]) -> Self {
        let mut block = [0; 16];
        block[..12].copy_from_slice(iv);
        // SAFETY: by this function's contract.
        unsafe { Self::splat(&block) }
    }

    /// `one` in the first lane, zeros in the others.
    fn widen(one: Self::One) -> Self;
    /// The lanes one place up: `before` comes first, the last one falls out.
    fn shift_in(self, before: Self::One) -> Self;

    /// The key schedule's RotWord of each lane's last 32-bit word, in all four words.
    fn rotated_last_word(self) -> Self;
    /// Each lane's last 32-bit word in all four words.
    fn last_word(self) -> Self;
    /// Each 32-bit word XORed with all words before it in its lane.
    fn sum_words_before(self) -> Self;

    /// Lane `i` times x^i in XTS's field (IEEE 1619, 5.2).
    fn xts_powers(self) -> Self;
    /// Every lane times x^N in XTS's field.
    fn xts_next(self) -> Self;
    /// The tweaks of `W` registers, of which every lane of this has the first.
    #[inline(always)]
    fn xts_start<const W: usize>(self) -> [Self; W] {
        self.xts_powers().xts_tweaks()
    }
    /// The tweaks of `W` registers, of which this is the first.
    #[inline(always)]
    fn xts_tweaks<const W: usize>(self) -> [Self; W] {
        let mut tweaks = [self; W];
        for i in 1..W {
            tweaks[i] = tweaks[i - 1].xts_next();
        }
        tweaks
    }
    /// Every lane times x^(N [`Lanes::XTS_DEPTH`]), where these are whole bytes, plus `other`:
    /// shifts of bytes leave the port free that the rounds need.
    #[inline(always)]
    fn xts_ahead(self, _other: Self) -> Self {
        const { assert!(!Self::AHEAD, "more lanes need one of their own") };
        self
    }
    /// The same four times as far: x^64 is a half, which is shifted less.
    #[inline(always)]
    fn xts_far_ahead(self, _other: Self) -> Self {
        const { assert!(!(Self::AHEAD && Self::HOLDS), "it needs one of its own") };
        self
    }
    /// Whether this machine gains by that, where it has to keep the tweaks of four steps for it.
    #[inline(always)]
    fn goes_far() -> bool {
        false
    }
    /// Whether doubling each tweak of [`WIDE`] is faster on this machine than
    /// [`Lanes::xts_row_ahead`].
    #[inline(always)]
    fn doubles() -> bool {
        false
    }
    /// The signs of a tweak's words, in the form that [`Lanes::xts_double`] also computes for the
    /// next.
    #[inline(always)]
    fn xts_signs(self) -> Self {
        self
    }
    /// A tweak times x, and the signs for that.
    #[inline(always)]
    fn xts_double(self, _signs: Self) -> (Self, Self) {
        (self.xts_next(), self)
    }
    /// The tweak [`WIDE`] places after the second of `slot`, which is that one times x^8, a byte:
    /// with a zero before it, it is shifted by loading it a byte early. `zero` is a pinned zero.
    #[inline(always)]
    fn xts_row_ahead(_slot: &[Self; 2], zero: Self) -> Self {
        const { assert!(!Self::ROWS, "it needs one of its own") };
        zero
    }

    /// Each lane divided by x^64 modulo x^128 + x^127 + x^126 + x^121 + 1.
    fn fold(self) -> Self;
    /// Each lane times H, for a `key` of H times x^64 (the form of RFC 8452, `dot`: H / x^64 times
    /// x^128) and H times x^128: half of the reduction is done in the key. Returned before the
    /// other half: the part that is still to be divided by x^64, and the rest.
    fn hash_products(self, key: [Self; 2]) -> [Self; 2];
    /// Each lane times H, with the whole reduction.
    #[inline(always)]
    fn hash(self, key: [Self; 2]) -> Self {
        let [below, above] = self.hash_products(key);
        above.xor(below.fold())
    }
    /// The sum (XOR) of all lanes.
    fn sum(self) -> Self::One;
}

/// A register of one block, for computations done once for many blocks.
pub(crate) trait Block: Lanes<One = Self> {
    /// InvMixColumns (FIPS 197, 5.3.3).
    fn inverse_mix_columns(self) -> Self;
}
