//! SSH keys as recipients and identities, around age's own support for them.
//!
//! age 0.12 panics on an RSA integer that is not empty but all zeros, so every key is first
//! taken apart here and refused if it holds one. age then gets a text rebuilt from the very
//! bytes that were looked at.

use std::io::{self, BufRead, Read};
use std::sync::OnceLock;

use age::ssh::{ParseRecipientKeyError, UnsupportedKey};
use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::header::Header;
use crate::passphrase::AskPassphrase;
use crate::pkcs8;
use crate::text::forms;
use crate::work::Work;
use crate::x25519;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const OPENSSH_BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const OPENSSH_END: &str = "-----END OPENSSH PRIVATE KEY-----";
const PKCS8_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PKCS8_END: &str = "-----END PRIVATE KEY-----";
const PKCS8_ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";

/// The longest SSH private key file; a 16384-bit RSA key takes 13 KiB.
const MAX_PRIVATE_KEY: usize = 16 * 1024;

/// Whether a line looks like an SSH public key: `TYPE BASE64 [COMMENT]`.
pub(crate) fn looks_like_public_key(line: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"]
        .iter()
        .any(|prefix| line.starts_with(prefix))
}

/// Whether a line that [`parse_recipient`] refused is a sound key all the same, of a kind or size
/// that cannot be encrypted for.
pub(crate) fn is_of_unusable_kind(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let (Some(kind), Some(text)) = (words.next(), words.next()) else {
        return false;
    };
    let Ok(blob) = BASE64.decode(text) else {
        return false;
    };
    // A key names its type in its Base64 text once more.
    let is_sound = take_string(&mut blob.as_slice()) == Some(kind.as_bytes())
        && !has_zero_integer(&mut blob.as_slice(), 2);
    is_sound
        && matches!(
            format!("{kind} {text}").parse::<age::ssh::Recipient>(),
            Err(ParseRecipientKeyError::RsaModulusTooLarge
                | ParseRecipientKeyError::RsaModulusTooSmall
                | ParseRecipientKeyError::Unsupported(_))
        )
}

/// Reads `ssh-ed25519 ...` or `ssh-rsa ...`, or says why not.
pub(crate) fn parse_recipient(line: &str) -> std::result::Result<age::ssh::Recipient, String> {
    let mut words = line.split_ascii_whitespace();
    let (Some(kind), Some(text)) = (words.next(), words.next()) else {
        return Err("an SSH public key is a type and its Base64 text".into());
    };
    let invalid = || format!("this is not a valid {kind} public key");
    let blob = BASE64.decode(text).map_err(|_| invalid())?;
    if has_zero_integer(&mut blob.as_slice(), 2) {
        return Err(invalid());
    }
    let key = format!("{kind} {text}")
        .parse()
        .map_err(|error| match error {
            ParseRecipientKeyError::RsaModulusTooLarge => {
                "RSA keys over 4096 bits are not supported"
            }
            ParseRecipientKeyError::RsaModulusTooSmall => "RSA keys under 2048 bits are too weak",
            ParseRecipientKeyError::Unsupported(_) => {
                "only ssh-ed25519 and ssh-rsa keys can be encrypted for"
            }
            _ => "this is not a valid SSH public key",
        })?;
    match &key {
        age::ssh::Recipient::SshEd25519(_, point) if point.is_small_order() => {
            Err(x25519::LOW_ORDER.into())
        }
        _ => Ok(key),
    }
}

/// An SSH private key, perhaps encrypted.
pub(crate) struct SshKey {
    file: String,
    key: age::ssh::Identity,
    public: age::ssh::Recipient,
    /// Of bcrypt, if it is encrypted.
    rounds: u32,
    unlocked: OnceLock<age::ssh::Identity>,
}

impl SshKey {
    /// Reads the private key in `text`, from the file called `file`: in OpenSSH's format, PKCS#1 or
    /// PKCS#8.
    pub(crate) fn parse(file: &str, text: &[u8]) -> Result<Self> {
        let fail = |why: &str| Error::Identity {
            file: file.into(),
            why: why.into(),
        };
        if text.len() > MAX_PRIVATE_KEY {
            return Err(Error::TooLarge {
                what: file.into(),
                limit: MAX_PRIVATE_KEY,
            });
        }
        let text = std::str::from_utf8(text).map_err(|_| fail("it is not text"))?;
        let invalid = || fail("this is not a valid SSH private key");
        let text = text.trim_start();
        let mut rounds = 0;
        let key = if let Some(rest) = text.strip_prefix(OPENSSH_BEGIN) {
            let blob = decoded(rest, OPENSSH_END).ok_or_else(invalid)?;
            rounds = rounds_of_sound_key(&blob).ok_or_else(invalid)?;
            age::ssh::Identity::from_buffer(OnePiece(&to_pem(&blob, "OPENSSH")), None)
        } else if let Some(rest) = text.strip_prefix(PKCS8_BEGIN) {
            let der = decoded(rest, PKCS8_END).ok_or_else(invalid)?;
            let pem = match pkcs8::key(&der).map_err(|why| fail(&why))? {
                pkcs8::Key::Rsa(key) => to_pem(key, "RSA"),
                pkcs8::Key::Ed25519(blob) => to_pem(&blob, "OPENSSH"),
            };
            age::ssh::Identity::from_buffer(OnePiece(&pem), None)
        } else if text.starts_with(PKCS8_ENCRYPTED) {
            return Err(fail(
                "this form of encrypted key is not supported; convert a copy of it with: \
                 ssh-keygen -p -f FILE",
            ));
        } else {
            age::ssh::Identity::from_buffer(OnePiece(text), None)
        };
        let key = key.map_err(|_| invalid())?;
        if let age::ssh::Identity::Unsupported(kind) = &key {
            return Err(fail(&unsupported(kind)));
        }
        let public = key.clone().try_into().map_err(|error| match error {
            ParseRecipientKeyError::RsaModulusTooLarge => {
                fail("RSA keys over 4096 bits are not supported")
            }
            _ => invalid(),
        })?;
        Ok(Self {
            file: file.into(),
            key,
            public,
            rounds,
            unlocked: OnceLock::new(),
        })
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.key, age::ssh::Identity::Encrypted(_))
    }

    /// The public key as text, `ssh-ed25519 ...`; errors as for a recipient.
    pub(crate) fn recipient(&self) -> Result<age::ssh::Recipient> {
        // Through the text, for the limits on RSA sizes.
        parse_recipient(&self.public.to_string()).map_err(|why| Error::Identity {
            file: self.file.clone(),
            why,
        })
    }

    /// The key, ready to open a file with `header`; `None` if the header does not name it,
    /// so that no passphrase is asked for in vain.
    pub(crate) fn for_header(
        &self,
        header: &Header,
        prompt: &dyn AskPassphrase,
        accepted_work: u8,
    ) -> Result<Option<&age::ssh::Identity>> {
        let (kind, blob) = match &self.public {
            age::ssh::Recipient::SshRsa(blob, _) => ("ssh-rsa", blob),
            age::ssh::Recipient::SshEd25519(blob, _) => ("ssh-ed25519", blob),
        };
        // A stanza names its key by the first 4 bytes of the public key's SHA-256.
        let tag = BASE64_STANDARD_NO_PAD.encode(&Sha256::digest(blob)[..4]);
        if !header.names(kind, &tag) {
            return Ok(None);
        }
        let age::ssh::Identity::Encrypted(encrypted) = &self.key else {
            return Ok(Some(&self.key));
        };
        if let Some(unlocked) = self.unlocked.get() {
            return Ok(Some(unlocked));
        }
        let rounds = self.rounds;
        Work::Bcrypt { rounds }.permit(&self.file, accepted_work, prompt)?;
        let passphrase = prompt.ask(&format!("passphrase for {}", self.file))?;
        let mut refused = None;
        for form in forms(&passphrase) {
            match encrypted.decrypt(form) {
                Ok(unlocked) => return Ok(Some(self.unlocked.get_or_init(|| unlocked.into()))),
                Err(error) => match crate::age_error::decrypt(error, &self.file, true) {
                    error @ Error::WrongPassphrase { .. } => refused = Some(error),
                    error => return Err(error),
                },
            }
        }
        Err(refused.expect("there is at least one form"))
    }
}

fn unsupported(kind: &UnsupportedKey) -> String {
    match kind {
        UnsupportedKey::EncryptedPem => "this old form of encrypted key is not supported; \
             convert a copy of it with: ssh-keygen -o -p -f FILE"
            .into(),
        UnsupportedKey::EncryptedSsh(cipher) => {
            format!(
                "keys encrypted with {cipher} are not supported; use ssh-keygen -p -Z aes256-ctr"
            )
        }
        UnsupportedKey::Hardware(kind) | UnsupportedKey::Type(kind) => {
            format!("SSH keys of type {kind} cannot decrypt; use ssh-ed25519 or ssh-rsa")
        }
    }
}

/// The bytes in the Base64 text before the line `end`.
fn decoded(text: &str, end: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (lines, _) = text.split_once(end)?;
    let mut body = Zeroizing::new(String::with_capacity(lines.len()));
    body.extend(lines.split_ascii_whitespace());
    BASE64.decode(&*body).ok().map(Zeroizing::new)
}

/// A key file in lines of 70, as OpenSSH writes them.
fn to_pem(blob: &[u8], kind: &str) -> Zeroizing<String> {
    let body = Zeroizing::new(BASE64_STANDARD.encode(blob));
    // Room for all of it, so that no copies are left behind by a growing buffer.
    let room = body.len() + body.len() / 70 + 100;
    let mut pem = Zeroizing::new(String::with_capacity(room));
    pem.extend(["-----BEGIN ", kind, " PRIVATE KEY-----"]);
    for (i, c) in body.chars().enumerate() {
        if i % 70 == 0 {
            pem.push('\n');
        }
        pem.push(c);
    }
    pem.extend(["\n-----END ", kind, " PRIVATE KEY-----\n"]);
    pem
}

/// Takes an SSH `string` (RFC 4251, section 5) off the front of `input`.
fn take_string<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = input.split_first_chunk::<4>()?;
    let (string, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *input = rest;
    Some(string)
}

/// Whether `blob` is an RSA key with a non-empty zero among its first `count` integers.
fn has_zero_integer(blob: &mut &[u8], count: usize) -> bool {
    take_string(blob) == Some(b"ssh-rsa")
        && (0..count)
            .map_while(|_| take_string(blob))
            .any(|integer| !integer.is_empty() && integer.iter().all(|&byte| byte == 0))
}

/// The rounds of bcrypt that encrypt a key in OpenSSH's private key format, 0 if it is not
/// encrypted; `None` if it does not follow the format, or if its public or (if not encrypted)
/// private part has a zero integer.
fn rounds_of_sound_key(blob: &[u8]) -> Option<u32> {
    let mut blob = blob.strip_prefix(b"openssh-key-v1\0")?;
    let cipher = take_string(&mut blob)?;
    let (_kdf, mut options) = (take_string(&mut blob)?, take_string(&mut blob)?);
    blob = blob.strip_prefix(&[0, 0, 0, 1])?;
    let mut public = take_string(&mut blob)?;
    // Two check integers stand before the private part.
    let mut private = take_string(&mut blob)?.get(8..).unwrap_or_default();
    let encrypted = cipher != b"none";
    if has_zero_integer(&mut public, 2) || !encrypted && has_zero_integer(&mut private, 6) {
        return None;
    }
    if !encrypted {
        return Some(0);
    }
    let _salt = take_string(&mut options)?;
    options.try_into().ok().map(u32::from_be_bytes)
}

/// A text that is read in one piece.
///
/// age 0.12 asks for a private key line by line and, after each line, reads all of it again from
/// the start: 8,000 short lines take seconds.
struct OnePiece<'a>(&'a str);

impl Read for OnePiece<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut rest = self.0.as_bytes();
        let count = rest.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for OnePiece<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.0.as_bytes())
    }

    fn consume(&mut self, count: usize) {
        self.0 = &self.0[count..];
    }

    fn read_line(&mut self, line: &mut String) -> io::Result<usize> {
        let text = std::mem::take(&mut self.0);
        line.push_str(text);
        Ok(text.len())
    }
}
