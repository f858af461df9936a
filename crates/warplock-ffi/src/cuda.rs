//! Batches in GPU memory: device keys, calls and plans.

use std::ffi::c_void;

use warplock::cuda::{
    Device, DeviceKey, DeviceKeys, DeviceVerdicts, NonceCounter, Plan, Region, devices,
};
use warplock::{Algorithm, Error};

use crate::batch::{WL_NONCES_DRAWN, algorithm_of, length, product, wl_batch};
use crate::cuda_batch::{device_batch, for_key, region};
use crate::fault::{Fault, Result, run, run_void};
use crate::handle::{self, Opaque};
use crate::key::wl_key;
use crate::memory;
use crate::status::{WL_ERR_UNSUPPORTED, wl_status};

/// A GPU with the library's kernels. It uses the device's primary context, as the CUDA runtime does:
/// pointers and streams of the runtime, of PyTorch and of CuPy can be used with it. Threads may
/// share it.
pub struct wl_cuda_device {
    _opaque: [u8; 0],
}

impl Opaque for wl_cuda_device {
    type Value = Device;
    const MAGIC: [u8; 8] = *b"wldevice";
    const NAME: &'static str = "GPU";
}

/// A key made ready on one GPU, for any number of calls of wl_cuda_enqueue. Threads may share it.
pub struct wl_cuda_key {
    _opaque: [u8; 0],
}

impl Opaque for wl_cuda_key {
    type Value = ReadyKey;
    const MAGIC: [u8; 8] = *b"wlcudkey";
    const NAME: &'static str = "device key";
}

/// A batch in GPU memory, checked and prepared once, for any number of launches. It reads texts,
/// nonces, associated data and tags again at every launch; their places and lengths are fixed.
pub struct wl_cuda_plan {
    _opaque: [u8; 0],
}

impl Opaque for wl_cuda_plan {
    type Value = ReadyPlan;
    const MAGIC: [u8; 8] = *b"wl-plan1";
    const NAME: &'static str = "plan";
}

/// `counter`: for algorithms that authenticate, the source of drawn nonces.
pub(crate) struct ReadyKey {
    pub(crate) key: DeviceKey,
    pub(crate) algorithm: Algorithm,
    pub(crate) counter: Option<NonceCounter>,
}

/// `_counter`: as long as the plan, whose kernels may name it.
pub(crate) struct ReadyPlan {
    plan: Plan,
    device: Device,
    count: usize,
    _counter: Option<NonceCounter>,
}

/// Writes how many GPUs there are to `count`; 0 also if there is no driver. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_device_count(count: *mut u32) -> wl_status {
    run(|| {
        let found = match devices() {
            Ok(devices) => devices.gpus.len() as u32,
            Err(Error::NoBackend { .. }) => 0,
            Err(error) => return Err(error.into()),
        };
        // SAFETY: by this function's documentation.
        unsafe { memory::put(count, found, "the place for the count") }
    })
}

/// Opens the GPU with this number: starts its primary context and loads the kernels. Waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_device_open(
    number: u32,
    device: *mut *mut wl_cuda_device,
) -> wl_status {
    // SAFETY: by this function's documentation.
    run(|| unsafe { handle::make(device, Device::open(number)?) })
}

/// Frees a GPU's handle. NULL is ignored. Keys and plans made with it stay valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_device_free(device: *mut wl_cuda_device) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(device) });
}

/// Makes a key ready on a GPU. The first one of its algorithm in a process also tests the kernels.
/// `key` may be freed afterwards. Allocates and waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_key_new(
    device: *const wl_cuda_device,
    key: *const wl_key,
    device_key: *mut *mut wl_cuda_key,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let device = unsafe { handle::get(device)? };
        // SAFETY: as above.
        let key = unsafe { handle::get(key)? };
        // SAFETY: as above.
        let algorithm = key.algorithm();
        let ready = ReadyKey {
            key: DeviceKey::new(device, key)?,
            algorithm,
            counter: counter(device, algorithm)?,
        };
        // SAFETY: as above.
        unsafe { handle::make(device_key, ready) }
    })
}

/// Waits for everything on the GPU, then wipes and frees a device key. NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_key_free(device_key: *mut wl_cuda_key) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(device_key) });
}

/// Writes to `size` the bytes of GPU memory that wl_cuda_enqueue needs to work in for this batch.
/// Does not touch the GPU and does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_workspace_size(
    device_key: *const wl_cuda_key,
    batch: *const wl_batch,
    size: *mut usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let ready = unsafe { handle::get(device_key)? };
        // SAFETY: as above.
        let batch = unsafe { wl_batch::of(batch)? };
        // SAFETY: as above.
        let needed = ready
            .key
            .workspace_len(&unsafe { for_key(&batch, ready)? })?;
        // SAFETY: as above.
        unsafe { memory::put(size, needed, "the place for the size") }
    })
}

/// Makes room in pinned host memory for `calls` calls like this batch to be under way at the same
/// time. There is room for eight with about a thousand messages from the start; a call that finds
/// none allocates it, which waits for the GPU. Allocates and waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_reserve(
    device_key: *const wl_cuda_key,
    batch: *const wl_batch,
    calls: usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let ready = unsafe { handle::get(device_key)? };
        // SAFETY: as above.
        let batch = unsafe { wl_batch::of(batch)? };
        // SAFETY: as above.
        Ok(ready
            .key
            .reserve(&unsafe { for_key(&batch, ready)? }, calls)?)
    })
}

/// Queues a batch in GPU memory on a stream. Its members `key`, `key_table` and `key_bytes` are
/// NULL: the device key is the key. Its spans are in host memory and are copied before the call
/// returns. With WL_NONCES_DRAWN, a call that seals writes new nonces to `nonces` in GPU memory,
/// from a counter that the device key has there. DANGER: the library cannot see whether a nonce
/// given in GPU memory is used twice.
///
/// `workspace`: `workspace_size` bytes of GPU memory at a multiple of 16, at least what
/// wl_cuda_workspace_size says. `statuses`: NULL, or for each message a 32-bit number in GPU memory, 0
/// if its tag was right, 1 if it was refused. `refused`: NULL, or one 32-bit number in GPU memory to
/// which the number of refused messages is added. Both are for WL_OPEN. A refused message is zeros
/// before anything that is queued later on the stream can read it. `stream`: a CUstream
/// (cudaStream_t) of the device's primary context; NULL for the default stream.
///
/// Does not wait and allocates nothing, as long as there is room (wl_cuda_reserve). Until the stream
/// has passed this point, the device key and all memory stay valid, nothing else uses what is
/// written, and nothing writes what is read. While a stream captures a graph the call is refused:
/// make a plan before the capture.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_enqueue(
    device_key: *const wl_cuda_key,
    batch: *const wl_batch,
    workspace: *mut c_void,
    workspace_size: usize,
    statuses: *mut u32,
    refused: *mut u32,
    stream: *mut c_void,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let ready = unsafe { handle::get(device_key)? };
        // SAFETY: as above.
        let batch = unsafe { wl_batch::of(batch)? };
        // SAFETY: as above.
        let queued = unsafe { for_key(&batch, ready)? };
        // SAFETY: as above.
        let verdicts = unsafe { verdicts(statuses, refused, length(batch.count)?)? };
        // SAFETY: as above.
        let workspace = unsafe { region(workspace, workspace_size)? };
        // SAFETY: as above.
        let stream = unsafe { ready.key.device().stream_from_raw(stream) };
        // SAFETY: as above.
        unsafe { ready.key.enqueue(queued, verdicts, workspace, &stream) }.map_err(Fault::from)
    })
}

/// Prepares a batch in GPU memory for any number of launches, also inside a CUDA graph. Its keys,
/// key numbers and spans are in host memory and are copied. With WL_NONCES_DRAWN, every launch that
/// seals writes new nonces to GPU memory, also when a graph runs again. Given ones are read there at
/// every launch: for a batch that seals, put new ones there before each. Allocates and waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_plan_new(
    device: *const wl_cuda_device,
    batch: *const wl_batch,
    plan: *mut *mut wl_cuda_plan,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let device = unsafe { handle::get(device)? };
        // SAFETY: as above.
        let batch = unsafe { wl_batch::of(batch)? };
        // SAFETY: as above.
        let keys = unsafe { batch.keys()? };
        let algorithm = algorithm_of(&keys)?;
        // SAFETY: as above.
        let counter = match batch.nonce_mode {
            WL_NONCES_DRAWN => counter(device, algorithm)?,
            _ => None,
        };
        let keys = DeviceKeys::Host(keys);
        // SAFETY: as above.
        let made = unsafe { device_batch(&batch, keys, algorithm, counter.as_ref())? };
        let ready = ReadyPlan {
            plan: Plan::new(device, made)?,
            device: device.clone(),
            count: length(batch.count)?,
            _counter: counter,
        };
        // SAFETY: as above.
        unsafe { handle::make(plan, ready) }
    })
}

/// Queues a plan's kernels on a stream (a CUstream; NULL for the default stream), and nothing else:
/// no allocation, no copy, no waiting, so that the stream may be capturing a graph. Until the stream
/// has passed this point, the plan and all memory of its batch stay valid and unused by others.
/// Launches of one plan go to one stream, or wait for each other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_plan_launch(
    plan: *const wl_cuda_plan,
    stream: *mut c_void,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let ready = unsafe { handle::get(plan)? };
        // SAFETY: as above.
        let stream = unsafe { ready.device.stream_from_raw(stream) };
        // SAFETY: as above.
        unsafe { ready.plan.launch(&stream) }.map_err(Fault::from)
    })
}

/// Waits for the stream of a plan's last launch, then writes one byte for each message to `failed`
/// (`size` bytes, at least as many as there are messages; NULL if not wanted): 1 if it was refused,
/// otherwise 0. Returns WL_ERR_AUTHENTICATION if any was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_plan_wait(
    plan: *const wl_cuda_plan,
    stream: *mut c_void,
    failed: *mut u8,
    size: usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let ready = unsafe { handle::get(plan)? };
        let total = ready.count;
        let flags = match failed.is_null() {
            true => None,
            false => {
                memory::refuse_short(size, total, "the place for the flags")?;
                // SAFETY: as above.
                Some(unsafe { memory::slice_mut(failed, total, "the place for the flags")? })
            }
        };
        // SAFETY: as above.
        let stream = unsafe { ready.device.stream_from_raw(stream) };
        let failed = ready.plan.failed(&stream)?;
        if let Some(flags) = flags {
            flags.fill(0);
            failed.iter().for_each(|&message| flags[message] = 1);
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Error::Authentication { failed, total }.into()),
        }
    })
}

/// Writes where a plan puts its verdicts in GPU memory, for kernels: 32-bit numbers, the first at
/// `address`, the next ones `stride` bytes apart, one for each message: 0 if its tag was right, 1 if
/// it was refused. They are valid after a launch until the next. WL_ERR_UNSUPPORTED for a plan that
/// opens nothing. Does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_plan_statuses(
    plan: *const wl_cuda_plan,
    address: *mut u64,
    stride: *mut usize,
) -> wl_status {
    run(|| {
        // SAFETY: by this function's documentation.
        let ready = unsafe { handle::get(plan)? };
        let Some(found) = ready.plan.statuses() else {
            return Err(Fault::new(
                WL_ERR_UNSUPPORTED,
                "the plan opens no messages, so it has no verdicts",
            ));
        };
        // SAFETY: as above.
        unsafe { memory::put(address, found.address, "the place for the address")? };
        // SAFETY: as above.
        unsafe { memory::put(stride, found.stride, "the place for the stride") }
    })
}

/// Waits for everything on the GPU, then wipes and frees a plan; not while a stream captures a graph.
/// NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_cuda_plan_free(plan: *mut wl_cuda_plan) {
    // SAFETY: by this function's documentation.
    run_void(|| unsafe { handle::free(plan) });
}

/// Where a call's verdicts on `count` messages go.
///
/// # Safety
/// The words are in GPU memory and belong to the caller, unless they are NULL.
pub(crate) unsafe fn verdicts(
    statuses: *mut u32,
    refused: *mut u32,
    count: usize,
) -> Result<DeviceVerdicts> {
    let words = |pointer: *mut u32, count: usize| -> Result<Option<Region>> {
        match pointer.is_null() {
            true => Ok(None),
            // SAFETY: by this function's contract.
            false => unsafe { region(pointer.cast(), product(count, 4)?).map(Some) },
        }
    };
    Ok(DeviceVerdicts {
        each: words(statuses, count)?,
        refused: words(refused, 1)?,
    })
}

/// A source of drawn nonces, for algorithms that authenticate.
fn counter(device: &Device, algorithm: Algorithm) -> Result<Option<NonceCounter>> {
    let counter = |algorithm| NonceCounter::new(device, algorithm, None);
    Ok((algorithm.is_aead().then_some(algorithm))
        .map(counter)
        .transpose()?)
}
