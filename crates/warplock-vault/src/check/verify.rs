//! Reading all of a file.

use crate::core::Core;
use crate::error::Result;
use crate::file::content::Content;
use crate::format::pages::Look;
use crate::store::storage::Storage;

impl<S: Storage> Core<S> {
    /// Reads all of a file; gives the bytes that were read.
    pub(super) fn verify(&self, content: &Content<S>) -> Result<u64> {
        let state = content.read_state();
        let (len, layout) = (state.now.len, self.layout);
        let step = ((1 << 20) / layout.block() as u64).max(1);
        let mut plain = self.pool.take_secret(step as usize * layout.block());
        let blocks = layout.blocks(len);
        let mut number = 0;
        let mut bytes = 0;
        while number < blocks {
            let moved = {
                let moves = state.lock_moves();
                moves.blocks.range(number..).next().map(|(at, _)| *at)
            };
            let next = {
                let mut tree = state.lock_tree();
                self.next_seal(content, &mut tree, number, blocks, Look::Block)?
            };
            // Holes are proven by what leads to them.
            let Some(next) = moved.into_iter().chain(next).min() else {
                break;
            };
            number = next;
            let end = blocks.min(number + step);
            let last = layout.block_len(end - 1, len);
            let run = (end - 1 - number) as usize * layout.block() + last;
            self.read_blocks(content, &state, number, &mut plain[..run])?;
            bytes += run as u64;
            number = end;
        }
        Ok(bytes)
    }
}
