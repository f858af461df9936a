//! The program `warplock`; all of it is in the library.

use std::process::ExitCode;

use warplock_cli::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    ExitCode::from(warplock_cli::run(std::env::args_os()))
}
