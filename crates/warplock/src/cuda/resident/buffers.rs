//! Memory on the device and pinned memory of the host, for callers that have none.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::batch::Region;
use super::device::Device;
use super::stream::Stream;
use crate::cuda::driver::memory::{DeviceBytes, HostBytes};
use crate::{BatchProblem, Error};

use crate::cuda::driver::memory;

/// Memory on a device, wiped and freed when dropped. Dropping it synchronises with the device;
/// everything that uses it must be done before (that is part of [`super::Plan::launch`]'s
/// contract).
pub struct DeviceBuffer {
    memory: memory::DeviceMemory,
    device: Device,
}

impl DeviceBuffer {
    pub(super) fn new(device: Device, memory: memory::DeviceMemory) -> Self {
        DeviceBuffer { memory, device }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes it shorter, without giving memory back. What comes after the new end is not wiped when
    /// the buffer is dropped.
    pub fn truncate(&mut self, len: usize) {
        self.memory.truncate(len);
    }

    /// All of it, for a plan. Does not synchronise.
    pub fn region(&self) -> Region {
        // SAFETY: the memory is this device's; users of the region must keep it alive by their own
        // contracts.
        unsafe { Region::new(self.memory.address(), self.len()) }
    }

    /// The raw address: a `CUdeviceptr` of the device's primary context. Does not synchronise.
    ///
    /// # Safety
    /// It must not be used after the buffer has been dropped.
    pub unsafe fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Copies `bytes` to `offset`, and waits for the copy; not for other streams' work.
    ///
    /// # Errors
    /// [`Error::Batch`] if they do not fit, [`Error::Backend`] if the driver fails.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let place = self.place(offset, bytes.len())?;
        // SAFETY: the place lies in this buffer.
        self.device
            .call(|device| unsafe { device.write(place.address(), bytes) })
    }

    /// Copies from `offset` to `bytes`, and waits for the copy; not for other streams' work:
    /// synchronise the stream that makes the result first.
    ///
    /// # Errors
    /// [`Error::Batch`] if it ends before, [`Error::Backend`] if the driver fails.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let place = self.place(offset, bytes.len())?;
        // SAFETY: the place lies in this buffer.
        self.device
            .call(|device| unsafe { device.read(bytes, place.address()) })
    }

    /// Sets every byte to `value`, and waits for that; not for other streams' work.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub fn fill(&mut self, value: u8) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        self.device.call(|device| {
            let stream = device.own_stream();
            // SAFETY: the buffer lives until the stream is synchronized.
            unsafe { memory::fill(stream, self.memory.address(), value, self.len())? };
            stream.wait("filling GPU memory")
        })
    }

    /// Queues a copy of pinned memory to the buffer's start. Does not synchronise.
    ///
    /// # Safety
    /// Until the stream has passed this point, both buffers live, nothing writes `from`, and
    /// nothing else uses this buffer.
    ///
    /// # Errors
    /// [`Error::Batch`] if it does not fit, [`Error::Backend`] if the driver fails.
    pub unsafe fn upload(&self, from: &PinnedBuffer, stream: &Stream) -> Result<(), Error> {
        let place = self.place(0, from.len())?;
        // SAFETY: the place lies in this buffer; the rest by this function's contract.
        unsafe { stream.upload(place, from) }
    }

    /// Queues a copy of the buffer's start that fills pinned memory. Does not synchronise.
    ///
    /// # Safety
    /// Until the stream has passed this point, both buffers live, and nothing else uses `to` or
    /// writes this buffer.
    ///
    /// # Errors
    /// [`Error::Batch`] if the buffer is shorter, [`Error::Backend`] if the driver fails.
    pub unsafe fn download(&self, to: &mut PinnedBuffer, stream: &Stream) -> Result<(), Error> {
        let place = self.place(0, to.len())?;
        // SAFETY: the place lies in this buffer; the rest by this function's contract.
        unsafe { stream.download(to, place) }
    }

    /// Queues a copy of another buffer of this device to this one's start (`cuMemcpyDtoDAsync`).
    /// Does not synchronise.
    ///
    /// # Safety
    /// Until the stream has passed this point, both buffers live, nothing writes `from`, and
    /// nothing else uses this buffer.
    ///
    /// # Errors
    /// [`Error::Batch`] if it does not fit, [`Error::Backend`] if the driver fails.
    pub unsafe fn copy_from(&self, from: &DeviceBuffer, stream: &Stream) -> Result<(), Error> {
        let place = self.place(0, from.len())?;
        // SAFETY: the place lies in this buffer; the rest by this function's contract.
        unsafe { stream.copy(place, from.region()) }
    }

    fn place(&self, offset: usize, len: usize) -> Result<Region, Error> {
        let end = offset.checked_add(len);
        if end.is_some_and(|end| end <= self.len()) {
            return Ok(self.region().part(offset, len));
        }
        Err(BatchProblem::OutOfBounds {
            what: "the GPU buffer",
            offset,
            len,
            tag: 0,
            buffer: self.len(),
        }
        .of_batch())
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({} bytes on {:?})", self.len(), self.device)
    }
}

/// Pinned memory of the host, which the device accesses directly; wiped when dropped.
pub struct PinnedBuffer(memory::PinnedMemory);

impl PinnedBuffer {
    pub(super) fn new(memory: memory::PinnedMemory) -> Self {
        PinnedBuffer(memory)
    }
}

impl Deref for PinnedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: allocated and initialised with this length, or empty; borrowed.
        unsafe { std::slice::from_raw_parts(self.0.start(), self.0.len()) }
    }
}

impl DerefMut for PinnedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.bytes()
    }
}

impl fmt::Debug for PinnedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({} bytes)", self.len())
    }
}
