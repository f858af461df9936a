//! What runs a pipeline: the engine, the number of workers, and the way to watch and stop it.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warplock::Engine;

use crate::error::Result;

/// How work is cut and spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Threads; each reads, seals or opens, and writes its own segments.
    pub workers: NonZeroUsize,
    /// Chunks in a segment, what a worker handles at once. It has two buffers of this size.
    pub segment_chunks: NonZeroUsize,
}

impl Sizes {
    /// Memory for the buffers of all workers, in bytes.
    pub fn memory(&self) -> usize {
        let segment = self.segment_chunks.get() * crate::SEALED_CHUNK_LEN;
        2 * segment * self.workers.get()
    }
}

impl Default for Sizes {
    /// A worker for each core that this process may use, at most 32; segments of 256 KiB.
    fn default() -> Self {
        // The kernel lets one thread at a time write to a file: more workers only wait.
        const MOST: usize = 32;
        let cores = std::thread::available_parallelism()
            .map_or(1, NonZeroUsize::get)
            .min(MOST);
        Sizes {
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
    /// Bytes of input that are finished, over all runs of the [`Runner`].
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

/// What runs [`crate::seal`] and [`crate::open`]. Make one and keep it.
pub struct Runner {
    engine: Engine,
    sizes: Sizes,
    monitor: Arc<Monitor>,
}

impl Runner {
    /// A runner with default settings.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the engine cannot be built here.
    pub fn new() -> Result<Self> {
        // The workers are the threads.
        Ok(Runner::with_engine(
            Engine::builder().threads(NonZeroUsize::MIN).build()?,
        ))
    }

    /// A runner whose workers all use `engine`; on the CPU it should be built with one thread,
    /// as each worker runs its batches on itself.
    pub fn with_engine(engine: Engine) -> Self {
        Runner {
            engine,
            sizes: Sizes::default(),
            monitor: Arc::default(),
        }
    }

    /// Takes other sizes than the default.
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// How work is cut and spread.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The way to watch and stop what this runner does.
    pub fn monitor(&self) -> &Arc<Monitor> {
        &self.monitor
    }

    /// The engine of all its workers.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}
