//! Output files that appear only when they are complete.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Mode, OFlags, fallocate, linkat, openat, statfs, statvfs,
};
use rustix::io::Errno;

use crate::error::Result;
use crate::leftovers::{WorkFile, WorkFolder};
use crate::{Error, memory};

/// A file without its name yet. Dropped without [`Output::publish`], it leaves nothing behind.
pub(crate) struct Output {
    file: File,
    /// Where the file system has no unnamed files.
    temporary: Option<WorkFile>,
    path: PathBuf,
}

impl Output {
    /// An empty file that shall become `path`.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let folder = path.parent().expect("a file in a folder");
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, temporary) = match openat(CWD, folder, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => (File::from(file), None),
            // Depends on file system and kernel.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let (file, temporary) =
                    WorkFile::new(folder).map_err(Error::file("create", path))?;
                (file, Some(temporary))
            }
            Err(error) => return Err(Error::file("create", path)(error.into())),
        };
        Ok(Output {
            file,
            temporary,
            path: path.to_owned(),
        })
    }

    /// The file to write to.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Allocates `len` bytes on the disk, so that a full disk is noticed now instead of in the
    /// middle. File systems that cannot do this report it later.
    pub(crate) fn allocate(&self, len: u64) -> Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Err(Errno::NOSPC | Errno::FBIG | Errno::DQUOT) => {
                Err(no_room(&self.path, len, room(&self.path).unwrap_or(0)))
            }
            _ => Ok(()),
        }
    }

    /// Lets the file appear under its name, after its bytes have reached the disk. An older file
    /// of this name is replaced.
    pub(crate) fn publish(self) -> Result<()> {
        let failed = |error: io::Error| Error::file("write", &self.path)(error);
        self.file.sync_all().map_err(failed)?;
        match self.temporary {
            Some(temporary) => temporary.publish(&self.path),
            None => link(&self.file, &self.path),
        }
        .map_err(failed)
    }
}

/// Gives an unnamed file its name. No system call replaces a named file by an unnamed one, so the
/// older file is removed first.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    let give = || linkat(CWD, &source, CWD, path, AtFlags::SYMLINK_FOLLOW);
    match give() {
        Err(Errno::EXIST) => {
            fs::remove_file(path)?;
            Ok(give()?)
        }
        outcome => Ok(outcome?),
    }
}

/// Refuses if the file system that `path` is on, or would be made on, has less than `len` bytes
/// left.
pub(crate) fn check_room(path: &Path, len: u64) -> Result<()> {
    let left = room(path).map_err(|error| Error::file("look at", path)(error.into()))?;
    if left < len {
        return Err(no_room(path, len, left));
    }
    Ok(())
}

/// Bytes left where `path` is, or would be made.
fn room(path: &Path) -> rustix::io::Result<u64> {
    let there = path.ancestors().find(|path| path.exists());
    let room = statvfs(there.unwrap_or(Path::new(".")))?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// A folder in `dir` that is removed when dropped, with room for `len` bytes; on a RAM disk there
/// must also be as much memory left.
pub(crate) fn work_folder(dir: &Path, len: u64, memory: u64) -> Result<WorkFolder> {
    let folder = WorkFolder::new(dir).map_err(Error::file("make a folder in", dir))?;
    check_room(folder.path(), len)?;
    // A RAM disk takes its room from main memory.
    let is_ram_disk = statfs(dir).is_ok_and(|found| found.f_type as u64 == TMPFS);
    let in_memory = memory.saturating_add(if is_ram_disk { len } else { 0 });
    memory::check(&format!("a run in {}", dir.display()), in_memory)?;
    Ok(folder)
}

/// `TMPFS_MAGIC` of statfs(2).
const TMPFS: u64 = 0x0102_1994;

fn no_room(path: &Path, len: u64, left: u64) -> Error {
    Error::Input(format!(
        "{} needs {} bytes, but only {} are left on its disk; make room, ask for less, or take \
         another folder",
        path.display(),
        crate::table::grouped(len),
        crate::table::grouped(left)
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::leftovers::lists_file_in;

    #[test]
    fn a_file_appears_when_published_and_replaces_an_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for text in ["first", "second"] {
            let output = Output::create(&path).unwrap();
            output.file().write_all(text.as_bytes()).unwrap();
            assert_ne!(fs::read(&path).ok().as_deref(), Some(text.as_bytes()));
            output.publish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
        }
        drop(Output::create(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_with_a_passing_name_is_listed_until_it_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let is_listed = || lists_file_in(folder.path());
        for text in ["first", "second"] {
            let (file, temporary) = WorkFile::new(folder.path()).unwrap();
            assert!(is_listed());
            let output = Output {
                file,
                temporary: Some(temporary),
                path: path.clone(),
            };
            output.file().write_all(text.as_bytes()).unwrap();
            output.publish().unwrap();
            assert!(!is_listed());
            assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
        }
        drop(WorkFile::new(folder.path()).unwrap());
        assert!(!is_listed());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_disk_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let error = check_room(folder.path(), u64::MAX).unwrap_err().to_string();
        assert!(
            error.contains("18,446,744,073,709,551,615 bytes, but only"),
            "{error}"
        );
        check_room(folder.path(), 1).unwrap();
        check_room(&folder.path().join("not/there"), 1).unwrap();
        check_room(Path::new("not/there"), 1).unwrap();
    }
}
