//! NVIDIA GPUs through their driver, which is loaded at run time where there is one.
//!
//! [`devices()`] lists them; an [`crate::Engine`] with the backend `cuda` runs batches of host
//! memory on one. A batch in GPU memory becomes a [`Plan`]: made once from a [`DeviceBatch`], then
//! launched on any stream any number of times, without allocation and without waiting; nothing
//! crosses the link to the host. If the addresses differ each time, a [`DeviceKey`] is made once,
//! and each batch is queued with it ([`DeviceKey::enqueue`]). [`Device`] allocates memory and
//! streams; those of PyTorch, CuPy and the CUDA runtime can be passed in ([`Region::new`],
//! [`Device::stream_from_raw`]), since all share the device's primary context.

// Bottom up: `driver`, `launch` (kernels and their parameters), then two users of both: `host` for
// batches in host memory, `resident` for batches in GPU memory.

mod driver;
mod host;
mod launch;
mod resident;
#[cfg(test)]
mod tests;

pub use driver::api::Gpu;
pub use driver::devices::{Devices, devices};
pub use driver::link_rates::{LinkRates, link_rates};
pub(crate) use host::backend::{all, open};
#[doc(hidden)]
pub use resident::Kernels;
pub use resident::{
    Device, DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKey, DeviceKeys, DevicePlaces,
    DeviceTags, DeviceText, DeviceVerdicts, Event, Lane, NonceCounter, Pairs, PinnedBuffer, Plan,
    Region, Scratch, Statuses, Stream,
};

/// Pinned memory for measurements.
pub(crate) fn pinned(len: usize) -> Result<PinnedBuffer, crate::Error> {
    Device::open(0)?.pinned(len)
}
