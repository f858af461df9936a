//! The vault's interface to the file system with the ciphertext.
//!
//! All of the vault's input and output goes through [`Storage`], so that tests can log it, cut it
//! off anywhere, or make it fail. Objects are reached without races: relative to open folders, and
//! never through symlinks.

use std::ffi::{OsStr, OsString};
use std::io::Result;

use crate::fs::{
    Attributes, Changes, FileType, RenameFlags, StatVfs, StatVfsMountFlags, XattrFlags,
};

/// An object whose attributes are meant.
pub enum At<'a, S: Storage> {
    /// An open file.
    File(&'a S::File),
    /// An open folder.
    Dir(&'a S::Dir),
    /// Whatever has this name in a folder; a symlink itself, not what it points to.
    Name(&'a S::Dir, &'a OsStr),
}

impl<S: Storage> Clone for At<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Storage> Copy for At<'_, S> {}

/// Identifies an object of a store. Inode numbers alone do not: each volume has its own, and a
/// store may span several (mounts in it, subvolumes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Inode {
    /// The volume's device number.
    pub(crate) volume: u64,
    /// The number there.
    pub(crate) number: u64,
}

impl Attributes {
    /// The object whose attributes a [`Storage`] gave.
    pub(crate) fn inode(&self) -> Inode {
        Inode {
            volume: self.volume,
            number: self.node,
        }
    }
}

/// A name found in a folder.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The name in the store.
    pub name: OsString,
    /// The inode number.
    pub inode: u64,
    /// The type.
    pub kind: FileType,
}

/// A file system to store ciphertext in. Several threads may call all methods at the same time.
///
/// Errors are the system's; names never contain a slash.
pub trait Storage: Send + Sync + Sized + 'static {
    /// An open folder; it stays the same folder when it is renamed.
    type Dir: Send + Sync + 'static;
    /// An open file; it stays the same file when it is renamed or unlinked.
    type File: Send + Sync + 'static;

    /// The topmost folder.
    fn root(&self) -> Result<Self::Dir>;
    /// Opens a folder.
    fn open_dir(&self, dir: &Self::Dir, name: &OsStr) -> Result<Self::Dir>;
    /// Makes a folder.
    fn make_dir(&self, dir: &Self::Dir, name: &OsStr, mode: u32) -> Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, dir: &Self::Dir, name: &OsStr) -> Result<()>;
    /// Everything in a folder, without `.` and `..`.
    fn list(&self, dir: &Self::Dir) -> Result<Vec<Listed>>;

    /// Opens a regular file, for reading or for both.
    fn open(&self, dir: &Self::Dir, name: &OsStr, write: bool) -> Result<Self::File>;
    /// Makes a regular file, which must not exist, and opens it for both.
    fn create(&self, dir: &Self::Dir, name: &OsStr, mode: u32) -> Result<Self::File>;
    /// Makes a symlink.
    fn make_symlink(&self, dir: &Self::Dir, name: &OsStr, target: &[u8]) -> Result<()>;
    /// Reads a symlink.
    fn read_symlink(&self, dir: &Self::Dir, name: &OsStr) -> Result<Vec<u8>>;
    /// Gives a file another name.
    fn link(&self, from: (&Self::Dir, &OsStr), to: (&Self::Dir, &OsStr)) -> Result<()>;
    /// Removes a name that is not a folder's.
    fn unlink(&self, dir: &Self::Dir, name: &OsStr) -> Result<()>;
    /// Renames, atomically.
    fn rename(
        &self,
        from: (&Self::Dir, &OsStr),
        to: (&Self::Dir, &OsStr),
        flags: RenameFlags,
    ) -> Result<()>;

    /// The attributes; `node` is the inode number, `size` that of the ciphertext.
    fn attributes(&self, at: At<'_, Self>) -> Result<Attributes>;
    /// Changes owner, permissions and times (in this order). `size` and `drop_privileges` are
    /// not for this method.
    fn change(&self, at: At<'_, Self>, changes: &Changes) -> Result<()>;

    /// Sets owner and permissions of a new object, as far as the file system supports them.
    fn dress(&self, at: At<'_, Self>, changes: &Changes) -> Result<()> {
        self.change(at, changes)
    }

    /// Reads at an offset; fewer bytes than asked for only at the end of the file.
    fn read_at(&self, file: &Self::File, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes all of `data` at an offset.
    fn write_at(&self, file: &Self::File, data: &[u8], offset: u64) -> Result<()>;
    /// Cuts or extends (with zeros) a file.
    fn set_len(&self, file: &Self::File, len: u64) -> Result<()>;
    /// Allocates a range, without a change of length.
    fn allocate(&self, file: &Self::File, offset: u64, len: u64) -> Result<()>;
    /// Turns a range into zeros, and frees its space if the file system can.
    fn punch(&self, file: &Self::File, offset: u64, len: u64) -> Result<()>;
    /// The next offset, from this one on, that may hold anything but zeros; `None` if there is
    /// none before the end. May always answer `offset` itself.
    fn next_data(&self, file: &Self::File, offset: u64) -> Result<Option<u64>>;

    /// Makes a file's content and length durable, and with `metadata` its attributes.
    fn sync(&self, file: &Self::File, metadata: bool) -> Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Self::Dir) -> Result<()>;
    /// Makes everything durable that was written until now.
    fn sync_all(&self) -> Result<()>;

    /// Reads an extended attribute.
    fn get_xattr(&self, at: At<'_, Self>, name: &OsStr) -> Result<Vec<u8>>;
    /// Sets an extended attribute.
    fn set_xattr(
        &self,
        at: At<'_, Self>,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()>;
    /// The names of the extended attributes, each with a zero byte at its end.
    fn list_xattrs(&self, at: At<'_, Self>) -> Result<Vec<u8>>;
    /// Removes an extended attribute.
    fn remove_xattr(&self, at: At<'_, Self>, name: &OsStr) -> Result<()>;

    /// Runs `action` in an open folder. If it is denied and the missing permissions are ours to
    /// grant, the folder gets them.
    ///
    /// # Errors
    /// Those of `action`.
    fn permitted<T>(
        &self,
        _dir: &Self::Dir,
        action: impl Fn() -> crate::Result<T>,
    ) -> crate::Result<T> {
        action()
    }

    /// Free space and limits, and whether anything can be changed.
    fn stat_fs(&self) -> Result<StatVfs>;

    /// The vault was closed properly.
    fn closed(&self) {}
}

/// Whether the store's file system is read-only.
pub(crate) fn cannot_change<S: Storage>(storage: &S) -> Result<bool> {
    let flags = storage.stat_fs()?.f_flag;
    Ok(flags.contains(StatVfsMountFlags::RDONLY))
}
