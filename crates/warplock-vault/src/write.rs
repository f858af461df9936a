//! Writing to a file: blocks go to their slots where nothing durable is in the way, and to the
//! journal otherwise.

use std::time::SystemTime;

use rustix::io::Errno;

use crate::blocks;
use crate::content::{Content, Moved, Moves, State};
use crate::core::Core;
use crate::error::Result;
use crate::layout::{MAX_LEN, OVERHEAD, TAG_LEN};
use crate::storage::{Storage, cannot_change};
use crate::sum::EMPTY;

/// How much a journal may hold before everything is brought to its place. The more, the more of it
/// is replaced before that; so much room it takes, and so much is read again after a crash.
pub(crate) const JOURNAL_LEN: u64 = 256 << 20;

/// Sealed blocks on their way to the file.
pub(crate) struct Run<'a> {
    /// The number of the first.
    pub(crate) first: u64,
    /// Their slots; the last may be shorter.
    pub(crate) slots: &'a [u8],
    /// The length of the file once all of them are written.
    pub(crate) len: u64,
}

impl<S: Storage> Core<S> {
    /// Refuses to write where that would make things worse.
    pub(crate) fn writable(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        if self.read_only {
            return Err(Errno::ROFS.into());
        }
        if !content.writable {
            return Err(self.why_not_writable().into());
        }
        if state.broken {
            return Err(Errno::IO.into());
        }
        if state.pending.is_some() {
            self.apply(content, state)?;
        }
        state.gather();
        Ok(())
    }

    /// What to tell who wants to write to a file that the store opens for reading only.
    pub(crate) fn why_not_writable(&self) -> Errno {
        // It may have become read-only since.
        match cannot_change(&self.storage) {
            Ok(true) => Errno::ROFS,
            _ => Errno::ACCESS,
        }
    }

    /// Writes all of `data` at `offset`.
    pub(crate) fn write(&self, content: &Content<S>, offset: u64, data: &[u8]) -> Result<()> {
        // A journal that is almost full takes one write more.
        if data.len() as u64 > JOURNAL_LEN {
            let mut at = offset;
            for part in data.chunks(JOURNAL_LEN as usize) {
                self.write(content, at, part)?;
                at = at.checked_add(part.len() as u64).ok_or(Errno::FBIG)?;
            }
            return Ok(());
        }
        // Whole blocks look the same whatever else the file holds, so that several threads can
        // seal at once; only then they wait for each other.
        let block = self.layout.block() as u64;
        let whole = !data.is_empty()
            && offset.is_multiple_of(block)
            && (data.len() as u64).is_multiple_of(block);
        let mut sealed = None;
        if whole && content.writable && !self.read_only && offset <= MAX_LEN {
            let count = data.len() / self.layout.block();
            let mut slots = self.pool.take(count * self.layout.slot());
            self.seal(content, offset / block, data, &mut slots)?;
            match self.overwrite(content, offset / block, &slots) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if matches!(error.errno(), Errno::NOSPC | Errno::DQUOT) => {
                    // Without the journal there may be room.
                    let mut state = content.write_state();
                    self.commit(content, &mut state, false).map_err(|_| error)?;
                }
                Err(error) => return Err(error),
            }
            sealed = Some(slots);
        }
        let mut guard = content.write_state();
        let state = &mut *guard;
        self.writable(content, state)?;
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= MAX_LEN)
            .ok_or(Errno::FBIG)?;
        if data.is_empty() {
            return Ok(());
        }
        if self.is_full(state.moves()) {
            self.commit(content, state, false)?;
        }
        let first = offset / block;
        if first * block > state.now.len {
            self.grow(content, state, first * block)?;
        }
        if let Some(slots) = sealed {
            let run = Run {
                first,
                slots: &slots,
                len: end.max(state.now.len),
            };
            return self.put(content, state, &run);
        }
        let count = ((end - 1) / block - first + 1) as usize;
        let len = end.max(state.now.len);
        let last = first + count as u64 - 1;
        let last_len = self.layout.block_len(last, len);
        let mut slots = self.pool.take(self.layout.run_len(count, last_len));

        // The first and the last block may keep some of what they held.
        let mut number = first;
        let mut taken = 0;
        while number <= last {
            let here = self.layout.block_len(number, len);
            let inside = (offset.max(number * block) - number * block) as usize;
            let rest = data.len() - taken;
            let slot = (number - first) as usize * self.layout.slot();
            if inside == 0 && rest >= here {
                // As many whole blocks as there are.
                let whole = if rest as u64 + number * block >= len {
                    rest
                } else {
                    rest / block as usize * block as usize
                };
                let blocks = whole.div_ceil(block as usize);
                let out = &mut slots[slot..][..whole + blocks * OVERHEAD];
                self.seal(content, number, &data[taken..taken + whole], out)?;
                taken += whole;
                number += blocks as u64;
                continue;
            }
            let mut plain = self.pool.take_secret(here);
            let old = self.layout.block_len(number, state.now.len);
            if old > 0 {
                self.read_blocks(content, state, number, &mut plain[..old])?;
            }
            let take = rest.min(here - inside);
            plain[inside..inside + take].copy_from_slice(&data[taken..taken + take]);
            let out = &mut slots[slot..][..here + OVERHEAD];
            self.seal(content, number, &plain, out)?;
            taken += take;
            number += 1;
        }
        let run = Run {
            first,
            slots: &slots,
            len,
        };
        self.put(content, state, &run)
    }

    pub(crate) fn seal(
        &self,
        content: &Content<S>,
        first: u64,
        plain: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let engines = &self.keys.engines;
        blocks::seal(
            engines,
            &content.keys.content,
            self.layout,
            first,
            plain,
            out,
        )
    }

    /// Brings sealed blocks into the file step by step: committed blocks, those that only the file
    /// as it is now has (holes and others apart), new ones. The file is whole after each step. The
    /// last block of `run` ends a block or the file.
    pub(crate) fn put(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        run: &Run<'_>,
    ) -> Result<()> {
        let slot = self.layout.slot();
        let end = run.first + blocks::slots(self.layout, run.slots).count() as u64;
        let protected = self.layout.blocks(state.committed_len).min(end);
        let existing = self.layout.blocks(state.now.len).min(end);
        let mut first = run.first;
        while first < end {
            let (hole, until, old) = if first < protected {
                self.replaced(content, state, first, protected)?
            } else if first < existing {
                self.replaced(content, state, first, existing)?
            } else {
                (false, end, Vec::new())
            };
            let from = (first - run.first) as usize * slot;
            let to = run.slots.len().min((until - run.first) as usize * slot);
            let slots = &run.slots[from..to];
            let written = if first < protected {
                self.write_journal(content, state, first, slots)
            } else if first < existing {
                let written = self.write_in_place(content, state, first, slots);
                // The old version of a block that was never committed may be gone now; a hole,
                // which a mount's threads fill when the disk runs full, can be made again.
                let lost = written.is_err() && !(hole && self.empty(content, state, first, slots));
                if lost {
                    self.give_up(content, state);
                }
                written
            } else {
                self.append(content, state, first, slots)
            };
            written?;
            let sum = &mut state.now.sum;
            content.keys.summer.toggle(sum, first, old);
            let new = blocks::slots(self.layout, slots).map(blocks::tag_of);
            content.keys.summer.toggle(sum, first, new);
            let reached = run
                .len
                .min(until.saturating_mul(self.layout.block() as u64));
            state.now.len = state.now.len.max(reached);
            state.dirty = true;
            if state.gaps.fill(first, until) {
                state.now.holes = false;
            }
            first = until;
        }
        Ok(())
    }

    /// What a write to blocks from `first` on replaces, before `end`: whether they are holes, up to
    /// where that holds for all of them, and their tags if they have some.
    fn replaced(
        &self,
        content: &Content<S>,
        state: &State<S>,
        first: u64,
        end: u64,
    ) -> Result<(bool, u64, Vec<[u8; TAG_LEN]>)> {
        let (gap, end) = state.gaps.alike(first, end);
        if gap {
            return Ok((true, end, Vec::new()));
        }
        let mut old = self.tags(content, state, first, end - first)?;
        let is_hole = |tag: &[u8; TAG_LEN]| *tag == [0; TAG_LEN];
        let hole = is_hole(&old[0]);
        let alike = old.iter().take_while(|tag| is_hole(tag) == hole).count();
        old.truncate(alike);
        Ok((hole, first + alike as u64, old))
    }

    pub(crate) fn write_in_place(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        first: u64,
        slots: &[u8],
    ) -> Result<()> {
        state.written += 1;
        state.moves().modified = None;
        let offset = self.layout.slot_start(first);
        Ok(self.storage.write_at(&content.file, slots, offset)?)
    }

    /// Makes a hole of what was one and may hold a part of `slots` now; false if that fails, too.
    fn empty(&self, content: &Content<S>, state: &State<S>, first: u64, slots: &[u8]) -> bool {
        let (start, len) = (self.layout.slot_start(first), slots.len() as u64);
        let stored = self.layout.stored_len(state.now.len);
        let emptied = self.storage.punch(&content.file, start, len);
        emptied
            .and_then(|()| self.storage.set_len(&content.file, stored))
            .is_ok()
    }

    /// Writes behind the end; if that fails, nothing of it stays.
    fn append(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        first: u64,
        slots: &[u8],
    ) -> Result<()> {
        let result = self.write_in_place(content, state, first, slots);
        if result.is_err() {
            let stored = self.layout.stored_len(state.now.len);
            // What cannot be cut off would show as data once the file grows.
            if self.storage.set_len(&content.file, stored).is_err() {
                self.give_up(content, state);
            }
        }
        result
    }

    /// Writes new versions of committed blocks to slots of the journal that nothing refers to.
    pub(crate) fn write_journal(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        first: u64,
        slots: &[u8],
    ) -> Result<()> {
        self.open_journal(content, state)?;
        let index = state.moves().end;
        let journal = state.journal.file.as_ref().ok_or(Errno::IO)?;
        let offset = index * self.layout.slot() as u64;
        self.storage.write_at(journal, slots, offset)?;
        let moves = state.moves();
        moves.end += blocks::slots(self.layout, slots).count() as u64;
        let moved = self.moved(first, index, slots);
        moves.blocks.extend(moved);
        moves.modified = Some(SystemTime::now());
        Ok(())
    }

    /// Blocks from `first` on, whose `slots` were written to the journal from `index` on.
    fn moved(&self, first: u64, index: u64, slots: &[u8]) -> impl Iterator<Item = (u64, Moved)> {
        let slots = blocks::slots(self.layout, slots);
        (0..).zip(slots).map(move |(i, slot)| {
            let (index, tag) = (index + i, blocks::tag_of(slot));
            (first + i, Moved::Slot { index, tag })
        })
    }

    /// Whether the journal holds as much as it may.
    fn is_full(&self, moves: &Moves) -> bool {
        moves.end * self.layout.slot() as u64 > JOURNAL_LEN
    }

    /// Writes whole blocks that are all committed, which changes nothing but where they are: that
    /// several threads may do at once. False if this is not such a case.
    fn overwrite(&self, content: &Content<S>, first: u64, slots: &[u8]) -> Result<bool> {
        let state = content.read_state();
        let count = blocks::slots(self.layout, slots).count() as u64;
        let end = (first + count) * self.layout.block() as u64;
        let Some(journal) = &state.journal.file else {
            return Ok(false);
        };
        let committed = end <= state.committed_len.min(state.now.len);
        if state.broken || state.pending.is_some() || !committed || !state.gaps.is_empty() {
            return Ok(false);
        }
        let index = {
            let mut moves = state.lock_moves();
            if self.is_full(&moves) {
                return Ok(false);
            }
            moves.end += count;
            moves.end - count
        };
        // As long as they are committed, blocks stay as they are in their own slots.
        let mut old = self.tags(content, &state, first, count)?;
        let offset = index * self.layout.slot() as u64;
        self.storage.write_at(journal, slots, offset)?;
        let mut sum = EMPTY;
        let summer = &content.keys.summer;
        let new = blocks::slots(self.layout, slots).map(blocks::tag_of);
        summer.toggle(&mut sum, first, new);

        let mut moves = state.lock_moves();
        for ((number, moved), old) in self.moved(first, index, slots).zip(&mut old) {
            // Another writer may have been faster.
            if let Some(before) = moves.blocks.insert(number, moved) {
                *old = before.tag();
            }
        }
        summer.toggle(&mut sum, first, old);
        for (byte, change) in moves.sum.iter_mut().zip(sum) {
            *byte ^= change;
        }
        moves.modified = Some(SystemTime::now());
        Ok(true)
    }
}
