//! Copies of several runs of bytes between the caller's memory and a chunk's text.

use std::ops::Range;

/// A run of bytes that is contiguous in the caller's memory and in a chunk's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Its address in the caller's memory.
    pub(crate) user: *mut u8,
    /// Its offset in the chunk's text.
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

    pub(crate) fn part(self, offset: usize, len: usize) -> Run {
        Run {
            user: self.user.wrapping_add(offset),
            place: self.place + offset,
            len,
        }
    }
}

/// Runs of one length at even distances on both sides: one copy for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) first: Run,
    pub(crate) count: usize,
    /// The distance from one to the next in the caller's memory, and in the chunk's text.
    pub(crate) user_pitch: usize,
    pub(crate) place_pitch: usize,
}

/// Shorter rows are gathered by threads. The device alone is nearly as fast with rows of 512 bytes;
/// whole jobs with such rows were not measured.
const LEAST_ROW: usize = 2048;

/// The driver's limit.
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

    /// Adds a run if it continues the rows.
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

/// Groups runs into copies for the device.
pub(crate) fn rows(runs: &[Run]) -> Vec<Rows> {
    let mut all: Vec<Rows> = Vec::new();
    for run in runs {
        if !all.last_mut().is_some_and(|last| last.take(run)) {
            all.push(Rows::of(*run));
        }
    }
    all
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
