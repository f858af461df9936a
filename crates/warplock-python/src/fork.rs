//! Values that a forked child must not touch: CUDA does not work there, and a file that is written
//! must not go on in two processes.

use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::errors;

/// How many forks led from the first process to this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// A value of the process that made it. In a forked child it returns an error instead, and is not
/// dropped.
pub(crate) struct OfThisProcess<T: Send> {
    value: ManuallyDrop<T>,
    forks: u32,
    refused: fn(Python<'_>) -> PyErr,
}

impl<T: Send> OfThisProcess<T> {
    /// A CUDA value.
    pub(crate) fn new(value: T) -> Self {
        OfThisProcess::or(value, |py| {
            errors::backend(
                py,
                "this process was forked after CUDA had started, so it cannot use the GPU: start \
                 processes with multiprocessing's \"spawn\" or \"forkserver\"",
            )
        })
    }

    /// A value that a forked child gets `refused` for.
    pub(crate) fn or(value: T, refused: fn(Python<'_>) -> PyErr) -> Self {
        static AT_FORK: Once = Once::new();
        AT_FORK.call_once(|| {
            // SAFETY: the handler only adds to an atomic, which is allowed after a fork.
            unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
        });
        OfThisProcess {
            value: ManuallyDrop::new(value),
            forks: forks(),
            refused,
        }
    }

    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        self.check(py)?;
        Ok(&self.value)
    }

    pub(crate) fn get_mut(&mut self, py: Python<'_>) -> PyResult<&mut T> {
        self.check(py)?;
        Ok(&mut self.value)
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        match self.forks == forks() {
            true => Ok(()),
            false => Err((self.refused)(py)),
        }
    }
}

impl<T: Send> Drop for OfThisProcess<T> {
    fn drop(&mut self) {
        if self.forks != forks() {
            return;
        }
        // SAFETY: it is taken once, here.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        // Dropping may wait for the GPU, whose work may wait for functions of Python. While the
        // interpreter ends, there is nothing to attach to.
        let mut value = Some(value);
        let _ = Python::try_attach(|py| {
            let value = value.take();
            py.detach(|| drop(value));
        });
    }
}
