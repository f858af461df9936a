//! One block in an SSE register, in AVX's encoding.

use super::sse::Sse;
use crate::cpu::compiled::names::*;

kernels_of!(
    /// AES-NI and PCLMULQDQ in AVX's three-operand encoding, which saves the copies.
    AesNiAvx,
    Sse,
    InstructionSet::AesNi,
    "aes,pclmulqdq,avx",
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("avx")
);
