//! Values that are kept between calls, as their pinned memory is slow to allocate.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use warplock::cuda::Device;

use super::device::device;
use crate::fork::OfThisProcess;

/// Those that no call uses, by the number of their GPU.
pub(crate) struct Idle<T: Send>(Mutex<Vec<(u32, OfThisProcess<T>)>>);

impl<T: Send> Idle<T> {
    pub(crate) const fn new() -> Self {
        Idle(Mutex::new(Vec::new()))
    }

    fn all(&self) -> MutexGuard<'_, Vec<(u32, OfThisProcess<T>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with an idle one, or with one that `make` makes. It is kept if `work` says that
    /// it still works.
    pub(crate) fn with<R>(
        &self,
        py: Python<'_>,
        number: u32,
        make: impl FnOnce(&Device) -> T,
        work: impl FnOnce(&mut T) -> (R, bool),
    ) -> PyResult<R> {
        let device = device(py, number)?;
        let found = {
            let mut all = self.all();
            let place = all.iter().position(|(of, _)| *of == number);
            place.map(|place| all.swap_remove(place).1)
        };
        let mut value = found.unwrap_or_else(|| OfThisProcess::new(make(&device)));
        let (result, works) = work(value.get_mut(py)?);
        if works {
            self.all().push((number, value));
        }
        Ok(result)
    }
}
