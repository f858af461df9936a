//! Where the bytes go. A regular file appears only when it is complete, and an existing one is
//! replaced only on request; everything else (standard output, pipes, devices) is written
//! directly.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fcntl_getfl, linkat, openat, stat};
use rustix::io::{Errno, FdFlags, fcntl_getfd};
use tempfile::NamedTempFile;
use warplock_container::Sink;
use warplock_keyring::shown_name;

use crate::closed::was_closed;
use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash};

/// Named temporary files that exist at this moment. Whoever holds the lock may create, publish or
/// remove one.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is never in a state that a panic could spoil.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every named temporary file and lets no output be created or published any more: for
/// a process about to die.
pub(crate) fn abandon_all() {
    let list = unfinished();
    for path in list.iter() {
        let _ = fs::remove_file(path);
    }
    std::mem::forget(list);
}

/// An output under way. Dropped without [`Output::publish`], it leaves nothing behind, except for
/// what was written directly.
#[derive(Debug)]
pub(crate) struct Output {
    /// Its name in messages.
    pub(crate) name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Standard output, a pipe or a device.
    Direct(File),
    /// A file without a name: gone with the process, however that ends.
    Unnamed(File, Place),
    /// Where the file system has no unnamed files.
    Named(NamedTempFile, Place),
}

/// Where a finished file shall appear.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    folder: PathBuf,
    /// Permission bits of the file that is to be replaced.
    replaced: Option<u32>,
    force: bool,
}

impl Output {
    /// Prepares the output `path` (`-`: standard output), or refuses it before any work is done.
    /// `input` is what it is made from, if a file.
    pub(crate) fn create(path: &Path, force: bool, input: Option<&Input>) -> Result<Self> {
        let is_stdout = is_dash(path) || descriptor(path) == Some(1);
        let name = |of_file: String| match is_stdout {
            true => "stdout".to_owned(),
            false => of_file,
        };
        match Output::open(path, force, input) {
            Ok(kind) => Ok(Output {
                name: name(path.display().to_string()),
                kind,
            }),
            Err(failure) => Err(failure.about(name(shown_name(path)))),
        }
    }

    fn open(path: &Path, force: bool, input: Option<&Input>) -> Result<Kind> {
        if is_dash(path) {
            if was_closed(1) {
                return Err(Failure::error("is closed; name a file with -o"));
            }
            return shared(io::stdout().as_fd(), input);
        }
        // Whoever names a descriptor has opened it for this purpose.
        if let Some(number) = descriptor(path) {
            let not_open = "is not open; let the shell open it, as in: 3> FILE";
            let is_open = || Path::new("/dev/fd").join(number.to_string()).exists();
            if was_closed(number) || !is_open() {
                return Err(Failure::error(not_open));
            }
            // SAFETY: it is open, and nobody closes it: this program's own are refused below.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            // Our own are closed on exec; none that was handed over can be.
            return match fcntl_getfd(descriptor) {
                Ok(flags) if !flags.contains(FdFlags::CLOEXEC) => shared(descriptor, input),
                _ => Err(Failure::error(not_open)),
            };
        }
        let mut place = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(Failure::error("is a directory")),
            Ok(found) if found.is_file() => Place::existing(path, force, input, &found)?,
            Ok(found) if is_input(input, &found) => return Err(same_file()),
            Ok(_) => return open_direct(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Place::new(path, force)?,
            Err(error) => return Err(Failure::io("cannot create", &error)),
        };
        if place.folder.as_os_str().is_empty() {
            place.folder.push(".");
        }
        create_unfinished(place)
    }

    /// The file to write to.
    pub(crate) fn file(&self) -> &File {
        match &self.kind {
            Kind::Direct(file) | Kind::Unnamed(file, _) => file,
            Kind::Named(file, _) => file.as_file(),
        }
    }

    /// The output for a pipeline.
    ///
    /// What is written directly is given out as it comes, so it goes there front to back: after a
    /// failure it is a prefix without holes, whose end is where the shell's next command goes on.
    pub(crate) fn sink(&self) -> Result<Sink<'_>> {
        match &self.kind {
            Kind::Direct(file) => return Ok(Sink::sequential(file)),
            Kind::Named(..) => Sink::file(self.file()),
            // SAFETY: this process made it, no other has it, and nobody here sets its length before
            // it is published.
            Kind::Unnamed(..) => unsafe { Sink::file_of_ones_own(self.file()) },
        }
        .map_err(|error| Failure::writing(&error).about(&self.name))
    }

    /// Whether bytes are given out as soon as they are written, not only when published.
    pub(crate) fn is_direct(&self) -> bool {
        matches!(self.kind, Kind::Direct(_))
    }

    /// Whether a person reads it on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_direct() && self.file().is_terminal()
    }

    /// Whether results printed on standard output would mix with it.
    pub(crate) fn is_stdout(&self) -> bool {
        self.is_direct() && self.name == "stdout"
    }

    /// Lets the finished file appear under its name, after its bytes have reached the disk.
    pub(crate) fn publish(self) -> Result<()> {
        let Output { name, kind } = self;
        match kind {
            Kind::Direct(file) => match file.sync_all() {
                // Pipes, terminals and most devices have nothing to wait for.
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                    Err(Failure::writing(&error))
                }
                _ => Ok(()),
            },
            Kind::Unnamed(file, place) => finish(&file, &place).and_then(|()| place.link(&file)),
            Kind::Named(file, place) => {
                finish(file.as_file(), &place).and_then(|()| place.rename(file))
            }
        }
        .map_err(|failure| failure.about(name))
    }
}

fn is_input(input: Option<&Input>, output: &Metadata) -> bool {
    input.is_some_and(|input| input.is_same_file(output))
}

fn same_file() -> Failure {
    Failure::error("input and output are the same file; give another name with -o")
}

pub(crate) fn exists() -> Failure {
    Failure::error("exists already; --force replaces it")
}

/// The number of the open descriptor that `path` stands for.
///
/// Linux would open its file anew: without the position, without appending.
fn descriptor(path: &Path) -> Option<RawFd> {
    let folders = ["/dev/fd", "/proc/self/fd"];
    let name = match path.to_str()? {
        "/dev/stdout" => "1",
        "/dev/stderr" => "2",
        _ => folders
            .iter()
            .find_map(|folder| path.strip_prefix(folder).ok())?
            .to_str()?,
    };
    name.parse().ok().filter(|&number| number >= 0)
}

/// An output that shares its position with whoever else has the descriptor.
fn shared(descriptor: BorrowedFd<'_>, input: Option<&Input>) -> Result<Kind> {
    let failed = |error: io::Error| Failure::io("cannot write", &error);
    let file = File::from(descriptor.try_clone_to_owned().map_err(failed)?);
    if is_input(input, &file.metadata().map_err(failed)?) {
        return Err(same_file());
    }
    let mode = fcntl_getfl(&file).map_err(|error| failed(error.into()))? & OFlags::RWMODE;
    if mode == OFlags::RDONLY {
        return Err(Failure::error(
            "is open for reading only; open it for writing, or name a file with -o",
        ));
    }
    Ok(Kind::Direct(file))
}

fn open_direct(path: &Path) -> Result<Kind> {
    let file = OpenOptions::new().write(true).open(path);
    file.map(Kind::Direct)
        .map_err(|error| Failure::io("cannot write", &error))
}

/// A file in the place's folder that cannot be seen yet.
fn create_unfinished(place: Place) -> Result<Kind> {
    let unnamed = create_unnamed(&place.folder);
    match unnamed.map_err(|error| Failure::io("cannot create", &error))? {
        Some(file) => Ok(Kind::Unnamed(file, place)),
        None => create_named(&place)
            .map(|file| Kind::Named(file, place))
            .map_err(|error| Failure::io("cannot create", &error)),
    }
}

/// A file without a name, or `None` where there is no such thing.
fn create_unnamed(folder: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(CWD, folder, flags, Mode::from_raw_mode(0o666)) {
        // Without /proc there is no way to give it a name later.
        Ok(file) => Ok(stat(descriptor_path(&file))
            .is_ok()
            .then(|| File::from(file))),
        // By file system and kernel.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A file with a temporary name, which is removed if a signal comes.
fn create_named(place: &Place) -> io::Result<NamedTempFile> {
    let mut list = unfinished();
    let file = tempfile::Builder::new()
        .prefix(&place.hidden_prefix())
        .permissions(fs::Permissions::from_mode(0o666)) // less the umask
        .tempfile_in(&place.folder)?;
    list.push(file.path().to_owned());
    Ok(file)
}

fn descriptor_path(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// Brings everything to the disk, so that no crash can leave a name without its bytes.
fn finish(file: &File, place: &Place) -> Result<()> {
    if let Some(mode) = place.replaced {
        // Best effort: some file systems have no permissions.
        let _ = file.set_permissions(fs::Permissions::from_mode(mode));
    }
    file.sync_all().map_err(|error| Failure::writing(&error))
}

impl Place {
    /// For a name that is free.
    fn new(path: &Path, force: bool) -> Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(Failure::error(
                "is a symbolic link to nothing; remove it first",
            ));
        }
        Place::at(path.to_owned(), None, force)
    }

    /// For a regular file that is to be replaced. Links to it stay.
    fn existing(path: &Path, force: bool, input: Option<&Input>, found: &Metadata) -> Result<Self> {
        if is_input(input, found) {
            return Err(same_file());
        }
        if !force {
            return Err(exists());
        }
        let path = fs::canonicalize(path).map_err(|error| Failure::io("cannot write", &error))?;
        Place::at(path, Some(found.mode() & 0o777), force)
    }

    fn at(path: PathBuf, replaced: Option<u32>, force: bool) -> Result<Self> {
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(_)) => {
                let folder = folder.to_owned();
                Ok(Place {
                    path,
                    folder,
                    replaced,
                    force,
                })
            }
            _ => Err(Failure::error("is a directory")),
        }
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

    /// Gives the unnamed `file` its name.
    fn link(&self, file: &File) -> Result<()> {
        let source = descriptor_path(file);
        let give = |name: &Path| linkat(CWD, &source, CWD, name, AtFlags::SYMLINK_FOLLOW);
        match give(&self.path) {
            Ok(()) => {}
            Err(Errno::EXIST) if self.force => {
                // No call replaces a name by an unnamed file, so it gets a name just before.
                let mut list = unfinished();
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
                list.clear();
            }
            Err(Errno::EXIST) => return Err(exists()),
            Err(error) => return Err(Failure::io("cannot create", &error.into())),
        }
        self.sync_folder();
        Ok(())
    }

    /// Gives the named temporary `file` its final name.
    fn rename(&self, file: NamedTempFile) -> Result<()> {
        let mut list = unfinished();
        let renamed = if self.force {
            file.persist(&self.path)
        } else {
            file.persist_noclobber(&self.path)
        };
        match renamed {
            Ok(_) => list.clear(),
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Publishes an output with the text "new" by either way.
    fn publish(path: &Path, force: bool, named: bool) -> Result<()> {
        let place = Place::at(path.to_owned(), None, force).unwrap();
        let kind = if named {
            Kind::Named(create_named(&place).unwrap(), place)
        } else {
            Kind::Unnamed(create_unnamed(&place.folder).unwrap().unwrap(), place)
        };
        let output = Output {
            name: "test".to_owned(),
            kind,
        };
        output.file().write_all(b"new").unwrap();
        output.publish()
    }

    #[test]
    fn both_ways_publish_and_refuse_alike() {
        for named in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            for force in [false, true] {
                publish(&path, force, named).unwrap();
                assert_eq!(fs::read(&path).unwrap(), b"new");
                // Somebody else may be faster: what exists at the end is not replaced.
                fs::write(&path, b"old").unwrap();
                let refused = publish(&path, false, named).unwrap_err().to_string();
                assert!(refused.contains("exists already"), "{refused}");
                assert_eq!(fs::read(&path).unwrap(), b"old");
                publish(&path, true, named).unwrap();
                assert_eq!(fs::read(&path).unwrap(), b"new");
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
                fs::remove_file(&path).unwrap();
            }
            let place = Place::at(path.clone(), None, false).unwrap();
            drop(create_named(&place).unwrap());
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }
}
