//! Files of tensors: read into buffers or into GPU memory, and written from there.

use std::ffi::c_void;
use std::io;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use warplock::cuda::Region;
use warplock_container::gpu::{Part, Ring};
use warplock_container::{
    Error, HEADER_LEN, InputKey, Monitor, ReadAt, Result, Sink, Source, content_len,
};
use zeroize::Zeroize;

use crate::buffer::{View, advise_huge, new_bytes};
use crate::cuda::Idle;
use crate::engine::{Engine, chosen};
use crate::errors;
use crate::files::{Output, Place, refuse_cancelled};
use crate::secrets::Secrets;
use crate::streams::{Handle, Opened, Shared};
use crate::watch::watch;

/// An encrypted file whose plaintext goes where the caller says. In contrast to `NativeReader`, no
/// chunk is opened before it is asked for: the length is known to be the true one once bytes up to
/// the end were read.
#[pyclass(frozen, module = "warplock._native")]
pub(crate) struct TensorFile {
    handle: Arc<Handle>,
    key: InputKey,
    /// Where the stream begins and ends.
    start: u64,
    end: u64,
    len: u64,
    engine: Option<Py<Engine>>,
}

#[pymethods]
impl TensorFile {
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
        let Opened {
            handle,
            key,
            start,
            end,
        } = Opened::new(py, file, &secrets)?;
        let len = content_len(end.saturating_sub(start));
        let len = len.map_err(|error| errors::container(py, error))?;
        Ok(TensorFile {
            handle,
            key,
            start,
            end,
            len,
            engine: engine.map(Py::from),
        })
    }

    /// Bytes of plaintext, unless the file was cut or extended.
    #[getter]
    fn len(&self) -> u64 {
        self.len
    }

    /// The stream's header: no other stream has it, and forging one with it takes the key.
    fn stream_header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut header = [0; HEADER_LEN];
        let read = py.detach(|| self.handle.read_at(&mut header, self.start));
        match read {
            Ok(HEADER_LEN) => Ok(PyBytes::new(py, &header)),
            Ok(found) => {
                let found = found as u64;
                Err(errors::container(py, Error::HeaderCut { found }))
            }
            Err(error) => Err(errors::container(py, Error::Read(error))),
        }
    }

    /// The bytes from `offset` on, in host memory.
    fn read<'py>(&self, py: Python<'py>, offset: u64, len: u64) -> PyResult<Bound<'py, PyBytes>> {
        let len = usize::try_from(len)?;
        let (bytes, memory) = new_bytes(py, len)?;
        self.fill(py, offset, memory)?;
        Ok(bytes)
    }

    /// Fills a buffer with the bytes from `offset` on; with zeros if one of them does not verify.
    fn read_into(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let view = View::write(buffer, "the buffer")?;
        // SAFETY: it is writable, and no other slice of it is made here.
        let memory = unsafe { view.bytes_mut() };
        advise_huge(memory.as_mut_ptr(), memory.len());
        self.fill(py, offset, memory)
    }

    /// Fills GPU memory with the bytes from `offset` on; with zeros if one of them does not verify.
    /// First waits for the stream.
    ///
    /// The caller, `warplock.safetensors`, promises `len` bytes at `address` in memory of the GPU
    /// `ordinal`, used by nothing but what is queued in `stream`, a stream of that GPU.
    fn load(
        &self,
        py: Python<'_>,
        offset: u64,
        address: u64,
        len: usize,
        ordinal: u32,
        stream: usize,
    ) -> PyResult<()> {
        let monitor = Monitor::default();
        with_ring(py, (ordinal, stream), &monitor, |ring| {
            let source = Source::positioned(Shared(&self.handle), self.start..self.end);
            let range = offset..offset + len as u64;
            // SAFETY: by this function's contract; the stream is synchronized.
            unsafe {
                let to = Region::new(address, len);
                ring.open(source, &self.key, range, to, &monitor).map(drop)
            }
        })
    }
}

impl TensorFile {
    fn fill(&self, py: Python<'_>, offset: u64, memory: &mut [u8]) -> PyResult<()> {
        let engine = self.engine.as_ref().map(|engine| engine.borrow(py));
        let pipeline = chosen(py, &engine)?.pipeline();
        let pipeline = pipeline.map_err(|error| errors::engine(py, error))?;
        let range = offset..offset.saturating_add(memory.len() as u64);
        let filled = watch(py, pipeline.monitor(), None, || {
            let source = Source::positioned(Shared(&self.handle), self.start..self.end);
            let sink = Sink::bytes(memory);
            warplock_container::open_range(source, sink, &self.key, range, &pipeline).map(drop)
        });
        if filled.is_err() {
            py.detach(|| memory.zeroize());
        }
        filled
    }
}

/// A part of a plaintext as Python gives it.
enum Given {
    Host(View),
    Gpu(Region),
}

/// Encrypts `parts`, one after the other, to a file: buffers, and tuples (address, bytes) of memory
/// of the GPU `device` = (ordinal, stream). First waits for the stream.
///
/// The caller, `warplock.safetensors`, promises that the memory is the GPU's, lives, and is written
/// by nothing but what is queued in `stream`, a stream of that GPU.
#[pyfunction]
#[pyo3(signature = (dst, parts, device, recipients, identities, passphrase, key, replace, engine))]
#[expect(
    clippy::too_many_arguments,
    reason = "one caller, which names them all"
)]
pub(crate) fn save_tensors(
    py: Python<'_>,
    dst: &Bound<'_, PyAny>,
    parts: Vec<Bound<'_, PyAny>>,
    device: Option<(u32, usize)>,
    recipients: Option<&Bound<'_, PyAny>>,
    identities: Option<&Bound<'_, PyAny>>,
    passphrase: Option<&Bound<'_, PyAny>>,
    key: Option<&Bound<'_, PyAny>>,
    replace: bool,
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
    let given = (parts.iter())
        .map(|part| match part.cast::<PyTuple>() {
            Ok(place) => {
                let (address, len) = place.extract()?;
                // SAFETY: by this function's contract.
                Ok(Given::Gpu(unsafe { Region::new(address, len) }))
            }
            Err(_) => View::read(part, "a tensor").map(Given::Host),
        })
        .collect::<PyResult<Vec<_>>>()?;
    let parts: Vec<_> = (given.iter())
        .map(|part| match part {
            Given::Host(view) => Part::Host(view.bytes()),
            Given::Gpu(region) => Part::Gpu(*region),
        })
        .collect();
    let pipeline = chosen(py, &engine)?.pipeline();
    let pipeline = pipeline.map_err(|error| errors::engine(py, error))?;
    let output = Output::create(py, Place::of(dst)?, replace)?;
    let (parts, running) = (&parts[..], &pipeline);
    let work = move |ring: Option<&mut Ring>| {
        let mut sink = output.sink()?;
        let key = lock.begin(&mut sink, None)?;
        let written = match ring {
            // SAFETY: by this function's contract; the stream is synchronized.
            Some(ring) => unsafe { ring.seal(parts, sink, &key, running.monitor())? },
            None => {
                let gathered = Gathered::new(parts);
                let end = gathered.len();
                let source = Source::positioned(gathered, 0..end);
                warplock_container::seal(source, sink, &key, running)?
            }
        };
        refuse_cancelled(running)?;
        output.publish()?;
        Ok(written)
    };
    match device {
        Some(stream) => with_ring(py, stream, running.monitor(), |ring| work(Some(ring))),
        None => watch(py, running.monitor(), None, || work(None)),
    }
}

/// Buffers as one input.
struct Gathered<'a> {
    parts: Vec<&'a [u8]>,
    /// Where each ends in the input.
    ends: Vec<u64>,
}

impl<'a> Gathered<'a> {
    fn new(parts: &[Part<'a>]) -> Self {
        let host = |part: &Part<'a>| match part {
            Part::Host(bytes) => Some(*bytes),
            Part::Gpu(_) => None,
        };
        let parts: Vec<_> = parts.iter().filter_map(host).collect();
        let mut end = 0;
        let ends = (parts.iter())
            .map(|part| {
                end += part.len() as u64;
                end
            })
            .collect();
        Gathered { parts, ends }
    }

    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

impl ReadAt for Gathered<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let index = self.ends.partition_point(|end| *end <= offset);
        let Some(part) = self.parts.get(index) else {
            return Ok(0);
        };
        let start = self.ends[index] - part.len() as u64;
        let rest = &part[(offset - start) as usize..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// Their pinned memory holds no plaintext.
static RINGS: Idle<Ring> = Idle::new();

/// Waits for a stream, given by its GPU and address, and calls `work` with a ring on that GPU.
fn with_ring<T: Send>(
    py: Python<'_>,
    (ordinal, stream): (u32, usize),
    monitor: &Monitor,
    work: impl FnOnce(&mut Ring) -> Result<T> + Send,
) -> PyResult<T> {
    RINGS.with(py, ordinal, Ring::new, |ring| {
        let mut works = true;
        let done = watch(py, monitor, None, || {
            // SAFETY: the callers promise a stream of this GPU.
            let stream = unsafe { ring.device().stream_from_raw(stream as *mut c_void) };
            let waited = stream.synchronize().map_err(Error::from);
            let result = waited.and_then(|()| work(ring));
            works = !matches!(result, Err(Error::Engine(_)));
            result
        });
        (done, works)
    })?
}
