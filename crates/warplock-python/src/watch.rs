//! Long work that Ctrl-C stops, and that reports its progress.

use std::io::{self, Write};
use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use warplock_container::{Error, Monitor, Result};

use crate::errors;

/// The interval of checks for signals and of progress reports.
const BEAT: Duration = Duration::from_millis(50);

/// Does `work` on another thread while this one looks for signals and calls `progress` with the
/// bytes of input that are done. If a signal's handler or `progress` raises, the work is stopped and
/// the exception returned once it has ended.
pub(crate) fn watch<T: Send>(
    py: Python<'_>,
    monitor: &Monitor,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    let progress = progress.filter(|given| !given.is_none());
    if progress.is_some_and(|given| !given.is_callable()) {
        return Err(PyTypeError::new_err("progress must be a function"));
    }
    let progress = progress.map(|given| given.clone().unbind());
    let tell = |py: Python<'_>| match &progress {
        Some(function) => function.bind(py).call1((monitor.done(),)).map(drop),
        None => Ok(()),
    };
    let (result, raised) = py.detach(|| {
        thread::scope(|scope| {
            let (done, end) = channel::<()>();
            let started = thread::Builder::new().spawn_scoped(scope, move || {
                // Dropped at the end, even by a panic.
                let _done = done;
                work()
            });
            // A limit on threads is the machine's, no fault of the library.
            let thread = match started {
                Ok(thread) => thread,
                Err(error) => return (Err(Error::NoThread(error)), None),
            };
            let mut raised = None;
            while end.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if raised.is_some() {
                    continue;
                }
                let looked = Python::attach(|py| py.check_signals().and_then(|()| tell(py)));
                if let Err(error) = looked {
                    monitor.cancel();
                    raised = Some(error);
                }
            }
            let result = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            (result, raised)
        })
    });
    if let Some(error) = raised {
        return Err(error);
    }
    let result = result.map_err(|error| errors::container(py, error))?;
    tell(py)?;
    Ok(result)
}

/// A writer that looks for signals now and then, and fails by what a handler raises. For work on the
/// thread that Python called.
pub(crate) struct Interruptible<W> {
    writer: W,
    looked: Instant,
}

impl<W> Interruptible<W> {
    pub(crate) fn new(writer: W) -> Self {
        let looked = Instant::now();
        Interruptible { writer, looked }
    }
}

impl<W: Write> Write for Interruptible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.looked.elapsed() >= BEAT {
            Python::attach(|py| py.check_signals()).map_err(io::Error::other)?;
            self.looked = Instant::now();
        }
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
