//! An output file that appears under its name only when it is complete.
//!
//! Until then it is a draft: a file without a name, or, where the file system has no such files,
//! one with a temporary name. Whatever its final mode, only the owner may read a draft: it may hold
//! plaintext or keys, and what another process has opened it can read for ever.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tempfile::{NamedTempFile, TempPath};
use warplock_keyring::FileAttributes;

use crate::error::{Error, Result};
use crate::sink::Sink;
use crate::system::{self, unnamed};

pub use crate::system::close;

/// The readers of a finished output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As with any other file: what the umask or the folder says, or the replaced file's mode.
    Usual,
    /// Its owner alone.
    Owner,
    /// These permission bits, whatever the umask or the folder says.
    Mode(u32),
}

/// An unfinished output file. Dropped without [`OutputFile::publish`], it leaves nothing behind.
///
/// ```
/// use std::io::Write;
/// use warplock_container::{Access, OutputFile};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("report");
/// let output = OutputFile::create(&path, false, Access::Usual)?;
/// output.file().write_all(b"all of it").unwrap();
/// assert!(!path.exists());
/// output.publish()?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"all of it");
/// # Ok::<(), warplock_container::Error>(())
/// ```
#[derive(Debug)]
pub struct OutputFile {
    place: Place,
    draft: Draft,
    /// When the finished file says that it was modified; `None`: when it was written.
    modified: Option<SystemTime>,
}

impl OutputFile {
    /// An empty draft of the file `path`. If a regular file has this name, it is refused, or with
    /// `replace` replaced in one step when the draft is published; symbolic links to it stay. A
    /// relative path leads from where the process is *then*: a program that changes its folder gives
    /// an absolute one.
    ///
    /// # Errors
    /// [`Error::OutputExists`]; [`Error::OutputUnusable`] for a folder, pipe, device or a symbolic
    /// link to nothing; [`Error::Create`].
    pub fn create(path: impl AsRef<Path>, replace: bool, access: Access) -> Result<Self> {
        let mut place = Place::of(path.as_ref(), replace, access)?;
        let draft = place.draft().map_err(Error::Create)?;
        Ok(OutputFile {
            place,
            draft,
            modified: None,
        })
    }

    /// Gives the finished file these permission bits, but none that it would not have had otherwise:
    /// the umask or the folder, or the mode of a file that it replaces, takes from them.
    pub fn set_mode(&mut self, mode: u32) {
        self.place.mode = self.place.limit.map(|limit| mode & limit);
    }

    /// Gives the finished file this time of modification.
    pub fn set_modified(&mut self, time: SystemTime) {
        self.modified = Some(time);
    }

    /// Gives the finished file what was kept of another one: see [`set_mode`](Self::set_mode) and
    /// [`set_modified`](Self::set_modified).
    pub fn restore(&mut self, attributes: &FileAttributes) {
        self.set_mode(attributes.mode);
        self.set_modified(attributes.modified);
    }

    /// The draft, to be written to.
    pub fn file(&self) -> &File {
        match &self.draft {
            Draft::Unnamed(file) => file,
            Draft::Named(file) => file.as_file(),
        }
    }

    /// The draft, for [`crate::seal`] and [`crate::open`].
    ///
    /// # Errors
    /// [`Error::Write`]: what the system says about the draft.
    pub fn sink(&self) -> Result<Sink<'_>> {
        match &self.draft {
            Draft::Named(file) => Sink::draft(file.as_file()),
            // SAFETY: this process made it, no other has it, and nothing here sets its length
            // before it is published.
            Draft::Unnamed(file) => unsafe { Sink::exclusive_file(file) },
        }
        .map_err(Error::Write)
    }

    /// Lets the finished file appear under its name. Waits until its bytes and name are on the
    /// disk.
    ///
    /// # Errors
    /// [`Error::Write`], [`Error::Create`], and [`Error::OutputExists`] if another process has taken
    /// the name since. Then nothing is left behind.
    pub fn publish(self) -> Result<()> {
        let folder = self.place.folder.clone();
        self.publish_among_others()?;
        sync_folder(&folder);
        Ok(())
    }

    /// As [`OutputFile::publish`], but only the bytes are on the disk for sure: after a crash the
    /// name can be missing. Call [`sync_folder`] when all of a folder's files are there.
    ///
    /// # Errors
    /// Those of [`OutputFile::publish`].
    pub fn publish_among_others(self) -> Result<()> {
        let OutputFile {
            place,
            draft,
            modified,
        } = self;
        match draft {
            Draft::Unnamed(file) => {
                place.finish(&file, None, modified)?;
                place.link(&file)
            }
            Draft::Named(file) => {
                let (file, temporary) = file.into_parts();
                place.finish(&file, Some(&temporary), modified)?;
                close(file).map_err(Error::Write)?;
                place.rename(temporary)
            }
        }
    }

    /// Removes the drafts that have a temporary name, and blocks creating and publishing outputs
    /// from then on: for a process about to end by a signal.
    pub fn abandon_all() {
        let list = named();
        for path in list.iter() {
            let _ = fs::remove_file(path);
        }
        std::mem::forget(list);
    }
}

/// Makes the names in a folder durable; file systems that cannot do this need no error.
pub fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

const FOLDER: &str = "is a folder; name a file";
/// The mode of drafts and of secrets.
const OWNER: u32 = 0o600;
/// The mode that files are made with; the umask or an access list of the folder takes from it.
const USUAL: u32 = 0o666;
/// As [`USUAL`], for programs.
const EXECUTABLE: u32 = 0o777;

/// Named drafts that exist at this moment. The lock must be held to create, publish or remove one.
static NAMED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn named() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is never in a state that a panic could spoil.
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a finished file.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    folder: PathBuf,
    /// The finished file's permission bits; known once there is a draft.
    mode: Option<u32>,
    /// The permission bits that it may have.
    limit: Option<u32>,
    replace: bool,
}

/// See the module.
#[derive(Debug)]
enum Draft {
    Unnamed(File),
    Named(NamedTempFile),
}

impl Place {
    fn of(path: &Path, replace: bool, access: Access) -> Result<Self> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => fs::metadata(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Place::at(path.to_owned(), mode(access, None), replace);
            }
            found => found,
        };
        match found {
            Ok(found) if found.is_file() && !replace => Err(Error::OutputExists),
            Ok(found) if found.is_file() => {
                let path = fs::canonicalize(path).map_err(Error::Create)?;
                Place::at(path, mode(access, Some(&found)), replace)
            }
            Ok(found) => Err(Error::OutputUnusable(match found.is_dir() {
                true => FOLDER,
                false => "is a pipe or device, not a regular file",
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::OutputUnusable(
                "is a symbolic link to nothing; remove it first",
            )),
            Err(error) => Err(Error::Create(error)),
        }
    }

    fn at(path: PathBuf, mode: Option<u32>, replace: bool) -> Result<Self> {
        let folder = match (path.parent(), path.file_name()) {
            (Some(folder), Some(_)) if folder.as_os_str().is_empty() => PathBuf::from("."),
            (Some(folder), Some(_)) => folder.to_owned(),
            _ => return Err(Error::OutputUnusable(FOLDER)),
        };
        Ok(Place {
            path,
            folder,
            mode,
            limit: mode,
            replace,
        })
    }

    /// An empty draft.
    fn draft(&mut self) -> io::Result<Draft> {
        match self.unnamed()? {
            Some(file) => Ok(Draft::Unnamed(file)),
            None => self.draft_named(),
        }
    }

    /// A file without a name, or `None` where there is no such thing.
    fn unnamed(&mut self) -> io::Result<Option<File>> {
        let mode = if self.limit.is_none() {
            EXECUTABLE
        } else {
            OWNER
        };
        let Some(file) = unnamed::create(&self.folder, mode)? else {
            return Ok(None);
        };
        if self.limit.is_none() {
            self.limit_to(system::mode(&file.metadata()?));
            unnamed::set_mode(&file, OWNER);
        }
        Ok(Some(file))
    }

    /// Remembers what the umask or the folder made of [`EXECUTABLE`].
    fn limit_to(&mut self, shown: u32) {
        let limit = *self.limit.get_or_insert(shown & EXECUTABLE);
        self.mode.get_or_insert(limit & USUAL);
    }

    /// A file with a temporary name, which is removed if a signal comes.
    fn draft_named(&mut self) -> io::Result<Draft> {
        let mut list = named();
        let (prefix, folder) = (self.hidden_prefix(), self.folder.clone());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix);
        if self.mode.is_none() {
            let shown = system::shown_mode(&mut builder, &folder, EXECUTABLE)?;
            self.limit_to(shown);
        }
        let file = system::named(&mut builder, &folder, OWNER)?;
        list.push(file.path().to_owned());
        Ok(Draft::Named(file))
    }

    /// The beginning of a temporary file's name.
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
    fn finish(
        &self,
        file: &File,
        draft: Option<&Path>,
        modified: Option<SystemTime>,
    ) -> Result<()> {
        if let Some(time) = modified {
            // Best effort: some file systems cannot store every time.
            let _ = file.set_modified(time);
        }
        if let Some(mode) = self.mode {
            let replaced = self.replace.then_some(&*self.path);
            system::set_mode(file, mode, draft, replaced);
        }
        file.sync_all().map_err(Error::Write)
    }

    /// Gives the unnamed `file` its name.
    fn link(&self, file: &File) -> Result<()> {
        match unnamed::link(file, &self.path) {
            Ok(()) => {}
            Err(error) if is_taken(&error) && self.replace => {
                // No system call replaces a named file by an unnamed one, so it gets a name just
                // before.
                let mut list = named();
                let before = list.len();
                let temporary = tempfile::Builder::new()
                    .prefix(&self.hidden_prefix())
                    .make_in(&self.folder, |name| {
                        list.push(name.to_owned());
                        unnamed::link(file, name)
                    })
                    .map_err(Error::Create)?;
                // The lock is held: a signal waits until this is done.
                temporary
                    .persist(&self.path)
                    .map_err(|error| Error::Create(error.error))?;
                list.truncate(before);
            }
            Err(error) if is_taken(&error) => return Err(Error::OutputExists),
            Err(error) => return Err(Error::Create(error)),
        }
        Ok(())
    }

    /// Gives the named draft its final name.
    fn rename(&self, draft: TempPath) -> Result<()> {
        let mut list = named();
        list.retain(|path| **path != *draft);
        let renamed = if self.replace {
            system::replace(draft, &self.path)
        } else {
            draft
                .persist_noclobber(&self.path)
                .map_err(|error| error.error)
        };
        match renamed {
            Err(error) if is_taken(&error) => Err(Error::OutputExists),
            renamed => renamed.map_err(Error::Create),
        }
    }
}

/// Whether another file has a name.
fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

/// The finished file's mode, as far as it is known before there is a draft.
fn mode(access: Access, replaced: Option<&Metadata>) -> Option<u32> {
    match access {
        Access::Owner => Some(OWNER),
        Access::Mode(mode) => Some(mode & 0o777),
        Access::Usual => replaced.and_then(system::replaced_mode),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write;
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// Publishes an output with the text "new" in either way; returns the draft's mode.
    fn publish(path: &Path, force: bool, named: bool, access: Access) -> Result<u32> {
        let mut place =
            Place::of(path, force, access).or_else(|_| Place::at(path.to_owned(), None, force))?;
        let draft = match named {
            true => place.draft_named().unwrap(),
            false => place.draft().unwrap(),
        };
        assert_eq!(matches!(draft, Draft::Named(_)), named);
        let output = OutputFile {
            place,
            draft,
            modified: None,
        };
        output.file().write_all(b"new").unwrap();
        let mode = output.file().metadata().unwrap().permissions().mode();
        output.publish().map(|()| mode & 0o777)
    }

    #[test]
    fn both_ways_publish_and_refuse_alike() {
        for named in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            let publish = |force| publish(&path, force, named, Access::Usual);
            for force in [false, true] {
                publish(force).unwrap();
                assert_eq!(fs::read(&path).unwrap(), b"new");
                // Another process may be faster: what exists at the end is not replaced.
                fs::write(&path, b"old").unwrap();
                assert!(matches!(publish(false), Err(Error::OutputExists)));
                assert_eq!(fs::read(&path).unwrap(), b"old");
                publish(true).unwrap();
                assert_eq!(fs::read(&path).unwrap(), b"new");
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
                fs::remove_file(&path).unwrap();
            }
            let mut place = Place::at(path.clone(), None, false).unwrap();
            drop(place.draft_named().unwrap());
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn only_a_finished_file_has_its_final_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let plain = folder.path().join("plain");
        fs::write(&plain, b"").unwrap();
        for named in [false, true] {
            let publish = |force, access| publish(&path, force, named, access).unwrap();
            assert_eq!(publish(false, Access::Usual), 0o600);
            assert_eq!(mode(&path), mode(&plain));
            for replaced in [0o600, 0o640, 0o644, 0o400] {
                fs::set_permissions(&path, fs::Permissions::from_mode(replaced)).unwrap();
                assert_eq!(publish(true, Access::Usual), 0o600);
                assert_eq!(mode(&path), replaced);
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            assert_eq!(publish(true, Access::Owner), 0o600);
            assert_eq!(mode(&path), 0o600);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn permissions_that_are_asked_for_are_never_looser_than_usual() {
        let folder = tempfile::tempdir().unwrap();
        let (path, plain) = (folder.path().join("file"), folder.path().join("plain"));
        fs::write(&plain, b"").unwrap();
        // What the umask leaves; the tests run with one that leaves the owner all.
        let usual = mode(&plain) | 0o100;
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5_000);
        for named in [false, true] {
            for (wanted, replaced) in [
                (0o755, None),
                (0o4777, None),
                (0o600, None),
                (0o400, None),
                (0o777, Some(0o600)),
                (0o600, Some(0o644)),
            ] {
                if let Some(mode) = replaced {
                    fs::write(&path, b"old").unwrap();
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                }
                let mut place = Place::of(&path, true, Access::Usual).unwrap();
                let draft = match named {
                    true => place.draft_named().unwrap(),
                    false => place.draft().unwrap(),
                };
                let mut output = OutputFile {
                    place,
                    draft,
                    modified: None,
                };
                output.set_mode(wanted);
                output.set_modified(time);
                output.file().write_all(b"new").unwrap();
                output.publish().unwrap();
                let readable = (usual & 0o444) >> 2;
                let limit = replaced.unwrap_or(usual | readable);
                let found = fs::metadata(&path).unwrap();
                assert_eq!(mode(&path), wanted & limit, "{wanted:o} {replaced:?}");
                assert_eq!(found.permissions().mode() & 0o7000, 0);
                assert_eq!(found.modified().unwrap(), time);
                fs::remove_file(&path).unwrap();
            }
        }
    }

    #[test]
    fn closing_reports_errors() {
        close(tempfile::tempfile().unwrap()).unwrap();
        // SAFETY: no process has this many files open, so no open file is closed.
        let never_open = unsafe { File::from_raw_fd(i32::MAX) };
        assert!(close(never_open).is_err());
    }
}
