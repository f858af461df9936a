//! Lanes: pinned memory through which the threads of a caller move data to and from a GPU.

use std::ops::Range;
use std::thread;

use super::batch::Region;
use super::buffers::{DeviceBuffer, PinnedBuffer};
use super::device::Device;
use super::stream::Stream;
use crate::Error;
use crate::cuda::driver::api::RawEvent;

/// Pinned memory that is filled or read again and again. Dropping it waits for the last copy.
pub struct Lane {
    pinned: PinnedBuffer,
    /// Completes with the last copy. Threads that wait for events instead of streams do not hinder
    /// each other in the driver: on an H200, 12 of them moved 49 instead of 45 GB/s.
    copied: RawEvent,
    device: Device,
}

impl Lane {
    /// With `len` bytes. May synchronise.
    ///
    /// # Errors
    /// [`Error::Backend`] if there is not enough memory.
    pub fn new(device: &Device, len: usize) -> Result<Self, Error> {
        Ok(Lane {
            pinned: device.pinned(len)?,
            copied: device.call(|device| RawEvent::new(&device.link().context))?,
            device: device.clone(),
        })
    }

    /// Waits for the last copy, and returns the memory.
    ///
    /// # Errors
    /// [`Error::Backend`] if the copy, or anything before it in its stream, failed.
    pub fn ready(&mut self) -> Result<&mut [u8], Error> {
        let copied = &self.copied;
        self.device.call(|_| copied.wait("waiting for a copy"))?;
        Ok(&mut self.pinned)
    }

    /// Queues a copy of a part of the memory to the device. Does not synchronise.
    ///
    /// # Safety
    /// Until the stream has passed this point, the region lives, and nothing else uses it. It is one
    /// of the lane's device, as the stream is.
    ///
    /// # Errors
    /// As from [`Stream::upload`].
    pub unsafe fn upload(
        &mut self,
        part: Range<usize>,
        to: Region,
        stream: &Stream,
    ) -> Result<(), Error> {
        // SAFETY: by this function's contract; the memory is given out again after the copy.
        unsafe { stream.upload(to, &self.pinned[part])? };
        self.device.call(|_| self.copied.record(stream.inner()))
    }

    /// Queues a copy from the device to the start of the memory. Does not synchronise.
    ///
    /// # Safety
    /// As [`Lane::upload`].
    ///
    /// # Errors
    /// As from [`Stream::download`].
    pub unsafe fn download(&mut self, from: Region, stream: &Stream) -> Result<(), Error> {
        // SAFETY: as above.
        unsafe { stream.download(&mut self.pinned[..from.len()], from)? };
        self.device.call(|_| self.copied.record(stream.inner()))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // After an error there is nothing to wait for.
        let _ = self.ready();
    }
}

/// Memory on the device that grows with what is asked for, for work in one stream.
#[derive(Default)]
pub struct Scratch(Option<DeviceBuffer>);

impl Scratch {
    /// All of the memory, at least `len` bytes of undefined content. Waits for the stream if it must
    /// grow.
    ///
    /// # Errors
    /// [`Error::Backend`] if there is not enough, or if the stream's work failed.
    pub fn region(
        &mut self,
        device: &Device,
        stream: &Stream,
        len: usize,
    ) -> Result<Region, Error> {
        match &self.0 {
            Some(memory) if memory.len() >= len => Ok(memory.region()),
            _ => {
                stream.synchronize()?;
                self.0 = None;
                // More than needed, so that slowly growing sizes seldom wait.
                let memory = device.alloc(len.next_power_of_two())?;
                Ok(self.0.insert(memory).region())
            }
        }
    }

    /// All of the memory, if there is any.
    pub fn get(&self) -> Option<Region> {
        self.0.as_ref().map(DeviceBuffer::region)
    }
}

/// Two of something for each of several threads: a thread fills one while the GPU works on the
/// other. Each thread makes its own at its first use, and they are kept.
pub struct Pairs<L>(Vec<Option<[L; 2]>>);

impl<L: Send> Pairs<L> {
    /// For at most `threads` threads.
    pub fn new(threads: usize) -> Self {
        Pairs((0..threads).map(|_| None).collect())
    }

    /// Calls `work` in up to `threads` threads, the caller's among them, each with its pair or the
    /// error of `make`. Fewer run if the system has no more: so each must work until all is done.
    pub fn run<E>(
        &mut self,
        threads: usize,
        make: impl Fn() -> Result<L, E> + Sync,
        work: impl Fn(Result<&mut [L; 2], E>) + Sync,
    ) {
        let start = |pair: &mut Option<[L; 2]>| {
            let pair = match pair {
                Some(pair) => Ok(pair),
                None => make().and_then(|lane| Ok(pair.insert([lane, make()?]))),
            };
            work(pair);
        };
        thread::scope(|scope| {
            let mut pairs = self.0.iter_mut().take(threads.max(1));
            let first = pairs.next();
            for pair in pairs {
                let start = &start;
                let worker = thread::Builder::new().spawn_scoped(scope, move || start(pair));
                if worker.is_err() {
                    break;
                }
            }
            if let Some(pair) = first {
                start(pair);
            }
        });
    }
}
