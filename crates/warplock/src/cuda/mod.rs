//! NVIDIA GPUs through their driver, which is loaded at run time where there is one.

// A job in host memory is cut into chunks (`cut`), each packed with what kernels must know
// (`pack`), and passed through a ring of slots (`ring`), where it meets the kernels that `launch`
// names.

mod abi;
mod backend;
mod copy;
mod cut;
mod devices;
mod driver;
mod keys;
mod launch;
mod link;
mod memory;
mod module;
mod pack;
mod parts;
mod pinned;
mod policy;
mod ring;
mod selftest;
mod slot;
#[cfg(test)]
mod tests;

pub(crate) use backend::CudaBackend;
pub use devices::{Devices, Gpu, devices};
pub use pinned::{LinkRates, PinnedBytes, link_rates};
