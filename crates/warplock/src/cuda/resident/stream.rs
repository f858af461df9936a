//! Streams of a device, and events in them.

use std::fmt;

use super::device::Device;
use crate::Error;
use crate::cuda::driver::api;

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

    /// Whether what is queued becomes part of a graph instead of running. Does not synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub fn is_capturing(&self) -> Result<bool, Error> {
        self.device.call(|_| self.stream.is_capturing())
    }

    /// The raw `CUstream`, for other libraries; dropping this value destroys it if
    /// [`super::Device::stream`] made it. Does not synchronise.
    pub fn raw(&self) -> *mut std::ffi::c_void {
        self.stream.handle().cast()
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
