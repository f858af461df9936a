//! The files of which the kernel may hold unwritten pages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use fuser::{INodeNo, Notifier};

use crate::fs::Node;

/// Counts how often each file is open for writing.
///
/// The kernel keeps what programs write in its page cache, but asks us where a file has holes
/// without sending us those pages first: a copy made with `SEEK_DATA` would miss them.
#[derive(Debug, Default)]
pub(super) struct Writers {
    open: Mutex<HashMap<Node, u32>>,
    kernel: OnceLock<Notifier>,
}

impl Writers {
    /// How to reach the kernel.
    pub(super) fn connect(&self, kernel: Notifier) {
        let _ = self.kernel.set(kernel);
    }

    /// A file was opened for writing.
    pub(super) fn add(&self, node: Node) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open.entry(node).or_default() += 1;
    }

    /// The file was closed.
    pub(super) fn remove(&self, node: Node) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(node) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Whether the kernel may have unwritten pages. It writes all of a file when it is closed.
    pub(super) fn has(&self, node: Node) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.contains_key(&node)
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
