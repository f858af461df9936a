//! What a job costs where: a few numbers for each algorithm and direction, measured once on a
//! machine or guessed until then.

use super::queue::cuts;
use crate::job::Job;
use crate::{Algorithm, Cipher, Direction, InstructionSet, Mode};

/// What messages of one algorithm and direction cost, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// For a byte, while there is enough to do.
    pub(crate) byte: f64,
    /// For a message, however short.
    pub(crate) message: f64,
    /// For a byte of one message alone, where its mode cannot be worked on in parts.
    pub(crate) chain: f64,
}

/// A cost for each algorithm and direction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Costs(Vec<[Cost; 2]>);

impl Costs {
    pub(crate) fn new(of: impl Fn(Algorithm, Direction) -> Cost) -> Self {
        let both = |algorithm| {
            [
                of(algorithm, Direction::Encrypt),
                of(algorithm, Direction::Decrypt),
            ]
        };
        Costs(Algorithm::all().map(both).collect())
    }

    pub(crate) fn of(&self, algorithm: Algorithm, direction: Direction) -> Cost {
        let row = self.0[algorithm as usize];
        row[usize::from(direction == Direction::Decrypt)]
    }

    pub(crate) fn set(&mut self, algorithm: Algorithm, direction: Direction, cost: Cost) {
        self.0[algorithm as usize][usize::from(direction == Direction::Decrypt)] = cost;
    }
}

/// The processor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpuModel {
    /// On one thread.
    pub(crate) costs: Costs,
    /// To wake the other threads and to wait for them, in nanoseconds.
    pub(crate) wake: f64,
    /// Nanoseconds for a byte that all threads together cannot beat: the memory's.
    pub(crate) memory: f64,
}

/// A GPU, its link and the way to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GpuModel {
    /// Until it can be used first in a process, in nanoseconds.
    pub(crate) start: f64,
    /// For the smallest batch, in nanoseconds.
    pub(crate) fixed: f64,
    /// From page-locked memory and back: nanoseconds for a byte, the link's included.
    pub(crate) costs: Costs,
    /// From ordinary memory and back, with all CPU threads copying: nanoseconds for a byte.
    pub(crate) staged: f64,
    /// The same with one CPU thread copying.
    pub(crate) staged_by_one: f64,
}

/// All that is known of a machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub(crate) cpu: CpuModel,
    pub(crate) gpu: GpuModel,
}

impl Model {
    /// Before anything was measured: careful about GPUs, so that they are not taken where they
    /// lose.
    pub(crate) fn guess(set: InstructionSet, threads: usize) -> Self {
        Model {
            cpu: CpuModel::guess(set, threads),
            gpu: GpuModel::guess(threads),
        }
    }
}

/// Rounds of AES, against those of AES-128.
fn rounds(algorithm: Algorithm) -> f64 {
    match algorithm.info().cipher {
        Cipher::Aes128 | Cipher::Acorn128 => 1.0,
        Cipher::Aes192 => 1.2,
        Cipher::Aes256 => 1.4,
    }
}

impl CpuModel {
    /// Before anything was measured.
    pub(crate) fn guess(set: InstructionSet, threads: usize) -> Self {
        let aes = match set {
            InstructionSet::Portable => 3.3,
            InstructionSet::Neon | InstructionSet::AesNi => 0.27,
            InstructionSet::Vaes256 => 0.14,
            InstructionSet::Vaes512 => 0.08,
        };
        let costs = Costs::new(|algorithm, direction| {
            let aes = aes * rounds(algorithm);
            let (byte, chain) = match algorithm.info().mode {
                Mode::Acorn => (0.5, 2.0),
                Mode::Gcm if set == InstructionSet::Portable => (aes + 2.5, 0.0),
                Mode::Gcm => (1.4 * aes, 0.0),
                Mode::Cbc if direction == Direction::Encrypt => (aes, (4.0 * aes).max(1.0)),
                _ => (aes, 0.0),
            };
            let message = if set == InstructionSet::Portable {
                500.0
            } else {
                60.0
            };
            Cost {
                byte,
                message,
                chain,
            }
        });
        CpuModel {
            costs,
            wake: if threads > 1 { 15_000.0 } else { 0.0 },
            memory: 0.03,
        }
    }

    /// Nanoseconds for a job on so many threads.
    pub(crate) fn time(&self, shape: &Shape, threads: usize) -> f64 {
        let cost = self.costs.of(shape.algorithm, shape.direction);
        let work = shape.bytes * cost.byte + shape.count * cost.message;
        let threads = match work < WORTH_THREADS {
            true => 1.0,
            false => shape.units().min(threads as f64),
        };
        let wake = if threads > 1.0 { self.wake } else { 0.0 };
        let memory = match shape.bytes < IN_CACHE {
            true => 0.0,
            false => shape.bytes * self.memory,
        };
        (work / threads).max(memory).max(shape.chain(&cost)) + wake
    }

    /// Bytes a nanosecond of one thread of several.
    pub(crate) fn rate(&self, shape: &Shape) -> f64 {
        let cost = self.costs.of(shape.algorithm, shape.direction);
        shape.bytes / (shape.bytes * cost.byte + shape.count * cost.message)
    }
}

/// What takes one thread less than this many nanoseconds stays there, as in the CPU backend.
const WORTH_THREADS: f64 = 60_000.0;

/// Less text than this does not wait for memory.
const IN_CACHE: f64 = 4e6;

/// About how much text is worth a thread.
const PIECE: f64 = 262_144.0;

impl GpuModel {
    /// Before anything was measured.
    pub(crate) fn guess(threads: usize) -> Self {
        let costs = Costs::new(|algorithm, direction| {
            let chained = algorithm.info().mode == Mode::Cbc && direction == Direction::Encrypt;
            let chained = chained || algorithm.info().mode == Mode::Acorn;
            Cost {
                byte: 0.04,
                message: 1.0,
                chain: if chained { 60.0 } else { 0.0 },
            }
        });
        GpuModel {
            start: 8e8,
            fixed: 1.2e5,
            costs,
            staged: 0.2_f64.max(0.7 / threads as f64),
            staged_by_one: 0.7,
        }
    }

    /// Nanoseconds for a job on so many GPUs alike, from memory that they reach or that `copiers`
    /// CPU threads copy.
    pub(crate) fn time(&self, shape: &Shape, gpus: usize, copiers: usize, pinned: bool) -> f64 {
        let cost = self.costs.of(shape.algorithm, shape.direction);
        let staged = self.staged.max(self.staged_by_one / copiers.max(1) as f64);
        let work = (shape.bytes * cost.byte + shape.count * cost.message) / gpus as f64;
        let copies = if pinned { 0.0 } else { shape.bytes * staged };
        self.fixed + work.max(copies).max(shape.chain(&cost))
    }
}

/// What matters of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) algorithm: Algorithm,
    pub(crate) direction: Direction,
    pub(crate) bytes: f64,
    pub(crate) count: f64,
    /// Bytes of the longest message, where messages are not cut; else 0.
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
        let cuts = cuts(algorithm, direction);
        Shape {
            algorithm,
            direction,
            bytes: (count * len) as f64,
            count: count as f64,
            longest: if cuts { 0.0 } else { len as f64 },
            cuts,
        }
    }

    pub(crate) fn of(job: &Job<'_>) -> Self {
        let cuts = cuts(job.info().algorithm, job.direction());
        let lens = || (0..job.count()).map(|index| job.text_len(index));
        let longest = match () {
            () if cuts => 0,
            () if job.is_even() => lens().next().unwrap_or(0),
            () => lens().max().unwrap_or(0),
        };
        Shape {
            algorithm: job.info().algorithm,
            direction: job.direction(),
            bytes: job.text_bytes() as f64,
            count: job.count() as f64,
            longest: longest as f64,
            cuts,
        }
    }

    /// What times of jobs like it are about proportional to.
    pub(crate) fn weight(&self) -> f64 {
        self.bytes + 256.0 * self.count
    }

    /// How many threads have something to do.
    fn units(&self) -> f64 {
        match self.cuts {
            true => self.count.max((self.bytes / PIECE).floor()).max(1.0),
            false => self.count.max(1.0),
        }
    }

    fn chain(&self, cost: &Cost) -> f64 {
        self.longest * cost.chain
    }
}

/// Who works on a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Team {
    /// The processor alone.
    Cpu,
    /// GPUs, and so many CPU threads beside those that copy for them.
    Gpus { workers: usize },
}

impl Model {
    /// The teams that are worth a thought, and their times in nanoseconds, the processor first.
    pub(crate) fn teams(
        &self,
        shape: &Shape,
        threads: usize,
        gpus: usize,
        pinned: bool,
    ) -> Vec<(Team, f64)> {
        let mut teams = vec![(Team::Cpu, self.cpu.time(shape, threads))];
        // Each GPU has a thread that waits for it.
        let free = threads.saturating_sub(gpus);
        let sizes = match pinned {
            true => vec![0, free],
            false => vec![0, free / 4, free / 2, 3 * free / 4],
        };
        for (place, &workers) in sizes.iter().enumerate() {
            if place > 0 && workers <= sizes[place - 1] {
                continue;
            }
            let alone = self.gpu.time(shape, gpus, threads - workers, pinned);
            let time = match workers {
                0 => alone,
                _ => {
                    let fixed = self.gpu.fixed + self.cpu.wake;
                    let cpu = self.cpu.time(shape, workers);
                    fixed + 1.0 / (1.0 / (alone - self.gpu.fixed).max(1.0) + 1.0 / cpu)
                }
            };
            teams.push((Team::Gpus { workers }, time));
        }
        teams
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Ivs, Key, Keys, Spans, Text};

    fn shape(algorithm: Algorithm, count: usize, len: usize) -> Shape {
        let key = Key::generate(algorithm).unwrap();
        let mut buffer = vec![0; count * len];
        let spans = Spans::Even {
            count,
            len,
            stride: len,
        };
        let text = Text::InPlace {
            buffer: &mut buffer,
            spans,
        };
        let ivs = vec![0; 16 * count];
        let batch = Batch::encrypt(Keys::One(&key), text).ivs(Ivs::Each(&ivs));
        Shape::of(&Job::new(batch).unwrap())
    }

    #[test]
    fn one_chain_keeps_one_thread_busy() {
        let model = Model::guess(InstructionSet::AesNi, 8);
        let one = shape(Algorithm::Aes128Cbc, 1, 1 << 20);
        let many = shape(Algorithm::Aes128Cbc, 64, 1 << 14);
        assert_eq!(model.cpu.time(&one, 8), model.cpu.time(&one, 1));
        assert!(model.cpu.time(&many, 8) < model.cpu.time(&many, 1) / 2.0);
        assert!(model.cpu.time(&many, 8) < model.cpu.time(&one, 8) / 4.0);
    }

    #[test]
    fn a_slow_processor_hands_over_earlier() {
        let crossing = |set| {
            let model = Model::guess(set, 2);
            (8..28)
                .find(|&size| {
                    let shape = shape(Algorithm::Aes128Ctr, 1, 1 << size);
                    let teams = model.teams(&shape, 2, 1, true);
                    teams[1..].iter().any(|team| team.1 < teams[0].1)
                })
                .unwrap_or(64)
        };
        assert!(crossing(InstructionSet::Portable) < crossing(InstructionSet::AesNi));
        assert!(crossing(InstructionSet::AesNi) > 15);
    }

    #[test]
    fn more_threads_for_copies_leave_fewer_for_work() {
        let model = Model::guess(InstructionSet::Portable, 16);
        let shape = shape(Algorithm::Aes256Ctr, 1, 1 << 24);
        for pinned in [true, false] {
            for (team, time) in model.teams(&shape, 16, 2, pinned) {
                assert!(time.is_finite() && time > 0.0);
                let Team::Gpus { workers } = team else {
                    continue;
                };
                assert!(workers <= 14);
            }
        }
    }
}
