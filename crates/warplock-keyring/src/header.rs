//! Reads an age file's header without any key, in linear time and bounded memory.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, BufRead, Read};

use age::{DecryptError, Decryptor};
use age_core::format::{FileKey, Stanza};
use zeroize::Zeroizing;

use crate::age_error;
use crate::attributes;
use crate::error::{Error, Result};
use crate::work::Work;

/// The most bytes of a wrapped key: enough for ten thousand X25519 recipients or six hundred
/// post-quantum ones.
pub const MAX_WRAPPED_LEN: usize = 1024 * 1024;

/// The most stanzas of a header: more than the 128 KiB of an encrypted file's wrapped key hold.
/// Trying an identity on all of them takes a third of a second.
pub(crate) const MAX_STANZAS: usize = 2048;

/// The most arguments of a stanza; the known kinds have at most four.
const MAX_ARGS: usize = 64;

/// A longer name of an unknown stanza is cut for display.
const MAX_NAME_SHOWN: usize = 40;

/// What a wrapped key can be opened with: one kind for each stanza of its header.
///
/// `Display` gives age's name of the stanza.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StanzaKind {
    /// An age identity (`AGE-SECRET-KEY-1...`).
    X25519,
    /// A passphrase, stretched by scrypt.
    Scrypt {
        /// Base-2 logarithm of scrypt's N; `None` where the stanza does not say properly.
        log_n: Option<u8>,
    },
    /// An SSH private key of type Ed25519.
    SshEd25519,
    /// An SSH private key of type RSA.
    SshRsa,
    /// Any other stanza, made by a plugin or for hardware keys (`piv-p256`, `p256tag`,
    /// `mlkem768p256tag`, ...).
    Other(String),
}

impl StanzaKind {
    fn of(tag: &str, args: &[String]) -> Self {
        match tag {
            "X25519" => Self::X25519,
            "scrypt" => Self::Scrypt {
                log_n: args.get(1).and_then(|n| n.parse().ok()),
            },
            "ssh-ed25519" => Self::SshEd25519,
            "ssh-rsa" => Self::SshRsa,
            other => Self::Other(other.chars().take(MAX_NAME_SHOWN).collect()),
        }
    }
}

impl fmt::Display for StanzaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X25519 => "X25519",
            Self::Scrypt { .. } => "scrypt",
            Self::SshEd25519 => "ssh-ed25519",
            Self::SshRsa => "ssh-rsa",
            // age allows only printable ASCII here, so a terminal is safe from it.
            Self::Other(name) => name,
        })
    }
}

/// Lists what opens `wrapped`, in the order of its header, without needing any key.
///
/// Nothing is verified: only a successful [`unwrap`](crate::unwrap) proves that the header
/// is what its maker wrote. Stanzas that open nothing are left out: filler (`*-grease`), and that with
/// a file's attributes.
///
/// # Errors
/// As for [`unwrap`](crate::unwrap), where the bytes are not an age file.
///
/// ```
/// use std::sync::Arc;
/// use warplock_keyring::{MasterKey, NewIdentity, NoPrompt, Recipients, StanzaKind};
///
/// # fn main() -> warplock_keyring::Result<()> {
/// let mut recipients = Recipients::new(Arc::new(NoPrompt));
/// recipients.add(&NewIdentity::generate().recipient())?;
/// let wrapped = warplock_keyring::wrap(&MasterKey::generate()?, &recipients)?;
/// assert_eq!(warplock_keyring::inspect_wrapped(&wrapped)?, [StanzaKind::X25519]);
/// # Ok(())
/// # }
/// ```
pub fn inspect_wrapped(wrapped: &[u8]) -> Result<Vec<StanzaKind>> {
    let header = Header::read(wrapped, "the wrapped key")?;
    Ok(header.kinds().collect())
}

/// The stanzas of an age file, by name and arguments.
pub(crate) struct Header {
    stanzas: Vec<(String, Vec<String>)>,
    /// The body of the stanza with a file's attributes.
    attributes: Option<Vec<u8>>,
}

impl Header {
    /// Reads the header of the age file `bytes`, called `what` in errors.
    pub(crate) fn read(bytes: &[u8], what: &str) -> Result<Self> {
        if bytes.len() > MAX_WRAPPED_LEN {
            return Err(Error::TooLarge {
                what: what.into(),
                limit: MAX_WRAPPED_LEN,
            });
        }
        let recorder = Recorder::default();
        // The recorder opens nothing, so the outcome is an error on each path.
        match decryptor(bytes, what)?.decrypt(std::iter::once(&recorder as &dyn age::Identity)) {
            Err(DecryptError::NoMatchingKeys) => Ok(Self {
                stanzas: recorder.seen.into_inner(),
                attributes: recorder.attributes.into_inner(),
            }),
            Err(error) => Err(age_error::decrypt(error, what, false)),
            Ok(_) => Err(Error::Malformed {
                what: what.into(),
                why: "it opens without a key",
            }),
        }
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = StanzaKind> + '_ {
        self.stanzas
            .iter()
            .filter(|(tag, _)| !tag.ends_with("-grease") && tag != attributes::STANZA)
            .map(|(tag, args)| StanzaKind::of(tag, args))
    }

    /// The body of the stanza with a file's attributes.
    pub(crate) fn attributes(&self) -> Option<&[u8]> {
        self.attributes.as_deref()
    }

    /// The stanzas of this kind.
    pub(crate) fn count(&self, kind: &StanzaKind) -> usize {
        self.kinds().filter(|found| found == kind).count()
    }

    /// The work of opening this file with a passphrase; `None` if identities open it. (It is never
    /// both: age refuses such a header.)
    pub(crate) fn passphrase_work(&self) -> Option<Work> {
        self.kinds().find_map(|kind| match kind {
            // age refuses a stanza without a proper number before it does any work.
            StanzaKind::Scrypt { log_n } => Some(Work::Scrypt {
                log_n: log_n.unwrap_or(0),
            }),
            _ => None,
        })
    }

    /// Whether a stanza of this name has this first argument.
    pub(crate) fn names(&self, tag: &str, first_arg: &str) -> bool {
        self.stanzas
            .iter()
            .any(|(t, args)| t == tag && args.first().is_some_and(|arg| arg == first_arg))
    }
}

/// An identity that opens nothing and remembers what it was shown.
#[derive(Default)]
struct Recorder {
    seen: RefCell<Vec<(String, Vec<String>)>>,
    attributes: RefCell<Option<Vec<u8>>>,
}

impl age::Identity for Recorder {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<std::result::Result<FileKey, DecryptError>> {
        if stanza.tag == attributes::STANZA
            && stanza.args == ["1"]
            && stanza.body.len() == attributes::BODY_LEN
        {
            self.attributes
                .borrow_mut()
                .get_or_insert_with(|| stanza.body.clone());
        }
        self.seen
            .borrow_mut()
            .push((stanza.tag.clone(), stanza.args.clone()));
        None
    }
}

/// age's reader for `bytes`.
pub(crate) fn decryptor<'a>(bytes: &'a [u8], what: &str) -> Result<Decryptor<AgeFile<'a>>> {
    if !bytes.starts_with(b"age-encryption.org/") {
        return Err(Error::NotAgeFile { what: what.into() });
    }
    let malformed = |why| Error::Malformed {
        what: what.into(),
        why,
    };
    Decryptor::new_buffered(AgeFile {
        rest: bytes,
        header_len: header_len(bytes).map_err(malformed)?,
    })
    .map_err(|error| match error {
        // age says so of any first line but a valid version 1, and of a damaged rest too.
        DecryptError::UnknownFormat if bytes.starts_with(b"age-encryption.org/v1\n") => {
            malformed("its header is invalid")
        }
        error => age_error::decrypt(error, what, false),
    })
}

/// Reads and verifies the content of an opened age file; of one longer than `limit` bytes
/// it reads one byte more and does not verify the rest.
pub(crate) fn read_content(
    reader: impl Read,
    what: &str,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>> {
    // The capacity for all of it where that is little, so that no copies are left behind.
    let mut content = Zeroizing::new(Vec::with_capacity(limit.min(64 * 1024) + 1));
    match reader.take(limit as u64 + 1).read_to_end(&mut content) {
        Ok(_) => Ok(content),
        Err(_) => Err(Error::Altered { what: what.into() }),
    }
}

/// The bytes of an age file, whose header comes out in one piece.
///
/// age 0.12 asks for a header line by line and, after each line, reads all of it again from
/// the start: a hostile header of 20 KiB takes seconds, one of 1 MiB hours. So the first
/// `read_until` here returns the whole header, and the time is linear.
pub(crate) struct AgeFile<'a> {
    rest: &'a [u8],
    /// Bytes that are still to be returned in one piece.
    header_len: usize,
}

/// An error where [`decryptor`] would refuse a new header for its length.
pub(crate) fn check_limits(bytes: &[u8]) -> Result<()> {
    header_len(bytes)
        .map(drop)
        .map_err(|_| Error::TooManyStanzas)
}

/// The length of the header: up to the line of its MAC, the only one that begins so.
///
/// Headers with far more stanzas and arguments than real ones are refused here: age takes a hundred
/// times their length of memory.
fn header_len(bytes: &[u8]) -> std::result::Result<usize, &'static str> {
    let (mut len, mut stanzas) = (0, 0);
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        len += line.len();
        if line.starts_with(b"---") {
            break;
        }
        if line.starts_with(b"->") {
            stanzas += 1;
            if stanzas > MAX_STANZAS {
                return Err("its header has more than 2048 stanzas");
            }
            if line.iter().filter(|&&byte| byte == b' ').count() > MAX_ARGS {
                return Err("a stanza of its header has more than 64 arguments");
            }
        }
    }
    Ok(len)
}

impl Read for AgeFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.rest.read(buffer)
    }
}

impl BufRead for AgeFile<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(self.rest)
    }

    fn consume(&mut self, count: usize) {
        self.rest.consume(count);
    }

    fn read_until(&mut self, end: u8, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let header_len = std::mem::take(&mut self.header_len);
        if header_len == 0 {
            return self.rest.read_until(end, buffer);
        }
        let (header, rest) = self.rest.split_at(header_len);
        buffer.extend_from_slice(header);
        self.rest = rest;
        Ok(header.len())
    }
}
