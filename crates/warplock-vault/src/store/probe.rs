//! What the store's file system lacks. Much of it only the users of a mount miss, and the vault does
//! without; they are told once, instead of by an error number whenever they try.

use std::os::fd::OwnedFd;

use rustix::fs::{self as sys, AtFlags, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::process::geteuid;

use crate::core::hex;
use crate::error::Result;
use crate::format::keys::random;
use crate::tree::folder::{RECORD, RECORD_NEW, TEMPORARY};

/// What is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacks {
    hard_links: bool,
    symlinks: bool,
    xattrs: bool,
    /// Owners or permissions are not what they are set to. Nobody misses that in a mount, which
    /// shows what is sealed.
    pub(crate) owners: bool,
}

impl Lacks {
    /// Tries all of it, in a folder such as an interrupted operation leaves. Where there is no room
    /// for that, nothing is known to be missing.
    pub(crate) fn probe(root: &OwnedFd) -> Self {
        let (Ok(folder), Ok(symlink)) = (temporary(), temporary()) else {
            return Lacks::default();
        };
        let mut lacks = Lacks {
            symlinks: sys::symlinkat("target", root, &symlink)
                .is_err_and(|error| error != rustix::io::Errno::NOSPC),
            ..Lacks::default()
        };
        if sys::mkdirat(root, &folder, Mode::RWXU).is_ok() {
            let _ = lacks.probe_folder(root, &folder);
            let _ = sys::unlinkat(root, &folder, AtFlags::REMOVEDIR);
        }
        let _ = sys::unlinkat(root, &symlink, AtFlags::empty());
        lacks
    }

    fn probe_folder(&mut self, root: &OwnedFd, folder: &str) -> rustix::io::Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = sys::openat(root, folder, flags, Mode::empty())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = sys::openat(&dir, RECORD_NEW, flags, Mode::RUSR | Mode::WUSR)?;
        self.hard_links = sys::linkat(&dir, RECORD_NEW, &dir, RECORD, AtFlags::empty()).is_err();
        let _ = sys::unlinkat(&dir, RECORD, AtFlags::empty());
        self.xattrs = sys::fsetxattr(&file, "user.warplock", b"1", XattrFlags::empty()).is_err();
        const MODE: u32 = 0o640;
        const OTHER: u32 = 1;
        let _ = sys::fchmod(&file, Mode::from_raw_mode(MODE));
        // Only root gives files away.
        let others = geteuid().is_root();
        if others {
            let _ = sys::fchown(
                &file,
                Some(Uid::from_raw(OTHER)),
                Some(Gid::from_raw(OTHER)),
            );
        }
        let found = sys::fstat(&file)?;
        let kept = !others || (found.st_uid, found.st_gid) == (OTHER, OTHER);
        self.owners = found.st_mode & 0o7777 != MODE || !kept;
        sys::unlinkat(&dir, RECORD_NEW, AtFlags::empty())
    }

    /// A sentence about it, unless nothing is missing.
    pub(crate) fn sentence(&self) -> Option<String> {
        let missing: Vec<_> = [
            (self.hard_links, "hard links"),
            (self.symlinks, "symlinks"),
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

fn temporary() -> Result<String> {
    Ok(format!("{TEMPORARY}{}", hex(&random::<12>()?)))
}
