//! The program `warplock`; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(warplock_cli::run(std::env::args_os()))
}
