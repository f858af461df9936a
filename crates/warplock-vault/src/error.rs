//! Errors, as sentences for people, kinds for programs and numbers for the kernel.

use std::borrow::Cow;
use std::io;

use rustix::io::Errno;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The classes of [`Error`] a caller treats differently (the command line: as exit codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A wrong key, or bytes that were altered.
    Authentication,
    /// The request cannot be meant.
    Usage,
    /// Everything else.
    Failure,
}

/// What is wrong with a file without its first header.
pub(crate) const NO_HEADER: &str =
    "has no header: making it was interrupted by a crash, or its header was destroyed";

/// Why something could not be done. `Display` is a sentence without a full stop; no secret is
/// ever part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation that is an error on any file system: no such file, folder not empty, ...
    #[error("{0}")]
    Errno(Errno),
    /// The store failed.
    #[error("{what}: {source}")]
    Store {
        /// What was being done.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Bytes in the store are not what this vault wrote there.
    #[error("{}", altered(&what.shown, why))]
    Altered {
        /// Which object: a name in the store, or a file and block.
        what: Subject,
        /// How that shows, and what to do.
        why: String,
    },
    /// A file without its first header.
    #[error("{}", unfinished(&what.shown))]
    Unfinished {
        /// Which file.
        what: Subject,
    },
    /// `warplock.vault` cannot be used.
    #[error("{what}: {why}")]
    Config {
        /// Which file.
        what: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// What this machine remembers of the vault cannot be read or written.
    #[error(
        "the machine's memory {path} {what}: {source}; mend that, or choose another place with \
         --memory DIR, or do without with --no-memory"
    )]
    Memory {
        /// The file or folder.
        path: String,
        /// What failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// An operation on a file by its path.
    #[error("{path}: {}", why.clone().unwrap_or_else(|| errno.to_string()))]
    Path {
        /// The path in the vault.
        path: String,
        /// The system's number for what is wrong.
        errno: Errno,
        /// What was altered or failed.
        why: Option<String>,
    },
    /// Another process has the vault open.
    #[error("the vault {what} is in use{by}; unmount it there first")]
    Locked {
        /// Which vault.
        what: String,
        /// By whom, as far as known.
        by: String,
    },
    /// The request cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// The key could not be wrapped or unwrapped.
    #[error(transparent)]
    Keyring(#[from] warplock_keyring::Error),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] warplock::Error),
}

fn altered(what: &str, why: &str) -> String {
    format!("{what} was altered: {why}")
}

fn unfinished(what: &str) -> String {
    format!("{what} {NO_HEADER}; `warplock vault check --repair` takes it out of the tree")
}

impl Error {
    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Altered { .. } | Error::Unfinished { .. } => ErrorKind::Authentication,
            Error::Usage(_) => ErrorKind::Usage,
            Error::Keyring(error) => match error.kind() {
                warplock_keyring::ErrorKind::Authentication => ErrorKind::Authentication,
                warplock_keyring::ErrorKind::Usage => ErrorKind::Usage,
                warplock_keyring::ErrorKind::Failure => ErrorKind::Failure,
            },
            _ => ErrorKind::Failure,
        }
    }

    /// The number for the kernel: the store's own, or `EIO` for what was altered.
    pub fn errno(&self) -> Errno {
        match self {
            Error::Errno(errno) | Error::Path { errno, .. } => *errno,
            Error::Store { source, .. } | Error::Memory { source, .. } => {
                Errno::from_io_error(source).unwrap_or(Errno::IO)
            }
            _ => Errno::IO,
        }
    }

    pub(crate) fn memory(path: &std::path::Path, what: &'static str, source: io::Error) -> Self {
        Error::Memory {
            path: path.display().to_string(),
            what,
            source,
        }
    }

    /// The sentence for a log that others may read: without names in the vault.
    pub(crate) fn in_log(&self) -> String {
        match self {
            Error::Altered { what, why } => what.in_log(|what| altered(what, why)),
            Error::Unfinished { what } => what.in_log(unfinished),
            other => other.to_string(),
        }
    }

    /// The same about a file by its path, where it is called `called`, by its id alone.
    pub(crate) fn with_path(self, called: &str, path: impl FnOnce() -> Subject) -> Self {
        match self {
            Error::Altered { what, why } if what.shown.contains(called) => {
                let path = path();
                let what = Subject {
                    shown: what.shown.replace(called, &path.shown),
                    logged: what.logged.replace(called, &path.logged),
                };
                Error::Altered { what, why }
            }
            other => other,
        }
    }

    /// The same about something in a folder that has no path of its own.
    pub(crate) fn within(self, folder: &Subject) -> Self {
        match self {
            Error::Altered { what, why } => {
                let what = Subject {
                    shown: format!("{} (in {})", what.shown, folder.shown),
                    logged: format!("{} (in {})", what.logged, folder.logged),
                };
                Error::Altered { what, why }
            }
            other => other,
        }
    }

    pub(crate) fn altered(what: impl Into<Subject>, why: impl Into<String>) -> Self {
        Error::Altered {
            what: what.into(),
            why: why.into(),
        }
    }
}

/// What a sentence is about, for two kinds of readers. There is no `Display`, so that each message
/// has to choose one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// For users who may know what is in the vault.
    pub(crate) shown: String,
    /// For logs that others may read: as the store calls it.
    pub(crate) logged: String,
}

impl Subject {
    /// The same for a part of it.
    pub(crate) fn part(&self, name: impl Fn(&str) -> String) -> Self {
        Subject {
            shown: name(&self.shown),
            logged: name(&self.logged),
        }
    }

    /// A sentence about it for a log.
    pub(crate) fn in_log(&self, sentence: impl Fn(&str) -> String) -> String {
        let mut said = sentence(&self.logged);
        if self.shown != self.logged {
            said.push_str(" (`warplock vault check` tells its name)");
        }
        said
    }
}

/// Something that has no name in the vault, or is called by the one in the store.
impl From<String> for Subject {
    fn from(shown: String) -> Self {
        let logged = shown.clone();
        Subject { shown, logged }
    }
}

impl From<Cow<'_, str>> for Subject {
    fn from(shown: Cow<'_, str>) -> Self {
        shown.into_owned().into()
    }
}

impl From<&str> for Subject {
    fn from(shown: &str) -> Self {
        shown.to_owned().into()
    }
}

impl From<&Subject> for Subject {
    fn from(subject: &Subject) -> Self {
        subject.clone()
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::Errno(errno)
    }
}

/// Errors of the store that are usual on any file system keep their number and need no sentence.
impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(errno) if errno != Errno::IO => Error::Errno(errno),
            _ => Error::Store {
                what: "the store failed".into(),
                source,
            },
        }
    }
}
