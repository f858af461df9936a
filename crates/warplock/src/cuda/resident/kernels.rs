//! Kernels that another crate of this workspace has.

use std::ffi::c_void;
use std::fmt;

use super::device::Device;
use super::stream::Stream;
use crate::Error;
use crate::cuda::driver::module::{Family, Module};

/// Kernels of another crate, loaded on a device; no part of the stable interface.
pub struct Kernels {
    module: Module,
    device: Device,
}

impl Kernels {
    /// Loads a fatbin. May synchronise.
    ///
    /// # Safety
    /// The image is a whole fatbin (it contains its length).
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver refuses it.
    pub unsafe fn load(device: &Device, image: &[u8]) -> Result<Self, Error> {
        let module = device.call(|device| {
            // SAFETY: by this function's contract; the context is bound.
            unsafe { Module::load_image(&device.link().context, image) }
        })?;
        let device = device.clone();
        Ok(Kernels { module, device })
    }

    /// Where they are loaded.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Queues a launch of `grid` blocks with as many threads each as the kernel may have, without
    /// dynamic shared memory. `arguments` are the addresses of the parameters, which are copied.
    ///
    /// # Safety
    /// The arguments point to what the kernel's definition asks for, in its order and types. All
    /// device memory that they name is valid, and used by nothing that conflicts, until the stream
    /// has passed this point. The stream is one of this device.
    ///
    /// # Errors
    /// [`Error::Backend`] if the driver fails.
    pub unsafe fn launch(
        &self,
        name: &str,
        grid: u32,
        arguments: &mut [*mut c_void],
        stream: &Stream,
    ) -> Result<(), Error> {
        self.device.call(|_| {
            let kernel = self.module.kernel(name, Family::PLAIN)?;
            // SAFETY: by this function's contract.
            unsafe { kernel.launch(name, stream.inner(), grid, kernel.threads, arguments) }
        })
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        // The module must outlive what was launched.
        self.device.settle();
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernels({:?})", self.device)
    }
}
