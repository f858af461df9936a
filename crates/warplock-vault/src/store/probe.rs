//! What the store's file system lacks. Much of it only the users of a mount miss, and the vault does
//! without; they are told once, in addition to an error number whenever they try.

use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{self as sys, AtFlags, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::core::hex;
use crate::error::{Error, Result};
use crate::format::keys::random;
use crate::format::times::timespec;
use crate::fs::SetTime;
use crate::tree::folder::{RECORD, RECORD_NEW, TEMPORARY};

/// A user and group that root, opening a vault, does not have.
const OTHER: (u32, u32) = (1, 1);

/// What is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacks {
    /// There are none, or the names of a file have different inode numbers, so that they look like
    /// copies (as on sshfs).
    pub(crate) hard_links: bool,
    symlinks: bool,
    /// Owners and times of symlinks cannot be set, or those of what they lead to would be set (as on
    /// sshfs).
    pub(crate) symlink_attributes: bool,
    xattrs: bool,
    /// Owners or permissions are not what they are set to. A mount does not need that: it shows
    /// what is sealed.
    pub(crate) owners: bool,
    /// A time of modification or of access that is set without the other stays as it is (old versions
    /// of libfuse).
    pub(crate) single_times: bool,
    /// Files in a folder that was renamed cannot be read (as on mounts by rclone).
    renames: bool,
}

impl Lacks {
    /// Tries all of it, in a folder such as an interrupted operation leaves. Where there is no room
    /// for that, nothing is known to be missing.
    pub(crate) fn probe(root: &OwnedFd) -> Self {
        let (Ok(folder), Ok(symlink)) = (temporary(), temporary()) else {
            return Lacks::default();
        };
        let mut lacks = Lacks::default();
        // It leads to itself.
        match sys::symlinkat(&symlink, root, &symlink) {
            Ok(()) => lacks.symlink_attributes = !has_attributes(root, &symlink),
            Err(error) => lacks.symlinks = error != Errno::NOSPC,
        }
        let _ = sys::unlinkat(root, &symlink, AtFlags::empty());
        if sys::mkdirat(root, &folder, Mode::RWXU).is_ok() {
            let _ = lacks.probe_folder(root, &folder);
            // The symlink's name is free again.
            let _ = lacks.probe_renames(root, &folder, &symlink);
        }
        lacks
    }

    fn probe_folder(&mut self, root: &OwnedFd, folder: &str) -> rustix::io::Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = sys::openat(root, folder, flags, Mode::empty())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = sys::openat(&dir, RECORD_NEW, flags, Mode::RUSR | Mode::WUSR)?;
        self.hard_links = !has_hard_links(&dir);
        let _ = sys::unlinkat(&dir, RECORD, AtFlags::empty());
        self.xattrs = sys::fsetxattr(&file, "user.warplock", b"1", XattrFlags::empty()).is_err();
        const MODE: u32 = 0o640;
        let _ = sys::fchmod(&file, Mode::from_raw_mode(MODE));
        // Only root gives files away.
        let others = geteuid().is_root();
        if others {
            let (uid, gid) = OTHER;
            let _ = sys::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        }
        let found = sys::fstat(&file)?;
        let kept = !others || (found.st_uid, found.st_gid) == OTHER;
        self.owners = found.st_mode & 0o7777 != MODE || !kept;
        const SECOND: u64 = 1_000_000_000;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(SECOND);
        let times = sys::Timestamps {
            last_access: timespec(None),
            last_modification: timespec(Some(SetTime::To(time))),
        };
        let set = sys::futimens(&file, &times);
        let found = sys::fstat(&file)?;
        self.single_times = set.is_ok() && u64::try_from(found.st_mtime) != Ok(SECOND);
        sys::unlinkat(&dir, RECORD_NEW, AtFlags::empty())
    }

    /// Makes a file in the folder `from`, renames that to `to`, reads the file, and removes both.
    fn probe_renames(&mut self, root: &OwnedFd, from: &str, to: &str) -> rustix::io::Result<()> {
        const CONTENT: &[u8] = b"a folder's record";
        let open = |folder, flags, mode| {
            let folder_flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let dir = sys::openat(root, folder, folder_flags, Mode::empty())?;
            let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = sys::openat(&dir, RECORD, flags, mode)?;
            Ok((dir, file))
        };
        let remove = |folder: &str| {
            let _ = sys::unlinkat(root, format!("{folder}/{RECORD}"), AtFlags::empty());
            sys::unlinkat(root, folder, AtFlags::REMOVEDIR)
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let made = open(from, flags, Mode::RUSR | Mode::WUSR).and_then(|(_, file)| {
            rustix::io::pwrite(&file, CONTENT, 0)?;
            sys::fsync(&file)
        });
        if made
            .and_then(|()| sys::renameat(root, from, root, to))
            .is_err()
        {
            return remove(from);
        }
        let mut found = [0; CONTENT.len()];
        let read = open(to, OFlags::RDONLY, Mode::empty())
            .and_then(|(_, file)| rustix::io::pread(&file, &mut found, 0));
        self.renames = read != Ok(CONTENT.len()) || found != CONTENT;
        remove(to)
    }

    /// Refuses a file system that a vault cannot be written to on.
    pub(crate) fn check_usable(&self) -> Result<()> {
        if !self.renames {
            return Ok(());
        }
        Err(Error::Store {
            what:
                "the store's file system loses the files of a folder that is renamed, so a vault \
                   in it can only be mounted with --read-only; keep the store on another one and \
                   copy it there (for example with `rclone sync`)"
                    .into(),
            source: Errno::OPNOTSUPP.into(),
        })
    }

    /// A sentence about it, unless nothing is missing.
    pub(crate) fn sentence(&self) -> Option<String> {
        let missing: Vec<_> = [
            (self.hard_links, "hard links"),
            (self.symlinks, "symlinks"),
            (self.symlink_attributes, "owners and times of symlinks"),
            (self.xattrs, "extended attributes"),
        ]
        .into_iter()
        .filter_map(|(lacks, name)| lacks.then_some(name))
        .collect();
        if missing.is_empty() {
            return None;
        }
        Some(format!(
            "the store's file system has no {}: programs that ask for them get an error",
            missing.join(", no ")
        ))
    }
}

/// Whether a second name of a file leads to the same inode.
fn has_hard_links(dir: &OwnedFd) -> bool {
    let inode = |name| sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_ino);
    sys::linkat(dir, RECORD_NEW, dir, RECORD, AtFlags::empty()).is_ok()
        && matches!((inode(RECORD_NEW), inode(RECORD)), (Ok(one), Ok(other)) if one == other)
}

/// Whether a symlink's times, and for root its owner, can be set.
fn has_attributes(dir: &OwnedFd, name: &str) -> bool {
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    let times = sys::Timestamps {
        last_access: timespec(Some(SetTime::Now)),
        last_modification: timespec(Some(SetTime::Now)),
    };
    if sys::utimensat(dir, name, &times, nofollow).is_err() {
        return false;
    }
    if !geteuid().is_root() {
        return true;
    }
    let (uid, gid) = OTHER;
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    // A store that keeps no owners at all may refuse.
    match sys::chownat(dir, name, uid, gid, nofollow) {
        Ok(()) => true,
        Err(error) => matches!(error, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS),
    }
}

fn temporary() -> Result<String> {
    Ok(format!("{TEMPORARY}{}", hex(&random::<12>()?)))
}
