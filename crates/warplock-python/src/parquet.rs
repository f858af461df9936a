//! Encrypted Parquet files to plain ones, and back.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warplock_parquet::{
    Encryption, Error, KeyBytes, KeyRequest, KeySource, LazyFile, Options, WriteKey,
};
use warplock_parquet::{decrypt, decrypt_into, decrypt_slice, encrypt, encrypt_slice};

use crate::buffer::{Input, new_bytes};
use crate::engine::{Engine, chosen};
use crate::errors;
use crate::files::{Output, Place, open_file};
use crate::python_file::PythonFile;
use crate::watch::Interruptible;

enum Source<'a> {
    Bytes(&'a [u8]),
    File(File),
    Object(PythonFile),
}

impl<'a> Source<'a> {
    /// `bytes` are those of the object, if it has any.
    fn of(
        py: Python<'_>,
        object: &Bound<'_, PyAny>,
        bytes: &'a Option<Input<'_>>,
    ) -> PyResult<Self> {
        if let Some(bytes) = bytes {
            return Ok(Source::Bytes(bytes.bytes()));
        }
        Ok(match Place::of(object)? {
            Place::Path(path) => Source::File(open_file(py, &path)?),
            Place::Object(object) => Source::Object(object),
        })
    }

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

/// A new `bytes` object; `fill` writes its start, and returns how many bytes.
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

/// Decrypts `source` (bytes, a path, or a file object) to `out` (a path or a file object) and
/// returns the number of bytes; without `out` returns the bytes. `lookup(metadata, column)` returns
/// keys.
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
    let bytes = Input::of(source, "the source").ok();
    let source = Source::of(py, source, &bytes)?;
    let mut keys = given_keys(lookup);
    let options = Options { aad_prefix };
    let Some(out) = out else {
        let len = py.detach(|| source.len());
        let len = len.map_err(|error| raised(py, Error::Read(error)))?;
        return plain_bytes(py, len, |mut room| {
            let written = match source {
                Source::Bytes(bytes) => {
                    return decrypt_into(bytes, room, &mut keys, &options, &engine);
                }
                Source::File(file) => {
                    let mut room = Interruptible::new(&mut room);
                    decrypt(file, &mut room, &mut keys, &options, &engine)
                }
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
    let written = to_output(py, out, replace, &mut run)?;
    Ok(written.into_pyobject(py)?.into_any())
}

/// An encrypted file that is decrypted as it is read.
#[pyclass(frozen, module = "warplock._native")]
pub(crate) struct LazyParquet {
    file: LazyFile,
    engine: Arc<warplock::Engine>,
}

#[pymethods]
impl LazyParquet {
    #[new]
    #[pyo3(signature = (source, lookup, aad_prefix, engine))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        lookup: &Bound<'_, PyAny>,
        aad_prefix: Option<Vec<u8>>,
        engine: Option<PyRef<'_, Engine>>,
    ) -> PyResult<Self> {
        let engine = chosen(py, &engine)?.engine().clone();
        let source = Input::of(source, "the source")?;
        let (bytes, mut keys) = (source.bytes(), given_keys(lookup));
        let options = Options { aad_prefix };
        let file = py.detach(|| LazyFile::open(bytes, &mut keys, &options, &engine));
        let file = file.map_err(|error| raised(py, error))?;
        Ok(LazyParquet { file, engine })
    }

    fn __len__(&self) -> usize {
        self.file.len() as usize
    }

    /// Up to `len` bytes at `offset`. `source` holds what it held at the opening.
    fn read<'py>(
        &self,
        py: Python<'py>,
        source: &Bound<'_, PyAny>,
        offset: u64,
        len: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let source = Input::of(source, "the source")?;
        let bytes = source.bytes();
        let len = len.min(self.file.len().saturating_sub(offset));
        plain_bytes(py, len, |room| {
            self.file.read(bytes, offset, room, &self.engine)
        })
    }
}

/// Asks a Python function for keys.
pub(crate) fn given_keys(lookup: &Bound<'_, PyAny>) -> impl KeySource + use<> {
    let lookup = lookup.clone().unbind();
    move |request: KeyRequest<'_>| {
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
    }
}

/// Runs `work` with an output that appears when it is done.
fn to_output(
    py: Python<'_>,
    out: &Bound<'_, PyAny>,
    replace: bool,
    work: &mut (dyn FnMut(&mut (dyn Write + Send)) -> warplock_parquet::Result<u64> + Send),
) -> PyResult<u64> {
    let mut output = Output::create(py, Place::of(out)?, replace)?;
    let done = py.detach(|| match &mut output {
        Output::File(file) => work(&mut Interruptible::new(file.file())),
        Output::Object(object) => work(&mut Interruptible::new(object)),
    });
    let written = done.map_err(|error| raised(py, error))?;
    // After Ctrl-C nothing appears.
    py.check_signals()?;
    py.detach(|| output.publish())
        .map_err(|error| errors::container(py, error))?;
    Ok(written)
}

/// Encrypts a plain `source`; returns as [`decrypt_parquet`]. `columns`: keys by column path;
/// `metadata`: what to store about the footer's key (None) and theirs.
#[pyfunction]
#[pyo3(signature = (source, key, columns, metadata, ctr, plaintext_footer, aad_prefix, store_prefix, out, replace, engine))]
#[expect(
    clippy::too_many_arguments,
    reason = "one caller, which names them all"
)]
pub(crate) fn encrypt_parquet<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    columns: Vec<(String, Bound<'py, PyAny>)>,
    mut metadata: HashMap<Option<String>, Vec<u8>>,
    ctr: bool,
    plaintext_footer: bool,
    aad_prefix: Option<Vec<u8>>,
    store_prefix: bool,
    out: Option<&Bound<'py, PyAny>>,
    replace: bool,
    engine: Option<PyRef<'py, Engine>>,
) -> PyResult<Bound<'py, PyAny>> {
    let engine = chosen(py, &engine)?.engine().clone();
    let bytes = Input::of(source, "the source").ok();
    let source = Source::of(py, source, &bytes)?;
    let mut write_key = |object: &Bound<'py, PyAny>, column: Option<String>| {
        Ok::<_, PyErr>(WriteKey {
            bytes: KeyBytes::from(Input::of(object, "a key")?.bytes().to_vec()),
            metadata: metadata.remove(&column),
        })
    };
    let mut how = Encryption {
        footer: write_key(key, None)?,
        ctr,
        plaintext_footer,
        aad_prefix,
        omit_aad_prefix: !store_prefix,
        ..Encryption::default()
    };
    for (column, key) in columns {
        let key = write_key(&key, Some(column.clone()))?;
        how.columns.insert(column, key);
    }
    if let Some(column) = metadata.into_keys().flatten().next() {
        return Err(PyValueError::new_err(format!(
            "there are metadata of a key of column '{column}', but no key"
        )));
    }
    let mut run = |out: &mut (dyn Write + Send)| match source {
        Source::Bytes(bytes) => encrypt_slice(bytes, out, &how, &engine),
        Source::File(ref file) => encrypt(file, out, &how, &engine),
        Source::Object(ref object) => encrypt(object.clone(), out, &how, &engine),
    };
    match out {
        Some(out) => {
            let written = to_output(py, out, replace, &mut run)?;
            Ok(written.into_pyobject(py)?.into_any())
        }
        None => {
            let mut sealed = Vec::new();
            py.detach(|| run(&mut Interruptible::new(&mut sealed)))
                .map_err(|error| raised(py, error))?;
            Ok(PyBytes::new(py, &sealed).into_any())
        }
    }
}

pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::NotParquet(_) | Error::NotEncrypted | Error::AlreadyEncrypted => {
            errors::raise(py, "FormatError", (text,))
        }
        Error::Footer | Error::AadPrefix(_) | Error::NoKey { .. } => {
            errors::raise(py, "WrongKeyError", (text,))
        }
        Error::Changed(_) | Error::Malformed { .. } => errors::raise(py, "CorruptedError", (text,)),
        Error::KeyLength { .. } | Error::NoColumn { .. } => PyValueError::new_err(text),
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
