//! The command line of Warplock as a library, for the program `warplock` and for Python, whose
//! `python -m warplock` is the same. There is nothing else to use in here: it is not an API.

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
mod launcher;
mod memory;
mod output;
mod passphrase;
mod progress;
mod pump;
mod range;
mod size;
mod system;
mod transform;
mod value;

use std::ffi::OsString;

pub use crate::memory::Allocator;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::system::signals;

/// Parses the arguments, of which the first is the program's name, runs and reports; gives the exit
/// code. A broken pipe ends the process by SIGPIPE instead.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    system::forbid_core_dumps();
    let exit = match args::parse(arguments) {
        Err(exit) => exit,
        Ok(cli) => match signals::install() {
            Ok(()) => cmd::run(cli),
            Err(error) => console::report(&Failure::io("cannot wait for signals", &error)),
        },
    };
    // Only now is everything dropped that would leave a temporary file.
    if exit == Exit::Pipe {
        signals::die_of_pipe();
    }
    exit as u8
}

/// [`run`] in a process of another program, such as Python's interpreter. `launcher` are the words
/// that start this command line there (`python -m warplock`), for a mount in the background.
pub fn run_embedded(launcher: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    system::startup::embed();
    launcher::embed(launcher, &arguments);
    run(arguments)
}
