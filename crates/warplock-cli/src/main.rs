//! The program `warplock`; all of it is in the library.

use std::process::ExitCode;
use std::{env, thread};

use warplock_cli::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Of the thread that does the work. The main thread's stack has the size that this process was
/// started with (`ulimit -s`).
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    let run = || warplock_cli::run(env::args_os());
    let worker = thread::Builder::new().name("main".to_owned());
    let code = match worker.stack_size(STACK).spawn(run) {
        // The panic was reported.
        Ok(worker) => worker.join().unwrap_or(101),
        // Where no thread may start, and no memory is left for another stack.
        Err(_) => run(),
    };
    ExitCode::from(code)
}
