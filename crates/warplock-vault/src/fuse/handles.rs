//! Open files and folders, by the numbers that the kernel hands back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::fs::{Errno, Result};

/// A table of handles.
#[derive(Debug)]
pub(super) struct Handles<T> {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Handles<T> {
    pub(super) fn new() -> Self {
        Handles {
            next: AtomicU64::new(1),
            open: RwLock::default(),
        }
    }

    /// A number for `value`.
    pub(super) fn add(&self, value: T) -> u64 {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.insert(handle, Arc::new(value));
        handle
    }

    /// What `handle` stands for.
    pub(super) fn get(&self, handle: u64) -> Result<Arc<T>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&handle).cloned().ok_or(Errno::BADF)
    }

    /// Takes `handle` out.
    pub(super) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.remove(&handle)
    }
}
