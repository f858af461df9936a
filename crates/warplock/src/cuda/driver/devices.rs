//! The list of GPUs.

use super::api::{DeviceHandle, Driver, Gpu, NO_GPU};
use crate::{BackendChoice, Error};

/// The GPUs of this machine and their driver.
#[derive(Clone, Debug)]
pub struct Devices {
    /// The version of CUDA that the driver knows, such as `13.0`.
    pub driver: String,
    /// The GPUs, in the driver's order; never empty.
    pub gpus: Vec<Gpu>,
}

/// Lists the GPUs that batches can run on.
///
/// # Errors
/// [`Error::NoBackend`] if there is none, with the reason: no driver, one that is too old, or no
/// GPU.
pub fn devices() -> Result<Devices, Error> {
    let none = |reason: String| Error::NoBackend {
        name: BackendChoice::Cuda(None).to_string(),
        reason,
    };
    let driver = Driver::load().map_err(none)?;
    let found = driver.devices();
    let found = found.map_err(|failure| none(failure.to_string()))?;
    if found.is_empty() {
        return Err(none(NO_GPU.to_owned()));
    }
    Ok(Devices {
        driver: driver.version(),
        gpus: found.into_iter().map(|device| device.gpu).collect(),
    })
}

/// The error for a GPU that cannot be used.
pub(crate) fn no_backend(number: Option<u32>, reason: &str) -> Error {
    Error::NoBackend {
        name: BackendChoice::Cuda(number).to_string(),
        reason: format!("{reason}; use cpu"),
    }
}

/// The GPU with this number, or the first one.
pub(crate) fn find(number: Option<u32>) -> Result<DeviceHandle, Error> {
    let driver = Driver::load().map_err(|reason| no_backend(number, &reason))?;
    let devices = driver.devices();
    let mut devices = devices.map_err(|failure| no_backend(number, &failure.to_string()))?;
    let wanted = number.unwrap_or(0) as usize;
    if wanted < devices.len() {
        return Ok(devices.swap_remove(wanted));
    }
    let there = match devices.len() {
        0 => NO_GPU.to_owned(),
        1 => "this machine has one GPU, cuda:0".to_owned(),
        count => format!("this machine has the GPUs cuda:0 to cuda:{}", count - 1),
    };
    Err(no_backend(number, &there))
}
