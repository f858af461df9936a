//! Streams of a device, and events in them.

use std::fmt;

use super::batch::Region;
use super::device::Device;
use crate::cuda::driver::api::{self, Failure};
use crate::cuda::driver::memory;
use crate::{BatchProblem, Error};

/// A queue of work on a device: one of its own, or another library's.
pub struct Stream {
    stream: api::RawStream,
    device: Device,
}

impl Stream {
    pub(super) fn new(device: Device, stream: api::RawStream) -> Self {
        Stream { stream, device }
    }

    /// Waits until everything queued so far is done.
    ///
    /// # Errors
    /// [`Error::Backend`] if anything of it failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.device
            .call(|_| self.stream.wait("waiting for the GPU"))
    }

    /// Makes everything queued from now on wait for an event of another stream. Does not synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub fn wait_for(&self, event: &Event) -> Result<(), Error> {
        self.device.call(|_| self.stream.wait_for(&event.event))
    }

    /// Whether what is queued becomes part of a graph instead of running. Does not synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub fn is_capturing(&self) -> Result<bool, Error> {
        self.device.call(|_| self.stream.is_capturing())
    }

    /// Queues a copy of host memory to the device. Does not synchronise if the memory is pinned
    /// ([`super::PinnedBuffer`]); from other memory, the driver copies it first.
    ///
    /// # Safety
    /// Until the stream has passed this point, both places live, nothing writes `from`, and nothing
    /// else uses `to`. The region is one of the stream's device.
    ///
    /// # Errors
    /// [`Error::Batch`] if the lengths differ, [`Error::Backend`] if the driver fails.
    pub unsafe fn upload(&self, to: Region, from: &[u8]) -> Result<(), Error> {
        self.copies(to.len(), from.len(), || {
            // SAFETY: by this function's contract.
            unsafe { memory::upload(&self.stream, to.address(), from.as_ptr(), from.len()) }
        })
    }

    /// Queues a copy of device memory to the host. Does not synchronise if that is pinned.
    ///
    /// # Safety
    /// Until the stream has passed this point, both places live, nothing else uses `to`, and nothing
    /// writes `from`. The region is one of the stream's device.
    ///
    /// # Errors
    /// As from [`Stream::upload`].
    pub unsafe fn download(&self, to: &mut [u8], from: Region) -> Result<(), Error> {
        self.copies(to.len(), from.len(), || {
            // SAFETY: by this function's contract.
            unsafe { memory::download(&self.stream, to.as_mut_ptr(), from.address(), to.len()) }
        })
    }

    /// Queues a copy inside the device. Does not synchronise.
    ///
    /// # Safety
    /// Until the stream has passed this point, both regions live and do not overlap, nothing else
    /// uses `to`, and nothing writes `from`. Both are of the stream's device.
    ///
    /// # Errors
    /// As from [`Stream::upload`].
    pub unsafe fn copy(&self, to: Region, from: Region) -> Result<(), Error> {
        self.copies(to.len(), from.len(), || {
            // SAFETY: by this function's contract.
            unsafe { memory::move_inside(&self.stream, to.address(), from.address(), to.len()) }
        })
    }

    /// Queues the same value for every byte of a region. Does not synchronise.
    ///
    /// # Safety
    /// Until the stream has passed this point, the region lives and nothing else uses it. It is one
    /// of the stream's device.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub unsafe fn fill(&self, region: Region, value: u8) -> Result<(), Error> {
        self.copies(region.len(), region.len(), || {
            // SAFETY: by this function's contract.
            unsafe { memory::fill(&self.stream, region.address(), value, region.len()) }
        })
    }

    fn copies(
        &self,
        to: usize,
        from: usize,
        queue: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Error> {
        if to != from {
            return Err(BatchProblem::OutOfBounds {
                what: "the copy's other end",
                offset: 0,
                len: from,
                tag: 0,
                buffer: to,
            }
            .of_batch());
        }
        match to {
            // The driver refuses an empty place's address.
            0 => Ok(()),
            _ => self.device.call(|_| queue()),
        }
    }

    /// The raw `CUstream`, for other libraries; dropping this value destroys it if
    /// [`super::Device::stream`] made it. Does not synchronise.
    pub fn raw(&self) -> *mut std::ffi::c_void {
        self.stream.handle.cast()
    }

    pub(super) fn inner(&self) -> &api::RawStream {
        &self.stream
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.device)
    }
}

/// An event that records the time.
pub struct Event {
    event: api::RawEvent,
    device: Device,
}

impl Event {
    pub(super) fn new(device: Device, event: api::RawEvent) -> Self {
        Event { event, device }
    }

    /// Marks everything queued in the stream so far. Does not synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub fn record(&self, stream: &Stream) -> Result<(), Error> {
        self.device.call(|_| self.event.record(stream.inner()))
    }

    /// Waits until everything before the mark is done.
    ///
    /// # Errors
    /// [`Error::Backend`] if anything of it failed.
    pub fn wait(&self) -> Result<(), Error> {
        self.device.call(|_| self.event.wait("waiting for the GPU"))
    }

    /// Seconds on the device's clock from another recorded event to this one. Waits for both.
    ///
    /// # Errors
    /// [`Error::Backend`] if one was not recorded, or if anything before it failed.
    pub fn seconds_since(&self, start: &Event) -> Result<f64, Error> {
        self.device.call(|_| {
            start.event.wait("waiting for the GPU")?;
            self.event.wait("waiting for the GPU")?;
            self.event.seconds_since(&start.event)
        })
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.device)
    }
}
