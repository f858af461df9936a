//! ACORN-128 on AVX2: eight messages side by side.

use std::arch::x86_64::{
    _mm256_add_epi32 as add32, _mm256_loadu_si256 as loadu, _mm256_max_epi32 as max32,
    _mm256_min_epi32 as min32, _mm256_min_epu32 as minu32, _mm256_set1_epi32 as set1,
    _mm256_slli_epi32 as slli32, _mm256_sllv_epi32 as sllv32, _mm256_sub_epi32 as sub32, *,
};

use super::formulas::{acorn_formulas, op};
use crate::cpu::acorn::{From, LaneKernels, MOST, To, Wide, Words, Work, run};

/// A word of eight messages.
#[derive(Clone, Copy)]
struct Ymm(__m256i);

/// The kernels, if this machine has the instructions.
pub(in crate::cpu) fn detect() -> Option<&'static LaneKernels> {
    // SAFETY: they are handed out where the instructions are.
    static KERNELS: LaneKernels = unsafe { LaneKernels::new(8, 3, seal, open) };
    is_x86_feature_detected!("avx2").then_some(&KERNELS)
}

#[target_feature(enable = "avx2")]
unsafe fn seal(work: &mut [Work<'_>]) {
    // SAFETY: this function has the instructions; the rest by its contract.
    unsafe { run::<Ymm, false>(work) }
}

#[target_feature(enable = "avx2")]
unsafe fn open(work: &mut [Work<'_>]) {
    // SAFETY: as above.
    unsafe { run::<Ymm, true>(work) }
}

impl Words for Ymm {
    /// The older 32 steps, then the newer ones.
    type Line = [__m256i; 2];
    type Tap = ();

    #[inline(always)]
    fn tap<const RIGHT: i32, const LEFT: i32>([older, newer]: [__m256i; 2], (): &mut ()) -> Self {
        Ymm(op!(_mm256_or_si256(
            _mm256_srli_epi32::<RIGHT>(older),
            _mm256_slli_epi32::<LEFT>(newer)
        )))
    }
    #[inline(always)]
    fn push([_, newer]: [__m256i; 2], entered: Self) -> [__m256i; 2] {
        [newer, entered.0]
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Ymm(op!(_mm256_xor_si256(self.0, other.0)))
    }
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }
    #[inline(always)]
    fn xnor3(self, b: Self, c: Self) -> Self {
        let ones = Ymm(op!(_mm256_set1_epi32(-1)));
        self.xor3(b, c).xor(ones)
    }
    #[inline(always)]
    fn majority(self, b: Self, c: Self) -> Self {
        op!({
            let both = _mm256_and_si256(b.0, c.0);
            let either = _mm256_or_si256(b.0, c.0);
            Ymm(_mm256_or_si256(both, _mm256_and_si256(self.0, either)))
        })
    }
    #[inline(always)]
    fn choose(self, one: Self, zero: Self) -> Self {
        op!({
            let zero = _mm256_andnot_si256(self.0, zero.0);
            Ymm(_mm256_or_si256(_mm256_and_si256(self.0, one.0), zero))
        })
    }
    #[inline(always)]
    fn xor_and(self, a: Self, b: Self) -> Self {
        self.xor(Ymm(op!(_mm256_and_si256(a.0, b.0))))
    }
}

/// Transposes four words of four messages in each half.
#[inline(always)]
fn transpose(rows: [Ymm; 4]) -> [Ymm; 4] {
    let [Ymm(a), Ymm(b), Ymm(c), Ymm(d)] = rows;
    op!({
        let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
        [
            Ymm(_mm256_unpacklo_epi64(ab, cd)),
            Ymm(_mm256_unpackhi_epi64(ab, cd)),
            Ymm(_mm256_unpacklo_epi64(ab_high, cd_high)),
            Ymm(_mm256_unpackhi_epi64(ab_high, cd_high)),
        ]
    })
}

impl Wide for Ymm {
    const N: usize = 8;

    acorn_formulas!();

    #[inline(always)]
    unsafe fn empty() -> [__m256i; 2] {
        // SAFETY: by the trait's contract; likewise below.
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    unsafe fn empty_tap() {}
    #[inline(always)]
    unsafe fn load(from: &From) -> [Self; 16] {
        // SAFETY: as above.
        unsafe {
            let mut words = [Ymm(_mm256_setzero_si256()); 16];
            for (quarter, words) in words.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                for (lane, row) in words.iter_mut().enumerate() {
                    let first = _mm_loadu_si128(from[lane].add(16 * quarter).cast());
                    let second = _mm_loadu_si128(from[lane + 4].add(16 * quarter).cast());
                    *row = Ymm(_mm256_set_m128i(second, first));
                }
                *words = transpose(*words);
            }
            words
        }
    }
    #[inline(always)]
    unsafe fn store(words: [Self; 16], to: &To) {
        for (quarter, words) in words.as_chunks::<4>().0.iter().enumerate() {
            for (lane, row) in transpose(*words).into_iter().enumerate() {
                // SAFETY: as above.
                unsafe {
                    let first = to[lane].add(16 * quarter);
                    let second = to[lane + 4].add(16 * quarter);
                    _mm_storeu_si128(first.cast(), _mm256_castsi256_si128(row.0));
                    _mm_storeu_si128(second.cast(), _mm256_extracti128_si256::<1>(row.0));
                }
            }
        }
    }
}
