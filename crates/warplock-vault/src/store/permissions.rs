//! Permissions that the owner of an object in the store lacks. What a mount shows is sealed, so the
//! vault lets the owner use every object in the store; a copy of the store may have lost that.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{self as sys, CWD, FileType, Mode, OFlags};
use rustix::io::{Errno, Result};

/// Opens the object that has a name now, so that a later object of that name is not affected.
pub(crate) fn hold(dir: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    sys::openat(dir, name, flags, Mode::empty())
}

/// Sets the permissions of a held object. A symlink has none.
pub(crate) fn set_mode(held: BorrowedFd<'_>, mode: u32) -> Result<()> {
    if FileType::from_raw_mode(sys::fstat(held)?.st_mode) == FileType::Symlink {
        return Err(Errno::OPNOTSUPP);
    }
    // An `O_PATH` descriptor leaves no other way; the link leads to the object itself.
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    sys::chmodat(
        CWD,
        path,
        Mode::from_raw_mode(mode & 0o7777),
        sys::AtFlags::empty(),
    )
}

/// Runs `action`; if it is denied, grants the owner `wanted` on the object that `hold` returns, and
/// runs it again.
pub(crate) fn granting<F: AsFd, T, E: From<Errno>>(
    hold: impl FnOnce() -> Result<F>,
    wanted: u32,
    denied: impl Fn(&E) -> bool,
    action: impl Fn() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    match action() {
        Err(error) if denied(&error) => match hold().and_then(|held| grant(&held, wanted)) {
            Ok(()) => action(),
            Err(_) => Err(error),
        },
        other => other,
    }
}

fn grant(held: &impl AsFd, wanted: u32) -> Result<()> {
    let stat = sys::fstat(held)?;
    let (kind, mode) = (FileType::from_raw_mode(stat.st_mode), stat.st_mode & 0o7777);
    let ours = matches!(kind, FileType::RegularFile | FileType::Directory);
    if !ours || mode & wanted == wanted {
        return Err(Errno::ACCESS);
    }
    set_mode(held.as_fd(), mode | wanted)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    /// Runs something that is denied once, on the file `entry` next to `outside`; returns the modes
    /// of both afterwards. `before` comes before permissions are granted.
    fn denied_once(before: impl Fn(&Path)) -> (u32, u32) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        for (name, mode) in [("entry", 0o240), ("outside", 0o040)] {
            fs::write(path(name), "").unwrap();
            fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
        let dir = fs::File::open(folder.path()).unwrap().into();
        let held = || {
            before(folder.path());
            hold(&dir, "entry".as_ref())
        };
        let tried = Cell::new(false);
        let denied = |error: &Errno| *error == Errno::ACCESS;
        let _ = granting(held, 0o400, denied, || match tried.replace(true) {
            false => Err(Errno::ACCESS),
            true => Ok(()),
        });
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let entry = ["moved", "entry"].map(path);
        let entry = entry.iter().find(|path| path.exists()).unwrap();
        (mode(entry.clone()), mode(path("outside")))
    }

    #[test]
    fn what_is_missing_is_granted() {
        assert_eq!(denied_once(|_| {}), (0o640, 0o040));
    }

    #[test]
    fn no_symlink_is_followed() {
        let swap = |folder: &Path| {
            fs::rename(folder.join("entry"), folder.join("moved")).unwrap();
            symlink("outside", folder.join("entry")).unwrap();
        };
        assert_eq!(denied_once(swap), (0o240, 0o040));
    }
}
