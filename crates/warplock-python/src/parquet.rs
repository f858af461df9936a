//! Encrypted Parquet files to plain ones.

use std::fs::File;
use std::io::{Cursor, Read, Seek, Write};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warplock_parquet::{Error, KeyBytes, KeyRequest, Options};

use crate::buffer::Input;
use crate::engine::{Engine, chosen};
use crate::errors;
use crate::files::{Output, Place, open_file};

/// What can be read at any place.
trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

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
    let (input, len): (Box<dyn ReadSeek + '_>, usize) = match Input::of(source, "the source") {
        Ok(found) => {
            bytes = found;
            let bytes = bytes.bytes();
            (Box::new(Cursor::new(bytes)), bytes.len())
        }
        Err(_) => match Place::of(source)? {
            Place::Path(path) => {
                let file: File = open_file(py, &path)?;
                let len = file.metadata().map_or(0, |found| found.len());
                (Box::new(file), usize::try_from(len).unwrap_or(0))
            }
            Place::Object(object) => (Box::new(object), 0),
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
    let mut run = |input: Box<dyn ReadSeek + '_>, out: &mut (dyn Write + Send)| {
        warplock_parquet::decrypt(input, out, &mut keys, &options, &engine)
    };
    let Some(out) = out else {
        let mut plain = Vec::new();
        let done = py.detach(|| {
            // The plain file is shorter, but for the rarest.
            plain.reserve(len);
            run(input, &mut plain)
        });
        done.map_err(|error| raised(py, error))?;
        return Ok(PyBytes::new(py, &plain).into_any());
    };
    let mut output = Output::create(py, Place::of(out)?, replace)?;
    let done = py.detach(|| match &mut output {
        Output::File(file) => run(input, &mut file.file()),
        Output::Object(object) => run(input, object),
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
