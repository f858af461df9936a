//! The GPU interface for loading and saving. The tests have one in host memory.

use std::ops::Range;

use warplock::Direction;
use warplock::cuda::Region;

use crate::cipher::Cipher;
use crate::error::Result;

pub(crate) trait Gpu: Sync {
    type Key: Sync;
    type Memory: Memory;
    type Lane: Lane<Key = Self::Key>;

    /// Makes a stream's key ready for `calls` calls at the same time.
    fn key(&self, cipher: &Cipher, calls: usize) -> Result<Self::Key>;
    /// Memory full of zeros.
    fn zeroed(&self, len: usize) -> Result<Self::Memory>;
    /// A lane with `len` bytes of pinned memory.
    fn lane(&self, len: usize) -> Result<Self::Lane>;
    /// Fills a region with zeros, and waits for that.
    ///
    /// # Safety
    /// Nothing else uses the region.
    unsafe fn wipe(&self, region: Region) -> Result<()>;
}

pub(crate) trait Memory: Sync {
    fn region(&self) -> Region;
    /// Copies from `offset` on, and waits for the copy.
    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()>;
}

/// A queue of work with its own buffers: pinned, and on the device as many bytes of sealed chunks.
/// What is queued in one lane runs in order. Dropping it waits.
pub(crate) trait Lane: Send {
    type Key;

    /// Waits until no copy uses the pinned buffer, and returns it.
    fn ready(&mut self) -> Result<&mut [u8]>;
    /// Waits for everything queued.
    fn finish(&mut self) -> Result<()>;
    /// The device's buffer for sealed chunks.
    fn sealed(&self) -> Region;
    /// Memory of the device for `len` bytes of plaintext; [`Lane::wipe`] wipes it.
    fn plain(&mut self, len: usize) -> Result<Region>;

    /// Queues a copy of a part of the pinned buffer.
    ///
    /// # Safety
    /// The region lives, and nothing outside this lane uses it, until [`Lane::finish`].
    unsafe fn upload(&mut self, part: Range<usize>, to: Region) -> Result<()>;
    /// Queues a copy to the pinned buffer's start.
    ///
    /// # Safety
    /// As [`Lane::upload`].
    unsafe fn download(&mut self, from: Region) -> Result<()>;
    /// Queues a copy inside the device.
    ///
    /// # Safety
    /// As [`Lane::upload`], for both; they do not overlap.
    unsafe fn copy(&mut self, to: Region, from: Region) -> Result<()>;
    /// Queues the sealing or opening of chunks; those that are refused become zeros.
    ///
    /// # Safety
    /// As [`Lane::upload`], for all regions.
    unsafe fn run(&mut self, key: &Self::Key, chunks: &Chunks<'_>) -> Result<()>;
    /// Queues the wiping of the plaintext.
    fn wipe(&mut self) -> Result<()>;
}

/// Neighbouring chunks of one length.
#[derive(Clone, Copy)]
pub(crate) struct Chunks<'a> {
    pub(crate) direction: Direction,
    /// The number of the first.
    pub(crate) first: u64,
    pub(crate) count: usize,
    /// Bytes of plaintext in each.
    pub(crate) len: usize,
    /// The nonce of chunk 0.
    pub(crate) base: &'a [u8],
    pub(crate) input: Region,
    pub(crate) output: Region,
    /// To open: a 32-bit number for each chunk that says whether it was refused, and their sum.
    pub(crate) verdicts: Option<(Region, Region)>,
}
