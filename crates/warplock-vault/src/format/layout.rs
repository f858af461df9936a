//! The layout of a ciphertext file: two headers, then blocks at their own size, and between them
//! the pages of the tree that authenticates them.
//!
//! A page stands directly before the first block that needs it, twice: the two slots of a page are
//! written in turn, so that the page that the newest header refers to is never overwritten.

use std::ops::Range;

/// Bytes of one header.
pub(crate) const HEADER_LEN: usize = 2048;
/// Where the first block begins: after two headers.
pub(crate) const BLOCKS_START: u64 = 2 * HEADER_LEN as u64;
/// Bytes of a nonce.
pub(crate) const NONCE_LEN: usize = 12;
/// Bytes of a tag.
pub(crate) const TAG_LEN: usize = 16;
/// What a sealed record holds in addition to its text.
pub(crate) const OVERHEAD: usize = NONCE_LEN + TAG_LEN;
/// The longest file: with every block size, its blocks end before 2^63.
pub(crate) const MAX_LEN: u64 = 1 << 62;
/// Bytes of a page's ciphertext; its nonce and tag stand in the page or header above it.
pub(crate) const PAGE_LEN: usize = 4096;
/// Entries of a page. 128 of 32 bytes fill the usual sector of 4 KiB.
pub(crate) const FANOUT: u64 = 128;
/// Entries in a header: up to this many blocks need no page. 64 KiB with the smallest blocks, so
/// that a short file is its header and its content.
pub(crate) const ROOTS: u64 = 16;
/// Both slots of a page.
const PAIR_LEN: u64 = 2 * PAGE_LEN as u64;

/// The block size, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    block: usize,
}

/// How many blocks an entry of a page at `level` stands for; level 1 is the lowest.
pub(crate) fn span(level: u8) -> u64 {
    1 << (7 * (u32::from(level) - 1))
}

/// How many levels of pages a file of `blocks` blocks has.
pub(crate) fn depth(blocks: u64) -> u8 {
    let mut depth = 0;
    while ROOTS * span(depth + 1) < blocks {
        depth += 1;
    }
    depth
}

/// The first block that needs page `index` of `level`.
fn first_block(level: u8, index: u64) -> u64 {
    match index {
        0 => ROOTS * span(level),
        _ => index * span(level + 1),
    }
}

/// How many pages stand before block `number`.
fn pages_before(number: u64) -> u64 {
    let mut pages = 0;
    let mut level = 1;
    while number >= first_block(level, 0) {
        pages += 1 + number / span(level + 1);
        level += 1;
    }
    pages
}

impl Layout {
    pub(crate) fn new(block: usize) -> Self {
        Layout { block }
    }

    /// Bytes of a whole block, in the file as in the store.
    pub(crate) fn block(self) -> usize {
        self.block
    }

    /// Where block `number` begins.
    pub(crate) fn block_start(self, number: u64) -> u64 {
        BLOCKS_START + number * self.block as u64 + PAIR_LEN * pages_before(number)
    }

    /// Up to which block, at most `end`, blocks from `first` on lie side by side.
    pub(crate) fn adjoining(self, first: u64, end: u64) -> u64 {
        let next = match first {
            0..ROOTS => ROOTS,
            _ => (first / FANOUT + 1) * FANOUT,
        };
        next.min(end)
    }

    /// Where slot 0 or 1 of page `index` of `level` begins.
    pub(crate) fn page_start(self, level: u8, index: u64, slot: u8) -> u64 {
        let first = first_block(level, index);
        // Of the pages directly before a block, the highest comes first.
        let start = self.block_start(first) - PAIR_LEN * u64::from(level);
        start + u64::from(slot) * PAGE_LEN as u64
    }

    /// Where `blocks` of a file of `len` bytes lie, without the pages between them that stand for
    /// other blocks, too.
    pub(crate) fn without_pages(self, blocks: &Range<u64>, len: u64) -> Vec<Range<u64>> {
        if blocks.is_empty() {
            return Vec::new();
        }
        let last = blocks.end - 1;
        let end = self.block_start(last) + self.block_len(last, len) as u64;
        let mut kept = Vec::new();
        for level in 1..=depth(blocks.end) {
            for block in [blocks.start, blocks.end] {
                let index = block / span(level + 1);
                let first = first_block(level, index);
                if blocks.start < first && first < blocks.end {
                    kept.push(self.page_start(level, index, 0));
                }
            }
        }
        kept.sort_unstable();
        kept.dedup();
        let mut ranges = Vec::new();
        let mut start = self.block_start(blocks.start);
        for page in kept {
            ranges.push(start..page);
            start = page + PAIR_LEN;
        }
        ranges.push(start..end);
        ranges.retain(|range| !range.is_empty());
        ranges
    }

    /// How many blocks a file of `len` bytes has.
    pub(crate) fn blocks(self, len: u64) -> u64 {
        len.div_ceil(self.block as u64)
    }

    /// Bytes of block `number` in a file of `len` bytes.
    pub(crate) fn block_len(self, number: u64, len: u64) -> usize {
        let start = number * self.block as u64;
        (len.saturating_sub(start)).min(self.block as u64) as usize
    }

    /// Bytes of the ciphertext file of a file of `len` bytes.
    pub(crate) fn stored_len(self, len: u64) -> u64 {
        match self.blocks(len) {
            0 => BLOCKS_START,
            blocks => self.block_start(blocks - 1) + self.block_len(blocks - 1, len) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks and pages fill the file without gaps or overlaps, in the order that the format says.
    #[test]
    fn everything_has_its_place() {
        let layout = Layout::new(4096);
        let mut at = BLOCKS_START;
        for number in 0..300_000u64 {
            for level in (1..8).rev() {
                let here = (0..=number / span(level + 1))
                    .rev()
                    .take(2)
                    .chain([0])
                    .find(|index| first_block(level, *index) == number);
                if let Some(index) = here {
                    assert_eq!(layout.page_start(level, index, 0), at, "{level} {index}");
                    assert_eq!(layout.page_start(level, index, 1), at + 4096);
                    at += 8192;
                }
            }
            assert_eq!(layout.block_start(number), at, "{number}");
            at += 4096;
        }
    }

    /// The freed ranges are exactly those that only these blocks need.
    #[test]
    fn pages_that_others_need_stay() {
        let layout = Layout::new(4096);
        let len = 20_000 * 4096;
        for blocks in [
            10..200,
            0..16,
            16..128,
            128..256,
            100..2049,
            5..19_990,
            2048..16384,
        ] {
            let free = layout.without_pages(&blocks, len);
            let is_free = |at: u64| free.iter().any(|range| range.contains(&at));
            for number in 0..20_000 {
                assert_eq!(
                    is_free(layout.block_start(number)),
                    blocks.contains(&number)
                );
            }
            for level in 1..=2 {
                for index in 0..=19_999 / span(level + 1) {
                    let here = index * span(level + 1)..(index + 1) * span(level + 1);
                    let mine = blocks.start <= here.start && here.end <= blocks.end;
                    let free = is_free(layout.page_start(level, index, 1));
                    assert!(mine || !free, "{blocks:?}: page {level} {index}");
                }
            }
        }
    }

    #[test]
    fn depths() {
        let expected = [(0, 0), (1, 0), (16, 0), (17, 1), (2048, 1), (2049, 2)];
        for (blocks, levels) in expected {
            assert_eq!(depth(blocks), levels, "{blocks}");
        }
        assert_eq!(depth(1 << 50), 7);
    }

    #[test]
    fn lengths() {
        for block in [4096, 65536] {
            let layout = Layout::new(block);
            let b = block as u64;
            assert_eq!(layout.stored_len(0), 4096);
            assert_eq!(layout.stored_len(1), 4097);
            assert_eq!(layout.stored_len(16 * b), 4096 + 16 * b);
            assert_eq!(layout.stored_len(16 * b + 1), 4096 + 16 * b + 8192 + 1);
            assert!(layout.stored_len(MAX_LEN) < 1 << 63);
            assert_eq!(layout.block_len(1, b + 5), 5);
            assert_eq!(layout.block_len(2, b + 5), 0);
            assert_eq!(layout.adjoining(3, 100), 16);
            assert_eq!(layout.adjoining(16, 1000), 128);
            assert_eq!(layout.adjoining(128, 200), 200);
        }
    }
}
