//! The engine: owns the backends and runs batches on them.

use std::num::NonZeroUsize;

use crate::backend::{Backend, Choice};
use crate::cpu::{CpuBackend, InstructionSet};
use crate::cuda::CudaBackend;
use crate::{Batch, Error, Job};

/// The environment variable that names the backend where the program does not.
pub const BACKEND_VARIABLE: &str = "WARPLOCK_BACKEND";

/// Owns the backends and runs batches on them. Cheap to share between threads; make one and keep
/// it.
pub struct Engine {
    cpu: CpuBackend,
    /// Where batches run, if not on the processor.
    gpu: Option<CudaBackend>,
}

/// Settings of an engine before it is built.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builder {
    choice: Option<Choice>,
    threads: Option<NonZeroUsize>,
}

impl Builder {
    /// Which backend to use; without this call, what `WARPLOCK_BACKEND` says, or `auto`.
    pub fn backend(mut self, choice: Choice) -> Self {
        self.choice = Some(choice);
        self
    }

    /// How many CPU threads work on one batch; without this call, one for each core that this
    /// process may use. With one thread a batch runs on the thread that calls.
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Builds the engine.
    ///
    /// # Errors
    /// [`Error::NoBackend`] if the chosen backend cannot run on this machine.
    pub fn build(self) -> Result<Engine, Error> {
        let choice = match self.choice {
            Some(choice) => choice,
            None => match std::env::var(BACKEND_VARIABLE) {
                Ok(name) if !name.is_empty() => name.parse()?,
                _ => Choice::Auto,
            },
        };
        let set = match choice {
            Choice::Cpu(Some(set)) => set,
            Choice::Auto | Choice::Cpu(None) | Choice::Cuda(_) => InstructionSet::best(),
        };
        let threads = self.threads.unwrap_or_else(default_threads);
        let gpu = match choice {
            Choice::Cuda(number) => Some(CudaBackend::new(number, threads)?),
            Choice::Auto | Choice::Cpu(_) => None,
        };
        Ok(Engine {
            cpu: CpuBackend::new(set, threads)?,
            gpu,
        })
    }
}

/// One thread for each core that this process may use.
fn default_threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

impl Engine {
    /// An engine with default settings; see [`Builder`].
    ///
    /// # Errors
    /// [`Error::NoBackend`] if `WARPLOCK_BACKEND` names a backend that cannot run here.
    pub fn new() -> Result<Self, Error> {
        Builder::default().build()
    }

    /// An engine with settings of one's own.
    ///
    /// ```
    /// let engine = warplock::Engine::builder().backend("cpu:portable".parse()?).build()?;
    /// assert_eq!(engine.backend(), "cpu:portable");
    /// # Ok::<(), warplock::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The name of the backend in use, such as `cpu:aesni`.
    pub fn backend(&self) -> String {
        self.batches().name()
    }

    /// The backend that runs batches.
    fn batches(&self) -> &dyn Backend {
        match &self.gpu {
            Some(gpu) => gpu,
            None => &self.cpu,
        }
    }

    /// The processor's backend, which also runs [`crate::Stream`]s.
    pub(crate) fn cpu(&self) -> &CpuBackend {
        &self.cpu
    }

    /// Runs a batch and waits for it.
    ///
    /// # Errors
    /// [`Error::Authentication`] if messages of an opened batch did not verify: their output is
    /// zeros, the others' is good. [`Error::Backend`] if the machine failed. [`Error::NoBackend`]
    /// if the chosen backend does not have the algorithm. Any other error was
    /// found before anything was written.
    pub fn run(&self, batch: Batch<'_>) -> Result<(), Error> {
        let job = Job::new(batch)?;
        let total = job.count();
        // An absurd count of empty messages is no work, and must not take for ever.
        if job.text_bytes() == 0 && !job.info().algorithm.is_aead() {
            return Ok(());
        }
        let backend = self.batches();
        supported(backend, &job)?;
        // SAFETY: the job's borrows live to the end of this function, which waits for the ticket.
        let failed = unsafe { backend.submit(&job) }?.wait()?;
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Error::Authentication { failed, total })
        }
    }
}

/// Refuses a job that the backend cannot run.
fn supported(backend: &dyn Backend, job: &Job<'_>) -> Result<(), Error> {
    if backend.supports(job) {
        return Ok(());
    }
    Err(Error::NoBackend {
        name: backend.name(),
        reason: format!("{} does not run there; take cpu", job.info().name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Ticket;
    use crate::{Algorithm, Ivs, Key, Keys, Mode, Text};
    use std::time::Duration;

    /// A backend without ACORN.
    struct Without;

    impl Backend for Without {
        fn name(&self) -> String {
            "without".to_owned()
        }
        fn supports(&self, job: &Job<'_>) -> bool {
            job.info().mode != Mode::Acorn
        }
        fn estimate(&self, _: &Job<'_>) -> Duration {
            Duration::ZERO
        }
        unsafe fn submit(&self, _: &Job<'_>) -> Result<Ticket, Error> {
            Ok(Ticket::done(Vec::new()))
        }
    }

    #[test]
    fn what_a_backend_does_not_have_is_refused_by_name() {
        let key = Key::new(Algorithm::Acorn128, &[0; 16]).unwrap();
        let mut buffer = [0; 32];
        let text = Text::InPlace {
            buffer: &mut buffer,
            spans: crate::Spans::one(16),
        };
        let batch = Batch::seal(Keys::One(&key), text).ivs(Ivs::Each(&[0; 16]));
        let job = Job::new(batch).unwrap();
        let refused = supported(&Without, &job).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "backend 'without' cannot be used: acorn-128 does not run there; take cpu"
        );
    }
}
