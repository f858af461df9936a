//! One block in a NEON register: ARMv8's AES and PMULL.
//!
//! `AESE` adds the key before the substitution where x86 adds it after the round; so it gets zeros
//! here, and the compiler merges the addition of one round into the next.

#![allow(
    inline_always_mismatching_target_features,
    reason = "these methods are inlined only where the instructions are, see `Lanes`"
)]

use std::arch::aarch64::*;

use crate::cpu::body::{Block, Lanes, WIDE, one_lane};

/// One AES block in a 128-bit register.
#[derive(Clone, Copy)]
pub(super) struct Vector(uint8x16_t);

/// Runs intrinsics that access no memory.
macro_rules! op {
    ($e:expr) => {
        // SAFETY: a value of the register type exists, so the machine has the instructions.
        unsafe { $e }
    };
}

impl Vector {
    #[inline(always)]
    fn zero() -> uint8x16_t {
        op!(vdupq_n_u8(0))
    }
    #[inline(always)]
    fn words(self) -> uint32x4_t {
        op!(vreinterpretq_u32_u8(self.0))
    }
    #[inline(always)]
    fn halves(self) -> uint64x2_t {
        op!(vreinterpretq_u64_u8(self.0))
    }
    #[inline(always)]
    fn from_words(words: uint32x4_t) -> Self {
        Vector(op!(vreinterpretq_u8_u32(words)))
    }
    #[inline(always)]
    fn from_halves(halves: uint64x2_t) -> Self {
        Vector(op!(vreinterpretq_u8_u64(halves)))
    }
    /// The carry-less product of half `I` of this and half `J` of the other.
    #[inline(always)]
    fn product<const I: i32, const J: i32>(self, other: Self) -> Self {
        op!({
            let (a, b) = (
                vgetq_lane_u64::<I>(self.halves()),
                vgetq_lane_u64::<J>(other.halves()),
            );
            Vector(vreinterpretq_u8_p128(vmull_p64(a, b)))
        })
    }
    /// The halves exchanged.
    #[inline(always)]
    fn swapped(self) -> Self {
        Vector(op!(vextq_u8::<8>(self.0, self.0)))
    }
}

impl Lanes for Vector {
    type One = Vector;
    const N: usize = 1;
    const DEPTH: usize = WIDE;

    one_lane!();

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: by the trait's contract.
        Vector(unsafe { vld1q_u8(from) })
    }
    #[inline(always)]
    unsafe fn splat(block: &[u8; 16]) -> Self {
        // SAFETY: the reference holds 16 bytes; the rest by the trait's contract.
        Vector(unsafe { vld1q_u8(block.as_ptr()) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: by the trait's contract.
        unsafe { vst1q_u8(to, self.0) }
    }
    #[inline(always)]
    fn pin(mut self) -> Self {
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {0:v} */", inout(vreg) self.0, options(nomem, nostack, preserves_flags));
        }
        self
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Vector(op!(veorq_u8(self.0, other.0)))
    }
    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        Vector(op!(vaesmcq_u8(vaeseq_u8(self.0, Vector::zero())))).xor(key)
    }
    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        Vector(op!(vaeseq_u8(self.0, Vector::zero()))).xor(key)
    }
    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        Vector(op!(vaesimcq_u8(vaesdq_u8(self.0, Vector::zero())))).xor(key)
    }
    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        Vector(op!(vaesdq_u8(self.0, Vector::zero()))).xor(key)
    }
    #[inline(always)]
    fn reverse(self) -> Self {
        Vector(op!(vrev64q_u8(self.0))).swapped()
    }
    #[inline(always)]
    fn add64(self, n: u64) -> Self {
        let n = op!(vsetq_lane_u64::<0>(n, vdupq_n_u64(0)));
        Vector::from_halves(op!(vaddq_u64(self.halves(), n)))
    }
    #[inline(always)]
    fn add32(self, n: u32) -> Self {
        let n = op!(vsetq_lane_u32::<0>(n, vdupq_n_u32(0)));
        Vector::from_words(op!(vaddq_u32(self.words(), n)))
    }
    #[inline(always)]
    fn rotated_last_word(self) -> Self {
        let word = self.last_word().words();
        // Right by eight bits, as words are little-endian here.
        Vector::from_words(op!(vsliq_n_u32::<24>(vshrq_n_u32::<8>(word), word)))
    }
    #[inline(always)]
    fn last_word(self) -> Self {
        Vector::from_words(op!(vdupq_laneq_u32::<3>(self.words())))
    }
    #[inline(always)]
    fn sum_words_before(self) -> Self {
        // Adds itself shifted up by one word, then the same by two words.
        let pairs = self.xor(Vector(op!(vextq_u8::<12>(Vector::zero(), self.0))));
        pairs.xor(Vector(op!(vextq_u8::<8>(Vector::zero(), pairs.0))))
    }
    #[inline(always)]
    fn xts_next(self) -> Self {
        // Doubled by halves; the bit that falls out of each half, spread over a mask, selects
        // what comes into the other: x^128 = x^7 + x^2 + x + 1, or 1.
        op!({
            let signs = vshrq_n_s64::<63>(vreinterpretq_s64_u8(self.0));
            let carries = vandq_u64(
                Vector(vreinterpretq_u8_s64(signs)).swapped().halves(),
                vcombine_u64(vcreate_u64(0x87), vcreate_u64(1)),
            );
            let doubled = vaddq_u64(self.halves(), self.halves());
            Vector::from_halves(veorq_u64(doubled, carries))
        })
    }
    #[inline(always)]
    fn fold(self) -> Self {
        // x^63 + x^62 + x^57, the polynomial's upper terms seen from x^64.
        let terms = Vector::from_halves(op!(vdupq_n_u64(0xC2 << 56)));
        self.swapped().xor(self.product::<0, 0>(terms))
    }
    #[inline(always)]
    fn hash_products(self, [low, high]: [Self; 2]) -> [Self; 2] {
        let below = self.product::<0, 0>(low).xor(self.product::<1, 0>(high));
        let above = self.product::<0, 1>(low).xor(self.product::<1, 1>(high));
        [below, above]
    }
}

impl Block for Vector {
    #[inline(always)]
    fn inverse_mix_columns(self) -> Self {
        Vector(op!(vaesimcq_u8(self.0)))
    }
}
