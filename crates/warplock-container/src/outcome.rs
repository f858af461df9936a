//! The outcome of a run: the error of its lowest segment, if any.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::workers::lock;

/// Shared by the workers of a run.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Set with `failure`: no more segments are claimed.
    stopped: AtomicBool,
    failure: Mutex<Option<(u64, Error)>>,
}

impl Outcome {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Stops further claims.
    pub(crate) fn halt(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Records an error about the segment `place`, and stops further claims.
    pub(crate) fn stop(&self, place: u64, error: Error) {
        // A read or write that a signal interrupted to stop the run is not a failure of the file.
        let (index, error) = match error.io_kind() {
            Some(io::ErrorKind::Interrupted) => (u64::MAX, Error::Cancelled),
            _ => (place, error),
        };
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(lowest, _)| index < *lowest) {
            *failure = Some((index, error));
        }
        drop(failure);
        self.halt();
    }

    /// The error of the lowest segment.
    pub(crate) fn result(self) -> Result<()> {
        let failure = self.failure.into_inner();
        match failure.unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}
