//! Corrections of the model by the times that jobs really took.

use super::model::{Shape, Team};
use crate::{Algorithm, Direction};

/// The kind of jobs that a correction applies to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Likeness {
    algorithm: Algorithm,
    direction: Direction,
    pinned: bool,
    size: Size,
}

/// Bytes and messages, each rounded down to a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    bytes: u32,
    count: u32,
}

impl Likeness {
    pub(crate) fn of(shape: &Shape, pinned: bool) -> Self {
        Likeness {
            algorithm: shape.algorithm,
            direction: shape.direction,
            pinned,
            size: Size {
                bytes: (shape.bytes as u64).max(1).ilog2(),
                count: (shape.count as u64).max(1).ilog2(),
            },
        }
    }
}

impl Size {
    /// How much an observation at one size says about another, from 1 down to 0.
    fn nearness(self, other: Size) -> f64 {
        let square = |a: u32, b: u32| f64::from(a.abs_diff(b)).powi(2);
        let distance = square(self.bytes, other.bytes) + square(self.count, other.count);
        1.0 / (1.0 + distance / 4.0)
    }
}

/// The observations of jobs of about one size.
#[derive(Clone, Copy, Debug)]
struct Seen {
    size: Size,
    /// The logarithm of measured time over expected time.
    off: f64,
    /// The number of jobs that it stands for. Falls while other teams are preferred.
    weight: f64,
    last: Turn,
    /// Whether the last job took far longer than those before it.
    was_slow: bool,
    /// Jobs that other teams have done since, and how many of them make this team due again.
    passed: u32,
    patience: u32,
}

/// Which of a team's jobs of a size the last one was. A first job finds everything idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    First,
    /// The first after other teams were preferred for long.
    FirstAgain,
    Later,
}

/// Corrections for each kind of job and each team. They also apply to similar sizes; the weight
/// falls with the distance.
#[derive(Default)]
pub(crate) struct Corrections(Vec<Vec<Seen>>);

/// The index of the corrections for a team.
fn place(like: &Likeness, team: Team) -> usize {
    let kind = 2 * like.algorithm as usize + like.direction as usize;
    TEAMS.len() * (2 * kind + usize::from(like.pinned)) + team as usize
}

const TEAMS: [Team; 3] = [Team::Cpu, Team::Gpus, Team::Both];

/// The model counts as much as this many jobs, and less once several jobs of exactly this size were
/// seen: where two teams are close, a fifth of the model's error would decide.
const MODEL_WEIGHT: f64 = 1.0;

/// GPUs are tried where the model says that they are about as fast as the CPU. The model may be
/// wrong, and only a try can show it.
const GPU_OPTIMISM: f64 = 0.85;

/// The most weight of jobs of one size, however many there were.
const MOST_WEIGHT: f64 = 4.0;

/// A job's measured time changes the estimate by at most this factor; the first of its size by at
/// most the second one. A first job also counts as half a job, and so does the first after a long
/// pause: kernels are loaded, buffers are allocated, the link wakes up.
const LARGEST_CORRECTIONS: [f64; 2] = [16.0, 4.0];
const FIRST_WEIGHT: f64 = 0.5;

/// A second job counts as such only if other teams did fewer jobs than this since the first.
const SECOND_WITHIN_JOBS: u32 = 12;

/// After this many jobs of other teams, a team is due for two jobs: initial and largest value. It
/// doubles each time, because a machine's first seconds are not typical.
const RETRY_AFTER_JOBS: [u32; 2] = [6, 96];

/// The weight of an observation is multiplied by this when another team is preferred.
const DECAY: f64 = 0.98;

/// The most that one slow job adds to an observation, as a logarithm: otherwise a single
/// disturbance would keep jobs away from a team until it is forgotten. A second slow job in a row
/// counts in full.
const LARGEST_SLOW_STEP: f64 = 0.15;

/// From this weight on, an observation is reliable.
const RELIABLE_WEIGHT: f64 = 2.0;

impl Corrections {
    /// The factor for the model's time of a team.
    pub(crate) fn factor(&self, like: &Likeness, team: Team) -> f64 {
        let hope: f64 = if team == Team::Cpu { 1.0 } else { GPU_OPTIMISM };
        let (mut sum, mut weights, mut of_this_size) = (0.0, 0.0, 0.0);
        for seen in self.0.get(place(like, team)).into_iter().flatten() {
            let weight = seen.weight * seen.size.nearness(like.size);
            sum += weight * seen.off;
            weights += weight;
            if seen.size == like.size {
                of_this_size = seen.weight;
            }
        }
        let model = MODEL_WEIGHT / f64::max(of_this_size, 1.0);
        ((sum + model * hope.ln()) / (weights + model)).exp()
    }

    /// The observation of a team's jobs of this size.
    fn seen(&self, like: &Likeness, team: Team) -> Option<&Seen> {
        let mut all = self.0.get(place(like, team)).into_iter().flatten();
        all.find(|seen| seen.size == like.size)
    }

    /// Whether a team has recently done more than one job of this size.
    pub(crate) fn is_well_known(&self, like: &Likeness, team: Team) -> bool {
        self.seen(like, team)
            .is_some_and(|seen| seen.weight >= RELIABLE_WEIGHT)
    }

    /// Whether a team has done no job of this size for long, or only one since then.
    pub(crate) fn is_due(&self, like: &Likeness, team: Team) -> bool {
        self.seen(like, team)
            .is_none_or(|seen| seen.last != Turn::Later || seen.passed >= seen.patience)
    }

    /// Whether a team has not yet done two jobs of this size.
    pub(crate) fn is_unseen(&self, like: &Likeness, team: Team) -> bool {
        self.seen(like, team)
            .is_none_or(|seen| seen.last == Turn::First)
    }

    /// Records that a job took `ratio` times what the model expected of its team.
    pub(crate) fn note(&mut self, like: &Likeness, team: Team, ratio: f64) {
        if self.0.is_empty() {
            self.0
                .resize_with(4 * TEAMS.len() * Algorithm::all().count(), Vec::new);
        }
        for other in TEAMS {
            let all = &mut self.0[place(like, other)];
            if other == team {
                Corrections::note_one(all, like.size, ratio.ln());
            } else {
                for seen in all {
                    seen.weight *= DECAY;
                    seen.passed = seen.passed.saturating_add(1);
                }
            }
        }
    }

    fn note_one(all: &mut Vec<Seen>, size: Size, off: f64) {
        let [most, first] = LARGEST_CORRECTIONS.map(f64::ln);
        let Some(seen) = all.iter_mut().find(|seen| seen.size == size) else {
            all.push(Seen {
                size,
                off: off.clamp(-first, first),
                weight: FIRST_WEIGHT,
                last: Turn::First,
                was_slow: false,
                passed: 0,
                patience: RETRY_AFTER_JOBS[0],
            });
            return;
        };
        let off = off.clamp(-most, most);
        // A slow job counts for little: of two, mostly the faster counts. After a second job, the
        // first counts for nothing.
        let second = seen.last != Turn::Later && seen.passed < SECOND_WITHIN_JOBS;
        let first = !second && (seen.last != Turn::Later || seen.passed >= seen.patience);
        let part = match (off < seen.off, second) {
            (true, true) => 1.0,
            (true, false) => 0.75,
            (false, _) => 0.25,
        };
        if second && seen.last == Turn::FirstAgain {
            seen.patience = (2 * seen.patience).min(RETRY_AFTER_JOBS[1]);
        }
        (seen.last, seen.weight) = match first {
            true => (Turn::FirstAgain, seen.weight.max(FIRST_WEIGHT)),
            false => (Turn::Later, (seen.weight + 1.0).min(MOST_WEIGHT)),
        };
        seen.passed = 0;
        let step = part * (off - seen.off);
        let was_slow = step > LARGEST_SLOW_STEP;
        seen.off += match was_slow && !seen.was_slow {
            true => LARGEST_SLOW_STEP,
            false => step,
        };
        seen.was_slow = was_slow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(bytes: usize, pinned: bool) -> Likeness {
        let shape = Shape::of_messages(Algorithm::Aes128Ctr, Direction::Encrypt, 1, bytes);
        Likeness::of(&shape, pinned)
    }

    #[test]
    fn jobs_correct_the_estimate_of_similar_sizes() {
        let mut corrections = Corrections::default();
        let here = like(1 << 22, false);
        assert_eq!(corrections.factor(&here, Team::Gpus), GPU_OPTIMISM);
        let mut last = GPU_OPTIMISM;
        for _ in 0..5 {
            corrections.note(&here, Team::Gpus, 4.0);
            let now = corrections.factor(&here, Team::Gpus);
            assert!(now > last);
            last = now;
        }
        assert!((3.5..4.0).contains(&last), "{last}");
        let near = corrections.factor(&like(1 << 23, false), Team::Gpus);
        let far = corrections.factor(&like(1 << 28, false), Team::Gpus);
        assert!(
            GPU_OPTIMISM < far && far < near && near < last,
            "{far} {near}"
        );
        // Other kinds of memory and other teams are not affected.
        assert_eq!(
            corrections.factor(&like(1 << 22, true), Team::Gpus),
            GPU_OPTIMISM
        );
        assert_eq!(corrections.factor(&here, Team::Cpu), 1.0);
    }

    #[test]
    fn reliable_observations_outweigh_the_model() {
        let mut corrections = Corrections::default();
        let here = like(4 << 20, true);
        (0..5).for_each(|_| corrections.note(&here, Team::Gpus, 1.3));
        let factor = corrections.factor(&here, Team::Gpus);
        assert!((1.25..1.3).contains(&factor), "{factor}");
    }

    #[test]
    fn an_unused_team_is_due_again_at_growing_intervals() {
        let mut corrections = Corrections::default();
        let here = like(16 << 10, true);
        assert!(corrections.is_due(&here, Team::Cpu));
        (0..3).for_each(|_| corrections.note(&here, Team::Gpus, 1.0));
        assert!(corrections.is_well_known(&here, Team::Gpus));
        assert!(
            !corrections.is_well_known(&here, Team::Cpu) && corrections.is_due(&here, Team::Cpu)
        );
        // Two tries each time. The first job counts for nothing after a faster second.
        for (slow, due_after) in [
            (3.0, 6),
            (2.0, 12),
            (3.0, 24),
            (2.0, 48),
            (3.0, 96),
            (2.0, 96),
        ] {
            corrections.note(&here, Team::Cpu, slow);
            assert!(corrections.is_due(&here, Team::Cpu));
            corrections.note(&here, Team::Cpu, 0.6);
            assert!(!corrections.is_due(&here, Team::Cpu));
            let factor = corrections.factor(&here, Team::Cpu);
            assert!((0.6..0.75).contains(&factor), "{factor}");
            let jobs = (1..1000).find(|_| {
                corrections.note(&here, Team::Gpus, 1.0);
                corrections.is_due(&here, Team::Cpu)
            });
            assert_eq!(jobs, Some(due_after));
            assert!(corrections.is_well_known(&here, Team::Gpus));
        }
    }

    #[test]
    fn a_team_seen_once_counts_as_unseen() {
        let mut corrections = Corrections::default();
        let here = like(1 << 20, true);
        assert!(corrections.is_unseen(&here, Team::Cpu));
        corrections.note(&here, Team::Cpu, 1.0);
        assert!(corrections.is_unseen(&here, Team::Cpu));
        corrections.note(&here, Team::Cpu, 1.0);
        assert!(
            !corrections.is_unseen(&here, Team::Cpu) && corrections.is_unseen(&here, Team::Both)
        );
    }

    #[test]
    fn one_disturbed_job_is_forgotten() {
        let mut corrections = Corrections::default();
        let here = like(1 << 20, true);
        corrections.note(&here, Team::Gpus, 1000.0);
        assert!(corrections.factor(&here, Team::Gpus) < 1.5);
        for _ in 0..3 {
            corrections.note(&here, Team::Gpus, 1.0);
        }
        assert!(corrections.factor(&here, Team::Gpus) < 1.1);
    }

    #[test]
    fn one_slow_job_changes_little_and_two_in_a_row_much() {
        let mut corrections = Corrections::default();
        let here = like(4 << 20, false);
        (0..5).for_each(|_| corrections.note(&here, Team::Cpu, 1.0));
        corrections.note(&here, Team::Cpu, 3.0);
        assert!(corrections.factor(&here, Team::Cpu) < 1.17);
        corrections.note(&here, Team::Cpu, 3.0);
        assert!(corrections.factor(&here, Team::Cpu) > 1.4);
    }

    #[test]
    fn a_slow_team_is_tried_again_but_seldom() {
        let mut corrections = Corrections::default();
        let here = like(1 << 20, true);
        (0..2).for_each(|_| corrections.note(&here, Team::Gpus, 2.0));
        let jobs = (0..10_000).find(|_| {
            corrections.note(&here, Team::Cpu, 1.0);
            corrections.factor(&here, Team::Gpus) < 1.1
        });
        assert!((20..500).contains(&jobs.unwrap()), "{jobs:?}");
    }
}
