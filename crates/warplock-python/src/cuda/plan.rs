//! Plans: batches in GPU memory for many launches, also in graphs.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use warplock::cuda::{Device, Plan};

use super::batch::{Batch, Parts};
use super::device::{device, stream};
use crate::batch::KeySet;
use crate::errors;
use crate::fork::OfThisProcess;

/// A batch in GPU memory, prepared once.
#[pyclass(frozen, module = "warplock._native")]
pub(crate) struct DevicePlan {
    plan: OfThisProcess<Plan>,
    device: Device,
    /// Held while a launch is queued: another thread's kernels must not come between.
    queueing: Mutex<()>,
    /// Its counter of nonces must live as long.
    _batch: Batch,
}

#[pymethods]
impl DevicePlan {
    /// Allocates and waits.
    #[new]
    #[pyo3(signature = (keys, number, parts))]
    fn new(py: Python<'_>, keys: &KeySet, number: u32, parts: Parts<'_>) -> PyResult<Self> {
        let device = device(py, number)?;
        let key = keys.one(py)?;
        // SAFETY: `warplock.cuda` keeps the arrays as long as the plan.
        let batch = unsafe { Batch::new(py, key.algorithm().info(), &parts)? };
        let made = batch.of(py, key)?;
        let made = py.detach(|| Plan::new(&device, made));
        Ok(DevicePlan {
            plan: OfThisProcess::new(made.map_err(|error| errors::engine(py, error))?),
            device,
            queueing: Mutex::new(()),
            _batch: batch,
        })
    }

    /// Queues its kernels, and nothing else.
    fn launch(&self, py: Python<'_>, stream: usize) -> PyResult<()> {
        let plan = self.plan.get(py)?;
        // SAFETY: it is the arrays' library's or the caller's stream.
        let stream = unsafe { self::stream(&self.device, stream) };
        let queued = py.detach(|| {
            let _queueing = self.queueing.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: `warplock.cuda` keeps the arrays as long as the plan, and its documentation
            // says what callers must do.
            unsafe { plan.launch(&stream) }
        });
        queued.map_err(|error| errors::engine(py, error))
    }

    /// Where the verdicts are: the first one's address, the distance to the next, their number.
    #[getter]
    fn statuses(&self, py: Python<'_>) -> PyResult<Option<(u64, usize, usize)>> {
        let found = self.plan.get(py)?.statuses();
        Ok(found.map(|found| (found.address, found.stride, found.count)))
    }

    /// Waits for the stream; the messages that the last launch refused.
    fn failed(&self, py: Python<'_>, stream: usize) -> PyResult<Vec<usize>> {
        let plan = self.plan.get(py)?;
        // SAFETY: as in `launch`.
        let stream = unsafe { self::stream(&self.device, stream) };
        let found = py.detach(|| plan.failed(&stream));
        found.map_err(|error| errors::engine(py, error))
    }
}
