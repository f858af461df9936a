//! Statistics of arrays in GPU memory.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use warplock::cuda::{Device, Region};
use warplock_analyze::gpu::Gpu;
use warplock_analyze::{Error, Options};

use super::device::{device, stream};
use crate::analyze::{Result, Shape, compared, reported, shape_of};
use crate::errors;
use crate::fork::OfThisProcess;

/// The kernels, by their GPU.
static LOADED: Mutex<Vec<(u32, OfThisProcess<Arc<Gpu>>)>> = Mutex::new(Vec::new());

fn loaded(py: Python<'_>, number: u32, device: &Device) -> PyResult<Arc<Gpu>> {
    let loaded = || LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = loaded().iter().find(|(of, _)| *of == number) {
        return found.get(py).cloned();
    }
    // Two threads may both load them; one is dropped.
    let gpu = Arc::new(
        py.detach(|| Gpu::new(device))
            .map_err(|error| raised(py, error))?,
    );
    loaded().push((number, OfThisProcess::new(Arc::clone(&gpu))));
    Ok(gpu)
}

fn raised(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Gpu(error) => errors::engine(py, error),
        error => PyValueError::new_err(error.to_string()),
    }
}

/// As `analyze_data`, for an array in GPU memory: its address and bytes, its GPU, and a stream of that
/// GPU on which it is ready. `warplock.analyze`, which calls this, keeps the array.
#[pyfunction]
pub(super) fn analyze_on_gpu(
    py: Python<'_>,
    place: (u64, usize),
    number: u32,
    address: usize,
    shape: Option<Shape>,
    seed: u64,
) -> PyResult<Vec<Result>> {
    let device = device(py, number)?;
    let gpu = loaded(py, number, &device)?;
    let options = Options {
        seed,
        ..Options::default()
    };
    let found = py.detach(|| {
        // SAFETY: the caller has the stream and the place from the array's library, and keeps both.
        unsafe {
            let data = Region::new(place.0, place.1);
            gpu.analyze(
                data,
                shape.map(shape_of),
                &options,
                &stream(&device, address),
            )
        }
    });
    found
        .map(|report| reported(&report))
        .map_err(|error| raised(py, error))
}

/// As `compare_data`, for arrays in the memory of one GPU.
#[pyfunction]
pub(super) fn compare_on_gpu(
    py: Python<'_>,
    left: (u64, usize),
    right: (u64, usize),
    number: u32,
    address: usize,
    shape: Option<Shape>,
) -> PyResult<(Vec<Result>, Option<u64>)> {
    let device = device(py, number)?;
    let gpu = loaded(py, number, &device)?;
    let found = py.detach(|| {
        // SAFETY: as above.
        unsafe {
            let left = Region::new(left.0, left.1);
            let right = Region::new(right.0, right.1);
            let shape = shape.map(shape_of);
            gpu.compare(left, right, shape, &stream(&device, address))
        }
    });
    found
        .map(|found| compared(&found))
        .map_err(|error| raised(py, error))
}
