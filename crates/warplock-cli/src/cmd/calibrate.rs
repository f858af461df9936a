//! `warplock calibrate`: measures the machine, and stores the result for `--backend auto`.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Instant;

use serde_json::json;
use warplock::Calibration;

use crate::args::{Calibrate, Common};
use crate::console::print;
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};

/// Measures, stores and prints.
pub(super) fn run(options: &Calibrate, common: &Common) -> Result<Exit> {
    let cores = || available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let started = Instant::now();
    let calibration = Calibration::measure(common.threads.unwrap_or_else(cores))?;
    let seconds = started.elapsed().as_secs_f64();
    let path = match options.dry_run {
        true => None,
        false => {
            let saved = calibration.save();
            Some(saved.map_err(|error| Failure::writing(&error).about("the calibration"))?)
        }
    };
    if common.json {
        let values: serde_json::Map<_, _> = calibration
            .values()
            .into_iter()
            .map(|(name, numbers)| (name, json!(numbers)))
            .collect();
        let object = json!({"seconds": seconds, "path": path, "nanoseconds": values});
        common.emit(&object)?;
        return Ok(Exit::Done);
    }
    let mut text = calibration.lines().join("\n");
    text += &match path {
        Some(path) => format!(
            "\nmeasured in {seconds:.1} s, kept in {}\n",
            escaped(&path.to_string_lossy())
        ),
        None => format!("\nmeasured in {seconds:.1} s\n"),
    };
    print(&text)?;
    Ok(Exit::Done)
}
