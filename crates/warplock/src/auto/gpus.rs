//! The GPUs of an engine: started when they are worth it, taken out when they fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::crew::{Broken, Helper};
use crate::lock::lock;

/// Starts GPUs: gives those that can be used, and a sentence for each that cannot.
pub(crate) type Start = Box<dyn Fn() -> (Vec<Arc<dyn Helper>>, Vec<String>) + Send + Sync>;

/// How often a job that waits for GPUs looks whether it still needs them.
const START_POLL: Duration = Duration::from_millis(1);

/// What is known without a look at the state.
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
    warn: fn(&str),
    state: Mutex<State>,
    changed: Condvar,
    hint: AtomicU8,
}

/// The GPUs that an engine may use.
pub(crate) struct Gpus(Arc<Inner>);

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Gpus {
    pub(crate) fn new(start: Start, warn: fn(&str)) -> Self {
        Gpus(Arc::new(Inner {
            start,
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

    /// Whether there may be any. The first call asks `there`, which must be cheap; the others cost
    /// next to nothing.
    pub(crate) fn may_exist(&self, there: impl FnOnce() -> bool) -> bool {
        match self.0.hint.load(Ordering::Relaxed) {
            hint::UNKNOWN => {
                let there = there();
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

    /// Those that are ready, if they were started.
    pub(crate) fn awake(&self) -> Option<Vec<Arc<dyn Helper>>> {
        let state = self.0.lock();
        matches!(state.stage, Stage::Awake).then(|| state.gpus.clone())
    }

    /// Notes that a job would have been done so much sooner with GPUs (nanoseconds), and starts
    /// them once that adds up to what a start takes: so the time lost is never more than twice
    /// what it would be for somebody who knows what comes.
    pub(crate) fn miss(&self, saving: f64, start: f64) {
        let enough = {
            let mut state = self.0.lock();
            state.missed += saving;
            state.missed >= start
        };
        if enough {
            self.begin();
        }
    }

    /// Starts them in the background, if that was not done before.
    pub(crate) fn begin(&self) {
        let mut state = self.0.lock();
        if !matches!(state.stage, Stage::Asleep) {
            return;
        }
        let inner = Arc::clone(&self.0);
        let body = move || {
            // Whatever happens, those that wait are told.
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
            let mut state = inner.lock();
            state.gpus = gpus;
            state.stage = Stage::Awake;
            drop(state);
            inner.changed.notify_all();
        };
        let thread = thread::Builder::new().name("warplock-start".to_owned());
        // Without a thread, it is tried again another time.
        if let Ok(thread) = thread.spawn(body) {
            state.stage = Stage::Starting(thread);
        }
    }

    /// Waits until they are ready, but only while `wanted` says so.
    pub(crate) fn wait(&self, wanted: &dyn Fn() -> bool) -> Vec<Arc<dyn Helper>> {
        let mut state = self.0.lock();
        while matches!(state.stage, Stage::Starting(_)) && wanted() {
            let waited = self.0.changed.wait_timeout(state, START_POLL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match state.stage {
            Stage::Awake if wanted() => state.gpus.clone(),
            _ => Vec::new(),
        }
    }

    /// Takes one out that failed, with one warning, whoever else found out.
    pub(crate) fn take_out(&self, broken: &Arc<dyn Helper>, why: &Broken) {
        let mut state = self.0.lock();
        let before = state.gpus.len();
        state.gpus.retain(|gpu| !Arc::ptr_eq(gpu, broken));
        let (found, none) = (state.gpus.len() < before, state.gpus.is_empty());
        drop(state);
        if why.hangs {
            // Never dropped: that would wait for it.
            std::mem::forget(Arc::clone(broken));
        }
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
        let stage = std::mem::replace(&mut self.0.lock().stage, Stage::Awake);
        if let Stage::Starting(thread) = stage {
            // A process must not end while its driver is being started. Nothing can be done about
            // a panic there.
            let _ = thread.join();
        }
    }
}
