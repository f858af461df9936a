//! Files that other programs leave in a store.

use crate::error::{Error, Subject};
use crate::fs::{Attributes, FileType};

/// Whether a vault never makes such an object in its store: fifos, sockets and devices are files
/// there.
pub(crate) fn is_foreign(found: &Attributes) -> bool {
    !matches!(
        FileType::from_raw_mode(found.mode),
        FileType::RegularFile | FileType::Directory | FileType::Symlink
    )
}

pub(crate) fn foreign(what: impl Into<Subject>) -> Error {
    Error::altered(
        what,
        "a fifo, socket or device stands there in the store, where the vault has none but in \
         files; `warplock vault check --repair` moves it out of the way",
    )
}
