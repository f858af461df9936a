//! Lines on stdout and stderr.

use std::fmt::Display;
use std::io::{self, Write};

use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};
use crate::system::signals;
use crate::system::startup::was_closed;

/// Prints a failure as one line; returns its exit code.
pub(crate) fn report(failure: &Failure) -> Exit {
    if !failure.is_silent() {
        signals::wait_if_ending();
        say(format_args!("warplock: {failure}"));
    }
    failure.exit()
}

/// Prints a line on stderr. If that is closed, there is no other place for it.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", escaped(&line.to_string()));
}

/// Prints lines on standard output. Line ends within names must be escaped already.
pub(crate) fn print(text: &str) -> Result<()> {
    let lines: Vec<_> = text.split('\n').map(escaped).collect();
    print_with(|| io::stdout().write_all(lines.join("\n").as_bytes()))
}

/// Runs `print`, which writes to standard output.
pub(crate) fn print_with(print: impl FnOnce() -> io::Result<()>) -> Result<()> {
    if was_closed(1) {
        return Err(closed().about("stdout"));
    }
    let printed = print().and_then(|()| io::stdout().flush());
    printed.map_err(|error| Failure::writing(&error).about("stdout"))
}

/// The failure to write to a closed descriptor.
pub(crate) fn closed() -> Failure {
    Failure::error("is closed, and what belongs there is lost")
}
