//! The memory of Python objects: borrowed for the time of a call, never copied.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Range;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A C-contiguous buffer of an object that has the buffer protocol (bytes, bytearray, memoryview,
/// mmap, NumPy arrays). While it lives, the object can be neither resized nor freed. Python must be
/// attached when it is dropped.
///
/// Other threads of the program may still write to the bytes of a mutable object; as with every
/// other library, the result is then undefined, but stays within the buffers.
pub(crate) struct View {
    // Boxed: exporters may keep the address.
    raw: Box<ffi::Py_buffer>,
}

impl View {
    fn of(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut raw = Box::new(MaybeUninit::<ffi::Py_buffer>::zeroed());
        // SAFETY: the object is alive, and `raw` is memory for a Py_buffer.
        let failed = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), raw.as_mut_ptr(), flags) };
        if failed != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: the call has filled it in; the layout of a box does not change by this.
        let raw = unsafe { Box::from_raw(Box::into_raw(raw).cast::<ffi::Py_buffer>()) };
        Ok(View { raw })
    }

    /// To read; `what` is its name in errors.
    pub(crate) fn read(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        refuse_objects(object, what)?;
        View::of(object, ffi::PyBUF_ND).map_err(|error| explain(error, object, what, ""))
    }

    /// To write; `what` is its name in errors.
    pub(crate) fn write(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        refuse_objects(object, what)?;
        View::of(object, ffi::PyBUF_ND | ffi::PyBUF_WRITABLE)
            .map_err(|error| explain(error, object, what, "writable "))
    }

    /// To read, with the format of its items.
    pub(crate) fn formatted(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        refuse_objects(object, what)?;
        View::of(object, ffi::PyBUF_ND | ffi::PyBUF_FORMAT)
            .map_err(|error| explain(error, object, what, ""))
    }

    /// The format of the items, as the module `struct` has it.
    pub(crate) fn format(&self) -> &str {
        if self.raw.format.is_null() {
            return "B";
        }
        // SAFETY: the exporter has a string there until the view is released.
        let format = unsafe { std::ffi::CStr::from_ptr(self.raw.format) };
        format.to_str().unwrap_or("")
    }

    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.raw.len).unwrap_or(0)
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        match self.raw.buf.is_null() {
            // Empty objects may have no memory.
            true => std::ptr::NonNull::dangling().as_ptr(),
            false => self.raw.buf.cast(),
        }
    }

    /// Bytes of one item.
    pub(crate) fn item_len(&self) -> usize {
        usize::try_from(self.raw.itemsize).unwrap_or(1)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the exporter has `len` bytes there until the view is released. That no other
        // thread writes to them is the caller's promise, see the type.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len()) }
    }

    /// # Safety
    /// The view was made by [`View::write`], and no other slice of these bytes is in use.
    pub(crate) unsafe fn bytes_mut<'a>(&self) -> &'a mut [u8] {
        // SAFETY: by this function's contract, and as in `bytes`; the callers keep the view.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.len()) }
    }

    pub(crate) fn place(&self) -> Range<usize> {
        place(self.pointer(), self.len())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: it was filled in by PyObject_GetBuffer, and is released once.
        unsafe { ffi::PyBuffer_Release(&mut *self.raw) }
    }
}

// SAFETY: the addresses may be used on any thread; a view is only made and dropped while attached.
unsafe impl Send for View {}
// SAFETY: as above; a shared view only reads.
unsafe impl Sync for View {}

/// Bytes to read: those of a `bytes` object without the cost of the buffer protocol, or a view.
pub(crate) enum Input<'a> {
    Bytes(&'a [u8]),
    View(View),
}

impl<'a> Input<'a> {
    pub(crate) fn of(object: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        match object.cast_exact::<PyBytes>() {
            Ok(bytes) => Ok(Input::Bytes(bytes.as_bytes())),
            Err(_) => View::read(object, what).map(Input::View),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Input::Bytes(bytes) => bytes,
            Input::View(view) => view.bytes(),
        }
    }

    pub(crate) fn place(&self) -> Range<usize> {
        let bytes = self.bytes();
        place(bytes.as_ptr().cast_mut(), bytes.len())
    }
}

fn place(pointer: *mut u8, len: usize) -> Range<usize> {
    let start = pointer as usize;
    start..start + len
}

/// Whether two places have bytes in common.
pub(crate) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
}

/// Whether an object has an attribute. Asked by the attribute's value, the many objects without it
/// would make an exception, which takes longer than a small message.
fn has(object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> bool {
    // SAFETY: both are alive; the call clears what the attribute may raise.
    unsafe { ffi::PyObject_HasAttr(object.as_ptr(), name.as_ptr()) == 1 }
}

/// Refuses arrays of Python objects, whose bytes are addresses, and masked arrays, whose mask would be
/// lost.
fn refuse_objects(object: &Bound<'_, PyAny>, what: &str) -> PyResult<()> {
    let py = object.py();
    let dtype = pyo3::intern!(py, "dtype");
    if !has(object, dtype) {
        let format = pyo3::intern!(py, "format");
        if !has(object, format) {
            return Ok(());
        }
        let format = object.getattr(format)?.extract::<String>();
        return match format.is_ok_and(|format| format.contains('O')) {
            true => Err(objects(what)),
            false => Ok(()),
        };
    }
    let (kind, has_object) = (object.getattr(dtype)?, pyo3::intern!(py, "hasobject"));
    if has(&kind, has_object) && kind.getattr(has_object)?.is_truthy().unwrap_or(false) {
        return Err(objects(what));
    }
    match has(object, pyo3::intern!(py, "mask")) {
        true => Err(PyTypeError::new_err(format!(
            "{what} is a masked array, whose mask would be lost: take its data and its mask apart"
        ))),
        false => Ok(()),
    }
}

fn objects(what: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{what} holds Python objects, not their bytes: convert it to numbers or bytes first"
    ))
}

fn explain(error: PyErr, object: &Bound<'_, PyAny>, what: &str, writable: &str) -> PyErr {
    let py = object.py();
    let kind = object.get_type();
    let kind = kind.name().map(|name| name.to_string());
    let kind = kind.unwrap_or_else(|_| "object".to_owned());
    // An object without the protocol gives a TypeError.
    if error.is_instance_of::<PyTypeError>(py) {
        return PyTypeError::new_err(format!(
            "{what} must be bytes or another {writable}buffer, not {kind}"
        ));
    }
    if !error.is_instance_of::<PyBufferError>(py) && !error.is_instance_of::<PyValueError>(py) {
        return error;
    }
    // SAFETY: the object is alive, and this only asks.
    let is_readable = View::of(object, ffi::PyBUF_ND).is_ok();
    match is_readable {
        true => PyTypeError::new_err(format!("{what} ({kind}) is not writable")),
        false => PyValueError::new_err(format!(
            "{what} ({kind}) is not C-contiguous: make a copy that is"
        )),
    }
}

/// A new `bytes` object of `len` bytes that must be written before it is returned.
pub(crate) fn new_bytes<'py>(
    py: Python<'py>,
    len: usize,
) -> PyResult<(Bound<'py, PyBytes>, &'py mut [u8])> {
    let size = ffi::Py_ssize_t::try_from(len)?;
    // SAFETY: without a source, the call allocates; it returns a new reference, or null with an
    // exception.
    let bytes = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
        Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>()
    };
    // SAFETY: it is a `bytes` object that nothing else knows yet, so its memory may be written. It
    // is not initialized; the engine writes all of it before it reads any, and a failed call drops
    // it.
    let memory = unsafe {
        let start = ffi::PyBytes_AsString(bytes.as_ptr()).cast::<u8>();
        advise_huge(start, len);
        std::slice::from_raw_parts_mut(start, len)
    };
    Ok((bytes, memory))
}

/// From this many bytes on, memory is requested in huge pages; below, the allocator reuses what it
/// has.
const HUGE: usize = 4 << 20;

/// Asks for huge pages: half of the time of a large output is page faults otherwise.
pub(crate) fn advise_huge(start: *mut u8, len: usize) {
    #[cfg(target_os = "linux")]
    if len >= HUGE {
        const PAGE: usize = 4096;
        let from = (start as usize).next_multiple_of(PAGE);
        let to = (start as usize + len) / PAGE * PAGE;
        // SAFETY: the pages lie in memory of ours; the advice changes no content. A kernel that
        // does not take it does no harm.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_HUGEPAGE) };
    }
}
