//! One job over CPU threads and GPUs at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use super::lease::{HelperLease, SideWork};
use super::queue::{CUT_FROM, Queue, cuts};
use super::worker::{Limits, Pace};
use crate::Algorithm;
use crate::cpu::CpuBackend;
use crate::job::Job;
use crate::lock::lock;
use crate::portion::{All, Source};

/// A helper's portion must take so many times as long as one of the processor's, for its thread to
/// do something else meanwhile.
const SIDE_WORK_RATIO: f64 = 4.0;

/// Why a helper is not to be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// In words.
    pub(crate) reason: String,
    /// It may never answer again: even freeing what it uses would wait.
    pub(crate) hangs: bool,
}

/// A backend that takes portions of jobs: a GPU.
pub(crate) trait Helper: Send + Sync {
    /// Its name, as `--backend` takes it.
    fn name(&self) -> String;

    /// Whether it has an algorithm.
    fn supports(&self, algorithm: Algorithm) -> bool;

    /// Whether it can begin at once: what must be tested or made before is done.
    fn is_ready(&self, job: &Job<'_>) -> bool;

    /// Called on a thread that is its alone, before it helps.
    fn pin_thread(&self) {}

    /// How much of a job it takes at a time.
    fn limits(&self, job: &Job<'_>) -> Limits;

    /// Whether the caller's memory is page-locked, so that it reaches it by itself.
    fn is_pinned(&self, job: &Job<'_>) -> bool;

    /// Works on portions until the source gives no more. After an error, what it has taken and
    /// not done must be done by somebody else: with `keep`, the input of such portions is still
    /// as it was, also for work in place, and nothing is written any more.
    ///
    /// # Safety
    /// Nobody else uses the portions' bytes during the call.
    unsafe fn help(&self, job: &Job<'_>, source: &mut dyn Source, keep: bool)
    -> Result<(), Broken>;

    /// Runs all of a job, and gives the messages that did not verify, ascending. After an error
    /// nothing is written any more; input that is not the output, too, is as it was.
    ///
    /// # Safety
    /// Nobody else uses what the job borrows during the call.
    unsafe fn run_alone(&self, job: &Job<'_>) -> Result<Vec<usize>, Broken> {
        let mut all = All::of(job.count());
        // SAFETY: by this function's contract.
        unsafe { self.help(job, &mut all, false)? };
        all.refused.sort_unstable();
        Ok(all.refused)
    }
}

/// Who works on a job.
pub(crate) struct Crew<'a> {
    pub(crate) cpu: &'a CpuBackend,
    /// CPU threads that take portions; those that GPUs need to be fed are not among them.
    pub(crate) workers: usize,
    /// How fast each of them is.
    pub(crate) worker: Pace,
    /// How fast each helper is.
    pub(crate) helper: Pace,
    /// What helpers fail to do, the processor does.
    pub(crate) redo: bool,
    /// How much a CPU thread takes at a time.
    pub(crate) limits: Limits,
    /// From this length on, messages are cut.
    pub(crate) long: usize,
}

/// Waits for helpers while it is told that they are still wanted.
pub(crate) type Wait<'a> = dyn Fn(&dyn Fn() -> bool) -> Vec<Arc<dyn Helper>> + Sync + 'a;

/// The helpers of a job: those that are there, or what waits for them while it asks whether they
/// are still wanted.
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

/// What came of a job.
pub(crate) struct Outcomes {
    /// Messages that did not verify, ascending.
    pub(crate) refused: Vec<usize>,
    pub(crate) parts: Vec<Part>,
}

impl<'a> Crew<'a> {
    /// Helpers alone, for whom the processor does what they fail to do.
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

    /// Runs a job. Everything is done when this returns, unless a helper failed and the crew does
    /// not redo.
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
                parts.push(Part {
                    helper,
                    bytes,
                    broken,
                });
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
        let step = |taker| unsafe { self.step(job, &queue, taker) };
        let help = |(taker, helper): (usize, Arc<dyn Helper>)| {
            let aside = self.aside(&queue, &step);
            let mut held = HelperLease::new(&queue, taker, aside);
            // SAFETY: the queue gives each portion to one taker; the rest by this function's
            // contract.
            let helped = unsafe { helper.help(job, &mut held, self.redo) };
            drop(held);
            let part = Part {
                bytes: queue.text_of(taker),
                broken: helped.err(),
                helper,
            };
            let mut parts = lock(&parts);
            parts.push(part);
        };
        thread::scope(|scope| {
            // One of them works on this thread: a new one takes longer than a small job.
            let mut own = None;
            match helpers {
                Helpers::Now(helpers) => {
                    // All are added before any takes: the first shares are fair.
                    let mut joined: Vec<_> = helpers.into_iter().map(join).collect();
                    if self.workers == 0 || self.cpu.has_others() {
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
                    // Without a thread to wait, the job is done without help.
                    let _ = thread::Builder::new().spawn_scoped(scope, body);
                }
            }
            let meanwhile = || own.into_iter().for_each(&help);
            // SAFETY: by this function's contract.
            unsafe { self.work(job, &queue, self.workers, meanwhile) };
        });
        // What a helper failed to do, and what was left for threads that did not come. At no pace
        // anybody takes what is there: nobody leaves it to others, who may never come.
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

    /// Whether a helper has a job to itself, and needs no portions: they cost something, most with
    /// GCM. If it fails, all is done again, for which the input must be as it was.
    fn is_alone(&self, job: &Job<'_>, helpers: &[Arc<dyn Helper>]) -> bool {
        let whole = cuts(job.info().algorithm, job.direction());
        helpers.len() == 1 && self.workers == 0 && self.redo && whole && !job.is_in_place()
    }

    /// What the thread of a helper can do while it waits, if that is long: chains keep a GPU busy
    /// for as long as the processor takes for hundreds.
    fn aside<'s>(
        &self,
        queue: &Queue<'_, '_>,
        step: &'s dyn Fn(usize) -> bool,
    ) -> Option<SideWork<'s>> {
        // The helper must not wait for it: as little as is worth while.
        let limits = Limits {
            usual: self.limits.least,
            ..self.limits
        };
        let own = queue.least_of(&limits) as f64 / self.worker.rate.max(f64::MIN_POSITIVE);
        let pays = self.workers > 0 && SIDE_WORK_RATIO * own < self.helper.latency;
        pays.then(|| SideWork {
            taker: queue.add(limits, self.worker),
            until: Duration::from_nanos((self.helper.latency - own) as u64),
            step,
        })
    }

    /// Has CPU threads take portions until there are none for them, and does something else
    /// meanwhile.
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
        let takers: Vec<usize> = (0..count)
            .map(|_| queue.add(self.limits, self.worker))
            .collect();
        let body = |number: usize| {
            // SAFETY: by this function's contract.
            while unsafe { self.step(job, queue, takers[number]) } {}
        };
        let came = self.cpu.on_threads(count, body, meanwhile);
        // Nobody leaves anything for those who did not.
        takers[came..].iter().for_each(|&taker| queue.leave(taker));
    }

    /// Has this thread do the next portion of a taker; false: there is none for it.
    ///
    /// # Safety
    /// As [`Crew::run`].
    unsafe fn step(&self, job: &Job<'_>, queue: &Queue<'_, '_>, taker: usize) -> bool {
        let Some((portion, begun)) = queue.take(taker) else {
            return false;
        };
        // SAFETY: the queue gives each portion to one taker; the rest by this function's contract.
        let outcome = unsafe { self.cpu.run_portion(job, &portion, begun.as_deref()) };
        queue.done(taker, &portion, outcome);
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
    let taker = joined.0;
    let name = format!("warplock-{}", joined.1.name());
    let builder = thread::Builder::new().name(name);
    let body = move || {
        joined.1.pin_thread();
        help(joined);
    };
    if builder.spawn_scoped(scope, body).is_err() {
        // The system has no thread for it: the others do its part.
        queue.leave(taker);
    }
}
