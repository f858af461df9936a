//! From a stream to GPU memory: each worker reads ciphertext into pinned memory and queues its copy
//! to the device and its opening there, in two lanes in turn: while one is busy, it reads for the
//! other. A refused chunk becomes zeros on the device, and is found in the verdicts when all is done.

use std::ops::Range;

use warplock::Direction;
use warplock::cuda::Region;

use super::device::{Chunks, Gpu, Lane, Memory};
use super::pieces::{Piece, pieces};
use crate::error::{Error, Result};
use crate::feed::{Feed, Segment};
use crate::layout::{CHUNK_LEN, SEALED_CHUNK_LEN};
use crate::outcome::Outcome;
use crate::pipeline::Monitor;

pub(crate) struct Load<'a, G: Gpu> {
    pub(crate) feed: Feed<'a>,
    pub(crate) key: &'a G::Key,
    /// The nonce of chunk 0.
    pub(crate) base: &'a [u8],
    /// The bytes of the plaintext that are wanted, as many as the place has.
    pub(crate) clip: Range<u64>,
    pub(crate) to: Region,
    /// The chunks to open; verdicts are counted from the first.
    pub(crate) chunks: Range<u64>,
    /// Whether the length of the input was known.
    pub(crate) positioned: bool,
    /// 32-bit numbers: how many chunks were refused, then for each whether it was.
    pub(crate) verdicts: &'a G::Memory,
    pub(crate) segment_len: usize,
    pub(crate) monitor: &'a Monitor,
    pub(crate) outcome: Outcome,
}

impl<G: Gpu> Load<'_, G> {
    /// # Safety
    /// Nothing else uses the place until all lanes are synchronized.
    pub(crate) unsafe fn work(&self, lanes: &mut [G::Lane; 2]) {
        let mut turn = 0;
        while !self.outcome.is_stopped() {
            if self.monitor.is_cancelled() {
                self.outcome.stop(u64::MAX, Error::Cancelled);
                break;
            }
            let lane = &mut lanes[turn];
            turn ^= 1;
            // SAFETY: by this function's contract.
            match unsafe { self.step(lane) } {
                Ok(true) => {}
                Ok(false) => break,
                Err((index, error)) => self.outcome.stop(index, error),
            }
        }
        for lane in lanes {
            // All lanes, so that nothing is under way when the run has ended.
            let wiped = lane.wipe();
            if let Err(error) = wiped.and(lane.finish()) {
                self.outcome.stop(u64::MAX, error);
            }
        }
    }

    /// # Safety
    /// As [`Load::work`].
    unsafe fn step(&self, lane: &mut G::Lane) -> std::result::Result<bool, (u64, Error)> {
        let buffer = lane.ready().map_err(|error| (u64::MAX, error))?;
        let buffer = &mut buffer[..self.segment_len];
        let claimed = self.feed.claim(buffer, || self.monitor.is_cancelled())?;
        let Some(segment) = claimed else {
            return Ok(false);
        };
        // SAFETY: by this function's contract.
        unsafe { self.open(lane, &segment) }.map_err(|error| (segment.index, error))?;
        self.monitor.add(segment.len as u64);
        Ok(true)
    }

    /// # Safety
    /// As [`Load::work`].
    unsafe fn open(&self, lane: &mut G::Lane, segment: &Segment) -> Result<()> {
        let chunk = segment.first + (segment.len / SEALED_CHUNK_LEN) as u64;
        let Some(pieces) = pieces(segment, &self.clip) else {
            return Err(match segment.len % SEALED_CHUNK_LEN {
                0 => Error::LastChunkMissing { chunk },
                _ => Error::LastChunk { chunk },
            });
        };
        self.check_place(segment, &pieces)?;
        let sealed = lane.sealed().part(0, segment.len);
        // SAFETY: the buffer is the lane's.
        unsafe { lane.upload(0..segment.len, sealed)? };
        for piece in &pieces {
            // SAFETY: by this function's contract.
            unsafe { self.open_piece(lane, piece)? };
        }
        Ok(())
    }

    /// The length of an input that is read from front to back is known only now.
    fn check_place(&self, segment: &Segment, pieces: &[Piece]) -> Result<()> {
        let (false, Some(piece)) = (self.positioned, pieces.last()) else {
            return Ok(());
        };
        let end = piece.first * CHUNK_LEN as u64 + piece.plain_len() as u64;
        // A full buffer is never the end, and an empty last chunk follows it.
        let is_long = end > self.clip.end;
        if is_long || segment.last && end < self.clip.end {
            let found = self.to.len() as u64;
            let expected = end;
            return Err(Error::RegionLength { expected, found });
        }
        Ok(())
    }

    /// # Safety
    /// As [`Load::work`].
    unsafe fn open_piece(&self, lane: &mut G::Lane, piece: &Piece) -> Result<()> {
        let wanted = (piece.wanted.end - piece.wanted.start) as usize;
        let direct = wanted > 0 && piece.is_wanted();
        let place = || {
            let offset = (piece.wanted.start - self.clip.start) as usize;
            self.to.part(offset, wanted)
        };
        let output = match direct {
            true => place(),
            false => lane.plain(CHUNK_LEN)?.part(0, piece.plain_len()),
        };
        let index = (piece.first - self.chunks.start) as usize;
        let words = self.verdicts.region();
        let chunks = Chunks {
            direction: Direction::Decrypt,
            first: piece.first,
            count: piece.count,
            len: piece.len,
            base: self.base,
            input: lane.sealed().part(piece.offset, piece.sealed_len()),
            output,
            verdicts: Some((
                words.part(4 * (1 + index), 4 * piece.count),
                words.part(0, 4),
            )),
        };
        // SAFETY: no other segment writes this part of the output or these verdicts, and all add to
        // the count atomically; the buffers are the lane's.
        unsafe { lane.run(self.key, &chunks)? };
        if wanted > 0 && !direct {
            let start = piece.first * CHUNK_LEN as u64;
            let from = output.part((piece.wanted.start - start) as usize, wanted);
            // SAFETY: as above.
            unsafe { lane.copy(place(), from)? };
        }
        Ok(())
    }

    /// The run's error, or that of the first chunk that was refused. All lanes are synchronized.
    pub(crate) fn finish(self, last: Option<u64>) -> Result<()> {
        self.outcome.result()?;
        let mut refused = [0; 4];
        self.verdicts.read(0, &mut refused)?;
        if refused == [0; 4] {
            return Ok(());
        }
        let count = (self.chunks.end - self.chunks.start) as usize;
        let mut each = vec![0; 4 * count];
        self.verdicts.read(4, &mut each)?;
        let first = each
            .as_chunks::<4>()
            .0
            .iter()
            .position(|word| *word != [0; 4]);
        let chunk = self.chunks.start + first.unwrap_or(0) as u64;
        Err(match last {
            Some(last) if last == chunk => Error::LastChunk { chunk },
            _ => Error::Chunk { chunk },
        })
    }
}
