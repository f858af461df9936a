//! Moving to the background.
//!
//! The command starts itself once more and waits: the new process has the same terminal, so that it
//! can ask for a passphrase and report errors, and sends a byte through a pipe once the mount is
//! ready. No fork of a process with threads, and no secret passed between processes.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;

use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::launcher::again;
use crate::system::signals;

/// Names the descriptor of the pipe to the process in the background.
const VARIABLE: &str = "WARPLOCK_READY_FD";

/// Starts this program again in the background; returns when its mount is ready, or when it has
/// failed (and reported that).
pub(super) fn start() -> Result<Exit> {
    let failed = |error: std::io::Error| Failure::io("cannot start a process", &error);
    let (reader, writer) = pipe_with(PipeFlags::empty()).map_err(|error| failed(error.into()))?;
    let mut child = again()
        .env(VARIABLE, writer.as_raw_fd().to_string())
        .spawn()
        .map_err(failed)?;
    drop(writer);
    let mut byte = [0];
    if File::from(reader).read(&mut byte).map_err(failed)? == 1 {
        return Ok(Exit::Done);
    }
    let status = child.wait().map_err(failed)?;
    if let Some(signal @ (SIGINT | SIGTERM | SIGHUP | SIGQUIT | SIGPIPE)) = status.signal() {
        // Ctrl-C at its prompt, for example, ends the process in the background alone.
        signals::die(signal);
    }
    match status.code() {
        Some(2) => Err(Failure::reported(Exit::Usage)),
        Some(4) => Err(Failure::reported(Exit::WrongKey)),
        Some(3) => Err(Failure::reported(Exit::Authentication)),
        Some(1) => Err(Failure::reported(Exit::Error)),
        _ => Err(Failure::error(format_args!(
            "the process in the background died ({status})"
        ))),
    }
}

/// The other end of the pipe.
pub(super) struct Ready(File);

impl Ready {
    /// The pipe from the starting process, if this is the process in the background.
    pub(super) fn inherited() -> Option<Self> {
        let number: u32 = env::var(VARIABLE).ok()?.parse().ok()?;
        let path = format!("/proc/self/fd/{number}");
        let pipe = OpenOptions::new().write(true).open(path).ok()?;
        Some(Ready(pipe))
    }

    /// Leaves the terminal, and reports that the mount is ready.
    pub(super) fn detach(mut self) {
        // Failures of these do not matter to the mount.
        let _ = rustix::process::setsid();
        let _ = env::set_current_dir("/");
        if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::stdio::dup2_stdout(&null);
            let _ = rustix::stdio::dup2_stderr(&null);
        }
        let _ = self.0.write_all(b"+");
    }
}
