//! Where things lie in a ciphertext file: two headers, then a slot for each block.

/// Bytes of one header.
pub(crate) const HEADER_LEN: usize = 2048;
/// Where the slots begin: behind two headers.
pub(crate) const SLOTS_START: u64 = 2 * HEADER_LEN as u64;
/// Bytes of a block's nonce, in front of its ciphertext.
pub(crate) const NONCE_LEN: usize = 12;
/// Bytes of a block's tag, behind its ciphertext.
pub(crate) const TAG_LEN: usize = 16;
/// What a slot holds besides ciphertext.
pub(crate) const OVERHEAD: usize = NONCE_LEN + TAG_LEN;
/// The longest file: with every block size, its slots end before 2^63.
pub(crate) const MAX_LEN: u64 = 1 << 62;

/// The block size, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    block: usize,
}

impl Layout {
    pub(crate) fn new(block: usize) -> Self {
        Layout { block }
    }

    /// Plaintext bytes of a whole block.
    pub(crate) fn block(self) -> usize {
        self.block
    }

    /// Bytes of a whole block's slot.
    pub(crate) fn slot(self) -> usize {
        self.block + OVERHEAD
    }

    /// Where the slot of block `number` begins.
    pub(crate) fn slot_start(self, number: u64) -> u64 {
        SLOTS_START + number * self.slot() as u64
    }

    /// How many blocks a file of `len` bytes has.
    pub(crate) fn blocks(self, len: u64) -> u64 {
        len.div_ceil(self.block as u64)
    }

    /// Plaintext bytes of block `number` in a file of `len` bytes.
    pub(crate) fn block_len(self, number: u64, len: u64) -> usize {
        let start = number * self.block as u64;
        (len.saturating_sub(start)).min(self.block as u64) as usize
    }

    /// Bytes of the ciphertext file of a file of `len` bytes.
    pub(crate) fn stored_len(self, len: u64) -> u64 {
        let (whole, tail) = (len / self.block as u64, len % self.block as u64);
        let tail = if tail == 0 { 0 } else { tail + OVERHEAD as u64 };
        self.slot_start(whole) + tail
    }

    /// The length of the file whose ciphertext file has `stored` bytes; for lengths that do not
    /// occur, that of the longest file that fits.
    pub(crate) fn plain_len(self, stored: u64) -> u64 {
        let slots = stored.saturating_sub(SLOTS_START);
        let (whole, tail) = (slots / self.slot() as u64, slots % self.slot() as u64);
        whole * self.block as u64 + tail.saturating_sub(OVERHEAD as u64)
    }

    /// Bytes of `count` neighbouring slots, the last of which holds `last` bytes of plaintext.
    pub(crate) fn run_len(self, count: usize, last: usize) -> usize {
        match count {
            0 => 0,
            _ => (count - 1) * self.slot() + last + OVERHEAD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_back() {
        for block in [4096, 65536] {
            let layout = Layout::new(block);
            let b = block as u64;
            for len in [0, 1, 27, b - 1, b, b + 1, 2 * b, 10 * b + 5, MAX_LEN] {
                assert_eq!(layout.plain_len(layout.stored_len(len)), len);
            }
            assert_eq!(layout.plain_len(0), 0);
            assert_eq!(layout.plain_len(SLOTS_START + 28), 0);
            assert!(layout.stored_len(MAX_LEN) < 1 << 63);
            assert_eq!(layout.block_len(1, b + 5), 5);
            assert_eq!(layout.block_len(2, b + 5), 0);
            assert_eq!(layout.run_len(2, 5), block + 5 + 2 * OVERHEAD);
        }
    }
}
