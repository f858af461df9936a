//! Streams between files and GPU memory: what crosses the link is ciphertext, which is opened and
//! sealed on the GPU. The host has the key, but no plaintext.

mod cuda;
mod device;
#[cfg(test)]
mod host;
mod load;
mod pieces;
mod save;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::atomic::AtomicU64;
use std::thread;

use warplock::cuda::{Device, Pairs, Region};

use self::cuda::Cuda;
use self::device::Gpu;
use self::load::Load;
use self::save::Save;
use crate::cipher::Cipher;
use crate::drain::Drain;
use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::key::InputKey;
use crate::layout::{CHUNK_LEN, SEALED_CHUNK_LEN, chunk_count, opened_body_len, sealed_len};
use crate::outcome::Outcome;
use crate::pipeline::{Concurrency, Monitor};
use crate::sink::Sink;
use crate::source::{Kind, Source};

/// Moves streams between files and the memory of one GPU, through pinned buffers that it keeps for
/// the next call. They never hold plaintext of the GPU's.
///
/// ```no_run
/// use std::fs::File;
/// use warplock::cuda::Device;
/// use warplock_container::gpu::{Part, Ring};
/// use warplock_container::{InputKey, Monitor, Sink, Source, Suite};
///
/// let key = InputKey::new(Suite::Cobblestone256, &[7; 32])?; // random, in earnest
/// let (device, monitor) = (Device::open(0)?, Monitor::default());
/// let mut ring = Ring::new(&device);
///
/// let file = File::create("weights.sealed").unwrap();
/// let weights = device.alloc(1 << 30)?;
/// // SAFETY: the buffer lives, and nothing writes it.
/// unsafe { ring.seal(&[Part::Gpu(weights.region())], Sink::file(&file).unwrap(), &key, &monitor)? };
///
/// let file = File::open("weights.sealed").unwrap();
/// // SAFETY: the buffer lives, and nothing else uses it.
/// unsafe { ring.open(Source::file(&file).unwrap(), &key, .., weights.region(), &monitor)? };
/// # Ok::<(), warplock_container::Error>(())
/// ```
pub struct Ring(Lanes<Cuda>);

/// A part of a plaintext.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// In memory of the ring's GPU.
    Gpu(Region),
    /// In host memory: goes through the pinned buffers, so keep it short.
    Host(&'a [u8]),
}

impl Part<'_> {
    fn len(&self) -> usize {
        match self {
            Part::Gpu(region) => region.len(),
            Part::Host(bytes) => bytes.len(),
        }
    }
}

impl Ring {
    /// A ring with a thread for each core, at most eight, and 16 MiB of pinned memory for each. The
    /// memory is allocated at the first use.
    pub fn new(device: &Device) -> Self {
        const MOST: usize = 8;
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Ring::with_concurrency(
            device,
            Concurrency {
                workers: NonZeroUsize::new(cores.min(MOST)).unwrap_or(NonZeroUsize::MIN),
                segment_chunks: const { NonZeroUsize::new(512).unwrap() },
            },
        )
    }

    /// A ring with other numbers: each worker has two pinned buffers of a segment.
    pub fn with_concurrency(device: &Device, concurrency: Concurrency) -> Self {
        Ring(Lanes::new(Cuda(device.clone()), concurrency))
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.0.gpu.0
    }

    /// Verifies and opens the bytes `range` of the plaintext in `source` to `to`, which has as many.
    /// Reads only the chunks around them. Returns their number. Waits until all is verified and in
    /// its place.
    ///
    /// As with [`crate::open_range`], a range up to the end also verifies that the end is the true
    /// one, and an empty one at the end verifies only that. A source that is read from front to back
    /// is opened whole. Chunks that begin at multiples of 16 bytes of GPU memory are fastest.
    ///
    /// # Errors
    /// [`Error::RegionLength`] if the place's length is not the range's, and those of
    /// [`crate::open_range`], but a chunk that was moved is not distinguished from one that was
    /// changed. Then the region is all zeros.
    ///
    /// # Safety
    /// The region is memory of the ring's GPU, and nothing uses it until the call returns: first
    /// wait for streams with queued work that does.
    pub unsafe fn open(
        &mut self,
        source: Source<'_>,
        key: &InputKey,
        range: impl RangeBounds<u64>,
        to: Region,
        monitor: &Monitor,
    ) -> Result<u64> {
        // SAFETY: by this function's contract.
        unsafe { self.0.open(source, key, range, to, monitor) }
    }

    /// Seals `parts`, one after the other, as one stream into `sink`, under a fresh salt. Returns the
    /// stream's length in bytes.
    ///
    /// # Errors
    /// Those of [`crate::seal`]. Then discard the output.
    ///
    /// # Safety
    /// The regions are memory of the ring's GPU, and nothing writes them until the call returns:
    /// first wait for streams with queued work that does.
    pub unsafe fn seal(
        &mut self,
        parts: &[Part<'_>],
        sink: Sink<'_>,
        key: &InputKey,
        monitor: &Monitor,
    ) -> Result<u64> {
        // SAFETY: by this function's contract.
        unsafe { self.0.seal(parts, sink, key, monitor) }
    }
}

/// A ring on any kind of GPU.
pub(crate) struct Lanes<G: Gpu> {
    gpu: G,
    concurrency: Concurrency,
    /// Two for each worker.
    pairs: Pairs<G::Lane>,
}

impl<G: Gpu> Lanes<G> {
    pub(crate) fn new(gpu: G, concurrency: Concurrency) -> Self {
        Lanes {
            gpu,
            concurrency,
            pairs: Pairs::new(concurrency.workers.get()),
        }
    }

    /// # Safety
    /// As [`Ring::open`].
    pub(crate) unsafe fn open(
        &mut self,
        mut source: Source<'_>,
        key: &InputKey,
        range: impl RangeBounds<u64>,
        to: Region,
        monitor: &Monitor,
    ) -> Result<u64> {
        let cipher = Cipher::for_stream(key, &mut source)?;
        let (clip, chunks, ends_stream) = wanted(&source, &range, to.len() as u64)?;
        let len = clip.end - clip.start;
        if to.len() as u64 != len {
            return Err(Error::RegionLength {
                expected: len,
                found: to.len() as u64,
            });
        }
        let count = chunks.end - chunks.start;
        if count == 0 {
            return Ok(0);
        }
        let segment_chunks = self.segment_chunks(count);
        let device_key = self.gpu.key(&cipher, self.calls())?;
        let words = usize::try_from(count + 1).map_err(|_| Error::TooLong)?;
        let verdicts = self.gpu.zeroed(4 * words)?;
        let positioned = source.remaining().is_some();
        let load: Load<'_, G> = Load {
            feed: Feed::new(
                source,
                SEALED_CHUNK_LEN as u64,
                positioned.then(|| (chunks.clone(), ends_stream)),
                segment_chunks,
            ),
            key: &device_key,
            base: cipher.base_nonce(),
            clip,
            to,
            verdicts: &verdicts,
            segment_len: segment_chunks * SEALED_CHUNK_LEN,
            monitor,
            outcome: Outcome::default(),
            chunks: chunks.clone(),
            positioned,
        };
        let workers = count.div_ceil(segment_chunks as u64);
        self.run(workers, &load.outcome, |lanes| {
            // SAFETY: by this function's contract; every worker waits for its lanes.
            unsafe { load.work(lanes) }
        });
        let result = load.finish(ends_stream.then(|| chunks.end - 1));
        if result.is_err() && !to.is_empty() {
            // SAFETY: by this function's contract; all lanes are synchronized.
            unsafe { self.gpu.wipe(to)? };
        }
        result.map(|()| len)
    }

    /// # Safety
    /// As [`Ring::seal`].
    pub(crate) unsafe fn seal(
        &mut self,
        parts: &[Part<'_>],
        mut sink: Sink<'_>,
        key: &InputKey,
        monitor: &Monitor,
    ) -> Result<u64> {
        let mut plain_len = 0;
        let ends = (parts.iter())
            .map(|part| {
                plain_len += part.len() as u64;
                plain_len
            })
            .collect();
        let len = sealed_len(plain_len).ok_or(Error::TooLong)?;
        sink.reserve(len).map_err(Error::Write)?;
        let cipher = Cipher::fresh(key)?;
        std::io::Write::write_all(&mut sink, cipher.header().as_bytes()).map_err(Error::Write)?;
        let count = chunk_count(plain_len);
        let segment_chunks = self.segment_chunks(count) as u64;
        let device_key = self.gpu.key(&cipher, self.calls())?;
        let save: Save<'_, G> = Save {
            parts,
            ends,
            drain: Drain::new(sink),
            key: &device_key,
            base: cipher.base_nonce(),
            segment_chunks,
            next: AtomicU64::new(0),
            monitor,
            outcome: Outcome::default(),
        };
        self.run(count.div_ceil(segment_chunks), &save.outcome, |lanes| {
            // SAFETY: by this function's contract; every worker waits for its lanes.
            unsafe { save.work(lanes) }
        });
        let Save { outcome, drain, .. } = save;
        outcome.result()?;
        drain.finish()?;
        Ok(len)
    }

    /// Runs `work` on as many threads, each with its lanes.
    fn run(&mut self, workers: u64, outcome: &Outcome, work: impl Fn(&mut [G::Lane; 2]) + Sync) {
        let workers = usize::try_from(workers).unwrap_or(usize::MAX);
        let len = self.concurrency.segment_chunks.get() * SEALED_CHUNK_LEN;
        let make = || self.gpu.lane(len);
        self.pairs.run(workers, make, |lanes| match lanes {
            Ok(lanes) => work(lanes),
            Err(error) => outcome.stop(u64::MAX, error),
        });
    }

    /// Chunks in a segment, if `count` are to be shared by all workers.
    fn segment_chunks(&self, count: u64) -> usize {
        // Fewer cost more in calls than the others' help is worth.
        const LEAST: u64 = 64;
        let most = self.concurrency.segment_chunks.get();
        let share = count.div_ceil(2 * self.concurrency.workers.get() as u64);
        usize::try_from(share.max(LEAST)).map_or(most, |share| share.min(most))
    }

    /// The most calls under way at the same time.
    fn calls(&self) -> usize {
        4 * self.concurrency.workers.get()
    }
}

/// The bytes of the plaintext that are wanted, their chunks, and whether the last of those is the
/// stream's; `found` bytes are there for them. The header was read.
fn wanted(
    source: &Source<'_>,
    range: &impl RangeBounds<u64>,
    found: u64,
) -> Result<(Range<u64>, Range<u64>, bool)> {
    let from = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(&end) => Some(end.saturating_add(1)),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => None,
    };
    let Kind::Positioned { start, end, .. } = &source.0 else {
        return match (from, to) {
            (0, None) => Ok((0..found, 0..chunk_count(found), true)),
            _ => Err(Error::NotSeekable),
        };
    };
    let len = opened_body_len(end - start)?;
    let to = to.unwrap_or(len);
    if from > to || to > len {
        let range = from..to.max(from);
        return Err(Error::OutOfRange { range, len });
    }
    let first = from / CHUNK_LEN as u64;
    let count = chunk_count(len);
    let end = match to == len {
        true => count,
        false => to.div_ceil(CHUNK_LEN as u64).max(first),
    };
    let chunks = match from == to && to < len {
        true => first..first,
        false => first..end,
    };
    Ok((from..to, chunks, end == count))
}
