//! Equal blocks, the mark of ECB and of short periods.

use crate::test::{Bounds, Test};

/// Bytes of a block.
pub(crate) const BLOCK: usize = 16;

/// How many 16-byte blocks occur more than once.
#[derive(Clone, Copy, Debug)]
pub struct RepeatedBlocks {
    /// Whole blocks.
    pub blocks: u64,
    /// Blocks equal to an earlier one.
    pub repeats: u64,
}

impl RepeatedBlocks {
    /// Of all whole blocks from the start on; `None` if there are fewer than two.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let blocks = bytes.chunks_exact(BLOCK);
        let mut blocks: Vec<_> = blocks
            .map(|block| u128::from_le_bytes(block.try_into().expect("a block has 16 bytes")))
            .collect();
        blocks.sort_unstable();
        let repeats = blocks.windows(2).filter(|pair| pair[0] == pair[1]).count();
        (blocks.len() >= 2).then_some(RepeatedBlocks {
            blocks: blocks.len() as u64,
            repeats: repeats as u64,
        })
    }

    /// Repeats that random data has on average.
    fn expected(&self) -> f64 {
        let blocks = self.blocks as f64;
        blocks * (blocks - 1.0) / 2.0 / 2f64.powi(128)
    }

    /// A bound for the chance that random data has as many.
    pub fn p_value(&self) -> f64 {
        match self.repeats {
            0 => 1.0,
            // Markov's inequality.
            repeats => (self.expected() / repeats as f64).min(1.0),
        }
    }

    /// Whether blocks repeat.
    pub fn test(&self) -> Test {
        Test {
            name: "repeated_blocks",
            title: "repeated 16-byte blocks",
            value: self.repeats as f64,
            expected: self.expected(),
            deviation: self.expected().sqrt(),
            bounds: Bounds::at_levels(|_| (None, Some(0.0))),
            p_value: self.p_value(),
            is_continuous: false,
            sentence: match self.repeats {
                0 => "No 16-byte block occurs twice, as in random data.".to_owned(),
                repeats => format!(
                    "{repeats} of {} blocks of 16 bytes are equal to an earlier one, where random \
                     data has none: equal plaintext is visible (ECB), or a key stream repeats.",
                    self.blocks
                ),
            },
        }
    }
}
