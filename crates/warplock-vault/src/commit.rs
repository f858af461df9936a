//! From one committed state to the next, so that a crash leaves one of them.
//!
//! Without moved blocks: blocks durable, then the header that covers them. With moved blocks: a
//! record in the journal (the header, and which block is where) makes the new state durable; then
//! the blocks are copied to their slots and the header is written; then the journal is emptied.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::blocks;
use crate::config::BLOCK_SIZES;
use crate::content::{Content, Journal, Moved, State};
use crate::core::{Core, journal_name, lock};
use crate::error::{Error, Result};
use crate::fs::{Changes, SetTime};
use crate::header::{Header, PLAIN_LEN};
use crate::layout::{HEADER_LEN, NONCE_LEN, OVERHEAD, TAG_LEN};
use crate::resize::MOVED_HOLES;
use crate::storage::{At, Storage};
use crate::write::JOURNAL_LEN;

const AAD: &[u8] = b"warplock-vault/1 journal";
/// What a journal with a record ends in, behind the record's length.
const MAGIC: &[u8; 4] = b"WLJ1";
const TRAILER_LEN: usize = 8;
/// Bytes of a record's entry: block, slot in the journal or [`HOLE`], tag.
const ENTRY_LEN: usize = 16 + TAG_LEN;
const HOLE: u64 = u64::MAX;
/// No record is longer; whoever lengthens one in the store must not make us take more memory.
const MAX_RECORD: u64 = 16 << 20;
/// A journal that is almost full takes one write more, and as many holes as are ever moved; what is
/// left is for writers side by side.
const _: () = {
    let blocks = 2 * JOURNAL_LEN / BLOCK_SIZES[0] as u64 + MOVED_HOLES;
    assert!(2 * blocks * ENTRY_LEN as u64 <= MAX_RECORD);
};
/// How much of a journal is read at a time when blocks go to their slots.
const COPY_LEN: usize = 256 << 10;

/// A journal's record, read and verified together with the slots it names.
pub(crate) struct Record {
    pub(crate) header: Header,
    pub(crate) moved: BTreeMap<u64, Moved>,
}

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
    /// journal until somebody writes to the file, or the next tick.
    pub(crate) fn make_durable(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        self.commit_to_journal(content, state)?;
        if state.pending.is_none() {
            self.sync(content, state)?;
        }
        self.sync_name(state)
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
            let mut header = state.now.clone();
            header.sequence += 1;
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
            state.now.places.retain(|other| other != place);
            state.dirty = true;
            state.left.pop();
        }
        Ok(())
    }

    fn sync(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
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
    fn not_synced(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        error: std::io::Error,
    ) -> Error {
        self.give_up(content, state);
        error.into()
    }

    /// The content on the disk and the state have parted: nobody uses them any more, and the file's
    /// next user finds its last committed state, which a journal may hold, as after a crash.
    pub(crate) fn give_up(&self, content: &Content<S>, state: &mut State<S>) {
        state.broken = true;
        lock(&self.left_over).insert(content.id);
        self.unclean.store(true, Ordering::Relaxed);
    }

    fn commit_in_place(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        header: Header,
    ) -> Result<()> {
        // The blocks, and the header that stays valid if writing this one is cut short.
        self.sync(content, state)?;
        let shrinks = header.len < state.committed_len;
        let modified = self.modified(content, state)?;
        self.write_header(content, state, header)?;
        if shrinks {
            self.sync(content, state)?;
            self.fit_length(content, state)?;
        }
        self.keep_modified(content, modified)
    }

    fn write_record(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        header: Header,
    ) -> Result<()> {
        self.sync(content, state)?;
        let moves = state.moves();
        let end = moves.end * self.layout.slot() as u64;
        // Sealed where it is written: it may take megabytes.
        let entries = PLAIN_LEN + 8 + moves.blocks.len() * ENTRY_LEN;
        let mut record = Vec::with_capacity(entries + OVERHEAD + TRAILER_LEN);
        record.extend_from_slice(&[0; NONCE_LEN]);
        record.extend_from_slice(&header.encode());
        record.extend_from_slice(&(moves.blocks.len() as u64).to_be_bytes());
        for (number, moved) in &moves.blocks {
            record.extend_from_slice(&number.to_be_bytes());
            let index = match moved {
                Moved::Hole => HOLE,
                Moved::Slot { index, .. } => *index,
            };
            record.extend_from_slice(&index.to_be_bytes());
            record.extend_from_slice(&moved.tag());
        }
        record.extend_from_slice(&[0; TAG_LEN]);
        let (engines, key) = (&self.keys.engines, &content.keys.header);
        engines.seal_in_place(key, AAD, &mut record)?;
        let len = record.len() as u32;
        record.extend_from_slice(&len.to_be_bytes());
        record.extend_from_slice(MAGIC);

        self.open_journal(content, state)?;
        let journal = state.journal.file.as_ref().ok_or(rustix::io::Errno::IO)?;
        // The record has to be at the very end, also if an earlier attempt failed.
        self.storage.set_len(journal, end)?;
        self.storage.write_at(journal, &record, end)?;
        if let Err(error) = self.storage.sync(journal, false) {
            return Err(self.not_synced(content, state, error));
        }
        if !state.journal.named {
            self.storage.sync_dir(self.journals()?)?;
            state.journal.named = true;
        }
        state.pending = Some(header);
        Ok(())
    }

    /// Copies moved blocks to their slots. May be done any number of times.
    pub(crate) fn apply(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        let Some(header) = state.pending.clone() else {
            return Ok(());
        };
        let modified = self.modified(content, state)?;
        state.written += 1;
        self.copy_back(content, state, header.len)?;
        self.write_header(content, state, header)?;
        self.fit_length(content, state)?;
        self.sync(content, state)?;
        state.pending = None;
        state.moves().blocks.clear();
        state.moves().end = 0;
        if let Some(journal) = &state.journal.file {
            self.storage.set_len(journal, 0)?;
        }
        self.keep_modified(content, modified)
    }

    /// Copies moved blocks of a file of `len` bytes from the journal to their slots: in the order
    /// of the journal, which is read in long runs.
    fn copy_back(&self, content: &Content<S>, state: &mut State<S>, len: u64) -> Result<()> {
        let mut copies = Vec::new();
        for (&number, moved) in &state.moves().blocks {
            match moved {
                Moved::Slot { index, .. } => copies.push((*index, number)),
                Moved::Hole => {
                    let slot = self.layout.block_len(number, len) + OVERHEAD;
                    let start = self.layout.slot_start(number);
                    self.storage.punch(&content.file, start, slot as u64)?;
                }
            }
        }
        let Some(journal) = &state.journal.file else {
            return match copies.is_empty() {
                true => Ok(()),
                false => Err(rustix::io::Errno::IO.into()),
            };
        };
        copies.sort_unstable();
        let slot = self.layout.slot();
        let mut run = self.pool.take((COPY_LEN / slot).max(1) * slot);
        let mut copies = &copies[..];
        while let Some(&(first, _)) = copies.first() {
            // What the journal holds in between is older: read, but not copied.
            let most = (run.len() / slot) as u64;
            let count = copies.partition_point(|(index, _)| *index < first + most);
            let (now, later) = copies.split_at(count);
            let slots = (now[count - 1].0 - first) as usize + 1;
            let run = &mut run[..slots * slot];
            let read = self.storage.read_at(journal, run, first * slot as u64)?;
            run[read..].fill(0);
            for group in now.chunk_by(|a, b| b.0 == a.0 + 1 && b.1 == a.1 + 1) {
                let (index, number) = group[0];
                let last = self.layout.block_len(group[group.len() - 1].1, len);
                let from = (index - first) as usize * slot;
                let slots = &run[from..][..self.layout.run_len(group.len(), last)];
                let start = self.layout.slot_start(number);
                self.storage.write_at(&content.file, slots, start)?;
            }
            copies = later;
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
        self.storage
            .write_at(&content.file, &sealed, place * HEADER_LEN as u64)?;
        if let Some(witness) = &self.witness {
            witness.note(&content.id, header.sequence);
        }
        state.damaged = false;
        state.committed_len = header.len;
        state.now.sequence = header.sequence;
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

    /// The time of the last change that is to outlive the writing of a header.
    fn modified(&self, content: &Content<S>, state: &mut State<S>) -> Result<SetTime> {
        Ok(SetTime::To(match state.moves().modified.take() {
            Some(time) => time,
            None => self.storage.attributes(At::File(&content.file))?.modified,
        }))
    }

    fn keep_modified(&self, content: &Content<S>, modified: SetTime) -> Result<()> {
        let changes = Changes {
            modified: Some(modified),
            ..Changes::default()
        };
        match self.storage.change(At::File(&content.file), &changes) {
            // Whoever may write to a file may not set its times, if it is not his.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
            other => Ok(other?),
        }
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

    /// The record in a journal, if it is whole and all slots it names are.
    pub(crate) fn read_record(
        &self,
        content: &Content<S>,
        journal: &S::File,
    ) -> Result<Option<Record>> {
        let size = self.storage.attributes(At::File(journal))?.size;
        let mut trailer = [0; TRAILER_LEN];
        let Some(end) = size.checked_sub(TRAILER_LEN as u64) else {
            return Ok(None);
        };
        self.storage.read_at(journal, &mut trailer, end)?;
        let (len, magic) = trailer.split_at(4);
        let len = u64::from(u32::from_be_bytes(len.try_into().expect("4 bytes")));
        let fits = magic == MAGIC && len <= MAX_RECORD;
        let Some(start) = end.checked_sub(len).filter(|_| fits) else {
            return Ok(None);
        };
        let mut sealed = vec![0; len as usize];
        self.storage.read_at(journal, &mut sealed, start)?;
        let engines = &self.keys.engines;
        let Some(plain) = engines.open(&content.keys.header, AAD, &sealed)? else {
            return Ok(None);
        };
        let Some((header, entries)) = decode(&plain) else {
            return Ok(None);
        };
        let mut moved = BTreeMap::new();
        let mut slot = vec![0; self.layout.slot()];
        let mut block = zeroize::Zeroizing::new(vec![0; self.layout.block()]);
        for entry in entries {
            let number = u64::from_be_bytes(entry[..8].try_into().expect("8 bytes"));
            let index = u64::from_be_bytes(entry[8..16].try_into().expect("8 bytes"));
            if index == HOLE {
                moved.insert(number, Moved::Hole);
                continue;
            }
            let len = self.layout.block_len(number, header.len);
            let Some(offset) = index
                .checked_mul(self.layout.slot() as u64)
                .filter(|_| len > 0)
            else {
                return Ok(None);
            };
            let slot = &mut slot[..len + OVERHEAD];
            let read = self.storage.read_at(journal, slot, offset)?;
            if read < slot.len() || blocks::tag_of(slot) != entry[16..] {
                return Ok(None);
            }
            let (key, out) = (&content.keys.content, &mut block[..len]);
            if blocks::open(engines, key, self.layout, number, slot, out, false)?.is_err() {
                return Ok(None);
            }
            let tag = blocks::tag_of(slot);
            moved.insert(number, Moved::Slot { index, tag });
        }
        Ok(Some(Record { header, moved }))
    }

    /// Deals with a journal that an earlier session left behind for this file: finishes what it
    /// holds, or throws it away. `state` is what the file's header says.
    pub(crate) fn recover(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        let Some(folder) = &self.journals else {
            return Ok(());
        };
        let name = journal_name(&content.id);
        let journal = match self.storage.open(folder, &name, !self.read_only) {
            Err(error) if crate::core::is_missing(&error) => None,
            other => Some(other?),
        };
        let record = match &journal {
            Some(journal) => self.read_record(content, journal)?,
            None => None,
        };
        if let Some(record) = record
            && record.header.sequence >= state.now.sequence
        {
            if record.header.sequence > state.now.sequence + 1 {
                return Err(Error::altered(
                    content.called(),
                    "its header is older than its journal; restore the file from a backup",
                ));
            }
            state.now = record.header.clone();
            state.moves().blocks = record.moved;
            state.journal.file = journal;
            state.journal.named = true;
            state.pending = Some(record.header);
            if self.read_only || !content.writable {
                return Ok(());
            }
            self.apply(content, state)?;
        }
        if !self.read_only {
            state.journal = Journal::none();
            match self.storage.unlink(folder, &name) {
                Err(error) if !crate::core::is_missing(&error) => return Err(error.into()),
                _ => {}
            }
            lock(&self.left_over).remove(&content.id);
        }
        Ok(())
    }
}

/// The header and the entries in a record's plaintext.
pub(crate) fn decode(plain: &[u8]) -> Option<(Header, &[[u8; ENTRY_LEN]])> {
    let (fixed, entries) = plain.split_at_checked(PLAIN_LEN + 8)?;
    let header = Header::decode(&fixed[..PLAIN_LEN])?;
    Some((header, entries.as_chunks().0))
}
