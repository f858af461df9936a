//! The settings that every suite gets: the backend, the threads, how often to repeat.

use std::num::NonZeroUsize;

use warplock::{BackendChoice, Engine, InstructionSet};

use crate::error::Result;
use crate::{Plan, Report};

/// The circumstances of a run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The backend that was named; none: what `WARPLOCK_BACKEND` says, or `auto`. Columns of the
    /// CPU take its instruction set from here, and nothing else.
    pub choice: Option<BackendChoice>,
    /// Threads of the columns with all threads.
    pub threads: NonZeroUsize,
    /// How often to repeat.
    pub plan: Plan,
    /// Called with a line for the user whenever a step begins.
    pub notify: &'a dyn Fn(&str),
    /// Called with the report of the rows so far whenever one is new or was measured again, so that
    /// a run that is stopped leaves what it has.
    pub progress: &'a dyn Fn(&Report),
}

impl Default for Context<'_> {
    /// No backend named, all cores that this process may use, and no callbacks.
    fn default() -> Self {
        Context {
            choice: None,
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            plan: Plan::default(),
            notify: &|_| {},
            progress: &|_| {},
        }
    }
}

impl Context<'_> {
    /// The chosen backend on one thread: the thread that calls.
    pub(crate) fn one_thread(&self) -> Result<Engine> {
        engine(self.choice, None, NonZeroUsize::MIN)
    }

    /// The chosen backend on all threads.
    pub(crate) fn all_threads(&self) -> Result<Engine> {
        engine(self.choice, None, self.threads)
    }

    /// Another backend on all threads; `set`: with this instruction set where `choice` names none.
    pub(crate) fn other(
        &self,
        choice: Option<BackendChoice>,
        set: Option<InstructionSet>,
    ) -> Result<Engine> {
        engine(choice, set, self.threads)
    }

    /// The chosen GPU; without a choice the first one, if there is one.
    pub(crate) fn gpu(&self) -> Result<Option<Engine>> {
        match self.choice {
            Some(choice @ (BackendChoice::Cuda(_) | BackendChoice::Gpus(_))) => {
                self.other(Some(choice), None).map(Some)
            }
            Some(BackendChoice::Cpu(_)) => Ok(None),
            Some(BackendChoice::Auto) | None => {
                Ok(self.other(Some(BackendChoice::Cuda(None)), None).ok())
            }
        }
    }

    /// The same without a GPU, which `auto` would also use: for columns of the CPU.
    pub(crate) fn on_cpu(self) -> Self {
        let choice = match self.choice {
            Some(choice @ BackendChoice::Cpu(_)) => choice,
            _ => BackendChoice::Cpu(None),
        };
        Context {
            choice: Some(choice),
            ..self
        }
    }
}

/// The portable backend on one thread: the reference.
pub(crate) fn portable() -> Result<Engine> {
    let choice = BackendChoice::Cpu(Some(InstructionSet::Portable));
    engine(Some(choice), None, NonZeroUsize::MIN)
}

fn engine(
    choice: Option<BackendChoice>,
    set: Option<InstructionSet>,
    threads: NonZeroUsize,
) -> Result<Engine> {
    let mut builder = Engine::builder().threads(threads);
    if let Some(choice) = choice {
        builder = builder.backend(choice);
    }
    if let Some(set) = set {
        builder = builder.instruction_set(set);
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_the_cpu_never_use_a_gpu() {
        let on_cpu = |name: Option<&str>| {
            let context = Context {
                choice: name.map(|name| name.parse().unwrap()),
                ..Context::default()
            };
            context.on_cpu().choice
        };
        for name in [
            None,
            Some("auto"),
            Some("cuda"),
            Some("cuda:1"),
            Some("cuda:0,1"),
        ] {
            assert_eq!(on_cpu(name), Some(BackendChoice::Cpu(None)), "{name:?}");
        }
        let portable = BackendChoice::Cpu(Some(InstructionSet::Portable));
        assert_eq!(on_cpu(Some("cpu:portable")), Some(portable));
    }
}
