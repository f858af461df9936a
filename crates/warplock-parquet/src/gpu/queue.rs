//! The groups on their way to the GPU, and the threads that bring them.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use warplock::cuda::{Lane, Region, Stream};

use super::group::Group;
use crate::error::{Error, Result};

/// From the thread that makes groups to those that copy them, and on to the one that opens them.
pub(super) struct Queue {
    /// GPU memory in which groups lie one after the other, round and round.
    pub(super) ring: Region,
    state: Mutex<State>,
    /// For threads that copy: there is a group, or room in the ring.
    claimable: Condvar,
    /// For the one that opens: a group was copied.
    copied: Condvar,
}

#[derive(Default)]
struct State {
    /// Groups with parts that no thread has claimed; `part` is the first one's next.
    to_copy: VecDeque<Arc<Group>>,
    part: usize,
    /// Groups that are not opened.
    to_open: VecDeque<Arc<Group>>,
    /// Where the ring's free memory ends, less its length.
    freed: u64,
    is_complete: bool,
    stopped: Option<Stop>,
}

/// Why nothing more is to be done.
enum Stop {
    Failed(Error),
    /// A thread panicked, or has passed on the error.
    Other,
}

/// What the thread that opens finds.
pub(super) enum Next {
    /// All copies of a group are queued.
    Group(Arc<Group>),
    /// Not yet.
    Later,
    End,
}

impl Queue {
    pub(super) fn new(ring: Region) -> Self {
        Queue {
            ring,
            state: Mutex::default(),
            claimable: Condvar::new(),
            copied: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, group: Group) {
        let group = Arc::new(group);
        let mut state = self.state();
        state.to_copy.push_back(Arc::clone(&group));
        state.to_open.push_back(group);
        self.claimable.notify_all();
    }

    /// No more groups come.
    pub(super) fn end(&self) {
        self.state().is_complete = true;
        self.claimable.notify_all();
        self.copied.notify_all();
    }

    /// Lets all threads end. The first error counts.
    pub(super) fn stop(&self, error: Error) {
        self.halt(Stop::Failed(error));
    }

    /// Lets all threads end: groups are no longer opened.
    pub(super) fn quit(&self) {
        self.halt(Stop::Other);
    }

    fn halt(&self, stop: Stop) {
        self.state().stopped.get_or_insert(stop);
        self.claimable.notify_all();
        self.copied.notify_all();
    }

    /// A part to copy; `None` when there are no more.
    pub(super) fn claim(&self) -> Option<(Arc<Group>, usize)> {
        let mut state = self.state();
        loop {
            if state.stopped.is_some() {
                return None;
            }
            let has_room =
                |group: &&Arc<Group>| group.place.end <= state.freed + self.ring.len() as u64;
            if let Some(group) = state.to_copy.front().filter(has_room) {
                let (group, part) = (Arc::clone(group), state.part);
                state.part += 1;
                if state.part == group.parts() {
                    state.part = 0;
                    state.to_copy.pop_front();
                }
                return Some((group, part));
            }
            if state.is_complete && state.to_copy.is_empty() {
                return None;
            }
            let waited = self.claimable.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The copy of a part of the group is queued.
    pub(super) fn queued(&self, group: &Group) {
        if group.left.fetch_sub(1, AcqRel) == 1 {
            let _state = self.state();
            self.copied.notify_all();
        }
    }

    /// The next group to open; waits for it if `wait`.
    ///
    /// # Errors
    /// Why the queue was stopped.
    pub(super) fn next(&self, wait: bool) -> Result<Next> {
        let mut state = self.state();
        loop {
            if let Some(stop) = &mut state.stopped {
                return match std::mem::replace(stop, Stop::Other) {
                    Stop::Failed(error) => Err(error),
                    Stop::Other => Ok(Next::End),
                };
            }
            match state.to_open.front() {
                Some(group) if group.left.load(Acquire) == 0 => {
                    let group = state.to_open.pop_front();
                    return Ok(group.map_or(Next::End, Next::Group));
                }
                None if state.is_complete => return Ok(Next::End),
                _ if !wait => return Ok(Next::Later),
                _ => {}
            }
            let waited = self.copied.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// All groups up to this place of the ring are opened.
    pub(super) fn free(&self, end: u64) {
        self.state().freed = end;
        self.claimable.notify_all();
    }

    /// Where a group lies on the GPU.
    pub(super) fn region(&self, group: &Group) -> Region {
        match &group.memory {
            Some(memory) => memory.region(),
            None => {
                let start = group.place.start % self.ring.len() as u64;
                self.ring.part(start as usize, group.len())
            }
        }
    }

    /// Stops the queue if the thread that has it panics: others would wait for it for ever.
    pub(super) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

pub(super) struct Guard<'a>(&'a Queue);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.quit();
        }
    }
}

/// What threads need that copy groups to the GPU.
pub(super) struct Filling<'a> {
    pub(super) queue: &'a Queue,
    pub(super) source: &'a [u8],
    pub(super) file: Option<&'a File>,
    /// All copies are in one stream: the link does one at a time anyway, and changes between
    /// streams cost it 3 % on an H200.
    pub(super) stream: &'a Stream,
}

impl Filling<'_> {
    /// Copies until there are no more groups.
    pub(super) fn work(&self, lanes: Result<&mut [Lane; 2]>) {
        let _guard = self.queue.guard();
        let lanes = match lanes {
            Ok(lanes) => lanes,
            Err(error) => return self.queue.stop(error),
        };
        let copied = self.copy_all(lanes);
        // Also after an error: the GPU may still read what the lanes have.
        let waited = lanes.iter_mut().try_for_each(|lane| lane.ready().map(drop));
        if let Err(error) = copied.and(waited.map_err(Error::from)) {
            self.queue.stop(error);
        }
    }

    fn copy_all(&self, lanes: &mut [Lane; 2]) -> Result<()> {
        let mut turn = 0;
        while let Some((group, number)) = self.queue.claim() {
            let part = group.part(number);
            let (start, len) = (part.start, part.len());
            let lane = &mut lanes[turn];
            turn ^= 1;
            let pinned = &mut lane.ready()?[..len];
            group
                .read(part, self.source, self.file, pinned)
                .map_err(Error::Read)?;
            let to = self.queue.region(&group).part(start, len);
            // SAFETY: the ring and groups' own memory live until all streams are synchronized; this
            // part of it is free, and opened only after the copy.
            unsafe { lane.upload(0..len, to, self.stream)? };
            self.queue.queued(&group);
        }
        Ok(())
    }
}
