//! Errors of whole jobs; errors of single units are rows of the log.

use std::io;
use std::path::{Path, PathBuf};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a job could not be planned, run or reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file of the job is not what `plan` wrote.
    #[error("{}: not a file of a complete job ({why}); plan it again", .path.display())]
    Job {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The keys are not usable.
    #[error(transparent)]
    Keyring(#[from] warplock_keyring::Error),
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    }

    pub(crate) fn job(path: &Path, why: impl ToString) -> Self {
        Error::Job {
            path: path.to_owned(),
            why: why.to_string(),
        }
    }
}
