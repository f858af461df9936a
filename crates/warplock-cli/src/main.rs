//! The command line of Warplock: parse, run, report.

mod advice;
mod args;
mod cmd;
mod common;
mod console;
mod exit;
mod failure;
mod hex;
mod input;
mod json;
mod keys;
mod memory;
mod output;
mod progress;
mod pump;
mod range;
mod signals;
mod startup;
mod transform;
mod value;

use std::process::ExitCode;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use signal_hook::consts::SIGPIPE;

use crate::exit::Exit;
use crate::failure::Failure;

fn main() -> ExitCode {
    // No core dump shall hold keys. Where the system refuses, there is nothing better to do.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let exit = match args::parse() {
        Err(exit) => exit,
        Ok(cli) => match signals::install() {
            Ok(()) => cmd::run(cli),
            Err(error) => console::report(&Failure::io("cannot wait for signals", &error)),
        },
    };
    // Only now is everything dropped that would leave a temporary file behind.
    if exit == Exit::Pipe {
        signals::die(SIGPIPE);
    }
    exit.into()
}
