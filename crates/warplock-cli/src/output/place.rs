//! The name and folder of an output file, and its draft: a file that cannot be seen yet, or, where
//! the file system has no unnamed files, one with a temporary name.
//!
//! Whatever its final mode, only the owner may read a draft: it may hold plaintext or keys, and
//! what another process has opened it can read for ever.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, linkat, openat, stat};
use rustix::io::Errno;
use tempfile::{NamedTempFile, TempPath};

use super::{Access, is_directory};
use crate::failure::{Failure, Result};
use crate::input::Input;

/// The mode of drafts and of secrets.
const OWNER: u32 = 0o600;
/// The mode that files are made with; the umask or an access list of the folder takes from it.
const USUAL: u32 = 0o666;

/// Named drafts that exist at this moment. Whoever holds the lock may create, publish or remove
/// one.
static NAMED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn named() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is never in a state that a panic could spoil.
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every named draft and lets no output be created or published any more: for a process
/// about to die.
pub(crate) fn abandon_all() {
    let list = named();
    for path in list.iter() {
        let _ = fs::remove_file(path);
    }
    std::mem::forget(list);
}

/// Where a finished file shall appear.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    folder: PathBuf,
    /// The finished file's permission bits; known once there is a draft.
    mode: Option<u32>,
    force: bool,
}

/// See the module.
pub(super) enum Draft {
    Unnamed(File),
    Named(NamedTempFile),
}

impl Place {
    /// For a name that is free.
    pub(super) fn new(path: &Path, force: bool, access: Access) -> Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(Failure::error(
                "is a symbolic link to nothing; remove it first",
            ));
        }
        Place::at(path.to_owned(), mode(access, None), force)
    }

    /// For a regular file that is to be replaced. Links to it stay.
    pub(super) fn existing(
        path: &Path,
        force: bool,
        input: Option<&Input>,
        found: &Metadata,
        access: Access,
    ) -> Result<Self> {
        if is_input(input, found) {
            return Err(same_file());
        }
        if !force {
            return Err(exists());
        }
        let path = fs::canonicalize(path).map_err(|error| Failure::io("cannot write", &error))?;
        Place::at(path, mode(access, Some(found)), force)
    }

    pub(super) fn at(path: PathBuf, mode: Option<u32>, force: bool) -> Result<Self> {
        let folder = match (path.parent(), path.file_name()) {
            (Some(folder), Some(_)) if folder.as_os_str().is_empty() => PathBuf::from("."),
            (Some(folder), Some(_)) => folder.to_owned(),
            _ => return Err(is_directory()),
        };
        Ok(Place {
            path,
            folder,
            mode,
            force,
        })
    }

    /// An empty draft.
    pub(super) fn draft(&mut self) -> io::Result<Draft> {
        match self.unnamed()? {
            Some(file) => Ok(Draft::Unnamed(file)),
            None => self.draft_named(),
        }
    }

    /// A file without a name, or `None` where there is no such thing.
    fn unnamed(&mut self) -> io::Result<Option<File>> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match openat(CWD, &self.folder, flags, Mode::from_raw_mode(USUAL)) {
            Ok(file) => File::from(file),
            // By file system and kernel.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Without /proc there is no way to give it a name later.
        if stat(descriptor_path(&file)).is_err() {
            return Ok(None);
        }
        // Without a name it cannot have been opened by another process.
        let usual = file.metadata()?.mode() & 0o777;
        self.mode.get_or_insert(usual);
        let _ = fchmod(&file, Mode::from_raw_mode(OWNER));
        Ok(Some(file))
    }

    /// A file with a temporary name, which is removed if a signal comes.
    pub(super) fn draft_named(&mut self) -> io::Result<Draft> {
        let mut list = named();
        let (prefix, folder) = (self.hidden_prefix(), &self.folder);
        let make = |mode| {
            tempfile::Builder::new()
                .prefix(&prefix)
                .permissions(fs::Permissions::from_mode(mode))
                .tempfile_in(folder)
        };
        if self.mode.is_none() {
            // Another file, which stays empty, tells what the umask or the folder makes of it.
            let usual = make(USUAL)?.as_file().metadata()?.mode() & 0o777;
            self.mode = Some(usual);
        }
        let file = make(OWNER)?;
        list.push(file.path().to_owned());
        Ok(Draft::Named(file))
    }

    /// What the name of a temporary file begins with.
    fn hidden_prefix(&self) -> OsString {
        let mut prefix = OsString::from(".");
        prefix.push(self.path.file_name().unwrap_or_default());
        // Room for the random part within the 255 bytes of a name.
        if prefix.len() > 240 {
            OsString::from(".warplock-")
        } else {
            prefix
        }
    }

    /// Gives a complete draft its final mode and brings everything to the disk, so that no crash
    /// can leave a name without its bytes.
    pub(super) fn finish(&self, file: &File) -> Result<()> {
        if let Some(mode) = self.mode {
            // Best effort: some file systems have no permissions.
            let _ = file.set_permissions(fs::Permissions::from_mode(mode));
        }
        file.sync_all().map_err(|error| Failure::writing(&error))
    }

    /// Gives the unnamed `file` its name.
    pub(super) fn link(&self, file: &File) -> Result<()> {
        let source = descriptor_path(file);
        let give = |name: &Path| linkat(CWD, &source, CWD, name, AtFlags::SYMLINK_FOLLOW);
        match give(&self.path) {
            Ok(()) => {}
            Err(Errno::EXIST) if self.force => {
                // No call replaces a name by an unnamed file, so it gets a name just before.
                let mut list = named();
                let before = list.len();
                let temporary = tempfile::Builder::new()
                    .prefix(&self.hidden_prefix())
                    .make_in(&self.folder, |name| {
                        list.push(name.to_owned());
                        give(name).map_err(io::Error::from)
                    })
                    .map_err(|error| Failure::io("cannot create", &error))?;
                // The lock is held: a signal waits until this is done.
                temporary
                    .persist(&self.path)
                    .map_err(|error| Failure::io("cannot replace", &error.error))?;
                list.truncate(before);
            }
            Err(Errno::EXIST) => return Err(exists()),
            Err(error) => return Err(Failure::io("cannot create", &error.into())),
        }
        self.sync_folder();
        Ok(())
    }

    /// Gives the named draft its final name.
    pub(super) fn rename(&self, draft: TempPath) -> Result<()> {
        let mut list = named();
        list.retain(|path| **path != *draft);
        let renamed = if self.force {
            draft.persist(&self.path)
        } else {
            draft.persist_noclobber(&self.path)
        };
        match renamed {
            Ok(()) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(exists());
            }
            Err(error) => return Err(Failure::io("cannot create", &error.error)),
        }
        drop(list);
        self.sync_folder();
        Ok(())
    }

    /// Makes the new name durable; file systems that cannot do this need no error.
    fn sync_folder(&self) {
        if let Ok(folder) = File::open(&self.folder) {
            let _ = folder.sync_all();
        }
    }
}

/// The finished file's mode, as far as it is known before there is a draft.
fn mode(access: Access, replaced: Option<&Metadata>) -> Option<u32> {
    match access {
        Access::Owner => Some(OWNER),
        Access::Usual => replaced.map(|found| found.mode() & 0o777),
    }
}

pub(super) fn is_input(input: Option<&Input>, output: &Metadata) -> bool {
    input.is_some_and(|input| input.is_same_file(output))
}

pub(super) fn same_file() -> Failure {
    Failure::error("input and output are the same file; give another name with -o")
}

fn exists() -> Failure {
    Failure::error("exists already; --force replaces it").coded("exists")
}

fn descriptor_path(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}
