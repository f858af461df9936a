//! Outputs. A regular file appears only when it is complete, and an existing one is replaced only
//! on request; everything else (standard output, pipes, devices) is written directly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use warplock_container::{OutputFile, Sink};
use warplock_keyring::{FileAttributes, shown_name};

use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash};
use crate::system::startup::was_closed;
use crate::system::{self, Descriptor, Place, place};

pub(crate) use warplock_container::{Access, close};

/// An unfinished output. Dropped without [`Output::publish`], it leaves nothing behind, except for
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
    /// A file that appears when it is complete.
    File(OutputFile),
}

/// An output that has passed the checks.
enum Target {
    /// A descriptor that this process was started with.
    Shared(File),
    /// A pipe or device with a name.
    Direct(PathBuf),
    File(OutputFile),
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
        Output::of(path, target(path, force, input, access))
    }

    fn of(path: &Path, target: Result<Target>) -> Result<Self> {
        match target.and_then(Target::open) {
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
            target => Output::of(path, target).map(Some),
        }
    }

    /// The file to write to.
    pub(crate) fn file(&self) -> &File {
        match &self.kind {
            Kind::Direct(file) => file,
            Kind::File(output) => output.file(),
        }
    }

    /// The output for a pipeline.
    ///
    /// What is written directly is given out as it comes, so it goes there front to back: after a
    /// failure it is a prefix without holes, whose end is where the shell's next command goes on.
    pub(crate) fn sink(&self) -> Result<Sink<'_>> {
        match &self.kind {
            Kind::Direct(file) => Ok(Sink::sequential(file)),
            Kind::File(output) => Ok(output.sink()?),
        }
    }

    /// Sets a file's length: what was not written of it is a hole.
    pub(crate) fn set_len(&self, len: u64) -> Result<()> {
        let set = self.file().set_len(len);
        set.map_err(|error| Failure::writing(&error).about(&self.name))
    }

    /// Gives a file the permissions, as far as that is usual, and the time of the one that was
    /// encrypted.
    pub(crate) fn restore(&mut self, attributes: &FileAttributes) {
        if let Kind::File(output) = &mut self.kind {
            output.restore(attributes);
        }
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
            Kind::Direct(file) => system::sync(&file)
                .and_then(|()| close(file))
                .map_err(|error| Failure::writing(&error)),
            Kind::File(output) => output.publish().map_err(Failure::from),
        };
        published.map_err(|failure| failure.about(name))
    }
}

impl Target {
    fn open(self) -> Result<Kind> {
        match self {
            Target::Shared(file) => Ok(Kind::Direct(file)),
            Target::Direct(path) => {
                let file = OpenOptions::new().write(true).open(path);
                file.map(Kind::Direct)
                    .map_err(|error| Failure::io("cannot write", &error))
            }
            Target::File(output) => Ok(Kind::File(output)),
        }
    }
}

/// Checks what is at `path`, and refuses what cannot or must not be written.
fn target(path: &Path, force: bool, input: Option<&Input>, access: Access) -> Result<Target> {
    if is_dash(path) {
        if was_closed(1) {
            return Err(Failure::error("is closed; name a file with -o"));
        }
        let stdout = system::stdout();
        return shared(
            stdout.map_err(|error| Failure::io("cannot write", &error))?,
            input,
        );
    }
    // A descriptor that is named was opened for this purpose.
    if let Some(descriptor) = Descriptor::of(path) {
        return shared(descriptor.file()?, input);
    }
    match fs::metadata(path) {
        Ok(_) if is_input(input, place(path)) => return Err(same_file()),
        Ok(found) if found.is_dir() => return Err(is_directory()),
        Ok(found) if !found.is_file() => return Ok(Target::Direct(path.to_owned())),
        // What has no file name ends in `..` or is a folder's.
        _ if path.file_name().is_none() => return Err(is_directory()),
        _ => {}
    }
    Ok(Target::File(OutputFile::create(path, force, access)?))
}

/// Refuses an output of a command that is another output, or a file that it also reads: `--force` is
/// for older results, not for keys. What it is made from is left to [`Output::create`].
pub(crate) fn distinct<'a>(
    outputs: impl IntoIterator<Item = &'a Path>,
    reads: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let refuse =
        |why: &str, path| Err(Failure::error(why).about(output_name(path, shown_name(path))));
    let mut earlier: Vec<&Path> = Vec::new();
    let reads: Vec<&Path> = reads.into_iter().map(named).collect();
    for output in outputs {
        if earlier.iter().any(|other| is_same(other, output)) {
            return refuse("would be two outputs; name another file for one", output);
        }
        if reads
            .iter()
            .any(|read| !is_stdout(output) && is_same(read, output))
        {
            return refuse(
                "is read as well, so the output cannot have this name; name another file",
                output,
            );
        }
        earlier.push(output);
    }
    Ok(())
}

/// The path of what is read: standard input may be a file, too (`-i - <key`).
pub(crate) fn named(read: &Path) -> &Path {
    if is_dash(read) {
        Path::new("/dev/stdin")
    } else {
        read
    }
}

/// Whether two paths are the same place, if they exist, or will be. What is written to a pipe or a
/// device under two names is not lost.
fn is_same(one: &Path, other: &Path) -> bool {
    if is_stdout(one) || is_stdout(other) {
        return is_stdout(one) && is_stdout(other);
    }
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(_), Ok(_)) => place(one).is_some_and(|one| Some(one) == place(other)),
        (Err(_), Err(_)) => {
            let folder = |path: &Path| match path.parent() {
                Some(folder) if folder != Path::new("") => fs::canonicalize(folder).ok(),
                _ => fs::canonicalize(".").ok(),
            };
            one.file_name() == other.file_name() && folder(one) == folder(other)
        }
        _ => false,
    }
}

/// Whether `path` on the command line means standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    is_dash(path) || Descriptor::of(path).is_some_and(Descriptor::is_stdout)
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

fn is_input(input: Option<&Input>, output: Option<Place>) -> bool {
    input.is_some_and(|input| input.is_same_file(output))
}

fn same_file() -> Failure {
    Failure::error("input and output are the same file; give another name with -o")
}

/// An output that shares its position with other users of the descriptor.
fn shared(file: File, input: Option<&Input>) -> Result<Target> {
    let failed = |error: io::Error| Failure::io("cannot write", &error);
    if is_input(input, system::place_of(&file)) {
        return Err(same_file());
    }
    if system::is_read_only(&file).map_err(failed)? {
        return Err(Failure::error(
            "is open for reading only; open it for writing, or name a file with -o",
        ));
    }
    Ok(Target::Shared(file))
}
