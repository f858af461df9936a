//! Four blocks in an AVX-512 register: VAES and VPCLMULQDQ.

use std::arch::x86_64::{
    _mm512_add_epi32 as add32, _mm512_add_epi64 as add64, _mm512_aesdec_epi128 as aesdec,
    _mm512_aesdeclast_epi128 as aesdeclast, _mm512_aesenc_epi128 as aesenc,
    _mm512_aesenclast_epi128 as aesenclast, _mm512_broadcast_i32x4 as broadcast,
    _mm512_bslli_epi128 as bslli, _mm512_bsrli_epi128 as bsrli, _mm512_clmulepi64_epi128 as clmul,
    _mm512_loadu_si512 as loadu, _mm512_shuffle_epi8 as shuffle8,
    _mm512_shuffle_epi32 as shuffle32, _mm512_slli_epi64 as slli64, _mm512_storeu_si512 as storeu,
    _mm512_xor_si512 as xor, *,
};

use super::formulas::{lanes_formulas, op, xts_products};
use super::sse::Sse;
use crate::cpu::body::{Lanes, WIDE};
use crate::cpu::compiled::names::*;

kernels_of!(
    /// VAES and VPCLMULQDQ on 512-bit registers.
    Vaes512,
    Zmm,
    InstructionSet::Vaes512,
    "aes,pclmulqdq,avx512f,avx512bw,avx512vl,avx512dq,vaes,vpclmulqdq",
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq")
);

/// Four AES blocks in a 512-bit register.
#[derive(Clone, Copy)]
pub(super) struct Zmm(__m512i);

/// One number for each lane's low 64 bits.
#[inline(always)]
fn low64(lanes: [u64; 4]) -> __m512i {
    let [a, b, c, d] = lanes.map(|n| n as i64);
    op!(_mm512_set_epi64(0, d, 0, c, 0, b, 0, a))
}

/// A mask of the first `len` bytes, at most 64.
#[inline(always)]
fn first(len: usize) -> u64 {
    u64::MAX.checked_shr(64 - len as u32).unwrap_or(0)
}

impl Lanes for Zmm {
    type One = Sse;
    const N: usize = 4;
    const DEPTH: usize = WIDE;
    // A hyper-thread on the same core takes half of the scheduler: then eight registers would fill
    // it and leave no room for the next step's.
    const XTS_DEPTH: usize = 4;
    const HOLDS: bool = true;
    const AHEAD: bool = true;
    const PARTS: bool = true;

    lanes_formulas!(Zmm);

    #[inline(always)]
    unsafe fn load_part(from: *const u8, len: usize) -> Self {
        // SAFETY: bytes that the mask leaves out are not touched; the rest by the trait's contract.
        Zmm(unsafe { _mm512_maskz_loadu_epi8(first(len), from.cast()) })
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, len: usize) {
        // SAFETY: as for the load.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first(len), self.0) }
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: by the trait's contract.
        unsafe { _mm512_stream_si512(to.cast(), self.0) }
    }
    #[inline(always)]
    fn prefetch(from: *const u8) {
        // SAFETY: every x86-64 processor has it, and no address is refused.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }
    #[inline(always)]
    unsafe fn gather(from: &[*const u8], offset: usize) -> Self {
        // SAFETY: by the trait's contract.
        unsafe {
            let a = _mm_loadu_si128(from[0].add(offset).cast());
            let b = _mm_loadu_si128(from[1].add(offset).cast());
            let c = _mm_loadu_si128(from[2].add(offset).cast());
            let d = _mm_loadu_si128(from[3].add(offset).cast());
            let (lower, upper) = (_mm256_set_m128i(b, a), _mm256_set_m128i(d, c));
            Zmm(_mm512_inserti64x4::<1>(
                _mm512_castsi256_si512(lower),
                upper,
            ))
        }
    }
    #[inline(always)]
    unsafe fn scatter(self, to: &[*mut u8], offset: usize) {
        // SAFETY: by the trait's contract.
        unsafe {
            _mm_storeu_si128(to[0].add(offset).cast(), _mm512_castsi512_si128(self.0));
            _mm_storeu_si128(
                to[1].add(offset).cast(),
                _mm512_extracti32x4_epi32::<1>(self.0),
            );
            _mm_storeu_si128(
                to[2].add(offset).cast(),
                _mm512_extracti32x4_epi32::<2>(self.0),
            );
            _mm_storeu_si128(
                to[3].add(offset).cast(),
                _mm512_extracti32x4_epi32::<3>(self.0),
            );
        }
    }
    #[inline(always)]
    fn transpose(tile: &mut [Self; 4]) {
        let [a, b, c, d] = *tile;
        op!({
            let ab = _mm512_shuffle_i64x2::<0x44>(a.0, b.0);
            let cd = _mm512_shuffle_i64x2::<0x44>(c.0, d.0);
            tile[0] = Zmm(_mm512_shuffle_i64x2::<0x88>(ab, cd));
            tile[1] = Zmm(_mm512_shuffle_i64x2::<0xDD>(ab, cd));
            let ab = _mm512_shuffle_i64x2::<0xEE>(a.0, b.0);
            let cd = _mm512_shuffle_i64x2::<0xEE>(c.0, d.0);
            tile[2] = Zmm(_mm512_shuffle_i64x2::<0x88>(ab, cd));
            tile[3] = Zmm(_mm512_shuffle_i64x2::<0xDD>(ab, cd));
        });
    }
    #[inline(always)]
    fn pin(self) -> Self {
        Zmm(op!(pinned(self.0)))
    }
    #[inline(always)]
    fn number64(self) -> Self {
        Zmm(op!(_mm512_add_epi64(self.0, low64([0, 1, 2, 3]))))
    }
    #[inline(always)]
    fn number32(self) -> Self {
        Zmm(op!(_mm512_add_epi32(self.0, low64([0, 1, 2, 3]))))
    }
    #[inline(always)]
    fn followed_by(self, count: usize, other: Self) -> Self {
        let lanes = ((1u16 << (2 * count.min(4))) - 1) as u8;
        Zmm(op!(_mm512_mask_blend_epi64(lanes, other.0, self.0)))
    }
    #[inline(always)]
    fn first_bytes(self, len: usize) -> Self {
        Zmm(op!(_mm512_maskz_mov_epi8(first(len), self.0)))
    }
    #[inline(always)]
    fn last(self) -> Sse {
        Sse(op!(_mm512_extracti32x4_epi32::<3>(self.0)))
    }
    #[inline(always)]
    unsafe fn splat_iv(iv: &[u8; 12]) -> Self {
        let mask = first(iv.len()) as u16;
        // SAFETY: bytes that the mask leaves out are not touched; the rest by the trait's contract.
        Zmm(unsafe { _mm512_broadcast_i32x4(_mm_maskz_loadu_epi8(mask, iv.as_ptr().cast())) })
    }
    #[inline(always)]
    fn widen(one: Sse) -> Self {
        Zmm(op!(_mm512_zextsi128_si512(one.0)))
    }
    #[inline(always)]
    fn shift_in(self, before: Sse) -> Self {
        let before = op!(_mm512_broadcast_i32x4(before.0));
        Zmm(op!(_mm512_alignr_epi64::<6>(self.0, before)))
    }
    #[inline(always)]
    fn xts_powers(self) -> Self {
        self.xts_times([1, 2, 4, 8])
    }
    #[inline(always)]
    fn xts_next(self) -> Self {
        self.xts_times([16; 4])
    }
    #[inline(always)]
    fn xts_start<const W: usize>(self) -> [Self; W] {
        const { assert!(W <= 8) };
        // All together: nothing can begin before them.
        let mut tweaks = [self; W];
        for (i, tweak) in tweaks.iter_mut().enumerate() {
            let first = 1 << (4 * i);
            *tweak = self.xts_times([first, 2 * first, 4 * first, 8 * first]);
        }
        tweaks
    }
    #[inline(always)]
    fn xts_tweaks<const W: usize>(self) -> [Self; W] {
        // In few steps, each from the previous ones: one chain would take longer than a step.
        let none = Zmm(op!(_mm512_setzero_si512()));
        let mut tweaks = [self; W];
        for i in 1..W {
            tweaks[i] = match i {
                1 => self.xts_next(),
                2 | 3 => tweaks[i - 2].xts_bytes::<1, 15>(none),
                _ => tweaks[i - 4].xts_bytes::<2, 14>(none),
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
    fn xts_far_ahead(self, other: Self) -> Self {
        const { assert!(Self::N * Self::XTS_DEPTH == 16) };
        op!({
            let wrapped = clmul::<0x01>(self.0, broadcast(_mm_set1_epi64x(0x87)));
            Zmm(xor3(bslli::<8>(self.0), wrapped, other.0))
        })
    }
    #[inline(always)]
    fn goes_far() -> bool {
        // On AMD, one instruction less per tweak gains 2 %; on Intel, where the rounds leave time
        // for it, four times the code costs 0.2 %.
        let amd = super::is_amd();
        #[cfg(test)]
        let amd = amd != tests::OTHER_WAY.load(std::sync::atomic::Ordering::Relaxed);
        amd
    }
    #[inline(always)]
    fn sum(self) -> Sse {
        op!({
            let upper = _mm512_extracti64x4_epi64::<1>(self.0);
            let half = _mm256_xor_si256(_mm512_castsi512_si256(self.0), upper);
            let upper = _mm256_extracti128_si256::<1>(half);
            Sse(_mm_xor_si128(_mm256_castsi256_si128(half), upper))
        })
    }
}

xts_products!(Zmm);

#[inline(always)]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    op!(_mm512_ternarylogic_epi64::<0x96>(a, b, c))
}

/// See [`Lanes::pin`]. A function that enables the register's instructions: otherwise the compiler
/// does not accept the register's name.
#[inline]
#[target_feature(enable = "avx512f")]
fn pinned(mut register: __m512i) -> __m512i {
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("/* {0} */", inout(zmm_reg) register, options(nomem, nostack, preserves_flags));
    }
    register
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::cpu::kernels::{Io, Kernels};
    use crate::cpu::prepared::AesKey;
    use crate::testing::random_jobs::Random;
    use crate::{Direction, InstructionSet};

    /// XTS goes as on another maker's processor.
    pub(super) static OTHER_WAY: AtomicBool = AtomicBool::new(false);

    /// A machine takes one of the ways alone.
    #[test]
    fn both_ways_of_tweaks_make_the_same() {
        let Some(kernels) = InstructionSet::Vaes512.kernels() else {
            println!("skipped: no VAES with 512 bits");
            return;
        };
        let portable = InstructionSet::Portable.kernels().unwrap();
        let mut random = Random::new(1619);
        for key_len in [16, 32] {
            let key = random.bytes(key_len);
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                // Around the steps of 256 bytes, where the two ways diverge, and long.
                for blocks in (64..=97).chain([1000]) {
                    let text = random.bytes(16 * blocks);
                    let start: [u8; 16] = random.bytes(16).try_into().unwrap();
                    let run = |kernels: &dyn Kernels| {
                        let key = AesKey::of(kernels, &key, true);
                        let (mut tweak, mut text) = (start, text.clone());
                        let io = Io::in_place(&mut text);
                        // SAFETY: the buffer is borrowed alone.
                        unsafe { kernels.xts(&key, None, direction, &mut tweak, io) };
                        (tweak, text)
                    };
                    let expected = run(portable);
                    for other in [true, false] {
                        OTHER_WAY.store(other, Ordering::Relaxed);
                        assert!(
                            run(kernels) == expected,
                            "{key_len} {direction:?} {blocks} {other}"
                        );
                    }
                }
            }
        }
    }
}
