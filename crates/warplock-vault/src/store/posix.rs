//! The real store: a folder of the file system underneath.

use std::ffi::{OsStr, OsString};
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, SeekFrom, Uid};
use rustix::io::Errno;

use crate::format::times::{stat_time, timespec};
use crate::fs::{Attributes, Changes, FileType, RenameFlags, SetTime, StatVfs, XattrFlags};
use crate::store::permissions::{granting, hold, set_mode};
use crate::store::probe::Lacks;
use crate::store::storage::{At, Listed, Storage};
use crate::store::store_lock::Lock;

/// A store in a folder of this machine.
pub struct Posix {
    root: OwnedFd,
    grants: bool,
    /// Held while this is open, as far as the store has locks.
    lock: Option<Lock>,
    pub(crate) lacks: Lacks,
}

const DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

impl Posix {
    /// The store in the folder `path`.
    ///
    /// # Errors
    /// The system's, if it is no folder that can be read.
    pub fn new(path: &Path) -> Result<Self> {
        let root = sys::openat(CWD, path, DIR, Mode::empty())?;
        Ok(Posix {
            root,
            grants: false,
            lock: None,
            lacks: Lacks::default(),
        })
    }

    /// The topmost folder, where the lock is.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.root
    }

    /// Whether permissions of the store's objects may be changed where they are in the way: a vault
    /// that is open for reading changes nothing.
    pub(crate) fn granting(mut self, grants: bool) -> Self {
        self.grants = grants;
        self
    }

    /// Finds out what the file system lacks.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if a vault cannot do without.
    pub(crate) fn probed(mut self) -> crate::Result<Self> {
        self.lacks = Lacks::probe(&self.root);
        self.lacks.check_usable()?;
        Ok(self)
    }

    /// Holds a lock until it is dropped.
    pub(crate) fn holding(mut self, lock: Option<Lock>) -> Self {
        self.lock = lock;
        self
    }

    /// The lock that is held.
    pub(crate) fn lock(&self) -> Option<&Lock> {
        self.lock.as_ref()
    }

    /// Whether it may be that owners and times of what is there cannot be set.
    fn does_without(&self, at: At<'_, Self>) -> bool {
        self.lacks.owners || self.lacks.symlink_attributes && matches!(at, At::Name(..))
    }

    /// Opens something; if we are its owner and it is denied, with `wanted` granted.
    fn open_granting(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        flags: OFlags,
        wanted: u32,
    ) -> Result<OwnedFd> {
        let denied = |error: &Errno| self.grants && *error == Errno::ACCESS;
        let open = || sys::openat(dir, name, flags, Mode::empty());
        Ok(granting(|| hold(dir, name), wanted, denied, open)?)
    }
}

/// Renames to a name that nothing has, without the system's help; `links`: by hard links.
fn rename_to_free(
    from: (&OwnedFd, &OsStr),
    to: (&OwnedFd, &OsStr),
    links: bool,
) -> rustix::io::Result<()> {
    let stat = sys::statat(from.0, from.1, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        // A folder takes no place but that of an empty one, and no folder of a vault is empty.
        return match sys::renameat(from.0, from.1, to.0, to.1) {
            Err(Errno::NOTEMPTY | Errno::NOTDIR) => Err(Errno::EXIST),
            other => other,
        };
    }
    let linked = match links {
        true => sys::linkat(from.0, from.1, to.0, to.1, AtFlags::empty()),
        false => Err(Errno::PERM),
    };
    match linked {
        Ok(()) => sys::unlinkat(from.0, from.1, AtFlags::empty()),
        // Without links, another program may take the name meanwhile: users of the vault wait for
        // its lock on names.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
            match sys::statat(to.0, to.1, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => sys::renameat(from.0, from.1, to.0, to.1),
                other => other.and(Err(Errno::EXIST)),
            }
        }
        other => other,
    }
}

fn is_symlink(dir: &OwnedFd, name: &OsStr) -> rustix::io::Result<bool> {
    let stat = sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// A path that names an entry of an open folder for calls that have no `at` variant.
fn proc_path(dir: &OwnedFd, name: &OsStr) -> PathBuf {
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    path.push(name);
    path
}

#[allow(
    clippy::unnecessary_cast,
    reason = "the fields' types differ from one architecture to the next"
)]
fn attributes(stat: &sys::Stat) -> Attributes {
    Attributes {
        node: stat.st_ino as u64,
        volume: stat.st_dev as u64,
        mode: stat.st_mode as u32,
        links: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        device: stat.st_rdev as u64,
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        block_size: stat.st_blksize as u32,
        accessed: stat_time(stat.st_atime as i64, stat.st_atime_nsec as u64),
        modified: stat_time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
        changed: stat_time(stat.st_ctime as i64, stat.st_ctime_nsec as u64),
    }
}

/// Reads something whose length is not known before.
fn grow(mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 512];
    loop {
        match read(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Storage for Posix {
    type Dir = OwnedFd;
    type File = OwnedFd;

    fn root(&self) -> Result<OwnedFd> {
        self.root.try_clone()
    }

    fn open_dir(&self, dir: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
        self.open_granting(dir, name, DIR | OFlags::NOFOLLOW, 0o700)
    }

    fn make_dir(&self, dir: &OwnedFd, name: &OsStr, mode: u32) -> Result<()> {
        Ok(sys::mkdirat(dir, name, Mode::from_raw_mode(mode))?)
    }

    fn remove_dir(&self, dir: &OwnedFd, name: &OsStr) -> Result<()> {
        Ok(sys::unlinkat(dir, name, AtFlags::REMOVEDIR)?)
    }

    fn list(&self, dir: &OwnedFd) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for entry in sys::Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name: OsString = OsStr::from_bytes(name).to_owned();
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let stat = sys::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            let inode = entry.ino();
            listed.push(Listed { name, inode, kind });
        }
        Ok(listed)
    }

    fn open(&self, dir: &OwnedFd, name: &OsStr, write: bool) -> Result<OwnedFd> {
        let (access, wanted) = if write {
            (OFlags::RDWR, 0o600)
        } else {
            (OFlags::RDONLY, 0o400)
        };
        // Not blocking: it may be a planted fifo.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = self.open_granting(dir, name, flags, wanted)?;
        if FileType::from_raw_mode(sys::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::INVAL.into());
        }
        Ok(file)
    }

    fn create(&self, dir: &OwnedFd, name: &OsStr, mode: u32) -> Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(sys::openat(dir, name, flags, Mode::from_raw_mode(mode))?)
    }

    fn make_symlink(&self, dir: &OwnedFd, name: &OsStr, target: &[u8]) -> Result<()> {
        Ok(sys::symlinkat(target, dir, name)?)
    }

    fn read_symlink(&self, dir: &OwnedFd, name: &OsStr) -> Result<Vec<u8>> {
        Ok(sys::readlinkat(dir, name, Vec::new())?.into_bytes())
    }

    fn link(&self, from: (&OwnedFd, &OsStr), to: (&OwnedFd, &OsStr)) -> Result<()> {
        if self.lacks.hard_links {
            return Err(Errno::PERM.into());
        }
        Ok(sys::linkat(from.0, from.1, to.0, to.1, AtFlags::empty())?)
    }

    fn unlink(&self, dir: &OwnedFd, name: &OsStr) -> Result<()> {
        Ok(sys::unlinkat(dir, name, AtFlags::empty())?)
    }

    fn rename(
        &self,
        from: (&OwnedFd, &OsStr),
        to: (&OwnedFd, &OsStr),
        flags: RenameFlags,
    ) -> Result<()> {
        match sys::renameat_with(from.0, from.1, to.0, to.1, flags) {
            // FUSE and network file systems often have no flags.
            Err(Errno::INVAL | Errno::NOSYS) if flags == RenameFlags::NOREPLACE => {
                Ok(rename_to_free(from, to, !self.lacks.hard_links)?)
            }
            other => Ok(other?),
        }
    }

    fn attributes(&self, at: At<'_, Self>) -> Result<Attributes> {
        let stat = match at {
            At::File(fd) | At::Dir(fd) => sys::fstat(fd),
            At::Name(dir, name) => sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
        }?;
        Ok(attributes(&stat))
    }

    fn change(&self, at: At<'_, Self>, changes: &Changes) -> Result<()> {
        if let At::Name(dir, name) = at
            && self.lacks.symlink_attributes
            && is_symlink(dir, name)?
        {
            // What the symlink leads to could be changed instead.
            return Err(Errno::OPNOTSUPP.into());
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            let (uid, gid) = (
                changes.uid.map(Uid::from_raw),
                changes.gid.map(Gid::from_raw),
            );
            match at {
                At::File(fd) | At::Dir(fd) => sys::fchown(fd, uid, gid),
                At::Name(dir, name) => sys::chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
            }?;
        }
        if let Some(mode) = changes.mode {
            match at {
                At::File(fd) | At::Dir(fd) => sys::fchmod(fd, Mode::from_raw_mode(mode & 0o7777)),
                At::Name(dir, name) => hold(dir, name).and_then(|fd| set_mode(fd.as_fd(), mode)),
            }?;
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let (mut accessed, mut modified) = (changes.accessed, changes.modified);
            if self.lacks.single_times && (accessed.is_none() || modified.is_none()) {
                let found = self.attributes(at)?;
                accessed = accessed.or(Some(SetTime::To(found.accessed)));
                modified = modified.or(Some(SetTime::To(found.modified)));
            }
            let times = sys::Timestamps {
                last_access: timespec(accessed),
                last_modification: timespec(modified),
            };
            match at {
                At::File(fd) | At::Dir(fd) => sys::futimens(fd, &times),
                At::Name(dir, name) => sys::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW),
            }?;
        }
        Ok(())
    }

    fn dress(&self, at: At<'_, Self>, changes: &Changes) -> Result<()> {
        match self.change(at, changes) {
            Err(error) if self.does_without(at) => match Errno::from_io_error(&error) {
                Some(Errno::PERM | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(()),
                _ => Err(error),
            },
            other => other,
        }
    }

    fn read_at(&self, file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(file, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn write_at(&self, file: &OwnedFd, data: &[u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            match rustix::io::pwrite(file, &data[done..], offset + done as u64) {
                Ok(0) => return Err(Error::from(Errno::IO)),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn set_len(&self, file: &OwnedFd, len: u64) -> Result<()> {
        Ok(sys::ftruncate(file, len)?)
    }

    fn allocate(&self, file: &OwnedFd, offset: u64, len: u64) -> Result<()> {
        Ok(sys::fallocate(
            file,
            FallocateFlags::KEEP_SIZE,
            offset,
            len,
        )?)
    }

    fn punch(&self, file: &OwnedFd, offset: u64, len: u64) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match sys::fallocate(file, flags, offset, len) {
            Err(Errno::OPNOTSUPP) => {
                let zeros = vec![0; len.min(1 << 20) as usize];
                let mut done = 0;
                while done < len {
                    let step = (len - done).min(zeros.len() as u64);
                    self.write_at(file, &zeros[..step as usize], offset + done)?;
                    done += step;
                }
                Ok(())
            }
            other => Ok(other?),
        }
    }

    fn next_data(&self, file: &OwnedFd, offset: u64) -> Result<Option<u64>> {
        match sys::seek(file, SeekFrom::Data(offset)) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self, file: &OwnedFd, metadata: bool) -> Result<()> {
        Ok(if metadata {
            sys::fsync(file)
        } else {
            sys::fdatasync(file)
        }?)
    }

    fn sync_dir(&self, dir: &OwnedFd) -> Result<()> {
        Ok(sys::fsync(dir)?)
    }

    fn sync_all(&self) -> Result<()> {
        Ok(sys::syncfs(&self.root)?)
    }

    fn get_xattr(&self, at: At<'_, Self>, name: &OsStr) -> Result<Vec<u8>> {
        grow(|buffer| match at {
            At::File(fd) | At::Dir(fd) => sys::fgetxattr(fd, name, buffer),
            At::Name(dir, entry) => sys::lgetxattr(proc_path(dir, entry), name, buffer),
        })
    }

    fn set_xattr(
        &self,
        at: At<'_, Self>,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        Ok(match at {
            At::File(fd) | At::Dir(fd) => sys::fsetxattr(fd, name, value, flags),
            At::Name(dir, entry) => sys::lsetxattr(proc_path(dir, entry), name, value, flags),
        }?)
    }

    fn list_xattrs(&self, at: At<'_, Self>) -> Result<Vec<u8>> {
        grow(|buffer| match at {
            At::File(fd) | At::Dir(fd) => sys::flistxattr(fd, buffer),
            At::Name(dir, entry) => sys::llistxattr(proc_path(dir, entry), buffer),
        })
    }

    fn remove_xattr(&self, at: At<'_, Self>, name: &OsStr) -> Result<()> {
        Ok(match at {
            At::File(fd) | At::Dir(fd) => sys::fremovexattr(fd, name),
            At::Name(dir, entry) => sys::lremovexattr(proc_path(dir, entry), name),
        }?)
    }

    fn permitted<T>(
        &self,
        dir: &OwnedFd,
        action: impl Fn() -> crate::error::Result<T>,
    ) -> crate::error::Result<T> {
        let denied = |error: &crate::error::Error| self.grants && error.errno() == Errno::ACCESS;
        granting(|| Ok(dir), 0o700, denied, action)
    }

    fn stat_fs(&self) -> Result<StatVfs> {
        Ok(sys::fstatvfs(&self.root)?)
    }

    fn closed(&self) {
        if let Some(lock) = &self.lock {
            lock.note_closed();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_that_is_taken_is_not_replaced() {
        for links in [true, false] {
            nothing_is_replaced(links);
        }
    }

    fn nothing_is_replaced(links: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let dir: OwnedFd = fs::File::open(folder.path()).unwrap().into();
        let rename = |from: &str, to: &str| {
            rename_to_free((&dir, OsStr::new(from)), (&dir, OsStr::new(to)), links)
        };
        fs::create_dir_all(path("full/inner")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("file"), "file").unwrap();
        fs::write(path("other"), "other").unwrap();
        for (from, to) in [
            ("folder", "full"),
            ("folder", "file"),
            ("file", "other"),
            ("file", "full"),
        ] {
            assert_eq!(rename(from, to), Err(Errno::EXIST), "{from} {to}");
        }
        rename("folder", "moved").unwrap();
        rename("file", "new").unwrap();
        assert!(path("moved").is_dir() && !path("file").exists());
        assert_eq!(fs::read(path("new")).unwrap(), b"file");
        assert_eq!(fs::read(path("other")).unwrap(), b"other");
    }
}
