//! ACORN-128 on NEON: four messages side by side.

#![allow(
    inline_always_mismatching_target_features,
    reason = "these methods are inlined only where the instructions are, see `Words`"
)]

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use super::neon::op;
use crate::cpu::acorn::{From, LaneKernels, MOST, To, Wide, Words, Work, run};

/// A word of four messages.
#[derive(Clone, Copy)]
struct Vector(uint32x4_t);

/// The kernels, if this machine has the instructions.
pub(in crate::cpu) fn detect() -> Option<&'static LaneKernels> {
    // SAFETY: they are handed out where the instructions are.
    static KERNELS: LaneKernels = unsafe { LaneKernels::new(4, 2, seal, open) };
    is_aarch64_feature_detected!("neon").then_some(&KERNELS)
}

#[target_feature(enable = "neon")]
unsafe fn seal(work: &mut [Work<'_>]) {
    // SAFETY: this function has the instructions; the rest by its contract.
    unsafe { run::<Vector, false>(work) }
}

#[target_feature(enable = "neon")]
unsafe fn open(work: &mut [Work<'_>]) {
    // SAFETY: as above.
    unsafe { run::<Vector, true>(work) }
}

impl Words for Vector {
    /// The older 32 steps, then the newer ones.
    type Line = [uint32x4_t; 2];
    type Tap = ();

    #[inline(always)]
    fn tap<const RIGHT: i32, const LEFT: i32>(
        [older, newer]: [uint32x4_t; 2],
        (): &mut (),
    ) -> Self {
        Vector(op!(vsliq_n_u32::<LEFT>(vshrq_n_u32::<RIGHT>(older), newer)))
    }
    #[inline(always)]
    fn push([_, newer]: [uint32x4_t; 2], entered: Self) -> [uint32x4_t; 2] {
        [newer, entered.0]
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Vector(op!(veorq_u32(self.0, other.0)))
    }
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }
    #[inline(always)]
    fn xnor3(self, b: Self, c: Self) -> Self {
        Vector(op!(vmvnq_u32(self.xor3(b, c).0)))
    }
    #[inline(always)]
    fn majority(self, b: Self, c: Self) -> Self {
        // Where two differ the third decides.
        self.xor(b).choose(c, self)
    }
    #[inline(always)]
    fn choose(self, one: Self, zero: Self) -> Self {
        Vector(op!(vbslq_u32(self.0, one.0, zero.0)))
    }
    #[inline(always)]
    fn xor_and(self, a: Self, b: Self) -> Self {
        self.xor(Vector(op!(vandq_u32(a.0, b.0))))
    }
}

/// Transposes four words of four messages.
#[inline(always)]
fn transpose(rows: [Vector; 4]) -> [Vector; 4] {
    let [Vector(a), Vector(b), Vector(c), Vector(d)] = rows;
    op!({
        let pair = |a, b| (vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b));
        let (ab, cd) = pair(vtrn1q_u32(a, b), vtrn1q_u32(c, d));
        let (ab_odd, cd_odd) = pair(vtrn2q_u32(a, b), vtrn2q_u32(c, d));
        [
            Vector(vreinterpretq_u32_u64(vtrn1q_u64(ab, cd))),
            Vector(vreinterpretq_u32_u64(vtrn1q_u64(ab_odd, cd_odd))),
            Vector(vreinterpretq_u32_u64(vtrn2q_u64(ab, cd))),
            Vector(vreinterpretq_u32_u64(vtrn2q_u64(ab_odd, cd_odd))),
        ]
    })
}

impl Wide for Vector {
    const N: usize = 4;

    #[inline(always)]
    unsafe fn empty() -> [uint32x4_t; 2] {
        // SAFETY: by the trait's contract; so for all that follow.
        unsafe { [vdupq_n_u32(0); 2] }
    }
    #[inline(always)]
    unsafe fn empty_tap() {}
    #[inline(always)]
    unsafe fn splat(number: u32) -> Self {
        // SAFETY: as above.
        Vector(unsafe { vdupq_n_u32(number) })
    }
    #[inline(always)]
    unsafe fn numbers(numbers: &[u32; MOST]) -> Self {
        // SAFETY: as above; there are more numbers than lanes.
        Vector(unsafe { vld1q_u32(numbers.as_ptr()) })
    }
    #[inline(always)]
    unsafe fn load(from: &From) -> [Self; 16] {
        // SAFETY: as above.
        unsafe {
            let mut words = [Vector(vdupq_n_u32(0)); 16];
            for (quarter, words) in words.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                for (row, from) in words.iter_mut().zip(from) {
                    let bytes = vld1q_u8(from.add(16 * quarter));
                    *row = Vector(vreinterpretq_u32_u8(bytes));
                }
                *words = transpose(*words);
            }
            words
        }
    }
    #[inline(always)]
    unsafe fn store(words: [Self; 16], to: &To) {
        for (quarter, words) in words.as_chunks::<4>().0.iter().enumerate() {
            for (row, to) in transpose(*words).into_iter().zip(to) {
                // SAFETY: as above.
                unsafe { vst1q_u8(to.add(16 * quarter), vreinterpretq_u8_u32(row.0)) }
            }
        }
    }
    #[inline(always)]
    fn fetch(_: *const u8) {
        // Four streams are no more than what the processor sees by itself.
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Vector(op!(vaddq_u32(self.0, other.0)))
    }
    #[inline(always)]
    fn at_or_behind(self, place: Self) -> Self {
        op!({
            let before = vreinterpretq_s32_u32(vsubq_u32(self.0, place.0));
            let before = vminq_s32(vmaxq_s32(before, vdupq_n_s32(0)), vdupq_n_s32(4));
            Vector(vshlq_u32(vdupq_n_u32(u32::MAX), vshlq_n_s32::<3>(before)))
        })
    }
    #[inline(always)]
    fn first_bit(self, place: Self) -> Self {
        op!({
            // A place before the word is a huge number without its sign.
            let before = vminq_u32(vsubq_u32(self.0, place.0), vdupq_n_u32(4));
            let bits = vreinterpretq_s32_u32(vshlq_n_u32::<3>(before));
            Vector(vshlq_u32(vdupq_n_u32(1), bits))
        })
    }
}
