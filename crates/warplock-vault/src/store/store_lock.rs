//! The lock of an open store, which ends with its holder.
//!
//! A process that can open a file can lock it, and keep others from locking it. Many users can
//! often read a store, so the lock is on a file that only its owner can open.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self as sys, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::core::is_missing;
use crate::error::{Error, Result};
use crate::store::posix::Posix;
use crate::store::storage::{At, Storage};

/// What is locked. Its content tells how the last writer left the vault.
pub(crate) const LOCK: &str = "warplock.lock";
// Of one length, so that the second never needs room that the disk does not have.
const OPEN: &[u8] = b"open  \n";
const CLOSED: &[u8] = b"closed\n";

const FLAGS: OFlags = OFlags::NOFOLLOW
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// How the last writer left a vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is still open.
    InUse,
    /// Everything is committed.
    Closed,
    /// Its process died, or something could not be committed.
    Open,
}

/// How the vault in the folder `path` was left.
///
/// # Errors
/// If the store or its lock cannot be opened.
pub fn left(path: &Path) -> Result<Left> {
    let unreadable = |source: Errno| Error::Store {
        what: format!("cannot read {LOCK}"),
        source: source.into(),
    };
    let lock = sys::open(path.join(LOCK), OFlags::RDONLY | FLAGS, Mode::empty());
    let lock = lock.map_err(unreadable)?;
    let unlocked = match sys::flock(&lock, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => return Ok(Left::InUse),
        Err(error) if !has_no_locks(error) => return Err(unreadable(error)),
        other => other.is_ok(),
    };
    let mut said = [0; CLOSED.len()];
    let len = rustix::io::pread(&lock, &mut said, 0).map_err(unreadable)?;
    Ok(match (said[..len] == *CLOSED, unlocked) {
        (true, _) => Left::Closed,
        (false, true) => Left::Open,
        (false, false) => Left::InUse,
    })
}

/// A lock on a store, until it is dropped.
pub(crate) struct Lock {
    file: OwnedFd,
    /// Whether it keeps others out: not every file system has locks.
    pub(crate) works: bool,
}

impl Lock {
    /// Notes that the vault is open.
    pub(crate) fn note_open(&self) {
        // The vault must open on a full disk, too: things are removed through it.
        if rustix::io::pwrite(&self.file, OPEN, 0).is_err() {
            let _ = sys::ftruncate(&self.file, 0);
        }
    }

    /// Notes that the vault was closed properly.
    pub(crate) fn note_closed(&self) {
        // If that fails, `vault unmount` says that it was not, which does no harm.
        let _ = rustix::io::pwrite(&self.file, CLOSED, 0);
    }
}

/// A lock goes with its file's last descriptor; a process that another thread has just started has a
/// copy for a moment, so that only unlocking ends it now.
impl Drop for Lock {
    fn drop(&mut self) {
        // Where there are no locks there is nothing to do.
        let _ = sys::flock(&self.file, FlockOperation::NonBlockingUnlock);
    }
}

/// Locks a store for one writer, or for readers; `None` for a reader that may not open the lock.
pub(crate) fn lock_store(store: &Posix, path: &Path, write: bool) -> Result<Option<Lock>> {
    let in_use = |by: Option<u32>| Error::Locked {
        what: path.display().to_string(),
        by: by.map_or_else(String::new, |pid| format!(" by process {pid}")),
    };
    let operation = match write {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    loop {
        let Some(file) = open_lock(store, write)? else {
            return match writer(store) {
                Some(pid) => Err(in_use(Some(pid))),
                None => Ok(None),
            };
        };
        let works = match sys::flock(&file, operation) {
            Err(Errno::WOULDBLOCK) => return Err(in_use(holder(store))),
            Err(error) if !has_no_locks(error) => return Err(error.into()),
            other => other.is_ok(),
        };
        // Another one may have been put in its place before it was locked.
        let locked = store.attributes(At::File(&file))?.node;
        match store.attributes(At::Name(store.fd(), OsStr::new(LOCK))) {
            Ok(named) if named.node == locked => {}
            Err(error) if !is_missing(&error) => return Err(error.into()),
            _ => continue,
        }
        return Ok(Some(Lock { file, works }));
    }
}

/// Opens the lock file, and creates it for a writer; `None` if a reader cannot open it.
fn open_lock(store: &Posix, write: bool) -> Result<Option<OwnedFd>> {
    let access = match write {
        true => OFlags::RDWR,
        false => OFlags::RDONLY,
    };
    let mode = Mode::RUSR | Mode::WUSR;
    let open = |flags| sys::openat(store.fd(), LOCK, flags | FLAGS, mode);
    let opened = match open(access) {
        Err(Errno::NOENT) if write => open(access | OFlags::CREATE),
        other => other,
    };
    let lock = match opened {
        Ok(lock) => lock,
        Err(_) if !write => return Ok(None),
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(not_a_lock()),
        Err(source) => {
            return Err(Error::Store {
                what: format!(
                    "cannot open {LOCK}, which tells whether the vault is in use, and which only \
                     its owner can open"
                ),
                source: source.into(),
            });
        }
    };
    let found = sys::fstat(&lock)?;
    // Nothing else shall be written to.
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if !is_file || found.st_nlink > 1 || ![0, CLOSED.len() as i64].contains(&found.st_size) {
        return Err(not_a_lock());
    }
    // It may have come with a copy of the store. What is not ours to change stays as it is.
    if found.st_mode & 0o077 != 0 {
        let _ = sys::fchmod(&lock, mode);
    }
    let owner = sys::fstat(store.fd())?;
    if found.st_uid != owner.st_uid {
        let (uid, gid) = (owner.st_uid, owner.st_gid);
        let _ = sys::fchown(
            lock.as_fd(),
            Some(sys::Uid::from_raw(uid)),
            Some(sys::Gid::from_raw(gid)),
        );
    }
    Ok(Some(lock))
}

fn not_a_lock() -> Error {
    Error::altered(LOCK, "this is not what a vault makes there; remove it")
}

/// Whether the file system below has no locks.
pub(crate) fn has_no_locks(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK)
}

/// The process that holds a lock on the store, as the kernel lists it.
fn holder(store: &Posix) -> Option<u32> {
    listed(inode(store)?, |_| true)
}

/// The process that holds it for writing.
fn writer(store: &Posix) -> Option<u32> {
    listed(inode(store)?, |line| line.contains(" WRITE "))
}

fn inode(store: &Posix) -> Option<u64> {
    let lock = At::Name(store.fd(), OsStr::new(LOCK));
    Some(store.attributes(lock).ok()?.node)
}

/// The process that holds a lock on the file with this inode number.
pub(crate) fn listed(inode: u64, wanted: impl Fn(&str) -> bool) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let mut lines = locks.lines().filter(|line| {
        line.contains(" FLOCK ") && line.contains(&format!(":{inode} ")) && wanted(line)
    });
    lines.next()?.split_whitespace().nth(4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn locked(path: &Path, write: bool) -> crate::Result<Posix> {
        let store = Posix::new(path).unwrap();
        let lock = lock_store(&store, path, write)?;
        if let Some(lock) = lock.as_ref().filter(|_| write) {
            lock.note_open();
        }
        Ok(store.holding(lock))
    }

    #[test]
    fn a_lock_ends_with_the_store() {
        let dir = tempfile::tempdir().unwrap();
        let store = locked(dir.path(), true).unwrap();
        assert!(locked(dir.path(), true).is_err());
        assert!(locked(dir.path(), false).is_err());
        // As in a process that was just started.
        let _copy = store.lock().unwrap().file.try_clone().unwrap();
        drop(store);
        let _reader = locked(dir.path(), false).unwrap();
        let _other = locked(dir.path(), false).unwrap();
        assert!(locked(dir.path(), true).is_err());
    }

    /// A user who may read the store may lock its folder and what can be read in it.
    #[test]
    fn a_reader_of_the_folder_does_not_block_others() {
        let dir = tempfile::tempdir().unwrap();
        drop(locked(dir.path(), true).unwrap());
        let lock = dir.path().join(LOCK);
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&lock), 0o600);
        let folder = fs::File::open(dir.path()).unwrap();
        sys::flock(&folder, FlockOperation::NonBlockingLockShared).unwrap();
        drop(locked(dir.path(), true).unwrap());
        // As copies of stores may have it.
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
        drop(locked(dir.path(), true).unwrap());
        assert_eq!(mode(&lock), 0o600);
    }

    #[test]
    fn a_lock_tells_how_the_vault_was_left() {
        let dir = tempfile::tempdir().unwrap();
        assert!(left(dir.path()).is_err());
        let store = locked(dir.path(), true).unwrap();
        assert_eq!(left(dir.path()).unwrap(), Left::InUse);
        drop(store);
        assert_eq!(left(dir.path()).unwrap(), Left::Open);
        let store = locked(dir.path(), true).unwrap();
        store.closed();
        drop(store);
        assert_eq!(left(dir.path()).unwrap(), Left::Closed);
        drop(locked(dir.path(), false).unwrap());
        assert_eq!(left(dir.path()).unwrap(), Left::Closed);
        // A process that only looks whether it is in use.
        let store = Posix::new(dir.path()).unwrap();
        drop(lock_store(&store, dir.path(), true).unwrap());
        assert_eq!(left(dir.path()).unwrap(), Left::Closed);
        drop(locked(dir.path(), true).unwrap());
        assert_eq!(left(dir.path()).unwrap(), Left::Open);
    }

    #[test]
    fn what_is_no_file_is_not_locked() {
        let dir = tempfile::tempdir().unwrap();
        for target in ["elsewhere", "."] {
            std::os::unix::fs::symlink(target, dir.path().join(LOCK)).unwrap();
            assert!(locked(dir.path(), true).is_err());
            assert!(!dir.path().join("elsewhere").exists());
            fs::remove_file(dir.path().join(LOCK)).unwrap();
        }
        fs::create_dir(dir.path().join(LOCK)).unwrap();
        assert!(locked(dir.path(), true).is_err());
        fs::remove_dir(dir.path().join(LOCK)).unwrap();
        let other = dir.path().join("other");
        fs::write(&other, "7 bytes").unwrap();
        fs::hard_link(&other, dir.path().join(LOCK)).unwrap();
        assert!(locked(dir.path(), true).is_err());
        assert_eq!(fs::read(&other).unwrap(), b"7 bytes");
    }
}
