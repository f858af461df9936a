//! What jobs really took: it corrects the model where that is wrong.

use std::collections::HashMap;

use super::cost::{Shape, Team};
use crate::{Algorithm, Direction};

/// Jobs that are alike take about the same time for a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likeness {
    kind: Kind,
    /// What the job's time is proportional to.
    pub(crate) weight: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    algorithm: Algorithm,
    direction: Direction,
    pinned: bool,
    /// Bytes and messages, each to a factor of two.
    bytes: u32,
    count: u32,
}

impl Likeness {
    pub(crate) fn of(shape: &Shape, pinned: bool) -> Self {
        Likeness {
            kind: Kind {
                algorithm: shape.algorithm,
                direction: shape.direction,
                pinned,
                bytes: (shape.bytes as u64).max(1).ilog2(),
                count: (shape.count as u64).max(1).ilog2(),
            },
            weight: shape.weight(),
        }
    }
}

/// Nanoseconds for a unit of weight, for each kind of job and each team that has done one.
#[derive(Default)]
pub(crate) struct Learnt(HashMap<(Kind, Team), f64>);

impl Learnt {
    pub(crate) fn note(&mut self, like: Likeness, team: Team, each: f64) {
        let known = self.0.entry((like.kind, team)).or_insert(each);
        // A run that was disturbed counts for little: the faster of the two, mostly.
        *known = match each < *known {
            true => (*known + 3.0 * each) / 4.0,
            false => (3.0 * *known + each) / 4.0,
        };
    }

    pub(crate) fn of(&self, like: &Likeness, team: Team) -> Option<f64> {
        self.0.get(&(like.kind, team)).copied()
    }
}
