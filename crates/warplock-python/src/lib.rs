//! `warplock._native`: the part of the Python package that is not Python. It is not an API; the
//! package `warplock` is.

mod aesgcm;
mod analyze;
mod batch;
mod buffer;
mod cuda;
mod engine;
mod errors;
mod files;
mod fork;
mod parquet;
mod python_file;
mod secrets;
mod streams;
mod tensors;
mod watch;

use std::ffi::OsString;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The command line of Warplock; gives its exit code. `launcher` are the words that start it again.
#[pyfunction]
fn main(py: Python<'_>, launcher: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| warplock_cli::run_embedded(launcher, arguments))
}

/// The names of all algorithms.
#[pyfunction]
fn algorithms() -> Vec<&'static str> {
    warplock::Algorithm::all()
        .map(warplock::Algorithm::name)
        .collect()
}

/// The addresses at which a buffer's bytes begin and end.
#[pyfunction]
fn place(data: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    let place = buffer::View::read(data, "the array")?.place();
    Ok((place.start, place.end))
}

/// The exceptions' classes are kept once a process, and would be another interpreter's.
fn refuse_sub_interpreters(_attached: Python<'_>) -> PyResult<()> {
    // SAFETY: both calls only ask, and Python is attached.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match number {
        0 => Ok(()),
        _ => Err(PyImportError::new_err(
            "warplock does not run in subinterpreters: use threads or processes",
        )),
    }
}

#[pymodule(gil_used = false)]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    refuse_sub_interpreters(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<aesgcm::AesGcm>()?;
    module.add_class::<batch::KeySet>()?;
    module.add_class::<secrets::Identity>()?;
    module.add_class::<secrets::Recipient>()?;
    module.add_class::<streams::NativeReader>()?;
    module.add_class::<streams::NativeWriter>()?;
    module.add_class::<streams::PartSealer>()?;
    module.add_class::<tensors::TensorFile>()?;
    module.add_function(wrap_pyfunction!(files::encrypt_file, module)?)?;
    module.add_function(wrap_pyfunction!(files::decrypt_file, module)?)?;
    module.add_function(wrap_pyfunction!(files::rewrap, module)?)?;
    module.add_function(wrap_pyfunction!(files::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(files::sealed_len, module)?)?;
    module.add_class::<parquet::LazyParquet>()?;
    module.add_function(wrap_pyfunction!(parquet::decrypt_parquet, module)?)?;
    module.add_function(wrap_pyfunction!(parquet::encrypt_parquet, module)?)?;
    module.add_function(wrap_pyfunction!(analyze::analyze_data, module)?)?;
    module.add_function(wrap_pyfunction!(analyze::compare_data, module)?)?;
    module.add_function(wrap_pyfunction!(tensors::save_tensors, module)?)?;
    module.add_function(wrap_pyfunction!(secrets::new_envelope, module)?)?;
    module.add_function(wrap_pyfunction!(secrets::recipients_of, module)?)?;
    module.add_function(wrap_pyfunction!(secrets::write_identity, module)?)?;
    module.add_function(wrap_pyfunction!(secrets::write_key_file, module)?)?;
    module.add_function(wrap_pyfunction!(engine::default_backend, module)?)?;
    module.add_function(wrap_pyfunction!(algorithms, module)?)?;
    module.add_function(wrap_pyfunction!(place, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    cuda::register(module)?;
    Ok(())
}
