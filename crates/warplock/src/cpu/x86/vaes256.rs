//! Two blocks in an AVX register: VAES and VPCLMULQDQ, without AVX-512.

use std::arch::x86_64::{
    _mm256_add_epi32 as add32, _mm256_add_epi64 as add64, _mm256_aesdec_epi128 as aesdec,
    _mm256_aesdeclast_epi128 as aesdeclast, _mm256_aesenc_epi128 as aesenc,
    _mm256_aesenclast_epi128 as aesenclast, _mm256_broadcastsi128_si256 as broadcast,
    _mm256_bslli_epi128 as bslli, _mm256_bsrli_epi128 as bsrli, _mm256_clmulepi64_epi128 as clmul,
    _mm256_loadu_si256 as loadu, _mm256_shuffle_epi8 as shuffle8,
    _mm256_shuffle_epi32 as shuffle32, _mm256_slli_epi64 as slli64, _mm256_storeu_si256 as storeu,
    _mm256_xor_si256 as xor, *,
};

use super::formulas::{lanes_formulas, op, xts_products};
use super::sse::{ONES, Sse};
use crate::cpu::body::{Lanes, WIDE};
use crate::cpu::compiled::names::*;

kernels_of!(
    /// VAES and VPCLMULQDQ on 256-bit registers: CPUs without AVX-512 since 2020.
    Vaes256,
    Ymm,
    InstructionSet::Vaes256,
    "aes,pclmulqdq,avx2,vaes,vpclmulqdq",
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq")
);

/// Two AES blocks in a 256-bit register.
#[derive(Clone, Copy)]
pub(super) struct Ymm(__m256i);

/// One number for each lane's low 64 bits.
#[inline(always)]
fn low64([a, b]: [u64; 2]) -> __m256i {
    op!(_mm256_set_epi64x(0, b as i64, 0, a as i64))
}

impl Lanes for Ymm {
    type One = Sse;
    const N: usize = 2;
    const DEPTH: usize = WIDE;
    const AHEAD: bool = true;
    const PARTS: bool = true;

    lanes_formulas!(Ymm);

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: by the trait's contract.
        unsafe { _mm256_stream_si256(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn gather(from: &[*const u8], offset: usize) -> Self {
        // SAFETY: by the trait's contract.
        unsafe {
            let a = _mm_loadu_si128(from[0].add(offset).cast());
            let b = _mm_loadu_si128(from[1].add(offset).cast());
            Ymm(_mm256_set_m128i(b, a))
        }
    }
    #[inline(always)]
    unsafe fn scatter(self, to: &[*mut u8], offset: usize) {
        // SAFETY: by the trait's contract.
        unsafe {
            _mm_storeu_si128(to[0].add(offset).cast(), _mm256_castsi256_si128(self.0));
            _mm_storeu_si128(
                to[1].add(offset).cast(),
                _mm256_extracti128_si256::<1>(self.0),
            );
        }
    }
    #[inline(always)]
    fn transpose(tile: &mut [Self; 4]) {
        let [a, b, ..] = *tile;
        op!({
            tile[0] = Ymm(_mm256_permute2x128_si256::<0x20>(a.0, b.0));
            tile[1] = Ymm(_mm256_permute2x128_si256::<0x31>(a.0, b.0));
        });
    }
    #[inline(always)]
    fn pin(self) -> Self {
        Ymm(op!(pinned(self.0)))
    }
    #[inline(always)]
    fn number64(self) -> Self {
        Ymm(op!(_mm256_add_epi64(self.0, low64([0, 1]))))
    }
    #[inline(always)]
    fn number32(self) -> Self {
        Ymm(op!(_mm256_add_epi32(self.0, low64([0, 1]))))
    }
    #[inline(always)]
    fn followed_by(self, count: usize, other: Self) -> Self {
        match count {
            0 => other,
            1 => Ymm(op!(_mm256_blend_epi32::<0xF0>(self.0, other.0))),
            _ => self,
        }
    }
    #[inline(always)]
    fn first_bytes(self, len: usize) -> Self {
        // SAFETY: the place has 32 bytes.
        let mask = unsafe { Self::load(ONES.as_ptr().add(32 - len.min(32))) };
        Ymm(op!(_mm256_and_si256(self.0, mask.0)))
    }
    #[inline(always)]
    fn last(self) -> Sse {
        Sse(op!(_mm256_extracti128_si256::<1>(self.0)))
    }
    #[inline(always)]
    unsafe fn splat_iv(iv: &[u8; 12]) -> Self {
        // SAFETY: by the trait's contract.
        Ymm(unsafe { _mm256_broadcastsi128_si256(Sse::splat_iv(iv).0) })
    }
    #[inline(always)]
    fn widen(one: Sse) -> Self {
        Ymm(op!(_mm256_zextsi128_si256(one.0)))
    }
    #[inline(always)]
    fn shift_in(self, before: Sse) -> Self {
        op!({
            let first = _mm256_castsi256_si128(self.0);
            Ymm(_mm256_inserti128_si256::<1>(
                _mm256_castsi128_si256(before.0),
                first,
            ))
        })
    }
    #[inline(always)]
    fn xts_powers(self) -> Self {
        self.xts_times([1, 2])
    }
    #[inline(always)]
    fn xts_next(self) -> Self {
        self.xts_times([4; 2])
    }
    #[inline(always)]
    fn xts_tweaks<const W: usize>(self) -> [Self; W] {
        // In few steps, each from the previous ones: one chain would take longer than a step.
        let none = Ymm(op!(_mm256_setzero_si256()));
        let mut tweaks = [self; W];
        for i in 1..W {
            tweaks[i] = match i {
                1 => self.xts_next(),
                2 => self.xts_times([16; 2]),
                3 => tweaks[1].xts_times([16; 2]),
                _ => tweaks[i - 4].xts_bytes::<1, 15>(none),
            };
        }
        tweaks
    }
    #[inline(always)]
    fn xts_ahead(self, other: Self) -> Self {
        const { assert!(Self::N * Self::XTS_DEPTH == 16) };
        self.xts_bytes::<2, 14>(other)
    }
    #[inline(always)]
    fn sum(self) -> Sse {
        op!({
            let upper = _mm256_extracti128_si256::<1>(self.0);
            Sse(_mm_xor_si128(_mm256_castsi256_si128(self.0), upper))
        })
    }
}

xts_products!(Ymm);

#[inline(always)]
fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    op!(xor(xor(a, b), c))
}

/// See [`Lanes::pin`]. A function that enables the register's instructions: otherwise the compiler
/// does not accept the register's name.
#[inline]
#[target_feature(enable = "avx")]
fn pinned(mut register: __m256i) -> __m256i {
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("/* {0} */", inout(ymm_reg) register, options(nomem, nostack, preserves_flags));
    }
    register
}
