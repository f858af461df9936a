//! The CPU backend: an instruction set, and the threads of its jobs.

use std::num::NonZeroUsize;

use super::InstructionSet;
use super::kernels::Kernels;
use crate::Error;
use crate::auto::{BEYOND_CACHES, CpuModel};
use crate::pool::{MOST_THREADS, Pool};

/// Runs batches on this machine's CPU.
pub(crate) struct CpuBackend {
    pub(super) kernels: &'static dyn Kernels,
    /// Threads besides the caller's, if there are any.
    pub(super) others: Option<Pool>,
    /// Guesses, which are good enough to decide how many threads a job is worth.
    pub(super) model: CpuModel,
    /// From this many bytes of text on, a job is written with non-temporal stores.
    pub(super) non_temporal_from: u64,
}

impl CpuBackend {
    /// A backend on one instruction set.
    pub(crate) fn new(set: InstructionSet, threads: NonZeroUsize) -> Result<Self, Error> {
        let name = format!("cpu:{}", set.name());
        let kernels = set.kernels().ok_or_else(|| Error::NoBackend {
            name: name.clone(),
            reason: match cfg!(any(vectors = "x86", vectors = "arm")) {
                true => "this machine does not have the instructions; use cpu",
                false => {
                    "this build has no code for it; compile warplock with optimization, or use cpu"
                }
            }
            .to_owned(),
        })?;
        if threads.get() > MOST_THREADS {
            return Err(Error::NoBackend {
                name,
                reason: format!("{threads} threads are too many; ask for at most {MOST_THREADS}"),
            });
        }
        let others = threads.get() - 1;
        let others = (others > 0)
            .then(|| Pool::new(others, "cpu", || {}))
            .transpose()
            .map_err(|error| Error::NoBackend {
                name,
                reason: format!("cannot start {threads} threads ({error}); ask for fewer"),
            })?;
        Ok(CpuBackend {
            kernels,
            others,
            model: CpuModel::guess(set, threads.get()),
            non_temporal_from: match set.gains_by_non_temporal_stores() {
                true => BEYOND_CACHES as u64,
                false => u64::MAX,
            },
        })
    }

    /// Its name, as `--backend` takes it.
    pub(crate) fn name(&self) -> String {
        format!("cpu:{}", self.kernels.set().name())
    }
}
