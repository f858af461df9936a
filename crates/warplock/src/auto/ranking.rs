//! The choice of a team: from the model, from corrections, and now and then from a try.

use super::corrections::{Corrections, Likeness};
use super::model::{Estimate, Team};

/// GPUs must be expected to take less than this fraction of the CPU's time.
pub(super) const GPU_MARGIN: f64 = 0.95;

/// A team that has not done jobs of a size for long is tried with two in a row, unless it is
/// expected to take this many times as long as the best: the first value if it was seen before, the
/// second if it never was, so that only the model speaks.
const RETRY_RATIO: [f64; 2] = [1.5, 3.0];

/// Jobs that take more nanoseconds are not used for tries: they are rare, and a slow try would be
/// noticed.
const RETRY_MAX_NANOSECONDS: f64 = 1e7;

impl Corrections {
    /// A team's corrected time.
    pub(super) fn time(&self, like: &Likeness, estimate: &Estimate) -> f64 {
        estimate.time * self.factor(like, estimate.team)
    }

    /// A team's corrected time, with the margin that GPUs must have.
    fn rank(&self, like: &Likeness, estimate: &Estimate) -> f64 {
        match estimate.team {
            Team::Cpu => GPU_MARGIN * self.time(like, estimate),
            Team::Gpus | Team::Both => self.time(like, estimate),
        }
    }

    /// The team with the least time.
    pub(super) fn best<'a>(&self, like: &Likeness, teams: &'a [Estimate]) -> &'a Estimate {
        let all = teams.iter();
        all.min_by(|a, b| self.rank(like, a).total_cmp(&self.rank(like, b)))
            .expect("the CPU is always a team")
    }

    /// Another team that might have become better than the `best`: the model may be wrong, or
    /// clocks and other programs have changed, and only a try can show it. Only if the best is
    /// reliably known, so that a program's first jobs go where they should.
    pub(super) fn to_try<'a>(
        &self,
        like: &Likeness,
        teams: &'a [Estimate],
        best: &Estimate,
    ) -> Option<&'a Estimate> {
        let least = self.rank(like, best);
        if least >= RETRY_MAX_NANOSECONDS || !self.is_well_known(like, best.team) {
            return None;
        }
        teams.iter().find(|other| {
            let unseen = self.is_unseen(like, other.team);
            other.team != best.team
                && self.is_due(like, other.team)
                && self.rank(like, other) < RETRY_RATIO[usize::from(unseen)] * least
        })
    }
}
