//! Encrypted Parquet files to plain ones.

use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warplock_parquet::{Error, KeyBytes, KeyRequest, Options};
use warplock_parquet::{decrypt, decrypt_into, decrypt_slice};

use crate::buffer::{Input, new_bytes};
use crate::engine::{Engine, chosen};
use crate::errors;
use crate::files::{Output, Place, open_file};
use crate::python_file::PythonFile;

enum Source<'a> {
    Bytes(&'a [u8]),
    File(File),
    Object(PythonFile),
}

impl Source<'_> {
    fn len(&self) -> io::Result<u64> {
        match self {
            Source::Bytes(bytes) => Ok(bytes.len() as u64),
            Source::File(file) => (&mut &*file).seek(SeekFrom::End(0)),
            Source::Object(object) => object.clone().seek(SeekFrom::End(0)),
        }
    }
}

unsafe extern "C" {
    /// Of the stable ABI, but missing in pyo3.
    fn _PyBytes_Resize(bytes: *mut *mut ffi::PyObject, size: ffi::Py_ssize_t) -> c_int;
}

/// New bytes of which `fill` writes the start; it tells how many.
fn plain_bytes(
    py: Python<'_>,
    room: u64,
    fill: impl FnOnce(&mut [u8]) -> warplock_parquet::Result<usize> + Send,
) -> PyResult<Bound<'_, PyAny>> {
    let (bytes, memory) = new_bytes(py, usize::try_from(room)?)?;
    let written = py.detach(|| fill(memory));
    let written = written.map_err(|error| raised(py, error))?;
    let mut object = bytes.into_ptr();
    // SAFETY: it is a `bytes` object that nothing else knows yet; the call replaces it by one that
    // is not longer, or by null with an exception.
    unsafe {
        _PyBytes_Resize(&mut object, written as ffi::Py_ssize_t);
        Bound::from_owned_ptr_or_err(py, object)
    }
}

/// Decrypts `source` (bytes, a path, or a file object) to `out` (a path or a file object), or to
/// bytes, which it gives then; otherwise their number. `lookup(metadata, column)` gives keys.
#[pyfunction]
#[pyo3(signature = (source, lookup, aad_prefix, out, replace, engine))]
pub(crate) fn decrypt_parquet<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    lookup: &Bound<'py, PyAny>,
    aad_prefix: Option<Vec<u8>>,
    out: Option<&Bound<'py, PyAny>>,
    replace: bool,
    engine: Option<PyRef<'py, Engine>>,
) -> PyResult<Bound<'py, PyAny>> {
    let engine = chosen(py, &engine)?.engine().clone();
    let bytes;
    let source = match Input::of(source, "the source") {
        Ok(found) => {
            bytes = found;
            Source::Bytes(bytes.bytes())
        }
        Err(_) => match Place::of(source)? {
            Place::Path(path) => Source::File(open_file(py, &path)?),
            Place::Object(object) => Source::Object(object),
        },
    };
    let lookup = lookup.clone().unbind();
    let mut keys = move |request: KeyRequest<'_>| {
        Python::attach(|py| {
            let metadata = request.metadata.map(|metadata| PyBytes::new(py, metadata));
            let found = lookup.bind(py).call1((metadata, request.column))?;
            if found.is_none() {
                return Ok(None);
            }
            let found = Input::of(&found, "a key")?;
            Ok(Some(KeyBytes::from(found.bytes().to_vec())))
        })
        .map_err(|error: PyErr| error.into())
    };
    let options = Options { aad_prefix };
    let Some(out) = out else {
        let len = py.detach(|| source.len());
        let len = len.map_err(|error| raised(py, Error::Read(error)))?;
        return plain_bytes(py, len, |mut room| {
            let written = match source {
                Source::Bytes(bytes) => {
                    return decrypt_into(bytes, room, &mut keys, &options, &engine);
                }
                Source::File(file) => decrypt(file, &mut room, &mut keys, &options, &engine),
                Source::Object(object) => decrypt(object, &mut room, &mut keys, &options, &engine),
            };
            written.map(|written| written as usize)
        });
    };
    let mut run = |out: &mut (dyn Write + Send)| match source {
        Source::Bytes(bytes) => decrypt_slice(bytes, out, &mut keys, &options, &engine),
        Source::File(ref file) => decrypt(file, out, &mut keys, &options, &engine),
        Source::Object(ref object) => decrypt(object.clone(), out, &mut keys, &options, &engine),
    };
    let mut output = Output::create(py, Place::of(out)?, replace)?;
    let done = py.detach(|| match &mut output {
        Output::File(file) => run(&mut file.file()),
        Output::Object(object) => run(object),
    });
    let written = done.map_err(|error| raised(py, error))?;
    py.detach(|| output.publish())
        .map_err(|error| errors::container(py, error))?;
    Ok(written.into_pyobject(py)?.into_any())
}

fn raised(py: Python<'_>, error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::NotParquet(_) | Error::NotEncrypted => errors::raise(py, "FormatError", (text,)),
        Error::Footer | Error::AadPrefix(_) | Error::NoKey { .. } => {
            errors::raise(py, "WrongKeyError", (text,))
        }
        Error::Changed(_) | Error::Malformed { .. } => errors::raise(py, "CorruptedError", (text,)),
        Error::KeyLength { .. } => PyValueError::new_err(text),
        Error::KeySource { source, .. } => match source.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(_) => errors::raise(py, "KeyringError", (text,)),
        },
        Error::Read(source) => errors::container(py, warplock_container::Error::Read(source)),
        Error::Write(source) => errors::container(py, warplock_container::Error::Write(source)),
        Error::Engine(inner) => errors::engine(py, inner),
        _ => errors::raise(py, "Error", (text,)),
    }
}
