//! A file's length, and ranges without data: cutting, growing, holes, room taken in advance.

use std::ops::Range;
use std::time::SystemTime;

use rustix::io::Errno;

use crate::core::Core;
use crate::error::{Error, Result};
use crate::file::content::{Content, State};
use crate::file::write::Run;
use crate::format::layout::{MAX_LEN, PAGE_LEN, depth, span};
use crate::store::storage::Storage;

/// The most ranges of holes between two commits.
const MAX_CLEARED: usize = 4096;

impl<S: Storage> Core<S> {
    /// Sets the length: cuts, or grows by a hole. Cutting committed blocks is durable on return.
    pub(crate) fn set_len(&self, content: &Content<S>, len: u64) -> Result<()> {
        let mut guard = content.write_state();
        let state = &mut *guard;
        self.writable(content, state)?;
        if len > MAX_LEN {
            return Err(Errno::FBIG.into());
        }
        self.make_room(content, state)?;
        if len >= state.now.len {
            return self.grow(content, state, len);
        }
        self.shrink(content, state, len)
    }

    fn shrink(&self, content: &Content<S>, state: &mut State<S>, len: u64) -> Result<()> {
        let keep = self.layout.blocks(len);
        // Before the cut: of the last block, a part stays.
        let tail = match len.is_multiple_of(self.layout.block() as u64) {
            true => None,
            false => {
                let number = keep - 1;
                let had = self.layout.block_len(number, state.now.len);
                let mut plain = self.pool.take_secret(had);
                self.read_blocks(content, state, number, &mut plain)?;
                let mut ciphertext = vec![0; self.layout.block_len(number, len)];
                let plain = &plain[..ciphertext.len()];
                let seals = self.seal(content, number, plain, &mut ciphertext)?;
                Some((number, ciphertext, seals))
            }
        };
        if !state.moves().blocks.is_empty() {
            // The commit needs it, and must not fail for want of a descriptor.
            self.open_journal(content, state)?;
        }
        if let Some((number, ciphertext, seals)) = &tail {
            if *number < self.layout.blocks(state.committed_len) {
                self.write_journal(content, state, *number, ciphertext, seals)?;
            } else {
                let blocks = self.layout.blocks(state.now.len);
                self.write_in_place(content, state, *number, ciphertext)
                    .and_then(|()| self.set_seals(content, state.tree(), *number, seals, blocks))
                    .inspect_err(|_| self.give_up(content, state))?;
            }
        }
        self.cut_seals(content, state.tree(), keep)
            .inspect_err(|_| self.give_up(content, state))?;
        state.moves().blocks.split_off(&keep);
        state.now.len = len;
        state.dirty = true;
        state.moves().modified = Some(SystemTime::now());
        let result = if len < state.committed_len {
            // Until the shorter length is durable, the blocks after it must stay.
            self.commit(content, state, true)
        } else {
            state.written += 1;
            let stored = self.layout.stored_len(len);
            self.storage
                .set_len(&content.file, stored)
                .map_err(Error::from)
        };
        match result {
            // It is cut, durably: blocks that find no room on their way to their places are read
            // from the journal, until the next writer or tick tries again.
            Err(_) if state.pending.is_some() && !state.broken => Ok(()),
            Err(error) => {
                self.give_up(content, state);
                Err(error)
            }
            done => done,
        }
    }

    /// Grows the file by a hole.
    pub(crate) fn grow(&self, content: &Content<S>, state: &mut State<S>, len: u64) -> Result<()> {
        if len == state.now.len {
            return Ok(());
        }
        let had = self.layout.blocks(state.now.len);
        if !state.now.len.is_multiple_of(self.layout.block() as u64) {
            let tail = had - 1;
            let full = self.layout.block_len(tail, len);
            let old = self.layout.block_len(tail, state.now.len);
            let mut plain = self.pool.take_secret(full);
            self.read_blocks(content, state, tail, &mut plain[..old])?;
            let mut ciphertext = self.pool.take(full);
            let seals = self.seal(content, tail, &plain, &mut ciphertext)?;
            let len = len.min(had * self.layout.block() as u64);
            let run = Run {
                first: tail,
                ciphertext: &ciphertext,
                seals: &seals,
                len,
            };
            self.put(content, state, &run)?;
        }
        let blocks = self.layout.blocks(len);
        if blocks > had {
            state.written += 1;
            self.storage
                .set_len(&content.file, self.layout.stored_len(len))?;
            state.tree().deepen(blocks);
        }
        state.now.len = len;
        state.dirty = true;
        state.moves().modified = Some(SystemTime::now());
        Ok(())
    }

    /// Makes a range of the file zeros, whole blocks of it a hole. The length stays.
    pub(crate) fn zero(&self, content: &Content<S>, offset: u64, len: u64) -> Result<()> {
        let block = self.layout.block() as u64;
        let (end, file_end) = {
            let mut state = content.write_state();
            self.writable(content, &mut state)?;
            let file_end = state.now.len;
            (offset.saturating_add(len).min(file_end), file_end)
        };
        // The last block of the file may be shorter.
        let until = match end == file_end {
            true => self.layout.blocks(end),
            false => end / block,
        };
        let whole = offset.div_ceil(block)..until;
        let edges = match whole.is_empty() {
            true => [offset..end, end..end],
            false => [offset..whole.start * block, whole.end * block..end],
        };
        // The hole comes last: what is written after it waits for a commit, and a crash must not
        // leave a part of this.
        for edge in edges.into_iter().filter(|edge| !edge.is_empty()) {
            let zeros = self.pool.take_secret((edge.end - edge.start) as usize);
            self.write(content, edge.start, &zeros)?;
        }
        if whole.is_empty() {
            return Ok(());
        }
        let mut guard = content.write_state();
        let state = &mut *guard;
        self.writable(content, state)?;
        // Another thread may have cut the file.
        let until = whole.end.min(self.layout.blocks(state.now.len));
        if whole.start < until {
            self.make_hole(content, state, whole.start..until)?;
        }
        Ok(())
    }

    fn make_hole(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        blocks: Range<u64>,
    ) -> Result<()> {
        if state.cleared.len() >= MAX_CLEARED {
            self.commit(content, state, true)?;
        }
        self.clear_seals(content, state.tree(), blocks.clone())?;
        let moves = state.moves();
        let mut later = moves.blocks.split_off(&blocks.start);
        moves.blocks.append(&mut later.split_off(&blocks.end));
        moves.modified = Some(SystemTime::now());
        state.cleared.push(blocks);
        state.dirty = true;
        Ok(())
    }

    /// Gives back the room of holes that the newest header, which is durable, tells of.
    pub(crate) fn punch_cleared(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        let blocks = self.layout.blocks(state.now.len);
        for cleared in std::mem::take(&mut state.cleared) {
            let cleared = cleared.start..cleared.end.min(blocks);
            for range in self.layout.without_pages(&cleared, state.now.len) {
                let len = range.end - range.start;
                self.storage.punch(&content.file, range.start, len)?;
            }
        }
        Ok(())
    }

    /// Takes room in the store for a range, so that writing there does not run out of it.
    pub(crate) fn reserve(&self, content: &Content<S>, offset: u64, len: u64) -> Result<()> {
        let mut state = content.write_state();
        self.writable(content, &mut state)?;
        let end = offset
            .checked_add(len)
            .filter(|end| *end <= MAX_LEN)
            .ok_or(Errno::FBIG)?;
        let start = self.layout.block_start(offset / self.layout.block() as u64);
        let stored = self.layout.stored_len(end) - start;
        Ok(self.storage.allocate(&content.file, start, stored)?)
    }

    /// Takes room for the pages that blocks to be written need for the first time, so that on a full
    /// disk writing fails, and not the commit of what was accepted.
    pub(crate) fn reserve_pages(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        blocks: Range<u64>,
    ) -> Result<()> {
        // Before that, the header before the newest may lead to a page.
        let committed = self.layout.stored_len(state.committed_len);
        for start in self.new_pages(content, state, blocks)? {
            if start >= committed {
                state.written += 1;
                self.storage
                    .write_at(&content.file, &[0; PAGE_LEN], start)?;
            }
        }
        Ok(())
    }

    /// Where the pages will be written that `blocks` need and that there are none of yet.
    fn new_pages(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        blocks: Range<u64>,
    ) -> Result<Vec<u64>> {
        let mut new = Vec::new();
        let end = blocks.end.max(self.layout.blocks(state.now.len));
        for level in 1..=depth(end) {
            let pages = blocks.start / span(level + 1)..=(blocks.end - 1) / span(level + 1);
            // A level that is new has the blocks before these on its first page.
            let first = (level > state.tree().depth && *pages.start() > 0).then_some(0);
            for index in first.into_iter().chain(pages) {
                if !self.has_page(content, state.tree(), (level, index))? {
                    new.push(self.layout.page_start(level, index, 0));
                }
            }
        }
        Ok(new)
    }
}
