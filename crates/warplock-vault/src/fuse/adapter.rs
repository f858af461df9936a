//! A file system as the FUSE crate wants it, and what several kinds of requests share.

use std::sync::Arc;
use std::time::Duration;

use fuser::{FileAttr, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyEntry, Request};

use super::activity::Activity;
use super::convert::{attributes, errno};
use super::handles::Handles;
use super::request::caller;
use super::umask;
use super::writers::Writers;
use super::{Options, Shown};
use crate::fs::{Access, Attributes, Changes, FileSystem, NewNode, Node, Result};

/// A file system in the terms of the FUSE crate.
pub(super) struct Adapter<F: FileSystem> {
    pub(super) fs: Arc<F>,
    pub(super) files: Handles<F::File>,
    pub(super) dirs: Handles<F::Dir>,
    pub(super) activity: Arc<Activity>,
    pub(super) writers: Arc<Writers>,
    /// How long the kernel may believe what it was told.
    pub(super) timeout: Duration,
    /// Nothing but this mount changes the files: the kernel may keep what it has read.
    pub(super) sole: bool,
    shown: Shown,
    /// Whether the kernel can map files into memory that are written through.
    pub(super) maps_direct: bool,
}

/// Less room than this is short: about as much as the kernel keeps of one mount to write later.
const SHORT: u64 = 1 << 30;

impl<F: FileSystem> Adapter<F> {
    pub(super) fn new(
        fs: Arc<F>,
        activity: Arc<Activity>,
        writers: Arc<Writers>,
        timeout: Duration,
        options: &Options,
    ) -> Self {
        Adapter {
            fs,
            files: Handles::new(),
            dirs: Handles::new(),
            activity,
            writers,
            timeout,
            sole: options.sole,
            shown: options.shown,
            maps_direct: false,
        }
    }

    /// Keeps an open file; the handle's number.
    pub(super) fn opened(&self, node: Node, file: F::File, access: Access) -> FileHandle {
        if access.write {
            self.writers.add(node);
        }
        self.activity.opened();
        FileHandle(self.files.add(file))
    }

    /// What a request asks to be made, by a thread that has taken on the caller's umask.
    pub(super) fn new_node(&self, request: &Request, mode: u32, mask: u32) -> NewNode {
        self.activity.touch();
        umask::take_on(mask);
        NewNode {
            caller: caller(request),
            mode,
            umask: mask,
        }
    }

    /// Runs `work` on the open file `handle`.
    pub(super) fn with_file<T>(
        &self,
        handle: FileHandle,
        work: impl FnOnce(&F::File) -> Result<T>,
    ) -> Result<T> {
        work(&*self.files.get(handle.0)?)
    }

    /// Whether a file has bits that a change of its content by others takes off.
    pub(super) fn has_privileges(&self, node: Node, file: &F::File) -> Result<bool> {
        const SETUID_SETGID: u32 = 0o6000;
        Ok(self.fs.attributes(node, Some(file))?.mode & SETUID_SETGID != 0)
    }

    /// Takes setuid, setgid and capabilities off a file whose content changed, as the system does
    /// for all but root. Of these changes the kernel does not say so itself.
    pub(super) fn drop_privileges(
        &self,
        request: &Request,
        node: Node,
        file: &F::File,
    ) -> Result<()> {
        if request.uid() == 0 {
            return Ok(());
        }
        let shown = self.has_privileges(node, file)?;
        let changes = Changes {
            drop_privileges: true,
            ..Changes::default()
        };
        self.fs.change(node, Some(file), &changes)?;
        if shown {
            self.writers.forget_attributes(node);
        }
        Ok(())
    }

    /// How the kernel is to treat a file that is opened.
    ///
    /// What it keeps in its cache to write later it accepts without asking: that there is no room
    /// shows at fsync or close, or never. So where room is short, files are written through.
    pub(super) fn file_flags(&self, access: Access) -> FopenFlags {
        let through = access.write && self.maps_direct && self.is_short_of_room();
        match (through, self.sole) {
            (true, _) => FopenFlags::FOPEN_DIRECT_IO,
            (false, true) => FopenFlags::FOPEN_KEEP_CACHE,
            (false, false) => FopenFlags::empty(),
        }
    }

    fn is_short_of_room(&self) -> bool {
        let stat = self.fs.stat_fs();
        stat.is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) < SHORT)
    }

    /// Attributes as this mount shows them.
    pub(super) fn attributes(&self, found: &Attributes) -> FileAttr {
        let mut found = attributes(found);
        let Shown { uid, gid, umask } = self.shown;
        found.uid = uid.unwrap_or(found.uid);
        found.gid = gid.unwrap_or(found.gid);
        if uid.is_some() || gid.is_some() {
            // They were given to programs of another owner.
            found.perm &= 0o1777;
        }
        if let Some(umask) = umask
            && found.kind != fuser::FileType::Symlink
        {
            let executable = found.perm & 0o111 != 0 || found.kind == fuser::FileType::Directory;
            let all = if executable { 0o777 } else { 0o666 };
            found.perm = all & !(umask as u16);
        }
        found
    }

    pub(super) fn entry(&self, outcome: Result<Attributes>, reply: ReplyEntry) {
        match outcome {
            Ok(found) => reply.entry(&self.timeout, &self.attributes(&found), Generation(0)),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn attr(&self, outcome: Result<Attributes>, reply: ReplyAttr) {
        match outcome {
            Ok(found) => reply.attr(&self.timeout, &self.attributes(&found)),
            Err(error) => reply.error(errno(error)),
        }
    }
}
