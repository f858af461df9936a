//! Errors, as sentences.

use std::io;
use std::path::{Path, PathBuf};

/// The result of anything in this crate.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// An error of a benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] warplock::Error),
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried: "read", "write".
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system started no thread.
    #[error("cannot start a thread: {0}")]
    NoThread(io::Error),
    /// The request cannot be done; says why, and what to do.
    #[error("{0}")]
    Input(String),
    /// A result did not agree with the reference: no number of this run may be trusted.
    #[error("{0}; nothing is reported")]
    Wrong(String),
    /// A suite needs a GPU, there is none, and none was named: not a failure, but not a result
    /// either.
    #[error("skipped: no GPU ({0})")]
    NoGpu(String),
    /// A suite needs mounts, and nothing can be mounted: as with [`Error::NoGpu`].
    #[error("skipped: no /dev/fuse")]
    NoFuse,
    /// The plot could not be drawn.
    #[error("cannot draw the plot: {0}")]
    Plot(String),
}

impl Error {
    /// For `map_err`: what was tried with which file.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File {
            doing,
            path,
            source,
        }
    }
}
