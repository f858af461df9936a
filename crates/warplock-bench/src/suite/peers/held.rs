//! Limits peers to the instructions of `cpu:aesni` where the machine has more: a comparison of two
//! instruction sets would say nothing about libraries.

use warplock::{Engine, InstructionSet};

use super::Found;

/// Read by OpenSSL and AWS-LC when they are loaded (OPENSSL_ia32cap(3)): hides AVX-512 F, DQ, BW,
/// VL (bits 16, 17, 30, 31 of the third word), VAES and VPCLMULQDQ (bits 9, 10 of the fourth).
const VARIABLE: (&str, &str) = ("OPENSSL_ia32cap", ":~0x600C0030000");

/// Whether peers may only use the instructions of `cpu:aesni`.
#[derive(Clone, Copy)]
pub(super) struct Held(bool);

impl Held {
    #[cfg(test)]
    pub(super) const NO: Self = Held(false);

    /// The limits of the engine that they are compared with.
    pub(super) fn like(engine: &Engine) -> Self {
        Held(engine.backend() == "cpu:aesni" && InstructionSet::best() != InstructionSet::AesNi)
    }

    pub(super) fn is_held(self) -> bool {
        self.0
    }

    /// What must be in the environment before the program starts, if it is not.
    pub(super) fn missing(self) -> Option<(&'static str, &'static str)> {
        (self.0 && std::env::var_os(VARIABLE.0).is_none()).then_some(VARIABLE)
    }

    /// A library that reads the environment.
    pub(super) fn by_environment(self, name: &str, load: impl FnOnce() -> Found) -> Found {
        match self.missing() {
            None => load(),
            Some((variable, value)) => Err(format!(
                "{name}: left out, it would use more than AES-NI; start with {variable}={value}"
            )),
        }
    }

    /// A library that uses what it finds.
    pub(super) fn left_out(self, name: &str, load: impl FnOnce() -> Found) -> Found {
        match self.0 {
            false => load(),
            true => Err(format!("{name}: left out, it cannot be held to AES-NI")),
        }
    }
}

#[cfg(test)]
mod tests {
    use warplock::BackendChoice;

    use super::*;

    #[test]
    fn only_aesni_is_held_and_only_where_there_is_more() {
        let held = |set| {
            let builder = Engine::builder().backend(BackendChoice::Cpu(Some(set)));
            builder.build().is_ok_and(|engine| Held::like(&engine).0)
        };
        let best = InstructionSet::best();
        assert!(!held(best) && !held(InstructionSet::Portable));
        let more = [InstructionSet::Vaes256, InstructionSet::Vaes512].contains(&best);
        assert_eq!(held(InstructionSet::AesNi), more);
        let left_out = Held(true).left_out("it", || unreachable!("not loaded"));
        assert!(left_out.is_err_and(|reason| reason.starts_with("it: left out")));
    }
}
