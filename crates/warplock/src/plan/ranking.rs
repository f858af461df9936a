//! Which team takes a job: by the model, by what jobs really took, and now and then by a try.

use super::cost::{Estimate, Team};
use super::learnt::{Learnt, Likeness};

/// GPUs must promise to be so much faster before a job leaves the processor.
pub(super) const MARGIN: f64 = 0.95;

/// A team that was not seen at jobs of a size for long is tried with two in a row, if it is not
/// expected to take more than so many times as long as the best: the first if it was seen before,
/// the second if it never was, and all that is known of it is the model's.
const WORTH_A_TRY: [f64; 2] = [1.5, 3.0];

/// Nor with a job of more nanoseconds: of long ones few come, and each try would be felt.
const CHEAP_TRY: f64 = 1e7;

/// Where others would take so many times as long as the processor, nobody asks for a while.
const FAR: f64 = 1.3;

/// Nor where they would not, about jobs of fewer nanoseconds: of those a look is a percent and
/// more.
const SHORT: f64 = 3e5;

/// The teams that could take a job, with what jobs like it have taught.
pub(super) struct Ranking<'a> {
    learnt: &'a Learnt,
    like: &'a Likeness,
    teams: &'a [Estimate],
}

impl<'a> Ranking<'a> {
    pub(super) fn new(learnt: &'a Learnt, like: &'a Likeness, teams: &'a [Estimate]) -> Self {
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
            Team::Cpu => MARGIN * self.time(estimate),
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
        if least >= CHEAP_TRY || !self.learnt.is_well_known(self.like, best.team) {
            return None;
        }
        self.teams.iter().find(|other| {
            let unseen = self.learnt.is_unseen(self.like, other.team);
            other.team != best.team
                && self.learnt.is_due(self.like, other.team)
                && self.rank(other) < WORTH_A_TRY[usize::from(unseen)] * least
        })
    }

    /// Whether the processor, which takes so long, is far faster than all others.
    pub(super) fn is_clear(&self, own: f64) -> bool {
        let mut others = self.teams.iter().filter(|other| other.team != Team::Cpu);
        others.all(|other| self.time(other) > FAR * own)
    }

    /// Whether the next jobs need not be asked about: the processor, which was chosen, is the best by
    /// far; or who was chosen is the best, nobody else is due, and the job is short.
    pub(super) fn is_settled(&self, chosen: &Estimate) -> bool {
        let own = self.time(chosen);
        chosen.team == Team::Cpu && self.is_clear(own)
            || own < SHORT && self.best().team == chosen.team && self.to_try(chosen).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Shape;
    use crate::{Algorithm, Direction};

    /// A try of the processor's does not give it the jobs after it.
    #[test]
    fn only_the_best_is_settled() {
        let shape = Shape::of_messages(Algorithm::Aes128Ctr, Direction::Encrypt, 1, 1 << 14);
        let like = Likeness::of(&shape, true);
        let teams = [Team::Cpu, Team::Gpus].map(|team| Estimate { team, time: 3e4 });
        for (slow, best) in [(Team::Cpu, 1), (Team::Gpus, 0)] {
            let mut learnt = Learnt::default();
            for _ in 0..6 {
                for team in [Team::Cpu, Team::Gpus] {
                    learnt.note(&like, team, if team == slow { 1.2 } else { 1.0 });
                }
            }
            let ranking = Ranking::new(&learnt, &like, &teams);
            let settled = [0, 1].map(|which| ranking.is_settled(&teams[which]));
            assert_eq!(settled, [best == 0, best == 1], "{slow:?} is slow");
        }
    }
}
