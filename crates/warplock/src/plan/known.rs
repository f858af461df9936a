//! What is known of a machine, and what a look at a job needs of it: a few numbers, so that the look
//! takes nanoseconds, also with cold caches.

use std::sync::atomic::{AtomicU64, Ordering};

use super::cost::Model;
use crate::job::Job;
use crate::{Algorithm, Direction};

/// A model, and what follows from it.
pub(super) struct Known {
    pub(super) model: Model,
    /// By algorithm and direction.
    small: Vec<[Small; 2]>,
    /// The same.
    settled: Vec<[Settled; 2]>,
}

/// A CPU thread has done a job surely before a GPU, if it is expected in this part of the least
/// time that a GPU takes: clocks fall, and models are wrong.
const SURELY: f64 = 0.5;

/// Jobs that one CPU thread has done before a GPU would be.
#[derive(Clone, Copy)]
struct Small {
    /// They have fewer bytes than this,
    bytes: u64,
    /// where a message counts as so many.
    message: u64,
}

/// A single message of an algorithm and direction was the processor's so clearly that the next
/// ones of its size are not asked about: the whole look takes 2 to 4 us of the 25 that 1 MiB of CTR
/// takes on sixteen cores. In one number, so that it is read and written at once: the class of their
/// size, and behind it how many of them are left.
#[derive(Default)]
struct Settled(AtomicU64);

/// So many are not asked about.
const SETTLED: u64 = 15;

/// The class of a size: quarters of a power of two.
#[inline]
fn class(bytes: u64) -> u64 {
    let k = bytes.max(4).ilog2();
    4 * u64::from(k) + (bytes >> (k - 2) & 3)
}

impl Settled {
    /// Whether a message is settled; then it counts as one of them.
    #[inline]
    fn take(&self, bytes: u64) -> bool {
        let now = self.0.load(Ordering::Relaxed);
        let (class_of, left) = (now >> 32, now & u64::from(u32::MAX));
        if class_of != class(bytes) || left == 0 {
            return false;
        }
        // Of messages at the same time some are not counted, which does no harm.
        self.0.store(now - 1, Ordering::Relaxed);
        true
    }

    fn settle(&self, bytes: u64) {
        self.0
            .store(class(bytes) << 32 | SETTLED, Ordering::Relaxed);
    }
}

impl Known {
    pub(super) fn new(model: Model) -> Self {
        let small = |algorithm, direction| {
            let cost = model.cpu.costs.of(algorithm, direction);
            let fixed = model.gpu.costs.of(algorithm, direction).fixed;
            Small {
                bytes: (SURELY * fixed / cost.byte) as u64,
                message: (cost.message / cost.byte) as u64,
            }
        };
        Known {
            small: for_all(small),
            settled: for_all(|_, _| Settled::default()),
            model,
        }
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
        let small = self.small(algorithm, direction);
        bytes.saturating_add(messages.saturating_mul(small.message)) < small.bytes
    }

    /// Whether a message that comes alone is the processor's, as those of its size before it.
    #[inline]
    pub(super) fn is_settled(&self, algorithm: Algorithm, direction: Direction, len: u64) -> bool {
        of(&self.settled, algorithm, direction).take(len)
    }

    /// The next messages of this size that come alone are the processor's.
    pub(super) fn settle(&self, algorithm: Algorithm, direction: Direction, len: u64) {
        of(&self.settled, algorithm, direction).settle(len);
    }

    /// The least length of one message that is not small.
    pub(super) fn alone(&self, algorithm: Algorithm, direction: Direction) -> u64 {
        let small = self.small(algorithm, direction);
        small.bytes.saturating_sub(small.message)
    }

    #[inline]
    fn small(&self, algorithm: Algorithm, direction: Direction) -> Small {
        *of(&self.small, algorithm, direction)
    }
}

/// A value for each algorithm and direction.
fn for_all<T>(value: impl Fn(Algorithm, Direction) -> T) -> Vec<[T; 2]> {
    let both =
        |algorithm| [Direction::Encrypt, Direction::Decrypt].map(|way| value(algorithm, way));
    Algorithm::all().map(both).collect()
}

#[inline]
fn of<T>(all: &[[T; 2]], algorithm: Algorithm, direction: Direction) -> &T {
    &all[algorithm as usize][usize::from(direction == Direction::Decrypt)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_a_size_are_settled() {
        let settled = Settled::default();
        assert!(!settled.take(0) && !settled.take(1 << 20));
        settled.settle(1 << 20);
        // A quarter more is another size.
        assert!(!settled.take(5 << 18) && !settled.take((1 << 20) - 1));
        let taken = (0..100).filter(|_| settled.take((5 << 18) - 1)).count();
        assert_eq!(taken as u64, SETTLED);
        settled.settle(u64::MAX);
        assert!(settled.take(u64::MAX) && !settled.take(1 << 20));
    }
}
