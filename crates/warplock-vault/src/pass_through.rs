//! A file system that passes everything on to a folder, unchanged.
//!
//! It shows what a mount costs without encryption: the yardstick of `warplock bench fs`, and the
//! smallest example of a [`FileSystem`].

mod nodes;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, SeekFrom, Stat, Timestamps, Uid,
};
use rustix::io::pread;

use self::nodes::Nodes;
use crate::format::times::{stat_time, timespec};
use crate::fs::{
    Access, Attributes, Caller, Changes, Entry, Errno, FileSystem, FileType, NewNode, Node, ROOT,
    RenameFlags, Result, Seek, StatVfs, XattrFlags,
};

/// Serves a folder of the underlying file system.
#[derive(Debug)]
pub struct PassThrough {
    root: Arc<OwnedFd>,
    root_inode: u64,
    nodes: Nodes<OwnedFd>,
}

/// An open folder and its last listing.
#[derive(Debug)]
pub struct Dir {
    file: OwnedFd,
    listed: Mutex<Vec<(OsString, Node, FileType)>>,
}

/// Opens something without opening it: enough to name it.
const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl PassThrough {
    /// Serves the folder `path`.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path.as_ref(), flags, Mode::empty())?;
        let root_inode = rustix::fs::fstat(&root)?.st_ino;
        Ok(PassThrough {
            root: Arc::new(root),
            root_inode,
            nodes: Nodes::new(),
        })
    }

    fn node(&self, node: Node) -> Result<Arc<OwnedFd>> {
        match node {
            ROOT => Ok(self.root.clone()),
            node => self.nodes.get(node),
        }
    }

    /// The kernel's number for an inode of the underlying file system.
    fn number(&self, inode: u64) -> Node {
        match inode {
            inode if inode == self.root_inode => ROOT,
            // Some other inode that happens to have the root's number.
            ROOT => u64::MAX,
            inode => inode,
        }
    }

    fn attributes_of(&self, stat: &Stat) -> Attributes {
        Attributes {
            node: self.number(stat.st_ino),
            volume: stat.st_dev,
            mode: stat.st_mode,
            links: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            device: stat.st_rdev,
            size: stat.st_size.cast_unsigned(),
            blocks: stat.st_blocks.cast_unsigned(),
            block_size: stat.st_blksize as u32,
            accessed: stat_time(stat.st_atime, stat.st_atime_nsec),
            modified: stat_time(stat.st_mtime, stat.st_mtime_nsec),
            changed: stat_time(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Sets the owner of what was just made; permissions last, as `chown` clears bits.
    fn hand_over(&self, at: &OwnedFd, parent: &OwnedFd, new: NewNode) -> Result<()> {
        let inherits = rustix::fs::fstat(parent)?.st_mode & Mode::SGID.as_raw_mode() != 0;
        let gid = (!inherits).then(|| Gid::from_raw(new.caller.gid));
        let made = rustix::fs::fstat(at)?;
        if made.st_uid == new.caller.uid && gid.is_none_or(|gid| gid.as_raw() == made.st_gid) {
            return Ok(());
        }
        let uid = Some(Uid::from_raw(new.caller.uid));
        rustix::fs::chownat(at, "", uid, gid, AtFlags::EMPTY_PATH)?;
        let special = Mode::SUID.as_raw_mode() | Mode::SGID.as_raw_mode();
        if made.st_mode & special != 0 && FileType::from_raw_mode(made.st_mode).is_file() {
            rustix::fs::chmod(path_of(at).as_path(), Mode::from_raw_mode(made.st_mode))?;
        }
        Ok(())
    }
}

/// The path by which the kernel finds what a descriptor stands for.
fn path_of(fd: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn flags(access: Access) -> OFlags {
    let mut flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
    flags |= match access.write {
        true => OFlags::RDWR,
        false => OFlags::RDONLY,
    };
    flags.set(OFlags::TRUNC, access.truncate);
    flags.set(OFlags::DSYNC, access.sync);
    flags
}

/// Permissions. The system applies the umask where it must.
fn mode(new: NewNode) -> Mode {
    Mode::from_raw_mode(new.mode & 0o7777)
}

/// Setuid, setgid and capabilities do not outlive a change of the content.
fn drop_privileges(file: &impl AsFd) -> Result<()> {
    let mode = rustix::fs::fstat(file)?.st_mode;
    let mut less = mode & !Mode::SUID.as_raw_mode();
    if mode & Mode::XGRP.as_raw_mode() != 0 {
        less &= !Mode::SGID.as_raw_mode();
    }
    if less != mode {
        rustix::fs::fchmod(file, Mode::from_raw_mode(less))?;
    }
    match rustix::fs::fremovexattr(file, "security.capability") {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error),
    }
}

impl FileSystem for PassThrough {
    type File = OwnedFd;
    type Dir = Dir;

    fn lookup(&self, parent: Node, name: &OsStr) -> Result<Attributes> {
        let parent = self.node(parent)?;
        let found = rustix::fs::openat(&*parent, name, NAME_ONLY, Mode::empty())?;
        let attributes = self.attributes_of(&rustix::fs::fstat(&found)?);
        self.nodes.refer(attributes.node, found);
        Ok(attributes)
    }

    fn forget(&self, node: Node, count: u64) {
        if node != ROOT {
            self.nodes.forget(node, count);
        }
    }

    fn attributes(&self, node: Node, file: Option<&OwnedFd>) -> Result<Attributes> {
        let stat = match file {
            Some(file) => rustix::fs::fstat(file)?,
            None => rustix::fs::fstat(self.node(node)?)?,
        };
        Ok(self.attributes_of(&stat))
    }

    fn change(&self, node: Node, file: Option<&OwnedFd>, changes: &Changes) -> Result<Attributes> {
        let at = self.node(node)?;
        let path = path_of(&*at);
        if changes.uid.is_some() || changes.gid.is_some() {
            let (uid, gid) = (
                changes.uid.map(Uid::from_raw),
                changes.gid.map(Gid::from_raw),
            );
            rustix::fs::chownat(&*at, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(size) = changes.size {
            match file {
                Some(file) => rustix::fs::ftruncate(file, size)?,
                None => {
                    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                    let file = rustix::fs::open(path.as_path(), flags, Mode::empty())?;
                    rustix::fs::ftruncate(file, size)?;
                }
            }
        }
        if changes.drop_privileges {
            match file {
                Some(file) => drop_privileges(file)?,
                None => {
                    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                    drop_privileges(&rustix::fs::open(path.as_path(), flags, Mode::empty())?)?;
                }
            }
        }
        if let Some(mode) = changes.mode {
            rustix::fs::chmod(path.as_path(), Mode::from_raw_mode(mode))?;
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(changes.accessed),
                last_modification: timespec(changes.modified),
            };
            rustix::fs::utimensat(CWD, path.as_path(), &times, AtFlags::empty())?;
        }
        Ok(self.attributes_of(&rustix::fs::fstat(&*at)?))
    }

    fn make(&self, parent: Node, name: &OsStr, new: NewNode, device: u64) -> Result<Attributes> {
        let folder = self.node(parent)?;
        match FileType::from_raw_mode(new.mode) {
            FileType::Directory => rustix::fs::mkdirat(&*folder, name, mode(new))?,
            kind => rustix::fs::mknodat(&*folder, name, kind, mode(new), device)?,
        }
        let made = rustix::fs::openat(&*folder, name, NAME_ONLY, Mode::empty())?;
        self.hand_over(&made, &folder, new)?;
        self.lookup(parent, name)
    }

    fn symlink(
        &self,
        parent: Node,
        name: &OsStr,
        target: &OsStr,
        caller: Caller,
    ) -> Result<Attributes> {
        let folder = self.node(parent)?;
        rustix::fs::symlinkat(target, &*folder, name)?;
        let made = rustix::fs::openat(&*folder, name, NAME_ONLY, Mode::empty())?;
        let new = NewNode {
            caller,
            mode: 0o777,
            umask: 0,
        };
        self.hand_over(&made, &folder, new)?;
        self.lookup(parent, name)
    }

    fn readlink(&self, node: Node) -> Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(&*self.node(node)?, "", Vec::new())?;
        Ok(target.into_bytes())
    }

    fn link(&self, node: Node, parent: Node, name: &OsStr) -> Result<Attributes> {
        let (at, folder) = (self.node(node)?, self.node(parent)?);
        let path = path_of(&*at);
        rustix::fs::linkat(CWD, path.as_path(), &*folder, name, AtFlags::SYMLINK_FOLLOW)?;
        self.lookup(parent, name)
    }

    fn unlink(&self, parent: Node, name: &OsStr) -> Result<()> {
        rustix::fs::unlinkat(&*self.node(parent)?, name, AtFlags::empty())
    }

    fn rmdir(&self, parent: Node, name: &OsStr) -> Result<()> {
        rustix::fs::unlinkat(&*self.node(parent)?, name, AtFlags::REMOVEDIR)
    }

    fn rename(&self, from: (Node, &OsStr), to: (Node, &OsStr), flags: RenameFlags) -> Result<()> {
        let (source, target) = (self.node(from.0)?, self.node(to.0)?);
        rustix::fs::renameat_with(&*source, from.1, &*target, to.1, flags)
    }

    fn open(&self, node: Node, access: Access) -> Result<OwnedFd> {
        let path = path_of(&*self.node(node)?);
        let flags = flags(access).difference(OFlags::NOFOLLOW);
        rustix::fs::open(path.as_path(), flags, Mode::empty())
    }

    fn create(
        &self,
        parent: Node,
        name: &OsStr,
        new: NewNode,
        access: Access,
        exclusive: bool,
    ) -> Result<(Attributes, OwnedFd)> {
        let folder = self.node(parent)?;
        let flags = flags(access);
        let made = flags | OFlags::CREATE | OFlags::EXCL;
        let file = match rustix::fs::openat(&*folder, name, made, mode(new)) {
            Ok(file) => {
                self.hand_over(&file, &folder, new)?;
                file
            }
            Err(Errno::EXIST) if !exclusive => {
                rustix::fs::openat(&*folder, name, flags, Mode::empty())?
            }
            Err(error) => return Err(error),
        };
        Ok((self.lookup(parent, name)?, file))
    }

    fn read(&self, file: &OwnedFd, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match pread(file, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(len) => done += len,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write(&self, file: &OwnedFd, offset: u64, data: &[u8], drop_privileges: bool) -> Result<()> {
        if drop_privileges {
            self::drop_privileges(file)?;
        }
        let mut done = 0;
        while done < data.len() {
            match rustix::io::pwrite(file, &data[done..], offset + done as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(len) => done += len,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn fsync(&self, file: &OwnedFd, data_only: bool) -> Result<()> {
        match data_only {
            true => rustix::fs::fdatasync(file),
            false => rustix::fs::fsync(file),
        }
    }

    fn seek(&self, file: &OwnedFd, offset: u64, to: Seek) -> Result<u64> {
        let to = match to {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        rustix::fs::seek(file, to)
    }

    fn allocate(&self, file: &OwnedFd, mode: u32, offset: u64, len: u64) -> Result<()> {
        rustix::fs::fallocate(file, FallocateFlags::from_bits_retain(mode), offset, len)
    }

    fn open_dir(&self, node: Node) -> Result<Dir> {
        let path = path_of(&*self.node(node)?);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path.as_path(), flags, Mode::empty())?;
        Ok(Dir {
            file,
            listed: Mutex::default(),
        })
    }

    fn list(&self, dir: &Dir, offset: u64, add: &mut dyn FnMut(Entry<'_>) -> bool) -> Result<()> {
        let mut listed = dir.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 {
            listed.clear();
            for entry in rustix::fs::Dir::read_from(&dir.file)? {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
                listed.push((name, self.number(entry.ino()), entry.file_type()));
            }
        }
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = listed.iter().enumerate().skip(start);
        for (index, (name, node, kind)) in rest {
            let entry = Entry {
                name,
                node: *node,
                kind: *kind,
                next: index as u64 + 1,
            };
            if !add(entry) {
                break;
            }
        }
        Ok(())
    }

    fn fsync_dir(&self, dir: &Dir) -> Result<()> {
        rustix::fs::fsync(&dir.file)
    }

    fn set_xattr(&self, node: Node, name: &OsStr, value: &[u8], flags: XattrFlags) -> Result<()> {
        let path = path_of(&*self.node(node)?);
        rustix::fs::setxattr(path.as_path(), name, value, flags)
    }

    fn get_xattr(&self, node: Node, name: &OsStr) -> Result<Vec<u8>> {
        let at = self.node(node)?;
        grown(|buffer| rustix::fs::getxattr(path_of(&*at).as_path(), name, buffer))
    }

    fn list_xattrs(&self, node: Node) -> Result<Vec<u8>> {
        let at = self.node(node)?;
        grown(|buffer| rustix::fs::listxattr(path_of(&*at).as_path(), buffer))
    }

    fn remove_xattr(&self, node: Node, name: &OsStr) -> Result<()> {
        let path = path_of(&*self.node(node)?);
        rustix::fs::removexattr(path.as_path(), name)
    }

    fn stat_fs(&self) -> Result<StatVfs> {
        rustix::fs::fstatvfs(&*self.root)
    }
}

/// Reads something whose length is not known before; Linux's limit is 64 KiB.
fn grown(read: impl Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 256];
    loop {
        match read(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < 1 << 16 => buffer.resize(1 << 16, 0),
            Err(error) => return Err(error),
        }
    }
}
