//! One unit of a job: what is done with a file, folder or link, and when it is done already.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{
    DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;
use warplock_container::{
    self as container, Access, Envelope, ErrorKind, InputKey, OutputFile, Pipeline, Sink, Source,
    content_len, open, open_bytes, seal, seal_bytes, sync_folder,
};
use warplock_keyring::{Identities, MasterKey, Recipients, unwrap, wrap};
use zeroize::Zeroizing;

use crate::job::{Job, Kind, Operation, Unit};
use crate::log::Status;
use crate::mark;

const CHANGED: &str = "it was changed while it was read: plan again";
const LONGER: &str = "it has more bytes than its length says, like the files of /proc; for such files \
                      there is `warplock encrypt`";

/// Files up to this length are worked on in memory, each by one thread.
const SMALL: u64 = 1 << 20;

/// The keys of one thread.
pub(crate) enum Key<'a> {
    Encrypt(Recipients),
    Open(&'a Identities),
    Rewrap(&'a Identities, Recipients),
}

/// Why a unit is not done.
pub(crate) struct Trouble(pub(crate) Status, pub(crate) String);

fn failed(what: impl ToString) -> Trouble {
    Trouble(Status::Failed, what.to_string())
}

impl From<container::Error> for Trouble {
    fn from(error: container::Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Authentication => Status::Authentication,
            _ => Status::Failed,
        };
        Trouble(status, error.to_string())
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        failed(error)
    }
}

impl From<warplock_keyring::Error> for Trouble {
    fn from(error: warplock_keyring::Error) -> Self {
        container::Error::from(error).into()
    }
}

pub(crate) type Done<T> = std::result::Result<T, Trouble>;

pub(crate) struct Worker<'a> {
    pub(crate) job: &'a Job,
    pub(crate) force: bool,
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) small_done: &'a AtomicU64,
    /// Units that an earlier run has done.
    pub(crate) logged: HashSet<u64>,
    /// The pipeline runs on all cores, so for one file at a time.
    pub(crate) large: Mutex<()>,
    /// Files with several names that this run has rewrapped: devices and inodes.
    pub(crate) rewrapped: Mutex<HashSet<(u64, u64)>>,
}

impl Worker<'_> {
    pub(crate) fn unit(
        &self,
        number: u64,
        unit: &Unit,
        key: &Key<'_>,
        folder: &mut OutputFolder,
    ) -> Done<Status> {
        let destination = self.job.destination_of(unit);
        if let Some(root) = &self.job.destination {
            folder.enter(&root.0, &unit.path.0)?;
        }
        match (&unit.kind, destination) {
            (Kind::Skipped(reason), _) => Err(Trouble(Status::Skipped, reason.clone())),
            (Kind::Failed(reason), _) => Err(failed(reason)),
            (Kind::Folder, Some(to)) => make_folder(unit, &to),
            (Kind::Link, Some(to)) => link(&self.job.source_of(unit), &to),
            (Kind::Folder | Kind::Link, None) => Ok(Status::Skipped),
            (Kind::File, to) => self.file(number, unit, to.as_deref(), key),
        }
    }

    fn file(&self, number: u64, unit: &Unit, to: Option<&Path>, key: &Key<'_>) -> Done<Status> {
        if self.logged.contains(&number) && to.is_none_or(|to| has_mark(to, unit)) {
            return Ok(Status::Unchanged);
        }
        // Neither a link nor a pipe that has come since.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut options = OpenOptions::new();
        let source = options
            .read(true)
            .custom_flags(flags)
            .open(self.job.source_of(unit));
        let source = source.map_err(|error| failed(format_args!("cannot read: {error}")))?;
        let as_planned = is_as_planned(&source, unit)?;
        if let Key::Rewrap(identities, recipients) = key {
            // A file that was changed since can have other recipients as well.
            return self.rewrap(&source, unit, identities, recipients, as_planned);
        }
        if !as_planned {
            return Err(failed(
                "it was changed since the job was planned: plan again",
            ));
        }
        let Some(to) = to else {
            self.content(&source, unit, None, key)?;
            return Ok(Status::Done);
        };
        match fs::symlink_metadata(to) {
            Ok(found) if found.is_symlink() => {
                return Err(failed("its result would have the name of a symbolic link"));
            }
            Ok(found) if found.is_file() && self.is_result(to, &found, &source, unit) => {
                set_mode(to, unit, found.mode())?;
                return Ok(Status::Unchanged);
            }
            Ok(found) if found.is_file() && !self.force => return Err(not_its_result(to)),
            _ => {}
        }
        // As with `cp -p`, but without the bits that make programs run as other users.
        let access = Access::Mode(unit.mode & 0o777);
        let create = || OutputFile::create(to, self.force, access);
        let output = match (create(), to.parent()) {
            // Its folder may be another thread's or shard's to make, which has not got there yet.
            (Err(container::Error::Create(error)), Some(folder))
                if error.kind() == io::ErrorKind::NotFound =>
            {
                make_folders(folder)?;
                create()
            }
            (output, _) => output,
        };
        let output = match output {
            Err(container::Error::OutputExists) => return self.made_by_another(to, &source, unit),
            output => output?,
        };
        self.content(&source, unit, Some(&output), key)?;
        if !is_as_planned(&source, unit)? {
            return Err(failed(CHANGED));
        }
        if source.read_at(&mut [0], unit.size)? > 0 {
            return Err(failed(LONGER));
        }
        mark::set(output.file(), unit.mtime)?;
        match output.publish_among_others() {
            Err(container::Error::OutputExists) => self.made_by_another(to, &source, unit),
            published => Ok(published.map(|()| Status::Done)?),
        }
    }

    /// A file has got the name of a unit's result since: perhaps by another run of the same tree.
    fn made_by_another(&self, to: &Path, source: &File, unit: &Unit) -> Done<Status> {
        match fs::symlink_metadata(to) {
            Ok(found) if found.is_file() && self.is_result(to, &found, source, unit) => {
                Ok(Status::Unchanged)
            }
            _ => Err(not_its_result(to)),
        }
    }

    fn rewrap(
        &self,
        source: &File,
        unit: &Unit,
        identities: &Identities,
        recipients: &Recipients,
        as_planned: bool,
    ) -> Done<Status> {
        let path = self.job.source_of(unit);
        let found = source.metadata()?;
        // All names of a file get its new envelope together.
        let mut names = (found.nlink() > 1).then(|| {
            let rewrapped = self.rewrapped.lock();
            rewrapped.unwrap_or_else(PoisonError::into_inner)
        });
        let identity = (found.dev(), found.ino());
        if names
            .as_ref()
            .is_some_and(|names| names.contains(&identity))
        {
            return Ok(Status::Unchanged);
        }
        let mark = mark::get(source)?;
        match container::rewrap_file(&path, identities, recipients) {
            Ok(_) => {
                mark::note(&path, mark)?;
                self.small_done.fetch_add(unit.size, Ordering::Relaxed);
                names.as_mut().map(|names| names.insert(identity));
                Ok(Status::Done)
            }
            Err(error) if !as_planned && error.kind() == ErrorKind::Authentication => {
                Err(failed(format_args!(
                    "{error}; it was changed since the job was planned, perhaps by an earlier run \
                     that was stopped: verify it with the new keys"
                )))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the file `to` is what this unit makes, by its time and length.
    fn is_result(&self, to: &Path, found: &fs::Metadata, source: &File, unit: &Unit) -> bool {
        let expected = |sealed: &File, len: u64| {
            let mut source = Source::positioned(sealed, 0..len);
            let start = Envelope::read(&mut source).ok()?.encoded_len();
            content_len(len - start).ok()
        };
        let Ok(result) = File::open(to) else {
            return false;
        };
        mark::get(&result).is_ok_and(|time| time == unit.mtime)
            && match self.job.operation {
                Operation::Encrypt => {
                    expected(&result, found.len()).is_some_and(|len| len == unit.size)
                }
                _ => expected(source, unit.size).is_some_and(|len| len == found.len()),
            }
    }

    /// Does the work on a file's bytes; none is kept without an output.
    fn content(
        &self,
        source: &File,
        unit: &Unit,
        output: Option<&OutputFile>,
        key: &Key<'_>,
    ) -> Done<()> {
        if unit.size <= SMALL {
            self.small(source, unit, output, key)?;
            self.small_done.fetch_add(unit.size, Ordering::Relaxed);
            return Ok(());
        }
        let _one = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        let mut source = Source::positioned(source, 0..unit.size);
        let mut sink = match output {
            Some(output) => output.sink()?,
            None => Sink::nowhere(),
        };
        match key {
            Key::Encrypt(recipients) => {
                let (key, envelope) = fresh(recipients)?;
                envelope.write(&mut sink)?;
                seal(source, sink, &InputKey::from(&key), self.pipeline)?;
            }
            Key::Open(identities) | Key::Rewrap(identities, _) => {
                let envelope = Envelope::read(&mut source)?;
                let key = unwrap(envelope.wrapped(), identities)?;
                open(source, sink, &InputKey::from(&key), self.pipeline)?;
            }
        }
        Ok(())
    }

    fn small(
        &self,
        source: &File,
        unit: &Unit,
        output: Option<&OutputFile>,
        key: &Key<'_>,
    ) -> Done<()> {
        // Of this length, as it was just looked at: what grows meanwhile is noticed afterwards.
        let mut input = Zeroizing::new(vec![0; unit.size as usize]);
        source
            .read_exact_at(&mut input, 0)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => failed(CHANGED),
                _ => error.into(),
            })?;
        let engine = self.pipeline.engine();
        let write = |result: &[u8]| match output {
            Some(output) => output.file().write_all(result),
            None => Ok(()),
        };
        match key {
            Key::Encrypt(recipients) => {
                let (key, envelope) = fresh(recipients)?;
                let mut result = Vec::new();
                envelope.write(&mut result)?;
                result.extend(seal_bytes(&input, &InputKey::from(&key), engine)?);
                write(&result)?;
            }
            Key::Open(identities) | Key::Rewrap(identities, _) => {
                let mut sealed = &input[..];
                let envelope = Envelope::read(&mut sealed)?;
                let key = unwrap(envelope.wrapped(), identities)?;
                write(&Zeroizing::new(open_bytes(
                    sealed,
                    &InputKey::from(&key),
                    engine,
                )?))?;
            }
        }
        Ok(())
    }
}

/// The folder of the destination in which a thread works. It is made durable when the thread goes to
/// another one: for each file, that would take longer than the file.
#[derive(Default)]
pub(crate) struct OutputFolder(Option<PathBuf>);

impl OutputFolder {
    /// Goes to the folder of the unit `path` in the destination `root`.
    fn enter(&mut self, root: &Path, path: &Path) -> Done<()> {
        let folder = path
            .parent()
            .map_or(root.to_owned(), |folder| root.join(folder));
        if self.0.as_ref() == Some(&folder) {
            return Ok(());
        }
        self.leave();
        refuse_links(root, path)?;
        self.0 = Some(folder);
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(folder) = self.0.take() {
            sync_folder(&folder);
        }
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether a result that the log has is still there: nothing is opened for this.
fn has_mark(to: &Path, unit: &Unit) -> bool {
    let found = fs::symlink_metadata(to);
    found.is_ok_and(|found| found.is_file() && mark::modified(&found) == unit.mtime)
}

/// A link where a folder should be, which an earlier tree may have left, could lead anywhere.
fn refuse_links(root: &Path, path: &Path) -> Done<()> {
    for folder in path.ancestors().skip(1) {
        let folder = root.join(folder);
        if folder != root && folder.is_symlink() {
            let folder = folder.display();
            return Err(failed(format_args!(
                "{folder} is a symbolic link, not a folder"
            )));
        }
    }
    Ok(())
}

fn not_its_result(to: &Path) -> Trouble {
    failed(format_args!(
        "{} exists already and is not its result; --force replaces it",
        to.display()
    ))
}

/// Makes a folder and those above it, open to their owner alone: the folder's own unit, which
/// may be another shard's, knows its permissions.
fn make_folders(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A key for one attempt.
fn fresh(recipients: &Recipients) -> container::Result<(MasterKey, Envelope)> {
    let key = MasterKey::generate()?;
    let envelope = Envelope::new(wrap(&key, recipients)?)?;
    Ok((key, envelope))
}

fn is_as_planned(source: &File, unit: &Unit) -> io::Result<bool> {
    let found = source.metadata()?;
    let time = mark::modified(&found);
    Ok(found.is_file() && (found.len(), time, found.ino()) == (unit.size, unit.mtime, unit.inode))
}

/// Without the bits that make programs run as other users.
fn set_mode(to: &Path, unit: &Unit, now: u32) -> io::Result<()> {
    let mode = unit.mode & 0o777;
    match mode == now & 0o7777 {
        true => Ok(()),
        false => fs::set_permissions(to, Permissions::from_mode(mode)),
    }
}

fn make_folder(unit: &Unit, to: &Path) -> Done<Status> {
    if to.is_symlink() {
        return Err(failed(
            "a symbolic link has the folder's name in the destination",
        ));
    }
    let is_new = !to.is_dir();
    if is_new {
        make_folders(to)?;
    }
    // Its owner must be able to put files into it.
    let mode = (unit.mode & 0o777) | 0o700;
    // A thread or shard that came here first made it for its owner alone.
    let differs = fs::metadata(to)?.mode() & 0o7777 != mode;
    if differs {
        fs::set_permissions(to, Permissions::from_mode(mode))?;
    }
    Ok(match is_new || differs {
        true => Status::Done,
        false => Status::Unchanged,
    })
}

fn link(from: &Path, to: &Path) -> Done<Status> {
    let text = fs::read_link(from)?;
    if let Some(folder) = to.parent() {
        make_folders(folder)?;
    }
    match symlink(&text, to) {
        Ok(()) => Ok(Status::Done),
        Err(_) if fs::read_link(to).is_ok_and(|found| found == text) => Ok(Status::Unchanged),
        Err(error) => Err(error.into()),
    }
}
