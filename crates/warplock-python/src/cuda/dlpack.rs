//! Arrays of other libraries: where they lie, by DLPack or `__cuda_array_interface__`.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors;

/// An array's address, bytes, GPU (-1: host memory, -2: not said), shape, the current stream of its
/// library if that says so, and whether it may only be read.
type Description<'py> = (u64, usize, i32, Bound<'py, PyTuple>, Option<usize>, bool);

// As in the header of DLPack 1.x.
const CPU: c_int = 1;
const CUDA: c_int = 2;
const CUDA_HOST: c_int = 3;
const CUDA_MANAGED: c_int = 13;
const MAJOR: u32 = 1;
const READ_ONLY: u64 = 1;
const TENSOR: &CStr = c"dltensor_versioned";
const TENSOR_BEFORE_1: &CStr = c"dltensor";
const EXCHANGE: &CStr = c"dlpack_exchange_api";

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: c_int,
    device: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    version: Version,
    manager: *mut c_void,
    deleter: *mut c_void,
    flags: u64,
    tensor: Tensor,
}

#[repr(C)]
struct Exchange {
    version: Version,
    previous: *const Exchange,
    allocator: *mut c_void,
    managed_from_object: *mut c_void,
    managed_to_object: *mut c_void,
    tensor_from_object:
        Option<unsafe extern "C" fn(object: *mut ffi::PyObject, out: *mut Tensor) -> c_int>,
    current_stream: Option<
        unsafe extern "C" fn(device_type: c_int, device: i32, out: *mut *mut c_void) -> c_int,
    >,
}

/// Where an array's bytes lie; None for an object of neither protocol. `stream`: the one that work
/// is for, so that a producer with an order of its own can make it wait.
#[pyfunction]
pub(super) fn describe<'py>(
    object: &Bound<'py, PyAny>,
    stream: Option<usize>,
) -> PyResult<Option<Description<'py>>> {
    let py = object.py();
    if let Some(exchange) = exchange(object)? {
        let mut tensor = Tensor::empty();
        if let Some(fill) = exchange.tensor_from_object {
            // SAFETY: the table is that of the object's type; the tensor is filled in.
            if unsafe { fill(object.as_ptr(), &raw mut tensor) } != 0 {
                return Err(PyErr::fetch(py));
            }
            let current = exchange.stream_of(py, &tensor)?;
            // SAFETY: the object is alive, and with it what the tensor points to.
            return unsafe { tensor.describe(object, false, current) }.map(Some);
        }
    }
    if object.hasattr(intern!(py, "__dlpack__"))? {
        return by_capsule(object, stream).map(Some);
    }
    match object.getattr_opt(intern!(py, "__cuda_array_interface__"))? {
        Some(interface) => by_interface(object, &interface).map(Some),
        None => Ok(None),
    }
}

/// The table of functions of an object's type, of the layout that is known here.
fn exchange<'a>(object: &Bound<'_, PyAny>) -> PyResult<Option<&'a Exchange>> {
    let py = object.py();
    let name = intern!(py, "__dlpack_c_exchange_api__");
    let Some(capsule) = object.get_type().getattr_opt(name)? else {
        return Ok(None);
    };
    // SAFETY: the capsule is alive.
    if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), EXCHANGE.as_ptr()) } == 0 {
        return Ok(None);
    }
    // SAFETY: as above; a valid capsule has a pointer.
    let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), EXCHANGE.as_ptr()) };
    // SAFETY: by DLPack, the table lives as long as the process, and its header is the same in all
    // versions.
    let mut table = unsafe { table.cast::<Exchange>().as_ref() };
    while let Some(found) = table {
        if found.version.major == MAJOR {
            return Ok(Some(found));
        }
        // SAFETY: as above.
        table = unsafe { found.previous.as_ref() };
    }
    Ok(None)
}

impl Exchange {
    fn stream_of(&self, py: Python<'_>, tensor: &Tensor) -> PyResult<Option<usize>> {
        let (Some(ask), CUDA | CUDA_MANAGED) = (self.current_stream, tensor.device_type) else {
            return Ok(None);
        };
        let mut stream = null_mut();
        // SAFETY: the function is the table's; it writes one pointer.
        match unsafe { ask(tensor.device_type, tensor.device, &raw mut stream) } {
            0 => Ok(Some(stream.addr())),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

fn by_capsule<'py>(
    object: &Bound<'py, PyAny>,
    stream: Option<usize>,
) -> PyResult<Description<'py>> {
    let py = object.py();
    let device = object.call_method0(intern!(py, "__dlpack_device__"))?;
    let (device_type, _): (c_int, i32) = device.extract()?;
    let options = PyDict::new(py);
    if matches!(device_type, CUDA | CUDA_MANAGED) {
        // 0 is ambiguous there; 1 is the default stream.
        options.set_item(intern!(py, "stream"), stream.unwrap_or(0).max(1))?;
    }
    options.set_item(intern!(py, "max_version"), (MAJOR, 3))?;
    let method = object.getattr(intern!(py, "__dlpack__"))?;
    let capsule = match method.call((), Some(&options)) {
        // Producers from before version 1.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            options.del_item(intern!(py, "max_version"))?;
            method.call((), Some(&options))?
        }
        made => made?,
    };
    let pointer = |name: &CStr| {
        // SAFETY: the capsule is alive.
        let valid = unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) };
        // SAFETY: as above.
        (valid != 0).then(|| unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) })
    };
    // The capsule keeps its name, so it frees the tensor when it is freed.
    let (tensor, flags) = if let Some(found) = pointer(TENSOR) {
        // SAFETY: by its name it is one; the header is the same in all versions.
        let version = unsafe { &(*found.cast::<Managed>()).version };
        if version.major != MAJOR {
            let problem = format!("the array's DLPack version is {}", version.major);
            return Err(errors::batch(py, problem));
        }
        // SAFETY: as above, of a version with this layout.
        let managed = unsafe { &*found.cast::<Managed>() };
        (&managed.tensor, managed.flags)
    } else if let Some(found) = pointer(TENSOR_BEFORE_1) {
        // SAFETY: by its name it begins with a tensor.
        (unsafe { &*found.cast::<Tensor>() }, 0)
    } else {
        return Err(errors::batch(py, "__dlpack__ gave no DLPack capsule"));
    };
    let read_only = flags & READ_ONLY != 0;
    // SAFETY: the capsule keeps what the tensor points to.
    unsafe { tensor.describe(object, read_only, None) }
}

impl Tensor {
    const fn empty() -> Self {
        Tensor {
            data: null_mut(),
            device_type: 0,
            device: 0,
            ndim: 0,
            code: 0,
            bits: 8,
            lanes: 1,
            shape: std::ptr::null(),
            strides: std::ptr::null(),
            byte_offset: 0,
        }
    }

    /// # Safety
    /// Shape and strides can be read.
    unsafe fn describe<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        read_only: bool,
        stream: Option<usize>,
    ) -> PyResult<Description<'py>> {
        let py = object.py();
        let list = |pointer: *const i64| -> &[i64] {
            match pointer.is_null() {
                true => &[],
                // SAFETY: by this function's contract; both have an entry for each dimension.
                false => unsafe { std::slice::from_raw_parts(pointer, self.ndim.max(0) as usize) },
            }
        };
        let bits = usize::from(self.bits) * usize::from(self.lanes);
        if bits % 8 != 0 {
            let problem =
                format!("items of {bits} bits are no whole bytes: view the array as bytes");
            return Err(errors::batch(py, problem));
        }
        let device = match self.device_type {
            CUDA | CUDA_MANAGED => self.device,
            CPU | CUDA_HOST => -1,
            other => {
                let problem = format!("DLPack's device type {other} is neither the CPU nor CUDA");
                return Err(errors::batch(py, problem));
            }
        };
        let shape = list(self.shape);
        let len = contiguous(object, shape, list(self.strides), 1)? * (bits / 8);
        let address = self.data.addr() as u64 + self.byte_offset;
        let shape = PyTuple::new(py, shape)?;
        Ok((address, len, device, shape, stream, read_only))
    }
}

fn by_interface<'py>(
    object: &Bound<'py, PyAny>,
    interface: &Bound<'py, PyAny>,
) -> PyResult<Description<'py>> {
    let py = object.py();
    let get = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = interface.call_method1(intern!(py, "get"), (name,))?;
        Ok((!found.is_none()).then_some(found))
    };
    let missing = || errors::batch(py, "__cuda_array_interface__ lacks an entry");
    let shape: Vec<i64> = get("shape")?.ok_or_else(missing)?.extract()?;
    let strides: Option<Vec<i64>> = get("strides")?.map(|found| found.extract()).transpose()?;
    let (address, read_only): (Option<u64>, bool) = get("data")?.ok_or_else(missing)?.extract()?;
    let kind: String = get("typestr")?.ok_or_else(missing)?.extract()?;
    let item: usize = kind
        .get(2..)
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(missing)?;
    let stream = get("stream")?.map(|found| found.extract()).transpose()?;
    let count = contiguous(
        object,
        &shape,
        strides.as_deref().unwrap_or(&[]),
        item as i64,
    )?;
    let shape = PyTuple::new(py, shape)?;
    let address = address.unwrap_or(0);
    Ok((address, count * item, -2, shape, stream, read_only))
}

/// The number of items, if they are contiguous in C order, which no strides mean as well.
fn contiguous(
    object: &Bound<'_, PyAny>,
    shape: &[i64],
    strides: &[i64],
    item: i64,
) -> PyResult<usize> {
    let py = object.py();
    let count = shape
        .iter()
        .try_fold(1_i64, |all, &len| all.checked_mul(len));
    let count = count.and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| errors::batch(py, "the array's shape is no shape"))?;
    if strides.is_empty() || count == 0 {
        return Ok(count);
    }
    let mut expected = item;
    for (&len, &stride) in shape.iter().zip(strides).rev() {
        if len != 1 && stride != expected {
            let kind = object.get_type();
            let problem = format!("{} is not contiguous: make a copy that is", kind.name()?);
            return Err(errors::batch(py, problem));
        }
        expected = expected.saturating_mul(len);
    }
    Ok(count)
}
