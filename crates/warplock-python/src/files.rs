//! Whole files: encrypt, decrypt, verify, inspect.

use std::fs::File;
use std::io;
use std::ops::Bound as End;
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyFileExistsError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use warplock_container::{
    Access, Envelope, Error, Format, Length, OutputFile, Result, Sink, Source, attributes_of,
};
use warplock_keyring::FileAttributes;

use crate::engine::{Engine, chosen};
use crate::errors;
use crate::python_file::PythonFile;
use crate::secrets::{Lock, Secrets, Unlock, opened};
use crate::watch::watch;

/// A path, or a binary file object.
pub(crate) enum Place {
    Path(PathBuf),
    Object(PythonFile),
}

impl Place {
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        // fsspec's local files have both a path and the methods of a file.
        let is_path = object.is_instance_of::<PyString>()
            || object.hasattr("__fspath__")? && !object.hasattr("seek")?;
        if is_path {
            return object.extract().map(Place::Path);
        }
        match object.hasattr("read")? || object.hasattr("write")? {
            true => Ok(Place::Object(PythonFile::new(object.clone()))),
            false => Err(PyTypeError::new_err(format!(
                "a file must be a str, a path or a binary file object, not {}",
                object.get_type().name()?
            ))),
        }
    }
}

/// Where the bytes of a call come from.
enum Input {
    File(File),
    Object(PythonFile),
}

impl Input {
    fn open(py: Python<'_>, place: Place) -> PyResult<Self> {
        match place {
            Place::Path(path) => open_file(py, &path).map(Input::File),
            Place::Object(object) => Ok(Input::Object(object)),
        }
    }

    fn source(&self) -> Result<Source<'_>> {
        match self {
            Input::File(file) => Source::file(file).map_err(Error::Read),
            Input::Object(object) => Ok(Source::sequential(object.clone())),
        }
    }

    /// What is kept of a file that was named.
    fn attributes(&self) -> Option<FileAttributes> {
        match self {
            Input::File(file) => attributes_of(file),
            Input::Object(_) => None,
        }
    }
}

/// Where the bytes of a call go.
pub(crate) enum Output {
    File(OutputFile),
    Object(PythonFile),
}

impl Output {
    pub(crate) fn create(py: Python<'_>, place: Place, replace: bool) -> PyResult<Self> {
        match place {
            Place::Path(path) => create_file(py, &path, replace).map(Output::File),
            Place::Object(object) => Ok(Output::Object(object)),
        }
    }

    pub(crate) fn sink(&self) -> Result<Sink<'_>> {
        match self {
            Output::File(file) => file.sink(),
            Output::Object(object) => Ok(Sink::sequential(object.clone())),
        }
    }

    /// Gives a file what was kept of the encrypted one.
    fn restore(&mut self, attributes: &FileAttributes) {
        if let Output::File(file) = self {
            file.restore(attributes);
        }
    }

    pub(crate) fn publish(self) -> Result<()> {
        match self {
            Output::File(file) => file.publish(),
            Output::Object(_) => Ok(()),
        }
    }
}

pub(crate) fn open_file(py: Python<'_>, path: &Path) -> PyResult<File> {
    let opened = py.detach(|| {
        let file = File::open(path)?;
        // A folder would be refused only when it is read.
        match file.metadata()?.is_dir() {
            true => Err(io::Error::from_raw_os_error(libc::EISDIR)),
            false => Ok(file),
        }
    });
    opened.map_err(|error| named(py, &error, path))
}

pub(crate) fn create_file(py: Python<'_>, path: &Path, replace: bool) -> PyResult<OutputFile> {
    if path.as_os_str().is_empty() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        return Err(named(py, &error, path));
    }
    // The program may go to another folder before the file gets its name.
    let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match OutputFile::create(place, replace, Access::Usual) {
        Ok(output) => Ok(output),
        Err(Error::OutputExists) => Err(PyFileExistsError::new_err((
            libc::EEXIST,
            "the output exists already; give replace=True to replace it",
            path.as_os_str().to_owned(),
        ))),
        Err(Error::Create(source)) => Err(named(py, &source, path)),
        Err(Error::OutputUnusable(_)) if path.is_dir() => {
            let error = io::Error::from_raw_os_error(libc::EISDIR);
            Err(named(py, &error, path))
        }
        Err(other) => Err(errors::container(py, other)),
    }
}

/// An `OSError` about a file.
fn named(py: Python<'_>, error: &io::Error, path: &Path) -> PyErr {
    if path.as_os_str().as_encoded_bytes().contains(&0) {
        return PyValueError::new_err("embedded null byte");
    }
    let number = error.raw_os_error().unwrap_or(libc::EIO);
    let text = py
        .import("os")
        .and_then(|os| os.call_method1("strerror", (number,))?.extract::<String>());
    let text = text.unwrap_or_else(|_| error.to_string());
    PyOSError::new_err((number, text, path.as_os_str().to_owned()))
}

/// Encrypts a file; returns the bytes of plaintext.
#[pyfunction]
#[pyo3(signature = (src, dst, recipients, identities, passphrase, key, replace, attributes, progress, engine))]
#[expect(
    clippy::too_many_arguments,
    reason = "one caller, which names them all"
)]
pub(crate) fn encrypt_file(
    py: Python<'_>,
    src: &Bound<'_, PyAny>,
    dst: &Bound<'_, PyAny>,
    recipients: Option<&Bound<'_, PyAny>>,
    identities: Option<&Bound<'_, PyAny>>,
    passphrase: Option<&Bound<'_, PyAny>>,
    key: Option<&Bound<'_, PyAny>>,
    replace: bool,
    attributes: bool,
    progress: Option<&Bound<'_, PyAny>>,
    engine: Option<PyRef<'_, Engine>>,
) -> PyResult<u64> {
    let secrets = Secrets {
        recipients,
        identities,
        passphrase,
        key,
        max_work: None,
    };
    let lock = secrets.lock(py)?;
    let pipeline = chosen(py, &engine)?.pipeline();
    let pipeline = pipeline.map_err(|error| errors::engine(py, error))?;
    let input = Input::open(py, Place::of(src)?)?;
    let output = Output::create(py, Place::of(dst)?, replace)?;
    let running = &pipeline;
    let work = move || {
        let mut sink = output.sink()?;
        let kept = input.attributes().filter(|_| attributes);
        let key = lock.begin(&mut sink, kept.as_ref())?;
        let written = warplock_container::seal(input.source()?, sink, &key, running)?;
        refuse_cancelled(running)?;
        output.publish()?;
        Ok(warplock_container::opened_len(written).unwrap_or(0))
    };
    watch(py, pipeline.monitor(), progress, work)
}

/// Decrypts a file, or with no `dst` only verifies it; returns the bytes of plaintext.
#[pyfunction]
#[pyo3(signature = (src, dst, identities, passphrase, key, range, replace, attributes, max_work, progress, engine))]
#[expect(
    clippy::too_many_arguments,
    reason = "one caller, which names them all"
)]
pub(crate) fn decrypt_file(
    py: Python<'_>,
    src: &Bound<'_, PyAny>,
    dst: Option<&Bound<'_, PyAny>>,
    identities: Option<&Bound<'_, PyAny>>,
    passphrase: Option<&Bound<'_, PyAny>>,
    key: Option<&Bound<'_, PyAny>>,
    range: Option<(u64, Option<u64>)>,
    replace: bool,
    attributes: bool,
    max_work: Option<u8>,
    progress: Option<&Bound<'_, PyAny>>,
    engine: Option<PyRef<'_, Engine>>,
) -> PyResult<u64> {
    let secrets = Secrets {
        recipients: None,
        identities,
        passphrase,
        key,
        max_work,
    };
    let unlock = secrets.unlock(py)?;
    let pipeline = chosen(py, &engine)?.pipeline();
    let pipeline = pipeline.map_err(|error| errors::engine(py, error))?;
    let input = Input::open(py, Place::of(src)?)?;
    let output = match dst {
        Some(dst) => Some(Output::create(py, Place::of(dst)?, replace)?),
        None => None,
    };
    let work = || {
        let mut source = input.source()?;
        let unwrapped;
        let (key, kept) = match &unlock {
            Unlock::Key(key) => (key, None),
            Unlock::Identities(identities) => {
                let envelope = Envelope::read(&mut source)?;
                unwrapped = opened(&envelope, identities)?;
                (&unwrapped.0, unwrapped.1.filter(|_| attributes))
            }
        };
        let sink = match &output {
            Some(output) => output.sink()?,
            None => Sink::nowhere(),
        };
        let len = match range {
            None => warplock_container::open(source, sink, key, &pipeline)?,
            Some((start, stop)) => {
                let stop = stop.map_or(End::Unbounded, End::Excluded);
                let range = (End::Included(start), stop);
                warplock_container::open_range(source, sink, key, range, &pipeline)?
            }
        };
        refuse_cancelled(&pipeline)?;
        if let Some(mut output) = output {
            if let Some(kept) = kept.filter(|_| range.is_none()) {
                output.restore(&kept);
            }
            output.publish()?;
        }
        Ok(len)
    };
    watch(py, pipeline.monitor(), progress, work)
}

/// Gives a file other keys; returns the bytes of plaintext if the content was encrypted again.
#[pyfunction]
#[pyo3(signature = (file, identities, passphrase, recipients, new_passphrase, rekey, max_work, progress, engine))]
#[expect(
    clippy::too_many_arguments,
    reason = "one caller, which names them all"
)]
pub(crate) fn rewrap(
    py: Python<'_>,
    file: PathBuf,
    identities: Option<&Bound<'_, PyAny>>,
    passphrase: Option<&Bound<'_, PyAny>>,
    recipients: Option<&Bound<'_, PyAny>>,
    new_passphrase: Option<&Bound<'_, PyAny>>,
    rekey: bool,
    max_work: Option<u8>,
    progress: Option<&Bound<'_, PyAny>>,
    engine: Option<PyRef<'_, Engine>>,
) -> PyResult<Option<u64>> {
    let old = Secrets {
        recipients: None,
        identities,
        passphrase,
        key: None,
        max_work,
    };
    let new = Secrets {
        recipients,
        identities: None,
        passphrase: new_passphrase,
        key: None,
        max_work: None,
    };
    let (Unlock::Identities(old), Lock::Recipients(new)) = (old.unlock(py)?, new.lock(py)?) else {
        unreachable!("no key was given");
    };
    if !rekey {
        let path = file.clone();
        let done = py.detach(move || warplock_container::rewrap_file(path, &old, &new));
        return match done {
            Ok(_) => Ok(None),
            Err(Error::Read(error) | Error::Write(error)) => Err(named(py, &error, &file)),
            Err(error) => Err(errors::container(py, error)),
        };
    }
    let pipeline = chosen(py, &engine)?.pipeline();
    let pipeline = pipeline.map_err(|error| errors::engine(py, error))?;
    let running = &pipeline;
    let work = move || warplock_container::rekey_file(&file, &old, &new, running);
    watch(py, pipeline.monitor(), progress, work).map(Some)
}

/// Nothing must appear after an exception was raised.
pub(crate) fn refuse_cancelled(pipeline: &warplock_container::Pipeline) -> Result<()> {
    match pipeline.monitor().is_cancelled() {
        true => Err(Error::Cancelled),
        false => Ok(()),
    }
}

/// What a file tells without a key, as a dictionary.
#[pyfunction]
pub(crate) fn inspect<'py>(
    py: Python<'py>,
    file: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let input = Input::open(py, Place::of(file)?)?;
    let found = py.detach(|| warplock_container::inspect(input.source()?));
    let found = found.map_err(|error| errors::container(py, error))?;
    let result = PyDict::new(py);
    result.set_item("size", found.size)?;
    let mut kinds = Vec::new();
    let format = match &found.format {
        Format::Empty => "empty".to_owned(),
        Format::Envelope(wrapped) => {
            kinds = wrapped.stanzas.iter().map(ToString::to_string).collect();
            "warplock/1".to_owned()
        }
        Format::MaybeStream => "stream?".to_owned(),
        Format::Foreign(foreign) => foreign.to_string(),
    };
    result.set_item("format", format)?;
    result.set_item("opens_with", kinds)?;
    let stream = found.stream.as_ref();
    result.set_item("content", stream.map(|stream| stream.plain_len))?;
    result.set_item("chunks", stream.map(|stream| stream.chunks))?;
    result.set_item("stream_offset", stream.map(|stream| stream.offset))?;
    let is_cut = stream.is_some_and(|stream| stream.length != Length::Plausible);
    result.set_item("is_cut", is_cut)?;
    Ok(result)
}

/// Bytes of the stream, with its header, that `content` bytes of plaintext make.
#[pyfunction]
pub(crate) fn sealed_len(content: u64) -> PyResult<u64> {
    warplock_container::sealed_len(content)
        .ok_or_else(|| PyValueError::new_err("one stream holds at most 4 PiB"))
}
