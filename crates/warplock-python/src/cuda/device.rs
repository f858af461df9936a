//! The GPUs of the process, each opened once.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use warplock::Error;
use warplock::cuda::{Device, Stream, devices};

use crate::errors;
use crate::fork::OfThisProcess;

/// By their number. They stay open until the process ends.
static OPEN: Mutex<Vec<Option<OfThisProcess<Device>>>> = Mutex::new(Vec::new());

/// The GPU with this number. The first call starts it, which takes a moment.
pub(super) fn device(py: Python<'_>, number: u32) -> PyResult<Device> {
    let find = || {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let place = number as usize;
        if open.len() <= place {
            open.resize_with(place + 1, || None);
        }
        if open[place].is_none() {
            open[place] = Some(OfThisProcess::new(Device::open(number)?));
        }
        Ok::<_, Error>(open)
    };
    // The lock is held while a GPU is opened, so Python is detached while this waits for it.
    let open = py.detach(|| find().map(drop));
    open.map_err(|error| errors::engine(py, error))?;
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let opened = open[number as usize].as_ref();
    Ok(opened.expect("it was opened just now").get(py)?.clone())
}

/// Another library's stream, by its address.
///
/// # Safety
/// It is a stream of this device's primary context, and outlives the result.
pub(super) unsafe fn stream(device: &Device, address: usize) -> Stream {
    let raw = std::ptr::without_provenance_mut::<c_void>(address);
    // SAFETY: by this function's contract.
    unsafe { device.stream_from_raw(raw) }
}

/// The names of this machine's GPUs; none also if there is no driver.
#[pyfunction]
pub(super) fn gpus(py: Python<'_>) -> PyResult<Vec<String>> {
    match py.detach(devices) {
        Ok(found) => Ok(found.gpus.into_iter().map(|gpu| gpu.name).collect()),
        Err(Error::NoBackend { .. }) => Ok(Vec::new()),
        Err(error) => Err(errors::engine(py, error)),
    }
}

/// Waits for a stream of a GPU.
#[pyfunction]
pub(super) fn synchronize(py: Python<'_>, number: u32, address: usize) -> PyResult<()> {
    let device = device(py, number)?;
    // SAFETY: Python's caller has it from the library that made it.
    let stream = unsafe { stream(&device, address) };
    let done = py.detach(|| stream.synchronize());
    done.map_err(|error| errors::engine(py, error))
}
