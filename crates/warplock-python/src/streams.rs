//! Files that are read at any offset or written from front to back, and streams made in parts.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warplock_container::{
    Envelope, Error, Header, InputKey, OutputFile, ReadAt, Reader, Result, Sink, Source, Writer,
};

use crate::buffer::{Input, View, new_bytes};
use crate::engine::{Engine, chosen};
use crate::errors;
use crate::files::{Place, create_file, open_file};
use crate::fork::OfThisProcess;
use crate::python_file::PythonFile;
use crate::secrets::{Secrets, Unlock, input_key, opened};
use crate::watch::watch;

/// Bytes from which a read is shared by all cores.
const LARGE: usize = 1 << 20;

/// What encrypted bytes are read from.
pub(crate) enum Handle {
    File(File),
    Object(PythonFile),
}

impl ReadAt for Handle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Handle::File(file) => FileExt::read_at(file, buffer, offset),
            Handle::Object(object) => object.read_at(buffer, offset),
        }
    }
}

/// A handle with a position of its own.
struct Cursor {
    handle: Arc<Handle>,
    position: u64,
    len: u64,
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.handle.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// An encrypted file whose envelope was opened.
pub(crate) struct Opened {
    pub(crate) handle: Arc<Handle>,
    pub(crate) key: InputKey,
    /// Where the stream begins and ends.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Opened {
    pub(crate) fn new(
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        secrets: &Secrets<'_, '_>,
    ) -> PyResult<Self> {
        let unlock = secrets.unlock(py)?;
        let handle = match Place::of(file)? {
            Place::Path(path) => Handle::File(open_file(py, &path)?),
            Place::Object(object) if object.is_seekable() => Handle::Object(object),
            Place::Object(_) => {
                return Err(PyValueError::new_err(
                    "the file object is not seekable: decrypt_file reads from front to back",
                ));
            }
        };
        let opened = py.detach(|| {
            let end = match &handle {
                Handle::File(file) => (&*file).seek(SeekFrom::End(0)),
                Handle::Object(object) => object.clone().seek(SeekFrom::End(0)),
            };
            let end = end.map_err(Error::Read)?;
            let handle = Arc::new(handle);
            let mut cursor = Cursor {
                handle: handle.clone(),
                position: 0,
                len: end,
            };
            let key = match unlock {
                Unlock::Key(key) => key,
                Unlock::Identities(identities) => {
                    opened(&Envelope::read(&mut cursor)?, &identities)?.0
                }
            };
            let start = cursor.position;
            Ok(Opened {
                handle,
                key,
                start,
                end,
            })
        });
        opened.map_err(|error| errors::container(py, error))
    }
}

/// The plaintext of a file, readable at any offset; `warplock.open` wraps it.
#[pyclass(frozen, module = "warplock._native")]
pub(crate) struct NativeReader {
    handle: Arc<Handle>,
    key: InputKey,
    /// Where the stream begins and ends.
    start: u64,
    end: u64,
    len: u64,
    small: Mutex<Reader<Cursor>>,
    engine: Option<Py<Engine>>,
}

#[pymethods]
impl NativeReader {
    #[new]
    #[pyo3(signature = (file, identities, passphrase, key, max_work, engine))]
    fn new(
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        identities: Option<&Bound<'_, PyAny>>,
        passphrase: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        max_work: Option<u8>,
        engine: Option<PyRef<'_, Engine>>,
    ) -> PyResult<Self> {
        let secrets = Secrets {
            recipients: None,
            identities,
            passphrase,
            key,
            max_work,
        };
        let used = chosen(py, &engine)?.engine().clone();
        let Opened {
            handle,
            key,
            start,
            end,
        } = Opened::new(py, file, &secrets)?;
        let small = py.detach(|| {
            let cursor = Cursor {
                handle: handle.clone(),
                position: start,
                len: end,
            };
            Reader::new(cursor, &key, used)
        });
        let small = small.map_err(|error| errors::container(py, error))?;
        Ok(NativeReader {
            handle,
            key,
            start,
            end,
            len: small.len(),
            small: Mutex::new(small),
            engine: engine.map(Py::from),
        })
    }

    /// Bytes of plaintext, verified.
    #[getter]
    fn len(&self) -> u64 {
        self.len
    }

    /// Reads from `offset` on into a buffer; returns how many bytes: fewer than there are only
    /// before a chunk that does not verify.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let view = View::write(buffer, "the buffer")?;
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = view.len().min(left);
        // SAFETY: it is writable, and no other slice of it is made here.
        let memory = unsafe { view.bytes_mut() };
        self.fill(py, offset, &mut memory[..len])
    }

    /// At most `len` bytes from `offset` on.
    fn read<'py>(&self, py: Python<'py>, offset: u64, len: u64) -> PyResult<Bound<'py, PyBytes>> {
        let len = usize::try_from(self.len.saturating_sub(offset).min(len))?;
        let (bytes, memory) = new_bytes(py, len)?;
        let mut done = 0;
        while done < len {
            done += self.fill(py, offset + done as u64, &mut memory[done..])?;
        }
        Ok(bytes)
    }
}

impl NativeReader {
    /// Fills `memory`, or its beginning if what follows does not verify.
    fn fill(&self, py: Python<'_>, offset: u64, memory: &mut [u8]) -> PyResult<usize> {
        if memory.len() < LARGE {
            let read = py.detach(|| {
                let mut reader = lock(&self.small);
                reader.seek(SeekFrom::Start(offset))?;
                let mut done = 0;
                while done < memory.len() {
                    match reader.read(&mut memory[done..]) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(read) => done += read,
                        Err(_) if done > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                Ok(done)
            });
            return read.map_err(|error| errors::container(py, Error::Read(error)));
        }
        let engine = self.engine.as_ref().map(|engine| engine.borrow(py));
        let pipeline = chosen(py, &engine)?.pipeline();
        let pipeline = pipeline.map_err(|error| errors::engine(py, error))?;
        let range = offset..offset + memory.len() as u64;
        let len = memory.len();
        watch(py, pipeline.monitor(), None, || {
            let source = Source::positioned(Shared(&self.handle), self.start..self.end);
            let sink = Sink::bytes(memory);
            warplock_container::open_range(source, sink, &self.key, range, &pipeline).map(drop)
        })?;
        Ok(len)
    }
}

pub(crate) struct Shared<'a>(pub(crate) &'a Handle);

impl ReadAt for Shared<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

/// What encrypted bytes are written to.
enum Target {
    File(File),
    Object(PythonFile),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::File(file) => file.write(bytes),
            Target::Object(object) => object.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::File(file) => file.flush(),
            Target::Object(object) => object.flush(),
        }
    }
}

/// A stream under way, and the file that it is for if a path was given; `None` once it has ended.
type Writing = Mutex<Option<(Writer<Target>, Option<OutputFile>)>>;

/// An encrypted file under way; `warplock.open` wraps it. A forked child that wrote, too, would damage
/// the file and seal other texts under the same nonces, and one that dropped it could remove it.
#[pyclass(frozen, module = "warplock._native")]
pub(crate) struct NativeWriter {
    state: OfThisProcess<Writing>,
}

#[pymethods]
impl NativeWriter {
    #[new]
    #[pyo3(signature = (file, recipients, identities, passphrase, key, replace, engine))]
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller, which names them all"
    )]
    fn new(
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        recipients: Option<&Bound<'_, PyAny>>,
        identities: Option<&Bound<'_, PyAny>>,
        passphrase: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        replace: bool,
        engine: Option<PyRef<'_, Engine>>,
    ) -> PyResult<Self> {
        let secrets = Secrets {
            recipients,
            identities,
            passphrase,
            key,
            max_work: None,
        };
        let lock = secrets.lock(py)?;
        let engine = chosen(py, &engine)?.engine().clone();
        let (mut target, output) = match Place::of(file)? {
            Place::Object(object) => (Target::Object(object), None),
            Place::Path(path) => {
                let output = create_file(py, &path, replace)?;
                (Target::File(output.file().try_clone()?), Some(output))
            }
        };
        let writer = py.detach(|| {
            let key = lock.begin(&mut target, None)?;
            Writer::new(target, &key, engine)
        });
        let writer = writer.map_err(|error| errors::container(py, error))?;
        Ok(NativeWriter {
            state: OfThisProcess::or(Mutex::new(Some((writer, output))), |_| {
                PyValueError::new_err(
                    "this file was opened for writing before a fork, and only the process that \
                     opened it can write it: open another file here",
                )
            }),
        })
    }

    /// Writes all bytes of `data`.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let state = self.state.get(py)?;
        let input = Input::of(data, "data")?;
        let bytes = input.bytes();
        let written = py.detach(|| match &mut *lock(state) {
            Some((writer, _)) => writer.write_all(bytes),
            None => Err(io::Error::other("the file is closed")),
        });
        written.map_err(|error| errors::container(py, Error::Write(error)))?;
        Ok(bytes.len())
    }

    /// Ends the stream; a file appears under its name now.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let state = self.state.get(py)?;
        let finished: Result<()> = py.detach(|| {
            let Some((writer, output)) = lock(state).take() else {
                return Ok(());
            };
            drop(writer.finish()?);
            output.map_or(Ok(()), OutputFile::publish)
        });
        finished.map_err(|error| errors::container(py, error))
    }

    /// Throws away what was written; returns whether there was something to throw away.
    fn abandon(&self, py: Python<'_>) -> bool {
        match self.state.get(py) {
            Ok(state) => py.detach(|| lock(state).take().is_some()),
            Err(_) => false,
        }
    }
}

/// Seals runs of chunks of one stream whose length is known, each by itself and on any machine.
///
/// Never seal different bytes as the same chunk of one header: that reveals both.
#[pyclass(frozen, module = "warplock")]
pub(crate) struct PartSealer {
    sealer: warplock_container::PartSealer,
    content: u64,
}

#[pymethods]
impl PartSealer {
    /// Starts a stream of `content` bytes under a key of 32 bytes (or a key file), or with `header`
    /// continues one.
    #[new]
    #[pyo3(signature = (key, content, header=None, *, engine=None))]
    fn new(
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        content: u64,
        header: Option<&[u8]>,
        engine: Option<PyRef<'_, Engine>>,
    ) -> PyResult<Self> {
        let key = input_key(key)?;
        let engine = chosen(py, &engine)?.engine().clone();
        let sealer = match header {
            None => warplock_container::PartSealer::new(&key, content, engine),
            Some(bytes) => {
                let header = <[u8; warplock_container::HEADER_LEN]>::try_from(bytes)
                    .map_err(|_| PyValueError::new_err("a header has 56 bytes"))?;
                let header = Header::from_bytes(header);
                warplock_container::PartSealer::resume(&key, &header, content, engine)
            }
        };
        let sealer = sealer.map_err(|error| errors::container(py, error))?;
        Ok(PartSealer { sealer, content })
    }

    /// The stream's header, for the other machines; not secret.
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.sealer.header().as_bytes())
    }

    /// Bytes of plaintext of the whole stream.
    #[getter]
    fn content(&self) -> u64 {
        self.content
    }

    /// How many chunks of 16 KiB the stream has; the last one is shorter.
    #[getter]
    fn chunks(&self) -> u64 {
        self.sealer.chunk_count()
    }

    /// The chunks (start, stop) of each part, if a part has `chunks` of them.
    fn parts(&self, chunks: u64) -> PyResult<Vec<(u64, u64)>> {
        let step = usize::try_from(chunks)?;
        if step == 0 {
            return Err(PyValueError::new_err("a part has at least one chunk"));
        }
        let count = self.sealer.chunk_count();
        let starts = (0..count).step_by(step);
        Ok(starts
            .map(|start| (start, count.min(start.saturating_add(chunks))))
            .collect())
    }

    /// Which bytes of the plaintext the chunks from `start` to `stop` hold, as (start, stop).
    fn plain_range(&self, start: u64, stop: u64) -> (u64, u64) {
        let range = self.sealer.plain_range(&(start..stop));
        (range.start, range.end)
    }

    /// Which bytes of the stream they make, as (start, stop).
    fn sealed_range(&self, start: u64, stop: u64) -> (u64, u64) {
        let range = self.sealer.sealed_range(&(start..stop));
        (range.start, range.end)
    }

    /// Seals the chunks from `start` to `stop`, whose plaintext is `data`; chunk 0 brings the
    /// header.
    fn seal<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let input = Input::of(data, "data")?;
        let bytes = input.bytes();
        let sealed = py.detach(|| self.sealer.seal(start..stop, bytes));
        let sealed = sealed.map_err(|error| errors::container(py, error))?;
        Ok(PyBytes::new(py, &sealed))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
