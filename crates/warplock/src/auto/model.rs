//! The cost model: a few numbers for each algorithm and direction, measured once on a machine or
//! guessed until then.

use super::queue::{LEAST_CHAINS, cuts};
use super::worker::Limits;
use crate::cpu::LEAST_PIECE;
use crate::job::Job;
use crate::pool::worth;
use crate::{Algorithm, Cipher, Direction, InstructionSet, Mode};

/// The cost of messages of one algorithm and direction, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// For the smallest batch.
    pub(crate) fixed: f64,
    /// Per byte of a large batch.
    pub(crate) byte: f64,
    /// Per message, however short.
    pub(crate) message: f64,
    /// Per byte of a single message, in a mode that cannot be worked on in parts.
    pub(crate) chain: f64,
}

/// Something of each algorithm and direction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EachWay<T>(Vec<[T; 2]>);

pub(crate) type Costs = EachWay<Cost>;

impl<T: Copy> EachWay<T> {
    pub(crate) fn new(of: impl Fn(Algorithm, Direction) -> T) -> Self {
        let both = |algorithm| Direction::BOTH.map(|direction| of(algorithm, direction));
        EachWay(Algorithm::all().map(both).collect())
    }

    #[inline]
    pub(crate) fn of(&self, algorithm: Algorithm, direction: Direction) -> T {
        self.0[algorithm as usize][direction as usize]
    }

    pub(crate) fn set(&mut self, algorithm: Algorithm, direction: Direction, value: T) {
        self.0[algorithm as usize][direction as usize] = value;
    }
}

/// Every algorithm in both directions.
pub(crate) fn ways() -> impl Iterator<Item = (Algorithm, Direction)> {
    let both = |algorithm| Direction::BOTH.map(|direction| (algorithm, direction));
    Algorithm::all().flat_map(both)
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpuModel {
    /// On one thread.
    pub(crate) costs: Costs,
    /// Nanoseconds to wake the other threads and to wait for them.
    pub(crate) wake: f64,
    /// The fewest nanoseconds per byte of all threads together: for text in caches, and for more.
    pub(crate) memory: [f64; 2],
    /// The slowdown of a thread while all others work: two share a core, and clocks drop.
    pub(crate) crowded: f64,
}

/// A GPU and its link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GpuModel {
    /// Nanoseconds until it can be used for the first time in a process.
    pub(crate) start: f64,
    /// From pinned memory and back: nanoseconds per byte, including the link.
    pub(crate) costs: Costs,
    /// From pageable memory and back, with all CPU threads copying: nanoseconds per byte.
    pub(crate) staged: f64,
    /// The same with one CPU thread copying.
    pub(crate) staged_by_one: f64,
    /// Nanoseconds to share a job between the CPU and GPUs.
    pub(crate) join: f64,
    /// Nanoseconds per byte of text beyond caches that the CPU and all links together cannot beat:
    /// they share one memory.
    pub(crate) shared: f64,
}

/// The model of a machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub(crate) cpu: CpuModel,
    pub(crate) gpu: GpuModel,
}

impl Model {
    /// Guesses. Careful about GPUs, so that they are not chosen where they lose.
    pub(crate) fn guess(set: InstructionSet, threads: usize) -> Self {
        Model {
            cpu: CpuModel::guess(set, threads),
            gpu: GpuModel::guess(threads),
        }
    }

    /// The teams to consider, the CPU first.
    pub(crate) fn teams(
        &self,
        shape: &Shape,
        threads: usize,
        gpus: usize,
        pinned: bool,
    ) -> Vec<Estimate> {
        let estimate = |team, time| Estimate { team, time };
        let mut teams = vec![
            estimate(Team::Cpu, self.cpu.time(shape, threads)),
            estimate(Team::Gpus, self.gpu.time(shape, gpus, threads, pinned)),
        ];
        // From pageable memory, the threads copy. With other work in between they copied so late
        // that both together were seldom faster than the faster one alone.
        let workers = threads.saturating_sub(gpus);
        if pinned && workers > 0 {
            let (before, work) = (self.gpu.before(shape), self.gpu.work(shape, gpus));
            let cpu = self.cpu.time(shape, workers);
            // The fraction of the job that GPUs do, so that both end at the same time.
            let share = (cpu - before) / (cpu + work);
            if share > 0.0 {
                let memory = self.gpu.memory(shape, 1.0);
                let lost = self.gpu.join + self.cpu.tail(shape);
                let time = lost + (before + share * work).max(memory);
                teams.push(estimate(Team::Both, time));
            }
        }
        teams
    }
}

/// The rounds of AES, relative to AES-128.
fn rounds(algorithm: Algorithm) -> f64 {
    match algorithm.info().cipher {
        Cipher::Aes128 | Cipher::Acorn128 => 1.0,
        Cipher::Aes192 => 1.2,
        Cipher::Aes256 => 1.4,
    }
}

impl CpuModel {
    pub(crate) fn guess(set: InstructionSet, threads: usize) -> Self {
        let (aes, message) = match set {
            InstructionSet::Portable => (3.3, 500.0),
            InstructionSet::Neon | InstructionSet::AesNi => (0.27, 60.0),
            InstructionSet::Vaes256 => (0.14, 60.0),
            InstructionSet::Vaes512 => (0.08, 60.0),
        };
        let costs = Costs::new(|algorithm, direction| {
            let aes = aes * rounds(algorithm);
            let (byte, chain) = match algorithm.info().mode {
                Mode::Acorn => (0.5, 2.0),
                Mode::Gcm if set == InstructionSet::Portable => (aes + 2.5, 0.0),
                Mode::Gcm => (1.4 * aes, 0.0),
                Mode::Cbc if direction == Direction::Encrypt => {
                    (aes.max(0.3), (4.0 * aes).max(1.0))
                }
                _ => (aes, 0.0),
            };
            Cost {
                fixed: 100.0,
                byte,
                message,
                chain,
            }
        });
        CpuModel {
            costs,
            wake: if threads > 1 { 15_000.0 } else { 0.0 },
            memory: [0.015, 0.03],
            crowded: 1.0,
        }
    }

    /// Nanoseconds for a job on one thread.
    pub(crate) fn work(&self, shape: &Shape) -> f64 {
        let cost = self.costs.of(shape.algorithm, shape.direction);
        cost.fixed + shape.bytes * cost.byte + shape.count * cost.message
    }

    /// Nanoseconds for a job on `threads` threads.
    pub(crate) fn time(&self, shape: &Shape, threads: usize) -> f64 {
        let cost = self.costs.of(shape.algorithm, shape.direction);
        let work = self.work(shape).max(shape.chain(&cost));
        let busy = worth(work, self.wake, threads).min(shape.units()) as f64;
        let crowded = 1.0 + (self.crowded - 1.0) * busy / threads as f64;
        let memory = match shape.bytes {
            ..IN_CACHE => 0.0,
            IN_CACHE..BEYOND_CACHES => shape.bytes * self.memory[0],
            _ => shape.bytes * self.memory[1],
        };
        match busy > 1.0 {
            false => work.max(memory),
            // The calling thread does not wait for the others.
            true => {
                let shared = (work * crowded / busy).max(shape.chain(&cost));
                (self.wake + shared).min(work).max(memory)
            }
        }
    }

    /// The time lost because the last portions do not end at the same time.
    fn tail(&self, shape: &Shape) -> f64 {
        let least = (Limits::CPU.least as f64).max(LEAST_CHAINS as f64 * shape.longest);
        least * self.costs.of(shape.algorithm, shape.direction).byte / 2.0
    }

    /// Bytes per nanosecond of one thread of several.
    pub(crate) fn rate(&self, shape: &Shape) -> f64 {
        let cost = self.costs.of(shape.algorithm, shape.direction);
        shape.bytes / (shape.bytes * cost.byte + shape.count * cost.message)
    }
}

/// Text shorter than this does not wait for memory.
const IN_CACHE: f64 = 4e6;

/// Text of this length and more, and its result, are in no cache, at least not near the threads
/// that work on it.
pub(crate) const BEYOND_CACHES: f64 = 32e6;

impl GpuModel {
    pub(crate) fn guess(threads: usize) -> Self {
        let costs = Costs::new(|algorithm, direction| {
            let chained = !cuts(algorithm, direction);
            Cost {
                fixed: 1.2e5,
                byte: 0.04,
                message: 1.0,
                chain: if chained { 60.0 } else { 0.0 },
            }
        });
        GpuModel {
            start: 8e8,
            costs,
            staged: 0.2_f64.max(0.7 / threads as f64),
            staged_by_one: 0.7,
            join: 1e5,
            shared: 0.025,
        }
    }

    /// Nanoseconds for a job on `gpus` equal GPUs, from pinned memory or from memory that `copiers`
    /// CPU threads copy.
    pub(crate) fn time(&self, shape: &Shape, gpus: usize, copiers: usize, pinned: bool) -> f64 {
        let copies = match pinned {
            true => self.memory(shape, 1.0),
            false => {
                let staged = self.staged.max(self.staged_by_one / copiers.max(1) as f64);
                // In, over the link, and out.
                (shape.bytes * staged).max(self.memory(shape, 3.0))
            }
        };
        self.before(shape) + self.work(shape, gpus).max(copies)
    }

    /// The least time in which the memory carries a job's text in and out `passes` times.
    fn memory(&self, shape: &Shape, passes: f64) -> f64 {
        match shape.bytes < BEYOND_CACHES {
            true => 0.0,
            false => passes * shape.bytes * self.shared,
        }
    }

    /// Nanoseconds until the first results can be there, including the first chain.
    fn before(&self, shape: &Shape) -> f64 {
        let cost = self.costs.of(shape.algorithm, shape.direction);
        cost.fixed + shape.chain(&cost)
    }

    /// The latency of each portion in chained modes; else 0.
    pub(crate) fn latency(&self, shape: &Shape) -> f64 {
        match shape.cuts {
            true => 0.0,
            false => self.before(shape),
        }
    }

    fn work(&self, shape: &Shape, gpus: usize) -> f64 {
        let cost = self.costs.of(shape.algorithm, shape.direction);
        (shape.bytes * cost.byte + shape.count * cost.message) / gpus as f64
    }
}

/// The properties of a job that the model needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) algorithm: Algorithm,
    pub(crate) direction: Direction,
    pub(crate) bytes: f64,
    pub(crate) count: f64,
    /// Bytes of the longest message, if messages cannot be cut; else 0.
    longest: f64,
    cuts: bool,
}

impl Shape {
    /// Messages of equal length.
    pub(crate) fn of_messages(
        algorithm: Algorithm,
        direction: Direction,
        count: usize,
        len: usize,
    ) -> Self {
        let shape = Shape::of_bytes(algorithm, direction, (count * len) as u64, count);
        Shape {
            longest: if shape.cuts { 0.0 } else { len as f64 },
            ..shape
        }
    }

    /// `count` messages of `bytes` bytes in all, in a mode whose longest message does not matter.
    #[inline]
    pub(crate) fn of_bytes(
        algorithm: Algorithm,
        direction: Direction,
        bytes: u64,
        count: usize,
    ) -> Self {
        Shape {
            algorithm,
            direction,
            bytes: bytes as f64,
            count: count as f64,
            longest: 0.0,
            cuts: cuts(algorithm, direction),
        }
    }

    pub(crate) fn of(job: &Job<'_>) -> Self {
        let (algorithm, direction) = (job.info().algorithm, job.direction());
        let shape = Shape::of_bytes(algorithm, direction, job.text_bytes(), job.count());
        let lens = || (0..job.count()).map(|index| job.text_len(index));
        let longest = match () {
            () if shape.cuts => 0,
            () if job.is_even() => lens().next().unwrap_or(0),
            () => lens().max().unwrap_or(0),
        };
        Shape {
            longest: longest as f64,
            ..shape
        }
    }

    /// How many threads have something to do.
    pub(crate) fn units(&self) -> usize {
        let pieces = match self.cuts {
            true => (self.bytes / LEAST_PIECE as f64) as usize,
            false => 0,
        };
        pieces.max(self.count as usize).max(1)
    }

    fn chain(&self, cost: &Cost) -> f64 {
        self.longest * cost.chain
    }
}

/// The backends that work on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Team {
    /// The CPU alone.
    Cpu,
    /// GPUs, and CPU threads only to copy for them.
    Gpus,
    /// Both: a CPU thread serves each GPU, and the others take portions of their own.
    Both,
}

/// The model's estimate for a team.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) team: Team,
    /// In nanoseconds.
    pub(crate) time: f64,
}

#[cfg(test)]
mod tests;
