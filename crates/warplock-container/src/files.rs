//! Whole `.wl` files by their names: one call each.

use std::fs::File;
use std::path::Path;

use warplock_keyring::{
    FileAttributes, Identities, MasterKey, Recipients, attributes, unwrap, wrap_with,
};

use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::key::InputKey;
use crate::output_file::{Access, OutputFile};
use crate::pipeline::Pipeline;
use crate::sink::Sink;
use crate::source::Source;
use crate::stream::{open, seal};
use crate::system;

/// Encrypts the file `input` to the file `output`, under a fresh key that is wrapped for
/// `recipients`. Returns the length of the plaintext in bytes.
///
/// The output appears under its name only when it is complete and on the disk; an existing file is
/// refused (use [`OutputFile`] to replace it). The input's permissions and time of modification go
/// with it, encrypted; next to a passphrase there is no room for them. Its usual suffix is `.wl`; the command `warplock
/// decrypt` opens it.
///
/// ```
/// use std::sync::Arc;
/// use warplock_container::{Pipeline, decrypt_file, encrypt_file};
/// use warplock_keyring::{Identities, NewIdentity, NoPrompt, Recipients};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = |name: &str| folder.path().join(name);
/// # std::fs::write(path("a.txt"), "a long story").unwrap();
/// let me = NewIdentity::generate(); // `warplock keygen` writes one to a file
/// let mut recipients = Recipients::new(Arc::new(NoPrompt));
/// recipients.add(&me.recipient())?;
/// let pipeline = Pipeline::new()?;
/// encrypt_file(path("a.txt"), path("a.txt.wl"), &recipients, &pipeline)?;
///
/// let mut identities = Identities::new(Arc::new(NoPrompt));
/// identities.add("me", me.file_text().as_bytes())?;
/// decrypt_file(path("a.txt.wl"), path("again.txt"), &identities, &pipeline)?;
/// assert_eq!(std::fs::read(path("again.txt")).unwrap(), b"a long story");
/// # Ok::<(), warplock_container::Error>(())
/// ```
///
/// # Errors
/// [`Error::Keyring`] if the key cannot be wrapped, [`Error::OutputExists`] and the others of
/// [`OutputFile`], and those of [`seal`]. Then there is no output.
pub fn encrypt_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    recipients: &Recipients,
    pipeline: &Pipeline,
) -> Result<u64> {
    let input = File::open(input).map_err(Error::Read)?;
    let output = OutputFile::create(output, false, Access::Usual)?;
    let source = Source::file(&input).map_err(Error::Read)?;
    let key = MasterKey::generate()?;
    let attributes = attributes_of(&input);
    let envelope = Envelope::new(wrap_with(&key, recipients, attributes.as_ref())?)?;
    let mut sink = output.sink()?;
    envelope.write(&mut sink)?;
    let written = seal(source, sink, &InputKey::from(&key), pipeline)?;
    output.publish()?;
    Ok(crate::opened_len(written).expect("what was sealed has a length that can be opened"))
}

/// Decrypts the `.wl` file `input` to the file `output`, with the first of `identities` that fits.
/// Returns the length of the plaintext in bytes.
///
/// The output appears under its name only when all of it was verified and is on the disk; an
/// existing file is refused. It gets the permissions, as far as the umask allows them, and the time
/// of modification that the encrypted file had. See [`encrypt_file`] for an example.
///
/// # Errors
/// Those of kind [`crate::ErrorKind::Authentication`] if no identity fits or anything was changed;
/// [`Error::OutputExists`] and the others of [`OutputFile`], and those of [`open`]. Then there is
/// no output.
pub fn decrypt_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    identities: &Identities,
    pipeline: &Pipeline,
) -> Result<u64> {
    let input = File::open(input).map_err(Error::Read)?;
    let mut output = OutputFile::create(output, false, Access::Usual)?;
    let (len, found) = open_envelope(&input, output.sink()?, identities, pipeline)?;
    if let Some(found) = found {
        output.restore(&found);
    }
    output.publish()?;
    Ok(len)
}

/// Verifies every byte of the `.wl` file `input`, and keeps nothing. Returns the length of the
/// plaintext in bytes.
///
/// # Errors
/// Those of [`decrypt_file`].
pub fn verify_file(
    input: impl AsRef<Path>,
    identities: &Identities,
    pipeline: &Pipeline,
) -> Result<u64> {
    let input = File::open(input).map_err(Error::Read)?;
    Ok(open_envelope(&input, Sink::nowhere(), identities, pipeline)?.0)
}

/// The permissions and the time of modification of an open file, to be kept by
/// [`wrap_with`](warplock_keyring::wrap_with()); `None` for pipes, devices and other things.
pub fn attributes_of(file: &File) -> Option<FileAttributes> {
    let found = system::regular(file).ok().flatten()?;
    let modified = found.modified().ok()?;
    let mode = system::mode(&found);
    Some(FileAttributes { mode, modified })
}

fn open_envelope(
    input: &File,
    sink: Sink<'_>,
    identities: &Identities,
    pipeline: &Pipeline,
) -> Result<(u64, Option<FileAttributes>)> {
    let mut source = Source::file(input).map_err(Error::Read)?;
    let envelope = Envelope::read(&mut source)?;
    let key = unwrap(envelope.wrapped(), identities)?;
    let found = attributes(envelope.wrapped(), &key)?;
    Ok((open(source, sink, &InputKey::from(&key), pipeline)?, found))
}
