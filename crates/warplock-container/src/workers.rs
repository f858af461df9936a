//! The workers of a pipeline: each claims a segment, reads it, seals or opens it, and writes it.
//!
//! A segment is a run of chunks. Segments are claimed in ascending order: of a positioned input
//! by counting up a number, of a sequential one by reading under a lock. Output goes to its
//! place (positioned) or waits for its turn (sequential). So one design serves files and pipes,
//! and memory is two buffers a worker, whatever the input's length (on a RAM disk, with a few huge
//! pages of the output).
//!
//! Files are read and written with `pread` and `pwrite` of whole segments. Measured on tmpfs, one
//! core: `pread` 6.3 GB/s, reading a mapping 6.5 GB/s (not worth the SIGBUS if the file is cut);
//! `pwrite` of new pages 2.3 GB/s, filling a mapping of small pages 0.6 GB/s (for one of huge pages
//! see `ram_file`). Segments of 128 KiB to 512 KiB made no difference. Input and output have a
//! buffer each, so that a refused chunk is still there to be diagnosed, and no scattered reads and
//! writes are needed around the tags.
//!
//! Errors: a worker that fails stops the others from claiming more, but segments already claimed
//! are finished. As every segment before a failed one was claimed before it, the error of the
//! lowest segment is found on every run.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use warplock::Direction;
use zeroize::Zeroize;

use crate::cipher::{Cipher, Run};
use crate::drain::Drain;
use crate::error::{Error, Result};
use crate::feed::{Feed, Segment};
use crate::layout::{CHUNK_LEN, SEALED_CHUNK_LEN, TAG_LEN};
use crate::outcome::Outcome;
use crate::pipeline::Pipeline;
use crate::sink::Sink;
use crate::source::Source;

/// What to do with the chunks of a source.
pub(crate) struct Task<'a> {
    pub(crate) direction: Direction,
    pub(crate) cipher: &'a Cipher,
    pub(crate) pipeline: &'a Pipeline,
    /// Only for a positioned source: which chunks, and whether the last of them is the stream's
    /// last; without it, all.
    pub(crate) chunks: Option<(Range<u64>, bool)>,
    /// Only these bytes of the whole output are written, the first of them first.
    pub(crate) clip: Range<u64>,
}

/// Runs `task` over all of `source`; returns how many bytes it wrote.
pub(crate) fn run(source: Source<'_>, sink: Sink<'_>, task: &Task<'_>) -> Result<u64> {
    let sizes = task.pipeline.concurrency();
    let (chunk_in, segment_chunks) = (task.chunk_in(), sizes.segment_chunks.get());
    let feed = Feed::new(source, chunk_in as u64, task.chunks.clone(), segment_chunks);
    let (workers, chunks_at_once) = match &feed {
        Feed::Positioned { chunks, .. } => {
            let count = chunks.end - chunks.start;
            let segments = usize::try_from(count.div_ceil(segment_chunks as u64));
            (
                segments.map_or(sizes.workers.get(), |segments| {
                    segments.min(sizes.workers.get())
                }),
                usize::try_from(count).map_or(segment_chunks, |count| count.min(segment_chunks)),
            )
        }
        Feed::Sequential { .. } => (sizes.workers.get(), segment_chunks),
    };
    let shared = Workers {
        task,
        feed,
        drain: Drain::new(sink),
        segment_len: chunks_at_once * chunk_in,
        output_len: chunks_at_once * task.chunk_out(),
        outcome: Outcome::default(),
        written: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            let worker = thread::Builder::new().spawn_scoped(scope, || shared.work());
            // Where no more threads may start, those that run do the work, this one with them.
            if worker.is_err() {
                break;
            }
        }
        shared.work();
    });
    shared.outcome.result()?;
    shared.drain.finish()?;
    Ok(shared.written.into_inner())
}

impl Task<'_> {
    /// Bytes of a whole chunk in the input.
    fn chunk_in(&self) -> usize {
        match self.direction {
            Direction::Encrypt => CHUNK_LEN,
            Direction::Decrypt => SEALED_CHUNK_LEN,
        }
    }

    /// Bytes of a whole chunk in the output.
    fn chunk_out(&self) -> usize {
        match self.direction {
            Direction::Encrypt => SEALED_CHUNK_LEN,
            Direction::Decrypt => CHUNK_LEN,
        }
    }

    /// Bytes that the output of a segment has.
    fn output_len(&self, segment: &Segment) -> usize {
        let chunks = segment.len / self.chunk_in() + usize::from(segment.last);
        match self.direction {
            Direction::Encrypt => segment.len + chunks * TAG_LEN,
            Direction::Decrypt => segment.len.saturating_sub(chunks * TAG_LEN),
        }
    }
}

struct Workers<'p> {
    task: &'p Task<'p>,
    feed: Feed<'p>,
    drain: Drain<'p>,
    /// Most bytes of input and of output in a segment.
    segment_len: usize,
    output_len: usize,
    outcome: Outcome,
    written: AtomicU64,
}

impl Workers<'_> {
    fn work(&self) {
        let unwinding = StopOnPanic(self);
        let mut input = Buffer::new(self.segment_len);
        let mut output = Buffer::new(self.output_len);
        let mut nonces = Vec::new();
        let monitor = self.task.pipeline.monitor();
        while !self.outcome.is_stopped() {
            if monitor.is_cancelled() {
                self.stop(u64::MAX, Error::Cancelled);
                break;
            }
            let claimed = self.feed.claim(input.bytes(), || monitor.is_cancelled());
            let segment = match claimed {
                Ok(Some(segment)) => segment,
                Ok(None) => break,
                Err((index, error)) => {
                    self.stop(index, error);
                    break;
                }
            };
            if let Err(error) = self.process(&segment, input.bytes(), output.bytes(), &mut nonces) {
                self.stop(segment.index, error);
            }
        }
        std::mem::forget(unwinding);
    }

    fn process(
        &self,
        segment: &Segment,
        input: &[u8],
        output: &mut [u8],
        nonces: &mut Vec<u8>,
    ) -> Result<()> {
        let Task {
            direction,
            cipher,
            pipeline,
            ..
        } = self.task;
        let run = Run {
            first: segment.first,
            last: segment.last,
            bytes: &input[..segment.len],
        };
        let start = segment.first * self.task.chunk_out() as u64;
        let expected = self.task.output_len(segment);
        let place = self.place(start, expected);
        let output = match place {
            // SAFETY: a segment is claimed by one worker only and segments do not overlap, so no
            // other worker has this part of the memory.
            Some(memory) => unsafe { std::slice::from_raw_parts_mut(memory.as_ptr(), expected) },
            None => output,
        };
        let len = match direction {
            Direction::Encrypt => cipher.seal(pipeline.engine(), nonces, run, output)?,
            Direction::Decrypt => match cipher.open(pipeline.engine(), nonces, run, output) {
                Ok(len) => len,
                Err(error) => {
                    self.put_verified(segment, run, &error, output, nonces)?;
                    return Err(error);
                }
            },
        };
        // The requested part of the output, and its place.
        let clip = &self.task.clip;
        let from = clip.start.clamp(start, start + len as u64);
        let to = clip.end.clamp(from, start + len as u64);
        let wanted = &output[(from - start) as usize..(to - start) as usize];
        let offset = from - clip.start.min(from);
        let cancelled = || pipeline.monitor().is_cancelled();
        if place.is_some() {
            self.drain.filled(offset, wanted.len());
        } else if !self.drain.put(segment.index, offset, wanted, cancelled)? {
            return Ok(());
        }
        self.written
            .fetch_add(wanted.len() as u64, Ordering::Relaxed);
        pipeline.monitor().add(segment.len as u64);
        Ok(())
    }

    /// Gives out what verified of a segment that `error` is about, where output is given out front to
    /// back anyway: all before the chunk at fault, and if zeros follow the end, as on a device that is
    /// longer than the stream, all up to the end.
    fn put_verified(
        &self,
        segment: &Segment,
        run: Run<'_>,
        error: &Error,
        output: &mut [u8],
        nonces: &mut Vec<u8>,
    ) -> Result<()> {
        let (Some(chunk), true) = (error.chunk(), self.drain.is_sequential()) else {
            return Ok(());
        };
        let (cipher, engine) = (self.task.cipher, self.task.pipeline.engine());
        let whole = (chunk - run.first) as usize;
        let (before, rest) = run.bytes.split_at(whole * SEALED_CHUNK_LEN);
        let verified = Run {
            last: false,
            bytes: before,
            ..run
        };
        let mut len = cipher.open(engine, nonces, verified, output)?;
        if let Error::TrailingData { content, .. } = error {
            let last = (content - chunk * CHUNK_LEN as u64) as usize;
            let (bytes, padding) = rest.split_at(last + TAG_LEN);
            if padding.iter().all(|&byte| byte == 0) {
                let end = Run {
                    first: chunk,
                    last: true,
                    bytes,
                };
                len += cipher.open(engine, nonces, end, &mut output[len..])?;
            }
        }
        let start = segment.first * CHUNK_LEN as u64;
        let clip = &self.task.clip;
        let from = clip.start.clamp(start, start + len as u64);
        let to = clip.end.clamp(from, start + len as u64);
        let wanted = &output[(from - start) as usize..(to - start) as usize];
        let cancelled = || self.task.pipeline.monitor().is_cancelled();
        self.drain.put_final(segment.index, wanted, cancelled)
    }

    /// Where in memory the output of a segment, `len` bytes from `start` on, belongs; `None` if it
    /// must be written there, or only a part of it is asked for.
    fn place(&self, start: u64, len: usize) -> Option<NonNull<u8>> {
        let clip = &self.task.clip;
        let is_whole = clip.start <= start && start + len as u64 <= clip.end;
        is_whole
            .then(|| self.drain.memory(start - clip.start, len))
            .flatten()
    }

    /// Records an error about the segment `place`, and stops further claims.
    fn stop(&self, place: u64, error: Error) {
        self.outcome.stop(place, error);
        self.drain.abandon(place);
    }

    fn halt(&self) {
        self.outcome.halt();
        self.drain.abandon(0);
    }
}

/// Frees the other workers if this one panics; without it they would wait for its turn for ever.
struct StopOnPanic<'s, 'p>(&'s Workers<'p>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        self.0.halt();
    }
}

/// A worker's reused memory, at the start of a page; wiped at the end, as it held plaintext.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Self {
        const PAGE: usize = 4096;
        let memory = vec![0; len + PAGE];
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
        Buffer { memory, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.bytes().zeroize();
    }
}

/// A panic elsewhere is passed on by the scope; the state it leaves here is still valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
