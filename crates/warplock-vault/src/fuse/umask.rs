//! The caller's umask.

use std::cell::Cell;

use rustix::fs::Mode;
use rustix::thread::{UnshareFlags, unshare_unsafe};

thread_local! {
    /// The umask of this loop thread, once it has one of its own.
    static OWN: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Makes `umask` this thread's, so that the files below are made as the caller would have made
/// them: the system leaves the umask out where a folder has a default ACL.
pub(super) fn take_on(umask: u32) {
    let own = OWN.get();
    if own == Some(umask) {
        return;
    }
    if own.is_none() {
        // SAFETY: only the umask, the working folder and the root folder become this thread's
        // own; no descriptor is unshared.
        let unshared = unsafe { unshare_unsafe(UnshareFlags::FS) };
        // It needs no rights; a sandbox may forbid it all the same. The umask of all threads then
        // follows the last caller, as it does for any other process with threads.
        let _ = unshared;
    }
    rustix::process::umask(Mode::from_raw_mode(umask));
    OWN.set(Some(umask));
}
