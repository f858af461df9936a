//! A GPU for batches in its own memory.

use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::buffers::{DeviceBuffer, PinnedBuffer};
use super::slots::Slots;
use super::split::{Hashers, HashersAt};
use super::spread_selftest;
use super::stream::{Event, Stream};
use crate::Error;
use crate::cuda::Gpu;
use crate::cuda::driver::api::{self, Bound, Failure};
use crate::cuda::driver::devices::{find, no_backend};
use crate::cuda::driver::memory;
use crate::cuda::launch::link::{CudaLink, Link};
use crate::cuda::launch::selftest::Tested;

/// A GPU with the kernels loaded. Clones share it; it is released with the last of them and of the
/// buffers, streams and plans that were made with it.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    link: CudaLink,
    /// For copies that block.
    stream: api::RawStream,
    gpu: Gpu,
    hashers: OnceLock<Option<Hashers>>,
    slots: Slots,
    /// The driver loads a kernel at its first launch, which waits for the whole device. Kernels that
    /// passed here are loaded.
    tested: Tested,
    spread_tested: OnceLock<()>,
}

impl Device {
    /// Opens the GPU `cuda:number`: starts its primary context, which it shares with
    /// everything else in this process, and loads the kernels. Takes a moment, and may synchronise
    /// with the device.
    ///
    /// # Errors
    /// [`Error::NoBackend`] if there is no such GPU, with the reason.
    pub fn open(number: u32) -> Result<Self, Error> {
        let device = find(Some(number))?;
        let open = || -> Result<Inner, Failure> {
            let link = CudaLink::new(&device)?;
            let bound = link.bind()?;
            let stream = link.stream()?;
            drop(bound);
            Ok(Inner {
                link,
                stream,
                gpu: device.gpu,
                hashers: OnceLock::new(),
                slots: Slots::default(),
                tested: Tested::default(),
                spread_tested: OnceLock::new(),
            })
        };
        match open() {
            Ok(inner) => Ok(Device(Arc::new(inner))),
            Err(failure) => Err(no_backend(Some(number), &failure.to_string())),
        }
    }

    /// Name, memory, multiprocessors. Does not synchronise.
    pub fn gpu(&self) -> &Gpu {
        &self.0.gpu
    }

    /// Free bytes of its memory. Does not synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub fn free_memory(&self) -> Result<u64, Error> {
        self.call(|device| device.link().context.free_memory())
    }

    /// Memory of undefined content on the device. May synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if there is not enough.
    pub fn alloc(&self, len: usize) -> Result<DeviceBuffer, Error> {
        let memory = self.call(|device| device.link().device(len))?;
        Ok(DeviceBuffer::new(self.clone(), memory))
    }

    /// Pinned memory of the host, full of zeros: copies to and from the device are fastest with it.
    /// May synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if there is not enough.
    pub fn pinned(&self, len: usize) -> Result<PinnedBuffer, Error> {
        let memory = self.call(|device| device.link().host(len))?;
        Ok(PinnedBuffer::new(memory))
    }

    /// A new stream that waits for no other, not even for the default one. Does not synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub fn stream(&self) -> Result<Stream, Error> {
        let stream = self.call(|device| device.link().stream())?;
        Ok(Stream::new(self.clone(), stream))
    }

    /// A stream of another library: a `CUstream`, such as PyTorch's `stream.cuda_stream` or CuPy's
    /// `stream.ptr`; null is the default stream. Does not synchronise.
    ///
    /// # Safety
    /// It is a stream of this device's primary context, and outlives the result.
    pub unsafe fn stream_from_raw(&self, raw: *mut c_void) -> Stream {
        let stream = api::RawStream::borrowed(&self.link().context, raw.cast());
        Stream::new(self.clone(), stream)
    }

    /// An event that notes the time. Does not synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub fn event(&self) -> Result<Event, Error> {
        let event = self.call(|device| api::RawEvent::timed(&device.link().context))?;
        Ok(Event::new(self.clone(), event))
    }

    pub(super) fn link(&self) -> &CudaLink {
        &self.0.link
    }

    pub(super) fn bind(&self) -> Result<Bound, Failure> {
        self.link().bind()
    }

    /// Calls the driver with the context bound.
    pub(super) fn call<T>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let bound = self.bind();
        let result = bound.and_then(|bound| {
            let result = work(self);
            drop(bound);
            result
        });
        result.map_err(|failure| self.failed(failure))
    }

    /// The error that this device gives for a reason.
    pub(super) fn failed(&self, reason: impl fmt::Display) -> Error {
        Error::Backend {
            backend: format!("cuda:{}", self.0.gpu.number),
            reason: reason.to_string(),
        }
    }

    /// Copies to the device and waits. The context is bound.
    ///
    /// # Safety
    /// The device's memory is valid for `from.len()` bytes.
    pub(super) unsafe fn write(&self, to: u64, from: &[u8]) -> Result<(), Failure> {
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: the source is borrowed until the copy has completed; the target by this
        // function's contract.
        unsafe { memory::upload(&self.0.stream, to, from.as_ptr(), from.len())? };
        self.0.stream.wait("copying to the GPU")
    }

    /// Copies from the device and waits. The context is bound.
    ///
    /// # Safety
    /// The device's memory is valid for `to.len()` bytes.
    pub(super) unsafe fn read(&self, to: &mut [u8], from: u64) -> Result<(), Failure> {
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: the target is borrowed until the copy has completed; the source by this
        // function's contract.
        unsafe { memory::download(&self.0.stream, to.as_mut_ptr(), from, to.len())? };
        self.0.stream.wait("copying from the GPU")
    }

    /// The multiprocessors that may hash while others encrypt; found at the first call. The context
    /// is bound. Synchronises.
    pub(super) fn hashers(&self) -> Result<Option<HashersAt>, Failure> {
        if self.0.hashers.get().is_none() {
            let found = Hashers::find(self.link(), self.gpu().capability, self.own_stream())?;
            // Another thread may have been faster.
            let _ = self.0.hashers.set(found);
        }
        let found = self.0.hashers.get().and_then(Option::as_ref);
        Ok(found.map(Hashers::at))
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.0.slots
    }

    pub(super) fn tested(&self) -> &Tested {
        &self.0.tested
    }

    /// Tests the kernels that make calls' tables, and so loads them, unless that was done on this
    /// device. Synchronises.
    pub(super) fn ensure_spread_tested(&self) -> Result<(), Error> {
        if self.0.spread_tested.get().is_none() {
            spread_selftest::test(self)?;
            let _ = self.0.spread_tested.set(());
        }
        Ok(())
    }

    /// Waits for everything on the device, before memory that kernels may use is freed.
    pub(super) fn settle(&self) {
        if let Ok(_bound) = self.bind() {
            // After an error there is nothing to wait for.
            let _ = self.link().context.wait();
        }
    }

    /// The stream for work that blocks.
    pub(super) fn own_stream(&self) -> &api::RawStream {
        &self.0.stream
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device(cuda:{}, {})", self.gpu().number, self.gpu().name)
    }
}
