//! Copies between the caller's memory and page-locked memory, by several threads.

use std::num::NonZeroUsize;
use std::ops::Range;

use super::cut::{Chunk, Part};
use super::near::Near;
use crate::job::Job;
use crate::threads::Threads;

/// What a thread copies at a time: large against the cost of taking it, and in its cache.
const BLOCK: usize = 256 << 10;

/// Nanoseconds that one thread takes to copy a byte, about.
const BYTE: f64 = 0.12;

/// Bytes that lie together in the caller's memory and in a chunk's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Where they lie in the caller's memory.
    pub(crate) user: *mut u8,
    /// Where they lie in the chunk's text.
    pub(crate) place: usize,
    pub(crate) len: usize,
}

// SAFETY: a pointer into what the job borrows; different runs do not overlap where they are
// written.
unsafe impl Send for Run {}
// SAFETY: as above.
unsafe impl Sync for Run {}

impl Run {
    /// Whether it lies inside these addresses.
    pub(crate) fn inside(&self, addresses: &Range<usize>) -> bool {
        let start = self.user as usize;
        addresses.start <= start && start + self.len <= addresses.end
    }

    fn part(self, offset: usize, len: usize) -> Run {
        Run {
            user: self.user.wrapping_add(offset),
            place: self.place + offset,
            len,
        }
    }
}

/// Joins runs that follow each other on both sides.
fn joined(runs: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut all: Vec<Run> = Vec::new();
    for run in runs.filter(|run| run.len > 0) {
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

/// Runs of one length at even distances on both sides: one copy for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) first: Run,
    pub(crate) count: usize,
    /// From one to the next in the caller's memory, and in the chunk's text.
    pub(crate) user_pitch: usize,
    pub(crate) place_pitch: usize,
}

/// Shorter rows are gathered. The device alone is nearly as fast with rows of 512 bytes; jobs with
/// such were not measured.
const LEAST_ROW: usize = 2048;

/// The driver refuses more.
const MOST_PITCH: usize = i32::MAX as usize;

impl Rows {
    fn of(run: Run) -> Self {
        Rows {
            first: run,
            count: 1,
            user_pitch: run.len,
            place_pitch: run.len,
        }
    }

    /// Run number `index`.
    pub(crate) fn run(&self, index: usize) -> Run {
        Run {
            user: self.first.user.wrapping_add(index * self.user_pitch),
            place: self.first.place + index * self.place_pitch,
            len: self.first.len,
        }
    }

    /// Takes a run in, if it follows as the others do.
    fn take(&mut self, run: &Run) -> bool {
        let Rows { first, count, .. } = *self;
        if run.len != first.len || run.len < LEAST_ROW {
            return false;
        }
        if count == 1 {
            let pitch = |to: usize, from: usize| {
                let pitch = to.checked_sub(from)?;
                (first.len..=MOST_PITCH).contains(&pitch).then_some(pitch)
            };
            let user = pitch(run.user as usize, first.user as usize);
            let Some(pitches) = user.zip(pitch(run.place, first.place)) else {
                return false;
            };
            (self.user_pitch, self.place_pitch) = pitches;
        }
        let takes = self.run(count) == *run;
        self.count += usize::from(takes);
        takes
    }
}

/// Runs as copies for the device.
pub(crate) fn rows(runs: &[Run]) -> Vec<Rows> {
    let mut all: Vec<Rows> = Vec::new();
    for run in runs {
        if !all.last_mut().is_some_and(|last| last.take(run)) {
            all.push(Rows::of(*run));
        }
    }
    all
}

fn part_run(part: &Part, start: *mut u8) -> Run {
    Run {
        user: start.wrapping_add(part.before),
        place: part.place,
        len: part.len,
    }
}

/// What a chunk takes from the caller. The keys of single blocks lie behind their text.
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
    let parts = chunk.parts().iter();
    joined(parts.map(|part| part_run(part, job.message(part.message).input.cast_mut())))
}

/// What a chunk gives to the caller.
pub(crate) fn outputs(job: &Job<'_>, chunk: &Chunk) -> Vec<Run> {
    if let Chunk::Blocks(messages) = chunk {
        let (_, _, text) = single_blocks(job, messages);
        return vec![text_run(text, messages)];
    }
    let parts = chunk.parts().iter();
    joined(parts.map(|part| part_run(part, job.message(part.message).output)))
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

/// Bytes of a chunk's text, with what lies between messages.
pub(crate) fn extent(inputs: &[Run]) -> usize {
    inputs.last().map_or(0, |run| run.place + run.len)
}

/// The start of page-locked memory.
#[derive(Clone, Copy)]
struct Base(*mut u8);

// SAFETY: threads use different runs behind it.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

impl Base {
    /// # Safety
    /// The run's place lies in the memory that starts here.
    unsafe fn at(self, run: Run) -> *mut u8 {
        // SAFETY: by this function's contract.
        unsafe { self.0.add(run.place) }
    }
}

/// Copies with several threads.
pub(crate) struct Copier {
    others: Option<Threads>,
}

impl Copier {
    /// With so many threads, the caller's with them, on cores near the device if they are known;
    /// with one, or if no more can be had, on the thread that calls.
    pub(crate) fn new(threads: NonZeroUsize, near: Option<Near>) -> Self {
        let others = threads.get() - 1;
        let stay = move || near.iter().for_each(Near::stay);
        Copier {
            others: (others > 0)
                .then(|| Threads::new(others, "copy", stay).ok())
                .flatten(),
        }
    }

    fn each(&self, runs: &[Run], work: impl Fn(Run) + Sync) {
        let total: usize = runs.iter().map(|run| run.len).sum();
        let worth = |others: &Threads| others.worth(BYTE * total as f64);
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
        // Many short ones are taken together.
        let together = (blocks.len() * BLOCK / total).max(1);
        others.share(threads, blocks.len().div_ceil(together), |number| {
            let first = number * together;
            let last = blocks.len().min(first + together);
            blocks[first..last].iter().copied().for_each(&work);
        });
    }

    /// From the caller to page-locked memory at `to`.
    ///
    /// # Safety
    /// All runs are valid on both sides, and nobody writes there during the call.
    pub(crate) unsafe fn gather(&self, runs: &[Run], to: *mut u8) {
        let to = Base(to);
        self.each(runs, |run| {
            // SAFETY: by this function's contract; the runs' places do not overlap.
            unsafe { run.user.copy_to_nonoverlapping(to.at(run), run.len) };
        });
    }

    /// From page-locked memory at `from` to the caller; with `wipe`, zeros stay behind.
    ///
    /// # Safety
    /// All runs are valid on both sides, they do not overlap, and nobody else uses the memory
    /// during the call.
    pub(crate) unsafe fn scatter(&self, runs: &[Run], from: *mut u8, wipe: bool) {
        let from = Base(from);
        self.each(runs, |run| {
            // SAFETY: by this function's contract.
            unsafe {
                let source = from.at(run);
                run.user.copy_from_nonoverlapping(source, run.len);
                if wipe {
                    wipe_bytes(source, run.len);
                }
            }
        });
    }
}

/// Overwrites with zeros, also where a compiler sees no reader.
///
/// # Safety
/// `at` is valid for `len` bytes, and nobody else uses them.
unsafe fn wipe_bytes(at: *mut u8, len: usize) {
    // SAFETY: by this function's contract.
    unsafe { at.write_bytes(0, len) };
    // The memory is read by a device, and the pointer is opaque here: no store can be left out.
    std::hint::black_box(at);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs from offsets in the caller's memory, places and lengths.
    fn runs(of: &[(usize, usize, usize)]) -> Vec<Run> {
        let run = |&(user, place, len)| Run {
            user: std::ptr::without_provenance_mut(1 << 20 | user),
            place,
            len,
        };
        of.iter().map(run).collect()
    }

    #[test]
    fn even_runs_are_rows() {
        let counts = |of: &[(usize, usize, usize)]| -> Vec<usize> {
            let runs = runs(of);
            let rows = rows(&runs);
            let again = rows
                .iter()
                .flat_map(|rows| (0..rows.count).map(|i| rows.run(i)));
            assert_eq!(again.collect::<Vec<_>>(), runs);
            rows.iter().map(|rows| rows.count).collect()
        };
        const L: usize = LEAST_ROW;
        assert_eq!(counts(&[]), []);
        assert_eq!(counts(&[(0, 0, 16)]), [1]);
        assert_eq!(counts(&[(0, 0, L), (3 * L, L, L), (6 * L, 2 * L, L)]), [3]);
        // Another distance, another length, the wrong order, too short.
        assert_eq!(
            counts(&[(0, 0, L), (3 * L, L, L), (7 * L, 2 * L, L)]),
            [2, 1]
        );
        assert_eq!(
            counts(&[(0, 0, L), (3 * L, L, L), (6 * L, 3 * L, L)]),
            [2, 1]
        );
        assert_eq!(
            counts(&[(0, 0, L), (3 * L, L, L), (6 * L, 2 * L, L - 16)]),
            [2, 1]
        );
        assert_eq!(
            counts(&[(9 * L, 0, L), (6 * L, L, L), (3 * L, 2 * L, L)]),
            [1, 1, 1]
        );
        assert_eq!(counts(&[(0, 0, L - 1), (3 * L, L, L - 1)]), [1, 1]);
    }
}
