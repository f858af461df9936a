//! Memory on the device, and pinned memory of the host, which the device accesses directly.
//!
//! # Safety of all unsafe functions
//! All places are valid for their lengths until the stream has passed this point, and do not overlap.
//! Until then nothing else writes what is read or uses what is written.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use cudarc::driver::sys;
use zeroize::Zeroize;

use super::api::{Context, Failure, RawStream, check};
use super::rows::Rows;

/// An address on the device, or 0.
pub(crate) type Address = u64;

/// Pinned bytes of the host, wiped when dropped.
pub(crate) trait HostBytes: Send {
    /// Their address.
    fn start(&self) -> *mut u8;
    fn len(&self) -> usize;
    /// All of them. The device must not be using them.
    fn bytes(&mut self) -> &mut [u8];
}

/// Bytes on the device, wiped when dropped.
pub(crate) trait DeviceBytes: Send {
    fn address(&self) -> Address;
    fn len(&self) -> usize;
}

/// Bytes on the device, wiped when dropped.
pub(crate) struct DeviceMemory {
    address: Address,
    len: usize,
    context: Arc<Context>,
}

impl DeviceMemory {
    /// Room for `len` bytes of undefined content. The context is bound.
    pub(crate) fn new(context: &Arc<Context>, len: usize) -> Result<Self, Failure> {
        let mut address = 0;
        if len > 0 {
            // Kernels read whole lines of 16 bytes.
            let room = len.next_multiple_of(16);
            // SAFETY: a context is bound; the pointer is to a local variable.
            let code = unsafe { sys::cuMemAlloc_v2(&raw mut address, room) };
            check(code, || format!("asking for {len} bytes of GPU memory"))?;
        }
        Ok(DeviceMemory {
            address,
            len,
            context: Arc::clone(context),
        })
    }

    /// Makes it shorter; an empty one is not freed, so one byte stays.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len.max(1));
    }
}

impl DeviceBytes for DeviceMemory {
    fn address(&self) -> Address {
        self.address
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        let _bound = self.context.bind();
        // SAFETY: allocated in `new`, and no longer in use: owners wait for their streams first.
        unsafe {
            let _ = sys::cuMemsetD8_v2(self.address, 0, self.len);
            let _ = sys::cuMemFree_v2(self.address);
        }
    }
}

/// Pinned bytes of the host, wiped when dropped.
pub(crate) struct PinnedMemory {
    start: NonNull<u8>,
    len: usize,
    context: Arc<Context>,
}

// SAFETY: it owns its bytes.
unsafe impl Send for PinnedMemory {}
// SAFETY: shared references give out a pointer only.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// `len` bytes of zeros. The context is bound.
    pub(crate) fn new(context: &Arc<Context>, len: usize) -> Result<Self, Failure> {
        let mut start = null_mut();
        if len > 0 {
            // SAFETY: a context is bound; the pointer is to a local variable.
            let code =
                unsafe { sys::cuMemHostAlloc(&raw mut start, len, sys::CU_MEMHOSTALLOC_PORTABLE) };
            check(code, || format!("asking for {len} bytes of pinned memory"))?;
            // SAFETY: allocated just now with this length.
            unsafe { start.cast::<u8>().write_bytes(0, len) };
        }
        Ok(PinnedMemory {
            start: NonNull::new(start.cast()).unwrap_or(NonNull::dangling()),
            len,
            context: Arc::clone(context),
        })
    }
}

impl HostBytes for PinnedMemory {
    fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated and initialised with this length, or empty; borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        self.bytes().zeroize();
        let _bound = self.context.bind();
        // SAFETY: allocated in `new`, and no longer in use: owners wait for their streams first.
        let _ = unsafe { sys::cuMemFreeHost(self.start.as_ptr().cast()) };
    }
}

/// The addresses of the pinned allocation that `address` lies in; none if it lies in
/// pageable memory.
pub(crate) fn pinned_around(address: *const u8) -> Option<Range<usize>> {
    use sys::CUpointer_attribute_enum as Attribute;
    let ask = |which, value: *mut c_void| {
        // SAFETY: the driver looks the address up and does not follow it; `value` has the
        // attribute's type.
        let code = unsafe { sys::cuPointerGetAttribute(value, which, address as Address) };
        code == sys::CUresult::CUDA_SUCCESS
    };
    let (mut kind, mut start, mut len, mut managed) = (0_u32, 0_u64, 0_usize, 0_u32);
    let known = ask(
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        (&raw mut kind).cast(),
    ) && ask(
        Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        (&raw mut managed).cast(),
    ) && ask(
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        (&raw mut start).cast(),
    ) && ask(
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        (&raw mut len).cast(),
    );
    let host = sys::CUmemorytype_enum::CU_MEMORYTYPE_HOST as u32;
    let start = start as usize;
    (known && kind == host && managed == 0).then(|| start..start.saturating_add(len))
}

/// Queues a copy to the device.
pub(crate) unsafe fn upload(
    stream: &RawStream,
    to: Address,
    from: *const u8,
    len: usize,
) -> Result<(), Failure> {
    // SAFETY: by this function's contract.
    let code = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), len, stream.handle) };
    check(code, || format!("copying {len} bytes to the GPU"))
}

/// Queues a copy from the device.
pub(crate) unsafe fn download(
    stream: &RawStream,
    to: *mut u8,
    from: Address,
    len: usize,
) -> Result<(), Failure> {
    // SAFETY: by this function's contract.
    let code = unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, len, stream.handle) };
    check(code, || format!("copying {len} bytes from the GPU"))
}

/// Queues copies of rows between the host and a text on the device: to the device if `up`, else
/// from it.
pub(crate) unsafe fn copy_rows(
    stream: &RawStream,
    rows: &Rows,
    text: Address,
    up: bool,
) -> Result<(), Failure> {
    use sys::CUmemorytype_enum as Kind;
    let (count, len) = (rows.count, rows.first.len);
    let device = text + rows.first.place as u64;
    let host = (Kind::CU_MEMORYTYPE_HOST, rows.user_pitch);
    let chunk = (Kind::CU_MEMORYTYPE_DEVICE, rows.place_pitch);
    let ((from, from_pitch), (to, to_pitch)) = if up { (host, chunk) } else { (chunk, host) };
    // Of each end's two addresses, the driver reads the one of the given kind.
    let copy = sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: from,
        srcHost: rows.first.user.cast(),
        srcDevice: device,
        srcArray: null_mut(),
        srcPitch: from_pitch,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: to,
        dstHost: rows.first.user.cast(),
        dstDevice: device,
        dstArray: null_mut(),
        dstPitch: to_pitch,
        WidthInBytes: len,
        Height: count,
    };
    // SAFETY: by this function's contract.
    let code = unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream.handle) };
    let way = if up { "to" } else { "from" };
    check(code, || {
        format!("copying {count} times {len} bytes {way} the GPU")
    })
}

/// Queues a copy inside the device.
pub(crate) unsafe fn move_inside(
    stream: &RawStream,
    to: Address,
    from: Address,
    len: usize,
) -> Result<(), Failure> {
    // SAFETY: by this function's contract.
    let code = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, len, stream.handle) };
    check(code, || format!("copying {len} bytes inside GPU memory"))
}

/// Queues the same value for `len` bytes of the device.
pub(crate) unsafe fn fill(
    stream: &RawStream,
    at: Address,
    value: u8,
    len: usize,
) -> Result<(), Failure> {
    // SAFETY: by this function's contract.
    let code = unsafe { sys::cuMemsetD8Async(at, value, len, stream.handle) };
    check(code, || format!("filling {len} bytes of GPU memory"))
}
