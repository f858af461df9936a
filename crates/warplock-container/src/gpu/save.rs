//! From GPU memory to a stream: each worker gathers a segment's plaintext on the device, queues its
//! sealing there and the ciphertext's copy to pinned memory, in two lanes in turn, and writes the
//! older one's ciphertext meanwhile.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use warplock::Direction;
use warplock::cuda::Region;

use super::Part;
use super::device::{Chunks, Gpu, Lane};
use crate::drain::Drain;
use crate::error::{Error, Result};
use crate::layout::{CHUNK_LEN, SEALED_CHUNK_LEN, TAG_LEN, chunk_count};
use crate::outcome::Outcome;
use crate::pipeline::Monitor;

pub(crate) struct Save<'a, G: Gpu> {
    pub(crate) parts: &'a [Part<'a>],
    /// Where each part ends in the plaintext.
    pub(crate) ends: Vec<u64>,
    pub(crate) drain: Drain<'a>,
    pub(crate) key: &'a G::Key,
    /// The nonce of chunk 0.
    pub(crate) base: &'a [u8],
    pub(crate) segment_chunks: u64,
    pub(crate) next: AtomicU64,
    pub(crate) monitor: &'a Monitor,
    pub(crate) outcome: Outcome,
}

/// Bytes that are written at a time.
const PIECE: usize = 256 << 10;

/// A segment whose ciphertext is on its way to a lane's pinned buffer.
struct Pending {
    index: u64,
    len: usize,
}

impl<G: Gpu> Save<'_, G> {
    pub(crate) fn plain_len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// # Safety
    /// Nothing writes the parts until all lanes are synchronized.
    pub(crate) unsafe fn work(&self, lanes: &mut [G::Lane; 2]) {
        let unwinding = AbandonOnPanic(&self.drain, &self.outcome);
        let mut pending = [None, None];
        let mut turn = 0;
        loop {
            let written = self.write(&mut lanes[turn], pending[turn].take());
            if let Err((index, error)) = written {
                self.stop(index, error);
            }
            if self.monitor.is_cancelled() {
                self.stop(0, Error::Cancelled);
            }
            let index = match self.outcome.is_stopped() {
                true => u64::MAX,
                false => self.next.fetch_add(1, Ordering::Relaxed),
            };
            let chunks = self.chunks(index);
            if chunks.is_empty() {
                break;
            }
            // SAFETY: by this function's contract.
            match unsafe { self.seal(&mut lanes[turn], chunks) } {
                Ok(len) => pending[turn] = Some(Pending { index, len }),
                Err(error) => self.stop(index, error),
            }
            turn ^= 1;
        }
        // The older one first: others may wait for its turn.
        for turn in [turn ^ 1, turn] {
            if let Err((index, error)) = self.write(&mut lanes[turn], pending[turn].take()) {
                self.stop(index, error);
            }
            let wiped = lanes[turn].wipe();
            if let Err(error) = wiped.and(lanes[turn].finish()) {
                self.stop(u64::MAX, error);
            }
        }
        std::mem::forget(unwinding);
    }

    fn stop(&self, index: u64, error: Error) {
        self.outcome.stop(index, error);
        self.drain.abandon(index);
    }

    fn chunks(&self, index: u64) -> Range<u64> {
        let count = chunk_count(self.plain_len());
        let start = index.saturating_mul(self.segment_chunks).min(count);
        start..(start + self.segment_chunks).min(count)
    }

    /// Waits for a lane and writes what it has.
    fn write(
        &self,
        lane: &mut G::Lane,
        pending: Option<Pending>,
    ) -> std::result::Result<(), (u64, Error)> {
        let Some(Pending { index, len }) = pending else {
            return Ok(());
        };
        let mut put = || -> Result<()> {
            let sealed = &lane.ready()?[..len];
            let offset = index * self.segment_chunks * SEALED_CHUNK_LEN as u64;
            // In pieces, as the memory of a RAM disk is allocated in stretches.
            let most = match self.drain {
                Drain::Sequential { .. } => len,
                _ => PIECE,
            };
            for (number, piece) in sealed.chunks(most.max(1)).enumerate() {
                let offset = offset + (number * most) as u64;
                if let Some(place) = self.drain.memory(offset, piece.len()) {
                    let from = NonNull::from(piece).cast();
                    // SAFETY: there is room for the bytes, and no other segment has this place.
                    unsafe { place.copy_from_nonoverlapping(from, piece.len()) };
                    self.drain.filled(offset, piece.len());
                } else {
                    let cancelled = || self.monitor.is_cancelled();
                    self.drain.put(index, offset, piece, cancelled)?;
                }
            }
            self.monitor.add(len as u64);
            Ok(())
        };
        put().map_err(|error| (index, error))
    }

    /// Queues everything for a segment; returns the bytes of its ciphertext.
    ///
    /// # Safety
    /// As [`Save::work`].
    unsafe fn seal(&self, lane: &mut G::Lane, segment: Range<u64>) -> Result<usize> {
        let start = segment.start * CHUNK_LEN as u64;
        let end = (segment.end * CHUNK_LEN as u64).min(self.plain_len());
        let len = (end - start) as usize;
        let plain = lane.plain(self.segment_chunks as usize * CHUNK_LEN)?;
        // SAFETY: by this function's contract.
        unsafe { self.gather(lane, start..end, plain)? };

        let (whole, tail) = (len / CHUNK_LEN, len % CHUNK_LEN);
        let is_last = segment.end == chunk_count(self.plain_len());
        let mut sealed_len = 0;
        let last = is_last.then_some((1, tail));
        for (count, len) in [(whole, CHUNK_LEN)].into_iter().chain(last) {
            if count == 0 {
                continue;
            }
            let chunk = sealed_len / SEALED_CHUNK_LEN;
            let chunks = Chunks {
                direction: Direction::Encrypt,
                first: segment.start + chunk as u64,
                count,
                len,
                base: self.base,
                input: plain.part(chunk * CHUNK_LEN, count * len),
                output: lane.sealed().part(sealed_len, count * (len + TAG_LEN)),
                verdicts: None,
            };
            // SAFETY: the buffers are the lane's.
            unsafe { lane.run(self.key, &chunks)? };
            sealed_len += count * (len + TAG_LEN);
        }
        // SAFETY: as above.
        unsafe { lane.download(lane.sealed().part(0, sealed_len))? };
        Ok(sealed_len)
    }

    /// Queues copies of the bytes `range` of the plaintext to the start of `plain`.
    ///
    /// # Safety
    /// As [`Save::work`].
    unsafe fn gather(&self, lane: &mut G::Lane, range: Range<u64>, plain: Region) -> Result<()> {
        let mut part = self.ends.partition_point(|end| *end <= range.start);
        let mut at = range.start;
        while at < range.end {
            let stop = self.ends[part].min(range.end);
            let (offset, len) = ((at - range.start) as usize, (stop - at) as usize);
            let to = plain.part(offset, len);
            let from = at - (self.ends[part] - self.parts[part].len() as u64);
            match self.parts[part] {
                Part::Gpu(region) => {
                    // SAFETY: by this function's contract; the target is the lane's.
                    unsafe { lane.copy(to, region.part(from as usize, len))? };
                }
                Part::Host(bytes) => {
                    let pinned = lane.ready()?;
                    pinned[offset..][..len].copy_from_slice(&bytes[from as usize..][..len]);
                    // SAFETY: both are the lane's.
                    unsafe { lane.upload(offset..offset + len, to)? };
                }
            }
            at = stop;
            part += 1;
        }
        Ok(())
    }
}

/// Frees the other workers if this one panics; without it they would wait for its turn for ever.
struct AbandonOnPanic<'s, 'd>(&'s Drain<'d>, &'s Outcome);

impl Drop for AbandonOnPanic<'_, '_> {
    fn drop(&mut self) {
        self.1.halt();
        self.0.abandon(0);
    }
}
