//! What is known of a machine, and what a look at a job needs of it: a few numbers, so that the look
//! takes nanoseconds, also with cold caches.

use std::sync::atomic::{AtomicU64, Ordering};

use super::cost::{Model, Team};
use crate::job::{Job, Message};
use crate::{Algorithm, Direction};

/// A model, and what follows from it.
pub(super) struct Known {
    pub(super) model: Model,
    /// By algorithm and direction.
    small: Vec<[Small; 2]>,
    /// The same, for the processor and for GPUs.
    settled: Vec<[Settled; 2]>,
    settled_on_gpus: Vec<[Settled; 2]>,
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

/// A single message of an algorithm and direction was the processor's or the GPUs', and the next ones
/// of its size are not asked about: the whole look takes 2 to 4 us of the 25 that 1 MiB of CTR takes
/// on sixteen cores, or of the 40 that 256 KiB take on a GPU.
#[derive(Default)]
struct Settled {
    /// In one number, so that it is read and written at once: the class of their size, and behind
    /// it how many of them are left.
    left: AtomicU64,
    /// Where they must lie.
    memory: AtomicU64,
}

/// Where a message lies: a number that tells places apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Memory(u64);

impl Memory {
    /// In any kind of memory.
    pub(super) const ANY: Self = Memory(0);

    #[inline]
    pub(super) fn of(message: &Message<'_>) -> Self {
        let [input, output] = [message.input.addr(), message.output.addr()].map(|at| at as u64);
        Memory((input ^ output.rotate_left(32)).max(1))
    }
}

/// So many are not asked about: few, as what is best changes from second to second, and these take
/// milliseconds.
pub(super) const MANY: u64 = 14;

/// The class of a size: quarters of a power of two.
#[inline]
fn class(bytes: u64) -> u64 {
    let k = bytes.max(4).ilog2();
    4 * u64::from(k) + (bytes >> (k - 2) & 3)
}

impl Settled {
    /// Whether a message is settled; then it counts as one of them.
    #[inline]
    fn take(&self, bytes: u64, memory: Memory) -> bool {
        let now = self.left.load(Ordering::Relaxed);
        let (class_of, left) = (now >> 32, now & u64::from(u32::MAX));
        let place = Memory(self.memory.load(Ordering::Relaxed));
        let other = place != memory && place != Memory::ANY;
        if class_of != class(bytes) || left == 0 || other {
            return false;
        }
        // Of messages at the same time some are not counted, or are taken for those of another
        // place, which does no harm.
        self.left.store(now - 1, Ordering::Relaxed);
        true
    }

    fn settle(&self, bytes: u64, memory: Memory) {
        self.memory.store(memory.0, Ordering::Relaxed);
        self.left
            .store(class(bytes) << 32 | MANY, Ordering::Relaxed);
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
            settled_on_gpus: for_all(|_, _| Settled::default()),
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
    pub(super) fn is_settled(
        &self,
        algorithm: Algorithm,
        direction: Direction,
        message: &Message<'_>,
    ) -> bool {
        let (len, memory) = (message.len as u64, Memory::of(message));
        of(&self.settled, algorithm, direction).take(len, memory)
    }

    /// The next messages like that of a job that has one are a team's: those in the memory that
    /// `which` gives.
    pub(super) fn settle(&self, job: &Job<'_>, team: Team, which: impl FnOnce() -> Option<Memory>) {
        let all = match team {
            Team::Cpu => &self.settled,
            Team::Gpus | Team::Both => &self.settled_on_gpus,
        };
        if job.count() == 1
            && let Some(which) = which()
        {
            of(all, job.info().algorithm, job.direction()).settle(job.text_bytes(), which);
        }
    }

    /// Whether a job of one message is the GPUs', as those of its size before it.
    pub(super) fn is_settled_on_gpus(&self, job: &Job<'_>) -> bool {
        let settled = of(&self.settled_on_gpus, job.info().algorithm, job.direction());
        job.count() == 1 && settled.take(job.text_bytes(), Memory::of(&job.message(0)))
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
        let [here, there] = [Memory(1), Memory(2)];
        let take = |bytes| settled.take(bytes, here);
        assert!(!take(0) && !take(1 << 20));
        settled.settle(1 << 20, Memory::ANY);
        // A quarter more is another size.
        assert!(!take(5 << 18) && !take((1 << 20) - 1));
        let taken = (0..100).filter(|_| take((5 << 18) - 1)).count();
        assert_eq!(taken as u64, MANY);
        settled.settle(u64::MAX, here);
        assert!(take(u64::MAX) && !take(1 << 20) && !settled.take(u64::MAX, there));
    }
}
