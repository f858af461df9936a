//! Copies between the caller's memory and pinned memory, by several threads.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::cuda::driver::numa::Cores;
use crate::cuda::driver::rows::Run;
use crate::cuda::launch::cut::Chunk;
use crate::job::Job;
use crate::pool::Pool;

/// Bytes that a thread copies at a time: large against the cost of taking a block, and small enough
/// for its cache.
const BLOCK: usize = 256 << 10;

/// Nanoseconds that one thread takes to copy a byte, roughly.
const BYTE: f64 = 0.12;

/// The parts of a chunk, each after the start of its message in the caller's memory. Those that are
/// adjacent on both sides are one run.
fn part_runs(chunk: &Chunk, start: impl Fn(usize) -> *mut u8) -> Vec<Run> {
    let mut all: Vec<Run> = Vec::new();
    for part in chunk.parts().iter().filter(|part| part.len > 0) {
        let run = Run {
            user: start(part.message).wrapping_add(part.before),
            place: part.place,
            len: part.len,
        };
        match all.last_mut() {
            Some(last)
                if last.user.wrapping_add(last.len) == run.user
                    && last.place + last.len == run.place =>
            {
                last.len += run.len;
            }
            _ => all.push(run),
        }
    }
    all
}

/// The input of a chunk. The keys of single blocks follow their text.
pub(crate) fn inputs(job: &Job<'_>, chunk: &Chunk) -> Vec<Run> {
    if let Chunk::Blocks(messages) = chunk {
        let (keys, text, _) = single_blocks(job, messages);
        let keys = Run {
            user: keys.as_ptr().cast_mut(),
            place: 16 * messages.len(),
            len: keys.len(),
        };
        return vec![text_run(text.cast_mut(), messages), keys];
    }
    part_runs(chunk, |message| job.message(message).input.cast_mut())
}

pub(crate) fn outputs(job: &Job<'_>, chunk: &Chunk) -> Vec<Run> {
    if let Chunk::Blocks(messages) = chunk {
        let (_, _, text) = single_blocks(job, messages);
        return vec![text_run(text, messages)];
    }
    part_runs(chunk, |message| job.message(message).output)
}

fn single_blocks<'a>(job: &Job<'a>, messages: &Range<usize>) -> (&'a [u8], *const u8, *mut u8) {
    job.single_blocks(messages.clone())
        .expect("the cutter asked before it made this chunk")
}

fn text_run(user: *mut u8, messages: &Range<usize>) -> Run {
    Run {
        user,
        place: 0,
        len: 16 * messages.len(),
    }
}

/// Bytes of a chunk's text, including gaps between messages.
pub(crate) fn extent(inputs: &[Run]) -> usize {
    inputs.last().map_or(0, |run| run.place + run.len)
}

/// Copies with several threads.
pub(crate) struct Copier {
    others: Option<Pool>,
}

impl Copier {
    /// With `threads` threads, counting the caller, on cores near the device if these are known.
    /// With one, or if the system has no more, copies run on the calling thread.
    pub(crate) fn new(threads: NonZeroUsize, near: Option<Cores>) -> Self {
        let others = threads.get() - 1;
        let stay = move || near.iter().for_each(Cores::pin_thread);
        Copier {
            others: (others > 0)
                .then(|| Pool::new(others, "copy", stay).ok())
                .flatten(),
        }
    }

    fn each(&self, runs: &[Run], work: impl Fn(Run) + Sync) {
        let total: usize = runs.iter().map(|run| run.len).sum();
        let worth = |others: &Pool| others.worth(BYTE * total as f64);
        let threads = self.others.as_ref().map_or(1, worth);
        let Some(others) = self.others.as_ref().filter(|_| threads > 1) else {
            runs.iter().copied().for_each(work);
            return;
        };
        let cut = |run: &Run| {
            let (run, len) = (*run, run.len);
            (0..len)
                .step_by(BLOCK)
                .map(move |offset| run.part(offset, BLOCK.min(len - offset)))
        };
        let blocks: Vec<Run> = runs.iter().flat_map(cut).collect();
        // A thread takes many short runs at a time.
        let together = (blocks.len() * BLOCK / total).max(1);
        others.for_each_piece(threads, blocks.len().div_ceil(together), |number| {
            let first = number * together;
            let last = blocks.len().min(first + together);
            blocks[first..last].iter().copied().for_each(&work);
        });
    }

    /// From the caller to pinned memory at `to`.
    ///
    /// # Safety
    /// All runs are valid on both sides, and nothing else writes there during the call.
    pub(crate) unsafe fn gather(&self, runs: &[Run], to: *mut u8) {
        // Threads share it.
        let to = AtomicPtr::new(to);
        self.each(runs, |run| {
            // SAFETY: by this function's contract; the runs' places do not overlap.
            unsafe {
                let target = to.load(Ordering::Relaxed).add(run.place);
                run.user.copy_to_nonoverlapping(target, run.len);
            }
        });
    }

    /// From pinned memory at `from` to the caller; `wipe` overwrites the source with zeros.
    ///
    /// # Safety
    /// All runs are valid on both sides, they do not overlap, and nothing else uses the memory
    /// during the call.
    pub(crate) unsafe fn scatter(&self, runs: &[Run], from: *mut u8, wipe: bool) {
        let from = AtomicPtr::new(from);
        self.each(runs, |run| {
            // SAFETY: by this function's contract.
            unsafe {
                let source = from.load(Ordering::Relaxed).add(run.place);
                run.user.copy_from_nonoverlapping(source, run.len);
                if wipe {
                    wipe_bytes(source, run.len);
                }
            }
        });
    }
}

/// Overwrites with zeros, even if the compiler sees no reader.
///
/// # Safety
/// `at` is valid for `len` bytes, and nothing else uses them.
unsafe fn wipe_bytes(at: *mut u8, len: usize) {
    // SAFETY: by this function's contract.
    unsafe { at.write_bytes(0, len) };
    // A device reads the memory, and the pointer is opaque here: no store can be removed.
    std::hint::black_box(at);
}
