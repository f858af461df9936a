//! From one committed state to the next, so that a crash leaves one of them.
//!
//! Without moved blocks: blocks durable, then the header that covers them. With moved blocks: a
//! record in the journal (the header, which block is where, and changed pages) makes the new state
//! durable; then blocks and pages are copied to their places and the header is written; then the
//! journal is emptied.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use crate::core::{Core, journal_name, lock};
use crate::error::{Error, Result};
use crate::file::content::{Content, Journal, Pending, State};
use crate::format::header::Header;
use crate::format::layout::{HEADER_LEN, PAGE_LEN};
use crate::fs::{Changes, SetTime};
use crate::store::storage::{At, Storage};

/// How much of a journal is read at a time when blocks go to their places.
const COPY_LEN: usize = 256 << 10;

impl<S: Storage> Core<S> {
    /// Brings the file to its next committed state, if it is not there; with `durable`, all of it
    /// is durable afterwards, and its name as well.
    pub(crate) fn commit(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        durable: bool,
    ) -> Result<()> {
        self.commit_to_journal(content, state)?;
        self.apply(content, state)?;
        if durable {
            self.sync(content, state)?;
            self.sync_name(state)?;
        }
        Ok(())
    }

    /// Writes the second header of a young file once more, over the first.
    pub(crate) fn bury_first(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        if state.is_young() && !state.dead {
            state.dirty = true;
            // As any commit, it makes the second header durable before.
            self.commit(content, state, false)?;
        }
        Ok(())
    }

    /// Makes the file durable as it is now, and its name as well. Moved blocks may stay in the
    /// journal until the next write to the file, or the next tick.
    pub(crate) fn make_durable(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        self.commit_to_journal(content, state)?;
        if state.pending.is_none() {
            self.sync(content, state)?;
        }
        self.sync_name(state)?;
        self.memory.synced(&content.id);
        Ok(())
    }

    fn sync_name(&self, state: &mut State<S>) -> Result<()> {
        if let Some(folder) = state.entry.take()
            && let Err(error) = self.storage.sync_dir(&folder)
        {
            state.entry = Some(folder);
            return Err(error.into());
        }
        Ok(())
    }

    /// The first half of a commit: with moved blocks, the new state is durable in the journal
    /// afterwards, and pending; else it is in the file.
    fn commit_to_journal(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        self.writable(content, state)?;
        self.forget_left_places(state)?;
        let in_place = state.moves().blocks.is_empty();
        if state.dirty || !in_place {
            if let Some(modified) = state.moves().modified.take() {
                state.now.modified = modified;
                state.now.changed = Some(modified);
            }
            let mut header = state.now.clone();
            header.sequence += 1;
            header.version = self.memory.successor(&content.id, &header.version)?;
            if in_place {
                self.commit_in_place(content, state, header)?;
            } else {
                self.write_record(content, state, header)?;
            }
        }
        Ok(())
    }

    /// Takes places that the file was taken from out of the header-to-be, once a crash cannot bring
    /// the file back there.
    fn forget_left_places(&self, state: &mut State<S>) -> Result<()> {
        while let Some((place, folders)) = state.left.last() {
            for folder in folders {
                self.storage.sync_dir(folder)?;
            }
            state.now.retain_places(|other| other != place);
            state.dirty = true;
            state.left.pop();
        }
        Ok(())
    }

    pub(crate) fn sync(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        if state.written != state.synced {
            if let Err(error) = self.storage.sync(&content.file, false) {
                return Err(self.not_synced(content, state, error));
            }
            state.synced = state.written;
        }
        Ok(())
    }

    /// What could not be synced may be lost although reading shows it, and syncing again may not
    /// say so.
    pub(crate) fn not_synced(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        error: std::io::Error,
    ) -> Error {
        self.give_up(content, state);
        error.into()
    }

    /// The content on the disk and the state differ: they are no longer used, and the next use of
    /// the file finds its last committed state, which a journal may hold, as after a crash.
    pub(crate) fn give_up(&self, content: &Content<S>, state: &mut State<S>) {
        state.broken = true;
        self.memory.given_up(&content.id);
        lock(&self.left_over).insert(content.id);
        self.unclean.store(true, Ordering::Relaxed);
    }

    fn commit_in_place(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        mut header: Header,
    ) -> Result<()> {
        if state.tree().dirty() > 0 && state.synced < state.header_written {
            // Pages are written over those of the header before the newest one.
            self.sync(content, state)?;
        }
        let mut written = 0;
        let tree = state.tree();
        let sealed = self.seal_pages(content, tree, |page| {
            written += 1;
            let start = self.layout.page_start(page.id.0, page.id.1, page.slot);
            Ok(self
                .storage
                .write_at(&content.file, page.ciphertext, start)?)
        });
        header.roots = tree.roots;
        state.written += written;
        sealed?;
        let stored = self.layout.stored_len(header.len);
        if !state.cleared.is_empty()
            && self.storage.attributes(At::File(&content.file))?.size < stored
        {
            // A hole at the end was to be written to the journal before it was one.
            state.written += 1;
            self.storage.set_len(&content.file, stored)?;
        }
        // Blocks and pages, and the header that stays valid if writing this one is cut short.
        self.sync(content, state)?;
        let shrinks = header.len < state.committed_len;
        self.write_header(content, state, header)?;
        if shrinks || !state.cleared.is_empty() {
            self.sync(content, state)?;
            self.fit_length(content, state)?;
            self.punch_cleared(content, state)?;
        }
        Ok(())
    }

    /// Copies moved blocks and pages to their places. May be done any number of times.
    pub(crate) fn apply(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        let Some(pending) = state.pending.take() else {
            return Ok(());
        };
        let applied = self.apply_pending(content, state, &pending);
        if let Err(error) = applied {
            state.pending = Some(pending);
            return Err(error);
        }
        let moves = state.moves();
        moves.blocks.clear();
        moves.pages.clear();
        moves.end = 0;
        if let Some(journal) = &state.journal.file {
            self.storage.set_len(journal, 0)?;
        }
        self.punch_cleared(content, state)
    }

    fn apply_pending(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        pending: &Pending,
    ) -> Result<()> {
        state.written += 1;
        self.copy_blocks(content, state, pending.header.len)?;
        self.copy_pages(content, state, pending)?;
        self.write_header(content, state, pending.header.clone())?;
        self.fit_length(content, state)?;
        self.sync(content, state)
    }

    /// Copies moved blocks of a file of `len` bytes from the journal to their places: in the order
    /// of the journal, which is read in long runs.
    fn copy_blocks(&self, content: &Content<S>, state: &mut State<S>, len: u64) -> Result<()> {
        let moved = &state.moves().blocks;
        let mut copies: Vec<_> = moved.iter().map(|(at, it)| (it.index, *at)).collect();
        if copies.is_empty() {
            return Ok(());
        }
        let journal = state.journal.file.as_ref().ok_or(rustix::io::Errno::IO)?;
        copies.sort_unstable();
        let block = self.layout.block();
        let mut run = self.pool.take((COPY_LEN / block).max(1) * block);
        let mut copies = &copies[..];
        while let Some(&(first, _)) = copies.first() {
            // What the journal holds in between is older: read, but not copied.
            let most = (run.len() / block) as u64;
            let count = copies.partition_point(|(index, _)| *index < first + most);
            let (now, later) = copies.split_at(count);
            let blocks = (now[count - 1].0 - first) as usize + 1;
            let run = &mut run[..blocks * block];
            let read = self.storage.read_at(journal, run, first * block as u64)?;
            run[read..].fill(0);
            let adjoin = |number: u64| self.layout.adjoining(number, u64::MAX) != number + 1;
            for group in now.chunk_by(|a, b| b.0 == a.0 + 1 && b.1 == a.1 + 1 && adjoin(a.1)) {
                let (index, number) = group[0];
                let last = self.layout.block_len(group[group.len() - 1].1, len);
                let from = (index - first) as usize * block;
                let bytes = &run[from..][..(group.len() - 1) * block + last];
                let start = self.layout.block_start(number);
                self.storage.write_at(&content.file, bytes, start)?;
            }
            copies = later;
        }
        Ok(())
    }

    fn copy_pages(&self, content: &Content<S>, state: &State<S>, pending: &Pending) -> Result<()> {
        let mut bytes = [0; PAGE_LEN];
        let mut at = pending.pages_start;
        for ((level, index), slot) in &pending.pages {
            let journal = state.journal.file.as_ref().ok_or(rustix::io::Errno::IO)?;
            self.storage.read_at(journal, &mut bytes, at)?;
            let start = self.layout.page_start(*level, *index, *slot);
            self.storage.write_at(&content.file, &bytes, start)?;
            at += PAGE_LEN as u64;
        }
        Ok(())
    }

    /// Writes the next header over the one before the newest, or the newest again, if an earlier
    /// attempt came to its end.
    fn write_header(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        header: Header,
    ) -> Result<()> {
        let sealed = header.seal(&self.keys.engines, &content.keys.header, &content.id)?;
        // Odd numbers stand in the first place, even ones in the second.
        let place = 1 - header.sequence % 2;
        state.written += 1;
        state.header_written = state.written;
        self.storage
            .write_at(&content.file, &sealed, place * HEADER_LEN as u64)?;
        self.note(&content.id, state.now.version.stamp, &header)?;
        state.tree().committed();
        // Written again, it leaves the other one as it is.
        state.damaged &= header.sequence == state.now.sequence;
        state.committed_len = header.len;
        state.now.sequence = header.sequence;
        state.now.version = header.version.clone();
        state.now.roots = header.roots;
        // What was pending may not be all that changed.
        state.dirty = state.now != header;
        Ok(())
    }

    /// Makes the ciphertext file as long as its header says.
    fn fit_length(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        let stored = self.layout.stored_len(state.now.len);
        if self.storage.attributes(At::File(&content.file))?.size != stored {
            state.written += 1;
            self.storage.set_len(&content.file, stored)?;
        }
        Ok(())
    }

    /// Gives the file in the store a time that nothing has shown yet, if its bytes have changed.
    pub(crate) fn move_time(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        second: SystemTime,
    ) -> Result<()> {
        if state.timed == state.written {
            return Ok(());
        }
        let changes = Changes {
            modified: Some(SetTime::To(second)),
            ..Changes::default()
        };
        match self.storage.change(At::File(&content.file), &changes) {
            // A user who may write to another user's file may not set its times.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            changed => changed?,
        }
        state.timed = state.written;
        Ok(())
    }

    /// Opens the file's journal, if it is not open.
    pub(crate) fn open_journal(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        if state.journal.file.is_none() {
            let (folder, name) = (self.journals()?, journal_name(&content.id));
            // What an earlier session left was dealt with when the file was opened.
            if let Err(error) = self.storage.unlink(folder, &name)
                && !crate::core::is_missing(&error)
            {
                return Err(error.into());
            }
            state.journal = Journal::none();
            state.journal.file = Some(self.storage.create(folder, &name, 0o600)?);
        }
        Ok(())
    }

    /// Removes the journal of a file that needs none now.
    pub(crate) fn drop_journal(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        let needed = !state.moves().blocks.is_empty() || state.pending.is_some();
        if state.journal.file.is_some() && !needed {
            state.journal = Journal::none();
            self.storage
                .unlink(self.journals()?, &journal_name(&content.id))?;
        }
        Ok(())
    }

    /// Forgets what a file without names or users was to become.
    pub(crate) fn abandon(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        state.moves().blocks.clear();
        state.pending = None;
        self.drop_journal(content, state)
    }
}
