//! The lock on changes of a vault's keys, which ends with its holder.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::format::config::CONFIG;
use crate::store::store_lock::{has_no_locks, listed};

/// Held while the file with the keys is changed. It is not that file itself, which others may be
/// allowed to read: a user who can open a file can lock it, and prevent the removal of a leaked
/// key. One that a crash left is empty, and does no harm.
pub(crate) const CONFIG_LOCK: &str = "warplock.vault.new.lock";

/// A change of keys takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Until this is dropped, no other process changes the file that holds the keys.
pub(crate) struct ConfigLock<'a> {
    root: &'a OwnedFd,
    _locked: OwnedFd,
}

impl Drop for ConfigLock<'_> {
    fn drop(&mut self) {
        // If it stays, the next one locks it.
        let _ = rustix::fs::unlinkat(self.root, CONFIG_LOCK, AtFlags::empty());
    }
}

/// Waits, for a limited time, until no other process changes the file that holds the keys.
pub(crate) fn lock_config(root: &OwnedFd) -> Result<ConfigLock<'_>> {
    let failed = |error: Errno| Error::Store {
        what: format!("cannot make or lock {CONFIG_LOCK} in the store"),
        source: error.into(),
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let owner_only = Mode::RUSR | Mode::WUSR;
    let start = Instant::now();
    loop {
        let file = rustix::fs::openat(root, CONFIG_LOCK, flags | OFlags::CLOEXEC, owner_only)
            .map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Errno::WOULDBLOCK) => {
                let held = rustix::fs::fstat(&file).map_err(failed)?.st_ino;
                let by = listed(held, |_| true);
                let by = by.map_or_else(String::new, |pid| format!(", process {pid},"));
                return Err(Error::Config {
                    what: CONFIG.into(),
                    why: format!(
                        "another program{by} has been changing its keys for {} seconds (and holds \
                         {CONFIG_LOCK}); end that, and try again",
                        PATIENCE.as_secs()
                    ),
                });
            }
            Err(error) if !has_no_locks(error) => return Err(failed(error)),
            // If the file system has no locks, this goes on without one.
            Ok(()) | Err(_) => {
                // The previous holder may have removed it from the folder.
                let locked = rustix::fs::fstat(&file).map_err(failed)?;
                let named = rustix::fs::statat(root, CONFIG_LOCK, AtFlags::SYMLINK_NOFOLLOW);
                if named.is_ok_and(|named| named.st_ino == locked.st_ino) {
                    let _locked = file;
                    return Ok(ConfigLock { root, _locked });
                }
            }
        }
    }
}
