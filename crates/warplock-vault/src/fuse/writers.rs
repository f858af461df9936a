//! The files of which the kernel may hold unwritten pages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fuser::{INodeNo, Notifier};

use super::request::MAX_REQUEST;
use crate::fs::Node;

/// After this many bytes, the room in the store is looked at again.
const LOOK_AGAIN: u64 = 16 << 20;

/// A file that is open for writing.
#[derive(Debug, Default)]
struct Open {
    /// How often.
    count: u32,
    /// How much room there was when pages that the kernel had accepted found too little, until a
    /// program is told.
    full: Option<u64>,
    /// Until then there is room for all that a program can write.
    roomy: Option<Instant>,
    /// When it was changed, as the kernel said last.
    changed: Option<Times>,
    /// Whether the kernel sent pages after it had said that.
    sent: bool,
}

/// When a file's content changed, and when anything of it did.
pub(super) type Times = (SystemTime, Option<SystemTime>);

/// The files that are open for writing.
///
/// The kernel keeps what programs write in its page cache, but asks us where a file has holes
/// without sending us those pages first: a copy made with `SEEK_DATA` would miss them.
///
/// What it keeps it accepts without asking whether there is room. But before each write it wants to
/// know the file's attributes, if those it has are not valid, and if it gets an error instead, the
/// write fails with it.
///
/// It also keeps when a file was changed, and says so when it sends its pages, but before it sends them if
/// the file is renamed, linked or given an attribute, and not again unless its clock has moved on. The
/// time at which pages arrive is then too late: the next mount would show another one.
#[derive(Debug, Default)]
pub(super) struct Writers {
    open: Mutex<HashMap<Node, Open>>,
    kernel: OnceLock<Notifier>,
    /// How many bytes were written.
    written: AtomicU64,
}

impl Writers {
    /// How to reach the kernel.
    pub(super) fn connect(&self, kernel: Notifier) {
        let _ = self.kernel.set(kernel);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Node, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file was opened for writing.
    pub(super) fn add(&self, node: Node) {
        self.lock().entry(node).or_default().count += 1;
    }

    /// The file was closed.
    pub(super) fn remove(&self, node: Node) {
        if let Entry::Occupied(mut open) = self.lock().entry(node) {
            open.get_mut().count -= 1;
            if open.get().count == 0 {
                open.remove();
            }
        }
    }

    /// The kernel says when a file was changed.
    pub(super) fn note_times(&self, node: Node, changed: Times) {
        if let Some(open) = self.lock().get_mut(&node) {
            (open.changed, open.sent) = (Some(changed), false);
        }
    }

    /// Something of a file is written: pages that the kernel kept, or what it does not keep.
    pub(super) fn note_sent(&self, node: Node, kept: bool) {
        if let Some(open) = self.lock().get_mut(&node) {
            match kept {
                true => open.sent = true,
                false => open.changed = None,
            }
        }
    }

    /// When a file was changed whose pages came after the kernel had said that. Where all pages have
    /// come, it is right.
    pub(super) fn take_times(&self, node: Node) -> Option<Times> {
        let mut open = self.lock();
        let open = open.get_mut(&node)?;
        match std::mem::take(&mut open.sent) {
            true => open.changed,
            false => None,
        }
    }

    /// Whether the kernel may have unwritten pages. It writes all of a file when it is closed.
    pub(super) fn has(&self, node: Node) -> bool {
        self.lock().contains_key(&node)
    }

    /// Notes that `len` bytes were written; whether it is time to look for room again.
    pub(super) fn wrote(&self, len: usize) -> bool {
        let before = self.written.fetch_add(len as u64, Ordering::Relaxed);
        before / LOOK_AGAIN != (before + len as u64) / LOOK_AGAIN
    }

    /// Pages that the kernel had accepted found no room: the file's next write is to fail.
    pub(super) fn note_full(&self, node: Node, room: u64) {
        if let Some(open) = self.lock().get_mut(&node) {
            open.full = Some(room);
        }
        self.forget_attributes(node);
    }

    /// Whether accepted pages of a file found no room, no program was told, and there is no more now.
    pub(super) fn take_full(&self, node: Node, room: u64) -> bool {
        let mut open = self.lock();
        let full = open.get_mut(&node).and_then(|open| open.full.take());
        full.is_some_and(|before| room < before + u64::from(MAX_REQUEST))
    }

    /// Notes that for some time, there is room for all that a program can write.
    pub(super) fn accept_for(&self, node: Node, time: Duration) {
        if let Some(open) = self.lock().get_mut(&node) {
            open.roomy = Some(Instant::now() + time);
        }
    }

    /// How long there is.
    pub(super) fn may_accept_for(&self, node: Node) -> Duration {
        let roomy = self.lock().get(&node).and_then(|open| open.roomy);
        roomy.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    /// Makes the kernel ask before the next write to each file.
    pub(super) fn ask_before_writes(&self) {
        let nodes: Vec<Node> = self.lock().keys().copied().collect();
        for node in nodes {
            self.forget_attributes(node);
        }
    }

    /// Makes the kernel ask for a file's attributes again, which changed without its knowledge.
    /// Does not wait.
    pub(super) fn forget_attributes(&self, node: Node) {
        if let Some(kernel) = self.kernel.get() {
            // It caches nothing of a file that it does not know.
            let _ = kernel.inval_inode(INodeNo(node), -1, 0);
        }
    }

    /// Makes the kernel write its pages of a file. Waits for writes that the loop threads must
    /// serve, so none of them may call this.
    pub(super) fn write_back(&self, node: Node) -> io::Result<()> {
        let Some(kernel) = self.kernel.get() else {
            return Ok(());
        };
        match kernel.inval_inode(INodeNo(node), 0, 0) {
            // It caches nothing of a file that it does not know.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }
}
