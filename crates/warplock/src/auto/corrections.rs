//! What jobs really took: it corrects the model where that is wrong.

use super::model::{Shape, Team};
use crate::{Algorithm, Direction};

/// Jobs that a correction is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Likeness {
    algorithm: Algorithm,
    direction: Direction,
    pinned: bool,
    size: Size,
}

/// Bytes and messages, each to a factor of two.
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
    /// What is seen at one size says so much about another, from 1 down to 0.
    fn nearness(self, other: Size) -> f64 {
        let square = |a: u32, b: u32| f64::from(a.abs_diff(b)).powi(2);
        let distance = square(self.bytes, other.bytes) + square(self.count, other.count);
        1.0 / (1.0 + distance / 4.0)
    }
}

/// What was seen of jobs of about one size.
#[derive(Clone, Copy, Debug)]
struct Seen {
    size: Size,
    /// The logarithm of the time over what the model expected.
    off: f64,
    /// How many jobs it stands for; falls while others are preferred.
    weight: f64,
    last: Turn,
    /// Whether the last one took far longer than those before it.
    disturbed: bool,
    /// Jobs that others have done since, and after how many of them it is due again.
    passed: u32,
    patience: u32,
}

/// Which a team's last job of a size was. A first one finds everything asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    First,
    /// The first after others had been preferred for long.
    FirstAgain,
    Later,
}

/// Corrections for each kind of job and each team. They hold for neighbouring sizes, too, the less
/// the farther these are.
#[derive(Default)]
pub(crate) struct Corrections(Vec<Vec<Seen>>);

/// Where the corrections for a team are.
fn place(like: &Likeness, team: Team) -> usize {
    let kind = 2 * like.algorithm as usize + usize::from(like.direction == Direction::Decrypt);
    TEAMS.len() * (2 * kind + usize::from(like.pinned)) + team as usize
}

const TEAMS: [Team; 3] = [Team::Cpu, Team::Gpus, Team::Both];

/// The model counts as much as so many jobs; less, once several of the very size were seen: where
/// two teams are near each other, a fifth of its error would decide.
const MODEL_WEIGHT: f64 = 1.0;

/// GPUs are tried where the model says that they are about as good as the processor: it may be
/// wrong, and who is not tried cannot show it.
const GPU_OPTIMISM: f64 = 0.85;

/// More jobs of one size do not count more.
const MOST_WEIGHT: f64 = 4.0;

/// No job is taken for slower or faster than the model says by more than this factor; the first of
/// its size by more than the second. The first counts as half a job, too, as does the first after a
/// long while: kernels are loaded, buffers made, the link is woken.
const LARGEST_CORRECTIONS: [f64; 2] = [16.0, 4.0];
const FIRST_WEIGHT: f64 = 0.5;

/// Fewer jobs of others than this do not part a first job from its second.
const SECOND_WITHIN_JOBS: u32 = 12;

/// After so many jobs of others a team is due for two, at first and at last. Each time twice as
/// many: the first ones may be wrong, as a machine's first seconds are unlike those that follow.
const RETRY_AFTER_JOBS: [u32; 2] = [6, 96];

/// What is left of an observation when a team is passed over.
const DECAY: f64 = 0.98;

/// The most that one slow run alone adds to an observation, in logarithms: else it would keep jobs
/// from a team for as long as that takes to be forgotten. A second one in a row counts as it is.
const LARGEST_SLOW_STEP: f64 = 0.15;

/// From so much weight on, an observation is sure.
const RELIABLE_WEIGHT: f64 = 2.0;

impl Corrections {
    /// What the model's time for a team is to be multiplied with.
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

    /// What was seen of a team at jobs of this size.
    fn seen(&self, like: &Likeness, team: Team) -> Option<&Seen> {
        let mut all = self.0.get(place(like, team)).into_iter().flatten();
        all.find(|seen| seen.size == like.size)
    }

    /// Whether a team has done jobs of this size of late, and not its first alone.
    pub(crate) fn is_well_known(&self, like: &Likeness, team: Team) -> bool {
        self.seen(like, team)
            .is_some_and(|seen| seen.weight >= RELIABLE_WEIGHT)
    }

    /// Whether a team has done no job of this size for long, or a single one since then.
    pub(crate) fn is_due(&self, like: &Likeness, team: Team) -> bool {
        self.seen(like, team)
            .is_none_or(|seen| seen.last != Turn::Later || seen.passed >= seen.patience)
    }

    /// Whether a team has never done two jobs of this size.
    pub(crate) fn is_unseen(&self, like: &Likeness, team: Team) -> bool {
        self.seen(like, team)
            .is_none_or(|seen| seen.last == Turn::First)
    }

    /// Takes note that a job took `ratio` times what the model expected of its team.
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
                disturbed: false,
                passed: 0,
                patience: RETRY_AFTER_JOBS[0],
            });
            return;
        };
        let off = off.clamp(-most, most);
        // A run that was disturbed counts for little: the faster of the two, mostly; and after the
        // first, that one for nothing.
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
        let disturbed = step > LARGEST_SLOW_STEP;
        seen.off += match disturbed && !seen.disturbed {
            true => LARGEST_SLOW_STEP,
            false => step,
        };
        seen.disturbed = disturbed;
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
    fn jobs_correct_and_neighbours_learn() {
        let mut learnt = Corrections::default();
        let here = like(1 << 22, false);
        assert_eq!(learnt.factor(&here, Team::Gpus), GPU_OPTIMISM);
        let mut last = GPU_OPTIMISM;
        for _ in 0..5 {
            learnt.note(&here, Team::Gpus, 4.0);
            let now = learnt.factor(&here, Team::Gpus);
            assert!(now > last);
            last = now;
        }
        assert!((3.5..4.0).contains(&last), "{last}");
        let near = learnt.factor(&like(1 << 23, false), Team::Gpus);
        let far = learnt.factor(&like(1 << 28, false), Team::Gpus);
        assert!(
            GPU_OPTIMISM < far && far < near && near < last,
            "{far} {near}"
        );
        // Nothing is said about other memory and other teams.
        assert_eq!(
            learnt.factor(&like(1 << 22, true), Team::Gpus),
            GPU_OPTIMISM
        );
        assert_eq!(learnt.factor(&here, Team::Cpu), 1.0);
    }

    #[test]
    fn what_is_well_known_outweighs_the_model() {
        let mut learnt = Corrections::default();
        let here = like(4 << 20, true);
        (0..5).for_each(|_| learnt.note(&here, Team::Gpus, 1.3));
        let factor = learnt.factor(&here, Team::Gpus);
        assert!((1.25..1.3).contains(&factor), "{factor}");
    }

    #[test]
    fn who_is_passed_over_is_due_again_but_ever_more_seldom() {
        let mut learnt = Corrections::default();
        let here = like(16 << 10, true);
        assert!(learnt.is_due(&here, Team::Cpu));
        (0..3).for_each(|_| learnt.note(&here, Team::Gpus, 1.0));
        assert!(learnt.is_well_known(&here, Team::Gpus));
        assert!(!learnt.is_well_known(&here, Team::Cpu) && learnt.is_due(&here, Team::Cpu));
        // Tried twice, each time; the first job counts for nothing beside a faster second.
        for (slow, due_after) in [
            (3.0, 6),
            (2.0, 12),
            (3.0, 24),
            (2.0, 48),
            (3.0, 96),
            (2.0, 96),
        ] {
            learnt.note(&here, Team::Cpu, slow);
            assert!(learnt.is_due(&here, Team::Cpu));
            learnt.note(&here, Team::Cpu, 0.6);
            assert!(!learnt.is_due(&here, Team::Cpu));
            let factor = learnt.factor(&here, Team::Cpu);
            assert!((0.6..0.75).contains(&factor), "{factor}");
            let jobs = (1..1000).find(|_| {
                learnt.note(&here, Team::Gpus, 1.0);
                learnt.is_due(&here, Team::Cpu)
            });
            assert_eq!(jobs, Some(due_after));
            assert!(learnt.is_well_known(&here, Team::Gpus));
        }
    }

    #[test]
    fn who_was_seen_once_is_still_unseen() {
        let mut learnt = Corrections::default();
        let here = like(1 << 20, true);
        assert!(learnt.is_unseen(&here, Team::Cpu));
        learnt.note(&here, Team::Cpu, 1.0);
        assert!(learnt.is_unseen(&here, Team::Cpu));
        learnt.note(&here, Team::Cpu, 1.0);
        assert!(!learnt.is_unseen(&here, Team::Cpu) && learnt.is_unseen(&here, Team::Both));
    }

    #[test]
    fn a_disturbed_job_is_forgiven() {
        let mut learnt = Corrections::default();
        let here = like(1 << 20, true);
        learnt.note(&here, Team::Gpus, 1000.0);
        assert!(learnt.factor(&here, Team::Gpus) < 1.5);
        for _ in 0..3 {
            learnt.note(&here, Team::Gpus, 1.0);
        }
        assert!(learnt.factor(&here, Team::Gpus) < 1.1);
    }

    #[test]
    fn one_slow_job_changes_little_and_two_in_a_row_much() {
        let mut learnt = Corrections::default();
        let here = like(4 << 20, false);
        (0..5).for_each(|_| learnt.note(&here, Team::Cpu, 1.0));
        learnt.note(&here, Team::Cpu, 3.0);
        assert!(learnt.factor(&here, Team::Cpu) < 1.17);
        learnt.note(&here, Team::Cpu, 3.0);
        assert!(learnt.factor(&here, Team::Cpu) > 1.4);
    }

    #[test]
    fn what_was_slow_is_tried_again_but_seldom() {
        let mut learnt = Corrections::default();
        let here = like(1 << 20, true);
        (0..2).for_each(|_| learnt.note(&here, Team::Gpus, 2.0));
        let jobs = (0..10_000).find(|_| {
            learnt.note(&here, Team::Cpu, 1.0);
            learnt.factor(&here, Team::Gpus) < 1.1
        });
        assert!((20..500).contains(&jobs.unwrap()), "{jobs:?}");
    }
}
