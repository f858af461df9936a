//! NVIDIA GPUs through their driver, which is loaded at run time where there is one.
//!
//! [`devices()`] lists them; an [`crate::Engine`] with the backend `cuda` runs batches of host memory
//! on one. What already lies in GPU memory takes a [`Plan`]: made once of a [`DeviceBatch`], then
//! launched on any stream, as often as wanted, without allocation and without waiting; nothing
//! crosses the link to the host. [`Device`] has memory and streams for those who have none; those
//! of PyTorch, CuPy and the CUDA runtime can be handed in ([`Region::new`],
//! [`Device::stream_from_raw`]), since all share the device's primary context.

// A job in host memory is cut into chunks (`cut`), each packed with what kernels must know
// (`pack`), and passed through a ring of slots (`ring`), where it meets the kernels that `launch`
// names.

mod abi;
mod acorn;
mod back;
mod backend;
mod copy;
mod cut;
mod devices;
mod driver;
mod keys;
mod launch;
mod link;
mod long;
mod memory;
mod module;
#[cfg(target_os = "linux")]
mod near;
#[cfg(not(target_os = "linux"))]
#[path = "far.rs"]
mod near;
mod pack;
mod parts;
mod pieces;
mod pinned;
mod policy;
mod ready;
mod resident;
mod ring;
mod selftest;
mod slot;
#[cfg(test)]
mod tests;

pub(crate) use backend::CudaBackend;
pub use devices::{Devices, Gpu, devices};
pub use pinned::{LinkRates, PinnedBytes, link_rates};
pub use resident::{
    Device, DeviceAad, DeviceBatch, DeviceBuffer, DeviceIvs, DeviceKeys, DeviceTags, DeviceText,
    Event, PinnedBuffer, Plan, Region, Statuses, Stream,
};
