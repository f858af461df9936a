//! Detects whether a mount is in use.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// When a mount was used last, and how much is open.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    /// Milliseconds after `start`.
    last: AtomicU64,
    open: AtomicUsize,
}

impl Activity {
    pub(super) fn new() -> Self {
        Activity {
            start: Instant::now(),
            last: AtomicU64::new(0),
            open: AtomicUsize::new(0),
        }
    }

    /// A request came.
    pub(super) fn touch(&self) {
        let now = self.start.elapsed().as_millis() as u64;
        // Written only when it changes: all loop threads share this line of the cache.
        if self.last.load(Ordering::Relaxed) != now {
            self.last.store(now, Ordering::Relaxed);
        }
    }

    /// A file or folder was opened.
    pub(super) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// A file or folder was closed.
    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.touch();
    }

    /// How long nothing has been open or requested.
    pub(super) fn idle(&self) -> Duration {
        if self.open.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last)
    }
}
