//! Writing to a file: blocks go to their slots where nothing durable is in the way, and to the
//! journal otherwise.

use std::ops::Range;
use std::time::SystemTime;

use rustix::io::Errno;

use crate::core::Core;
use crate::error::Result;
use crate::file::content::{Content, Moved, Moves, State};
use crate::format::blocks;
use crate::format::layout::{FANOUT, MAX_LEN};
use crate::format::seals::Seal;
use crate::fs::SetTime;
use crate::store::storage::{Storage, cannot_change};

/// The most bytes in a journal before everything is brought to its place. With more, more of it is
/// replaced before that; but it takes that much space, and as much is read again after a crash.
pub(crate) const JOURNAL_LEN: u64 = 256 << 20;

/// The most pages of seals that moved blocks and unwritten pages may change before a commit:
/// 16 MiB of memory for a file.
const MAX_PAGES: usize = 4096;

/// Sealed blocks on their way to the file.
pub(crate) struct Run<'a> {
    /// The number of the first.
    pub(crate) first: u64,
    /// Their ciphertext; the last may be shorter.
    pub(crate) ciphertext: &'a [u8],
    pub(crate) seals: &'a [Seal],
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
        Ok(())
    }

    /// The error for a write to a file that the store opens for reading only.
    pub(crate) fn why_not_writable(&self) -> Errno {
        // It may have become read-only since.
        match cannot_change(&self.storage) {
            Ok(true) => Errno::ROFS,
            _ => Errno::ACCESS,
        }
    }

    /// Sets the times that the header keeps. The kernel says when anything changed; otherwise it is now.
    pub(crate) fn set_times(
        &self,
        content: &Content<S>,
        modified: Option<SetTime>,
        changed: Option<SystemTime>,
    ) -> Result<()> {
        let mut state = content.write_state();
        self.writable(content, &mut state)?;
        let now = SystemTime::now();
        let written = state.moves().modified.take();
        state.now.modified = match modified {
            Some(SetTime::Now) => now,
            Some(SetTime::To(time)) => time,
            None => written.unwrap_or(state.now.modified),
        };
        state.now.changed = Some(changed.unwrap_or(now));
        state.dirty = true;
        Ok(())
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
        // Whole blocks look the same whatever else the file holds, so that several threads can seal
        // at the same time; only after that do they wait for each other.
        let block = self.layout.block() as u64;
        let whole = !data.is_empty()
            && offset.is_multiple_of(block)
            && (data.len() as u64).is_multiple_of(block);
        let mut sealed = None;
        if whole && content.writable && !self.read_only && offset <= MAX_LEN {
            let mut ciphertext = self.pool.take(data.len());
            let seals = self.seal(content, offset / block, data, &mut ciphertext)?;
            match self.overwrite(content, offset / block, &ciphertext, &seals) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if matches!(error.errno(), Errno::NOSPC | Errno::DQUOT) => {
                    // Without the journal there may be room.
                    let mut state = content.write_state();
                    self.commit(content, &mut state, false).map_err(|_| error)?;
                }
                Err(error) => return Err(error),
            }
            sealed = Some((ciphertext, seals));
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
        self.make_room(content, state)?;
        let first = offset / block;
        if first * block > state.now.len {
            self.grow(content, state, first * block)?;
        }
        if let Some((ciphertext, seals)) = sealed {
            let run = Run {
                first,
                ciphertext: &ciphertext,
                seals: &seals,
                len: end.max(state.now.len),
            };
            return self.put(content, state, &run);
        }
        let len = end.max(state.now.len);
        let last = (end - 1) / block;
        let bytes = (last - first) as usize * block as usize + self.layout.block_len(last, len);
        let mut ciphertext = self.pool.take(bytes);
        let mut seals = Vec::new();

        // The first and the last block may keep some of what they held.
        let mut number = first;
        let mut taken = 0;
        while number <= last {
            let here = self.layout.block_len(number, len);
            let inside = (offset.max(number * block) - number * block) as usize;
            let rest = data.len() - taken;
            let start = (number - first) as usize * block as usize;
            if inside == 0 && rest >= here {
                // As many whole blocks as there are.
                let whole = if rest as u64 + number * block >= len {
                    rest
                } else {
                    rest / block as usize * block as usize
                };
                let out = &mut ciphertext[start..][..whole];
                seals.extend(self.seal(content, number, &data[taken..taken + whole], out)?);
                taken += whole;
                number += whole.div_ceil(block as usize) as u64;
                continue;
            }
            let mut plain = self.pool.take_secret(here);
            let old = self.layout.block_len(number, state.now.len);
            if old > 0 {
                self.read_blocks(content, state, number, &mut plain[..old])?;
            }
            let take = rest.min(here - inside);
            plain[inside..inside + take].copy_from_slice(&data[taken..taken + take]);
            let out = &mut ciphertext[start..][..here];
            seals.extend(self.seal(content, number, &plain, out)?);
            taken += take;
            number += 1;
        }
        let run = Run {
            first,
            ciphertext: &ciphertext,
            seals: &seals,
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
    ) -> Result<Vec<Seal>> {
        let (engines, key) = (&self.keys.engines, &content.keys.content);
        blocks::seal(engines, key, self.layout, first, plain, out)
    }

    /// Commits if the journal or the changed pages take as much room as they may, or if pages
    /// cannot be made before that.
    pub(crate) fn make_room(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        if !state.cleared.is_empty() {
            return self.commit(content, state, true);
        }
        if self.is_full(state.moves()) || state.tree().dirty() > MAX_PAGES {
            return self.commit(content, state, false);
        }
        Ok(())
    }

    /// Brings sealed blocks into the file step by step: committed ones to the journal, holes and others
    /// to their places, then new ones. The file is whole after each step. The last block of `run` ends a
    /// block or the file.
    pub(crate) fn put(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        run: &Run<'_>,
    ) -> Result<()> {
        let end = run.first + run.seals.len() as u64;
        let committed = self
            .layout
            .blocks(state.committed_len)
            .clamp(run.first, end);
        let existing = self.layout.blocks(state.now.len).clamp(committed, end);
        let mut first = run.first;
        while first < end {
            let (until, hole) = if first < committed {
                (committed, false)
            } else if first < existing {
                let old = self.seals(content, state.tree(), first, existing - first)?;
                let alike = old.iter().take_while(|it| it.is_none() == old[0].is_none());
                (first + alike.count() as u64, old[0].is_none())
            } else {
                (end, true)
            };
            let (from, to) = ((first - run.first) as usize, (until - run.first) as usize);
            let bytes = |block: usize| (block * self.layout.block()).min(run.ciphertext.len());
            let ciphertext = &run.ciphertext[bytes(from)..bytes(to)];
            let seals = &run.seals[from..to];
            if first < committed {
                self.write_journal(content, state, first, ciphertext, seals)?;
            } else {
                let written = self
                    .reserve_pages(content, state, first..until)
                    .and_then(|()| self.write_in_place(content, state, first, ciphertext));
                if let Err(error) = written {
                    // What stands in holes and after the end is nothing, and only takes room; of other
                    // blocks, the old version may be gone.
                    if !hole || self.empty(content, state, first..until).is_err() {
                        self.give_up(content, state);
                    }
                    return Err(error);
                }
                let blocks = self.layout.blocks(state.now.len.max(run.len));
                self.set_seals(content, state.tree(), first, seals, blocks)
                    .inspect_err(|_| self.give_up(content, state))?;
            }
            let reached = run
                .len
                .min(until.saturating_mul(self.layout.block() as u64));
            state.now.len = state.now.len.max(reached);
            state.moves().modified = Some(SystemTime::now());
            state.dirty = true;
            first = until;
        }
        Ok(())
    }

    /// Gives back the room of holes that hold a part of what was to be written.
    fn empty(&self, content: &Content<S>, state: &State<S>, blocks: Range<u64>) -> Result<()> {
        let len = state.now.len;
        let existing = blocks.start..blocks.end.min(self.layout.blocks(len));
        for range in self.layout.without_pages(&existing, len) {
            let bytes = range.end - range.start;
            self.storage.punch(&content.file, range.start, bytes)?;
        }
        let stored = self.layout.stored_len(len);
        Ok(self.storage.set_len(&content.file, stored)?)
    }

    pub(crate) fn write_in_place(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        first: u64,
        ciphertext: &[u8],
    ) -> Result<()> {
        let block = self.layout.block();
        state.written += 1;
        let end = first + ciphertext.len().div_ceil(block) as u64;
        let mut number = first;
        while number < end {
            let until = self.layout.adjoining(number, end);
            let at = |number: u64| ((number - first) as usize * block).min(ciphertext.len());
            let part = &ciphertext[at(number)..at(until)];
            let start = self.layout.block_start(number);
            self.storage.write_at(&content.file, part, start)?;
            number = until;
        }
        Ok(())
    }

    /// Writes new versions of committed blocks to places in the journal that nothing refers to.
    pub(crate) fn write_journal(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        first: u64,
        ciphertext: &[u8],
        seals: &[Seal],
    ) -> Result<()> {
        self.open_journal(content, state)?;
        let index = state.moves().end;
        let journal = state.journal.file.as_ref().ok_or(Errno::IO)?;
        let offset = index * self.layout.block() as u64;
        self.storage.write_at(journal, ciphertext, offset)?;
        let moves = state.moves();
        moves.end += seals.len() as u64;
        moves.add(first, index, seals);
        Ok(())
    }

    /// Whether the journal holds as much as it may.
    fn is_full(&self, moves: &Moves) -> bool {
        moves.end * self.layout.block() as u64 > JOURNAL_LEN || moves.pages.len() > MAX_PAGES
    }

    /// Writes whole blocks that are all committed, which changes nothing but where they are;
    /// several threads may do so at the same time. False if this is not such a case.
    fn overwrite(
        &self,
        content: &Content<S>,
        first: u64,
        ciphertext: &[u8],
        seals: &[Seal],
    ) -> Result<bool> {
        let state = content.read_state();
        let count = seals.len() as u64;
        let end = (first + count) * self.layout.block() as u64;
        let Some(journal) = &state.journal.file else {
            return Ok(false);
        };
        let committed = end <= state.committed_len.min(state.now.len);
        if state.broken || state.pending.is_some() || !committed || !state.cleared.is_empty() {
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
        let offset = index * self.layout.block() as u64;
        self.storage.write_at(journal, ciphertext, offset)?;
        let mut moves = state.lock_moves();
        moves.add(first, index, seals);
        moves.modified = Some(SystemTime::now());
        Ok(true)
    }
}

impl Moves {
    /// Blocks from `first` on stand in the journal from `index` on.
    fn add(&mut self, first: u64, index: u64, seals: &[Seal]) {
        for (at, seal) in (0..).zip(seals) {
            let moved = Moved {
                index: index + at,
                seal: *seal,
            };
            self.blocks.insert(first + at, moved);
        }
        let last = first + seals.len() as u64 - 1;
        self.pages.extend(first / FANOUT..=last / FANOUT);
    }
}
