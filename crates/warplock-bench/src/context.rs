//! What every suite gets: which backend, how many threads, how patiently.

use std::num::NonZeroUsize;

use warplock::{Choice, Engine, InstructionSet};

use crate::Plan;
use crate::error::Result;

/// The circumstances of a run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The backend of the columns that are not named after one.
    pub choice: Choice,
    /// Threads of the columns with all threads.
    pub threads: NonZeroUsize,
    /// How often to repeat.
    pub plan: Plan,
    /// Called with a line for people whenever a step begins.
    pub notify: &'a dyn Fn(&str),
}

impl Default for Context<'_> {
    /// The best backend, all cores that this process may use, and nobody to tell.
    fn default() -> Self {
        Context {
            choice: Choice::Auto,
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            plan: Plan::default(),
            notify: &|_| {},
        }
    }
}

impl Context<'_> {
    /// The chosen backend on one thread: the thread that calls.
    pub(crate) fn one_thread(&self) -> Result<Engine> {
        engine(self.choice, NonZeroUsize::MIN)
    }

    /// The chosen backend on all threads.
    pub(crate) fn all_threads(&self) -> Result<Engine> {
        engine(self.choice, self.threads)
    }
}

/// The portable backend on one thread: the reference.
pub(crate) fn portable() -> Result<Engine> {
    engine(
        Choice::Cpu(Some(InstructionSet::Portable)),
        NonZeroUsize::MIN,
    )
}

fn engine(choice: Choice, threads: NonZeroUsize) -> Result<Engine> {
    let builder = Engine::builder().backend(choice).threads(threads);
    Ok(builder.build()?)
}
