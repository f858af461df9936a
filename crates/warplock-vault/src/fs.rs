//! What a file system must offer to be mounted: the seam between the vault's logic and FUSE.
//!
//! [`crate::fuse`] serves anything that implements [`FileSystem`]: the vault, and the plain
//! pass-through of the examples, against which the vault's speed is measured. Nodes are numbers,
//! as the kernel sees them; open files and folders are the implementation's own types.

use std::ffi::OsStr;
use std::time::SystemTime;

pub use rustix::fs::{FileType, RenameFlags, StatVfs, StatVfsMountFlags, XattrFlags};
pub use rustix::io::Errno;

/// What an operation gives: `Errno` is all that the kernel wants to know. What more there is to
/// say (which file was changed, what to do) is the implementation's to log.
pub type Result<T> = std::result::Result<T, Errno>;

/// A node: what programs see as the inode number, stable while the kernel knows the node.
pub type Node = u64;

/// The node of the topmost folder.
pub const ROOT: Node = 1;

/// The caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id: the owner of what is created.
    pub uid: u32,
    /// Group id: the group of what is created, unless the folder hands down its own (setgid).
    pub gid: u32,
}

/// How a new file, folder or special file is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Its creator.
    pub caller: Caller,
    /// Type and permissions, without the umask taken off.
    pub mode: u32,
    /// The caller's umask. It is that of the calling thread too, so that handing `mode` to the
    /// system unchanged is right, also where a folder has a default ACL.
    pub umask: u32,
}

/// Attributes, as `stat` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The node.
    pub node: Node,
    /// The device number of the file system that the object is on.
    pub volume: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, of device files.
    pub device: u64,
    /// Length of the content in bytes.
    pub size: u64,
    /// Room taken, in units of 512 bytes.
    pub blocks: u64,
    /// The best unit to read and write, in bytes.
    pub block_size: u32,
    /// Last read.
    pub accessed: SystemTime,
    /// Last change of the content.
    pub modified: SystemTime,
    /// Last change of the attributes.
    pub changed: SystemTime,
}

impl Attributes {
    /// The answer to a lookup of a name that is not there.
    pub(crate) fn nothing() -> Self {
        Attributes {
            node: 0,
            volume: 0,
            mode: 0,
            links: 0,
            uid: 0,
            gid: 0,
            device: 0,
            size: 0,
            blocks: 0,
            block_size: 0,
            accessed: SystemTime::UNIX_EPOCH,
            modified: SystemTime::UNIX_EPOCH,
            changed: SystemTime::UNIX_EPOCH,
        }
    }

    /// What a listing alone tells; unless it is `true`, under a number that is no node's.
    pub(crate) fn named(entry: &Entry<'_>, true_number: bool) -> Self {
        const NO_NODE: Node = 1 << 63;
        Attributes {
            node: match true_number {
                true => entry.node,
                false => entry.node | NO_NODE,
            },
            mode: entry.kind.as_raw_mode(),
            ..Attributes::nothing()
        }
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// This one.
    To(SystemTime),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Permissions (the type stays).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length: cut, or grown by a hole.
    pub size: Option<u64>,
    /// Last read.
    pub accessed: Option<SetTime>,
    /// Last change of the content.
    pub modified: Option<SetTime>,
    /// Last change of anything, as the kernel has it; only with others of these.
    pub changed: Option<SystemTime>,
    /// Setuid, setgid and capabilities must be cleared (the content changes, and the caller may not
    /// keep them).
    pub drop_privileges: bool,
}

/// How a file is opened. Appending is the kernel's work; with its write-back cache it also reads
/// through handles that a program opened for writing alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// For writing, and then also for reading.
    pub write: bool,
    /// Cut to length 0.
    pub truncate: bool,
    /// Each write is durable when it returns (`O_SYNC`, `O_DSYNC`).
    pub sync: bool,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name, also `.` and `..`.
    pub name: &'a OsStr,
    /// Its node number.
    pub node: Node,
    /// Its type.
    pub kind: FileType,
    /// Where listing goes on after it: never 0.
    pub next: u64,
}

/// Where [`FileSystem::seek`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// To the next byte that is not in a hole.
    Data,
    /// To the next hole; the end of the file counts as one.
    Hole,
}

/// A file system. Several threads may call all methods at the same time.
///
/// References: every [`Attributes`] given out by [`lookup`](Self::lookup), [`make`](Self::make),
/// [`symlink`](Self::symlink), [`link`](Self::link) and [`create`](Self::create) counts as one
/// reference of the kernel to its node, until [`forget`](Self::forget). A node keeps its number
/// and its content while it has references, also without a name.
///
/// Permissions are checked by the kernel (`default_permissions`), so these methods do not.
pub trait FileSystem: Send + Sync + 'static {
    /// An open file.
    type File: Send + Sync + 'static;
    /// An open folder.
    type Dir: Send + Sync + 'static;

    /// The node called `name` in the folder `parent`.
    fn lookup(&self, parent: Node, name: &OsStr) -> Result<Attributes>;
    /// Takes `count` references back.
    fn forget(&self, node: Node, count: u64);
    /// The attributes of a node, which may be open as `file`.
    fn attributes(&self, node: Node, file: Option<&Self::File>) -> Result<Attributes>;
    /// Changes attributes, and gives the new ones. Times come last.
    fn change(
        &self,
        node: Node,
        file: Option<&Self::File>,
        changes: &Changes,
    ) -> Result<Attributes>;

    /// Makes a folder (`S_IFDIR`), an empty file or a special file, as `new.mode` says.
    fn make(&self, parent: Node, name: &OsStr, new: NewNode, device: u64) -> Result<Attributes>;
    /// Makes a symlink.
    fn symlink(
        &self,
        parent: Node,
        name: &OsStr,
        target: &OsStr,
        caller: Caller,
    ) -> Result<Attributes>;
    /// Reads a symlink.
    fn readlink(&self, node: Node) -> Result<Vec<u8>>;
    /// Gives a node another name.
    fn link(&self, node: Node, parent: Node, name: &OsStr) -> Result<Attributes>;
    /// Removes a name that is no folder's.
    fn unlink(&self, parent: Node, name: &OsStr) -> Result<()>;
    /// Removes an empty folder.
    fn rmdir(&self, parent: Node, name: &OsStr) -> Result<()>;
    /// Renames; `flags` as for `renameat2`.
    fn rename(&self, from: (Node, &OsStr), to: (Node, &OsStr), flags: RenameFlags) -> Result<()>;

    /// Opens a file.
    fn open(&self, node: Node, access: Access) -> Result<Self::File>;
    /// Makes a file and opens it; opens it if it is there and `exclusive` is not set.
    fn create(
        &self,
        parent: Node,
        name: &OsStr,
        new: NewNode,
        access: Access,
        exclusive: bool,
    ) -> Result<(Attributes, Self::File)>;
    /// Reads into `buffer`; less than all of it only at the end of the file.
    fn read(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Writes all of `data`. `drop_privileges`: also take off setuid, setgid and capabilities.
    fn write(
        &self,
        file: &Self::File,
        offset: u64,
        data: &[u8],
        drop_privileges: bool,
    ) -> Result<()>;
    /// A handle is being closed (several times, if it was duplicated): the last chance to tell
    /// the program of an error. Need not make anything durable. `ENOSYS`: there is never anything
    /// to tell, do not ask again.
    fn flush(&self, file: &Self::File) -> Result<()> {
        let _ = file;
        Err(Errno::NOSYS)
    }
    /// Makes content (and, unless `data_only`, attributes) durable.
    fn fsync(&self, file: &Self::File, data_only: bool) -> Result<()>;
    /// Finds data or holes.
    fn seek(&self, file: &Self::File, offset: u64, to: Seek) -> Result<u64>;
    /// Preallocates, punches or zeroes; `mode` as for `fallocate(2)`. `EOPNOTSUPP` for what
    /// cannot be.
    fn allocate(&self, file: &Self::File, mode: u32, offset: u64, len: u64) -> Result<()>;
    /// The last user of the file is gone; it is dropped next.
    fn release(&self, file: &Self::File) {
        let _ = file;
    }

    /// Opens a folder.
    fn open_dir(&self, node: Node) -> Result<Self::Dir>;
    /// Lists from `offset` on (0: from the start, with what is there now; else an
    /// [`Entry::next`]) until `add` answers false: that entry was not taken.
    fn list(
        &self,
        dir: &Self::Dir,
        offset: u64,
        add: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<()>;
    /// [`lookup`](Self::lookup) of an entry just listed, where that can be done faster.
    fn lookup_listed(
        &self,
        dir: &Self::Dir,
        parent: Node,
        entry: &Entry<'_>,
    ) -> Result<Attributes> {
        let _ = dir;
        self.lookup(parent, entry.name)
    }
    /// Makes the names in a folder durable.
    fn fsync_dir(&self, dir: &Self::Dir) -> Result<()>;

    /// Sets an extended attribute (POSIX ACLs are some: `system.posix_acl_access` and
    /// `system.posix_acl_default` in their binary form).
    fn set_xattr(&self, node: Node, name: &OsStr, value: &[u8], flags: XattrFlags) -> Result<()>;
    /// Reads one; `ENODATA` if there is none.
    fn get_xattr(&self, node: Node, name: &OsStr) -> Result<Vec<u8>>;
    /// The names, each with a zero byte at its end.
    fn list_xattrs(&self, node: Node) -> Result<Vec<u8>>;
    /// Removes one.
    fn remove_xattr(&self, node: Node, name: &OsStr) -> Result<()>;

    /// Room and limits.
    fn stat_fs(&self) -> Result<StatVfs>;
    /// Called every few seconds: time to write what should not wait for longer.
    fn tick(&self) {}
    /// The mount is gone, or about to be although it is in use: finish. What would change anything
    /// afterwards fails. May be called several times.
    fn unmounted(&self) {}
}
