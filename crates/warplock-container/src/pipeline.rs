//! The pipeline's settings: its engine, its number of workers, and the way to watch and stop it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warplock::Engine;

use crate::error::Result;

/// The number of threads, and how much each handles at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Threads; each reads, seals or opens, and writes its own segments.
    pub workers: NonZeroUsize,
    /// Chunks in a segment, which a worker handles at a time. A worker has two buffers of this
    /// size.
    pub segment_chunks: NonZeroUsize,
}

impl Concurrency {
    /// Memory for the buffers of all workers, in bytes.
    pub fn memory(&self) -> usize {
        let segment = self.segment_chunks.get() * crate::SEALED_CHUNK_LEN;
        2 * segment * self.workers.get()
    }
}

impl Default for Concurrency {
    /// A worker for each core that this process may use, at most 32; segments of 256 KiB.
    fn default() -> Self {
        // The kernel lets one thread at a time write to a file: more workers only wait.
        const MOST: usize = 32;
        let cores = std::thread::available_parallelism()
            .map_or(1, NonZeroUsize::get)
            .min(MOST);
        Concurrency {
            workers: NonZeroUsize::new(cores).unwrap_or(NonZeroUsize::MIN),
            segment_chunks: const { NonZeroUsize::new(16).unwrap() },
        }
    }
}

/// Watches a run from another thread, and stops it.
#[derive(Debug, Default)]
pub struct Monitor {
    done: AtomicU64,
    cancelled: AtomicBool,
}

impl Monitor {
    /// Bytes of input that are finished, over all runs of the [`Pipeline`].
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Stops the run soon with [`crate::Error::Cancelled`], and every later one at its start. May
    /// be called in a signal handler.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`Monitor::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Runs [`crate::seal`] and [`crate::open`] on several threads. Make one and keep it.
pub struct Pipeline {
    engine: Arc<Engine>,
    concurrency: Concurrency,
    monitor: Arc<Monitor>,
}

impl Pipeline {
    /// A pipeline with default settings.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the engine cannot be built here.
    pub fn new() -> Result<Self> {
        // The workers are the threads.
        let engine = Engine::builder().threads(NonZeroUsize::MIN).build()?;
        Ok(Pipeline::with_engine(Arc::new(engine)))
    }

    /// A pipeline whose workers all use `engine`; on the CPU it should be built with one thread,
    /// as each worker runs its batches on itself.
    pub fn with_engine(engine: Arc<Engine>) -> Self {
        Pipeline {
            engine,
            concurrency: Concurrency::default(),
            monitor: Arc::default(),
        }
    }

    /// Replaces the default number of workers and size of segments.
    pub fn with_concurrency(mut self, concurrency: Concurrency) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// The number of workers and the size of segments.
    pub fn concurrency(&self) -> Concurrency {
        self.concurrency
    }

    /// The way to watch and stop what this pipeline does.
    pub fn monitor(&self) -> &Arc<Monitor> {
        &self.monitor
    }

    /// The engine of all its workers; a clone of it serves a [`crate::Reader`], a
    /// [`crate::Writer`] or a vault, too.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}
