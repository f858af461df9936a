//! The content of one regular file: its state, and reading.
//!
//! What is on the disk is always a *committed state*: the newest header and the blocks it covers.
//! Blocks that a header covers are not touched in place; their new versions go to the file's
//! journal until [`commit`](crate::commit) brings everything to the next committed state. Blocks
//! behind them are written in place at once.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use rustix::io::Errno;

use crate::blocks::{self, Bad};
use crate::core::{Core, hex, lock};
use crate::error::{Error, Result};
use crate::fs::Seek;
use crate::gaps::Gaps;
use crate::header::Header;
use crate::keys::{FileKeys, Id};
use crate::layout::{OVERHEAD, TAG_LEN};
use crate::names::Place;
use crate::storage::Storage;
use crate::sum::EMPTY;

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

/// Where the newest version of a block is, if not in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// In the journal.
    Slot {
        /// The journal's slot.
        index: u64,
        /// The block's tag.
        tag: [u8; TAG_LEN],
    },
    /// Nowhere: it is a hole now.
    Hole,
}

impl Moved {
    /// The tag of the newest version; zeros for a hole.
    pub(crate) fn tag(self) -> [u8; TAG_LEN] {
        match self {
            Moved::Slot { tag, .. } => tag,
            Moved::Hole => [0; TAG_LEN],
        }
    }
}

/// What several writers of committed blocks change side by side, while all else stays: they hold
/// the state for reading, and this for moments.
pub(crate) struct Moves {
    /// Blocks whose newest version is not in their slot.
    pub(crate) blocks: BTreeMap<u64, Moved>,
    /// Slots of the journal that are taken, from its start.
    pub(crate) end: u64,
    /// What these blocks changed in the sum, as far as it is not in the header-to-be.
    pub(crate) sum: [u8; 16],
    /// The time of the last change, where the file's own does not tell it.
    pub(crate) modified: Option<SystemTime>,
}

/// What is known about a file in use.
pub(crate) struct State<S: Storage> {
    /// The header of the content as it is now; its number is that of the newest header written.
    pub(crate) now: Header,
    /// The length in the newest header written: blocks of that length are not touched in place.
    pub(crate) committed_len: u64,
    /// Whether `now` says anything else than the newest header written; with moved blocks it
    /// always does.
    pub(crate) dirty: bool,
    /// How often the file was written to, and how many of these writes are durable.
    pub(crate) written: u64,
    pub(crate) synced: u64,
    /// Whether the other one was found damaged.
    pub(crate) damaged: bool,
    pub(crate) journal: Journal<S>,
    moves: Mutex<Moves>,
    pub(crate) gaps: Gaps,
    /// A header that the journal holds durably, while the blocks are on their way to their slots.
    pub(crate) pending: Option<Header>,
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
    /// The state of a file whose newest header on the disk is `header`.
    pub(crate) fn committed(header: Header) -> Self {
        State {
            committed_len: header.len,
            now: header,
            dirty: false,
            written: 1,
            synced: 0,
            damaged: false,
            journal: Journal::none(),
            moves: Mutex::new(Moves {
                blocks: BTreeMap::new(),
                end: 0,
                sum: EMPTY,
                modified: None,
            }),
            gaps: Gaps::default(),
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

    /// Moved blocks, for those who have the state to themselves.
    pub(crate) fn moves(&mut self) -> &mut Moves {
        self.moves.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moved blocks, for those who share the state. No input or output while this is held.
    pub(crate) fn lock_moves(&self) -> MutexGuard<'_, Moves> {
        lock(&self.moves)
    }

    /// Brings what side-by-side writers did to the sum into the header-to-be.
    pub(crate) fn gather(&mut self) {
        let sum = std::mem::replace(&mut self.moves().sum, EMPTY);
        for (byte, change) in self.now.sum.iter_mut().zip(sum) {
            *byte ^= change;
        }
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
        let block = self.layout.block();
        let (keys, holes) = (&content.keys.content, state.now.holes);
        let engines = &self.keys.engines;
        let step = (engines.step() / block).max(1).saturating_mul(block);
        let mut run = self
            .pool
            .take(step.min(out.len()) + step.min(out.len()).div_ceil(block) * OVERHEAD);
        let mut done = 0;
        while done < out.len() {
            let len = step.min(out.len() - done);
            let first = first + (done / block) as u64;
            let run = &mut run[..len + len.div_ceil(block) * OVERHEAD];
            self.read_slots(content, state, first, run)?;
            let part = &mut out[done..done + len];
            if let Err(bad) = blocks::open(engines, keys, self.layout, first, run, part, holes)? {
                zeroize::Zeroize::zeroize(out);
                return Err(self.bad_block(content, first, bad));
            }
            done += len;
        }
        Ok(())
    }

    /// The error for what is wrong in a run of blocks from `first` on.
    pub(crate) fn bad_block(&self, content: &Content<S>, first: u64, bad: Bad) -> Error {
        let (index, why) = match bad {
            Bad::Tag(index) => (index, "its tag does not fit"),
            Bad::Hole(index) => (index, "it was zeroed: this file has no holes"),
        };
        let what = format!("block {} of {}", first + index as u64, content.called());
        let why = format!("{why}; restore the file from a backup");
        Error::altered(what, why)
    }

    /// The error for blocks that are good each, but not together.
    pub(crate) fn wrong_sum(&self, content: &Content<S>) -> Error {
        Error::altered(
            content.called(),
            "a block of it is an old one, or was zeroed or removed; restore the file from a backup",
        )
    }

    /// Reads the newest versions of slots from `first` on that fill `run`.
    pub(crate) fn read_slots(
        &self,
        content: &Content<S>,
        state: &State<S>,
        first: u64,
        run: &mut [u8],
    ) -> Result<()> {
        let slot = self.layout.slot();
        let read = self
            .storage
            .read_at(&content.file, run, self.layout.slot_start(first))?;
        run[read..].fill(0);
        let count = run.len().div_ceil(slot) as u64;
        let moved: Vec<_> = {
            let moves = state.lock_moves();
            let moved = moves.blocks.range(first..first + count);
            moved.map(|(number, moved)| (*number, *moved)).collect()
        };
        for (number, moved) in moved {
            let start = (number - first) as usize * slot;
            let end = run.len().min(start + slot);
            self.read_moved(state, moved, &mut run[start..end])?;
        }
        Ok(())
    }

    fn read_moved(&self, state: &State<S>, moved: Moved, slot: &mut [u8]) -> Result<()> {
        match (moved, &state.journal.file) {
            (Moved::Hole, _) => slot.fill(0),
            (Moved::Slot { index, .. }, Some(journal)) => {
                let offset = index * self.layout.slot() as u64;
                let read = self.storage.read_at(journal, slot, offset)?;
                slot[read..].fill(0);
            }
            (Moved::Slot { .. }, None) => return Err(Errno::IO.into()),
        }
        Ok(())
    }

    /// The tags of `count` blocks from `first` on, all of which are in the file; zeros for holes.
    pub(crate) fn tags(
        &self,
        content: &Content<S>,
        state: &State<S>,
        first: u64,
        count: u64,
    ) -> Result<Vec<[u8; TAG_LEN]>> {
        let mut tags: Vec<Option<[u8; TAG_LEN]>> = vec![None; count as usize];
        for (number, moved) in state.lock_moves().blocks.range(first..first + count) {
            tags[(number - first) as usize] = Some(moved.tag());
        }
        let tags = (first..).zip(tags).map(|(number, tag)| match tag {
            Some(tag) => Ok(tag),
            None => self.tag_in_place(content, state, number),
        });
        tags.collect()
    }

    /// The tag in a block's own slot. Reading it alone costs less than reading the slots between.
    fn tag_in_place(
        &self,
        content: &Content<S>,
        state: &State<S>,
        number: u64,
    ) -> Result<[u8; TAG_LEN]> {
        let mut tag = [0; TAG_LEN];
        let len = self.layout.block_len(number, state.now.len) + OVERHEAD - TAG_LEN;
        let offset = self.layout.slot_start(number) + len as u64;
        self.storage.read_at(&content.file, &mut tag, offset)?;
        Ok(tag)
    }

    /// The next data or hole from `offset` on.
    pub(crate) fn seek(&self, content: &Content<S>, offset: u64, to: Seek) -> Result<u64> {
        let state = content.read_state();
        let (len, block) = (state.now.len, self.layout.block() as u64);
        if offset >= len {
            return Err(Errno::NXIO.into());
        }
        if !state.now.holes {
            return Ok(match to {
                Seek::Data => offset,
                Seek::Hole => len,
            });
        }
        let mut number = offset / block;
        while number < self.layout.blocks(len) {
            let next_moved = {
                let moves = state.lock_moves();
                moves.blocks.range(number..).next().map(|(next, _)| *next)
            };
            if to == Seek::Data && next_moved != Some(number) {
                // The store knows long holes.
                let start = self.layout.slot_start(number);
                let data = self.storage.next_data(&content.file, start)?;
                let found = data.map_or(self.layout.blocks(len), |data| {
                    self.layout.plain_len(data) / block
                });
                let skip = found.min(next_moved.unwrap_or(u64::MAX)).max(number);
                if skip > number {
                    number = skip;
                    continue;
                }
            }
            let count = (self.layout.blocks(len) - number).min(64);
            for tag in self.tags(content, &state, number, count)? {
                if (tag == [0; TAG_LEN]) == (to == Seek::Hole) {
                    return Ok(offset.max(number * block));
                }
                number += 1;
            }
        }
        match to {
            Seek::Hole => Ok(len),
            Seek::Data => Err(Errno::NXIO.into()),
        }
    }
}
