//! Other keys for a `.wl` file: a new envelope before the same stream.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use warplock_keyring::{
    FileAttributes, Identities, MasterKey, Recipients, StanzaKind, attributes, inspect_wrapped,
    unwrap, wrap_with,
};

use crate::cipher::Cipher;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::key::InputKey;
use crate::output_file::{Access, OutputFile};
use crate::pipeline::Pipeline;
use crate::sink::{Sink, WriteAt};
use crate::source::Source;
use crate::stream::{open, seal};
use crate::system;

/// How [`rewrap_file`] replaced the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrapped {
    /// The envelope was overwritten in the file.
    InPlace,
    /// A new file shares the stream's blocks with the old one, which it replaced in one step.
    Cloned,
    /// A new file with a copy of the stream replaced the old one in one step.
    Copied,
}

/// Wraps the key of the `.wl` file `path` for `recipients` instead of its present recipients, of which
/// `identities` must include one. The stream with the content is not changed, and in a large file not
/// even read.
///
/// The key of the content stays the same: a former recipient that kept it, or an older copy of the
/// file, can still decrypt the content. [`rekey_file`] changes that key too.
///
/// A crash at any time leaves a file that the old or the new keys open, with one exception: where
/// the file system cannot share blocks between files, a file over 1 MiB is overwritten in place. Its
/// old envelope then waits next to it as `.NAME.rewrap` until the new one is on the disk; if a crash
/// tore the new one, `rewrap_file` with the old keys repairs it. While an envelope is overwritten,
/// another process may read half of it, and should try again.
///
/// The file's mode and owner stay, and so do the attributes of its content, unless `recipients` is a
/// passphrase, next to which there is no room for them. A symbolic link stays too, and the file that it leads to is
/// rewrapped. A file with several names (hard links) is changed in place under all of them, or not
/// at all.
///
/// # Errors
/// Those of kind [`crate::ErrorKind::Authentication`] if no identity fits, or its key is not the
/// stream's; [`Error::NotRewrappable`]; those of [`Envelope::read`], [`OutputFile`] and
/// [`wrap_with`]; [`Error::Write`], also if the file is read-only.
pub fn rewrap_file(
    path: impl AsRef<Path>,
    identities: &Identities,
    recipients: &Recipients,
) -> Result<Rewrapped> {
    let target = Target::open(path.as_ref())?;
    let found = target.find_key(identities)?;
    let several_names = target.links > 1;
    let small = target.len <= SMALL && !several_names;
    // A small file is replaced more simply, and about as fast.
    let wanted = (!small).then(|| (found.envelope.encoded_len(), target.len));
    let envelope = envelope(&found.key, recipients, found.attributes()?, wanted)?;
    let fits = envelope.encoded_len() == found.envelope.encoded_len();
    let done = match fits && !small {
        true if !several_names && target.clone_with(&envelope)? => Rewrapped::Cloned,
        true if target.journal_fits() => {
            target.save(&found)?;
            target.overwrite(&envelope)?;
            Rewrapped::InPlace
        }
        _ if several_names => {
            return Err(Error::NotRewrappable(
                "it has several names (hard links), and the new envelope is not as long as the \
                 old one; copy it, and rewrap the copy",
            ));
        }
        _ => {
            target.copy_with(&envelope, found.envelope.encoded_len())?;
            Rewrapped::Copied
        }
    };
    target.discard_saved();
    Ok(done)
}

/// Encrypts the `.wl` file `path` again, with a fresh key that is wrapped for `recipients`: the
/// old key opens older copies, but not the new file. The plaintext is never on a disk. The new
/// file replaces the old one in one step, when all of the old one was verified. Returns the length of
/// the plaintext in bytes.
///
/// # Errors
/// Those of [`rewrap_file`] and [`open`]. Then the file is as it was.
pub fn rekey_file(
    path: impl AsRef<Path>,
    identities: &Identities,
    recipients: &Recipients,
    pipeline: &Pipeline,
) -> Result<u64> {
    let target = Target::open(path.as_ref())?;
    if target.links > 1 {
        return Err(Error::NotRewrappable(
            "it has several names (hard links), of which only one would have the new key; copy \
             it, and work on the copy",
        ));
    }
    let found = target.find_key(identities)?;
    let fresh = MasterKey::generate()?;
    let envelope = envelope(&fresh, recipients, found.attributes()?, None)?;
    let output = target.output()?;
    let mut sink = output.sink()?;
    envelope.write(&mut sink)?;
    let start = found.envelope.encoded_len();
    let (reader, writer) = io::pipe().map_err(Error::Read)?;
    let (opened, sealed) = thread::scope(|scope| {
        let opening = thread::Builder::new().spawn_scoped(scope, || {
            let source = Source::positioned(&target.file, start..target.len);
            let key = InputKey::from(&found.key);
            open(source, Sink::sequential(writer), &key, pipeline)
        });
        let opening = opening.map_err(Error::NoThread)?;
        let key = InputKey::from(&fresh);
        let sealed = seal(Source::sequential(reader), sink, &key, pipeline);
        let opened = opening.join();
        let opened = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, Error>((opened, sealed))
    })?;
    let len = match (opened, sealed) {
        // The pipe broke because the other side had failed.
        (Err(Error::Write(_)), Err(error)) | (Err(error), _) | (_, Err(error)) => {
            return Err(error);
        }
        (Ok(len), Ok(_)) => len,
    };
    if pipeline.monitor().is_cancelled() {
        return Err(Error::Cancelled);
    }
    target.replace_by(output)?;
    target.discard_saved();
    Ok(len)
}

/// The old envelope that an interrupted [`rewrap_file`] left next to the file `path`, if there is
/// one. If the file opens neither with its old nor its new keys, `rewrap_file` with the old keys
/// repairs it.
pub fn interrupted_rewrap(path: impl AsRef<Path>) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let saved = saved_name(&path)?;
    // Neither a pipe, whose opening waits, nor a link.
    let is_file = fs::symlink_metadata(&saved).is_ok_and(|found| found.is_file());
    is_file.then_some(saved)
}

/// Up to this length, copying costs about as much as overwriting safely.
const SMALL: u64 = 1 << 20;
/// age adds a filler stanza of random length, so wrapping again gives another length: one that fits
/// is found after some 170 tries (20 ms) on average, and in 999 of 1000 files within 5000.
const FEW_TRIES: Duration = Duration::from_millis(500);
/// What copying a GiB would take at least: worth as much time for more tries.
const TRIES_A_GIB: Duration = Duration::from_millis(500);
const MOST_TRIES: Duration = Duration::from_secs(20);
/// Lengths that are further apart than the filler's are never the same.
const MOST_FILLER: u64 = 256;

/// `key` wrapped for `recipients`. `fit` is the length that the envelope should have, and the file's,
/// which says how much time that is worth.
fn envelope(
    key: &MasterKey,
    recipients: &Recipients,
    attributes: Option<FileAttributes>,
    fit: Option<(u64, u64)>,
) -> Result<Envelope> {
    let started = Instant::now();
    let make = || Envelope::new(wrap_with(key, recipients, attributes.as_ref())?);
    let mut envelope = make()?;
    let Some((wanted, file_len)) = fit else {
        return Ok(envelope);
    };
    let is_quick = |kind: &StanzaKind| {
        use StanzaKind::{SshEd25519, SshRsa, X25519};
        // A passphrase takes a second each time and has no filler; a plugin may ask something.
        matches!(kind, X25519 | SshEd25519 | SshRsa)
    };
    if !inspect_wrapped(envelope.wrapped())?.iter().all(is_quick) {
        return Ok(envelope);
    }
    let gibibytes = u32::try_from(file_len >> 30).unwrap_or(u32::MAX);
    let patience = FEW_TRIES + TRIES_A_GIB.saturating_mul(gibibytes);
    loop {
        let difference = envelope.encoded_len().abs_diff(wanted);
        let late = started.elapsed() > patience.min(MOST_TRIES);
        if difference == 0 || difference > MOST_FILLER || late {
            return Ok(envelope);
        }
        envelope = make()?;
    }
}

/// The file under work, locked against other rewraps.
struct Target {
    /// Without symbolic links.
    path: PathBuf,
    file: File,
    len: u64,
    links: u64,
}

/// The stream's key, and where it was found.
struct Found {
    key: MasterKey,
    envelope: Envelope,
    /// The envelope is the one that an interrupted run had saved.
    is_saved: bool,
}

impl Found {
    /// The file's attributes, which stay with it.
    fn attributes(&self) -> Result<Option<FileAttributes>> {
        Ok(attributes(self.envelope.wrapped(), &self.key)?)
    }
}

impl Target {
    fn open(path: &Path) -> Result<Self> {
        let path = fs::canonicalize(path).map_err(Error::Read)?;
        if !fs::metadata(&path).map_err(Error::Read)?.is_file() {
            return Err(Error::NotRewrappable("it is not a regular file"));
        }
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(Error::Write)?;
        let busy = Error::NotRewrappable("another process rewraps it; try again later");
        // File systems without locks have one user at a time.
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(busy);
        }
        if !system::has_name(&file, &path).map_err(Error::Read)? {
            return Err(busy);
        }
        Ok(Target {
            path,
            len: file.metadata().map_err(Error::Read)?.len(),
            links: system::link_count(&file).map_err(Error::Read)?,
            file,
        })
    }

    /// The key from the file's envelope, or from the one that an interrupted run has saved.
    fn find_key(&self, identities: &Identities) -> Result<Found> {
        let own = self.try_envelope(&self.file, false, identities);
        let saved = interrupted_rewrap(&self.path).and_then(|saved| File::open(saved).ok());
        match (own, saved) {
            (Err(error), Some(saved)) => self
                .try_envelope(&saved, true, identities)
                .map_err(|_| error),
            (own, _) => own,
        }
    }

    fn try_envelope(
        &self,
        mut from: &File,
        is_saved: bool,
        identities: &Identities,
    ) -> Result<Found> {
        let envelope = match Envelope::read(&mut from) {
            Err(Error::NotWarplock { looks_like: None }) => {
                return Err(Error::NotRewrappable(
                    "it has no envelope: it is no encrypted file, or a bare stream, whose key \
                     (--key-file) only encrypting again changes",
                ));
            }
            read => read?,
        };
        let key = unwrap(envelope.wrapped(), identities)?;
        let mut source = Source::positioned(&self.file, envelope.encoded_len()..self.len);
        Cipher::for_stream(&InputKey::from(&key), &mut source)?;
        Ok(Found {
            key,
            envelope,
            is_saved,
        })
    }

    /// Replaces the file by a clone with another envelope of the same length. Returns false where
    /// the file system has no clones.
    fn clone_with(&self, envelope: &Envelope) -> Result<bool> {
        #[cfg(target_os = "linux")]
        {
            let output = self.output()?;
            if rustix::fs::ioctl_ficlone(output.file(), &self.file).is_err() {
                return Ok(false);
            }
            envelope.write(&mut output.file())?;
            self.replace_by(output)?;
            Ok(true)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = envelope;
            Ok(false)
        }
    }

    /// Replaces the file by one with another envelope and the stream from `start` on.
    fn copy_with(&self, envelope: &Envelope, start: u64) -> Result<()> {
        let output = self.output()?;
        envelope.write(&mut output.file())?;
        let mut stream = &self.file;
        stream.seek(SeekFrom::Start(start)).map_err(Error::Read)?;
        // The standard library takes copy_file_range, which copies within the file system.
        let copied = io::copy(&mut stream, &mut output.file()).map_err(Error::Write)?;
        let expected = self.len - start;
        if copied != expected {
            let found = copied;
            return Err(Error::InputShrank { expected, found });
        }
        self.replace_by(output)
    }

    fn output(&self) -> Result<OutputFile> {
        OutputFile::create(&self.path, true, Access::Usual)
    }

    fn replace_by(&self, output: OutputFile) -> Result<()> {
        system::copy_owner(&self.file, output.file()).map_err(Error::Read)?;
        output.publish()
    }

    /// Whether the name of the saved envelope is not too long for a file system.
    fn journal_fits(&self) -> bool {
        saved_name(&self.path).is_some()
    }

    /// Saves the old envelope next to the file, durably.
    fn save(&self, found: &Found) -> Result<()> {
        let Some(name) = saved_name(&self.path).filter(|_| !found.is_saved) else {
            return Ok(());
        };
        // What an interrupted run has saved is needed until what it has written is on the disk.
        self.file.sync_data().map_err(Error::Write)?;
        // Removed, not replaced: it may be a link that another user has put there.
        let _ = fs::remove_file(&name);
        let saved = OutputFile::create(name, false, Access::Owner)?;
        found.envelope.write(&mut saved.file())?;
        saved.publish()
    }

    /// Overwrites the envelope, which must have this one's length.
    fn overwrite(&self, envelope: &Envelope) -> Result<()> {
        let mut bytes = Vec::new();
        envelope.write(&mut bytes)?;
        (&self.file).write_all_at(&bytes, 0).map_err(Error::Write)?;
        self.file.sync_data().map_err(Error::Write)
    }

    /// Removes a saved envelope, which is not needed any more. If it stays, it does no harm.
    fn discard_saved(&self) {
        let Some(saved) = saved_name(&self.path) else {
            return;
        };
        if fs::remove_file(saved).is_ok()
            && let Some(folder) = self.path.parent()
            && let Ok(folder) = File::open(folder)
        {
            let _ = folder.sync_all();
        }
    }
}

/// Where the old envelope of `path` is saved; `None` if the name would be too long.
fn saved_name(path: &Path) -> Option<PathBuf> {
    const LONGEST: usize = 255;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name()?);
    name.push(".rewrap");
    (name.len() <= LONGEST).then(|| path.with_file_name(name))
}

#[cfg(test)]
mod tests;
