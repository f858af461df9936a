//! `warplock bench`: measures, and prints the results.

mod live;
mod suites;

use std::path::Path;

use serde_json::json;
use warplock::{BACKEND_VARIABLE, BackendChoice};
use warplock_bench::{Context, Error};

use self::live::{Live, Outputs};
use crate::args::{Bench, Common};
use crate::console::print;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Output;

/// Runs a suite.
pub(super) fn run(options: Bench, common: &Common) -> Result<Exit> {
    let defaults = Context::default();
    // Refused now, not after minutes of work.
    let create = |path: &Path| Output::create(path, options.force, None);
    let outputs = Outputs {
        json: options.output.as_deref().map(create).transpose()?,
        plot: options.plot.as_deref().map(create).transpose()?,
    };
    let live = Live::start(outputs, common);
    let context = Context {
        choice: choice(common)?,
        threads: common.threads.unwrap_or(defaults.threads),
        notify: &|step| common.note(step),
        progress: &|report| live.progress(report),
        ..defaults
    };
    let outcome = match suites::suite(options.suite, &context) {
        Ok(suite) => suite.run(&context),
        Err(failure) => {
            live.discard();
            return Err(failure);
        }
    };
    match outcome {
        Ok(report) => live.finish(&report)?,
        Err(error) => {
            live.discard();
            // Printed instead of the table; no file appears.
            match (&error, common.json) {
                (Error::NoGpu(_) | Error::NoFuse, true) => {
                    common.emit(&json!({ "skipped": error.to_string() }))?;
                }
                (Error::NoGpu(_) | Error::NoFuse, false) => print(&format!("{error}\n"))?,
                _ => return Err(error.into()),
            }
        }
    }
    Ok(Exit::Done)
}

/// The variable stands for the option: a suite reads the settings of its columns from it.
fn choice(common: &Common) -> Result<Option<BackendChoice>> {
    match (common.backend, std::env::var(BACKEND_VARIABLE)) {
        (None, Ok(name)) if !name.is_empty() => Ok(Some(name.parse()?)),
        (choice, _) => Ok(choice),
    }
}
