//! One block in an SSE register: AES-NI and PCLMULQDQ.

use std::arch::x86_64::{
    _mm_add_epi32 as add32, _mm_add_epi64 as add64, _mm_aesdec_si128 as aesdec,
    _mm_aesdeclast_si128 as aesdeclast, _mm_aesenc_si128 as aesenc,
    _mm_aesenclast_si128 as aesenclast, _mm_clmulepi64_si128 as clmul, _mm_loadu_si128 as loadu,
    _mm_shuffle_epi8 as shuffle8, _mm_shuffle_epi32 as shuffle32, _mm_slli_epi64 as slli64,
    _mm_storeu_si128 as storeu, _mm_xor_si128 as xor, *,
};

use super::formulas::{lanes_formulas, op};
use crate::cpu::body::{Block, Lanes, WIDE, one_lane};
use crate::cpu::compiled::names::*;

kernels_of!(
    /// AES-NI and PCLMULQDQ in SSE's encoding: any x86-64 CPU since about 2010.
    AesNi,
    Sse,
    InstructionSet::AesNi,
    "aes,pclmulqdq,ssse3,sse4.1",
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("ssse3")
        && is_x86_feature_detected!("sse4.1")
);

/// One AES block in a 128-bit register.
#[derive(Clone, Copy)]
pub(super) struct Sse(pub(super) __m128i);

/// The only lane.
#[inline(always)]
fn broadcast(block: __m128i) -> __m128i {
    block
}

/// 32 bytes of ones, then as many zeros. A load that starts `len` bytes before the zeros is a mask
/// of the first `len` bytes.
pub(super) static ONES: [u8; 64] = {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 32 {
        bytes[i] = 0xff;
        i += 1;
    }
    bytes
};

impl Lanes for Sse {
    type One = Sse;
    const N: usize = 1;
    // As many as the latency of a round in cycles. The steps overlap, and the CPU's scheduler, with
    // some 60 to 100 entries, holds more than one of them.
    const DEPTH: usize = 4;
    const ROWS: bool = true;
    const PARTS: bool = true;

    lanes_formulas!(Sse);
    one_lane!();

    #[inline(always)]
    fn pin(mut self) -> Self {
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {0} */", inout(xmm_reg) self.0, options(nomem, nostack, preserves_flags));
        }
        self
    }
    #[inline(always)]
    fn first_bytes(self, len: usize) -> Self {
        // SAFETY: the place has 16 bytes.
        let mask = unsafe { Self::load(ONES.as_ptr().add(32 - len.min(16))) };
        Sse(op!(_mm_and_si128(self.0, mask.0)))
    }
    #[inline(always)]
    fn last(self) -> Self {
        self
    }
    #[inline(always)]
    unsafe fn splat_iv(iv: &[u8; 12]) -> Self {
        // Loads only: a load after a copy would wait for its stores.
        let (first, last) = iv.split_first_chunk().expect("it has twelve bytes");
        let last = last.first_chunk().expect("four are left");
        let words = [u64::from_le_bytes(*first), u32::from_le_bytes(*last).into()];
        // SAFETY: by the trait's contract.
        Sse(unsafe { _mm_set_epi64x(words[1] as i64, words[0] as i64) })
    }
    #[inline(always)]
    fn doubles() -> bool {
        super::is_amd()
    }
    #[inline(always)]
    fn xts_signs(self) -> Self {
        // The words whose first bits are shifted out. Their bits also determine the next tweaks:
        // what is carried in does not reach them.
        Sse(op!(_mm_shuffle_epi32::<0b00_01_00_11>(self.0)))
    }
    #[inline(always)]
    fn xts_double(self, signs: Self) -> (Self, Self) {
        op!({
            let carries =
                _mm_and_si128(_mm_srai_epi32::<31>(signs.0), _mm_set_epi32(0, 1, 0, 0x87));
            let next = _mm_xor_si128(_mm_add_epi64(self.0, self.0), carries);
            (Sse(next), Sse(_mm_add_epi32(signs.0, signs.0)))
        })
    }
    #[inline(always)]
    fn xts_row_ahead(slot: &[Self; 2], zero: Self) -> Self {
        const { assert!(WIDE == 8) };
        let start: *const u8 = slot.as_ptr().cast();
        op!({
            // With the zero in a register, both loads are part of other instructions.
            let fallen = _mm_alignr_epi8::<15>(zero.0, _mm_loadu_si128(start.add(16).cast()));
            let wrapped = _mm_clmulepi64_si128::<0x00>(fallen, _mm_set_epi64x(0, 0x87));
            let shifted = _mm_loadu_si128(start.add(15).cast());
            Sse(_mm_xor_si128(wrapped, shifted))
        })
    }
    #[inline(always)]
    fn xts_tweaks<const W: usize>(self) -> [Self; W] {
        const { assert!(W <= 8) };
        let mut signs = self.xts_signs();
        let mut tweaks = [self; W];
        for i in 1..W {
            (tweaks[i], signs) = tweaks[i - 1].xts_double(signs);
        }
        tweaks
    }
    #[inline(always)]
    fn xts_next(self) -> Self {
        // Doubled by halves; the bits shifted out of each half, spread over a mask, select what is
        // added to the other: 1, or x^128 = x^7 + x^2 + x + 1.
        let (next, _) = self.xts_double(self.xts_signs());
        next
    }
}

impl Block for Sse {
    #[inline(always)]
    fn inverse_mix_columns(self) -> Self {
        Sse(op!(_mm_aesimc_si128(self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::body::{xts, xts_rows};
    use crate::cpu::kernels::Io;
    use crate::cpu::prepared::AesKey;
    use crate::testing::random_jobs::Random;
    use crate::{Direction, InstructionSet};

    /// Whole rows with tweaks computed in one way, and the tweak after them.
    #[target_feature(enable = "aes,pclmulqdq,avx")]
    unsafe fn run<const DOUBLES: bool>(
        key: &AesKey,
        direction: Direction,
        tweak: &mut [u8; 16],
        io: Io,
    ) {
        let keys = key.round_keys(direction);
        // SAFETY: this function has the instructions; the rest by its caller.
        unsafe {
            let ends = [&keys[0], &keys[key.rounds]].map(|key| Sse::splat(key));
            let base = Sse::splat(tweak);
            xts_rows::<Sse, DOUBLES>(key, direction, ends, base, io).store(tweak.as_mut_ptr());
        }
    }

    /// Step by step, without rows.
    #[target_feature(enable = "aes,pclmulqdq,avx")]
    unsafe fn steps(key: &AesKey, direction: Direction, tweak: &mut [u8; 16], io: Io) {
        for offset in (0..io.len).step_by(16) {
            // SAFETY: one block of `io`; the rest as above.
            unsafe { xts::<Sse, { Sse::XTS_DEPTH }>(key, direction, tweak, io.part(offset, 16)) };
        }
    }

    /// By itself, a machine uses only one of the two ways.
    #[test]
    fn both_ways_of_tweaks_make_the_same() {
        let kernels = InstructionSet::AesNi.kernels();
        let Some(kernels) = kernels.filter(|_| is_x86_feature_detected!("avx")) else {
            println!("skipped: no AES-NI");
            return;
        };
        let mut random = Random::new(1619);
        for (key_len, direction) in [16, 32].into_iter().flat_map(|len| {
            [Direction::Encrypt, Direction::Decrypt].map(|direction| (len, direction))
        }) {
            let key = AesKey::of(kernels, &random.bytes(key_len), true);
            let text = random.bytes(16 * WIDE * 5);
            // A tweak whose first bits are shifted out soon.
            let mut start = [0xff; 16];
            start[..7].copy_from_slice(&random.bytes(7));
            let all = [run::<false>, run::<true>, steps].map(|way| {
                let (mut tweak, mut text) = (start, text.clone());
                // SAFETY: the machine has the instructions, and the buffer is this test's own.
                unsafe { way(&key, direction, &mut tweak, Io::in_place(&mut text)) };
                (tweak, text)
            });
            assert!(all[0] == all[2], "{key_len} {direction:?}, products");
            assert!(all[1] == all[2], "{key_len} {direction:?}, doubles");
        }
    }
}
