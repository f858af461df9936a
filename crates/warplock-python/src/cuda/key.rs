//! Keys that are ready on a GPU, and calls with them.

use pyo3::prelude::*;
use warplock::cuda::{DeviceBatch, DevicePlaces, DeviceText, DeviceVerdicts, Region, Stream};
use warplock::{AlgorithmInfo, BatchProblem, Direction, Error, Spans};

use super::batch::{At, Batch, Parts, region};
use super::device::{device, stream};
use super::nonces::NonceCounter;
use crate::batch::KeySet;
use crate::errors;
use crate::fork::OfThisProcess;

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

/// A batch that needs the least room.
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

    /// Queues a batch on a stream; or if the workspace is too small, returns the bytes that it
    /// needs, and queues nothing. `statuses`, `refused`: where to write and to count what was
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
        // SAFETY: `warplock.cuda` has the addresses from arrays of this GPU, which it, or an
        // allocator in stream order, keeps until the work is done.
        let batch = unsafe { Batch::new(py, self.info, &parts)? };
        let batch = batch.of(py, key)?;
        // SAFETY: as above.
        let verdicts = unsafe { self::verdicts(py, statuses, refused)? };
        // SAFETY: as above.
        let workspace = unsafe { region(py, workspace)? };
        // SAFETY: it is the arrays' library's or the caller's stream.
        let stream = unsafe { self::stream(key.device(), stream) };
        // SAFETY: as above.
        let queued = py.detach(|| unsafe { key.enqueue(batch, verdicts, workspace, &stream) });
        result(py, queued, &stream)
    }

    /// The same for texts whose addresses and lengths are in GPU memory.
    fn enqueue_indirect(
        &self,
        py: Python<'_>,
        places: Places,
        statuses: Option<At>,
        refused: Option<At>,
        workspace: At,
        stream: usize,
    ) -> PyResult<Option<usize>> {
        let key = self.key.get(py)?;
        let (encrypts, count, total, inputs, lens, outputs, nonces, aad, tags) = places;
        let direction = match encrypts {
            true => Direction::Encrypt,
            false => Direction::Decrypt,
        };
        // SAFETY: as in `enqueue`; what the arrays hold is the caller's promise.
        let region = |at: At| unsafe { region(py, at) };
        let places = DevicePlaces {
            count,
            total_len: total,
            inputs: region(inputs)?,
            lens: region(lens)?,
            outputs: outputs.map(region).transpose()?,
            nonces: region(nonces)?,
            aad: match aad {
                None => None,
                Some((starts, lens)) => Some((region(starts)?, region(lens)?)),
            },
            tags: tags.map(region).transpose()?,
        };
        // SAFETY: as above.
        let verdicts = unsafe { self::verdicts(py, statuses, refused)? };
        let workspace = region(workspace)?;
        // SAFETY: as in `enqueue`.
        let stream = unsafe { self::stream(key.device(), stream) };
        let queued = py.detach(|| {
            // SAFETY: as above.
            unsafe { key.enqueue_indirect(direction, &places, verdicts, workspace, &stream) }
        });
        result(py, queued, &stream)
    }
}

/// Addresses and lengths in GPU memory, as [`DevicePlaces`] has them: whether it encrypts; how many
/// messages, and the most bytes of all texts; the arrays of texts, lengths, results, nonces,
/// associated data (addresses and lengths), tags.
type Places = (
    bool,
    usize,
    u64,
    At,
    At,
    Option<At>,
    At,
    Option<(At, At)>,
    Option<At>,
);

/// # Safety
/// As [`region`].
unsafe fn verdicts(
    py: Python<'_>,
    each: Option<At>,
    refused: Option<At>,
) -> PyResult<DeviceVerdicts> {
    // SAFETY: by this function's contract.
    let region = |at: At| unsafe { region(py, at) };
    Ok(DeviceVerdicts {
        each: each.map(region).transpose()?,
        refused: refused.map(region).transpose()?,
    })
}

/// The bytes that the workspace needs, if it was too small.
fn result(py: Python<'_>, queued: Result<(), Error>, stream: &Stream) -> PyResult<Option<usize>> {
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
