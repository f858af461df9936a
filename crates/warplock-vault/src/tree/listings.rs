//! Listings of folders: read in one go, shown to the kernel in parts, and kept within bounds.
//!
//! A position in a listing is made of the entry's place alone, and entries are shown in that order,
//! so a part can be taken from any listing of the folder. Open folders therefore hold none, however
//! many there are; the last few are kept for their next parts.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use crate::core::lock;
use crate::format::names::{Place, Sealed};
use crate::fs::{FileType, Node as Number};
use crate::store::storage::Storage;
use crate::tree::node::Node;

/// Bytes of listings that are kept; the newest is, whatever its size.
const MOST: usize = 16 << 20;

/// A name in a folder, decrypted.
pub(crate) struct Found {
    pub(crate) name: OsString,
    pub(crate) node: Number,
    pub(crate) kind: FileType,
    /// What it is in the store; `None` for the folder itself and the one above.
    pub(crate) sealed: Option<Sealed>,
    position: u64,
}

impl Found {
    /// The folder itself (position 1) or the one above (2).
    pub(crate) fn dots(name: &str, node: Number, position: u64) -> Self {
        Found {
            name: name.into(),
            node,
            kind: FileType::Directory,
            sealed: None,
            position,
        }
    }

    pub(crate) fn entry(name: OsString, node: Number, kind: FileType, sealed: Sealed) -> Self {
        Found {
            name,
            node,
            kind,
            position: position(&sealed.place),
            sealed: Some(sealed),
        }
    }

    /// Where a listing goes on after it.
    pub(crate) fn next(&self) -> u64 {
        self.position
    }

    fn bytes(&self) -> usize {
        let stored = self.sealed.as_ref().map_or(0, |sealed| sealed.stored.len());
        size_of::<Found>() + self.name.len() + stored
    }
}

/// Positive also for programs that take it for signed, and after those of the dots.
fn position(place: &Place) -> u64 {
    let (half, _) = place.split_first_chunk().expect("a place has 16 bytes");
    (u64::from_be_bytes(*half) >> 2) + 3
}

/// All of a folder.
pub(crate) struct Listing(Vec<Found>);

impl Listing {
    pub(crate) fn new(mut entries: Vec<Found>) -> Self {
        entries.sort_unstable_by_key(|found| found.position);
        // Two in 2^62 places may be equal.
        for at in 1..entries.len() {
            let before = entries[at - 1].position;
            entries[at].position = entries[at].position.max(before + 1);
        }
        Listing(entries)
    }

    /// What comes after a position.
    pub(crate) fn after(&self, position: u64) -> &[Found] {
        let start = self.0.partition_point(|found| found.position <= position);
        &self.0[start..]
    }

    /// What stands before a position.
    pub(crate) fn before(&self, next: u64) -> Option<&Found> {
        let at = self.0.binary_search_by_key(&next, |found| found.position);
        at.ok().map(|at| &self.0[at])
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(Found::bytes).sum()
    }
}

/// Listings that may be asked for again.
pub(crate) struct Listings<S: Storage> {
    /// The newest last.
    kept: Mutex<Vec<Kept<S>>>,
}

struct Kept<S: Storage> {
    folder: Arc<Node<S>>,
    listing: Arc<Listing>,
    bytes: usize,
    /// Whether it was asked for since the last tick.
    used: bool,
}

impl<S: Storage> Default for Listings<S> {
    fn default() -> Self {
        Listings {
            kept: Mutex::default(),
        }
    }
}

impl<S: Storage> Listings<S> {
    pub(crate) fn get(&self, folder: &Arc<Node<S>>) -> Option<Arc<Listing>> {
        let mut kept = lock(&self.kept);
        let found = kept
            .iter_mut()
            .find(|kept| Arc::ptr_eq(&kept.folder, folder))?;
        found.used = true;
        Some(Arc::clone(&found.listing))
    }

    /// Keeps a listing in the place of the folder's last one.
    pub(crate) fn put(&self, folder: &Arc<Node<S>>, listing: &Arc<Listing>) {
        let new = Kept {
            folder: Arc::clone(folder),
            listing: Arc::clone(listing),
            bytes: listing.bytes(),
            used: true,
        };
        let mut kept = lock(&self.kept);
        let mut gone: Vec<_> = kept
            .extract_if(.., |kept| Arc::ptr_eq(&kept.folder, folder))
            .collect();
        kept.push(new);
        let mut bytes: usize = kept.iter().map(|kept| kept.bytes).sum();
        let mut old = 0;
        while bytes > MOST && old + 1 < kept.len() {
            bytes -= kept[old].bytes;
            old += 1;
        }
        gone.extend(kept.drain(..old));
        // What they hold goes without the lock.
        drop(kept);
    }

    /// Called after the whole listing was read: it is not requested again.
    pub(crate) fn drop_listing(&self, folder: &Arc<Node<S>>) {
        let mut kept = lock(&self.kept);
        let gone = kept
            .iter()
            .position(|kept| Arc::ptr_eq(&kept.folder, folder))
            .map(|at| kept.remove(at));
        drop(kept);
        drop(gone);
    }

    /// Drops those that were not requested since the last time.
    pub(crate) fn age(&self) {
        let mut kept = lock(&self.kept);
        let gone: Vec<_> = kept
            .extract_if(.., |kept| !std::mem::take(&mut kept.used))
            .collect();
        drop(kept);
        drop(gone);
    }
}
