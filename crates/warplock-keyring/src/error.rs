//! Errors: variants and kinds for programs, sentences for people.

use crate::header::{MAX_STANZAS, StanzaKind};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The classes of [`Error`] a caller treats differently (the command line: as exit codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The secret offered does not open this, or the bytes were altered: a wrong
    /// passphrase, no matching identity, a header or content that fails verification.
    Authentication,
    /// The request contradicts itself, for example a passphrase together with recipients.
    Usage,
    /// Everything else: unreadable files, text that does not parse, plugins that fail.
    Failure,
}

/// Bytes that an X25519 recipient takes in a wrapped key, and a few for the rest.
const X25519_LEN: usize = 100;

/// Why a key could not be made, read, wrapped or unwrapped.
///
/// `Display` is a sentence without a full stop. No secret is ever part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input does not begin as an age file does.
    #[error("{what} is not an age file: it does not begin with \"age-encryption.org/\"")]
    NotAgeFile {
        /// Which input.
        what: String,
    },
    /// The input is an age file of a version other than 1.
    #[error("{what} is an age file of a version this program does not know; try a newer one")]
    NewerFormat {
        /// Which input.
        what: String,
    },
    /// The input begins as an age file, but does not follow the format.
    #[error("{what} is a damaged age file: {why}")]
    Malformed {
        /// Which input.
        what: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The input is longer than anything legitimate.
    #[error("{what} is larger than {limit} bytes, the most that is accepted")]
    TooLarge {
        /// Which input.
        what: String,
        /// The most bytes accepted.
        limit: usize,
    },
    /// Nothing that was offered opens the wrapped key.
    #[error("{}", no_match(wanted, *had_identities, *had_passphrase))]
    NoMatch {
        /// What would open it, one for each stanza of the header.
        wanted: Vec<StanzaKind>,
        /// Whether identities were offered.
        had_identities: bool,
        /// Whether a passphrase was offered.
        had_passphrase: bool,
    },
    /// The passphrase does not open this.
    #[error("wrong passphrase for {what} (or its header was altered)")]
    WrongPassphrase {
        /// What the passphrase was for.
        what: String,
    },
    /// The age file's authentication failed after a key was found.
    #[error("{what} was altered or cut: its authentication failed; restore it from a copy")]
    Altered {
        /// Which input.
        what: String,
    },
    /// The age file opens, but what it holds is not a key.
    #[error(
        "the wrapped key opens, but does not hold exactly 32 bytes: this is not a Warplock key"
    )]
    PayloadLength,
    /// The passphrase stretching asked for by the input would take too long.
    #[error(
        "{what} asks for {work}, and the most that is accepted is as much as 2^{max} of scrypt: \
         it was likely made to stall its reader"
    )]
    ExcessiveWork {
        /// Which input.
        what: String,
        /// The work asked for.
        work: String,
        /// Base-2 logarithm of the most work accepted.
        max: u8,
    },
    /// The passphrase stretching asked for by the input takes long, and was not confirmed.
    #[error("{what} asks for {work}: allow that only if you trust its maker")]
    UnconfirmedWork {
        /// Which input.
        what: String,
        /// The work asked for.
        work: String,
        /// Base-2 logarithm of the work, to be accepted with
        /// [`Identities::accept_work`](crate::Identities::accept_work).
        log_n: u8,
    },
    /// Too little memory for the passphrase stretching.
    #[error(
        "stretching the passphrase of {what} takes {mib} MiB of memory, and there is less; \
         free some, or raise the limit (ulimit -v)"
    )]
    NoMemory {
        /// Which input.
        what: String,
        /// What is needed, in MiB.
        mib: usize,
    },
    /// Too many recipients and identities: trying all would take too long.
    #[error(
        "the wrapped key is for {stanzas} recipients, too many to try {identities} identities on \
         each: give only the identity that opens it"
    )]
    TooManyAttempts {
        /// The recipients that the wrapped key says it is for.
        stanzas: usize,
        /// The identities that were to be tried.
        identities: usize,
    },
    /// A plugin is missing or failed.
    #[error("{0}")]
    Plugin(String),
    /// A passphrase was combined with other recipients or another passphrase.
    #[error(
        "a passphrase cannot be combined with recipients or a second passphrase: \
         age files have either one passphrase or any number of recipients"
    )]
    MixedPassphrase,
    /// Neither a recipient nor a passphrase was given to wrap the key for.
    #[error("there is neither a recipient nor a passphrase to encrypt for")]
    NoRecipients,
    /// Some recipients refuse to be combined, such as post-quantum and classic ones.
    #[error(
        "these recipients cannot be combined: one of them demands the properties [{labels}] \
         of all; encrypt for each group on its own"
    )]
    IncompatibleRecipients {
        /// The labels not shared by all.
        labels: String,
    },
    /// Too many recipients: the wrapped key would be refused when read.
    #[error(
        "too many recipients: the wrapped key would take {found} bytes, the most is {limit}, \
         enough for about {} recipients that are X25519 keys; encrypt for fewer",
        limit / X25519_LEN
    )]
    TooManyRecipients {
        /// Bytes the wrapped key takes.
        found: usize,
        /// The most bytes accepted.
        limit: usize,
    },
    /// More recipients than a reader accepts.
    #[error("too many recipients: a wrapped key has at most {MAX_STANZAS}; encrypt for fewer")]
    TooManyStanzas,
    /// A text is not a recipient.
    #[error("{place}: {why}")]
    Recipient {
        /// The recipient as given, or file and line.
        place: String,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// An identity file cannot be used.
    #[error("identity file {file}: {why}")]
    Identity {
        /// The file's name.
        file: String,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// A key file does not hold a key.
    #[error("key file {file}: {why}")]
    KeyFile {
        /// The file's name.
        file: String,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// A passphrase was needed and not available.
    #[error("no {wanted}: {why}")]
    NoPassphrase {
        /// Which passphrase.
        wanted: String,
        /// Why there is none and what to do.
        why: String,
    },
    /// A passphrase was needed, and there is no terminal to ask for it.
    #[error("no {wanted}: the terminal cannot be asked ({source})")]
    NoTerminal {
        /// Which passphrase.
        wanted: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes: {0}")]
    Random(getrandom::Error),
    /// Reading or writing failed.
    #[error("{what}: {source}")]
    Io {
        /// Which file, and what was tried.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl Error {
    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoMatch { .. } | Error::WrongPassphrase { .. } | Error::Altered { .. } => {
                ErrorKind::Authentication
            }
            Error::MixedPassphrase | Error::NoRecipients | Error::IncompatibleRecipients { .. } => {
                ErrorKind::Usage
            }
            _ => ErrorKind::Failure,
        }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}

fn no_match(wanted: &[StanzaKind], had_identities: bool, had_passphrase: bool) -> String {
    let needs_passphrase = wanted
        .iter()
        .any(|kind| matches!(kind, StanzaKind::Scrypt { .. }));
    if needs_passphrase {
        return if had_identities {
            "the wrapped key needs a passphrase, and only identities were given"
        } else {
            "the wrapped key needs a passphrase, and none was given"
        }
        .into();
    }
    let mut kinds: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    kinds.sort_unstable();
    kinds.dedup();
    // A header of many stanzas must not become a page of text.
    let more = kinds.len().saturating_sub(8);
    kinds.truncate(8);
    let mut list = if kinds.is_empty() {
        "unknown".to_string()
    } else {
        kinds.join(", ")
    };
    if more > 0 {
        list.push_str(&format!(" and {more} more"));
    }
    if had_identities {
        format!("none of the identities given opens the wrapped key (it is for: {list})")
    } else if had_passphrase {
        format!("a passphrase does not open the wrapped key (it is for: {list})")
    } else {
        format!("the wrapped key needs an identity (it is for: {list})")
    }
}
