//! The portions that a helper has taken from a queue and not done. They go back if it fails.

use std::collections::VecDeque;
use std::time::Duration;

use super::queue::Queue;
use crate::portion::{Outcome, Portion, Source};

/// A helper's access to the queue. Tracks the portions that the helper holds, and returns them if
/// it fails.
pub(crate) struct HelperLease<'s, 'q, 'job> {
    pub(super) queue: &'s Queue<'q, 'job>,
    pub(super) worker: usize,
    pub(super) held: VecDeque<Portion>,
    /// Work for the helper's thread while it waits, if any is left.
    pub(super) aside: Option<SideWork<'s>>,
}

/// CPU work for a helper's thread: a worker of its own, and a function that does one of its
/// portions or returns false if there is none.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
pub(super) struct SideWork<'s> {
    pub(super) worker: usize,
    /// From this age of the helper's oldest portion on, there is no time for another one.
    pub(super) until: Duration,
    pub(super) step: &'s dyn Fn(usize) -> bool,
}

impl Drop for HelperLease<'_, '_, '_> {
    /// Ends the helper's part in the job, and returns the portions that it has not done.
    fn drop(&mut self) {
        self.queue.leave(self.worker);
        if let Some(aside) = &self.aside {
            self.queue.leave(aside.worker);
        }
        self.queue.give_back(self.held.drain(..));
    }
}

impl Source for HelperLease<'_, '_, '_> {
    fn next(&mut self) -> Option<Portion> {
        let (portion, _) = self.queue.take(self.worker)?;
        self.held.push_back(portion.clone());
        Some(portion)
    }

    fn done(&mut self, portion: Portion, outcome: Outcome) {
        let place = self.held.iter().position(|held| *held == portion);
        self.held
            .remove(place.expect("what is done was taken before, and only once"));
        self.queue.done(self.worker, &portion, outcome);
    }

    fn meanwhile(&mut self, age: Duration) -> bool {
        let Some(aside) = self.aside.as_ref().filter(|aside| age < aside.until) else {
            return false;
        };
        let some = (aside.step)(aside.worker);
        if !some {
            // It does not ask again.
            self.aside = None;
        }
        some
    }
}
