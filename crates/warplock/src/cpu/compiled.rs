//! The bodies compiled for one instruction set.

use super::prepared::{GhashKey, Powers};

/// Names that the macro's expansion uses, for the modules that call it.
pub(super) mod names {
    pub(in crate::cpu) use super::{kernels_of, powers_of, specialize_load, specialize_store};
    pub(in crate::cpu) use crate::Direction;
    pub(in crate::cpu) use crate::cpu::kernels::{
        Chain, CounterBits, GcmCounter, Io, Kernels, Short,
    };
    pub(in crate::cpu) use crate::cpu::prepared::{AesKey, GhashKey, Powers};
    pub(in crate::cpu) use crate::cpu::{InstructionSet, body};
}

/// The powers of H; a key of another family does not reach these kernels, as
/// [`crate::Key::prepared`] keeps one form for each instruction set.
pub(super) fn powers_of(hash: &GhashKey) -> &Powers {
    match hash {
        GhashKey::Clmul { powers, .. } => powers,
        GhashKey::Portable { .. } => unreachable!("kernels get hash keys that they made"),
    }
}

/// A call with ordinary stores and one with non-temporal stores, so that each is compiled by itself: a
/// branch at the end of each step costs 2 to 3 %.
macro_rules! specialize_store {
    ($io:ident => $call:expr) => {
        match $io.non_temporal {
            true => {
                let $io = $io.with_non_temporal(true);
                $call
            }
            false => {
                let $io = $io.with_non_temporal(false);
                $call
            }
        }
    };
}

/// The same for kernels that prefetch their input if it is in no cache: ordinary stores then need two
/// calls. Input of non-temporal output is in no cache.
macro_rules! specialize_load {
    ($io:ident => $call:expr) => {
        match $io.cold && !$io.non_temporal {
            true => {
                let $io = $io.with_non_temporal(false).with_cold(true);
                $call
            }
            false => {
                let $io = $io.with_cold($io.non_temporal);
                specialize_store!($io => $call)
            }
        }
    };
}

/// Compiles every body for one register type and one list of instructions. A macro, because
/// `target_feature` takes neither constants nor type parameters.
macro_rules! kernels_of {
    ($(#[$doc:meta])* $name:ident, $lanes:ty, $set:expr, $features:literal, $detect:expr) => {
        $(#[$doc])*
        pub(in crate::cpu) struct $name(());

        impl $name {
            /// The kernels, if this machine has the instructions.
            pub(in crate::cpu) fn detect() -> Option<&'static dyn Kernels> {
                static KERNELS: $name = $name(());
                $detect.then_some(&KERNELS as &dyn Kernels)
            }

            #[target_feature(enable = $features)]
            fn expand(key: &[u8], inverse: bool, to: &mut AesKey) {
                // SAFETY: this function has the instructions; likewise below.
                unsafe { body::expand::<$lanes>(key, inverse, to) }
            }
            #[target_feature(enable = $features)]
            fn powers(h: &[u8; 16], blocks: usize, powers: &mut Powers) {
                // SAFETY: as above.
                unsafe { body::ghash_powers::<$lanes>(h, blocks, powers) }
            }
            #[target_feature(enable = $features)]
            unsafe fn gcm_short_of<const ENCRYPT: bool>(messages: &mut [Short<'_>]) -> usize {
                let apart = body::Apart {
                    in_step: $name::gcm_in_step::<ENCRYPT>,
                    in_turn: $name::gcm_in_turn::<ENCRYPT>,
                };
                // SAFETY: as above, and by this function's contract; likewise below.
                unsafe { body::gcm_short::<$lanes>(body::direction(ENCRYPT), apart, messages) }
            }
            #[target_feature(enable = $features)]
            unsafe fn gcm_in_step<const ENCRYPT: bool>(messages: &mut [Short<'_>]) -> usize {
                // SAFETY: as above.
                unsafe {
                    body::gcm_in_step::<$lanes, { body::WIDE * <$lanes as body::Lanes>::N }>(
                        body::direction(ENCRYPT),
                        messages,
                    )
                }
            }
            #[target_feature(enable = $features)]
            unsafe fn gcm_in_turn<const ENCRYPT: bool>(messages: &mut [Short<'_>]) {
                // SAFETY: as above.
                unsafe { body::gcm_in_turn::<$lanes>(body::direction(ENCRYPT), messages) }
            }
            #[target_feature(enable = $features)]
            fn ghash(hash: &GhashKey, y: &mut [u8; 16], data: &[u8]) {
                // SAFETY: as above.
                unsafe { body::ghash::<$lanes>(powers_of(hash), y, data) }
            }
            #[target_feature(enable = $features)]
            fn gcm_tag(
                key: &AesKey,
                hash: &GhashKey,
                first: [u8; 16],
                y: [u8; 16],
                lengths: &[u8; 16],
            ) -> [u8; 16] {
                // SAFETY: as above.
                unsafe { body::gcm_tag::<$lanes>(key, powers_of(hash), first, y, lengths) }
            }
        }

        // A trait's safe method cannot have instructions of its own, so it calls a function that has.
        impl Kernels for $name {
            fn set(&self) -> InstructionSet {
                $set
            }
            fn expand(&self, key: &[u8], inverse: bool, to: &mut AesKey) {
                // SAFETY: `detect` found the instructions; likewise below.
                unsafe { $name::expand(key, inverse, to) }
            }
            fn ghash_key(&self, h: [u8; 16], blocks: usize, to: &mut Option<GhashKey>) {
                let powers = GhashKey::clmul(h, to);
                // SAFETY: as above.
                unsafe { $name::powers(&h, blocks, powers) }
            }
            #[target_feature(enable = $features)]
            unsafe fn ecb(&self, key: &AesKey, direction: Direction, io: Io) {
                // Two calls, so that each direction is compiled by itself. SAFETY: this function
                // has the instructions, and by the trait's contract; likewise below.
                unsafe {
                    match direction {
                        Direction::Encrypt => specialize_store!(io => body::ecb::<$lanes, { <$lanes as body::Lanes>::DEPTH }>(key, Direction::Encrypt, io)),
                        Direction::Decrypt => specialize_store!(io => body::ecb::<$lanes, { <$lanes as body::Lanes>::DEPTH }>(key, Direction::Decrypt, io)),
                    }
                }
            }
            #[target_feature(enable = $features)]
            unsafe fn ecb_each(&self, keys: &[u8], io: Io) {
                // SAFETY: as above.
                unsafe { specialize_store!(io => body::ecb_each::<$lanes>(keys, io)) }
            }
            #[target_feature(enable = $features)]
            unsafe fn ctr(&self, key: &AesKey, counter: &mut [u8; 16], io: Io) {
                // SAFETY: as above.
                unsafe {
                    specialize_load!(io => body::ctr::<$lanes, { body::WIDE }>(key, counter, CounterBits::B128, false, io));
                }
            }
            #[target_feature(enable = $features)]
            unsafe fn cbc_decrypt(&self, key: &AesKey, prev: &mut [u8; 16], io: Io) {
                // SAFETY: as above.
                unsafe {
                    specialize_store!(io => body::cbc_decrypt::<$lanes>(key, prev, io))
                }
            }
            #[target_feature(enable = $features)]
            unsafe fn cbc_encrypt(&self, chains: &mut [Chain<'_>]) {
                // SAFETY: as above.
                unsafe { body::cbc_encrypt::<$lanes>(chains) }
            }
            #[target_feature(enable = $features)]
            unsafe fn xts(
                &self,
                key: &AesKey,
                tweak_key: Option<&AesKey>,
                direction: Direction,
                tweak: &mut [u8; 16],
                io: Io,
            ) {
                // SAFETY: as above; the tweak is borrowed alone.
                unsafe {
                    if let Some(key) = tweak_key {
                        body::encrypt_one::<$lanes>(key, tweak);
                    }
                    match direction {
                        Direction::Encrypt => {
                            specialize_store!(io => body::xts::<$lanes, { <$lanes as body::Lanes>::XTS_DEPTH }>(key, Direction::Encrypt, tweak, io));
                        }
                        Direction::Decrypt => {
                            specialize_store!(io => body::xts::<$lanes, { <$lanes as body::Lanes>::XTS_DEPTH }>(key, Direction::Decrypt, tweak, io));
                        }
                    }
                }
            }
            #[target_feature(enable = $features)]
            unsafe fn gcm(
                &self,
                key: &AesKey,
                hash: &GhashKey,
                direction: Direction,
                counter: &mut GcmCounter,
                y: &mut [u8; 16],
                io: Io,
            ) {
                let powers = powers_of(hash);
                // SAFETY: as above.
                unsafe {
                    match direction {
                        Direction::Encrypt => {
                            specialize_load!(io => body::gcm::<$lanes, true>(key, powers, counter, y, io));
                        }
                        Direction::Decrypt => {
                            specialize_store!(io => body::gcm::<$lanes, false>(key, powers, counter, y, io));
                        }
                    }
                }
            }
            unsafe fn gcm_short(
                &self,
                direction: Direction,
                messages: &mut [Short<'_>],
            ) -> usize {
                // SAFETY: as above.
                unsafe {
                    match direction {
                        Direction::Encrypt => $name::gcm_short_of::<true>(messages),
                        Direction::Decrypt => $name::gcm_short_of::<false>(messages),
                    }
                }
            }
            fn gcm_rows(&self) -> bool {
                <$lanes as body::Lanes>::PARTS
            }
            fn ghash(&self, hash: &GhashKey, y: &mut [u8; 16], data: &[u8]) {
                // SAFETY: as above.
                unsafe { $name::ghash(hash, y, data) }
            }
            fn gcm_tag(
                &self,
                key: &AesKey,
                hash: &GhashKey,
                first: [u8; 16],
                y: [u8; 16],
                lengths: &[u8; 16],
            ) -> [u8; 16] {
                // SAFETY: as above.
                unsafe { $name::gcm_tag(key, hash, first, y, lengths) }
            }
        }
    };
}

pub(in crate::cpu) use {kernels_of, specialize_load, specialize_store};
