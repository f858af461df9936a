//! Which team takes a job: by the model, by what jobs really took, and now and then by a try.

use super::corrections::{Corrections, Likeness};
use super::model::{Estimate, Team};

/// GPUs must promise to be so much faster before a job leaves the processor.
pub(super) const GPU_MARGIN: f64 = 0.95;

/// A team that was not seen at jobs of a size for long is tried with two in a row, if it is not
/// expected to take more than so many times as long as the best: the first if it was seen before,
/// the second if it never was, and all that is known of it is the model's.
const RETRY_RATIO: [f64; 2] = [1.5, 3.0];

/// Nor with a job of more nanoseconds: of long ones few come, and each try would be felt.
const RETRY_MAX_NANOSECONDS: f64 = 1e7;

/// The teams that could take a job, with what jobs like it have taught.
pub(super) struct Ranking<'a> {
    learnt: &'a Corrections,
    like: &'a Likeness,
    teams: &'a [Estimate],
}

impl<'a> Ranking<'a> {
    pub(super) fn new(learnt: &'a Corrections, like: &'a Likeness, teams: &'a [Estimate]) -> Self {
        Ranking {
            learnt,
            like,
            teams,
        }
    }

    /// A team's time as the model expects it and jobs have corrected it.
    pub(super) fn time(&self, estimate: &Estimate) -> f64 {
        estimate.time * self.learnt.factor(self.like, estimate.team)
    }

    /// The same, with what GPUs must promise.
    fn rank(&self, estimate: &Estimate) -> f64 {
        match estimate.team {
            Team::Cpu => GPU_MARGIN * self.time(estimate),
            Team::Gpus | Team::Both => self.time(estimate),
        }
    }

    /// The team with the least time.
    pub(super) fn best(&self) -> &'a Estimate {
        let all = self.teams.iter();
        all.min_by(|a, b| self.rank(a).total_cmp(&self.rank(b)))
            .expect("the processor is always a team")
    }

    /// Another team that might have become better than the `best`: the model may be wrong about it,
    /// or clocks and neighbours have changed, and who is not tried cannot show it. Only where the
    /// best is well known: a program's first jobs go where they should.
    pub(super) fn to_try(&self, best: &Estimate) -> Option<&'a Estimate> {
        let least = self.rank(best);
        if least >= RETRY_MAX_NANOSECONDS || !self.learnt.is_well_known(self.like, best.team) {
            return None;
        }
        self.teams.iter().find(|other| {
            let unseen = self.learnt.is_unseen(self.like, other.team);
            other.team != best.team
                && self.learnt.is_due(self.like, other.team)
                && self.rank(other) < RETRY_RATIO[usize::from(unseen)] * least
        })
    }
}
