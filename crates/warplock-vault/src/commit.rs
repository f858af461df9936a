//! From one committed state to the next, so that a crash leaves one of them.
//!
//! Without moved blocks: blocks durable, then the header that covers them. With moved blocks: a
//! record in the journal (the header, which block is where, and changed pages) makes the new state
//! durable; then blocks and pages are copied to their places and the header is written; then the
//! journal is emptied.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use crate::blocks;
use crate::config::BLOCK_SIZES;
use crate::content::{Content, Journal, Moved, Pending, State};
use crate::core::{Core, journal_name, lock};
use crate::error::{Error, Result};
use crate::fs::{Changes, SetTime};
use crate::header::{Header, PLAIN_LEN};
use crate::layout::{HEADER_LEN, NONCE_LEN, OVERHEAD, PAGE_LEN, TAG_LEN, span};
use crate::seals::{PageId, SealTree};
use crate::storage::{At, Storage};
use crate::write::JOURNAL_LEN;

const AAD: &[u8] = b"warplock-vault/2 journal";
/// What a journal with a record ends in, after the record's length.
const MAGIC: &[u8; 4] = b"WLJ2";
const TRAILER_LEN: usize = 8;
/// A record begins with a header and how many blocks and pages follow.
const FIXED_LEN: usize = PLAIN_LEN + 16;
/// Bytes for a moved block: its number, and how many stand before it in the journal.
const BLOCK_ENTRY: usize = 16;
/// Bytes for a page: its level, its slot, its number.
const PAGE_ENTRY: usize = 10;
/// No record is longer; whoever lengthens one in the store must not make us take more memory.
const MAX_RECORD: u64 = 16 << 20;
/// A journal that is almost full takes one write more; what is left is for writers side by side,
/// and for pages.
const _: () = {
    let blocks = 2 * JOURNAL_LEN / BLOCK_SIZES[0] as u64;
    assert!(4 * blocks * BLOCK_ENTRY as u64 <= MAX_RECORD);
};
/// How much of a journal is read at a time when blocks go to their places.
const COPY_LEN: usize = 256 << 10;

/// A journal's record, read and verified together with the blocks and pages it names.
pub(crate) struct Record {
    pub(crate) pending: Pending,
    moved: BTreeMap<u64, Moved>,
    tree: SealTree,
}

/// A record as it is written, not compared with the rest of its journal.
struct ParsedRecord {
    pending: Pending,
    /// Block numbers, and where they are in the journal.
    moved: Vec<(u64, u64)>,
}

impl ParsedRecord {
    /// `start`: where the record stands in its journal, directly after its pages.
    fn parse(plain: &[u8], start: u64) -> Option<Self> {
        let (fixed, entries) = plain.split_at_checked(FIXED_LEN)?;
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("8 bytes"));
        let header = Header::decode(&fixed[..PLAIN_LEN])?;
        let moved = usize::try_from(number(&fixed[PLAIN_LEN..][..8])).ok()?;
        let pages = usize::try_from(number(&fixed[PLAIN_LEN + 8..])).ok()?;
        let (moved, pages_bytes) = entries.split_at_checked(moved.checked_mul(BLOCK_ENTRY)?)?;
        if pages.checked_mul(PAGE_ENTRY)? != pages_bytes.len() {
            return None;
        }
        let moved = moved.chunks_exact(BLOCK_ENTRY);
        let pages = pages_bytes.chunks_exact(PAGE_ENTRY);
        let pages: Vec<_> = pages
            .map(|entry| ((entry[0], number(&entry[2..])), entry[1]))
            .collect();
        Some(ParsedRecord {
            pending: Pending {
                header,
                pages_start: start.checked_sub(pages.len() as u64 * PAGE_LEN as u64)?,
                pages,
            },
            moved: moved
                .map(|entry| (number(&entry[..8]), number(&entry[8..])))
                .collect(),
        })
    }
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
            if let Some(modified) = state.moves().modified.take() {
                state.now.modified = modified;
            }
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

    fn write_record(
        &self,
        content: &Content<S>,
        state: &mut State<S>,
        mut header: Header,
    ) -> Result<()> {
        self.sync(content, state)?;
        self.open_journal(content, state)?;
        let (pages_start, moved) = {
            let moves = state.moves();
            let blocks: Vec<_> = moves.blocks.iter().map(|(at, it)| (*at, *it)).collect();
            (moves.end * self.layout.block() as u64, blocks)
        };
        let blocks = self.layout.blocks(header.len);
        for run in moved.chunk_by(|a, b| b.0 == a.0 + 1) {
            let seals: Vec<_> = run.iter().map(|(_, moved)| moved.seal).collect();
            self.set_seals(content, state.tree(), run[0].0, &seals, blocks)?;
        }
        let mut pages = Vec::new();
        let journal = state.journal.file.take().ok_or(rustix::io::Errno::IO)?;
        // The record has to be at the very end, also if an earlier attempt failed.
        let result = self.storage.set_len(&journal, pages_start);
        let result = result.map_err(Error::from).and_then(|()| {
            self.seal_pages(content, state.tree(), |page| {
                let at = pages_start + pages.len() as u64 * PAGE_LEN as u64;
                pages.push((page.id, page.slot));
                Ok(self.storage.write_at(&journal, page.ciphertext, at)?)
            })
        });
        header.roots = state.tree().roots;
        let result = result.and_then(|()| {
            let record = self.encode_record(content, &header, &moved, &pages)?;
            let end = pages_start + pages.len() as u64 * PAGE_LEN as u64;
            Ok(self.storage.write_at(&journal, &record, end)?)
        });
        let synced = result.is_ok().then(|| self.storage.sync(&journal, false));
        state.journal.file = Some(journal);
        result?;
        if let Some(Err(error)) = synced {
            return Err(self.not_synced(content, state, error));
        }
        if !state.journal.named {
            self.storage.sync_dir(self.journals()?)?;
            state.journal.named = true;
        }
        state.pending = Some(Pending {
            header,
            pages,
            pages_start,
        });
        Ok(())
    }

    /// The record of a commit, sealed, with what the journal ends in.
    fn encode_record(
        &self,
        content: &Content<S>,
        header: &Header,
        moved: &[(u64, Moved)],
        pages: &[(PageId, u8)],
    ) -> Result<Vec<u8>> {
        // Sealed where it is made: it may take megabytes.
        let entries = moved.len() * BLOCK_ENTRY + pages.len() * PAGE_ENTRY;
        let mut record = Vec::with_capacity(FIXED_LEN + entries + OVERHEAD + TRAILER_LEN);
        record.extend_from_slice(&[0; NONCE_LEN]);
        record.extend_from_slice(&header.encode());
        record.extend_from_slice(&(moved.len() as u64).to_be_bytes());
        record.extend_from_slice(&(pages.len() as u64).to_be_bytes());
        for (number, moved) in moved {
            record.extend_from_slice(&number.to_be_bytes());
            record.extend_from_slice(&moved.index.to_be_bytes());
        }
        for ((level, index), slot) in pages {
            record.extend_from_slice(&[*level, *slot]);
            record.extend_from_slice(&index.to_be_bytes());
        }
        record.extend_from_slice(&[0; TAG_LEN]);
        let (engines, key) = (&self.keys.engines, &content.keys.header);
        engines.seal_in_place(key, AAD, &mut record)?;
        let len = record.len() as u32;
        record.extend_from_slice(&len.to_be_bytes());
        record.extend_from_slice(MAGIC);
        Ok(record)
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
        if let Some(witness) = &self.witness {
            witness.note(&content.id, header.sequence);
        }
        state.tree().committed();
        state.damaged = false;
        state.committed_len = header.len;
        state.now.sequence = header.sequence;
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
            // Whoever may write to a file may not set its times, if it is another's.
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

    /// The record in a journal, if it and all blocks and pages that it names are whole.
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
        let (engines, key) = (&self.keys.engines, &content.keys.header);
        let Some(plain) = engines.open(key, AAD, &sealed)? else {
            return Ok(None);
        };
        let Some(parsed) = ParsedRecord::parse(&plain, start) else {
            return Ok(None);
        };
        match self.verify_record(content, journal, parsed) {
            // What stands in the journal is not what the record says.
            Err(Error::Altered { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Opens all pages and blocks that a record names.
    fn verify_record(
        &self,
        content: &Content<S>,
        journal: &S::File,
        parsed: ParsedRecord,
    ) -> Result<Record> {
        let pending = parsed.pending;
        let header = &pending.header;
        let blocks = self.layout.blocks(header.len);
        let mut tree = self.tree_of(header);
        let wrong = || Error::altered("a journal", "it does not fit its record");
        // From the highest level down, each under the one above.
        for (at, &(id, slot)) in pending.pages.iter().enumerate().rev() {
            let fits = (1..=tree.depth).contains(&id.0) && id.1 < blocks.div_ceil(span(id.0 + 1));
            let seal = fits.then(|| tree.seal_of_page(id).ok()).flatten();
            let seal = seal.filter(|seal| !seal.is_none() && seal.slot() == slot);
            let seal = seal.ok_or_else(wrong)?;
            let mut bytes = [0; PAGE_LEN];
            let start = pending.pages_start + at as u64 * PAGE_LEN as u64;
            self.storage.read_at(journal, &mut bytes, start)?;
            let page = self.open_page(content, id, &seal, &mut bytes)?;
            tree.insert_dirty(id, page);
        }
        let mut moved = BTreeMap::new();
        let mut block = zeroize::Zeroizing::new(vec![0; self.layout.block()]);
        for (number, index) in parsed.moved {
            let len = self.layout.block_len(number, header.len);
            let offset = index.checked_mul(self.layout.block() as u64);
            let offset = offset.filter(|_| len > 0).ok_or_else(wrong)?;
            let seal = self.seals(content, &mut tree, number, 1)?[0];
            let text = &mut block[..len];
            let read = self.storage.read_at(journal, text, offset)?;
            let (engines, key) = (&self.keys.engines, &content.keys.content);
            let seals = std::slice::from_ref(&seal);
            if read < len
                || seal.is_none()
                || blocks::open(engines, key, self.layout, number, seals, text)?.is_some()
            {
                return Err(wrong());
            }
            moved.insert(number, Moved { index, seal });
        }
        Ok(Record {
            pending,
            moved,
            tree,
        })
    }

    /// Deals with a journal that an earlier session left behind for this file: finishes what it
    /// holds, or throws it away. `state` is what the file's header says.
    pub(crate) fn recover(&self, content: &Content<S>, state: &mut State<S>) -> Result<()> {
        let Some(folder) = &self.journals else {
            return Ok(());
        };
        let name = journal_name(&content.id);
        let what = || format!("the journal of {}", content.called()).into();
        let journal = match self.open_own(folder, &name, !self.read_only, what) {
            Err(Error::Errno(rustix::io::Errno::NOENT)) => None,
            other => Some(other?),
        };
        let record = match &journal {
            Some(journal) => self.read_record(content, journal)?,
            None => None,
        };
        if let Some(record) = record
            && record.pending.header.sequence >= state.now.sequence
        {
            if record.pending.header.sequence > state.now.sequence + 1 {
                return Err(Error::altered(
                    content.called(),
                    "its header is older than its journal; restore the file from a backup",
                ));
            }
            state.now = record.pending.header.clone();
            state.moves().blocks = record.moved;
            *state.tree() = record.tree;
            state.journal.file = journal;
            state.journal.named = true;
            state.pending = Some(record.pending);
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
