//! A job on several threads: how many are worth it, and what each takes.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::CpuBackend;
use super::acorn;
use super::kernels::Io;
use super::message::Running;
use super::prepared::Prepared;
use super::run::CHAINS;
use crate::auto::Shape;
use crate::job::Job;
use crate::lock::lock;
use crate::pool::Pool;
use crate::{Algorithm, Direction, Mode};

/// About the bytes that a thread takes at a time: large against the cost of taking them, small
/// against the L2 cache.
const PIECE: usize = 256 << 10;

/// The fewest bytes of a piece.
pub(crate) const LEAST_PIECE: usize = 32 << 10;

/// A thread's part of a job is cut into this many pieces, so that all threads end together.
const PIECES: usize = 4;

/// In a job of several messages, those of this length and more are cut over the threads.
const LONG: usize = 2 * PIECE;

/// The cost of a message besides its text, in bytes of text.
const MESSAGE: usize = 256;

/// Jobs with less than this run on one thread.
const TINY: u64 = 16 << 10;

fn piece(bytes: usize, threads: usize) -> usize {
    let fair = (bytes / (PIECES * threads)).clamp(LEAST_PIECE, PIECE);
    fair.next_multiple_of(4096)
}

impl CpuBackend {
    /// The pool, and how many threads, counting the caller, are worth having for `bytes` in `count`
    /// messages, if that is more than one.
    #[inline]
    pub(super) fn worth(
        &self,
        (algorithm, direction): (Algorithm, Direction),
        bytes: u64,
        count: usize,
    ) -> Option<(&Pool, usize)> {
        let others = self.others.as_ref()?;
        let uncut = count == 1 && bytes <= LEAST_PIECE as u64;
        if uncut || bytes + (count * MESSAGE) as u64 <= TINY {
            return None;
        }
        let shape = Shape::of_bytes(algorithm, direction, bytes, count);
        let threads = others.worth(self.model.work(&shape));
        let threads = threads.min(shape.units());
        (threads > 1).then_some((others, threads))
    }

    /// Works on a message, as [`Running::update`]; long runs are cut over the threads.
    ///
    /// # Safety
    /// As [`Running::update`].
    pub(crate) unsafe fn advance(
        &self,
        state: &mut Running,
        prepared: &Prepared,
        what: (Algorithm, Direction),
        io: Io,
    ) {
        // SAFETY: by this function's contract.
        unsafe {
            match self.worth(what, io.len as u64, 1) {
                Some(others) => self.advance_cut(state, prepared, what.1, io, others),
                None => state.update(self.kernels, prepared, what.1, io),
            }
        }
    }

    /// [`CpuBackend::advance`] in pieces.
    ///
    /// # Safety
    /// As [`Running::update`].
    pub(super) unsafe fn advance_cut(
        &self,
        state: &mut Running,
        prepared: &Prepared,
        direction: Direction,
        io: Io,
        (others, threads): (&Pool, usize),
    ) {
        let len = piece(io.len, threads);
        let pieces: Vec<Mutex<(Running, Io)>> = (0..io.len)
            .step_by(len)
            .map(|offset| {
                let mut before = [0; 16];
                // SAFETY: inside `io`. Read before any piece is written, for work in place.
                let part = unsafe {
                    if offset > 0 {
                        let src = io.src.add(offset - 16);
                        src.copy_to_nonoverlapping(before.as_mut_ptr(), 16);
                    }
                    io.part(offset, len.min(io.len - offset))
                };
                let piece = if offset == 0 {
                    state.clone()
                } else {
                    state.skip(offset as u64 / 16, before)
                };
                Mutex::new((piece, part))
            })
            .collect();
        others.for_each_piece(threads, pieces.len(), |number| {
            let mut piece = lock(&pieces[number]);
            let (piece, io) = &mut *piece;
            // SAFETY: pieces do not overlap, and each is done once; the rest by this function's
            // contract.
            unsafe { piece.update(self.kernels, prepared, direction, *io) };
        });
        let done = pieces.into_iter().map(Mutex::into_inner);
        let mut done = done.map(|piece| piece.unwrap_or_else(PoisonError::into_inner).0);
        if let Some(first) = done.next() {
            *state = first;
        }
        for later in done {
            state.join(prepared, later);
        }
    }

    /// Runs a job on several threads: long messages one by one, short ones in groups.
    pub(super) fn run_parallel(&self, job: &Job<'_>, others: &Pool, threads: usize) -> Vec<usize> {
        let chained = job.info().mode == Mode::Cbc && job.direction() == Direction::Encrypt;
        let total = usize::try_from(job.text_bytes()).unwrap_or(usize::MAX);
        let fair = piece(total.saturating_add(MESSAGE * job.count()), threads);
        let chains = CHAINS.min(job.count().div_ceil(threads));
        // Messages that would keep one thread busy while the others have nothing to do.
        let acorn = job.info().mode == Mode::Acorn;
        let is_long = |len: usize| !chained && !acorn && len >= LONG;
        let together = acorn::TOGETHER.min(job.count().div_ceil(threads));
        let mut long = Vec::new();
        let mut groups: Vec<Range<usize>> = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for index in 0..job.count() {
            let len = job.text_len(index);
            if is_long(len) {
                if start < index {
                    groups.push(start..index);
                }
                long.push(index);
                (start, bytes) = (index + 1, 0);
                continue;
            }
            // A message costs something even when it is empty.
            bytes += len + MESSAGE;
            let full = if chained {
                index + 1 - start >= chains
            } else {
                bytes >= fair && (!acorn || index + 1 - start >= together)
            };
            if full {
                groups.push(start..index + 1);
                (start, bytes) = (index + 1, 0);
            }
        }
        if start < job.count() {
            groups.push(start..job.count());
        }
        let failed = Mutex::new(Vec::new());
        let note = |refused: Vec<usize>| {
            if !refused.is_empty() {
                lock(&failed).extend(refused);
            }
        };
        others.for_each_piece(threads, groups.len(), |number| {
            note(self.run_messages(job, groups[number].clone()));
        });
        for index in long {
            if !self.run_message(job, index) {
                note(vec![index]);
            }
        }
        let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.sort_unstable();
        failed
    }
}
