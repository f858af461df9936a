//! Engines: the one of the process, and others.

use std::num::NonZeroUsize;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Once};

use pyo3::prelude::*;
use warplock_container::Engines;

use crate::errors::{self, number};

/// Where batches run: "auto" (the default), "cpu", "cpu:NAME", "cuda", "cuda:N" or "cuda:N,M".
///
/// Calls that name no other use the process's engine: see default_engine().
#[pyclass(frozen, module = "warplock")]
pub(crate) struct Engine {
    set: Arc<Engines>,
}

/// The process's engine. It is never freed, as threads may use it while the interpreter ends, and
/// replaced in a forked child, where the threads of the old one do not exist.
static DEFAULT: AtomicPtr<Engines> = AtomicPtr::new(null_mut());

extern "C" fn forget_default() {
    DEFAULT.store(null_mut(), Ordering::Release);
}

/// The process's engine, made at the first use.
pub(crate) fn default(py: Python<'_>) -> PyResult<&'static Engines> {
    // SAFETY: what is stored there came from a box that is never freed.
    match unsafe { DEFAULT.load(Ordering::Acquire).as_ref() } {
        Some(set) => Ok(set),
        None => make_default(py),
    }
}

#[cold]
fn make_default(py: Python<'_>) -> PyResult<&'static Engines> {
    static AT_FORK: Once = Once::new();
    AT_FORK.call_once(|| {
        // SAFETY: the handler only stores to an atomic, which is allowed after a fork.
        unsafe { libc::pthread_atfork(None, None, Some(forget_default)) };
    });
    let made = Engines::new(None, None).map_err(|error| errors::engine(py, error))?;
    let made = Box::into_raw(Box::new(made));
    match DEFAULT.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it is never freed.
        Ok(_) => Ok(unsafe { &*made }),
        Err(other) => {
            // SAFETY: it was just made, and is known to no other thread.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: as in `default`.
            Ok(unsafe { &*other })
        }
    }
}

/// The engine that a call shall use.
pub(crate) fn chosen<'a>(
    py: Python<'_>,
    given: &'a Option<PyRef<'_, Engine>>,
) -> PyResult<&'a Engines> {
    match given {
        Some(engine) => Ok(&engine.set),
        None => default(py),
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (backend=None, *, threads=None))]
    fn new(
        py: Python<'_>,
        backend: Option<&str>,
        threads: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let threads = threads
            .map(|given| number(given, "threads", 1))
            .transpose()?;
        let threads = threads.and_then(NonZeroUsize::new);
        // GPUs may take a second to start.
        let set = py.detach(|| Engines::new(backend, threads));
        let set = Arc::new(set.map_err(|error| errors::engine(py, error))?);
        Ok(Engine { set })
    }

    /// The backend in use, such as "cpu:vaes512" or "cpu:vaes512+cuda:0".
    #[getter]
    fn backend(&self) -> String {
        self.set.engine().backend()
    }

    /// Starts the GPUs now, if there are any; otherwise they are started once they would pay.
    fn wake(&self, py: Python<'_>) {
        py.detach(|| self.set.engine().wake());
    }

    fn __repr__(&self) -> String {
        format!("<warplock.Engine {}>", self.set.engine().backend())
    }
}

impl Engine {
    pub(crate) fn set(&self) -> &Arc<Engines> {
        &self.set
    }
}

/// The backend of the process's engine.
#[pyfunction]
pub(crate) fn default_backend(py: Python<'_>) -> PyResult<String> {
    Ok(default(py)?.engine().backend())
}
