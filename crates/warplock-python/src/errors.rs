//! From the crates' errors to Python's exceptions. The classes are Python's (`warplock._errors`),
//! as an extension of the stable ABI of 3.11 cannot make exceptions with attributes.

use pyo3::exceptions::{
    PyFileExistsError, PyKeyboardInterrupt, PyOSError, PyOverflowError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

use warplock_container::ErrorKind;

static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// An exception of the class `name` with this message and further arguments.
pub(crate) fn raise<'py>(
    py: Python<'py>,
    name: &str,
    arguments: impl pyo3::call::PyCallArgs<'py>,
) -> PyErr {
    let made = CLASSES
        .get_or_try_init(py, || py.import("warplock._errors").map(Bound::unbind))
        .and_then(|module| module.bind(py).getattr(name)?.call1(arguments));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// A [`warplock::Error`].
pub(crate) fn engine(py: Python<'_>, error: warplock::Error) -> PyErr {
    use warplock::Error;
    let text = error.to_string();
    match error {
        Error::Authentication { failed, total } => raise(py, "InvalidTag", (text, failed, total)),
        Error::Batch { message, .. } => raise(py, "BatchError", (text, message)),
        Error::NoBackend { .. } => raise(py, "NoBackendError", (text,)),
        Error::Backend { .. } | Error::Randomness => raise(py, "BackendError", (text,)),
        Error::Padding => PyValueError::new_err(text),
        _ => raise(py, "BatchError", (text, py.None())),
    }
}

/// A batch whose parts do not fit together.
pub(crate) fn batch(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raise(py, "BatchError", (text.into(), py.None()))
}

/// A number of things, which is at least `least`.
pub(crate) fn number(given: &Bound<'_, PyAny>, what: &str, least: usize) -> PyResult<usize> {
    let py = given.py();
    match given.extract() {
        Ok(number) if number >= least => Ok(number),
        Err(error) if !error.is_instance_of::<PyOverflowError>(py) => Err(error),
        _ if given.lt(least)? => Err(batch(py, format!("{what} must be at least {least}"))),
        _ => Err(batch(py, format!("{what} is larger than any memory"))),
    }
}

/// A GPU that cannot be used.
pub(crate) fn backend(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raise(py, "BackendError", (text.into(),))
}

/// A call while its stream captures a graph.
pub(crate) fn capture(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raise(py, "CaptureError", (text.into(),))
}

/// A [`warplock_keyring::Error`].
pub(crate) fn keyring(py: Python<'_>, error: warplock_keyring::Error) -> PyErr {
    let text = error.to_string();
    if let warplock_keyring::Error::Io { source, .. } = &error {
        return system(source, text);
    }
    match error.kind() {
        warplock_keyring::ErrorKind::Authentication => raise(py, "WrongKeyError", (text,)),
        _ => raise(py, "KeyringError", (text,)),
    }
}

/// A [`warplock_container::Error`].
pub(crate) fn container(py: Python<'_>, error: warplock_container::Error) -> PyErr {
    use warplock_container::{CHUNK_LEN, Error};
    let text = error.to_string();
    let at = |chunk: u64| (text.clone(), chunk, chunk.saturating_mul(CHUNK_LEN as u64));
    match error {
        Error::Keyring(inner) => keyring(py, inner),
        Error::Engine(inner) => engine(py, inner),
        Error::WrongKey => raise(py, "WrongKeyError", (text,)),
        Error::Chunk { chunk }
        | Error::LastChunk { chunk }
        | Error::Misplaced { chunk, .. }
        | Error::TrailingData { chunk, .. } => raise(py, "CorruptedError", at(chunk)),
        Error::LastChunkMissing { chunk } => raise(py, "TruncatedError", at(chunk)),
        Error::EnvelopeCut | Error::HeaderCut { .. } | Error::Empty => {
            raise(py, "TruncatedError", (text, py.None(), py.None()))
        }
        Error::NotWarplock { .. } | Error::NewerVersion { .. } | Error::BadEnvelope(_) => {
            raise(py, "FormatError", (text,))
        }
        Error::OutputExists => PyFileExistsError::new_err(text),
        // A Python file object's own exception.
        Error::Read(source) | Error::Write(source) | Error::Create(source)
            if source.get_ref().is_some_and(|inner| inner.is::<PyErr>()) =>
        {
            match source.into_inner().map(|inner| inner.downcast::<PyErr>()) {
                Some(Ok(error)) => *error,
                _ => PyOSError::new_err(text),
            }
        }
        Error::Read(source) | Error::Write(source) | Error::Create(source) => {
            match source.downcast::<Error>() {
                Ok(inner) => container(py, inner),
                Err(source) => system(&source, text),
            }
        }
        Error::Cancelled => PyKeyboardInterrupt::new_err(()),
        other if other.kind() == ErrorKind::Usage => PyValueError::new_err(text),
        _ => raise(py, "Error", (text,)),
    }
}

/// An `OSError` with its number, so that it is of the class that belongs to it.
fn system(source: &std::io::Error, text: String) -> PyErr {
    match source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, text)),
        None => PyOSError::new_err(text),
    }
}
