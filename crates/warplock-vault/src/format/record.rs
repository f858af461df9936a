//! A commit's record in a file's journal: which blocks and pages stand there, and the header that
//! is valid from then on. Writing it makes a commit durable; after a crash it is found here.

use std::collections::BTreeMap;

use crate::core::{Core, journal_name, lock};
use crate::error::{Error, Result};
use crate::file::content::{Content, Journal, Moved, Pending, State};
use crate::file::write::JOURNAL_LEN;
use crate::format::blocks;
use crate::format::config::BLOCK_SIZES;
use crate::format::header::{Header, PLAIN_LEN};
use crate::format::layout::{NONCE_LEN, OVERHEAD, PAGE_LEN, TAG_LEN, span};
use crate::format::seals::{PageId, SealTree};
use crate::store::storage::{At, Storage};

const AAD: &[u8] = b"warplock-vault/2 journal";
/// The end of a journal with a record, after the record's length.
const MAGIC: &[u8; 4] = b"WLJ2";
const TRAILER_LEN: usize = 8;
/// A record begins with a header and how many blocks and pages follow.
const FIXED_LEN: usize = PLAIN_LEN + 16;
/// Bytes for a moved block: its number, and how many stand before it in the journal.
const BLOCK_ENTRY: usize = 16;
/// Bytes for a page: its level, its slot, its number.
const PAGE_ENTRY: usize = 10;
/// No record is longer; one that an attacker lengthened in the store must not take more memory.
const MAX_RECORD: u64 = 16 << 20;
/// A journal that is almost full takes one more write; the rest is for concurrent writers, and for
/// pages.
const _: () = {
    let blocks = 2 * JOURNAL_LEN / BLOCK_SIZES[0] as u64;
    assert!(4 * blocks * BLOCK_ENTRY as u64 <= MAX_RECORD);
};
/// A journal's record, read and verified together with the blocks and pages it names.
pub(crate) struct Record {
    pub(crate) pending: Pending,
    moved: BTreeMap<u64, Moved>,
    tree: SealTree,
}

/// A record as it is written, not compared with the rest of its journal.
pub(crate) struct ParsedRecord {
    pending: Pending,
    /// Block numbers, and where they are in the journal.
    moved: Vec<(u64, u64)>,
}

impl ParsedRecord {
    /// `start`: where the record stands in its journal, directly after its pages.
    pub(crate) fn parse(plain: &[u8], start: u64) -> Option<Self> {
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
    pub(crate) fn write_record(
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
        self.note(&content.id, state.now.version.stamp, &header)?;
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
            // Nothing is written if the memory contradicts it.
            self.expect_state(
                &content.id,
                &record.pending.header,
                &content.called().into(),
            )?;
            state.damaged &= record.pending.header.sequence == state.now.sequence;
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
