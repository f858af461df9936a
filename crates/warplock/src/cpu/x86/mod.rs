//! x86-64: the bodies compiled for each instruction set.

mod acorn256;
mod acorn512;
mod sse;
mod vaes256;
mod vaes512;

use std::arch::x86_64::__cpuid;
use std::sync::OnceLock;

use super::acorn::LaneKernels;
use super::instruction_set::names::*;

kernels_of!(
    /// AES-NI and PCLMULQDQ in SSE's encoding: any x86-64 processor since about 2010.
    AesNi,
    sse::Sse,
    InstructionSet::AesNi,
    "aes,pclmulqdq,ssse3,sse4.1",
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("ssse3")
        && is_x86_feature_detected!("sse4.1")
);

kernels_of!(
    /// The same in AVX's three-operand encoding, which saves the copies.
    AesNiAvx,
    sse::Sse,
    InstructionSet::AesNi,
    "aes,pclmulqdq,avx",
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("avx")
);

kernels_of!(
    /// VAES and VPCLMULQDQ on 256-bit registers: processors without AVX-512 since 2020.
    Vaes256,
    vaes256::Ymm,
    InstructionSet::Vaes256,
    "aes,pclmulqdq,avx2,vaes,vpclmulqdq",
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq")
);

kernels_of!(
    /// VAES and VPCLMULQDQ on 512-bit registers.
    Vaes512,
    vaes512::Zmm,
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

/// ACORN-128 on each kind of vectors, as far as this machine has them, the best one first.
pub(super) fn acorn() -> [Option<&'static LaneKernels>; 3] {
    [
        acorn512::detect_funnel(),
        acorn512::detect(),
        acorn256::detect(),
    ]
}

/// VAES on 256 bits, if this machine has it.
pub(super) fn vaes256() -> Option<&'static dyn Kernels> {
    Vaes256::detect()
}

/// VAES on 512 bits, if this machine has it.
pub(super) fn vaes512() -> Option<&'static dyn Kernels> {
    Vaes512::detect()
}

/// The best encoding of AES-NI that this machine has.
pub(super) fn aesni() -> Option<&'static dyn Kernels> {
    AesNiAvx::detect().or_else(AesNi::detect)
}

/// Whether large results are better written past the caches, as measured on Zen 4 and Sapphire
/// Rapids: with VAES, that makes all threads 1.1 to 1.6 times as fast, and one 0.95 to 2 times.
/// With AES-NI a core is too slow to gain (0.8 to 1.2).
pub(super) fn gains_past_caches(set: InstructionSet) -> bool {
    matches!(set, InstructionSet::Vaes256 | InstructionSet::Vaes512)
}

/// Whether AMD made this processor.
pub(super) fn is_amd() -> bool {
    static AMD: OnceLock<bool> = OnceLock::new();
    *AMD.get_or_init(|| {
        let name = __cpuid(0);
        // "AuthenticAMD".
        [name.ebx, name.edx, name.ecx] == [0x6874_7541, 0x6974_6E65, 0x444D_4163]
    })
}
