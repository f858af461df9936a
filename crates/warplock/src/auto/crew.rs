//! One job, shared by CPU threads and GPUs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use super::lease::{HelperLease, SideWork};
use super::queue::{CUT_FROM, Queue, cuts};
use super::worker::{Limits, Pace};
use crate::cpu::CpuBackend;
use crate::job::Job;
use crate::lock::lock;
use crate::portion::{All, Source};
use crate::{Algorithm, Error};

/// A helper's portion must take at least this many times as long as one on the CPU for the helper's
/// thread to do CPU work while it waits.
const SIDE_WORK_RATIO: f64 = 4.0;

/// The reason why a helper must no longer be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// In words.
    pub(crate) reason: String,
    /// It may never answer again: even freeing its memory would wait for it.
    pub(crate) hangs: bool,
}

/// A backend that takes portions of jobs: a GPU.
pub(crate) trait Helper: Send + Sync {
    /// Its name, as `--backend` takes it.
    fn name(&self) -> String;

    fn supports(&self, algorithm: Algorithm) -> bool;

    /// Whether it can start without delay: all tests have run and all buffers exist.
    fn is_ready(&self, job: &Job<'_>) -> bool;

    /// Called on a thread that serves this helper alone, before it starts.
    fn pin_thread(&self) {}

    fn limits(&self, job: &Job<'_>) -> Limits;

    /// Whether the job's memory is pinned, so that the helper can access it directly.
    fn is_pinned(&self, job: &Job<'_>) -> bool;

    /// Works on portions until the source returns none. After an error, the portions that were
    /// taken and not done must be done by another worker: with `keep`, their input is unchanged,
    /// even for work in place, and nothing more is written.
    ///
    /// # Safety
    /// Nothing else uses the portions' bytes during the call.
    unsafe fn help(&self, job: &Job<'_>, source: &mut dyn Source, keep: bool)
    -> Result<(), Broken>;

    /// Runs a whole job; returns the messages that did not verify, ascending. After an error
    /// nothing more is written, and input that is not also output is unchanged.
    ///
    /// # Safety
    /// Nothing else uses what the job borrows during the call.
    unsafe fn run_alone(&self, job: &Job<'_>) -> Result<Vec<usize>, Broken> {
        let mut all = All::of(job.count());
        // SAFETY: by this function's contract.
        unsafe { self.help(job, &mut all, false)? };
        all.refused.sort_unstable();
        Ok(all.refused)
    }
}

/// The workers of a job.
pub(crate) struct Crew<'a> {
    pub(crate) cpu: &'a CpuBackend,
    /// CPU threads that take portions, not counting those that serve GPUs.
    pub(crate) workers: usize,
    /// The pace of each of them.
    pub(crate) worker: Pace,
    /// The pace of each helper.
    pub(crate) helper: Pace,
    /// Whether the CPU does what helpers fail to do.
    pub(crate) redo: bool,
    /// The sizes of a CPU thread's portions.
    pub(crate) limits: Limits,
    /// Messages of this length and more are cut.
    pub(crate) long: usize,
}

/// Waits for helpers for as long as it is told that they are still wanted.
pub(crate) type Wait<'a> = dyn Fn(&dyn Fn() -> bool) -> Vec<Arc<dyn Helper>> + Sync + 'a;

/// The helpers of a job: those that are ready, or a function that waits for them while they are
/// wanted.
pub(crate) enum Helpers<'a> {
    Now(Vec<Arc<dyn Helper>>),
    Later(&'a Wait<'a>),
}

/// A helper's part in a job.
pub(crate) struct Part {
    pub(crate) helper: Arc<dyn Helper>,
    /// Bytes of text that it did.
    pub(crate) bytes: u64,
    pub(crate) broken: Option<Broken>,
}

/// The result of a job.
pub(crate) struct Outcomes {
    /// Messages that did not verify, ascending.
    pub(crate) refused: Vec<usize>,
    pub(crate) parts: Vec<Part>,
}

impl Part {
    /// One that hangs is never dropped: that would wait for it.
    fn new(helper: Arc<dyn Helper>, bytes: u64, broken: Option<Broken>) -> Self {
        if broken.as_ref().is_some_and(|broken| broken.hangs) {
            std::mem::forget(Arc::clone(&helper));
        }
        Part {
            helper,
            bytes,
            broken,
        }
    }
}

impl Outcomes {
    /// The messages that did not verify, or the error of a helper that failed.
    pub(crate) fn unless_broken(self) -> Result<Vec<usize>, Error> {
        let failed = |part: Part| {
            Some(Error::Backend {
                backend: part.helper.name(),
                reason: part.broken?.reason,
            })
        };
        match self.parts.into_iter().find_map(failed) {
            None => Ok(self.refused),
            Some(error) => Err(error),
        }
    }
}

impl<'a> Crew<'a> {
    /// Helpers alone. The CPU does what they fail to do.
    pub(crate) fn of(cpu: &'a CpuBackend) -> Self {
        Crew {
            cpu,
            workers: 0,
            worker: Pace::of(0.0),
            helper: Pace::of(1.0),
            redo: true,
            limits: Limits::CPU,
            long: CUT_FROM,
        }
    }

    /// Runs a job. Everything is done when this returns, unless a helper failed and `redo` is off.
    ///
    /// # Safety
    /// Nothing else uses what the job borrows during the call.
    pub(crate) unsafe fn run(&self, job: &Job<'_>, helpers: Helpers<'_>) -> Outcomes {
        let mut parts = Vec::new();
        let helpers = match helpers {
            Helpers::Now(mut helpers) if self.is_alone(job, &helpers) => {
                let helper = helpers.pop().expect("there is one");
                // SAFETY: by this function's contract.
                let (refused, bytes, broken) = match unsafe { helper.run_alone(job) } {
                    Ok(refused) => (Some(refused), job.text_bytes(), None),
                    Err(broken) => (None, 0, Some(broken)),
                };
                parts.push(Part::new(helper, bytes, broken));
                if let Some(refused) = refused {
                    return Outcomes { refused, parts };
                }
                Helpers::Now(helpers)
            }
            helpers => helpers,
        };
        let queue = Queue::new(job, self.cpu, self.long);
        let parts = Mutex::new(parts);
        let join = |helper: Arc<dyn Helper>| {
            let mut limits = helper.limits(job);
            limits.fits = self.redo;
            (queue.add(limits, self.helper), helper)
        };
        // SAFETY: by this function's contract.
        let step = |worker| unsafe { self.step(job, &queue, worker) };
        let help = |(worker, helper): (usize, Arc<dyn Helper>)| {
            let aside = self.aside(&queue, &step);
            let mut held = HelperLease {
                queue: &queue,
                worker,
                held: VecDeque::new(),
                aside,
            };
            // SAFETY: the queue gives each portion to one worker; the rest by this function's
            // contract.
            let helped = unsafe { helper.help(job, &mut held, self.redo) };
            drop(held);
            let part = Part::new(helper, queue.text_of(worker), helped.err());
            lock(&parts).push(part);
        };
        thread::scope(|scope| {
            // One helper is served by this thread: starting a thread takes longer than a small job.
            let mut own = None;
            match helpers {
                Helpers::Now(helpers) => {
                    // All are added before any of them takes a portion, so that the first portions
                    // are fair.
                    let mut joined: Vec<_> = helpers.into_iter().map(join).collect();
                    if self.workers == 0 || self.cpu.threads() > 1 {
                        own = joined.pop();
                    }
                    for helper in joined {
                        spawn(scope, &queue, helper, &help);
                    }
                }
                Helpers::Later(wait) => {
                    let (queue, help) = (&queue, &help);
                    let body = move || {
                        let late = wait(&|| !queue.is_empty());
                        let joined: Vec<_> = late.into_iter().map(join).collect();
                        for helper in joined {
                            spawn(scope, queue, helper, help);
                        }
                    };
                    // If the system has no thread for waiting, the job is done without helpers.
                    let _ = thread::Builder::new().spawn_scoped(scope, body);
                }
            }
            let meanwhile = || own.into_iter().for_each(&help);
            // SAFETY: by this function's contract.
            unsafe { self.work(job, &queue, self.workers, meanwhile) };
        });
        // Portions that a helper failed to do, and those left for threads that never came. At a
        // pace of zero a worker takes whatever is there, instead of leaving it to others that may
        // never come.
        let rest = Crew {
            worker: Pace::of(0.0),
            ..*self
        };
        while self.redo && !queue.is_empty() {
            // SAFETY: by this function's contract.
            unsafe { rest.work(job, &queue, self.cpu.threads(), || {}) };
        }
        Outcomes {
            refused: queue.refused(),
            parts: parts.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Whether a helper has a job to itself and needs no portions, which cost something, most of
    /// all with GCM. If the whole job is done again where it fails, the input must be unchanged.
    fn is_alone(&self, job: &Job<'_>, helpers: &[Arc<dyn Helper>]) -> bool {
        let whole = cuts(job.info().algorithm, job.direction()) && !job.is_in_place();
        helpers.len() == 1 && self.workers == 0 && (whole || !self.redo)
    }

    /// CPU work for a helper's thread while it waits, if the waits are long: a GPU takes as long
    /// for a chain as the CPU takes for hundreds.
    fn aside<'s>(
        &self,
        queue: &Queue<'_, '_>,
        step: &'s dyn Fn(usize) -> bool,
    ) -> Option<SideWork<'s>> {
        // The helper must not wait for this work: the smallest portions that pay.
        let limits = Limits {
            usual: self.limits.least,
            ..self.limits
        };
        let own = queue.least_of(&limits) as f64 / self.worker.rate.max(f64::MIN_POSITIVE);
        let pays = self.workers > 0 && SIDE_WORK_RATIO * own < self.helper.latency;
        pays.then(|| SideWork {
            worker: queue.add(limits, self.worker),
            until: Duration::from_nanos((self.helper.latency - own) as u64),
            step,
        })
    }

    /// CPU threads take portions until none are left for them; this thread calls `meanwhile`.
    ///
    /// # Safety
    /// As [`Crew::run`].
    unsafe fn work(
        &self,
        job: &Job<'_>,
        queue: &Queue<'_, '_>,
        count: usize,
        meanwhile: impl FnOnce(),
    ) {
        let workers: Vec<usize> = (0..count)
            .map(|_| queue.add(self.limits, self.worker))
            .collect();
        let body = |number: usize| {
            // SAFETY: by this function's contract.
            while unsafe { self.step(job, queue, workers[number]) } {}
        };
        let came = self.cpu.on_threads(count, body, meanwhile);
        // Nothing is left for threads that did not come.
        workers[came..]
            .iter()
            .for_each(|&worker| queue.leave(worker));
    }

    /// Does the next portion of a worker on this thread. Returns false if there is none.
    ///
    /// # Safety
    /// As [`Crew::run`].
    unsafe fn step(&self, job: &Job<'_>, queue: &Queue<'_, '_>, worker: usize) -> bool {
        let Some((portion, begun)) = queue.take(worker) else {
            return false;
        };
        // SAFETY: the queue gives each portion to one worker; the rest by this function's contract.
        let outcome = unsafe { self.cpu.run_portion(job, &portion, begun.as_deref()) };
        queue.done(worker, &portion, outcome);
        true
    }
}

/// Gives a helper a thread of its own.
fn spawn<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    queue: &Queue<'_, '_>,
    joined: (usize, Arc<dyn Helper>),
    help: &'scope (impl Fn((usize, Arc<dyn Helper>)) + Sync),
) {
    let worker = joined.0;
    let name = format!("warplock-{}", joined.1.name());
    let builder = thread::Builder::new().name(name);
    let body = move || {
        joined.1.pin_thread();
        help(joined);
    };
    if builder.spawn_scoped(scope, body).is_err() {
        // The system has no thread for it: the others do its part.
        queue.leave(worker);
    }
}
