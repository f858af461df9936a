//! Permissions that owners deny themselves, granted for a moment: the vault reads headers of files
//! that their owner may only write, writes those of files that he may only read, and renames and
//! removes folders that he may not write to.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{self as sys, CWD, FileType, Mode, OFlags};
use rustix::io::{Errno, Result};

const SETGID: u32 = 0o2000;

/// Holds what has a name now, so that nothing that gets the name later is meant.
pub(crate) fn hold(dir: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    sys::openat(dir, name, flags, Mode::empty())
}

/// Sets the permissions of what is held. A symlink has none to set.
pub(crate) fn set_mode(held: BorrowedFd<'_>, mode: u32) -> Result<()> {
    if FileType::from_raw_mode(sys::fstat(held)?.st_mode) == FileType::Symlink {
        return Err(Errno::OPNOTSUPP);
    }
    // There is no other way for what is only held; the link leads to the object itself.
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    sys::chmodat(
        CWD,
        path,
        Mode::from_raw_mode(mode & 0o7777),
        sys::AtFlags::empty(),
    )
}

/// Runs `action`; where it is denied, grants the owner's permissions `wanted` on what `hold` gives
/// until `action` has run again.
pub(crate) fn granting<F: AsFd, T, E: From<Errno>>(
    hold: impl FnOnce() -> Result<F>,
    wanted: u32,
    denied: impl Fn(&E) -> bool,
    action: impl Fn() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let error = match action() {
        Err(error) if denied(&error) => error,
        other => return other,
    };
    let Some((held, mode)) = hold().ok().and_then(|held| grant(held, wanted).ok()) else {
        return Err(error);
    };
    let result = action();
    // Unless they were set anew meanwhile. The system may have taken a bit off.
    let now = sys::fstat(&held)?.st_mode & 0o7777;
    if now | SETGID == mode | wanted | SETGID {
        set_mode(held.as_fd(), mode)?;
    }
    result
}

/// Gives what was granted upon, and its permissions before.
fn grant<F: AsFd>(held: F, wanted: u32) -> Result<(F, u32)> {
    let stat = sys::fstat(&held)?;
    let (kind, mode) = (FileType::from_raw_mode(stat.st_mode), stat.st_mode & 0o7777);
    let ours = matches!(kind, FileType::RegularFile | FileType::Directory);
    if !ours || mode & wanted == wanted {
        return Err(Errno::ACCESS);
    }
    set_mode(held.as_fd(), mode | wanted)?;
    Ok((held, mode))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// Runs something that is denied once, on the file `entry` beside `outside`; gives the modes of
    /// both afterwards.
    fn denied_once(before: impl Fn(&Path), during: impl Fn(&Path)) -> (u32, u32) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        for (name, mode) in [("entry", 0o200), ("outside", 0o640)] {
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
        let _ = granting(held, 0o400, denied, || {
            if !tried.replace(true) {
                return Err(Errno::ACCESS);
            }
            assert_eq!(mode(&path("entry")), 0o600);
            during(folder.path());
            Ok(())
        });
        let entry = ["moved", "entry"].map(path);
        let entry = entry.iter().find(|path| path.exists()).unwrap();
        (mode(entry), mode(&path("outside")))
    }

    fn swap(folder: &Path) {
        fs::rename(folder.join("entry"), folder.join("moved")).unwrap();
        symlink("outside", folder.join("entry")).unwrap();
    }

    fn nothing(_: &Path) {}

    #[test]
    fn it_is_for_a_moment() {
        assert_eq!(denied_once(nothing, nothing), (0o200, 0o640));
    }

    #[test]
    fn no_symlink_is_followed() {
        assert_eq!(denied_once(swap, nothing), (0o200, 0o640));
        assert_eq!(denied_once(nothing, swap), (0o200, 0o640));
    }

    #[test]
    fn what_was_set_meanwhile_stays() {
        let set = |folder: &Path| {
            let mode = Permissions::from_mode(0o444);
            fs::set_permissions(folder.join("entry"), mode).unwrap();
        };
        assert_eq!(denied_once(nothing, set), (0o444, 0o640));
    }
}
