//! The planner: sends each job to the backend that finishes it first.
//!
//! Small jobs stay on the CPU, and the planner does not even look for GPUs. For larger ones, a
//! model of the machine ([`model`]) predicts which team (the CPU, the GPUs or both) is fastest, and
//! the times of earlier jobs correct it ([`corrections`]). A team shares a job through one
//! [`queue`] of portions, so that all its members finish together. GPUs are started ([`gpus`]) once
//! they would have saved as much time as their start takes. A GPU that fails is removed, and the
//! CPU does what it had not finished.

mod calibration;
mod corrections;
mod crew;
mod fast_path;
#[doc(hidden)]
pub mod fuzzing;
mod gpus;
mod lease;
mod model;
mod queue;
mod ranking;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use self::corrections::{Corrections, Likeness};
use self::crew::Outcomes;
use self::fast_path::FastPath;
use self::gpus::Gpus;
use self::model::{Estimate, Team};
use self::ranking::GPU_MARGIN;
use crate::cpu::CpuBackend;
use crate::job::Job;
use crate::lock::lock;
use crate::{Algorithm, Direction, Error};

pub use calibration::Calibration;
pub(crate) use calibration::Machine;
pub(crate) use crew::{Crew, Helper, Helpers};
pub(crate) use gpus::Start;
pub(crate) use model::{BEYOND_CACHES, Cost, Costs, CpuModel, GpuModel, Model, Shape, ways};
pub(crate) use queue::cuts;
pub(crate) use worker::Pace;
#[cfg(any(feature = "cuda", test))]
pub(crate) use {crew::Broken, worker::Limits};

/// If the CPU alone would take this many times as long as starting a GPU, a job waits for the
/// start, and begins on the CPU meanwhile.
const WORTH_A_START: f64 = 4.0;

/// For fewer bytes of text the kind of memory hardly matters, and asking the driver takes
/// microseconds.
const PINNED_QUERY_MIN_BYTES: f64 = 131_072.0;

/// The driver's answers about memory are cached: for this many places, each for this many jobs.
const PINNED_CACHE_PLACES: usize = 8;
const PINNED_CACHE_JOBS: u32 = 32;

/// If GPUs are expected to take this many times as long as the CPU, corrections are not consulted.
const HOPELESS_RATIO: f64 = 2.0;

/// Chooses between the CPU and the GPUs, and makes them work together.
pub(crate) struct Planner {
    gpus: Gpus,
    /// Created by the first job, if there may be GPUs.
    fast_path: OnceLock<FastPath>,
    load: Box<dyn Fn() -> Model + Send + Sync>,
    corrections: Mutex<Corrections>,
    asked: Mutex<[PinnedAnswer; PINNED_CACHE_PLACES]>,
    /// Bytes of text that each GPU has done.
    done: Mutex<BTreeMap<String, u64>>,
}

/// The driver's answer about a job's memory. If it is out of date, only the planner's estimate is
/// wrong: copies ask again.
#[derive(Clone, Copy, Default)]
struct PinnedAnswer {
    input: usize,
    output: usize,
    pinned: bool,
    /// The number of jobs for which it is still used.
    left: u32,
}

impl Planner {
    /// `start` starts the GPUs, `load` returns the machine's model, and `there` is a cheap test for
    /// whether there may be GPUs.
    pub(crate) fn new(
        start: Start,
        load: Box<dyn Fn() -> Model + Send + Sync>,
        there: fn() -> bool,
        warn: fn(&str),
    ) -> Self {
        Planner {
            gpus: Gpus::new(start, there, warn),
            fast_path: OnceLock::new(),
            load,
            corrections: Mutex::default(),
            asked: Mutex::default(),
            done: Mutex::default(),
        }
    }

    /// Starts the GPUs, if there are any, and waits until they are ready.
    pub(crate) fn wake(&self) {
        if self.gpus.may_exist() {
            self.gpus.begin();
            self.gpus.wait(&|| true);
        }
    }

    /// The names of the GPUs that have started and work.
    pub(crate) fn awake(&self) -> Vec<String> {
        let awake = self.gpus.awake().unwrap_or_default();
        awake.iter().map(|gpu| gpu.name()).collect()
    }

    /// Bytes of text that each GPU has done.
    pub(crate) fn done(&self) -> BTreeMap<String, u64> {
        lock(&self.done).clone()
    }

    /// Whether there may be GPUs to share work with.
    pub(crate) fn may_have_gpus(&self) -> bool {
        self.gpus.may_exist()
    }

    /// Whether GPUs that have started would take part in one message of this length in pageable
    /// memory.
    pub(crate) fn pays(
        &self,
        threads: usize,
        algorithm: Algorithm,
        direction: Direction,
        len: usize,
    ) -> bool {
        if self.stays(|fast_path| fast_path.are_small(algorithm, direction, 1, len as u64)) {
            return false;
        }
        let mut gpus = self.gpus.awake().unwrap_or_default();
        gpus.retain(|gpu| gpu.supports(algorithm));
        if gpus.is_empty() {
            return false;
        }
        let shape = Shape::of_messages(algorithm, direction, 1, len);
        let teams = self.model().teams(&shape, threads, gpus.len(), false);
        self.choose(&Likeness::of(&shape, false), &teams, false)
            .team
            != Team::Cpu
    }

    fn fast_path(&self) -> &FastPath {
        self.fast_path.get_or_init(|| FastPath::new((self.load)()))
    }

    fn model(&self) -> &Model {
        &self.fast_path().model
    }

    /// Whether the CPU is certain to be faster for a job. Takes a few nanoseconds.
    #[inline]
    pub(crate) fn is_for_cpu(&self, job: &Job<'_>) -> bool {
        self.stays(|fast_path| fast_path.is_small(job))
    }

    /// Whether there are no GPUs, or the model says that a job is small.
    #[inline]
    fn stays(&self, is_small: impl FnOnce(&FastPath) -> bool) -> bool {
        self.gpus.are_none() || self.fast_path.get().is_some_and(is_small)
    }

    /// Single messages shorter than this run on the CPU.
    pub(crate) fn alone_for_cpu(&self, algorithm: Algorithm, direction: Direction) -> u64 {
        match self.fast_path.get() {
            _ if self.gpus.are_none() => u64::MAX,
            Some(fast_path) => fast_path.alone(algorithm, direction),
            None => 0,
        }
    }

    /// Runs a job; returns the messages that did not verify, ascending.
    ///
    /// # Safety
    /// Nothing else uses what the job borrows during the call.
    pub(crate) unsafe fn run(&self, cpu: &CpuBackend, job: &Job<'_>) -> Result<Vec<usize>, Error> {
        // SAFETY: by this function's contract.
        let on_cpu = || unsafe { cpu.run(job) };
        if !self.gpus.may_exist() || self.fast_path().is_small(job) {
            return Ok(on_cpu());
        }
        let model = self.model();
        let shape = Shape::of(job);
        let threads = cpu.threads();
        match self.gpus.awake() {
            Some(mut gpus) => {
                gpus.retain(|gpu| gpu.supports(job.info().algorithm));
                let Some(first) = gpus.first() else {
                    return Ok(on_cpu());
                };
                // If GPUs are hopeless even from pinned memory, the driver is not asked about it.
                let at_best = model.teams(&shape, threads, gpus.len(), true);
                if least(&at_best[1..]) > HOPELESS_RATIO * at_best[0].time {
                    return Ok(on_cpu());
                }
                let pinned = shape.bytes < PINNED_QUERY_MIN_BYTES || self.is_pinned(&**first, job);
                let teams = match pinned {
                    true => at_best,
                    false => model.teams(&shape, threads, gpus.len(), false),
                };
                let like = Likeness::of(&shape, pinned);
                let chosen = self.choose(&like, &teams, true);
                let ready = chosen.team == Team::Cpu || gpus.iter().all(|gpu| gpu.is_ready(job));
                let start = Instant::now();
                let refused = match chosen.team {
                    Team::Cpu => on_cpu(),
                    Team::Gpus | Team::Both => {
                        let crew = self.crew(cpu, &shape, &like, (&chosen, &teams), gpus.len());
                        // SAFETY: by this function's contract.
                        self.record_outcomes(unsafe { crew.run(job, Helpers::Now(gpus)) })
                    }
                };
                let took = start.elapsed().as_secs_f64() * 1e9;
                if ready {
                    let mut corrections = lock(&self.corrections);
                    corrections.note(&like, chosen.team, took / chosen.time);
                }
                Ok(refused)
            }
            None => {
                let teams = model.teams(&shape, threads, 1, false);
                let (alone, best) = (teams[0].time, least(&teams));
                if best >= GPU_MARGIN * alone {
                    return Ok(on_cpu());
                }
                if alone < WORTH_A_START * model.gpu.start {
                    self.gpus.miss(alone - best, model.gpu.start);
                    return Ok(on_cpu());
                }
                self.gpus.begin();
                let crew = Crew {
                    workers: threads.saturating_sub(1).max(1),
                    worker: Pace::of(model.cpu.rate(&shape)),
                    helper: Pace::of(shape.bytes / model.gpu.time(&shape, 1, 1, false)),
                    ..Crew::of(cpu)
                };
                let wait = |wanted: &dyn Fn() -> bool| {
                    let mut gpus = self.gpus.wait(wanted);
                    gpus.retain(|gpu| gpu.supports(job.info().algorithm));
                    gpus
                };
                // SAFETY: by this function's contract.
                Ok(self.record_outcomes(unsafe { crew.run(job, Helpers::Later(&wait)) }))
            }
        }
    }

    /// Whether the job's memory is pinned, so that a GPU can access it directly.
    fn is_pinned(&self, gpu: &dyn Helper, job: &Job<'_>) -> bool {
        let first = job.message(0);
        let (input, output) = (first.input.addr(), first.output.addr());
        let place = (input >> 12).wrapping_add(output >> 9) % PINNED_CACHE_PLACES;
        {
            let cached = &mut lock(&self.asked)[place];
            if (cached.input, cached.output) == (input, output) && cached.left > 0 {
                cached.left -= 1;
                return cached.pinned;
            }
        }
        let pinned = gpu.is_pinned(job);
        lock(&self.asked)[place] = PinnedAnswer {
            input,
            output,
            pinned,
            left: PINNED_CACHE_JOBS,
        };
        pinned
    }

    /// The team with the least corrected time; with `tries`, another one now and then.
    fn choose(&self, like: &Likeness, teams: &[Estimate], tries: bool) -> Estimate {
        let corrections = lock(&self.corrections);
        let best = corrections.best(like, teams);
        match tries {
            true => *corrections.to_try(like, teams, best).unwrap_or(best),
            false => *best,
        }
    }

    /// The crew for the `chosen` team. Paces follow from the corrected times of `all` teams; they
    /// size the first portions.
    fn crew<'a>(
        &self,
        cpu: &'a CpuBackend,
        shape: &Shape,
        like: &Likeness,
        (chosen, all): (&Estimate, &[Estimate]),
        gpus: usize,
    ) -> Crew<'a> {
        let corrections = lock(&self.corrections);
        let time = |team| {
            let estimate = all.iter().find(|estimate| estimate.team == team);
            estimate.map_or(f64::INFINITY, |estimate| corrections.time(like, estimate))
        };
        let latency = self.model().gpu.latency(shape);
        let busy = (time(Team::Gpus) - latency).max(1.0);
        Crew {
            workers: match chosen.team {
                Team::Both => cpu.threads().saturating_sub(gpus),
                _ => 0,
            },
            worker: Pace::of(shape.bytes / time(Team::Cpu) / cpu.threads() as f64),
            helper: Pace {
                rate: shape.bytes / busy / gpus as f64,
                latency,
            },
            ..Crew::of(cpu)
        }
    }

    /// Records what each GPU did, and removes those that failed.
    fn record_outcomes(&self, shared: Outcomes) -> Vec<usize> {
        for part in &shared.parts {
            if let Some(broken) = &part.broken {
                self.gpus.remove(&part.helper, broken);
            }
            *lock(&self.done).entry(part.helper.name()).or_default() += part.bytes;
        }
        shared.refused
    }
}

fn least(teams: &[Estimate]) -> f64 {
    let times = teams.iter().map(|estimate| estimate.time);
    times.fold(f64::INFINITY, f64::min)
}

/// GPUs that were requested by name: they share each job, and if one fails, the job fails.
pub(crate) struct Demanded {
    pub(crate) gpus: Vec<Arc<dyn Helper>>,
}

impl Demanded {
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.gpus.iter().map(|gpu| gpu.name()).collect();
        names.join("+")
    }

    pub(crate) fn supports(&self, algorithm: Algorithm) -> bool {
        self.gpus.iter().all(|gpu| gpu.supports(algorithm))
    }

    /// Runs a job; returns the messages that did not verify, ascending.
    ///
    /// # Safety
    /// Nothing else uses what the job borrows during the call.
    pub(crate) unsafe fn run(&self, cpu: &CpuBackend, job: &Job<'_>) -> Result<Vec<usize>, Error> {
        let info = job.info();
        if !self.supports(info.algorithm) {
            return Err(Error::NoBackend {
                name: self.names(),
                reason: format!("{} does not run there; use cpu", info.name),
            });
        }
        let crew = Crew {
            redo: false,
            ..Crew::of(cpu)
        };
        // SAFETY: by this function's contract; once it has run, all helpers are done, or hang.
        unsafe {
            let ran = crew.run(job, Helpers::Now(self.gpus.clone()));
            ran.unless_broken().inspect_err(|_| job.wipe_unverified())
        }
    }
}
