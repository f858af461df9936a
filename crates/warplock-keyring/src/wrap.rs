//! Wrapping and unwrapping: a master key as the content of an age file.

use std::io::Write;

use age::DecryptError;
use age::armor::{ArmoredWriter, Format};

use crate::age_error;
use crate::attributes::FileAttributes;
use crate::error::{Error, Result};
use crate::header::{self, Header, MAX_WRAPPED_LEN, StanzaKind};
use crate::identity::{self, Identities};
use crate::key::{KEY_LEN, MasterKey};
use crate::recipient::Recipients;

/// The name of the input of [`unwrap`] in errors.
pub(crate) const WHAT: &str = "the wrapped key";

/// Wraps `key` for `recipients`: a binary age file (`age-encryption.org/v1`) whose content
/// is the 32 bytes of the key.
///
/// # Errors
/// [`Error::NoRecipients`], [`Error::MixedPassphrase`], [`Error::IncompatibleRecipients`],
/// [`Error::TooManyRecipients`], and [`Error::Plugin`] if a plugin is missing or fails.
pub fn wrap(key: &MasterKey, recipients: &Recipients) -> Result<Vec<u8>> {
    wrap_with(key, recipients, None)
}

/// As [`wrap`], with the attributes of the file that the key encrypts, and no other file: they are
/// read with [`attributes`](crate::attributes()). Left out if `recipients` is a passphrase.
///
/// # Errors
/// As for [`wrap`].
pub fn wrap_with(
    key: &MasterKey,
    recipients: &Recipients,
    attributes: Option<&FileAttributes>,
) -> Result<Vec<u8>> {
    if recipients.is_empty() {
        return Err(Error::NoRecipients);
    }
    let mut wrapped = Vec::new();
    recipients
        .encryptor(attributes.and_then(|attributes| attributes.stanza(key)))?
        .wrap_output(&mut wrapped)
        .and_then(|mut writer| {
            writer.write_all(key.as_bytes())?;
            writer.finish()
        })
        .map_err(Error::io("wrapping the key"))?;
    if wrapped.len() > MAX_WRAPPED_LEN {
        return Err(Error::TooManyRecipients {
            found: wrapped.len(),
            limit: MAX_WRAPPED_LEN,
        });
    }
    header::check_limits(&wrapped)?;
    Ok(wrapped)
}

/// Opens what [`wrap`] made, or what the `age` program made of 32 bytes, with the first of
/// `identities` that fits.
///
/// The bytes may come from anywhere: at most [`MAX_WRAPPED_LEN`] of them are accepted, and no
/// more scrypt work than `identities` accept or their prompt agrees to. Only the binary form of
/// age files is (see [`from_armor`]).
///
/// # Errors
/// * [`Error::NotAgeFile`], [`Error::NewerFormat`], [`Error::Malformed`],
///   [`Error::TooLarge`]: this is no wrapped key.
/// * [`Error::NoMatch`]: nothing offered opens it; the error lists what would.
/// * [`Error::WrongPassphrase`], of the wrapped key or of an identity file.
/// * [`Error::Altered`]: the right key was found, but the file was changed since.
/// * [`Error::PayloadLength`]: it opens, but does not hold 32 bytes.
/// * [`Error::ExcessiveWork`], [`Error::UnconfirmedWork`], [`Error::NoMemory`],
///   [`Error::TooManyAttempts`]: it takes more work, memory or time than is spent on it.
/// * [`Error::Plugin`], [`Error::NoPassphrase`], [`Error::NoTerminal`].
pub fn unwrap(wrapped: &[u8], identities: &Identities) -> Result<MasterKey> {
    let header = Header::read(wrapped, WHAT)?;
    if let Some(work) = header
        .passphrase_work()
        .filter(|_| identities.has_passphrase())
    {
        work.permit(WHAT, identities.accepted_work(), identities.prompt())?;
    }
    open(wrapped, &header, identities, &mut Attempts::default())
}

/// Trying one identity on one recipient's stanza takes a seventh of a millisecond, and is the only
/// way to find out whether they belong together.
#[derive(Default)]
pub(crate) struct Attempts(usize);

impl Attempts {
    /// Takes less than a second.
    const MOST: usize = 6000;
    /// This few recipients are always tried: the number of identities is the choice of the caller.
    const FEW: usize = 16;

    fn add(&mut self, stanzas: usize, identities: usize) -> Result<()> {
        self.0 += stanzas * identities;
        if stanzas > Self::FEW && self.0 > Self::MOST {
            return Err(Error::TooManyAttempts {
                stanzas,
                identities,
            });
        }
        Ok(())
    }
}

/// Opens a wrapped key whose work, if it is for a passphrase, was permitted.
pub(crate) fn open(
    wrapped: &[u8],
    header: &Header,
    identities: &Identities,
    attempts: &mut Attempts,
) -> Result<MasterKey> {
    if header.passphrase_work().is_some() {
        if !identities.has_passphrase() {
            return Err(no_match(header, identities));
        }
        let prompt = identities.prompt();
        return to_key(&identity::open_with_passphrase(
            wrapped, WHAT, prompt, KEY_LEN,
        )?);
    }
    let stanzas = header.count(&StanzaKind::X25519);
    for group in identities.for_header(header) {
        let group = group?;
        attempts.add(stanzas, group.len())?;
        let all = group
            .iter()
            .map(|identity| &**identity as &dyn age::Identity);
        match header::decryptor(wrapped, WHAT)?.decrypt(all) {
            Ok(reader) => return to_key(&header::read_content(reader, WHAT, KEY_LEN)?),
            Err(DecryptError::NoMatchingKeys) => {}
            Err(error) => return Err(age_error::decrypt(error, WHAT, false)),
        }
    }
    Err(no_match(header, identities))
}

fn no_match(header: &Header, identities: &Identities) -> Error {
    Error::NoMatch {
        wanted: header.kinds().collect(),
        had_identities: identities.has_files(),
        had_passphrase: identities.has_passphrase(),
    }
}

fn to_key(content: &[u8]) -> Result<MasterKey> {
    content
        .try_into()
        .map(MasterKey::from_bytes)
        .map_err(|_| Error::PayloadLength)
}

/// A wrapped key as text (age's ASCII armor), for files that hold text.
pub fn to_armor(wrapped: &[u8]) -> String {
    let mut text = Vec::new();
    ArmoredWriter::wrap_output(&mut text, Format::AsciiArmor)
        .and_then(|mut writer| {
            writer.write_all(wrapped)?;
            writer.finish()
        })
        .expect("a Vec takes every write");
    String::from_utf8(text).expect("armor is ASCII")
}

/// The wrapped key in text that [`to_armor`] or `age --armor` wrote.
///
/// # Errors
/// [`Error::Malformed`] if it is no such text, [`Error::TooLarge`].
pub fn from_armor(text: &str) -> Result<Vec<u8>> {
    // Armor takes four characters for three bytes, plus line ends and two marker lines.
    if text.len() > 2 * MAX_WRAPPED_LEN {
        return Err(Error::TooLarge {
            what: WHAT.into(),
            limit: 2 * MAX_WRAPPED_LEN,
        });
    }
    if !text
        .trim_ascii_start()
        .starts_with("-----BEGIN AGE ENCRYPTED FILE-----")
    {
        return Err(Error::Malformed {
            what: WHAT.into(),
            why: "it does not begin as armored text",
        });
    }
    identity::dearmor(WHAT, text.as_bytes())
}
