//! Who has a store open, and who changes its keys: locks that end with their holder.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::config::{CONFIG, missing};
use crate::core::is_missing;
use crate::error::{Error, Result};
use crate::posix::Posix;
use crate::storage::{At, Storage};

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
            by: holder(store).map_or_else(String::new, |pid| format!(" by process {pid}")),
        }),
        Err(error) => Err(error.into()),
    }
}

/// Who holds a lock on the store, as the kernel lists it.
fn holder(store: &Posix) -> Option<u32> {
    let inode = rustix::fs::fstat(store.fd()).ok()?.st_ino;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let line = locks
        .lines()
        .find(|line| line.contains(" FLOCK ") && line.contains(&format!(":{inode} ")))?;
    line.split_whitespace().nth(4)?.parse().ok()
}

/// Waits until nobody else changes the file that holds the keys, and locks it.
pub(crate) fn lock_config(store: &Posix, root: &OwnedFd) -> Result<OwnedFd> {
    let name = OsStr::new(CONFIG);
    loop {
        // Some network file systems lock only what may be written to.
        let file = match store.open(root, name, true) {
            Err(error) if is_missing(&error) => return Err(missing()),
            Err(_) => store.open(root, name, false)?,
            Ok(file) => file,
        };
        match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => continue,
            other => other?,
        }
        // Whoever held it before has put another one in its place.
        let locked = store.attributes(At::File(&file))?.node;
        match store.attributes(At::Name(root, name)) {
            Ok(named) if named.node == locked => return Ok(file),
            Err(error) if !is_missing(&error) => return Err(error.into()),
            _ => {}
        }
    }
}
