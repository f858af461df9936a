//! The GPUs of an engine: started when they pay for it, removed when they fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::crew::{Broken, Helper};
use crate::lock::lock;

/// Starts the GPUs: returns those that work, and a sentence for each that does not.
pub(crate) type Start = Box<dyn Fn() -> (Vec<Arc<dyn Helper>>, Vec<String>) + Send + Sync>;

/// How often a job that waits for GPUs checks whether it still needs them.
const START_POLL: Duration = Duration::from_millis(1);

/// Values of `Inner::hint`, which is read without a lock.
mod hint {
    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const NONE: u8 = 1;
    pub(super) const MAYBE: u8 = 2;
}

enum Stage {
    Asleep,
    Starting(JoinHandle<()>),
    Awake,
}

struct State {
    stage: Stage,
    gpus: Vec<Arc<dyn Helper>>,
    /// Nanoseconds that they would have saved so far.
    missed: f64,
}

struct Inner {
    start: Start,
    /// Whether there may be any: a cheap test.
    there: fn() -> bool,
    warn: fn(&str),
    state: Mutex<State>,
    changed: Condvar,
    hint: AtomicU8,
}

/// The GPUs that an engine may use.
pub(crate) struct Gpus(Arc<Inner>);

impl Gpus {
    pub(crate) fn new(start: Start, there: fn() -> bool, warn: fn(&str)) -> Self {
        Gpus(Arc::new(Inner {
            start,
            there,
            warn,
            state: Mutex::new(State {
                stage: Stage::Asleep,
                gpus: Vec::new(),
                missed: 0.0,
            }),
            changed: Condvar::new(),
            hint: AtomicU8::new(hint::UNKNOWN),
        }))
    }

    /// Whether there may be any. Calls after the first cost next to nothing.
    pub(crate) fn may_exist(&self) -> bool {
        match self.0.hint.load(Ordering::Relaxed) {
            hint::UNKNOWN => {
                let there = (self.0.there)();
                let known = if there { hint::MAYBE } else { hint::NONE };
                self.0.hint.store(known, Ordering::Relaxed);
                there
            }
            known => known == hint::MAYBE,
        }
    }

    /// Whether it is known that there are none.
    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        self.0.hint.load(Ordering::Relaxed) == hint::NONE
    }

    /// The GPUs that work, if they were started.
    pub(crate) fn awake(&self) -> Option<Vec<Arc<dyn Helper>>> {
        let state = lock(&self.0.state);
        matches!(state.stage, Stage::Awake).then(|| state.gpus.clone())
    }

    /// Records that GPUs would have saved `saving` nanoseconds on a job, and starts them once these
    /// add up to what a start takes. So the lost time is at most twice that of a planner that knows
    /// the future.
    pub(crate) fn miss(&self, saving: f64, start: f64) {
        let enough = {
            let mut state = lock(&self.0.state);
            state.missed += saving;
            state.missed >= start
        };
        if enough {
            self.begin();
        }
    }

    /// Starts them in the background, unless that was done before.
    pub(crate) fn begin(&self) {
        let mut state = lock(&self.0.state);
        if !matches!(state.stage, Stage::Asleep) {
            return;
        }
        let inner = Arc::clone(&self.0);
        let body = move || {
            // Waiting jobs are notified whatever happens.
            let started = catch_unwind(AssertUnwindSafe(|| (inner.start)()));
            let (gpus, problems) = started.unwrap_or_else(|_| {
                let why = "GPUs cannot be used (a panic while they were started); the work is \
                           done without";
                (Vec::new(), vec![why.to_owned()])
            });
            for problem in problems {
                let _ = catch_unwind(AssertUnwindSafe(|| (inner.warn)(&problem)));
            }
            if gpus.is_empty() {
                inner.hint.store(hint::NONE, Ordering::Relaxed);
            }
            let mut state = lock(&inner.state);
            state.gpus = gpus;
            state.stage = Stage::Awake;
            drop(state);
            inner.changed.notify_all();
        };
        let thread = thread::Builder::new().name("warplock-start".to_owned());
        // If the system has no thread, a later job tries again.
        if let Ok(thread) = thread.spawn(body) {
            state.stage = Stage::Starting(thread);
        }
    }

    /// Waits until they are ready, while `wanted` returns true.
    pub(crate) fn wait(&self, wanted: &dyn Fn() -> bool) -> Vec<Arc<dyn Helper>> {
        let mut state = lock(&self.0.state);
        while matches!(state.stage, Stage::Starting(_)) && wanted() {
            let waited = self.0.changed.wait_timeout(state, START_POLL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match state.stage {
            Stage::Awake if wanted() => state.gpus.clone(),
            _ => Vec::new(),
        }
    }

    /// Removes a GPU that failed, with one warning, even if several jobs report it.
    pub(crate) fn remove(&self, broken: &Arc<dyn Helper>, why: &Broken) {
        let mut state = lock(&self.0.state);
        let before = state.gpus.len();
        state.gpus.retain(|gpu| !Arc::ptr_eq(gpu, broken));
        let (found, none) = (state.gpus.len() < before, state.gpus.is_empty());
        drop(state);
        if !found {
            return;
        }
        if none {
            self.0.hint.store(hint::NONE, Ordering::Relaxed);
        }
        (self.0.warn)(&format!(
            "{} failed ({}); its part of the work was done by others, and it is not used any more",
            broken.name(),
            why.reason
        ));
    }
}

impl Drop for Gpus {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut lock(&self.0.state).stage, Stage::Awake);
        if let Stage::Starting(thread) = stage {
            // A process must not end while its driver is being started. A panic there changes
            // nothing.
            let _ = thread.join();
        }
    }
}
