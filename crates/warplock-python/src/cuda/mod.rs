//! Batches in GPU memory. The interface that users see is `warplock.cuda`.

mod analyze;
mod batch;
mod device;
mod dlpack;
mod idle;
mod key;
mod nonces;
mod parquet;
mod plan;

pub(crate) use idle::Idle;
use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<key::DeviceKey>()?;
    module.add_class::<nonces::NonceCounter>()?;
    module.add_class::<nonces::CountedNonces>()?;
    module.add_class::<plan::DevicePlan>()?;
    module.add_class::<parquet::DeviceFile>()?;
    module.add_function(wrap_pyfunction!(parquet::decrypt_parquet_to_gpu, module)?)?;
    module.add_function(wrap_pyfunction!(analyze::analyze_on_gpu, module)?)?;
    module.add_function(wrap_pyfunction!(analyze::compare_on_gpu, module)?)?;
    module.add_function(wrap_pyfunction!(device::gpus, module)?)?;
    module.add_function(wrap_pyfunction!(device::synchronize, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::describe, module)?)?;
    Ok(())
}
