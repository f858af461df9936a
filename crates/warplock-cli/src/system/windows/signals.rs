//! Ctrl-C and its relatives (a console that is closed, a user who logs off): leave nothing
//! half-done, then end as without this.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use warplock_container::OutputFile;
use windows_sys::Win32::Foundation::{FALSE, TRUE};
use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;

/// The most that the handler is given to end the process.
const PATIENCE: Duration = Duration::from_secs(5);

static RECEIVED: AtomicBool = AtomicBool::new(false);

/// Removes temporary files when the process is told to end.
pub(crate) fn install() -> io::Result<()> {
    // SAFETY: the function stays, and may be called on a thread of its own, as it is.
    match unsafe { SetConsoleCtrlHandler(Some(end), TRUE) } {
        FALSE => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// There is no such end: see [`super::startup::ignores_sigpipe`].
pub(crate) fn die_of_pipe() {}

/// Waits for the end if the process is about to end: the error that this caused, such as an
/// interrupted prompt, needs no message.
pub(crate) fn wait_if_ending() {
    if RECEIVED.load(Ordering::Relaxed) {
        thread::sleep(PATIENCE);
    }
}

/// Called by the system, on a thread of its own. The next handler is the system's, which ends the
/// process.
unsafe extern "system" fn end(_: u32) -> i32 {
    RECEIVED.store(true, Ordering::Relaxed);
    OutputFile::abandon_all();
    FALSE
}
