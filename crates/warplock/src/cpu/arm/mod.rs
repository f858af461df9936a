//! 64-bit ARM: the bodies compiled for its instructions.

mod neon;

use std::arch::is_aarch64_feature_detected;

use super::compiled::names::*;

kernels_of!(
    /// AES and PMULL on 128-bit registers.
    Neon,
    neon::Vector,
    InstructionSet::Neon,
    "neon,aes",
    // "aes" stands for both FEAT_AES and FEAT_PMULL.
    is_aarch64_feature_detected!("neon") && is_aarch64_feature_detected!("aes")
);
