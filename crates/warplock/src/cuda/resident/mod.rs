//! Batches in GPU memory: nothing crosses the link, and launches neither allocate nor wait.

mod batch;
mod buffers;
mod call;
mod check;
mod counter;
mod device;
mod indirect;
mod kernels;
mod lanes;
mod plan;
mod selftest;
mod sheet;
mod slots;
mod split;
mod spread;
mod spread_selftest;
mod stream;
#[cfg(test)]
mod tests;

pub use batch::{DeviceAad, DeviceBatch, DeviceIvs, DeviceKeys, DeviceTags, DeviceText, Region};
pub use buffers::{DeviceBuffer, PinnedBuffer};
pub use call::{DeviceKey, DeviceVerdicts};
pub use counter::NonceCounter;
pub use device::Device;
pub use indirect::DevicePlaces;
pub use kernels::Kernels;
pub use lanes::{Lane, Pairs, Scratch};
pub use plan::{Plan, Statuses};
pub use stream::{Event, Stream};
