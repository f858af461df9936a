//! What this crate asks of a Unix. `windows.rs` has the same functions for Windows.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Gid, OFlags, Uid, fchown, fcntl_getfl};
use tempfile::{Builder, NamedTempFile, TempPath};

/// Reads some bytes from a position on.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// Writes some bytes from a position on.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

/// What is known of a regular file; `None` for pipes, devices and folders.
pub(crate) fn regular(file: &File) -> io::Result<Option<Metadata>> {
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some(metadata))
}

/// Whether a regular file has a byte at the end of the length that it claims.
pub(crate) fn has_length(file: &File, len: u64) -> bool {
    let Some(last) = len.checked_sub(1) else {
        return false;
    };
    let read = |byte: &mut [u8], _| file.read_at(byte, last);
    matches!(crate::source::read_full(read, &mut [0], || false), Ok(1))
}

/// Whether a file can be written at any position: one that was opened to append cannot.
pub(crate) fn is_positioned(file: &File) -> io::Result<bool> {
    Ok(regular(file)?.is_some() && !fcntl_getfl(file)?.contains(OFlags::APPEND))
}

/// Whether an open file is the one that has this name.
pub(crate) fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    let (file, named) = (file.metadata()?, fs::metadata(path)?);
    Ok((file.dev(), file.ino()) == (named.dev(), named.ino()))
}

/// How many names a file has.
pub(crate) fn link_count(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.nlink())
}

/// Gives `to` the owner of `from`. A process that may not change owners becomes the owner, as of
/// any other file that it replaces.
pub(crate) fn copy_owner(from: &File, to: &File) -> io::Result<()> {
    let old = from.metadata()?;
    let (user, group) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
    let _ = fchown(to, Some(user), Some(group));
    Ok(())
}

/// A file's permission bits.
pub(crate) fn mode(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o777
}

/// The permission bits of a file that is to be replaced, which its successor has too.
pub(crate) fn replaced_mode(metadata: &Metadata) -> Option<u32> {
    Some(mode(metadata))
}

/// A new file with a temporary name, with what the umask or the folder makes of a mode.
pub(crate) fn named(
    builder: &mut Builder<'_, '_>,
    folder: &Path,
    mode: u32,
) -> io::Result<NamedTempFile> {
    let permissions = Permissions::from_mode(mode);
    builder.permissions(permissions).tempfile_in(folder)
}

/// What the umask or the folder makes of a mode: another file, which stays empty, shows it.
pub(crate) fn shown_mode(
    builder: &mut Builder<'_, '_>,
    folder: &Path,
    wanted: u32,
) -> io::Result<u32> {
    Ok(mode(&named(builder, folder, wanted)?.as_file().metadata()?))
}

/// Gives a complete draft its final mode, as far as the file system has permissions.
pub(crate) fn set_mode(file: &File, mode: u32, _draft: Option<&Path>, _replaced: Option<&Path>) {
    let _ = file.set_permissions(Permissions::from_mode(mode));
}

/// Gives a draft its final name, in place of an older file.
pub(crate) fn replace(draft: TempPath, path: &Path) -> io::Result<()> {
    draft.persist(path).map_err(|error| error.error)
}

/// Closes `file`, and says what dropping it would not: file systems that write late, such as
/// network file systems, may report a failed write only here.
///
/// # Errors
/// What the system says.
pub fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor was owned by `file` alone, which has just given it up.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // Linux has closed it all the same.
        error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        error => Err(error),
    }
}
