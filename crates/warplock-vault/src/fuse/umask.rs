//! The caller's umask.

use std::cell::Cell;

use rustix::fs::Mode;
use rustix::thread::{UnshareFlags, unshare_unsafe};

thread_local! {
    /// The umask of this loop thread, once it has one of its own.
    static OWN: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Makes `umask` this thread's, so that files in the store are made as the caller would make them:
/// the system ignores the umask in a folder with a default ACL.
pub(super) fn take_on(umask: u32) {
    let own = OWN.get();
    if own == Some(umask) {
        return;
    }
    if own.is_none() {
        // SAFETY: only the umask, the working folder and the root folder become this thread's
        // own; no descriptor is unshared.
        let unshared = unsafe { unshare_unsafe(UnshareFlags::FS) };
        // It needs no privileges, but a sandbox may forbid it. The umask of all threads then
        // follows the last caller, as it does for any other process with threads.
        let _ = unshared;
    }
    rustix::process::umask(Mode::from_raw_mode(umask));
    OWN.set(Some(umask));
}
