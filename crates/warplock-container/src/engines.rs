//! For bindings to other languages, made once: an engine for batches, and one for files.

use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use warplock::{Builder, Engine, Error};

use crate::Pipeline;

/// An engine for batches, and one for pipelines, whose workers are the threads.
pub struct Engines {
    engine: Arc<Engine>,
    pipeline: OnceLock<Arc<Engine>>,
    builder: Builder,
    threads: Option<NonZeroUsize>,
}

impl Engines {
    /// `backend`: a name as the command line's `--backend` takes it; `None` for what the environment
    /// variable `WARPLOCK_BACKEND` says, or `auto`.
    /// `threads`: CPU threads for a batch or a file; `None` for one per core.
    ///
    /// # Errors
    /// As from [`Builder::build`], and if there is no backend of this name.
    pub fn new(backend: Option<&str>, threads: Option<NonZeroUsize>) -> Result<Self, Error> {
        let mut builder = Engine::builder();
        if let Some(name) = backend {
            builder = builder.backend(name.parse()?);
        }
        let engine = match threads {
            Some(threads) => builder.threads(threads).build()?,
            None => builder.build()?,
        };
        Ok(Engines {
            engine: Arc::new(engine),
            pipeline: OnceLock::new(),
            builder,
            threads,
        })
    }

    /// For batches.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// For one file.
    ///
    /// # Errors
    /// As from [`Builder::build`].
    pub fn pipeline(&self) -> Result<Pipeline, Error> {
        let engine = match self.pipeline.get() {
            Some(engine) => engine,
            None => {
                let made = self.builder.threads(NonZeroUsize::MIN).build()?;
                self.pipeline.get_or_init(|| Arc::new(made))
            }
        };
        let pipeline = Pipeline::with_engine(engine.clone());
        let mut concurrency = pipeline.concurrency();
        concurrency.workers = self.threads.unwrap_or(concurrency.workers);
        Ok(pipeline.with_concurrency(concurrency))
    }
}
