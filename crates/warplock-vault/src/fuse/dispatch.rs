//! From the kernel's requests to [`FileSystem`] and back: nothing but translation.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{OFlags, XattrFlags};

use super::adapter::{Adapter, room};
use super::convert::{attributes, errno, set_time};
use super::request::{MAX_REQUEST, access, caller, empty, with_buffer, xattr};
use crate::fs::{Attributes, Changes, Errno, FileSystem, SetTime};

/// Requests that the kernel may have under way by itself: read-ahead and write-back.
const MAX_BACKGROUND: u16 = 64;

impl<F: FileSystem> Filesystem for Adapter<F> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each of these is taken where the kernel has it. Targets of symlinks it must not cache: it
        // would show one under another name that the symlink was given below the mount.
        for wanted in [
            InitFlags::FUSE_WRITEBACK_CACHE,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            // Without it each write asks first whether the file has capabilities to take off.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_DONT_MASK,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(MAX_REQUEST);
        let _ = config.set_max_background(MAX_BACKGROUND);
        if let Err(largest) = config.set_max_readahead(MAX_REQUEST) {
            let _ = config.set_max_readahead(largest);
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.fs.unmounted();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.activity.touch();
        match self.fs.lookup(parent.0, name) {
            // Node 0: the kernel may remember that there is no such name.
            Err(Errno::NOENT) if self.sole => {
                let nothing = attributes(&Attributes::nothing());
                reply.entry(&self.timeout, &nothing, Generation(0));
            }
            outcome => self.entry(outcome, reply),
        }
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.fs.forget(node.0, count);
    }

    fn getattr(&self, _: &Request, node: INodeNo, file: Option<FileHandle>, reply: ReplyAttr) {
        match file {
            Some(file) => self.attributes_of_open(node.0, file, reply),
            None => self.attr(self.fs.attributes(node.0, None), reply),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        file: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.activity.touch();
        let file = file.and_then(|file| self.files.get(file.0).ok());
        let changes = Changes {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            accessed: atime.map(set_time),
            modified: mtime.map(set_time),
            changed: ctime,
            // The kernel says whether the caller may keep them; fuser does not hand that on. Root
            // may, others may not.
            drop_privileges: size.is_some() && request.uid() != 0,
        };
        match changes.modified {
            Some(SetTime::To(modified)) => self.writers.note_times(node.0, (modified, ctime)),
            _ if size.is_some() => self.writers.note_sent(node.0, false),
            _ => {}
        }
        self.attr(self.fs.change(node.0, file.as_deref(), &changes), reply);
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        match self.fs.readlink(node.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let new = self.new_node(request, mode, mask);
        self.entry(self.fs.make(parent.0, name, new, device.into()), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        reply: ReplyEntry,
    ) {
        let mode = mode | rustix::fs::FileType::Directory.as_raw_mode();
        let new = self.new_node(request, mode, mask);
        self.entry(self.fs.make(parent.0, name, new, 0), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.activity.touch();
        empty(self.fs.unlink(parent.0, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.activity.touch();
        empty(self.fs.rmdir(parent.0, name), reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.activity.touch();
        let made = self
            .fs
            .symlink(parent.0, name, target.as_os_str(), caller(request));
        self.entry(made, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.activity.touch();
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        empty(self.fs.rename(from, to, flags), reply);
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.activity.touch();
        self.entry(self.fs.link(node.0, parent.0, name), reply);
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.activity.touch();
        let access = access(flags.0);
        let opened = self.fs.open(node.0, access).and_then(|file| {
            if access.truncate {
                self.drop_privileges(request, node.0, &file)?;
            }
            Ok(file)
        });
        match opened {
            Ok(file) => {
                let handle = self.opened(node.0, file, access);
                if access.write && self.asks_before_writes() {
                    self.writers.forget_attributes(node.0);
                }
                reply.opened(handle, self.file_flags());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let new = self.new_node(request, mode, mask);
        let exclusive = OFlags::from_bits_retain(flags.cast_unsigned()).contains(OFlags::EXCL);
        let access = access(flags);
        let created = self.fs.create(parent.0, name, new, access, exclusive);
        let created = created.and_then(|(made, file)| {
            if access.truncate && request.uid() != 0 {
                self.drop_privileges(request, made.node, &file)?;
                return Ok((self.fs.attributes(made.node, Some(&file))?, file));
            }
            Ok((made, file))
        });
        match created {
            Ok((made, file)) => {
                let handle = self.opened(made.node, file, access);
                let made = self.attributes(&made);
                let timeout = self.timeout_of(made.ino.0);
                reply.created(&timeout, &made, Generation(0), handle, self.file_flags());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        file: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.activity.touch();
        with_buffer(size as usize, |buffer| {
            match self.with_file(file, |file| self.fs.read(file, offset, buffer)) {
                Ok(len) => reply.data(&buffer[..len]),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.activity.touch();
        let drop_privileges = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let kept = flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        self.writers.note_sent(node.0, kept);
        let write = |file: &F::File| {
            let shown = drop_privileges && self.has_privileges(node.0, file)?;
            self.fs.write(file, offset, data, drop_privileges)?;
            if shown {
                self.writers.forget_attributes(node.0);
            }
            Ok(())
        };
        let written = self.with_file(file, write);
        if self.writers.wrote(data.len()) && self.asks_before_writes() {
            self.writers.ask_before_writes();
        }
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => {
                if error == Errno::NOSPC && kept {
                    self.writers.note_full(node.0, room(&*self.fs));
                }
                reply.error(errno(error));
            }
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, file: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        empty(self.with_file(file, |file| self.fs.flush(file)), reply);
    }

    fn release(
        &self,
        _: &Request,
        node: INodeNo,
        file: FileHandle,
        flags: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if let Some(file) = self.files.remove(file.0) {
            let write = access(flags.0).write;
            if write && let Some((modified, changed)) = self.writers.take_times(node.0) {
                let times = Changes {
                    modified: Some(SetTime::To(modified)),
                    changed,
                    ..Changes::default()
                };
                // Without it, the time is that at which the pages came. The content is right.
                let _ = self.fs.change(node.0, Some(&file), &times);
            }
            self.fs.release(&file);
            self.activity.closed();
            if write {
                self.writers.remove(node.0);
            }
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, file: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.activity.touch();
        empty(
            self.with_file(file, |file| self.fs.fsync(file, data_only)),
            reply,
        );
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.activity.touch();
        match self.fs.open_dir(node.0) {
            Ok(dir) => {
                let handle = self.dirs.add(dir);
                self.activity.opened();
                // The kernel must not keep listings: once it forgets a part, under pressure for
                // memory, it asks for the rest with positions of another handle's listing.
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        dir: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.list(dir, offset, &mut reply);
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        node: INodeNo,
        dir: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.list_with_attributes(node.0, dir, offset, &mut reply);
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        dir: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        if self.dirs.remove(dir.0).is_some() {
            self.activity.closed();
        }
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, dir: FileHandle, _: bool, reply: ReplyEmpty) {
        let dir = self.dirs.get(dir.0);
        empty(dir.and_then(|dir| self.fs.fsync_dir(&dir)), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.fs.stat_fs() {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        self.activity.touch();
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        empty(self.fs.set_xattr(node.0, name, value, flags), reply);
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        xattr(self.fs.get_xattr(node.0, name), size, reply);
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        xattr(self.fs.list_xattrs(node.0), size, reply);
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.activity.touch();
        empty(self.fs.remove_xattr(node.0, name), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.activity.touch();
        let allocate = |file: &F::File| {
            self.fs.allocate(file, mode.cast_unsigned(), offset, len)?;
            self.drop_privileges(request, node.0, file)
        };
        empty(self.with_file(file, allocate), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.seek(node.0, file, offset, whence, reply);
    }
}
