//! ACORN-128 on AVX-512: sixteen messages side by side, with the funnel shifts of VBMI2 where the
//! machine has them.

use std::arch::x86_64::{
    _mm512_add_epi32 as add32, _mm512_loadu_si512 as loadu, _mm512_max_epi32 as max32,
    _mm512_min_epi32 as min32, _mm512_min_epu32 as minu32, _mm512_set1_epi32 as set1,
    _mm512_slli_epi32 as slli32, _mm512_sllv_epi32 as sllv32, _mm512_sub_epi32 as sub32, *,
};

use super::formulas::{acorn_formulas, op};
use crate::cpu::acorn::{From, LaneKernels, MOST, To, Wide, Words, Work, run};

/// A word of sixteen messages, with the type that shifts between two words.
#[derive(Clone, Copy)]
struct Zmm<const FUNNEL: bool>(__m512i);

/// The kernels, if this machine has the instructions.
pub(in crate::cpu) fn detect() -> Option<&'static LaneKernels> {
    // SAFETY: they are handed out where the instructions are.
    static KERNELS: LaneKernels = unsafe { LaneKernels::new(16, 3, seal, open) };
    is_x86_feature_detected!("avx512f").then_some(&KERNELS)
}

/// The same with VBMI2.
pub(in crate::cpu) fn detect_funnel() -> Option<&'static LaneKernels> {
    // SAFETY: as above.
    static KERNELS: LaneKernels = unsafe { LaneKernels::new(16, 2, seal_funnel, open_funnel) };
    (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vbmi2"))
        .then_some(&KERNELS)
}

#[target_feature(enable = "avx512f")]
unsafe fn seal(work: &mut [Work<'_>]) {
    // SAFETY: this function has the instructions; the rest by its contract. Likewise below.
    unsafe { run::<Zmm<false>, false>(work) }
}

#[target_feature(enable = "avx512f")]
unsafe fn open(work: &mut [Work<'_>]) {
    // SAFETY: as above.
    unsafe { run::<Zmm<false>, true>(work) }
}

#[target_feature(enable = "avx512f,avx512vbmi2")]
unsafe fn seal_funnel(work: &mut [Work<'_>]) {
    // SAFETY: as above.
    unsafe { run::<Zmm<true>, false>(work) }
}

#[target_feature(enable = "avx512f,avx512vbmi2")]
unsafe fn open_funnel(work: &mut [Work<'_>]) {
    // SAFETY: as above.
    unsafe { run::<Zmm<true>, true>(work) }
}

/// Any function of three bits: the truth table is that of `_mm512_ternarylogic_epi32`.
macro_rules! logic {
    ($table:literal, $a:expr, $b:expr, $c:expr) => {
        Zmm(op!(_mm512_ternarylogic_epi32::<$table>($a.0, $b.0, $c.0)))
    };
}

impl<const FUNNEL: bool> Words for Zmm<FUNNEL> {
    /// The older 32 steps, then the newer ones.
    type Line = [__m512i; 2];
    /// Without a funnel shift: the older ones, rotated.
    type Tap = __m512i;

    #[inline(always)]
    fn tap<const RIGHT: i32, const LEFT: i32>(
        [older, newer]: [__m512i; 2],
        tap: &mut __m512i,
    ) -> Self {
        op!({
            if FUNNEL {
                return Zmm(_mm512_shrdi_epi32::<RIGHT>(older, newer));
            }
            // One rotation serves this block and the next, and one function selects from both.
            // Shifts would be two, both on the only port for them, and a third operation to combine
            // them.
            let rotated = _mm512_ror_epi32::<RIGHT>(newer);
            let older = std::mem::replace(tap, rotated);
            let from_newer = Zmm::<FUNNEL>(_mm512_set1_epi32(-1 << LEFT));
            from_newer.choose(Zmm(rotated), Zmm(older))
        })
    }
    #[inline(always)]
    fn push([_, newer]: [__m512i; 2], entered: Self) -> [__m512i; 2] {
        [newer, entered.0]
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Zmm(op!(_mm512_xor_si512(self.0, other.0)))
    }
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        logic!(0x96, self, b, c)
    }
    #[inline(always)]
    fn xnor3(self, b: Self, c: Self) -> Self {
        logic!(0x69, self, b, c)
    }
    #[inline(always)]
    fn majority(self, b: Self, c: Self) -> Self {
        logic!(0xE8, self, b, c)
    }
    #[inline(always)]
    fn choose(self, one: Self, zero: Self) -> Self {
        logic!(0xCA, self, one, zero)
    }
    #[inline(always)]
    fn xor_and(self, a: Self, b: Self) -> Self {
        logic!(0x78, self, a, b)
    }
}

/// Transposes sixteen words of sixteen messages.
#[inline(always)]
fn transpose<const FUNNEL: bool>(rows: [Zmm<FUNNEL>; 16]) -> [Zmm<FUNNEL>; 16] {
    // Each group of four rows, in quarters: quarter q of its register i holds word 4q + i of the
    // four.
    let mut fours = rows;
    for i in 0..4 {
        let (a, b) = (rows[4 * i].0, rows[4 * i + 1].0);
        let (c, d) = (rows[4 * i + 2].0, rows[4 * i + 3].0);
        op!({
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            fours[4 * i] = Zmm(_mm512_unpacklo_epi64(ab, cd));
            fours[4 * i + 1] = Zmm(_mm512_unpackhi_epi64(ab, cd));
            fours[4 * i + 2] = Zmm(_mm512_unpacklo_epi64(ab_high, cd_high));
            fours[4 * i + 3] = Zmm(_mm512_unpackhi_epi64(ab_high, cd_high));
        });
    }
    let mut words = rows;
    for i in 0..4 {
        let (a, b, c, d) = (fours[i].0, fours[i + 4].0, fours[i + 8].0, fours[i + 12].0);
        op!({
            let (ab, cd) = (
                _mm512_shuffle_i32x4::<0x44>(a, b),
                _mm512_shuffle_i32x4::<0x44>(c, d),
            );
            let ab_high = _mm512_shuffle_i32x4::<0xEE>(a, b);
            let cd_high = _mm512_shuffle_i32x4::<0xEE>(c, d);
            words[i] = Zmm(_mm512_shuffle_i32x4::<0x88>(ab, cd));
            words[i + 4] = Zmm(_mm512_shuffle_i32x4::<0xDD>(ab, cd));
            words[i + 8] = Zmm(_mm512_shuffle_i32x4::<0x88>(ab_high, cd_high));
            words[i + 12] = Zmm(_mm512_shuffle_i32x4::<0xDD>(ab_high, cd_high));
        });
    }
    words
}

impl<const FUNNEL: bool> Wide for Zmm<FUNNEL> {
    const N: usize = 16;

    acorn_formulas!();

    #[inline(always)]
    unsafe fn empty() -> [__m512i; 2] {
        // SAFETY: by the trait's contract; likewise below.
        unsafe { [_mm512_setzero_si512(); 2] }
    }
    #[inline(always)]
    unsafe fn empty_tap() -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn load(from: &From) -> [Self; 16] {
        // SAFETY: as above.
        unsafe {
            let mut rows = [Zmm(_mm512_setzero_si512()); 16];
            for (row, from) in rows.iter_mut().zip(from) {
                *row = Zmm(_mm512_loadu_si512(from.cast()));
            }
            transpose(rows)
        }
    }
    #[inline(always)]
    unsafe fn store(words: [Self; 16], to: &To) {
        for (row, to) in transpose(words).into_iter().zip(to) {
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(to.cast(), row.0) }
        }
    }
}
