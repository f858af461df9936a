//! Kernels on one GPU, and grids that fill it.

use std::ffi::c_void;
use std::marker::PhantomData;

use warplock::cuda::{Device, DeviceBuffer, Kernels, Region, Stream};

use crate::data::Error;

/// Threads of a block, and blocks of a multiprocessor; as in `kernels/memory.cuh`.
const THREADS: usize = 512;
const BLOCKS: usize = 3;

/// Kernels that are loaded.
#[derive(Debug)]
pub(crate) struct Launcher {
    kernels: Kernels,
}

impl Launcher {
    /// # Safety
    /// The image is a whole fatbin.
    pub(crate) unsafe fn new(device: &Device, image: &[u8]) -> Result<Self, Error> {
        // SAFETY: by this function's contract.
        let kernels = unsafe { Kernels::load(device, image)? };
        Ok(Launcher { kernels })
    }

    pub(crate) fn device(&self) -> &Device {
        self.kernels.device()
    }

    /// The blocks for this number of threads' pieces of work, of which each thread takes several if
    /// there are more than the GPU runs.
    pub(crate) fn blocks(&self, pieces: usize) -> u32 {
        let most = BLOCKS * self.device().gpu().multiprocessors as usize;
        pieces.div_ceil(THREADS).clamp(1, most.max(1)) as u32
    }

    /// Queues a kernel.
    ///
    /// # Safety
    /// As [`Kernels::launch`].
    pub(crate) unsafe fn launch<const N: usize>(
        &self,
        name: &str,
        grid: u32,
        arguments: [Argument<'_>; N],
        stream: &Stream,
    ) -> Result<(), Error> {
        let mut arguments = arguments.map(|one| one.0);
        // SAFETY: by this function's contract; the arguments' borrows end after the call.
        unsafe { (self.kernels).launch(name, grid, &mut arguments, stream)? };
        Ok(())
    }
}

/// The address of a parameter, which it borrows.
pub(crate) struct Argument<'a>(*mut c_void, PhantomData<&'a ()>);

pub(crate) fn argument<T>(value: &T) -> Argument<'_> {
    Argument(std::ptr::from_ref(value).cast_mut().cast(), PhantomData)
}

/// Memory that work on a stream uses: dropping it waits for the stream.
pub(crate) struct Scratch<'a> {
    memory: DeviceBuffer,
    stream: &'a Stream,
}

impl<'a> Scratch<'a> {
    pub(crate) fn new(device: &Device, len: usize, stream: &'a Stream) -> Result<Self, Error> {
        let memory = device.alloc(len)?;
        Ok(Scratch { memory, stream })
    }

    pub(crate) fn region(&self) -> Region {
        self.memory.region()
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        // After an error there is nothing to wait for.
        let _ = self.stream.synchronize();
    }
}
