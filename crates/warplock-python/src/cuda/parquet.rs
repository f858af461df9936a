//! Encrypted Parquet files to plain ones in GPU memory.

use std::fs::File;
use std::os::fd::BorrowedFd;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warplock::cuda::DeviceBuffer;
use warplock_parquet::gpu::GpuDecryption;
use warplock_parquet::{Error, Options};

use super::idle::Idle;
use crate::buffer::Input;
use crate::engine::{Engine, chosen};
use crate::fork::OfThisProcess;
use crate::parquet::{given_keys, raised};

/// A file in GPU memory.
#[pyclass(frozen, module = "warplock.parquet")]
pub(crate) struct DeviceFile {
    memory: OfThisProcess<DeviceBuffer>,
    number: u32,
}

#[pymethods]
impl DeviceFile {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.memory.get(py)?.len())
    }

    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.__len__(py)
    }

    /// The address on the GPU.
    #[getter]
    fn ptr(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.memory.get(py)?.region().address())
    }

    /// The GPU's number.
    #[getter]
    fn device(&self) -> u32 {
        self.number
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        told.set_item("shape", (self.__len__(py)?,))?;
        told.set_item("typestr", "|u1")?;
        told.set_item("data", (self.ptr(py)?, false))?;
        // Nothing is under way.
        told.set_item("stream", py.None())?;
        told.set_item("version", 3)?;
        Ok(told)
    }

    /// A copy in host memory.
    fn tobytes(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let memory = self.memory.get(py)?;
        let mut bytes = vec![0; memory.len()];
        let read = py.detach(|| memory.read(0, &mut bytes));
        read.map_err(|error| crate::errors::engine(py, error))?;
        Ok(bytes)
    }
}

/// Their pinned memory holds ciphertext only.
static DECRYPTIONS: Idle<GpuDecryption> = Idle::new();

/// Decrypts `source` (an object with the buffer protocol) to memory of a GPU. `descriptor`: of the file
/// that it is a mapping of.
#[pyfunction]
pub(crate) fn decrypt_parquet_to_gpu(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    descriptor: Option<i32>,
    lookup: &Bound<'_, PyAny>,
    aad_prefix: Option<Vec<u8>>,
    number: u32,
    engine: Option<PyRef<'_, Engine>>,
) -> PyResult<DeviceFile> {
    let engine = chosen(py, &engine)?.engine().clone();
    let source = Input::of(source, "the source")?;
    let bytes = source.bytes();
    // SAFETY: Python's caller has it open, and it is only used to make another one.
    let file = descriptor.map(|number| unsafe { BorrowedFd::borrow_raw(number) });
    let file = file
        .map(|file| file.try_clone_to_owned())
        .transpose()?
        .map(File::from);
    let mut keys = given_keys(lookup);
    let options = Options { aad_prefix };
    let decrypted = DECRYPTIONS.with(py, number, GpuDecryption::new, |work| {
        let decrypt = || work.decrypt(bytes, file.as_ref(), &mut keys, &options, &engine);
        let decrypted = py.detach(decrypt);
        let works = !matches!(decrypted, Err(Error::Engine(_)));
        (decrypted, works)
    })?;
    let memory = decrypted.map_err(|error| raised(py, error))?;
    Ok(DeviceFile {
        memory: OfThisProcess::new(memory),
        number,
    })
}
