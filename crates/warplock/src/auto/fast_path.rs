//! The decision that a job is small enough for the CPU, from a few numbers per algorithm, so that
//! it takes nanoseconds even with cold caches.

use super::model::{EachWay, Model};
use crate::job::Job;
use crate::{Algorithm, Direction};

/// A model, and the limits that follow from it.
pub(super) struct FastPath {
    pub(super) model: Model,
    small: EachWay<Small>,
}

/// A CPU thread is certain to be faster than a GPU if it is expected to take less than this
/// fraction of the GPU's least time: clocks vary, and models are inexact.
const CPU_MARGIN: f64 = 0.5;

/// The jobs that one CPU thread finishes before a GPU would.
#[derive(Clone, Copy)]
struct Small {
    /// They have fewer bytes than this,
    bytes: u64,
    /// if each message counts as this many bytes.
    message: u64,
}

impl FastPath {
    pub(super) fn new(model: Model) -> Self {
        let small = EachWay::new(|algorithm, direction| {
            let cost = model.cpu.costs.of(algorithm, direction);
            let fixed = model.gpu.costs.of(algorithm, direction).fixed;
            Small {
                bytes: (CPU_MARGIN * fixed / cost.byte) as u64,
                message: (cost.message / cost.byte) as u64,
            }
        });
        FastPath { small, model }
    }

    #[inline]
    pub(super) fn is_small(&self, job: &Job<'_>) -> bool {
        let (algorithm, direction) = (job.info().algorithm, job.direction());
        self.are_small(algorithm, direction, job.count() as u64, job.text_bytes())
    }

    #[inline]
    pub(super) fn are_small(
        &self,
        algorithm: Algorithm,
        direction: Direction,
        messages: u64,
        bytes: u64,
    ) -> bool {
        let small = self.small.of(algorithm, direction);
        bytes.saturating_add(messages.saturating_mul(small.message)) < small.bytes
    }

    /// The length from which a single message is not small.
    pub(super) fn alone(&self, algorithm: Algorithm, direction: Direction) -> u64 {
        let small = self.small.of(algorithm, direction);
        small.bytes.saturating_sub(small.message)
    }
}
