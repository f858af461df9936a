//! What this crate asks of Windows. `unix.rs` has the same functions for Unix.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use tempfile::{Builder, NamedTempFile, TempPath};
use winapi_util::file::{information, typ};

use super::access_list;

/// Reads some bytes from a position on. The file's own position moves.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// Writes some bytes from a position on. The file's own position moves.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

/// What is known of a regular file; `None` for pipes, devices and folders.
pub(crate) fn regular(file: &File) -> io::Result<Option<Metadata>> {
    // Of other things there is no metadata.
    if !typ(file)?.is_disk() {
        return Ok(None);
    }
    let metadata = file.metadata()?;
    Ok(metadata.is_file().then_some(metadata))
}

/// Whether a regular file has the length that it claims, which it has if that is not 0.
pub(crate) fn has_length(_: &File, len: u64) -> bool {
    len > 0
}

/// Whether a file can be written at any position. Nothing tells which was opened to append.
pub(crate) fn is_positioned(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Whether an open file is the one that has this name.
pub(crate) fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    // To look at it needs no access.
    let named = OpenOptions::new().access_mode(0).open(path)?;
    let (file, named) = (information(file)?, information(&named)?);
    let place =
        |found: &winapi_util::file::Information| (found.volume_serial_number(), found.file_index());
    Ok(place(&file) == place(&named))
}

/// How many names a file has.
pub(crate) fn link_count(file: &File) -> io::Result<u64> {
    Ok(information(file)?.number_of_links())
}

/// Changing owners is for administrators: this process's user is the owner.
pub(crate) fn copy_owner(_: &File, _: &File) -> io::Result<()> {
    Ok(())
}

/// The permission bits that a file gets elsewhere: those of any new file.
pub(crate) fn mode(_: &Metadata) -> u32 {
    0o666
}

/// Its successor has the access list instead.
pub(crate) fn replaced_mode(_: &Metadata) -> Option<u32> {
    None
}

/// A new file with a temporary name, which its owner alone can open, whatever the mode.
pub(crate) fn named(
    builder: &mut Builder<'_, '_>,
    folder: &Path,
    _: u32,
) -> io::Result<NamedTempFile> {
    builder.make_in(folder, access_list::create_private)
}

/// There is no umask, and folders hand down lists.
pub(crate) fn shown_mode(_: &mut Builder<'_, '_>, _: &Path, wanted: u32) -> io::Result<u32> {
    Ok(wanted)
}

/// Opens a complete draft to others, if its mode does: to those of the file that it replaces, or to
/// those of its folder. Where that cannot be done, it stays the owner's alone.
pub(crate) fn set_mode(_: &File, mode: u32, draft: Option<&Path>, replaced: Option<&Path>) {
    let Some(draft) = draft.filter(|_| mode & 0o077 != 0) else {
        return;
    };
    let _ = match replaced.filter(|path| path.exists()) {
        Some(replaced) => access_list::copy(replaced, draft),
        None => access_list::inherit(draft),
    };
}

/// Gives a draft its final name, in place of an older file, even one that is open.
pub(crate) fn replace(draft: TempPath, path: &Path) -> io::Result<()> {
    let draft = draft.keep().map_err(|error| error.error)?;
    fs::rename(&draft, path).inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// Closes `file`. On Windows that has no errors.
///
/// # Errors
/// None; on Unix, what the system says.
pub fn close(file: File) -> io::Result<()> {
    drop(file);
    Ok(())
}
