//! Keys that are ready on a GPU, and calls with them.

use pyo3::prelude::*;
use warplock::cuda::{DeviceBatch, DeviceText, DeviceVerdicts, Region};
use warplock::{AlgorithmInfo, BatchProblem, Error, Spans};

use super::batch::{At, Batch, Parts, region};
use super::device::{device, stream};
use super::fork::OfThisProcess;
use super::nonces::NonceCounter;
use crate::batch::KeySet;
use crate::errors;

/// A key made ready on one GPU, with a counter of nonces.
#[pyclass(frozen, module = "warplock._native")]
pub(crate) struct DeviceKey {
    key: OfThisProcess<warplock::cuda::DeviceKey>,
    counter: Option<Py<NonceCounter>>,
    info: &'static AlgorithmInfo,
    number: u32,
}

/// Calls of at most about a thousand messages that can be under way on a GPU before one waits for an
/// earlier one.
const CALLS: usize = 64;

/// A batch that needs no more room than any other.
fn no_messages(key: &warplock::cuda::DeviceKey) -> DeviceBatch<'_> {
    let spans = Spans::Even {
        count: 0,
        len: 0,
        stride: 0,
    };
    // SAFETY: it has no bytes.
    let buffer = unsafe { Region::new(0, 0) };
    DeviceBatch::encrypt(key, DeviceText::InPlace { buffer, spans })
}

#[pymethods]
impl DeviceKey {
    /// Allocates, tests the kernels, and waits.
    #[new]
    #[pyo3(signature = (keys, number))]
    fn new(py: Python<'_>, keys: &KeySet, number: u32) -> PyResult<Self> {
        let device = device(py, number)?;
        let key = keys.one(py)?;
        let info = key.algorithm().info();
        let made = py.detach(|| {
            let made = warplock::cuda::DeviceKey::new(&device, key)?;
            made.reserve(&no_messages(&made), CALLS)?;
            Ok(made)
        });
        let made = made.map_err(|error| errors::engine(py, error))?;
        let counter = match info.algorithm.is_aead() {
            false => None,
            true => Some(Py::new(
                py,
                NonceCounter::make(py, number, info.algorithm, None)?,
            )?),
        };
        Ok(DeviceKey {
            key: OfThisProcess::new(made),
            counter,
            info,
            number,
        })
    }

    /// The GPU's number.
    #[getter]
    fn device(&self) -> u32 {
        self.number
    }

    /// The counter that gives nonces where none are given; none for modes without authentication.
    #[getter]
    fn counter(&self, py: Python<'_>) -> Option<Py<NonceCounter>> {
        self.counter.as_ref().map(|counter| counter.clone_ref(py))
    }

    /// Bytes of GPU memory that a call with this batch works in.
    fn workspace_len(&self, py: Python<'_>, parts: Parts<'_>) -> PyResult<usize> {
        let key = self.key.get(py)?;
        // SAFETY: nothing is read or written there.
        let batch = unsafe { Batch::new(py, self.info, &parts)? };
        let batch = batch.of(py, key)?;
        let found = py.detach(|| key.workspace_len(&batch));
        found.map_err(|error| errors::engine(py, error))
    }

    /// Queues a batch on a stream; or gives the bytes of the workspace that it needs if this one is
    /// too small, and queues nothing. `statuses`, `refused`: where to write and to count what was
    /// refused.
    fn enqueue(
        &self,
        py: Python<'_>,
        parts: Parts<'_>,
        statuses: Option<At>,
        refused: Option<At>,
        workspace: At,
        stream: usize,
    ) -> PyResult<Option<usize>> {
        let key = self.key.get(py)?;
        // SAFETY: `warplock.cuda` has the addresses from arrays of this GPU, which it or the
        // allocator's order of streams keeps until the work is done.
        let batch = unsafe { Batch::new(py, self.info, &parts)? };
        // SAFETY: as above.
        let region = |at: At| unsafe { region(py, at) };
        let verdicts = DeviceVerdicts {
            each: statuses.map(region).transpose()?,
            refused: refused.map(region).transpose()?,
        };
        let workspace = region(workspace)?;
        // SAFETY: it is the arrays' library's or the caller's stream.
        let stream = unsafe { self::stream(key.device(), stream) };
        let batch = batch.of(py, key)?;
        // SAFETY: as above.
        let queued = py.detach(|| unsafe { key.enqueue(batch, verdicts, workspace, &stream) });
        match queued {
            Ok(()) => Ok(None),
            Err(Error::Batch {
                problem: BatchProblem::Workspace { needed, .. },
                ..
            }) => Ok(Some(needed)),
            Err(error @ Error::Backend { .. }) if stream.is_capturing().unwrap_or(false) => {
                Err(errors::capture(py, error.to_string()))
            }
            Err(error) => Err(errors::engine(py, error)),
        }
    }
}
