//! What a helper has taken from a queue and not done: if it fails, that goes back.

use std::collections::VecDeque;
use std::time::Duration;

use super::queue::Queue;
use crate::portion::{Outcome, Portion, Source};

/// A helper's access to the queue: knows what the helper holds, and gives it back if it fails.
pub(crate) struct HelperLease<'s, 'q, 'job> {
    queue: &'s Queue<'q, 'job>,
    taker: usize,
    held: VecDeque<Portion>,
    /// What its thread does while it waits, if there is something left.
    aside: Option<SideWork<'s>>,
}

/// Work of the processor's beside a helper's: a taker of its own, and what does one of its
/// portions, or tells that there is none for it any more.
pub(super) struct SideWork<'s> {
    pub(super) taker: usize,
    /// From this age of the helper's oldest portion on there is no time for one any more.
    pub(super) until: Duration,
    pub(super) step: &'s dyn Fn(usize) -> bool,
}

impl<'s, 'q, 'job> HelperLease<'s, 'q, 'job> {
    pub(crate) fn new(
        queue: &'s Queue<'q, 'job>,
        taker: usize,
        aside: Option<SideWork<'s>>,
    ) -> Self {
        HelperLease {
            queue,
            taker,
            held: VecDeque::new(),
            aside,
        }
    }
}

impl Drop for HelperLease<'_, '_, '_> {
    /// Ends the helper's part in the job, and gives back what it has not done.
    fn drop(&mut self) {
        self.queue.leave(self.taker);
        if let Some(aside) = &self.aside {
            self.queue.leave(aside.taker);
        }
        self.queue.give_back(self.held.drain(..));
    }
}

impl Source for HelperLease<'_, '_, '_> {
    fn next(&mut self) -> Option<Portion> {
        let (portion, _) = self.queue.take(self.taker)?;
        self.held.push_back(portion.clone());
        Some(portion)
    }

    fn done(&mut self, portion: Portion, outcome: Outcome) {
        let place = self.held.iter().position(|held| *held == portion);
        self.held
            .remove(place.expect("what is done was taken before, and only once"));
        self.queue.done(self.taker, &portion, outcome);
    }

    fn meanwhile(&mut self, age: Duration) -> bool {
        let Some(aside) = self.aside.as_ref().filter(|aside| age < aside.until) else {
            return false;
        };
        let some = (aside.step)(aside.taker);
        if !some {
            // It does not ask again.
            self.aside = None;
        }
        some
    }
}
