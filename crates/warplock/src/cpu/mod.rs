//! The CPU backend: the instruction sets, and the choice of one for this machine.
//!
//! `cfg(vectors)` names the family of vector code that is compiled; `build.rs` sets it, except in
//! builds without optimization.

#![cfg_attr(
    not(any(vectors = "x86", vectors = "arm")),
    allow(
        dead_code,
        reason = "only vector code reads some of what kernels are given"
    )
)]

mod acorn;
#[cfg(vectors = "arm")]
mod arm;
mod backend;
#[cfg(any(vectors = "x86", vectors = "arm"))]
mod body;
#[cfg(any(vectors = "x86", vectors = "arm"))]
mod compiled;
mod finish;
mod kernels;
mod message;
mod parallel;
mod parts;
pub(crate) mod portable;
mod prepared;
mod run;
#[cfg(test)]
mod tests;
#[cfg(vectors = "x86")]
mod x86;

#[cfg(all(test, feature = "cuda"))]
pub(crate) use acorn::Acorn;
#[cfg(all(test, feature = "cuda"))]
pub(crate) use kernels::Chain;
pub(crate) use kernels::{Io, Kernels};
pub(crate) use message::Running;
pub(crate) use parallel::LEAST_PIECE;
pub(crate) use parts::MessageStart;

pub(crate) use backend::CpuBackend;
pub(crate) use prepared::{AesKey, Prepared};

/// The instruction sets that the CPU backend has code for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// Plain integer code in constant time; runs everywhere, and the others are tested against it.
    Portable,
    /// ARMv8's AES and PMULL on NEON registers: nearly every 64-bit ARM CPU of servers, phones and
    /// laptops.
    Neon,
    /// AES-NI and PCLMULQDQ: nearly every x86-64 CPU.
    AesNi,
    /// VAES and VPCLMULQDQ on 256-bit registers: two blocks an instruction.
    Vaes256,
    /// The same on 512-bit registers (AVX-512): four blocks an instruction.
    Vaes512,
}

/// How many instruction sets there are.
pub(crate) const SETS: usize = 5;

impl InstructionSet {
    /// Every instruction set that there is code for, slowest first.
    pub fn all() -> impl Iterator<Item = InstructionSet> {
        use InstructionSet::*;
        [Portable, Neon, AesNi, Vaes256, Vaes512].into_iter()
    }

    /// The name after `cpu:`.
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::Portable => "portable",
            InstructionSet::Neon => "neon",
            InstructionSet::AesNi => "aesni",
            InstructionSet::Vaes256 => "vaes256",
            InstructionSet::Vaes512 => "vaes512",
        }
    }

    /// Whether this machine has the instructions and this build has code for them: without
    /// optimization there is portable code only.
    pub fn is_available(self) -> bool {
        self.kernels().is_some()
    }

    /// The fastest one on this machine.
    pub fn best() -> InstructionSet {
        InstructionSet::all()
            .filter(|set| set.is_available())
            .last()
            .expect("portable code runs everywhere")
    }

    /// Whether non-temporal stores of large results pay, as measured on Zen 4 and Sapphire
    /// Rapids: with VAES, that makes all threads 1.1 to 1.6 times as fast, and one 0.95 to 2 times.
    /// With AES-NI a core is too slow to gain (0.8 to 1.2).
    fn gains_by_non_temporal_stores(self) -> bool {
        matches!(self, InstructionSet::Vaes256 | InstructionSet::Vaes512)
    }

    /// Its kernels, if this machine has the instructions: the one place where they are chosen.
    pub(crate) fn kernels(self) -> Option<&'static dyn Kernels> {
        match self {
            InstructionSet::Portable => Some(&portable::Portable),
            #[cfg(vectors = "arm")]
            InstructionSet::Neon => arm::Neon::detect(),
            #[cfg(vectors = "x86")]
            InstructionSet::AesNi => x86::aesni(),
            #[cfg(vectors = "x86")]
            InstructionSet::Vaes256 => x86::vaes256::Vaes256::detect(),
            #[cfg(vectors = "x86")]
            InstructionSet::Vaes512 => x86::vaes512::Vaes512::detect(),
            // Another family's, or a build without optimization.
            #[allow(unreachable_patterns, reason = "on a target whose family has all")]
            _ => None,
        }
    }
}
