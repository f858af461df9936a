//! The CUDA driver: whether there is one, its devices, contexts, streams and events.
//!
//! Each call into the driver is checked. An error says what was being done, and has CUDA's name for
//! it.

use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

/// The driver API that the kernels need: 13.0, which is driver 580.
const NEEDED: i32 = 13_000;

/// A call into the driver that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    doing: Cow<'static, str>,
    code: sys::CUresult,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = DriverError(self.code);
        let unnamed = |_| c"?";
        write!(
            f,
            "{}: {} (CUDA error {}: {})",
            self.doing,
            error.error_name().unwrap_or_else(unnamed).to_string_lossy(),
            self.code as u32,
            error
                .error_string()
                .unwrap_or_else(unnamed)
                .to_string_lossy(),
        )
    }
}

impl Failure {
    /// The device has not answered in this time.
    pub(crate) fn hung(waited: Duration) -> Self {
        Failure {
            doing: format!("waiting {} s for the GPU", waited.as_secs_f64()).into(),
            code: sys::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
        }
    }

    /// Whether the device may never answer again: then even freeing its memory would wait.
    pub(crate) fn is_hung(&self) -> bool {
        self.code == sys::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
    }
}

/// Turns the driver's answer into a result; `doing` completes "failed while ...".
pub(crate) fn check<D: Into<Cow<'static, str>>>(
    code: sys::CUresult,
    doing: impl FnOnce() -> D,
) -> Result<(), Failure> {
    match code {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Failure {
            doing: doing().into(),
            code,
        }),
    }
}

/// The driver, loaded and found new enough. A value of this type is proof that its functions can
/// be called.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    version: i32,
}

impl Driver {
    /// Loads the driver, once per process; else the reason why no GPU can be used, and what to do.
    pub(crate) fn load() -> Result<Driver, String> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        DRIVER.get_or_init(Driver::try_load).clone()
    }

    fn try_load() -> Result<Driver, String> {
        // SAFETY: this only tries to load a library, whose initialisation is the driver's own.
        if !unsafe { sys::is_culib_present() } {
            return Err("there is no NVIDIA driver on this machine".to_owned());
        }
        let mut version = 0;
        // SAFETY: the library is loaded; the pointer is to a local variable.
        let code = unsafe { sys::cuDriverGetVersion(&raw mut version) };
        check(code, || "asking for the driver's version").map_err(|failure| failure.to_string())?;
        if version < NEEDED {
            return Err(format!(
                "the NVIDIA driver is too old: it knows CUDA {}, but {} is needed; install driver \
                 580 or newer",
                self::version(version),
                self::version(NEEDED),
            ));
        }
        // SAFETY: the library is loaded; the flags must be 0.
        match unsafe { sys::cuInit(0) } {
            sys::CUresult::CUDA_SUCCESS => Ok(Driver { version }),
            sys::CUresult::CUDA_ERROR_NO_DEVICE => Err(NO_GPU.to_owned()),
            code => Err(Failure {
                doing: "starting the NVIDIA driver".into(),
                code,
            }
            .to_string()),
        }
    }

    /// The version of CUDA that the driver knows, such as 13.0.
    pub(crate) fn version(self) -> String {
        version(self.version)
    }

    /// Every GPU that the driver shows, in its order.
    pub(crate) fn devices(self) -> Result<Vec<DeviceHandle>, Failure> {
        let mut count = 0;
        // SAFETY: the driver is loaded; the pointer is to a local variable.
        let code = unsafe { sys::cuDeviceGetCount(&raw mut count) };
        check(code, || "counting the GPUs")?;
        (0..count).map(DeviceHandle::new).collect()
    }
}

/// The message if the driver finds no GPU.
pub(crate) const NO_GPU: &str = "the NVIDIA driver finds no GPU (CUDA_VISIBLE_DEVICES may hide it)";

/// A version of CUDA, from 1000 times the major number and 10 times the minor, as the driver counts.
fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// One GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The number in `cuda:N`.
    pub number: u32,
    /// The product's name.
    pub name: String,
    /// Compute capability: major and minor number.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub memory: u64,
    /// How many streaming multiprocessors it has.
    pub multiprocessors: u32,
    /// Their highest clock rate, in Hz.
    pub hertz: u64,
}

/// A GPU that the driver has shown.
#[derive(Clone, Debug)]
pub(crate) struct DeviceHandle {
    pub(crate) handle: sys::CUdevice,
    pub(crate) gpu: Gpu,
}

impl DeviceHandle {
    /// Its address on the PCI bus, such as `0000:1b:00.0`, if it has one.
    pub(crate) fn pci_address(&self) -> Option<String> {
        let mut text = [0_u8; 32];
        let len = text.len() as i32;
        // SAFETY: a `DeviceHandle` comes from the loaded driver; the length is the buffer's.
        let code = unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), len, self.handle) };
        check(code, || "asking for the GPU's address").ok()?;
        let text = CStr::from_bytes_until_nul(&text).ok()?;
        Some(text.to_str().ok()?.to_owned())
    }

    fn new(number: i32) -> Result<Self, Failure> {
        use sys::CUdevice_attribute_enum as Attribute;
        let mut handle = 0;
        let mut name = [0_u8; 256];
        let mut memory = 0;
        // SAFETY: the driver is loaded (only `Driver` calls this); pointers are of local
        // variables, and the name's length is its buffer's.
        unsafe {
            let doing = || format!("looking at GPU {number}");
            check(sys::cuDeviceGet(&raw mut handle, number), doing)?;
            let len = name.len() as i32;
            check(
                sys::cuDeviceGetName(name.as_mut_ptr().cast(), len, handle),
                doing,
            )?;
            check(sys::cuDeviceTotalMem_v2(&raw mut memory, handle), doing)?;
        }
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: as above.
            let code = unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, handle) };
            check(code, || format!("asking GPU {number} for its attributes"))?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        let gpu = Gpu {
            number: number as u32,
            name: name.to_string_lossy().into_owned(),
            capability: (
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            memory: memory as u64,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            // In kHz.
            hertz: 1000 * u64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?),
        };
        Ok(DeviceHandle { handle, gpu })
    }
}

/// A device's primary context, which it shares with everything else in this process.
pub(crate) struct Context {
    handle: sys::CUcontext,
    device: sys::CUdevice,
}

// SAFETY: contexts may be used from any thread; each binds it for itself.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn new(device: &DeviceHandle) -> Result<Arc<Self>, Failure> {
        let mut handle = null_mut();
        // SAFETY: a `DeviceHandle` comes from the loaded driver.
        let code = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut handle, device.handle) };
        let Gpu { number, name, .. } = &device.gpu;
        check(code, || format!("starting GPU {number} ({name})"))?;
        let device = device.handle;
        Ok(Arc::new(Context { handle, device }))
    }

    /// Free bytes of its memory. The context is bound.
    pub(crate) fn free_memory(&self) -> Result<u64, Failure> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is bound; pointers are of local variables.
        let code = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check(code, || "asking for the GPU's free memory")?;
        Ok(free as u64)
    }

    /// Waits for everything that any stream has queued. The context is bound.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        // SAFETY: a context is bound.
        check(unsafe { sys::cuCtxSynchronize() }, || "waiting for the GPU")
    }

    /// Makes the context this thread's until the guard is dropped.
    pub(crate) fn bind(&self) -> Result<Bound, Failure> {
        // SAFETY: the context lives as long as `self`; the guard keeps the order of the stack.
        let code = unsafe { sys::cuCtxPushCurrent_v2(self.handle) };
        check(code, || "entering the GPU's context")?;
        Ok(Bound(std::marker::PhantomData))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained in `new`. An error leaves nothing to do.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// While it lives, its thread's calls go to the context that was bound.
#[must_use]
pub(crate) struct Bound(std::marker::PhantomData<*const ()>);

impl Drop for Bound {
    fn drop(&mut self) {
        let mut old = null_mut();
        // SAFETY: pops what `bind` has pushed on this thread: the guard cannot leave it.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut old) };
    }
}

/// A queue of work on a device.
pub(crate) struct RawStream {
    pub(crate) handle: sys::CUstream,
    context: Arc<Context>,
    /// Whether dropping this value destroys the stream.
    owned: bool,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for RawStream {}
// SAFETY: as above, also at the same time: the driver orders the calls.
unsafe impl Sync for RawStream {}

impl RawStream {
    /// A queue that does not wait for others. The context is bound.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, Failure> {
        let mut handle = null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is bound; the pointer is to a local variable.
        let code = unsafe { sys::cuStreamCreate(&raw mut handle, flags) };
        check(code, || "making a stream")?;
        let context = Arc::clone(context);
        Ok(RawStream {
            handle,
            context,
            owned: true,
        })
    }

    /// A stream of another library, which must outlive this value; null is the default stream.
    pub(crate) fn borrowed(context: &Arc<Context>, handle: sys::CUstream) -> Self {
        RawStream {
            handle,
            context: Arc::clone(context),
            owned: false,
        }
    }

    /// Waits until everything queued so far is done.
    pub(crate) fn wait(&self, doing: &'static str) -> Result<(), Failure> {
        // SAFETY: the stream lives.
        check(unsafe { sys::cuStreamSynchronize(self.handle) }, || doing)
    }

    /// Whether what is queued becomes part of a graph instead of running.
    pub(crate) fn is_capturing(&self) -> Result<bool, Failure> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream lives; the pointer is to a local variable.
        let code = unsafe { sys::cuStreamIsCapturing(self.handle, &raw mut status) };
        check(code, || "asking whether a stream captures a graph")?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Makes everything queued from now on wait for an event of another stream.
    pub(crate) fn wait_for(&self, event: &RawEvent) -> Result<(), Failure> {
        // SAFETY: both live; the flags must be 0.
        let code = unsafe { sys::cuStreamWaitEvent(self.handle, event.handle, 0) };
        check(code, || "letting a stream wait for another")
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        let _bound = self.context.bind();
        // SAFETY: made in `new`; the driver keeps what is still queued alive until it is done.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.handle) };
    }
}

/// An event: a mark in a stream.
pub(crate) struct RawEvent {
    handle: sys::CUevent,
    context: Arc<Context>,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for RawEvent {}

impl RawEvent {
    /// An event that is not recorded yet, and so counts as past. The context is bound.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, Failure> {
        RawEvent::with(
            context,
            sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32,
        )
    }

    /// An event that also records the time. The context is bound.
    pub(crate) fn timed(context: &Arc<Context>) -> Result<Self, Failure> {
        RawEvent::with(context, 0)
    }

    fn with(context: &Arc<Context>, flags: u32) -> Result<Self, Failure> {
        let mut handle = null_mut();
        // SAFETY: a context is bound; the pointer is to a local variable.
        let code = unsafe { sys::cuEventCreate(&raw mut handle, flags) };
        check(code, || "making an event")?;
        let context = Arc::clone(context);
        Ok(RawEvent { handle, context })
    }

    /// Marks everything queued in the stream so far.
    pub(crate) fn record(&self, stream: &RawStream) -> Result<(), Failure> {
        // SAFETY: both live and belong to one context.
        let code = unsafe { sys::cuEventRecord(self.handle, stream.handle) };
        check(code, || "marking a place in a stream")
    }

    /// Seconds from another event's time to this one's; both are timed and past.
    pub(crate) fn seconds_since(&self, start: &RawEvent) -> Result<f64, Failure> {
        let mut milliseconds = 0.0_f32;
        // SAFETY: both live; the pointer is to a local variable.
        let code =
            unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, start.handle, self.handle) };
        check(code, || "reading the time between two events")?;
        Ok(f64::from(milliseconds) * 1e-3)
    }

    /// Whether everything before the mark is done.
    pub(crate) fn is_past(&self, doing: &'static str) -> Result<bool, Failure> {
        // SAFETY: the event lives.
        match unsafe { sys::cuEventQuery(self.handle) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check(code, || doing).map(|()| true),
        }
    }

    /// Waits until everything before the mark is done.
    pub(crate) fn wait(&self, doing: &'static str) -> Result<(), Failure> {
        // SAFETY: the event lives.
        check(unsafe { sys::cuEventSynchronize(self.handle) }, || doing)
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        let _bound = self.context.bind();
        // SAFETY: made in `new`.
        let _ = unsafe { sys::cuEventDestroy_v2(self.handle) };
    }
}
