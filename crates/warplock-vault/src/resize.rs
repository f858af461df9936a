//! A file's length, and ranges without data: cutting, growing, holes, room taken in advance.

use std::time::SystemTime;

use rustix::io::Errno;

use crate::blocks;
use crate::content::{Content, Moved, State};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::layout::{MAX_LEN, OVERHEAD, TAG_LEN};
use crate::storage::Storage;
use crate::sum::EMPTY;
use crate::write::Run;

/// Holes are made so many blocks at a time...
const HOLES_AT_ONCE: u64 = 1 << 15;
/// ... until so many blocks are moved, and a commit is due.
const HOLES_DUE: usize = 1 << 16;
/// So many moved blocks may be holes.
pub(crate) const MOVED_HOLES: u64 = HOLES_DUE as u64 + HOLES_AT_ONCE;

impl<S: Storage> Core<S> {
    /// Sets the length: cuts, or grows by a hole. Cutting committed blocks is durable at once.
    pub(crate) fn set_len(&self, content: &Content<S>, len: u64) -> Result<()> {
        let mut guard = content.write_state();
        let state = &mut *guard;
        self.writable(content, state)?;
        if len > MAX_LEN {
            return Err(Errno::FBIG.into());
        }
        if len >= state.now.len {
            return self.grow(content, state, len);
        }
        self.shrink(content, state, len)
    }

    fn shrink(&self, content: &Content<S>, state: &mut State<S>, len: u64) -> Result<()> {
        let (keep, had) = (self.layout.blocks(len), self.layout.blocks(state.now.len));
        let tail = keep.saturating_sub(1);
        let mut sum = EMPTY;
        let mut slot = Vec::new();
        if len > 0 {
            sum = state.now.sum;
            // The tail block shrinks, so its old version goes, too.
            let ragged = !len.is_multiple_of(self.layout.block() as u64);
            let gone = if ragged { tail } else { keep };
            let mut number = gone;
            while number < had {
                let step = (had - number).min(1 << 16);
                let tags = self.tags(content, state, number, step)?;
                content.keys.summer.toggle(&mut sum, number, tags);
                number += step;
            }
            if ragged {
                let mut plain = self
                    .pool
                    .take_secret(self.layout.block_len(tail, state.now.len));
                self.read_blocks(content, state, tail, &mut plain)?;
                let rest = self.layout.block_len(tail, len);
                slot = vec![0; rest + OVERHEAD];
                self.seal(content, tail, &plain[..rest], &mut slot)?;
                let tag: [u8; TAG_LEN] = blocks::tag_of(&slot);
                content.keys.summer.toggle(&mut sum, tail, [tag]);
            }
        }
        if !state.moves().blocks.is_empty() {
            // The commit needs it, and must not fail for want of a descriptor.
            self.open_journal(content, state)?;
        }
        if !slot.is_empty() {
            if tail < self.layout.blocks(state.committed_len) {
                self.write_journal(content, state, tail, &slot)?;
            } else if let Err(error) = self.write_in_place(content, state, tail, &slot) {
                self.give_up(content, state);
                return Err(error);
            }
        }
        state.moves().blocks.split_off(&keep);
        state.gaps.forget();
        state.now.sum = sum;
        state.now.len = len;
        state.now.holes &= len > 0;
        state.dirty = true;
        state.moves().modified = Some(SystemTime::now());
        let result = if len < state.committed_len {
            // Until the shorter length is durable, the blocks behind it must stay.
            self.commit(content, state, true)
        } else {
            state.written += 1;
            let stored = self.layout.stored_len(len);
            self.storage
                .set_len(&content.file, stored)
                .map_err(Error::from)
        };
        match result {
            // It is cut, durably: blocks that find no room on their way to their slots are read
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
            let mut slot = self.pool.take(full + OVERHEAD);
            self.seal(content, tail, &plain, &mut slot)?;
            let len = len.min(had * self.layout.block() as u64);
            let run = Run {
                first: tail,
                slots: &slot,
                len,
            };
            self.put(content, state, &run)?;
        }
        if self.layout.blocks(len) > had {
            state.written += 1;
            self.storage
                .set_len(&content.file, self.layout.stored_len(len))?;
            let end = self.layout.blocks(len);
            state.gaps.add(had, end, state.now.holes);
            state.now.holes = true;
        }
        state.now.len = len;
        state.dirty = true;
        state.moves().modified = Some(SystemTime::now());
        Ok(())
    }

    /// Makes a range of the file zeros, whole blocks of it a hole. The length stays.
    pub(crate) fn zero(&self, content: &Content<S>, offset: u64, len: u64) -> Result<()> {
        let block = self.layout.block() as u64;
        let (mut at, end) = {
            let mut state = content.write_state();
            self.writable(content, &mut state)?;
            (offset, offset.saturating_add(len).min(state.now.len))
        };
        while at < end {
            let number = at / block;
            let edge = {
                let mut guard = content.write_state();
                let state = &mut *guard;
                let ends = |number: u64| ((number + 1) * block).min(state.now.len);
                if at % block == 0 && end >= ends(number) {
                    // Enough blocks at a time to keep the list of moved ones short.
                    let mut until = number + 1;
                    while until - number < HOLES_AT_ONCE
                        && until * block < end
                        && end >= ends(until)
                    {
                        until += 1;
                    }
                    self.make_hole(content, state, number, until)?;
                    at = (until * block).min(end);
                    continue;
                }
                end.min(ends(number))
            };
            let zeros = self.pool.take_secret((edge - at) as usize);
            self.write(content, at, &zeros)?;
            at = edge;
        }
        Ok(())
    }

    fn make_hole(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        first: u64,
        until: u64,
    ) -> Result<()> {
        if state.moves().blocks.len() > HOLES_DUE {
            self.commit(content, state, false)?;
        }
        let tags = self.tags(content, state, first, until - first)?;
        let protected = self.layout.blocks(state.committed_len).clamp(first, until);
        if protected < until {
            let start = self.layout.slot_start(protected);
            let last = self.layout.block_len(until - 1, state.now.len);
            let len = self.layout.run_len((until - protected) as usize, last) as u64;
            state.written += 1;
            if let Err(error) = self.storage.punch(&content.file, start, len) {
                self.give_up(content, state);
                return Err(error.into());
            }
        }
        let holes = (first..protected).map(|number| (number, Moved::Hole));
        state.moves().blocks.extend(holes);
        content.keys.summer.toggle(&mut state.now.sum, first, tags);
        state.gaps.forget();
        state.now.holes = true;
        state.dirty = true;
        state.moves().modified = Some(SystemTime::now());
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
        let start = self.layout.slot_start(offset / self.layout.block() as u64);
        let stored = self.layout.stored_len(end) - start;
        Ok(self.storage.allocate(&content.file, start, stored)?)
    }
}
