//! Keys in the form that kernels take.

use zeroize::Zeroize;

use super::abi::RoundKeys;
use crate::cpu::portable::gf_inverse;
use crate::cpu::{InstructionSet, Kernels, Prepared};
use crate::job::Job;
use crate::{Direction, Key, Keys};

/// One key, expanded by the host: a parameter of the kernels for one key.
pub(crate) struct OneKey {
    pub(crate) encrypt: RoundKeys,
    pub(crate) decrypt: RoundKeys,
    /// XTS: of the second key.
    pub(crate) tweak: RoundKeys,
    /// GCM: the hash key.
    pub(crate) hash: [u8; 16],
    /// GCM: its inverse. Computing it would take the device longer than all powers.
    pub(crate) inverse: [u8; 16],
}

impl Drop for OneKey {
    fn drop(&mut self) {
        self.hash.zeroize();
        self.inverse.zeroize();
    }
}

impl OneKey {
    pub(crate) fn new(job: &Job<'_>, message: usize) -> Self {
        match *job.keys() {
            Keys::One(key) => OneKey::of(key),
            Keys::Indexed { keys, index } => OneKey::of(&keys[index[message] as usize]),
            Keys::Each { algorithm, .. } => {
                let mut prepared = Prepared::empty();
                prepared.set(kernels(), algorithm, job.key_bytes(message), 16, true);
                OneKey::from(&prepared)
            }
        }
    }

    /// A key that belongs to no job.
    pub(crate) fn of(key: &Key) -> Self {
        OneKey::from(key.prepared(kernels()))
    }

    fn from(prepared: &Prepared) -> Self {
        let hash = prepared.ghash.as_ref().map(|key| key.h());
        OneKey {
            encrypt: RoundKeys {
                round: prepared.aes.enc,
            },
            decrypt: RoundKeys {
                round: prepared.aes.dec,
            },
            tweak: RoundKeys {
                round: prepared.tweak.as_ref().map_or([[0; 16]; 15], |key| key.enc),
            },
            hash: hash.unwrap_or_default(),
            inverse: hash.map(gf_inverse).unwrap_or_default(),
        }
    }

    /// The round keys of a direction.
    pub(crate) fn schedule(&self, direction: Direction) -> &RoundKeys {
        match direction {
            Direction::Encrypt => &self.encrypt,
            Direction::Decrypt => &self.decrypt,
        }
    }

    /// Writes the same bytes as `expand_keys`.
    pub(crate) fn write_table_key(&self, place: &mut [u8]) {
        let schedules = [&self.encrypt, &self.decrypt, &self.tweak];
        let blocks = schedules.iter().flat_map(|keys| &keys.round);
        let blocks = blocks.chain(std::iter::once(&self.hash));
        for (place, block) in place.chunks_exact_mut(16).zip(blocks) {
            place.copy_from_slice(block);
        }
    }
}

/// The CPU's fastest kernels, which expand keys.
fn kernels() -> &'static dyn Kernels {
    InstructionSet::best()
        .kernels()
        .expect("the best set is one that this machine has")
}
