//! The options of every command, applied: the engine, warnings, JSON.

use std::fmt::Display;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

use serde_json::Value;
use warplock::Engine;
#[cfg(feature = "analyze")]
use warplock::{BackendChoice, cuda::Device};
use warplock_container::{Concurrency, Pipeline};
use warplock_keyring::Exposed;

use crate::advice;
use crate::args::Common;
use crate::console::{closed, print, report, say};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::json;
use crate::system::startup::was_closed;

impl Common {
    /// The engine that the options ask for.
    pub(crate) fn engine(&self) -> Result<Engine> {
        let warn = match self.quiet {
            true => |_: &str| {},
            false => |sentence: &str| say(format_args!("warplock: warning: {sentence}")),
        };
        let mut builder = Engine::builder().warnings(warn);
        if let Some(choice) = self.backend {
            builder = builder.backend(choice);
        }
        if let Some(threads) = self.threads {
            builder = builder.threads(threads);
        }
        builder
            .build()
            .map_err(|error| Failure::usage(format_args!("{error}{}", advice::engine(&error))))
    }

    /// The GPU that `--backend` names, the first of several; none without it.
    #[cfg(feature = "analyze")]
    pub(crate) fn gpu(&self) -> Result<Option<Device>> {
        let number = match self.backend {
            Some(BackendChoice::Cuda(number)) => number.unwrap_or(0),
            Some(BackendChoice::Gpus(set)) => set.numbers().next().unwrap_or(0),
            _ => return Ok(None),
        };
        let opened = Device::open(number);
        let opened = opened
            .map_err(|error| Failure::usage(format_args!("{error}{}", advice::engine(&error))))?;
        Ok(Some(opened))
    }

    /// A pipeline, each of whose workers is one thread.
    pub(crate) fn pipeline(&self) -> Result<Pipeline> {
        let engine = Common {
            threads: Some(NonZeroUsize::MIN),
            ..self.clone()
        }
        .engine()?;
        let mut concurrency = Concurrency::default();
        concurrency.workers = self.threads.unwrap_or(concurrency.workers);
        Ok(Pipeline::with_engine(Arc::new(engine)).with_concurrency(concurrency))
    }

    /// Prints a warning.
    pub(crate) fn warn(&self, sentence: impl Display) {
        if !self.quiet {
            say(format_args!("warplock: warning: {sentence}"));
        }
    }

    /// Warns of secret files that other users can read.
    pub(crate) fn warn_exposed<'a>(&self, files: impl IntoIterator<Item = &'a Exposed>) {
        files.into_iter().for_each(|file| self.warn(file));
    }

    /// Prints what was done, with `-v`.
    pub(crate) fn note(&self, sentence: impl Display) {
        if self.verbose {
            say(format_args!("warplock: {sentence}"));
        }
    }

    /// Prints a result as JSON.
    pub(crate) fn emit(&self, object: &Value) -> Result<()> {
        let line = json::line(object);
        if !self.data_on_stdout {
            return print(&line);
        }
        if was_closed(2) {
            return Err(closed().about("stderr"));
        }
        let written = io::stderr().write_all(line.as_bytes());
        written.map_err(|error| Failure::writing(&error).about("stderr"))
    }

    /// Reports a failure, with `--json` also in `object`; returns the worst exit code.
    pub(crate) fn fail(&self, failure: &Failure, mut object: Value) -> Exit {
        let exit = report(failure);
        let (true, false, Some(fields)) = (self.json, failure.is_silent(), object.as_object_mut())
        else {
            return exit;
        };
        failure.describe(fields);
        match self.emit(&object) {
            Ok(()) => exit,
            // That stdout is full, for example, may be what failed in the first place.
            Err(other) if other.to_string() == failure.to_string() => exit,
            Err(other) => exit.max(report(&other)),
        }
    }
}
