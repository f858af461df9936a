//! What is known of a machine, and what a look at a job needs of it: a few numbers, so that the look
//! takes nanoseconds, also with cold caches.

use std::sync::OnceLock;

use super::cost::{Model, Shape};
use super::queue::cuts;
use crate::job::Job;
use crate::{Algorithm, Direction};

/// A model, and what follows from it.
pub(super) struct Known {
    pub(super) model: Model,
    /// By algorithm and direction.
    small: Vec<[Small; 2]>,
    /// The same, of larger jobs, once it is known how many GPUs there are.
    sure: OnceLock<Vec<[Sure; 2]>>,
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

/// Where all GPUs, alone or beside the processor, are expected to take so many times as long as all
/// CPU threads, the processor does a job, and nobody looks further; a message that comes alone then
/// takes the shortest way, which saves 5 to 10 us of the 70 that 4 MiB of CTR take on sixteen cores.
const SURE: f64 = 1.3;

/// Bit by bit, whether jobs of a [`class`] are surely for the processor.
#[derive(Clone, Copy, Default)]
struct Sure(u128);

/// Sizes from 2^k bytes on, in quarters of 2^k, from 4 KiB on.
const CLASSES: u32 = 4 * (40 - LEAST_MEAN.ilog2());

/// The class of a size, if it has one.
#[inline]
fn class(bytes: u64) -> Option<u32> {
    let k = bytes.checked_ilog2()?.checked_sub(LEAST_MEAN.ilog2())?;
    let quarter = (bytes >> (k + LEAST_MEAN.ilog2() - 2)) as u32 & 3;
    Some(4 * k + quarter).filter(|&class| class < CLASSES)
}

/// The least size in a class.
fn least(class: u32) -> u64 {
    u64::from(4 + class % 4) << (LEAST_MEAN.ilog2() + class / 4 - 2)
}

/// Messages so short on average are not: what they cost beside their bytes would count.
const LEAST_MEAN: u64 = 4096;

impl Sure {
    fn new(
        model: &Model,
        (threads, gpus): (usize, usize),
        (algorithm, direction): (Algorithm, Direction),
    ) -> Self {
        if !cuts(algorithm, direction) {
            // How long such a job takes depends on its longest message.
            return Sure::default();
        }
        let is_sure = |bytes: u64| {
            let shape = Shape::of_bytes(algorithm, direction, bytes, 1);
            let teams = model.teams(&shape, threads, gpus, true);
            let others = teams[1..].iter().map(|team| team.time);
            SURE * teams[0].time < others.fold(f64::INFINITY, f64::min)
        };
        let all = |class: &u32| is_sure(least(*class)) && is_sure(least(class + 1) - 1);
        Sure((0..CLASSES).filter(all).map(|class| 1 << class).sum())
    }
}

impl Sure {
    #[inline]
    fn holds(self, bytes: u64) -> bool {
        class(bytes).is_some_and(|class| self.0 >> class & 1 == 1)
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
            sure: OnceLock::new(),
            model,
        }
    }

    /// Takes note of how many CPU threads and GPUs there are.
    pub(super) fn see(&self, threads: usize, gpus: usize) {
        self.sure.get_or_init(|| {
            for_all(|algorithm, direction| {
                Sure::new(&self.model, (threads, gpus), (algorithm, direction))
            })
        });
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

    /// Whether all CPU threads have done messages surely before GPUs would be.
    #[inline]
    pub(super) fn are_surely_for_cpu(
        &self,
        algorithm: Algorithm,
        direction: Direction,
        messages: u64,
        bytes: u64,
    ) -> bool {
        let sure = self.sure.get().map(|sure| of(sure, algorithm, direction));
        sure.is_some_and(|sure| sure.holds(bytes)) && messages <= bytes / LEAST_MEAN
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
    use crate::InstructionSet;
    use crate::plan::cost::{Estimate, Team};

    #[test]
    fn classes_are_quarters() {
        assert_eq!(
            (class(4095), class(4096), class(5119)),
            (None, Some(0), Some(0))
        );
        assert_eq!(
            (class(5120), class(8191), class(8192)),
            (Some(1), Some(3), Some(4))
        );
        assert_eq!(
            (class((1 << 40) - 1), class(1 << 40)),
            (Some(CLASSES - 1), None)
        );
        for of in 0..CLASSES {
            assert_eq!(class(least(of)), Some(of));
            assert_eq!(class(least(of + 1) - 1), Some(of));
        }
    }

    #[test]
    fn sure_is_what_the_model_says_of_every_size() {
        // Sixteen fast threads and a GPU whose smallest batch takes longer than they do for 4 MiB.
        let mut model = Model::guess(InstructionSet::Vaes512, 16);
        model.cpu.wake = 3e4;
        let (algorithm, direction) = (Algorithm::Aes128Ctr, Direction::Encrypt);
        for gpus in [1, 8] {
            let sure = Sure::new(&model, (16, gpus), (algorithm, direction));
            assert!(sure.holds(4 << 20), "{gpus}: {:b}", sure.0);
            assert!(!sure.holds(8 << 30), "{gpus}: {:b}", sure.0);
            for bytes in (14..34).flat_map(|k| [1_u64 << k, (1 << k) + (1 << k) / 3]) {
                let shape = Shape::of_bytes(algorithm, direction, bytes, 1);
                let teams = model.teams(&shape, 16, gpus, true);
                let by_time = |a: &&Estimate, b: &&Estimate| a.time.total_cmp(&b.time);
                if sure.holds(bytes) {
                    let fastest = teams.iter().min_by(by_time).unwrap();
                    assert_eq!(fastest.team, Team::Cpu, "{bytes}");
                }
            }
        }
        let chained = (Algorithm::Aes128Cbc, Direction::Encrypt);
        assert_eq!(Sure::new(&model, (16, 1), chained).0, 0);
    }
}
