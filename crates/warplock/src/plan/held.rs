//! What a helper has taken from a queue and not done: if it fails, that goes back.

use std::collections::VecDeque;

use super::queue::Queue;
use crate::portion::{Outcome, Portion, Source};

/// A helper's access to the queue: knows what the helper holds, and gives it back if it fails.
pub(crate) struct Held<'s, 'q, 'job> {
    queue: &'s Queue<'q, 'job>,
    taker: usize,
    held: VecDeque<Portion>,
}

impl<'s, 'q, 'job> Held<'s, 'q, 'job> {
    pub(crate) fn new(queue: &'s Queue<'q, 'job>, taker: usize) -> Self {
        Held {
            queue,
            taker,
            held: VecDeque::new(),
        }
    }
}

impl Drop for Held<'_, '_, '_> {
    /// Ends the helper's part in the job, and gives back what it has not done.
    fn drop(&mut self) {
        self.queue.leave(self.taker);
        self.queue.give_back(self.held.drain(..));
    }
}

impl Source for Held<'_, '_, '_> {
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
}
