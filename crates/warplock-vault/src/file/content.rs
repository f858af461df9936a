//! The content of one regular file: its state, and reading.
//!
//! What is on the disk is always a *committed state*: the newest header and the blocks it covers.
//! Blocks that a header covers are not touched in place; their new versions go to the file's
//! journal until [`commit`](crate::file::commit) brings everything to the next committed state.
//! Blocks after them are written in place without delay.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use rustix::io::Errno;

use crate::core::{Core, hex, lock};
use crate::error::{Error, Result};
use crate::format::blocks;
use crate::format::header::{Header, Owner};
use crate::format::keys::{FileKeys, Id};
use crate::format::names::Place;
use crate::format::pages::Look;
use crate::format::seals::{PageId, Seal, SealTree};
use crate::fs::{FileType, Seek};
use crate::store::storage::Storage;

/// A regular file in use. All its users share one.
pub(crate) struct Content<S: Storage> {
    pub(crate) file: S::File,
    pub(crate) id: Id,
    pub(crate) keys: FileKeys,
    /// Whether the store lets us write.
    pub(crate) writable: bool,
    /// Whether it stands in the list of files that need a commit.
    pub(crate) listed: AtomicBool,
    state: RwLock<State<S>>,
}

/// Where the newest version of a block is, if not in its place: in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    /// How many blocks stand before it in the journal.
    pub(crate) index: u64,
    pub(crate) seal: Seal,
}

/// What several writers of committed blocks change side by side, while all else stays: they hold
/// the state for reading, and this for moments.
pub(crate) struct Moves {
    /// Blocks whose newest version is in the journal.
    pub(crate) blocks: BTreeMap<u64, Moved>,
    /// The pages of seals that a commit of them changes, by number.
    pub(crate) pages: HashSet<u64>,
    /// Blocks of the journal that are taken, from its start.
    pub(crate) end: u64,
    /// When the content changed, if the header does not say so yet.
    pub(crate) modified: Option<SystemTime>,
}

/// A commit that the journal holds durably, while its blocks and pages are on their way to their
/// places.
pub(crate) struct Pending {
    pub(crate) header: Header,
    /// Pages, each with its slot; their ciphertexts stand in the journal one after the other...
    pub(crate) pages: Vec<(PageId, u8)>,
    /// ... from here on.
    pub(crate) pages_start: u64,
}

/// What is known about a file in use.
pub(crate) struct State<S: Storage> {
    /// The header of the content as it is now, but for the seals, which the tree has; its number is
    /// that of the newest header written.
    pub(crate) now: Header,
    /// The length in the newest header written: blocks of that length are not touched in place.
    pub(crate) committed_len: u64,
    /// Whether the content is another than that of the newest header written; with moved blocks it
    /// always is.
    pub(crate) dirty: bool,
    /// How often the file was written to, and how many of these writes are durable.
    pub(crate) written: u64,
    pub(crate) synced: u64,
    /// Which of these writes was the newest header.
    pub(crate) header_written: u64,
    /// How many of these writes the file's time in the store tells of.
    pub(crate) timed: u64,
    /// Whether the other one was found damaged.
    pub(crate) damaged: bool,
    pub(crate) journal: Journal<S>,
    moves: Mutex<Moves>,
    /// The seals of all blocks in their places.
    tree: Mutex<SealTree>,
    /// Holes that the next commit makes: their room is given back when it is durable. Until then,
    /// no page is made: the newest header may still need both slots.
    pub(crate) cleared: Vec<Range<u64>>,
    pub(crate) pending: Option<Pending>,
    /// The folder that the file was given a new name in, until that is durable.
    pub(crate) entry: Option<Arc<S::Dir>>,
    /// Places that the file was taken from, and the folders that must be durable before its header
    /// may stop naming them.
    pub(crate) left: Vec<(Place, Vec<Arc<S::Dir>>)>,
    /// Whether the content on the disk and `now` have parted for good.
    pub(crate) broken: bool,
    /// Whether the last name is gone.
    pub(crate) dead: bool,
}

/// The file of new versions of blocks.
pub(crate) struct Journal<S: Storage> {
    pub(crate) file: Option<S::File>,
    /// Whether its name is durable.
    pub(crate) named: bool,
}

impl<S: Storage> Journal<S> {
    pub(crate) fn none() -> Self {
        Journal {
            file: None,
            named: false,
        }
    }
}

impl<S: Storage> State<S> {
    /// The state of a file whose newest header on the disk is `header`, with the tree of its seals.
    pub(crate) fn committed(header: Header, tree: SealTree) -> Self {
        State {
            committed_len: header.len,
            now: header,
            dirty: false,
            written: 1,
            synced: 0,
            header_written: 1,
            timed: 1,
            damaged: false,
            journal: Journal::none(),
            moves: Mutex::new(Moves {
                blocks: BTreeMap::new(),
                pages: HashSet::new(),
                end: 0,
                modified: None,
            }),
            tree: Mutex::new(tree),
            cleared: Vec::new(),
            pending: None,
            entry: None,
            left: Vec::new(),
            broken: false,
            dead: false,
        }
    }

    /// Whether the file's first header, of an empty file, is still there: without the second one
    /// it would look as if it had just been made.
    pub(crate) fn is_young(&self) -> bool {
        self.now.sequence == 2 && !self.broken
    }

    /// Has the next header say this of the owner.
    pub(crate) fn set_owner(&mut self, owner: Owner) {
        self.dirty |= self.now.owner != owner;
        self.now.owner = owner;
        self.now.changed = Some(SystemTime::now());
    }

    /// Moved blocks, for a caller with exclusive access to the state.
    pub(crate) fn moves(&mut self) -> &mut Moves {
        self.moves.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moved blocks, for callers that share the state. No input or output while this is held.
    pub(crate) fn lock_moves(&self) -> MutexGuard<'_, Moves> {
        lock(&self.moves)
    }

    /// The tree of seals, for a caller with exclusive access to the state.
    pub(crate) fn tree(&mut self) -> &mut SealTree {
        self.tree.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tree of seals, for callers that share the state: pages are read while this is held.
    pub(crate) fn lock_tree(&self) -> MutexGuard<'_, SealTree> {
        lock(&self.tree)
    }

    /// The places that the next commit leaves it.
    pub(crate) fn places_to_be(&self) -> Vec<Place> {
        let mut places = self.now.places.clone();
        places.retain(|place| !self.left.iter().any(|(left, _)| left == place));
        places
    }

    /// When the content changed last.
    pub(crate) fn modified(&self) -> SystemTime {
        self.lock_moves().modified.unwrap_or(self.now.modified)
    }

    /// When anything of it changed last, if that is known.
    pub(crate) fn changed(&self) -> Option<SystemTime> {
        self.lock_moves().modified.or(self.now.changed)
    }
}

impl<S: Storage> Content<S> {
    pub(crate) fn new(
        file: S::File,
        id: Id,
        keys: FileKeys,
        writable: bool,
        state: State<S>,
    ) -> Self {
        Content {
            file,
            id,
            keys,
            writable,
            listed: AtomicBool::new(false),
            state: RwLock::new(state),
        }
    }

    pub(crate) fn read_state(&self) -> RwLockReadGuard<'_, State<S>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write_state(&self) -> RwLockWriteGuard<'_, State<S>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its type as the vault shows it.
    pub(crate) fn kind(&self) -> FileType {
        self.read_state().now.owner.kind()
    }

    /// What errors call the file.
    pub(crate) fn called(&self) -> String {
        format!("the file with id {}", hex(&self.id))
    }
}

impl<S: Storage> Core<S> {
    /// Reads into `buffer` from `offset` on; less than all of it only at the end of the file.
    pub(crate) fn read(
        &self,
        content: &Content<S>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let state = content.read_state();
        if state.broken {
            return Err(Errno::IO.into());
        }
        let len = buffer
            .len()
            .min(usize::try_from(state.now.len.saturating_sub(offset)).unwrap_or(usize::MAX));
        let block = self.layout.block();
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (number, inside) = (at / block as u64, (at % block as u64) as usize);
            let there = self.layout.block_len(number, state.now.len);
            let wanted = len - done;
            // As much as fills blocks, or reaches the end of the file, goes straight to the buffer.
            let whole = if at + wanted as u64 == state.now.len {
                wanted
            } else {
                wanted / block * block
            };
            if inside == 0 && whole > 0 {
                let out = &mut buffer[done..done + whole];
                self.read_blocks(content, &state, number, out)?;
                done += whole;
            } else {
                let mut plain = self.pool.take_secret(there);
                self.read_blocks(content, &state, number, &mut plain)?;
                let count = wanted.min(there - inside);
                buffer[done..done + count].copy_from_slice(&plain[inside..inside + count]);
                done += count;
            }
        }
        Ok(len)
    }

    /// Reads blocks from `first` on that fill `out`, the last of which may be the file's last.
    pub(crate) fn read_blocks(
        &self,
        content: &Content<S>,
        state: &State<S>,
        first: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let read = self.read_and_open(content, state, first, out);
        if read.is_err() {
            zeroize::Zeroize::zeroize(out);
        }
        read
    }

    fn read_and_open(
        &self,
        content: &Content<S>,
        state: &State<S>,
        first: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let block = self.layout.block();
        let engines = &self.keys.engines;
        let count = out.len().div_ceil(block) as u64;
        let (moved, seals) = self.newest(content, state, first, count)?;
        let step = (engines.step() / block).max(1);
        let mut number = first;
        for (run, seals) in out
            .chunks_mut(step.saturating_mul(block))
            .zip(seals.chunks(step))
        {
            self.read_run(content, number, seals, run)?;
            let last = number + seals.len() as u64;
            let first_moved = moved.partition_point(|(at, _)| *at < number);
            for (at, index) in moved[first_moved..].iter().take_while(|(at, _)| *at < last) {
                let start = (at - number) as usize * block;
                let end = run.len().min(start + block);
                self.read_journal(state, *index, &mut run[start..end])?;
            }
            let key = &content.keys.content;
            if let Some(bad) = blocks::open(engines, key, self.layout, number, seals, run)? {
                return Err(Error::altered(
                    format!("block {} of {}", number + bad as u64, content.called()),
                    "it is not the newest version of this block; restore it from a backup",
                ));
            }
            number = last;
        }
        Ok(())
    }

    /// Which of `count` blocks from `first` on stand in the journal, and where; and the seal of the
    /// newest version of each.
    #[allow(clippy::type_complexity, reason = "two lists that are used together")]
    fn newest(
        &self,
        content: &Content<S>,
        state: &State<S>,
        first: u64,
        count: u64,
    ) -> Result<(Vec<(u64, u64)>, Vec<Seal>)> {
        // Taken together, so that no commit comes between: the caller holds the state.
        let moved: Vec<_> = {
            let moves = state.lock_moves();
            let moved = moves.blocks.range(first..first + count);
            moved.map(|(number, moved)| (*number, *moved)).collect()
        };
        let mut seals = {
            let mut tree = state.lock_tree();
            self.seals(content, &mut tree, first, count)?
        };
        for (number, moved) in &moved {
            seals[(number - first) as usize] = moved.seal;
        }
        let moved = moved.iter().map(|(number, moved)| (*number, moved.index));
        Ok((moved.collect(), seals))
    }

    /// Reads what stands in the places of blocks from `first` on, as far as they have seals.
    fn read_run(
        &self,
        content: &Content<S>,
        first: u64,
        seals: &[Seal],
        run: &mut [u8],
    ) -> Result<()> {
        let block = self.layout.block();
        let end = first + seals.len() as u64;
        let mut number = first;
        while number < end {
            let until = self.layout.adjoining(number, end);
            let at = |number: u64| (number - first) as usize;
            if seals[at(number)..at(until)].iter().any(|it| !it.is_none()) {
                let bytes = at(number) * block..(at(until) * block).min(run.len());
                let part = &mut run[bytes];
                let start = self.layout.block_start(number);
                let read = self.storage.read_at(&content.file, part, start)?;
                // What is missing does not verify.
                part[read..].fill(0);
            }
            number = until;
        }
        Ok(())
    }

    /// Reads a block's newest version from the journal.
    fn read_journal(&self, state: &State<S>, index: u64, block: &mut [u8]) -> Result<()> {
        let journal = state.journal.file.as_ref().ok_or(Errno::IO)?;
        let offset = index * self.layout.block() as u64;
        let read = self.storage.read_at(journal, block, offset)?;
        block[read..].fill(0);
        Ok(())
    }

    /// The next data or hole from `offset` on.
    pub(crate) fn seek(&self, content: &Content<S>, offset: u64, to: Seek) -> Result<u64> {
        let state = content.read_state();
        let (len, block) = (state.now.len, self.layout.block() as u64);
        if offset >= len {
            return Err(Errno::NXIO.into());
        }
        let (first, end) = (offset / block, self.layout.blocks(len));
        // Moved blocks that were holes: few, for most are committed ones.
        let moved: Vec<u64> = {
            let moves = state.lock_moves();
            moves.blocks.range(first..).map(|(at, _)| *at).collect()
        };
        let mut tree = state.lock_tree();
        let mut number = first;
        let found = loop {
            let look = match to {
                Seek::Data => Look::Block,
                Seek::Hole => Look::Hole,
            };
            let next = self.next_seal(content, &mut tree, number, end, look)?;
            let next_moved = moved.partition_point(|at| *at < number);
            match (to, next, moved.get(next_moved)) {
                (Seek::Data, Some(next), Some(moved)) => break Some(next.min(*moved)),
                (Seek::Data, None, Some(moved)) => break Some(*moved),
                // What is a hole in place may be in the journal.
                (Seek::Hole, Some(next), _) if moved.binary_search(&next).is_ok() => {
                    number = next + 1;
                }
                (_, next, _) => break next,
            }
        };
        match (to, found) {
            (_, Some(number)) => Ok(offset.max(number * block)),
            (Seek::Hole, None) => Ok(len),
            (Seek::Data, None) => Err(Errno::NXIO.into()),
        }
    }
}
