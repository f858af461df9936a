//! The family of generators.

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Steps before the first output, so that every bit of the key reaches every bit of the state.
const WARM_UP: usize = 6;
/// Operations of a step.
pub(super) const OPERATIONS: usize = 4;
/// Added once a step, so that zeros do not stay zeros: 2^32 over the golden ratio.
const CONSTANT: u32 = 0x9e37_79b9;

/// One generator of the family: a state of four 32-bit words, and four operations that make a step.
/// Each step outputs the whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// The operations, in their order.
    pub operations: [Operation; OPERATIONS],
}

/// A word is combined with another one, and rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Unchecked")]
pub struct Operation {
    /// Whether the two are added; otherwise XORed.
    pub(super) adds: bool,
    /// The word that changes.
    pub(super) to: u8,
    /// Another word.
    pub(super) from: u8,
    /// By how many bits it is rotated to the left.
    pub(super) rotate: u8,
}

/// An operation as it comes from a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    adds: bool,
    to: u8,
    from: u8,
    rotate: u8,
}

impl TryFrom<Unchecked> for Operation {
    type Error = &'static str;

    fn try_from(given: Unchecked) -> Result<Self, &'static str> {
        let Unchecked {
            adds,
            to,
            from,
            rotate,
        } = given;
        match to < 4 && from < 4 && to != from && rotate < 32 {
            true => Ok(Operation {
                adds,
                to,
                from,
                rotate,
            }),
            false => {
                Err("an operation has two different words from 0 to 3, and rotates by 0 to 31")
            }
        }
    }
}

impl Operation {
    /// An operation drawn at random.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let to = random.below(4);
        Operation {
            adds: random.below(2) == 0,
            to: to as u8,
            from: ((to + 1 + random.below(3)) % 4) as u8,
            rotate: random.below(32) as u8,
        }
    }

    fn apply(&self, state: &mut [u32; 4]) {
        let (to, from) = (self.to as usize, self.from as usize);
        let combined = match self.adds {
            true => state[to].wrapping_add(state[from]),
            false => state[to] ^ state[from],
        };
        state[to] = combined.rotate_left(u32::from(self.rotate));
    }

    fn undo(&self, state: &mut [u32; 4]) {
        let (to, from) = (self.to as usize, self.from as usize);
        let combined = state[to].rotate_right(u32::from(self.rotate));
        state[to] = match self.adds {
            true => combined.wrapping_sub(state[from]),
            false => combined ^ state[from],
        };
    }
}

impl Generator {
    /// Bytes of key, IV, state and of each output.
    pub const BLOCK: usize = 16;
    /// Bytes of the text whose pad one chain of states makes; each such segment has its own chain, so
    /// that all of them can be worked on at the same time.
    pub const SEGMENT: usize = 4096;

    /// A generator drawn at random: nearly all are poor.
    pub fn draw(random: &mut Random) -> Self {
        Generator {
            operations: [(); OPERATIONS].map(|()| Operation::draw(random)),
        }
    }

    fn step(&self, state: &mut [u32; 4]) {
        state[0] = state[0].wrapping_add(CONSTANT);
        self.operations.iter().for_each(|one| one.apply(state));
    }

    /// Goes back to the state before a step: each operation can be undone.
    fn step_back(&self, state: &mut [u32; 4]) {
        self.operations.iter().rev().for_each(|one| one.undo(state));
        state[0] = state[0].wrapping_sub(CONSTANT);
    }

    /// Applies the pad of a key and an IV to a text.
    pub fn apply(&self, key: &[u8; 16], iv: &[u8; 16], text: &mut [u8]) {
        let start = start(key, iv);
        for (number, segment) in (0u64..).zip(text.chunks_mut(Generator::SEGMENT)) {
            let mut state = of_segment(start, number);
            for _ in 0..WARM_UP {
                self.step(&mut state);
            }
            for block in segment.chunks_mut(Generator::BLOCK) {
                self.step(&mut state);
                let pad = state.iter().flat_map(|word| word.to_le_bytes());
                block
                    .iter_mut()
                    .zip(pad)
                    .for_each(|(byte, pad)| *byte ^= pad);
            }
        }
    }

    /// The key that with this IV has `pad` as block `index` of its pad. There is exactly one.
    pub(crate) fn key_of(&self, pad: &[u8; 16], index: u64, iv: &[u8; 16]) -> [u8; 16] {
        const BLOCKS: u64 = (Generator::SEGMENT / Generator::BLOCK) as u64;
        let mut state = words(pad);
        for _ in 0..index % BLOCKS + 1 + WARM_UP as u64 {
            self.step_back(&mut state);
        }
        let state = of_segment(state, index / BLOCKS);
        let iv = words(iv);
        let mut key = [0; 16];
        for (word, bytes) in key.chunks_exact_mut(4).enumerate() {
            bytes.copy_from_slice(&(state[word] ^ iv[word]).to_le_bytes());
        }
        key
    }
}

/// The state before all segments' numbers are added.
pub(super) fn start(key: &[u8; 16], iv: &[u8; 16]) -> [u32; 4] {
    let (key, iv) = (words(key), words(iv));
    [0, 1, 2, 3].map(|word| key[word] ^ iv[word])
}

/// The state in which a segment begins; its own inverse.
fn of_segment(mut state: [u32; 4], number: u64) -> [u32; 4] {
    state[2] ^= (number >> 32) as u32;
    state[3] ^= number as u32;
    state
}

fn words(bytes: &[u8; 16]) -> [u32; 4] {
    [0, 4, 8, 12].map(|start| {
        let word = bytes[start..start + 4].try_into();
        u32::from_le_bytes(word.expect("a word has 4 bytes"))
    })
}
