//! Where the bytes go. A regular file appears only when it is complete, and an existing one is
//! replaced only on request; everything else (standard output, pipes, devices) is written
//! directly.

mod place;

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{FdFlags, fcntl_getfd};
use tempfile::NamedTempFile;
use warplock_container::Sink;
use warplock_keyring::shown_name;

use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash};
use crate::startup::was_closed;

pub(crate) use place::abandon_all;
use place::{Draft, Place, is_input, same_file};

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

/// Who may read an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// As with any other file: what the umask or the folder says, or the replaced file's mode.
    Usual,
    /// Its owner alone.
    Owner,
}

/// An output that nothing speaks against so far.
enum Target {
    /// A descriptor that this process was started with.
    Shared(File),
    /// A pipe or device with a name.
    Direct(PathBuf),
    File(Place),
}

impl Output {
    /// Prepares the output `path` (`-`: standard output), or refuses it before any work is done.
    /// `input` is what it is made from, if a file.
    pub(crate) fn create(path: &Path, force: bool, input: Option<&Input>) -> Result<Self> {
        Output::with_access(path, force, input, Access::Usual)
    }

    /// As [`Output::create`].
    pub(crate) fn with_access(
        path: &Path,
        force: bool,
        input: Option<&Input>,
        access: Access,
    ) -> Result<Self> {
        let kind = target(path, force, input, access).and_then(Target::open);
        match kind {
            Ok(kind) => Ok(Output {
                name: output_name(path, path.display().to_string()),
                kind,
            }),
            Err(failure) => Err(failure.about(output_name(path, shown_name(path)))),
        }
    }

    /// Refuses what [`Output::create`] would refuse. Opens nothing whose opening has an effect:
    /// another process may wait for that at a pipe with a name.
    pub(crate) fn check(path: &Path, force: bool, input: Option<&Input>) -> Result<Option<Self>> {
        match target(path, force, input, Access::Owner) {
            Ok(Target::Direct(_)) => Ok(None),
            _ => Output::with_access(path, force, input, Access::Owner).map(Some),
        }
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
            Kind::Unnamed(..) => unsafe { Sink::exclusive_file(self.file()) },
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

    /// Lets the finished file appear under its name, after its bytes have reached the disk.
    pub(crate) fn publish(self) -> Result<()> {
        let Output { name, kind } = self;
        let published = match kind {
            Kind::Direct(file) => match file.sync_all() {
                // Pipes, terminals and most devices have nothing to wait for.
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                    Err(Failure::writing(&error))
                }
                _ => close(file).map_err(|error| Failure::writing(&error)),
            },
            Kind::Unnamed(file, place) => place.finish(&file).and_then(|()| place.link(&file)),
            Kind::Named(file, place) => {
                let (file, temporary) = file.into_parts();
                place
                    .finish(&file)
                    .and_then(|()| close(file).map_err(|error| Failure::writing(&error)))
                    .and_then(|()| place.rename(temporary))
            }
        };
        published.map_err(|failure| failure.about(name))
    }
}

impl Target {
    fn open(self) -> Result<Kind> {
        let failed = |error: io::Error| Failure::io("cannot create", &error);
        match self {
            Target::Shared(file) => Ok(Kind::Direct(file)),
            Target::Direct(path) => {
                let file = OpenOptions::new().write(true).open(path);
                file.map(Kind::Direct)
                    .map_err(|error| Failure::io("cannot write", &error))
            }
            Target::File(mut place) => Ok(match place.draft().map_err(failed)? {
                Draft::Unnamed(file) => Kind::Unnamed(file, place),
                Draft::Named(file) => Kind::Named(file, place),
            }),
        }
    }
}

/// Looks at what is at `path`, and refuses what cannot or shall not be written.
fn target(path: &Path, force: bool, input: Option<&Input>, access: Access) -> Result<Target> {
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
    Ok(Target::File(match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(is_directory()),
        Ok(found) if found.is_file() => Place::existing(path, force, input, &found, access)?,
        Ok(found) if is_input(input, &found) => return Err(same_file()),
        Ok(_) => return Ok(Target::Direct(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Place::new(path, force, access)?,
        Err(error) => return Err(Failure::io("cannot create", &error)),
    }))
}

/// Whether `path` on the command line means standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    is_dash(path) || descriptor(path) == Some(1)
}

/// The name of an output in messages.
fn output_name(path: &Path, of_file: String) -> String {
    match is_stdout(path) {
        true => "stdout".to_owned(),
        false => of_file,
    }
}

fn is_directory() -> Failure {
    Failure::error(
        "is a directory, so the output cannot have this name; name another file with -o (-o - is \
         stdout)",
    )
}

/// Closes `file`, and says what dropping it would not: file systems that write late, such as
/// network file systems, may report a failed write only here.
pub(crate) fn close(file: File) -> io::Result<()> {
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
fn shared(descriptor: BorrowedFd<'_>, input: Option<&Input>) -> Result<Target> {
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
    Ok(Target::Shared(file))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// Publishes an output with the text "new" by either way; gives the draft's mode.
    fn publish(path: &Path, force: bool, named: bool, access: Access) -> Result<u32> {
        let mut place = match fs::metadata(path) {
            Ok(found) if force => Place::existing(path, force, None, &found, access)?,
            _ => Place::at(path.to_owned(), None, force)?,
        };
        let draft = match named {
            true => place.draft_named().unwrap(),
            false => place.draft().unwrap(),
        };
        let kind = match draft {
            Draft::Unnamed(file) => Kind::Unnamed(file, place),
            Draft::Named(file) => Kind::Named(file, place),
        };
        assert_eq!(matches!(kind, Kind::Named(..)), named);
        let output = Output {
            name: "test".to_owned(),
            kind,
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
                // Somebody else may be faster: what exists at the end is not replaced.
                fs::write(&path, b"old").unwrap();
                let refused = publish(false).unwrap_err().to_string();
                assert!(refused.contains("exists already"), "{refused}");
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
    fn closing_reports_errors() {
        close(tempfile::tempfile().unwrap()).unwrap();
        // SAFETY: no process has this many files open, so nobody's is closed.
        let never_open = unsafe { File::from_raw_fd(i32::MAX) };
        assert!(close(never_open).is_err());
    }
}
