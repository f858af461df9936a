//! One message at a time, on integers: for any target, in constant time.

use zeroize::Zeroize;

use super::block::{Lines, Masks, Words};
use crate::Direction;
use crate::cpu::kernels::Io;

impl Words for u32 {
    type Line = u64;
    type Tap = ();

    #[inline(always)]
    fn tap<const RIGHT: i32, const LEFT: i32>(line: u64, (): &mut ()) -> u32 {
        (line >> RIGHT) as u32
    }
    #[inline(always)]
    fn push(line: u64, entered: u32) -> u64 {
        line >> 32 | u64::from(entered) << 32
    }
    #[inline(always)]
    fn xor(self, other: u32) -> u32 {
        self ^ other
    }
    #[inline(always)]
    fn xor3(self, b: u32, c: u32) -> u32 {
        self ^ b ^ c
    }
    #[inline(always)]
    fn xnor3(self, b: u32, c: u32) -> u32 {
        !(self ^ b ^ c)
    }
    #[inline(always)]
    fn majority(self, b: u32, c: u32) -> u32 {
        (self & (b ^ c)) ^ (b & c)
    }
    #[inline(always)]
    fn choose(self, one: u32, zero: u32) -> u32 {
        (self & (one ^ zero)) ^ zero
    }
    #[inline(always)]
    fn xor_and(self, a: u32, b: u32) -> u32 {
        self ^ (a & b)
    }
}

/// Blocks of padding for each value of ca.
const HALF_PAD: usize = 4;

/// A message in progress.
#[derive(Clone)]
pub(crate) struct Acorn(Lines<u32>);

impl Drop for Acorn {
    fn drop(&mut self) {
        // The register can be run backwards to the key, so it is wiped.
        for line in self.0.all() {
            line.zeroize();
        }
    }
}

/// The little-endian words of 16 bytes.
fn words(bytes: &[u8; 16]) -> [u32; 4] {
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

impl Acorn {
    /// Absorbs the key, the nonce and the associated data.
    pub(crate) fn start(key: &[u8; 16], iv: &[u8; 16], aad: &[u8]) -> Self {
        let mut state = Acorn(Lines::new(0, ()));
        let mut key = words(key);
        for word in key.into_iter().chain(words(iv)) {
            state.0.absorb(word);
        }
        for round in 0..12 {
            for (place, word) in key.into_iter().enumerate() {
                state.0.absorb(word ^ u32::from(round == 0 && place == 0));
            }
        }
        key.zeroize();
        let (whole, rest) = aad.as_chunks();
        for word in whole {
            state.0.absorb(u32::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            let before = state.0;
            state.0.absorb(u32::from_le_bytes(last));
            state.keep(before, rest.len());
        }
        state.pad(u32::MAX);
        state
    }

    /// Works on the next bytes of text: whole words, or the message's end.
    ///
    /// # Safety
    /// As the methods of [`crate::cpu::Kernels`].
    pub(crate) unsafe fn update(&mut self, direction: Direction, io: Io) {
        // Two loops, and the state in registers.
        let mut lines = self.0;
        let whole = io.len - io.len % 4;
        // SAFETY: the words lie inside both buffers; the rest by this function's contract.
        unsafe {
            let from = io.src.cast::<u32>();
            let to = io.dst.cast::<u32>();
            match direction {
                Direction::Encrypt => {
                    for i in 0..whole / 4 {
                        let word = u32::from_le(from.add(i).read_unaligned());
                        to.add(i).write_unaligned(lines.seal(word).to_le());
                    }
                }
                Direction::Decrypt => {
                    for i in 0..whole / 4 {
                        let word = u32::from_le(from.add(i).read_unaligned());
                        to.add(i).write_unaligned(lines.open(word).to_le());
                    }
                }
            }
        }
        self.0 = lines;
        let rest = io.len - whole;
        if rest == 0 {
            return;
        }
        let mut word = [0; 4];
        // SAFETY: as above.
        unsafe {
            let text = io.part(whole, rest);
            text.src.copy_to_nonoverlapping(word.as_mut_ptr(), rest);
            let inside = u32::MAX >> (32 - 8 * rest);
            let masks = Masks {
                ca: u32::MAX,
                cb: 0,
                ciphertext: match direction {
                    Direction::Encrypt => 0,
                    Direction::Decrypt => inside,
                },
            };
            let result = self.0.mixed(u32::from_le_bytes(word), &masks);
            self.keep(lines, rest);
            let result = result.to_le_bytes();
            text.dst.copy_from_nonoverlapping(result.as_ptr(), rest);
        }
    }

    /// The tag of a finished message.
    pub(crate) fn tag(&self) -> [u8; 16] {
        let mut state = self.clone();
        state.pad(0);
        for _ in 0..20 {
            state.0.absorb(0);
        }
        let masks = Masks {
            ca: u32::MAX,
            cb: u32::MAX,
            ciphertext: 0,
        };
        let mut tag = [0; 16];
        for word in tag.as_chunks_mut::<4>().0 {
            *word = state.0.mixed(0, &masks).to_le_bytes();
        }
        tag
    }

    /// The 256 steps after the associated data (`cb` all ones) and the text (`cb` zero).
    fn pad(&mut self, cb: u32) {
        for block in 0..2 * HALF_PAD {
            let masks = Masks {
                ca: if block < HALF_PAD { u32::MAX } else { 0 },
                cb,
                ciphertext: 0,
            };
            self.0.mixed(u32::from(block == 0), &masks);
        }
    }

    /// Undoes the steps of the last block after its first `bytes`, 1 to 3.
    fn keep(&mut self, mut before: Lines<u32>, bytes: usize) {
        for (now, before) in self.0.all().into_iter().zip(before.all()) {
            let both = u128::from(*now >> 32) << 64 | u128::from(*before);
            *now = (both >> (8 * bytes)) as u64;
        }
    }
}
