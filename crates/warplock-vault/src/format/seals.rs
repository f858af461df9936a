//! The tree that authenticates a file's blocks: what a read needs to prove that a block is the
//! newest one.
//!
//! A [`Seal`] is the nonce and the tag of a block. Seals stand in pages, which are sealed in the
//! same way under the page or header above them, up to the header, which holds the topmost seals.
//! So the newest header proves the newest version of every page and block, and that a block is a
//! hole: it has no seal. This file is the tree in memory; `pages.rs` reads and writes its pages.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::format::layout::{self, FANOUT, NONCE_LEN, PAGE_LEN, ROOTS, TAG_LEN, span};

/// Bytes of a seal: nonce, tag, and four bytes of which the last is a page's slot.
pub(crate) const SEAL_LEN: usize = 32;
const SLOT_AT: usize = SEAL_LEN - 1;

/// Nonce and tag of a block, or of a page and the slot in which it stands; zeros for a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal([u8; SEAL_LEN]);

/// The seals in a header.
pub(crate) type Roots = [Seal; ROOTS as usize];

impl Seal {
    pub(crate) const NONE: Seal = Seal([0; SEAL_LEN]);

    pub(crate) fn new(nonce: &[u8], tag: &[u8]) -> Self {
        let mut seal = [0; SEAL_LEN];
        seal[..NONCE_LEN].copy_from_slice(nonce);
        seal[NONCE_LEN..NONCE_LEN + TAG_LEN].copy_from_slice(tag);
        Seal(seal)
    }

    pub(crate) fn in_slot(mut self, slot: u8) -> Self {
        self.0[SLOT_AT] = slot;
        self
    }

    pub(crate) fn nonce(&self) -> &[u8] {
        &self.0[..NONCE_LEN]
    }

    pub(crate) fn tag(&self) -> &[u8] {
        &self.0[NONCE_LEN..NONCE_LEN + TAG_LEN]
    }

    /// The slot of the page that this seals.
    pub(crate) fn slot(&self) -> u8 {
        self.0[SLOT_AT] & 1
    }

    pub(crate) fn is_none(&self) -> bool {
        *self == Seal::NONE
    }

    pub(crate) fn bytes(&self) -> &[u8; SEAL_LEN] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Seal(bytes.try_into().expect("a seal has 32 bytes"))
    }
}

/// A page by its level, from 1 on, and its number in that level.
pub(crate) type PageId = (u8, u64);

/// A page in memory.
pub(crate) struct Page {
    pub(crate) seals: Box<[Seal; FANOUT as usize]>,
    /// The slot that the newest header refers to, which must not be written.
    slot: u8,
}

impl Page {
    /// A page without a seal.
    fn empty() -> Self {
        Page {
            seals: Box::new([Seal::NONE; FANOUT as usize]),
            slot: 1,
        }
    }

    pub(crate) fn decode(bytes: &[u8], slot: u8) -> Self {
        let mut page = Page::empty();
        for (seal, bytes) in page.seals.iter_mut().zip(bytes.chunks_exact(SEAL_LEN)) {
            *seal = Seal::from_bytes(bytes);
        }
        page.slot = slot;
        page
    }

    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        debug_assert_eq!(bytes.len(), PAGE_LEN);
        for (seal, room) in self.seals.iter().zip(bytes.chunks_exact_mut(SEAL_LEN)) {
            room.copy_from_slice(seal.bytes());
        }
    }

    /// Whether it stands for holes only.
    pub(crate) fn is_empty(&self) -> bool {
        self.seals.iter().all(Seal::is_none)
    }

    /// The slot for its next version.
    pub(crate) fn next_slot(&self) -> u8 {
        1 - self.slot
    }
}

/// The tree of one file: all changed pages, and others that were needed recently.
pub(crate) struct SealTree {
    pub(crate) roots: Roots,
    /// Levels of pages.
    pub(crate) depth: u8,
    pub(crate) pages: HashMap<PageId, Page>,
    /// Pages that differ from what the newest header on the disk refers to.
    dirty: BTreeSet<PageId>,
    /// How many pages the trees of the vault hold together.
    held: Arc<AtomicUsize>,
}

impl SealTree {
    /// The tree of a file of `blocks` blocks whose header holds `roots`.
    pub(crate) fn new(roots: Roots, blocks: u64, held: Arc<AtomicUsize>) -> Self {
        SealTree {
            roots,
            depth: layout::depth(blocks),
            pages: HashMap::new(),
            dirty: BTreeSet::new(),
            held,
        }
    }

    /// How many pages wait to be written.
    pub(crate) fn dirty(&self) -> usize {
        self.dirty.len()
    }

    pub(crate) fn held_by_all(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes a page that was read.
    pub(crate) fn insert(&mut self, id: PageId, page: Page) {
        if self.pages.insert(id, page).is_none() {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes a page that is not in its slot yet.
    pub(crate) fn insert_dirty(&mut self, id: PageId, mut page: Page) {
        page.slot = page.next_slot();
        self.insert(id, page);
        self.dirty.insert(id);
    }

    fn remove(&mut self, id: PageId) -> Option<Page> {
        self.dirty.remove(&id);
        let page = self.pages.remove(&id)?;
        self.held.fetch_sub(1, Ordering::Relaxed);
        Some(page)
    }

    /// Forgets pages that can be read again.
    pub(crate) fn drop_clean(&mut self) {
        let before = self.pages.len();
        self.pages.retain(|id, _| self.dirty.contains(id));
        self.held
            .fetch_sub(before - self.pages.len(), Ordering::Relaxed);
    }

    /// The seal of a page, as far as the page above it is in memory. `Err` with the page above if
    /// that one has to be read first.
    pub(crate) fn seal_of_page(&self, (level, index): PageId) -> Result<Seal, PageId> {
        if level == self.depth {
            return Ok(self.roots[index as usize]);
        }
        let above = (level + 1, index / FANOUT);
        match self.pages.get(&above) {
            Some(page) => Ok(page.seals[(index % FANOUT) as usize]),
            None => Err(above),
        }
    }

    /// The seals in a page or, at the level above all pages, in the header, for changing them.
    /// A page that is not in memory is made, as an empty one: one that has a seal is read before.
    pub(crate) fn seals_mut(&mut self, (level, index): PageId) -> &mut [Seal] {
        if level > self.depth {
            return &mut self.roots;
        }
        // A new page needs those above it, by which it is found.
        let mut above = (level, index);
        while above.0 <= self.depth && !self.pages.contains_key(&above) {
            self.insert(above, Page::empty());
            self.dirty.insert(above);
            above = (above.0 + 1, above.1 / FANOUT);
        }
        self.dirty.insert((level, index));
        let page = self.pages.get_mut(&(level, index));
        &mut page.expect("it was just made").seals[..]
    }

    /// Adds levels until there is room for `blocks` blocks.
    pub(crate) fn deepen(&mut self, blocks: u64) {
        while self.depth < layout::depth(blocks) {
            let roots = std::mem::replace(&mut self.roots, [Seal::NONE; ROOTS as usize]);
            self.depth += 1;
            if roots.iter().any(|seal| !seal.is_none()) {
                self.seals_mut((self.depth, 0))[..ROOTS as usize].copy_from_slice(&roots);
            }
        }
    }

    /// Removes the highest level, whose only page, if there is one, is in memory. Nothing stands
    /// after what the header has room for.
    pub(crate) fn flatten(&mut self) {
        let top = self.remove((self.depth, 0));
        self.roots = [Seal::NONE; ROOTS as usize];
        if let Some(page) = top {
            self.roots.copy_from_slice(&page.seals[..ROOTS as usize]);
        }
        self.depth -= 1;
    }

    /// Forgets pages that stand for nothing but `blocks`.
    pub(crate) fn drop_covered(&mut self, blocks: &Range<u64>) {
        let covered = |(level, index): &PageId| {
            let start = index * span(level + 1);
            blocks.start <= start && start.saturating_add(span(level + 1)) <= blocks.end
        };
        let before = self.pages.len();
        self.pages.retain(|id, _| !covered(id));
        self.dirty.retain(|id| !covered(id));
        self.held
            .fetch_sub(before - self.pages.len(), Ordering::Relaxed);
    }

    /// Changed pages of a level, in order.
    pub(crate) fn dirty_pages(&self, level: u8) -> Vec<u64> {
        let of_level = self.dirty.range((level, 0)..(level + 1, 0));
        of_level.map(|(_, index)| *index).collect()
    }

    /// The newest header on the disk refers to all pages as they are now.
    pub(crate) fn committed(&mut self) {
        for id in std::mem::take(&mut self.dirty) {
            let Some(page) = self.pages.get_mut(&id) else {
                continue;
            };
            page.slot = page.next_slot();
            if page.is_empty() {
                // Nothing refers to a page of holes.
                self.remove(id);
            }
        }
    }
}

impl Drop for SealTree {
    fn drop(&mut self) {
        self.held.fetch_sub(self.pages.len(), Ordering::Relaxed);
    }
}
