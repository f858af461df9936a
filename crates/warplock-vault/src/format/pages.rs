//! Pages of a file's tree of seals: read and verified when they are needed, sealed for a commit.

use std::ops::Range;
use std::sync::Arc;

use crate::core::Core;
use crate::error::{Error, Result};
use crate::file::content::Content;
use crate::format::header::Header;
use crate::format::layout::{FANOUT, NONCE_LEN, PAGE_LEN, ROOTS, TAG_LEN, span};
use crate::format::seals::{Page, PageId, Seal, SealTree};
use crate::store::storage::Storage;

const AAD: &[u8] = b"warplock-vault/2 page";
/// How many pages the files of a vault keep in memory together, 4 KiB each, as far as they can be
/// read again.
const MAX_HELD: usize = 8192;

/// Which seals to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Block,
    Hole,
}

/// A page sealed for its next slot.
pub(crate) struct SealedPage<'a> {
    pub(crate) id: PageId,
    pub(crate) slot: u8,
    pub(crate) ciphertext: &'a [u8],
}

fn aad((level, index): PageId) -> Vec<u8> {
    [AAD, &[level], &index.to_be_bytes()].concat()
}

impl<S: Storage> Core<S> {
    /// The tree of a file with this header; none of its pages is in memory.
    pub(crate) fn tree_of(&self, header: &Header) -> SealTree {
        let blocks = self.layout.blocks(header.len);
        SealTree::new(header.roots, blocks, Arc::clone(&self.held_pages))
    }

    /// Brings a page into memory; `None` if all that it would stand for is holes.
    fn page<'t>(
        &self,
        content: &Content<S>,
        tree: &'t mut SealTree,
        id: PageId,
    ) -> Result<Option<&'t Page>> {
        if tree.held_by_all() > MAX_HELD {
            tree.drop_clean();
        }
        while !tree.pages.contains_key(&id) {
            // The pages above it come first.
            let mut next = id;
            let seal = loop {
                match tree.seal_of_page(next) {
                    Ok(seal) => break seal,
                    Err(above) => next = above,
                }
            };
            if seal.is_none() {
                return Ok(None);
            }
            let mut bytes = [0; PAGE_LEN];
            let start = self.layout.page_start(next.0, next.1, seal.slot());
            self.storage.read_at(&content.file, &mut bytes, start)?;
            let page = self.open_page(content, next, &seal, &mut bytes)?;
            tree.insert(next, page);
        }
        Ok(tree.pages.get(&id))
    }

    /// Whether there is a page, in memory or in the file.
    pub(crate) fn has_page(
        &self,
        content: &Content<S>,
        tree: &mut SealTree,
        id: PageId,
    ) -> Result<bool> {
        let (level, index) = id;
        if level > tree.depth || index * span(level + 1) >= ROOTS * span(tree.depth + 1) {
            return Ok(false);
        }
        Ok(tree.pages.contains_key(&id) || self.page(content, tree, id)?.is_some())
    }

    /// Opens a page's ciphertext in place.
    pub(crate) fn open_page(
        &self,
        content: &Content<S>,
        id: PageId,
        seal: &Seal,
        bytes: &mut [u8],
    ) -> Result<Page> {
        let (engines, key) = (&self.keys.engines, &content.keys.header);
        if !engines.open_apart(key, &aad(id), seal.nonce(), seal.tag(), bytes)? {
            let blocks = id.1 * span(id.0 + 1);
            return Err(Error::altered(
                content.called(),
                format!(
                    "what authenticates its blocks from {blocks} on does not verify; restore the \
                     file from a backup"
                ),
            ));
        }
        Ok(Page::decode(bytes, seal.slot()))
    }

    /// The seals of `count` blocks from `first` on, all of which are in the file.
    pub(crate) fn seals(
        &self,
        content: &Content<S>,
        tree: &mut SealTree,
        first: u64,
        count: u64,
    ) -> Result<Vec<Seal>> {
        let end = first + count;
        let mut seals = Vec::with_capacity(count as usize);
        if tree.depth == 0 {
            seals.extend_from_slice(&tree.roots[first as usize..end as usize]);
            return Ok(seals);
        }
        let mut number = first;
        while number < end {
            let until = end.min((number / FANOUT + 1) * FANOUT);
            let here = (until - number) as usize;
            match self.page(content, tree, (1, number / FANOUT))? {
                Some(page) => {
                    let at = (number % FANOUT) as usize;
                    seals.extend_from_slice(&page.seals[at..at + here]);
                }
                None => seals.extend(std::iter::repeat_n(Seal::NONE, here)),
            }
            number = until;
        }
        Ok(seals)
    }

    /// Gives blocks from `first` on their seals. The file has `blocks` blocks then.
    pub(crate) fn set_seals(
        &self,
        content: &Content<S>,
        tree: &mut SealTree,
        first: u64,
        seals: &[Seal],
        blocks: u64,
    ) -> Result<()> {
        tree.deepen(blocks);
        let mut number = first;
        let mut seals = seals;
        while !seals.is_empty() {
            let (page, at, room) = match tree.depth {
                0 => ((1, 0), number as usize, ROOTS as usize - number as usize),
                _ => {
                    let page = (1, number / FANOUT);
                    self.page(content, tree, page)?;
                    let at = (number % FANOUT) as usize;
                    (page, at, FANOUT as usize - at)
                }
            };
            let (now, later) = seals.split_at(room.min(seals.len()));
            tree.seals_mut(page)[at..at + now.len()].copy_from_slice(now);
            number += now.len() as u64;
            seals = later;
        }
        Ok(())
    }

    /// Makes holes of `blocks`, whatever they are: work for as many pages as are cut, however many
    /// blocks that is.
    pub(crate) fn clear_seals(
        &self,
        content: &Content<S>,
        tree: &mut SealTree,
        blocks: Range<u64>,
    ) -> Result<()> {
        let blocks = blocks.start..blocks.end.min(ROOTS.saturating_mul(span(tree.depth + 1)));
        if blocks.is_empty() {
            return Ok(());
        }
        for level in 1..=tree.depth + 1 {
            // Only the pages at both ends are more than their page above tells.
            let of = span(level).saturating_mul(FANOUT);
            let ends = match level > tree.depth {
                true => [0, 0],
                false => [blocks.start / of, (blocks.end - 1) / of],
            };
            for index in &ends[..1 + usize::from(ends[0] != ends[1])] {
                let start = index * of;
                let covered = blocks.start <= start && start + of <= blocks.end;
                if level <= tree.depth
                    && (covered || self.page(content, tree, (level, *index))?.is_none())
                {
                    continue;
                }
                let whole = |at: &usize| {
                    let from = start + *at as u64 * span(level);
                    blocks.start <= from && from + span(level) <= blocks.end
                };
                let seals = tree.seals_mut((level, *index));
                for at in (0..seals.len()).filter(whole) {
                    seals[at] = Seal::NONE;
                }
            }
        }
        tree.drop_covered(&blocks);
        Ok(())
    }

    /// Makes a tree for `blocks` blocks of one for more.
    pub(crate) fn cut_seals(
        &self,
        content: &Content<S>,
        tree: &mut SealTree,
        blocks: u64,
    ) -> Result<()> {
        self.clear_seals(content, tree, blocks..u64::MAX)?;
        while tree.depth > crate::format::layout::depth(blocks) {
            self.page(content, tree, (tree.depth, 0))?;
            tree.flatten();
        }
        Ok(())
    }

    /// The first block or hole from block `number` on, before block `end`.
    pub(crate) fn next_seal(
        &self,
        content: &Content<S>,
        tree: &mut SealTree,
        mut number: u64,
        end: u64,
        look: Look,
    ) -> Result<Option<u64>> {
        let wanted = |seal: &Seal| seal.is_none() == (look == Look::Hole);
        while number < end {
            if tree.depth == 0 {
                let found = (number..end).find(|at| wanted(&tree.roots[*at as usize]));
                return Ok(found);
            }
            if let Some(page) = self.page(content, tree, (1, number / FANOUT))? {
                let until = end.min((number / FANOUT + 1) * FANOUT);
                let found = (number..until).find(|at| wanted(&page.seals[(at % FANOUT) as usize]));
                if found.is_some() {
                    return Ok(found);
                }
                number = until;
                continue;
            }
            if look == Look::Hole {
                return Ok(Some(number));
            }
            // Past the highest page that is missing.
            let mut level = 1;
            while level < tree.depth {
                let above = (level + 1, number / span(level + 2));
                if self.page(content, tree, above)?.is_some() {
                    break;
                }
                level += 1;
            }
            number = (number / span(level + 1) + 1) * span(level + 1);
        }
        Ok(None)
    }

    /// Seals all changed pages, from the lowest level up to what the header holds, and hands them
    /// to `write`. May be done again if what follows fails.
    pub(crate) fn seal_pages(
        &self,
        content: &Content<S>,
        tree: &mut SealTree,
        mut write: impl FnMut(SealedPage<'_>) -> Result<()>,
    ) -> Result<()> {
        let (engines, key) = (&self.keys.engines, &content.keys.header);
        let mut room = [0; NONCE_LEN + PAGE_LEN + TAG_LEN];
        for level in 1..=tree.depth {
            for index in tree.dirty_pages(level) {
                let (id, above) = ((level, index), (level + 1, index / FANOUT));
                if level < tree.depth {
                    self.page(content, tree, above)?;
                }
                let page = &tree.pages[&id];
                let seal = if page.is_empty() {
                    Seal::NONE
                } else {
                    let slot = page.next_slot();
                    page.encode(&mut room[NONCE_LEN..NONCE_LEN + PAGE_LEN]);
                    engines.seal_in_place(key, &aad(id), &mut room)?;
                    let (nonce, rest) = room.split_at(NONCE_LEN);
                    let (ciphertext, tag) = rest.split_at(PAGE_LEN);
                    write(SealedPage {
                        id,
                        slot,
                        ciphertext,
                    })?;
                    Seal::new(nonce, tag).in_slot(slot)
                };
                let at = match level == tree.depth {
                    true => index as usize,
                    false => (index % FANOUT) as usize,
                };
                tree.seals_mut(above)[at] = seal;
            }
        }
        Ok(())
    }
}
