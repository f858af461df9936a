//! Who changes the keys of a vault: a lock that ends with its holder.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::config::{CONFIG, missing};
use crate::core::is_missing;
use crate::error::Result;
use crate::posix::Posix;
use crate::storage::{At, Storage};

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
