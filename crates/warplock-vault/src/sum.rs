//! The sum over a file's blocks: an incremental multiset hash of (block number, tag).
//!
//! Each block adds F(number, tag), where F is a pseudo-random function under a key of the file, and
//! adding is XOR: the set hash MSet-XOR-Hash (Clarke, Devadas, van Dijk, Gassend, Suh: Incremental
//! Multiset Hash Functions and Their Application to Memory Integrity Checking, ASIACRYPT 2003).
//! A number occurs once in a file, so it is a set, and the sum is only ever stored encrypted.

use aes::Aes128;
use aes::cipher::{BlockEncrypt, KeyInit};

use crate::layout::TAG_LEN;

/// The sum of no blocks.
pub(crate) const EMPTY: [u8; 16] = [0; 16];

/// So many blocks are worked on side by side: enough for the processor, and few to clear, as most
/// calls bring one or two.
const SIDE_BY_SIDE: usize = 16;

/// The pseudo-random function of one file: CBC-MAC over exactly two blocks.
pub(crate) struct Summer(Aes128);

type Block = aes::Block;

impl Summer {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        Summer(Aes128::new(key.into()))
    }

    /// Adds block `first + i` with `tags[i]` to `sum`, for each `i`, or takes it away again. A tag
    /// of zeros stands for a hole, which counts nothing.
    pub(crate) fn toggle(
        &self,
        sum: &mut [u8; 16],
        first: u64,
        tags: impl IntoIterator<Item = [u8; TAG_LEN]>,
    ) {
        let mut blocks = [Block::default(); SIDE_BY_SIDE];
        let mut held = [[0; TAG_LEN]; SIDE_BY_SIDE];
        let mut count = 0;
        let mut number = first;
        let mut tags = tags.into_iter();
        loop {
            let next = tags.next();
            if let Some(tag) = next {
                if tag != [0; TAG_LEN] {
                    blocks[count] = Block::default();
                    blocks[count][..8].copy_from_slice(&number.to_be_bytes());
                    held[count] = tag;
                    count += 1;
                }
                number += 1;
            }
            if count == blocks.len() || (next.is_none() && count > 0) {
                self.0.encrypt_blocks(&mut blocks[..count]);
                for (block, tag) in blocks[..count].iter_mut().zip(&held) {
                    for (byte, tag) in block.iter_mut().zip(tag) {
                        *byte ^= tag;
                    }
                }
                self.0.encrypt_blocks(&mut blocks[..count]);
                for block in &blocks[..count] {
                    for (byte, value) in sum.iter_mut().zip(block) {
                        *byte ^= value;
                    }
                }
                count = 0;
            }
            if next.is_none() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_tells_sets_apart_and_forgets_order() {
        let summer = Summer::new(&[7; 16]);
        let tags: Vec<[u8; 16]> = (1..200u8).map(|i| [i; 16]).collect();
        let mut all = EMPTY;
        summer.toggle(&mut all, 5, tags.iter().copied());
        let mut single = EMPTY;
        for (i, tag) in tags.iter().enumerate().rev() {
            summer.toggle(&mut single, 5 + i as u64, [*tag]);
        }
        assert_eq!(all, single);

        let mut swapped = tags.clone();
        swapped.swap(3, 100);
        let mut other = EMPTY;
        summer.toggle(&mut other, 5, swapped);
        assert_ne!(all, other);

        summer.toggle(&mut all, 5, tags.iter().copied());
        assert_eq!(all, EMPTY);
        summer.toggle(&mut all, 0, [[0; 16]; 3]);
        assert_eq!(all, EMPTY, "holes count nothing");
    }

    /// AES-128 of FIPS 197, twice: F(b, t) = E(E(b || 0) XOR t).
    #[test]
    fn it_is_cbc_mac() {
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let cipher = Aes128::new(&key.into());
        let mut block = Block::default();
        block[7] = 9;
        cipher.encrypt_block(&mut block);
        block.iter_mut().for_each(|byte| *byte ^= 0x55);
        cipher.encrypt_block(&mut block);
        let mut sum = EMPTY;
        Summer::new(&key).toggle(&mut sum, 9, [[0x55; 16]]);
        assert_eq!(sum, <[u8; 16]>::from(block));
    }
}
