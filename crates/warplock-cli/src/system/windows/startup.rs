//! State inherited from the parent process.

use std::io;
use std::os::windows::io::AsRawHandle;

/// Whether a standard handle was not there when this process began: Rust would lose output to it
/// without an error.
pub(crate) fn was_closed(number: u32) -> bool {
    let handle = match number {
        0 => io::stdin().as_raw_handle(),
        1 => io::stdout().as_raw_handle(),
        _ => io::stderr().as_raw_handle(),
    };
    handle.is_null()
}

/// Whether writes to a pipe without a reader are errors, not the end: always, without SIGPIPE.
pub(crate) fn ignores_sigpipe() -> bool {
    true
}

/// Says that this is another program's process, which makes no difference.
pub(crate) fn embed() {}
