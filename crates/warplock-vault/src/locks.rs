//! Who has a store open, and who changes its keys: locks that end with their holder.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::config::CONFIG;
use crate::error::{Error, Result};
use crate::posix::Posix;

/// Locks a store, for as long as it is open: for one writer, or for readers.
pub(crate) fn lock_store(store: &Posix, path: &Path, write: bool) -> Result<()> {
    let operation = if write {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match rustix::fs::flock(store.fd(), operation) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(Error::Locked {
            what: path.display().to_string(),
            by: holder(store.fd()).map_or_else(String::new, |pid| format!(" by process {pid}")),
        }),
        Err(error) => Err(error.into()),
    }
}

/// Who holds a lock on a file or folder, as the kernel lists it.
fn holder(locked: impl AsFd) -> Option<u32> {
    let inode = rustix::fs::fstat(locked).ok()?.st_ino;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let line = locks
        .lines()
        .find(|line| line.contains(" FLOCK ") && line.contains(&format!(":{inode} ")))?;
    line.split_whitespace().nth(4)?.parse().ok()
}

/// Held by whoever changes the file with the keys. It is not that file itself, which others may be
/// allowed to read: whoever can open a file can lock it, and keep a key that leaked from being
/// removed. `check --repair` removes one that was left by a crash.
const CONFIG_LOCK: &str = "warplock.vault.new.lock";

/// A change of keys takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Until this is dropped, nobody else changes the file that holds the keys.
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

/// Waits until nobody else changes the file that holds the keys, but not for ever.
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
            Ok(()) => {
                // Whoever held it before has removed it from the folder.
                let locked = rustix::fs::fstat(&file).map_err(failed)?;
                let named = rustix::fs::statat(root, CONFIG_LOCK, AtFlags::SYMLINK_NOFOLLOW);
                if named.is_ok_and(|named| named.st_ino == locked.st_ino) {
                    let _locked = file;
                    return Ok(ConfigLock { root, _locked });
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Errno::WOULDBLOCK) => {
                let by = holder(&file).map_or_else(String::new, |pid| format!(", process {pid},"));
                return Err(Error::Config {
                    what: CONFIG.into(),
                    why: format!(
                        "somebody else{by} has been changing its keys for {} seconds (and holds \
                         {CONFIG_LOCK}); end that, and try again",
                        PATIENCE.as_secs()
                    ),
                });
            }
            Err(error) => return Err(failed(error)),
        }
    }
}
