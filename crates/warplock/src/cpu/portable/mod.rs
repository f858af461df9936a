//! The portable backend's AES and GHASH: constant time, for any target, in safe Rust except for the
//! question whether there is AVX2.
//!
//! No table is indexed by a secret and no branch depends on one. AES works on bit planes in two
//! cores, [`narrow`] for a few blocks and [`wide`] for many; both are also the reference that the
//! faster backends are tested against.
//!
//! What holds round keys is wiped on drop, and so are the wide core's planes, which lie in memory.
//! The narrow core's state lives in registers and a few words of stack that the next call reuses;
//! it is not wiped.

#![allow(
    clippy::needless_range_loop,
    reason = "a lane indexes many arrays at the same time, and loops of this form are vectorised"
)]

mod bits;
mod clmul;
mod ghash;
mod kernels;
mod narrow;
mod sbox;
mod schedule;
#[cfg(test)]
mod tests;
mod wide;
mod xts;

#[cfg(any(feature = "cuda", test))]
pub(crate) use ghash::gf_inverse;
pub(crate) use ghash::{GhashKey, gf_mul, gf_pow};
pub(crate) use kernels::Portable;
pub(crate) use schedule::{RoundKeys, expand};
pub(crate) use xts::{xts_double, xts_skip};

use crate::Direction;
use narrow::NarrowKeys;
use wide::{LaneKeys, SpreadKeys};
use zeroize::Zeroizing;

// AES-128 on one core of a 2.5 GHz Cascade Lake, built for baseline x86-64 (SSE2), in MB/s:
//
//   words a plane     1     2     4     8
//   narrow          180   178   282   286     (4, 8, 16, 32 blocks a pass)
//   wide              -   193   352   361     (-, 128, 256, 512 blocks a pass)
//
// With AVX2, the wide core has 510 with four words. Loops over two words are too short for the
// compiler to vectorise. A pass of the narrow core
// takes 0.36 us with one word and 0.93 us with four, one of the wide core 11.5 us with four.

/// Words in a plane of the wide core: within 3 % of twice as many, with half the memory.
const WIDE_WORDS: usize = 4;

/// Blocks in a pass of the wide core.
const WIDE_LANES: usize = 64 * WIDE_WORDS;

/// From how many blocks on a pass of the wide core takes less time than those of the narrow one.
const WIDE_MIN: usize = 200;

/// The same for a key per block, where the narrow core takes four blocks at a time.
const WIDE_EACH_MIN: usize = 128;

/// The same where keys are expanded too, which a full pass of the wide core does 12 times
/// as fast.
const WIDE_FROM_KEYS_MIN: usize = 32;

/// Words in a plane of the narrow core, unless there are few blocks.
const NARROW_WORDS: usize = 4;

/// Up to how many blocks one word in a plane of the narrow core is better.
const NARROW_FEW: usize = 8;

/// A key prepared for encryption and decryption of single blocks (ECB); modes build on it.
pub(crate) struct Sliced {
    narrow: NarrowKeys,
    wide: Option<SpreadKeys>,
    rounds: usize,
}

impl Sliced {
    /// Prepares the round keys that [`expand`] gave for work on about `blocks` blocks. This takes
    /// 0.6 us, and 2 us more where there are enough blocks for the wide core; the wide form has
    /// 15 KiB.
    pub(crate) fn new(keys: &RoundKeys, rounds: usize, blocks: usize) -> Self {
        let wide = (blocks >= WIDE_MIN).then(|| SpreadKeys::new(keys, rounds));
        Self {
            narrow: NarrowKeys::new(keys, rounds),
            wide,
            rounds,
        }
    }

    /// Encrypts or decrypts each block by itself, any number of them.
    pub(crate) fn crypt(&self, direction: Direction, blocks: &mut [[u8; 16]]) {
        let (many, some, few) = self.split(blocks);
        if let Some(wide) = &self.wide {
            wide.crypt::<WIDE_WORDS>(direction, many);
        }
        self.narrow
            .crypt::<NARROW_WORDS>(direction, self.rounds, some);
        self.narrow.crypt::<1>(direction, self.rounds, few);
    }

    /// Divides blocks into those for the wide core, for the narrow core, and for its variant with
    /// one word a plane.
    fn split<'a>(&self, blocks: Blocks<'a>) -> (Blocks<'a>, Blocks<'a>, Blocks<'a>) {
        let many = if self.wide.is_some() {
            wide_part(blocks.len(), WIDE_MIN)
        } else {
            0
        };
        let (many, rest) = blocks.split_at_mut(many);
        let over = rest.len() % (4 * NARROW_WORDS);
        let some = if over <= NARROW_FEW {
            rest.len() - over
        } else {
            rest.len()
        };
        let (some, few) = rest.split_at_mut(some);
        (many, some, few)
    }
}

type Blocks<'a> = &'a mut [[u8; 16]];

/// How many of `count` blocks go to the wide core, if it takes part passes of at least `min`.
fn wide_part(count: usize, min: usize) -> usize {
    let over = count % WIDE_LANES;
    if over < min { count - over } else { count }
}

/// A key for each block of a batch, prepared: block `i` is worked on under key `i`.
///
/// For many messages with a key each, and for chains (such as CBC encryption) run in step.
pub(crate) struct SlicedEach {
    wide: Vec<LaneKeys<WIDE_WORDS>>,
    narrow: Vec<NarrowKeys>,
    rounds: usize,
    /// How many of the blocks go to the wide core.
    in_wide: usize,
    count: usize,
}

impl SlicedEach {
    /// Prepares round keys, all of `rounds` rounds.
    pub(crate) fn new(keys: &[RoundKeys], rounds: usize) -> Self {
        let in_wide = wide_part(keys.len(), WIDE_EACH_MIN);
        let (many, few) = keys.split_at(in_wide);
        Self {
            wide: many
                .chunks(WIDE_LANES)
                .map(|keys| LaneKeys::each(keys, rounds))
                .collect(),
            narrow: few
                .chunks(4)
                .map(|keys| NarrowKeys::each(keys, rounds))
                .collect(),
            rounds,
            in_wide,
            count: keys.len(),
        }
    }

    /// Expands keys of AES-128 and prepares them, without a detour over bytes where there are many.
    pub(crate) fn from_keys(keys: &[[u8; 16]]) -> Self {
        let in_wide = wide_part(keys.len(), WIDE_FROM_KEYS_MIN);
        let (many, few) = keys.split_at(in_wide);
        let few = few.iter().map(|key| expand(key).0);
        let of_few = Self::new(&Zeroizing::new(few.collect::<Vec<_>>()), 10);
        Self {
            wide: many.chunks(WIDE_LANES).map(LaneKeys::expand).collect(),
            in_wide,
            count: keys.len(),
            ..of_few
        }
    }

    /// Encrypts block `i` under key `i`.
    ///
    /// # Panics
    ///
    /// If there are not as many blocks as keys.
    pub(crate) fn encrypt_blocks(&self, blocks: &mut [[u8; 16]]) {
        assert_eq!(blocks.len(), self.count, "as many blocks as keys");
        let (many, few) = blocks.split_at_mut(self.in_wide);
        for (keys, blocks) in self.wide.iter().zip(many.chunks_mut(WIDE_LANES)) {
            keys.crypt(Direction::Encrypt, blocks);
        }
        for (keys, blocks) in self.narrow.iter().zip(few.chunks_mut(4)) {
            keys.crypt::<1>(Direction::Encrypt, self.rounds, blocks);
        }
    }
}
