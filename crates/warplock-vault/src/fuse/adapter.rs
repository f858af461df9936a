//! A file system as the FUSE crate wants it, and what several kinds of requests share.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fuser::{FileAttr, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyEntry, Request};

use super::activity::Activity;
use super::convert::{attributes, errno};
use super::handles::Handles;
use super::request::caller;
use super::umask;
use super::writers::Writers;
use super::{Options, Shown};
use crate::fs::{Access, Attributes, Changes, Errno, FileSystem, NewNode, Node, Result};

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
}

/// Less room than this is short: about as much as the kernel keeps of one mount to write later.
const SHORT: u64 = 1 << 30;
/// Programs write no faster than this into the kernel's page cache, in bytes in a nanosecond.
const FASTEST: u64 = 4;
/// The kernel's clock for timeouts may tick no more often.
const KERNEL_TICK: Duration = Duration::from_millis(10);

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
    pub(super) fn file_flags(&self) -> FopenFlags {
        match self.sole {
            true => FopenFlags::FOPEN_KEEP_CACHE,
            false => FopenFlags::empty(),
        }
    }

    /// Whether the kernel is to ask before each write to a file, so that a program hears in time
    /// that there is no room.
    ///
    /// Not by `FOPEN_DIRECT_IO`: with it and a write-back cache, the kernel shows the time of
    /// modification that a file had before.
    pub(super) fn asks_before_writes(&self) -> bool {
        room(&*self.fs) < SHORT
    }

    /// How long the kernel may believe the attributes of a node.
    pub(super) fn timeout_of(&self, node: Node) -> Duration {
        match self.writers.has(node) && self.asks_before_writes() {
            true => Duration::ZERO,
            false => self.timeout,
        }
    }

    /// Answers with the attributes of an open file. Before a write where room is short, once all
    /// that the kernel holds of the file is written; then, for a while, it need not ask.
    pub(super) fn attributes_of_open(&self, node: Node, file: FileHandle, reply: ReplyAttr) {
        let file = self.files.get(file.0).ok();
        if self.writers.take_full(node, room(&*self.fs)) {
            return reply.error(fuser::Errno::ENOSPC);
        }
        let timeout = match self.timeout_of(node) {
            Duration::ZERO => self.writers.may_accept_for(node),
            timeout => timeout,
        };
        if !timeout.is_zero() {
            return match self.fs.attributes(node, file.as_deref()) {
                Ok(found) => reply.attr(&timeout, &self.attributes(&found)),
                Err(error) => reply.error(errno(error)),
            };
        }
        let (fs, writers, shown) = (self.fs.clone(), self.writers.clone(), self.shown);
        // If no thread can start, the reply is dropped, which answers EIO.
        let _ = thread::Builder::new()
            .name("room".to_owned())
            .spawn(move || {
                // Programs that sync hear of its errors.
                let _ = writers.write_back(node);
                let room = room(&*fs);
                let found = match writers.take_full(node, room) {
                    true => Err(Errno::NOSPC),
                    false => fs.attributes(node, file.as_deref()),
                };
                // The kernel takes no attributes from before a write-back. It asks again.
                writers.accept_for(node, until_full(room));
                match found {
                    Ok(found) => reply.attr(&Duration::ZERO, &shown.attributes(&found)),
                    Err(error) => reply.error(errno(error)),
                }
            });
    }

    /// Attributes as this mount shows them.
    pub(super) fn attributes(&self, found: &Attributes) -> FileAttr {
        self.shown.attributes(found)
    }

    pub(super) fn entry(&self, outcome: Result<Attributes>, reply: ReplyEntry) {
        match outcome {
            Ok(found) => {
                let timeout = self.timeout_of(found.node);
                reply.entry(&timeout, &self.attributes(&found), Generation(0));
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    pub(super) fn attr(&self, outcome: Result<Attributes>, reply: ReplyAttr) {
        match outcome {
            Ok(found) => reply.attr(&self.timeout_of(found.node), &self.attributes(&found)),
            Err(error) => reply.error(errno(error)),
        }
    }
}

/// Bytes that can be written to the store.
pub(super) fn room<F: FileSystem>(fs: &F) -> u64 {
    let stat = fs.stat_fs();
    stat.map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// How long the kernel may accept writes without asking if there is so much room.
fn until_full(room: u64) -> Duration {
    match Duration::from_nanos(room / FASTEST) {
        long if long > KERNEL_TICK => long - KERNEL_TICK,
        _ => Duration::ZERO,
    }
}

impl Shown {
    /// Attributes as they are shown.
    fn attributes(self, found: &Attributes) -> FileAttr {
        let mut found = attributes(found);
        let Shown { uid, gid, umask } = self;
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
}
