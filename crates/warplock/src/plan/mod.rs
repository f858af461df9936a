//! The planner: sends each job where it ends soonest.
//!
//! Small jobs stay on the processor, and nobody asks whether there is a GPU. For larger ones a
//! model of the machine ([`cost`], measured by [`calibrate`]) tells which team is fastest; what
//! jobs like it really took corrects the model. A team shares a job through one [`queue`] of
//! portions, so that all of it end together. GPUs are started ([`gpus`]) when what they would have
//! saved is as much as their start takes, and taken out when they fail; what they had not done is
//! done by the processor.

mod calibrate;
mod calibration;
mod cost;
mod gather;
mod gpus;
mod learnt;
mod queue;
mod share;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use self::cost::{Model, Team};
use self::gpus::Gpus;
use self::learnt::{Learnt, Likeness};
use self::share::Shared;
use crate::backend::Backend;
use crate::cpu::CpuBackend;
use crate::cuda::CudaBackend;
use crate::job::Job;
use crate::{Algorithm, Direction, Error, InstructionSet};

pub use calibration::Calibration;
pub(crate) use cost::{CpuModel, GpuModel, Shape};
pub use gather::{Gatherer, Gathering};
pub(crate) use gpus::Start;
pub(crate) use queue::Limits;
pub(crate) use share::{Broken, Crew, Helper, Helpers};

/// A job that takes so many times a GPU's start waits for it with a part of its work.
const WORTH_A_START: f64 = 4.0;

/// GPUs must promise to be so much faster before a job leaves the processor.
const MARGIN: f64 = 0.93;

/// Chooses between the processor and the GPUs, and lets them work together.
pub(crate) struct Planner {
    gpus: Gpus,
    /// Made at the first job that might be worth a GPU.
    model: OnceLock<Model>,
    load: Box<dyn Fn() -> Model + Send + Sync>,
    there: fn() -> bool,
    learnt: Mutex<Learnt>,
    /// Bytes of text that each GPU has done.
    done: Mutex<BTreeMap<String, u64>>,
}

/// Whether the system shows the devices of NVIDIA's driver: a look at a file, where loading the
/// driver would take a tenth of a second.
pub(crate) fn gpu_may_exist() -> bool {
    !cfg!(target_os = "linux")
        || Path::new("/dev/nvidiactl").exists()
        || Path::new("/dev/dxg").exists()
}

/// What was measured on this machine, or guesses.
fn model_of_machine(set: InstructionSet, threads: NonZeroUsize, warn: fn(&str)) -> Model {
    let calibration = Calibration::load().unwrap_or_else(|reason| {
        warn(&reason);
        None
    });
    match calibration {
        Some(calibration) => calibration.model(set, threads.get()),
        None => Model::guess(set, threads.get()),
    }
}

impl Planner {
    /// For this machine: its GPUs, and what is known of it.
    pub(crate) fn of_machine(set: InstructionSet, threads: NonZeroUsize, warn: fn(&str)) -> Self {
        Planner::new(
            Box::new(move || CudaBackend::all(threads)),
            Box::new(move || model_of_machine(set, threads, warn)),
            gpu_may_exist,
            warn,
        )
    }

    /// `start` starts the GPUs, `load` gives the machine's model, `there` tells cheaply whether
    /// there may be GPUs.
    pub(crate) fn new(
        start: Start,
        load: Box<dyn Fn() -> Model + Send + Sync>,
        there: fn() -> bool,
        warn: fn(&str),
    ) -> Self {
        Planner {
            gpus: Gpus::new(start, warn),
            model: OnceLock::new(),
            load,
            there,
            learnt: Mutex::default(),
            done: Mutex::default(),
        }
    }

    /// Starts the GPUs, if there are any, and waits for them.
    pub(crate) fn wake(&self) {
        if self.gpus.may_exist(self.there) {
            self.gpus.begin();
            self.gpus.wait(&|| true);
        }
    }

    /// The names of the GPUs that were started and can be used.
    pub(crate) fn awake(&self) -> Vec<String> {
        let awake = self.gpus.awake().unwrap_or_default();
        awake.iter().map(|gpu| gpu.name()).collect()
    }

    /// Bytes of text that each GPU has done.
    pub(crate) fn done(&self) -> BTreeMap<String, u64> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.clone()
    }

    /// Whether there may be GPUs to share work with.
    pub(crate) fn may_have_gpus(&self) -> bool {
        self.gpus.may_exist(self.there)
    }

    /// Whether GPUs that are awake would take part in a batch of such messages from ordinary
    /// memory.
    pub(crate) fn pays(
        &self,
        threads: usize,
        algorithm: Algorithm,
        direction: Direction,
        count: usize,
        len: usize,
    ) -> bool {
        let mut gpus = self.gpus.awake().unwrap_or_default();
        gpus.retain(|gpu| gpu.supports(algorithm));
        if gpus.is_empty() {
            return false;
        }
        let shape = Shape::of_messages(algorithm, direction, count, len);
        let teams = self.model().teams(&shape, threads, gpus.len(), false);
        self.choose(&Likeness::of(&shape, false), &teams) != Team::Cpu
    }

    fn model(&self) -> &Model {
        self.model.get_or_init(|| (self.load)())
    }

    /// Runs a job, and gives the messages that did not verify, ascending.
    ///
    /// # Safety
    /// Nothing else uses what the job borrows during the call.
    pub(crate) unsafe fn run(&self, cpu: &CpuBackend, job: &Job<'_>) -> Result<Vec<usize>, Error> {
        // SAFETY: by this function's contract.
        let on_cpu = || unsafe { cpu.submit(job) }?.wait();
        if !self.gpus.may_exist(self.there) {
            return on_cpu();
        }
        let model = self.model();
        let cost = model.cpu.costs.of(job.info().algorithm, job.direction());
        let alone = job.text_bytes() as f64 * cost.byte + job.count() as f64 * cost.message;
        if alone < model.gpu.fixed {
            // One thread is done before a GPU would be.
            return on_cpu();
        }
        let shape = Shape::of(job);
        let threads = cpu.threads();
        match self.gpus.awake() {
            Some(mut gpus) => {
                gpus.retain(|gpu| gpu.supports(job.info().algorithm));
                let Some(first) = gpus.first() else {
                    return on_cpu();
                };
                let pinned = first.is_pinned(job);
                let teams = model.teams(&shape, threads, gpus.len(), pinned);
                let like = Likeness::of(&shape, pinned);
                let team = self.choose(&like, &teams);
                let ready = gpus.iter().all(|gpu| gpu.is_ready(job));
                let start = Instant::now();
                let failed = match team {
                    Team::Cpu => on_cpu(),
                    Team::Gpus { workers } => {
                        let crew = self.crew(cpu, &shape, workers, gpus.len(), pinned);
                        // SAFETY: by this function's contract.
                        Ok(self.conclude(unsafe { crew.run(job, Helpers::Now(gpus)) }))
                    }
                };
                let took = start.elapsed().as_secs_f64() * 1e9;
                if ready || team == Team::Cpu {
                    let mut learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
                    learnt.note(like, team, took / shape.weight());
                }
                failed
            }
            None => {
                let teams = model.teams(&shape, threads, 1, false);
                let alone = teams[0].1;
                let best = teams.iter().map(|team| team.1).fold(alone, f64::min);
                if best >= MARGIN * alone {
                    return on_cpu();
                }
                if alone < WORTH_A_START * model.gpu.start {
                    self.gpus.miss(alone - best, model.gpu.start);
                    return on_cpu();
                }
                self.gpus.begin();
                let workers = threads.saturating_sub(1).max(1);
                let crew = self.crew(cpu, &shape, workers, 1, false);
                let wait = |wanted: &dyn Fn() -> bool| {
                    let mut gpus = self.gpus.wait(wanted);
                    gpus.retain(|gpu| gpu.supports(job.info().algorithm));
                    gpus
                };
                // SAFETY: by this function's contract.
                Ok(self.conclude(unsafe { crew.run(job, Helpers::Later(&wait)) }))
            }
        }
    }

    /// The team with the least time, as it was before or as the model expects it.
    fn choose(&self, like: &Likeness, teams: &[(Team, f64)]) -> Team {
        let learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        let time = |&(team, expected): &(Team, f64)| {
            let time = learnt
                .of(like, team)
                .map_or(expected, |each| each * like.weight);
            match team {
                Team::Cpu => MARGIN * time,
                Team::Gpus { .. } => time,
            }
        };
        let best = teams.iter().min_by(|a, b| time(a).total_cmp(&time(b)));
        best.map_or(Team::Cpu, |best| best.0)
    }

    fn crew<'a>(
        &self,
        cpu: &'a CpuBackend,
        shape: &Shape,
        workers: usize,
        gpus: usize,
        pinned: bool,
    ) -> Crew<'a> {
        let model = self.model();
        let copiers = cpu.threads() - workers.min(cpu.threads() - 1);
        Crew {
            cpu,
            workers,
            worker_rate: model.cpu.rate(shape),
            helper_rate: shape.bytes / model.gpu.time(shape, gpus, copiers, pinned) / gpus as f64,
            redo: true,
            limits: Limits::CPU,
            long: queue::LONG,
        }
    }

    /// Notes who did what, and takes out who failed.
    fn conclude(&self, shared: Shared) -> Vec<usize> {
        for part in &shared.parts {
            if let Some(broken) = &part.broken {
                self.gpus.take_out(&part.helper, broken);
            }
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            *done.entry(part.helper.name()).or_default() += part.bytes;
        }
        shared.refused
    }
}

/// GPUs that were demanded by name: they share each job, and if one fails, the job fails.
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

    /// Runs a job, and gives the messages that did not verify, ascending.
    ///
    /// # Safety
    /// Nothing else uses what the job borrows during the call.
    pub(crate) unsafe fn run(&self, cpu: &CpuBackend, job: &Job<'_>) -> Result<Vec<usize>, Error> {
        let crew = Crew {
            cpu,
            workers: 0,
            worker_rate: 0.0,
            helper_rate: 1.0,
            redo: false,
            limits: Limits::CPU,
            long: queue::LONG,
        };
        // SAFETY: by this function's contract.
        let shared = unsafe { crew.run(job, Helpers::Now(self.gpus.clone())) };
        let broken = shared.parts.into_iter().find_map(|part| {
            let broken = part.broken?;
            if broken.hangs {
                // Never dropped: that would wait for it.
                std::mem::forget(Arc::clone(&part.helper));
            }
            Some(Error::Backend {
                backend: part.helper.name(),
                reason: broken.reason,
            })
        });
        broken.map_or(Ok(shared.refused), Err)
    }
}
