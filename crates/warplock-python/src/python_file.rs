//! Python's binary file objects as `Read`, `Write`, `Seek`, `ReadAt`.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyBlockingIOError, PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warplock_container::ReadAt;

/// A file object. Its methods are called with Python attached, on whatever thread reads or writes;
/// one call at a time.
#[derive(Clone)]
pub(crate) struct PythonFile {
    object: Arc<Py<PyAny>>,
    /// Held from a seek to the read that belongs to it.
    turn: Arc<Mutex<()>>,
}

impl PythonFile {
    pub(crate) fn new(object: Bound<'_, PyAny>) -> Self {
        PythonFile {
            object: Arc::new(object.unbind()),
            turn: Arc::default(),
        }
    }

    fn call<T>(&self, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> io::Result<T> {
        Python::attach(|py| work(self.object.bind(py)).map_err(|error| failed(py, error)))
    }

    /// Whether it can be read at any offset.
    pub(crate) fn is_seekable(&self) -> bool {
        self.call(|file| file.call_method0("seekable")?.extract())
            .unwrap_or(false)
    }
}

/// An exception as an error, which carries it; a system's error keeps its number.
fn failed(py: Python<'_>, error: PyErr) -> io::Error {
    let number = error.value(py).getattr("errno");
    match number.and_then(|number| number.extract::<i32>()) {
        Ok(number) if error.is_instance_of::<pyo3::exceptions::PyOSError>(py) => {
            io::Error::from_raw_os_error(number)
        }
        _ => io::Error::other(error),
    }
}

/// What a file returns None for that does not wait: its end has not come.
fn would_block(what: &str) -> PyErr {
    let why = format!("the file object cannot be {what} without waiting; make it a blocking one");
    PyBlockingIOError::new_err(why)
}

impl Read for PythonFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.call(|file| {
            let read = file.call_method1("read", (buffer.len(),))?;
            if read.is_none() {
                return Err(would_block("read"));
            }
            let Ok(read) = read.cast::<PyBytes>() else {
                return Err(PyTypeError::new_err(format!(
                    "the file object's read returned {} instead of bytes, as binary files do",
                    read.get_type().name()?
                )));
            };
            let read = read.as_bytes();
            let Some(start) = buffer.get_mut(..read.len()) else {
                let why = "the file object's read returned more bytes than it was asked for";
                return Err(PyOSError::new_err(why));
            };
            start.copy_from_slice(read);
            Ok(read.len())
        })
    }
}

impl Seek for PythonFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.call(|file| {
            let to = match to {
                SeekFrom::Start(at) => file.call_method1("seek", (at, 0)),
                SeekFrom::Current(by) => file.call_method1("seek", (by, 1)),
                SeekFrom::End(by) => file.call_method1("seek", (by, 2)),
            }?;
            match to.is_none() {
                true => file.call_method0("tell")?.extract(),
                false => to.extract(),
            }
        })
    }
}

impl ReadAt for PythonFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = self.clone();
        file.seek(SeekFrom::Start(offset))?;
        let read = file.read(buffer);
        drop(turn);
        read
    }
}

impl Write for PythonFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call(|file| {
            // A copy, as the object may keep what it is given.
            let bytes = PyBytes::new(file.py(), bytes);
            let written = file.call_method1("write", (&bytes,))?;
            let len = bytes.as_bytes().len();
            // Many objects that are only like a file return nothing.
            if written.is_none() {
                let raw = file.py().import("io")?.getattr("RawIOBase")?;
                return match file.is_instance(&raw)? {
                    true => Err(would_block("written to")),
                    false => Ok(len),
                };
            }
            match written.extract()? {
                written if written > len => Err(PyOSError::new_err(
                    "the file object's write says that it wrote more bytes than there were",
                )),
                written => Ok(written),
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.call(|file| match file.hasattr("flush")? {
            true => file.call_method0("flush").map(drop),
            false => Ok(()),
        })
    }
}
