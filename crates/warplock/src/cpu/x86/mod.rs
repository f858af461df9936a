//! x86-64: the bodies compiled for each instruction set, each in a module of its own: the compiler
//! works on several modules at the same time.

mod acorn256;
mod acorn512;
mod avx;
mod formulas;
mod sse;
pub(super) mod vaes256;
pub(super) mod vaes512;

use std::arch::x86_64::__cpuid;
use std::sync::OnceLock;

use super::acorn::LaneKernels;
use super::compiled::names::*;

/// ACORN-128 for each vector extension that this machine has, the best one first.
pub(super) fn acorn() -> [Option<&'static LaneKernels>; 3] {
    [
        acorn512::detect_funnel(),
        acorn512::detect(),
        acorn256::detect(),
    ]
}

/// The best encoding of AES-NI that this machine has.
pub(super) fn aesni() -> Option<&'static dyn Kernels> {
    avx::AesNiAvx::detect().or_else(sse::AesNi::detect)
}

pub(super) fn is_amd() -> bool {
    static AMD: OnceLock<bool> = OnceLock::new();
    *AMD.get_or_init(|| {
        let name = __cpuid(0);
        // "AuthenticAMD".
        [name.ebx, name.edx, name.ecx] == [0x6874_7541, 0x6974_6E65, 0x444D_4163]
    })
}
