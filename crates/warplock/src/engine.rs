//! The engine: owns the backends and runs batches on them.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::auto::{Demanded, Planner};
use crate::backend::BackendChoice;
use crate::cpu::{CpuBackend, InstructionSet};
use crate::cuda;
use crate::job::Job;
use crate::single::Single;
use crate::{Algorithm, AlgorithmInfo, Batch, Direction, Error, Mode};
use crate::{machine, nonces};

/// The environment variable that names the backend unless the program does.
pub const BACKEND_VARIABLE: &str = "WARPLOCK_BACKEND";

/// Owns the backends and runs batches on them. Cheap to share between threads; make one and keep
/// it.
///
/// With the backend `auto`, small batches run on the CPU, and GPUs are not even started. They are
/// started once they would have saved as much time as that takes, or by [`Engine::wake`].
pub struct Engine {
    cpu: CpuBackend,
    route: Route,
    /// Per algorithm and direction: single messages shorter than this skip the planner and run on
    /// the CPU. 0 until first computed; kept here because a short message is as fast as the
    /// planner's answer.
    alone: [[AtomicU64; 2]; Algorithm::COUNT],
}

/// The destination of batches.
enum Route {
    Cpu,
    /// On GPUs that were requested by name.
    Gpus(Demanded),
    /// The backend that finishes first.
    Auto(Box<Planner>),
}

/// Text that a GPU has done for an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuBytes {
    /// The GPU, such as `cuda:0`.
    pub backend: String,
    /// Bytes of text.
    pub bytes: u64,
}

/// Settings of an engine before it is built.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builder {
    choice: Option<BackendChoice>,
    threads: Option<NonZeroUsize>,
    set: Option<InstructionSet>,
    warn: Option<fn(&str)>,
}

impl Builder {
    /// Which backend to use; without this call, what `WARPLOCK_BACKEND` says, or `auto`.
    pub fn backend(mut self, choice: BackendChoice) -> Self {
        self.choice = Some(choice);
        self
    }

    /// How many CPU threads work on one batch; without this call, one for each core that this
    /// process may use. With one thread a batch runs on the calling thread. Helper threads spin for
    /// the next batch for up to 0.1 ms before they sleep. At most
    /// [`MOST_THREADS`](crate::MOST_THREADS).
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The CPU's instruction set unless the backend names one; without this call, the fastest. For
    /// measurements of what `auto` does on slower machines.
    pub fn instruction_set(mut self, set: InstructionSet) -> Self {
        self.set = Some(set);
        self
    }

    /// The function that is told, one sentence at a time, of problems that are not errors: with
    /// `auto`, that a GPU failed and its work was done by others, or that a calibration cannot be
    /// used. Without this call, warnings are printed on stderr.
    pub fn warnings(mut self, tell: fn(&str)) -> Self {
        self.warn = Some(tell);
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
                _ => BackendChoice::Auto,
            },
        };
        let set = match choice {
            BackendChoice::Cpu(Some(set)) => set,
            _ => self.set.unwrap_or_else(InstructionSet::best),
        };
        // One for each core that this process may use.
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = self.threads.unwrap_or_else(cores);
        let warn = self.warn.unwrap_or(print_warning);
        let route = match choice {
            BackendChoice::Cpu(_) => Route::Cpu,
            BackendChoice::Auto => Route::Auto(Box::new(machine::planner(set, threads, warn))),
            BackendChoice::Cuda(number) => Route::Gpus(Demanded {
                gpus: vec![cuda::open(number, threads)?],
            }),
            BackendChoice::Gpus(set) => {
                let gpus = set
                    .numbers()
                    .map(|number| cuda::open(Some(number), threads));
                Route::Gpus(Demanded {
                    gpus: gpus.collect::<Result<_, _>>()?,
                })
            }
        };
        Ok(Engine {
            cpu: CpuBackend::new(set, threads)?,
            route,
            alone: Default::default(),
        })
    }
}

fn print_warning(sentence: &str) {
    use std::io::Write;
    // If stderr is closed, there is no other place for it.
    let _ = writeln!(std::io::stderr(), "warplock: warning: {sentence}");
}

impl Engine {
    /// An engine with default settings; see [`Builder`].
    ///
    /// # Errors
    /// [`Error::NoBackend`] if `WARPLOCK_BACKEND` names a backend that cannot run here.
    pub fn new() -> Result<Self, Error> {
        Builder::default().build()
    }

    /// An engine with other settings.
    ///
    /// ```
    /// let engine = warplock::Engine::builder().backend("cpu:portable".parse()?).build()?;
    /// assert_eq!(engine.backend(), "cpu:portable");
    /// # Ok::<(), warplock::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The name of the backend in use, such as `cpu:aesni`. With `auto`, the CPU's name and those
    /// of the GPUs that were started: `cpu:aesni+cuda:0`.
    pub fn backend(&self) -> String {
        match &self.route {
            Route::Cpu => self.cpu.name(),
            Route::Gpus(gpus) => gpus.names(),
            Route::Auto(planner) => {
                let gpus = planner.awake().into_iter();
                let names: Vec<_> = std::iter::once(self.cpu.name()).chain(gpus).collect();
                names.join("+")
            }
        }
    }

    /// With `auto`: starts the GPUs now, if there are any, and waits until they can be used. For
    /// programs that expect a lot of work; otherwise the engine starts them once it pays.
    pub fn wake(&self) {
        if let Route::Auto(planner) = &self.route {
            planner.wake();
        }
    }

    /// With `auto`: what each GPU has done so far. The CPU did the rest.
    pub fn gpu_bytes(&self) -> Vec<GpuBytes> {
        let done = match &self.route {
            Route::Auto(planner) => planner.done(),
            Route::Cpu | Route::Gpus(_) => BTreeMap::new(),
        };
        let done = done.into_iter();
        done.map(|(backend, bytes)| GpuBytes { backend, bytes })
            .collect()
    }

    /// Whether large batches may go to a GPU: if one was named, or with `auto`, if there seems to
    /// be one. Otherwise all work stays on the CPU.
    pub fn may_use_gpu(&self) -> bool {
        match &self.route {
            Route::Cpu => false,
            Route::Gpus(_) => true,
            Route::Auto(planner) => planner.may_have_gpus(),
        }
    }

    /// Whether a message of this length would go to a GPU.
    pub(crate) fn prefers_gpu(
        &self,
        algorithm: Algorithm,
        direction: Direction,
        len: usize,
    ) -> bool {
        match &self.route {
            Route::Cpu => false,
            Route::Gpus(gpus) => gpus.supports(algorithm),
            Route::Auto(planner) => planner.pays(self.cpu.threads(), algorithm, direction, len),
        }
    }

    /// The CPU backend, which also runs most [`crate::MessageStream`]s.
    pub(crate) fn cpu(&self) -> &CpuBackend {
        &self.cpu
    }

    /// Runs a batch and waits for it.
    ///
    /// # Errors
    /// [`Error::Authentication`] if messages of an opened batch did not verify: their output is
    /// zeros, and the others' is valid. [`Error::Backend`] if the machine failed.
    /// [`Error::NoBackend`] if the chosen backend does not support the algorithm. With any other
    /// error, nothing but the array of [`crate::Ivs::Random`] was written.
    // Inlined, so that the compiler can use what the caller knows of the batch.
    #[inline]
    pub fn run(&self, mut batch: Batch<'_>) -> Result<(), Error> {
        if let Some(single) = Single::of(&mut batch)
            && self.is_for_cpu(&single)
        {
            // SAFETY: the batch's borrows live to the end of this function.
            return match unsafe { self.cpu.run_single(&single) } {
                true => Ok(()),
                false => Err(Error::Authentication {
                    failed: vec![0],
                    total: 1,
                }),
            };
        }
        self.run_job(batch)
    }

    /// Whether a single message skips the planner and runs on the CPU.
    #[inline]
    fn is_for_cpu(&self, single: &Single<'_>) -> bool {
        let below = &self.alone[single.info.algorithm as usize][single.direction as usize];
        let (len, known) = (single.message.len as u64, below.load(Ordering::Relaxed));
        if len < known {
            return true;
        }
        let now = self.alone_for_cpu(single.info, single.direction);
        // Written only if changed, so that the cache line stays shared between threads.
        if now != known {
            below.store(now, Ordering::Relaxed);
        }
        len < now
    }

    /// Single messages shorter than this run on the CPU, as far as known.
    #[cold]
    fn alone_for_cpu(&self, info: &AlgorithmInfo, direction: Direction) -> u64 {
        match &self.route {
            // ACORN takes a route of its own.
            _ if info.mode == Mode::Acorn => 0,
            Route::Cpu => u64::MAX,
            Route::Auto(planner) => planner.alone_for_cpu(info.algorithm, direction),
            Route::Gpus(_) => 0,
        }
    }

    /// Runs any batch, see [`Engine::run`].
    #[inline(never)]
    fn run_job(&self, batch: Batch<'_>) -> Result<(), Error> {
        let job = Job::new(batch)?;
        let total = job.count();
        // An absurd count of empty messages is not work, and must not take forever.
        if job.text_bytes() == 0 && !job.info().algorithm.is_aead() {
            return Ok(());
        }
        nonces::check(&job)?;
        let failed = match &self.route {
            Route::Auto(planner) if !planner.is_for_cpu(&job) => {
                // SAFETY: the job's borrows live to the end of this function.
                unsafe { planner.run(&self.cpu, &job) }?
            }
            // SAFETY: as above.
            Route::Cpu | Route::Auto(_) => unsafe { self.cpu.run(&job) },
            // SAFETY: as above.
            Route::Gpus(gpus) => unsafe { gpus.run(&self.cpu, &job) }?,
        };
        if failed.is_empty() {
            Ok(())
        } else {
            Err(Error::Authentication { failed, total })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_any_machine_has_are_refused() {
        for count in [4097, usize::MAX] {
            let threads = NonZeroUsize::new(count).unwrap();
            let refused = Engine::builder().threads(threads).build().err().unwrap();
            let wanted = format!("{count} threads are too many; ask for at most 4096");
            assert!(refused.to_string().ends_with(&wanted), "{refused}");
        }
    }

    /// The route of single messages would cut a message of ACORN like those of other modes.
    #[test]
    fn acorn_never_takes_the_route_of_single_messages() {
        let engine = Engine::builder()
            .backend(BackendChoice::Cpu(None))
            .build()
            .unwrap();
        for (algorithm, below) in [(Algorithm::Aes128Ctr, u64::MAX), (Algorithm::Acorn128, 0)] {
            let found = engine.alone_for_cpu(algorithm.info(), Direction::Encrypt);
            assert_eq!(found, below, "{algorithm}");
        }
    }

    #[test]
    fn gpus_are_named_by_their_numbers() {
        for name in [
            "auto",
            "cpu",
            "cpu:portable",
            "cuda",
            "cuda:3",
            "cuda:0,1,7",
        ] {
            let choice: BackendChoice = name.parse().unwrap();
            assert_eq!(choice.to_string(), name);
        }
        assert_eq!(
            "cuda:1,0,1".parse::<BackendChoice>().unwrap().to_string(),
            "cuda:0,1"
        );
        let once = "cuda:3".parse::<BackendChoice>().unwrap();
        assert_eq!("cuda:3,3".parse::<BackendChoice>().unwrap(), once);
        for wrong in ["cuda:", "cuda:0,", "cuda:a", "cuda:0,64", "gpu"] {
            assert!(wrong.parse::<BackendChoice>().is_err(), "{wrong}");
        }
    }
}
