//! The ring's view of a device: buffers, streams, copies and launches. A trait, so that tests can
//! use a fake device, without a GPU and with the worst possible overlap of copies and kernels.

use std::ops::Range;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::abi::{FEW_BYTES, FewBytes};
use super::steps::Step;
use crate::cuda::driver::api::{Bound, Context, DeviceHandle, Failure, RawEvent, RawStream};
use crate::cuda::driver::memory::{
    self, Address, DeviceBytes, DeviceMemory, HostBytes, PinnedMemory,
};
use crate::cuda::driver::module::{Family, Module, argument};
use crate::cuda::driver::rows::{Rows, Run};

/// A device. All methods but `bind` are called on a thread that has bound it.
///
/// # Safety of all unsafe methods
/// All memory that is named is valid until the stream has passed this point. Until then nothing
/// else writes what is read or uses what is written, except through streams that wait.
pub(crate) trait Link: Send + Sync {
    /// While it lives, its thread's calls go to this device.
    type Bound;
    type Stream: Send;
    type Event: Send;
    type Host: HostBytes;
    type Device: DeviceBytes;

    fn bind(&self) -> Result<Self::Bound, Failure>;
    fn multiprocessors(&self) -> u32;
    /// A queue that does not wait for others.
    fn stream(&self) -> Result<Self::Stream, Failure>;
    /// An event that counts as past until it is recorded.
    fn event(&self) -> Result<Self::Event, Failure>;
    fn host(&self, len: usize) -> Result<Self::Host, Failure>;
    fn device(&self, len: usize) -> Result<Self::Device, Failure>;
    /// The addresses of the pinned allocation that `address` lies in; none if it lies in
    /// pageable memory.
    fn pinned_around(&self, address: *const u8) -> Option<Range<usize>>;

    /// Marks everything queued so far.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<(), Failure>;
    /// Makes everything queued from now on wait for the last mark.
    fn wait_for(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), Failure>;
    /// Whether everything before the last mark is done.
    fn is_past(&self, event: &Self::Event) -> Result<bool, Failure>;
    /// Waits on the host for all that is queued.
    fn wait_stream(&self, stream: &Self::Stream) -> Result<(), Failure>;

    /// Queues a copy to the device.
    unsafe fn upload(
        &self,
        stream: &Self::Stream,
        to: Address,
        from: *const u8,
        len: usize,
    ) -> Result<(), Failure>;
    /// Queues a copy from the device.
    unsafe fn download(
        &self,
        stream: &Self::Stream,
        to: *mut u8,
        from: Address,
        len: usize,
    ) -> Result<(), Failure>;
    /// Queues a copy of a run between the host and a text on the device: to the device if `up`,
    /// else from it.
    unsafe fn copy_run(
        &self,
        stream: &Self::Stream,
        run: Run,
        text: Address,
        up: bool,
    ) -> Result<(), Failure> {
        let at = text + run.place as u64;
        // SAFETY: by this method's contract.
        unsafe {
            match up {
                true => self.upload(stream, at, run.user, run.len),
                false => self.download(stream, run.user, at, run.len),
            }
        }
    }
    /// The same for rows.
    unsafe fn copy_rows(
        &self,
        stream: &Self::Stream,
        rows: &Rows,
        text: Address,
        up: bool,
    ) -> Result<(), Failure> {
        let mut runs = (0..rows.count).map(|index| rows.run(index));
        // SAFETY: by this method's contract.
        runs.try_for_each(|run| unsafe { self.copy_run(stream, run, text, up) })
    }
    /// Queues zeros.
    unsafe fn wipe(&self, stream: &Self::Stream, at: Address, len: usize) -> Result<(), Failure>;
    unsafe fn launch(&self, stream: &Self::Stream, step: &Step<'_>) -> Result<(), Failure>;
}

/// A GPU with its kernels.
pub(crate) struct CudaLink {
    pub(crate) context: Arc<Context>,
    pub(crate) module: Module,
    multiprocessors: u32,
}

impl CudaLink {
    pub(crate) fn new(device: &DeviceHandle) -> Result<Self, Failure> {
        let context = Context::new(device)?;
        let _bound = context.bind()?;
        let module = Module::load(&context)?;
        drop(_bound);
        Ok(CudaLink {
            context,
            module,
            multiprocessors: device.gpu.multiprocessors,
        })
    }

    /// Copies a few bytes with a launch: an ordinary copy would wait for long ones on the link, and
    /// delay those after it.
    ///
    /// # Safety
    /// As [`Link::upload`]; at most [`FEW_BYTES`], to a multiple of 16.
    unsafe fn put(
        &self,
        stream: &RawStream,
        to: Address,
        from: *const u8,
        len: usize,
    ) -> Result<(), Failure> {
        let mut bytes = Zeroizing::new(FewBytes([0; FEW_BYTES]));
        // SAFETY: by this function's contract; there is room.
        unsafe { from.copy_to_nonoverlapping(bytes.0.as_mut_ptr(), len) };
        let name = "put";
        let kernel = self.module.kernel(name, Family::PLAIN)?;
        let count = len as u32;
        let mut arguments = [argument(&*bytes), argument(&to), argument(&count)];
        // SAFETY: the parameters are those of the kernel; the rest by this function's contract.
        unsafe { kernel.launch(name, stream, 1, kernel.threads, &mut arguments) }
    }
}

/// Completes "failed while ...".
const WAITING: &str = "waiting for the GPU";

impl Link for CudaLink {
    type Bound = Bound;
    type Stream = RawStream;
    type Event = RawEvent;
    type Host = PinnedMemory;
    type Device = DeviceMemory;

    fn bind(&self) -> Result<Bound, Failure> {
        self.context.bind()
    }

    fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    fn stream(&self) -> Result<RawStream, Failure> {
        RawStream::new(&self.context)
    }

    fn event(&self) -> Result<RawEvent, Failure> {
        RawEvent::new(&self.context)
    }

    fn host(&self, len: usize) -> Result<PinnedMemory, Failure> {
        PinnedMemory::new(&self.context, len)
    }

    fn device(&self, len: usize) -> Result<DeviceMemory, Failure> {
        DeviceMemory::new(&self.context, len)
    }

    fn pinned_around(&self, address: *const u8) -> Option<Range<usize>> {
        memory::pinned_around(address)
    }

    fn record(&self, event: &RawEvent, stream: &RawStream) -> Result<(), Failure> {
        event.record(stream)
    }

    fn wait_for(&self, stream: &RawStream, event: &RawEvent) -> Result<(), Failure> {
        stream.wait_for(event)
    }

    fn is_past(&self, event: &RawEvent) -> Result<bool, Failure> {
        event.is_past(WAITING)
    }

    fn wait_stream(&self, stream: &RawStream) -> Result<(), Failure> {
        stream.wait(WAITING)
    }

    unsafe fn upload(
        &self,
        stream: &RawStream,
        to: Address,
        from: *const u8,
        len: usize,
    ) -> Result<(), Failure> {
        if len <= FEW_BYTES && to.is_multiple_of(16) {
            // SAFETY: by this function's contract.
            return unsafe { self.put(stream, to, from, len) };
        }
        // SAFETY: by this function's contract.
        unsafe { memory::upload(stream, to, from, len) }
    }

    unsafe fn download(
        &self,
        stream: &RawStream,
        to: *mut u8,
        from: Address,
        len: usize,
    ) -> Result<(), Failure> {
        // SAFETY: by this function's contract.
        unsafe { memory::download(stream, to, from, len) }
    }

    unsafe fn copy_rows(
        &self,
        stream: &RawStream,
        rows: &Rows,
        text: Address,
        up: bool,
    ) -> Result<(), Failure> {
        // SAFETY: by this function's contract.
        unsafe {
            match rows.count {
                1 => self.copy_run(stream, rows.first, text, up),
                _ => memory::copy_rows(stream, rows, text, up),
            }
        }
    }

    unsafe fn wipe(&self, stream: &RawStream, at: Address, len: usize) -> Result<(), Failure> {
        // SAFETY: by this function's contract.
        unsafe { memory::fill(stream, at, 0, len) }
    }

    unsafe fn launch(&self, stream: &RawStream, step: &Step<'_>) -> Result<(), Failure> {
        // SAFETY: by this function's contract.
        unsafe { step.launch(&self.module, self.multiprocessors, stream) }
    }
}
