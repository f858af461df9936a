//! Files without a name, which get one when they are complete.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, linkat, openat, stat};
use rustix::io::Errno;

/// A file without a name, with what the umask or the folder makes of `mode`. `None` where there is
/// no such thing.
pub(crate) fn create(folder: &Path, mode: u32) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match openat(CWD, folder, flags, Mode::from_raw_mode(mode)) {
        Ok(file) => File::from(file),
        // By file system and kernel.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Without /proc there is no way to give it a name later.
    static HAS_PROC: AtomicBool = AtomicBool::new(false);
    if !HAS_PROC.load(Relaxed) {
        if stat(path_of(&file)).is_err() {
            return Ok(None);
        }
        HAS_PROC.store(true, Relaxed);
    }
    Ok(Some(file))
}

/// Changes the mode. Without a name, nothing else can have opened it before.
pub(crate) fn set_mode(file: &File, mode: u32) {
    let _ = fchmod(file, Mode::from_raw_mode(mode));
}

/// Gives it a name that nothing has.
pub(crate) fn link(file: &File, name: &Path) -> io::Result<()> {
    Ok(linkat(
        CWD,
        path_of(file),
        CWD,
        name,
        AtFlags::SYMLINK_FOLLOW,
    )?)
}

fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
