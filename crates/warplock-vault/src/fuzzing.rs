//! Entry points for fuzz targets: each parser of bytes that a store holds. Each function says
//! whether the bytes were taken. Not part of the interface: it changes with the format.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

use crate::format::config::Config;
use crate::format::header::Header;
use crate::{core, format::names, format::record, tree::folder, tree::symlink, tree::xattr};

/// Reads `warplock.vault`.
pub fn config(bytes: &[u8]) -> bool {
    Config::parse(bytes).is_ok()
}

/// A parser of a record.
pub type Parser = fn(&[u8]) -> bool;

/// The parsers of what is sealed in the store, by what they read.
pub const RECORDS: &[(&str, Parser)] = &[
    ("header", header),
    ("journal", |bytes| {
        record::ParsedRecord::parse(bytes, 1 << 40).is_some()
    }),
    ("folder", folder),
    ("symlink", |bytes| symlink::decode(bytes).is_some()),
    ("xattr", |bytes| xattr::decode(bytes).is_some()),
];

fn header(bytes: &[u8]) -> bool {
    let header = Header::decode(bytes);
    if let Some(header) = &header {
        assert_eq!(Header::decode(&header.encode()).as_ref(), Some(header));
    }
    header.is_some()
}

fn folder(bytes: &[u8]) -> bool {
    let record = folder::decode(bytes);
    if let Some(record) = &record {
        assert_eq!(
            folder::decode(&folder::encode(record)).as_ref(),
            Some(record)
        );
    }
    record.is_some()
}

/// Reads a name in the store.
pub fn name(bytes: &[u8]) -> bool {
    let stored = OsStr::from_bytes(bytes);
    let journal = core::journal_id(stored);
    if let Some(id) = journal {
        assert_eq!(core::journal_name(&id), stored);
    }
    match names::kind(stored) {
        names::Kind::Short(sealed) => {
            // One entry has one name.
            assert_eq!(BASE64.encode(sealed).as_bytes(), bytes);
            true
        }
        names::Kind::Long(beside) => {
            assert_eq!(names::entry_beside(&beside).as_deref(), Some(stored));
            true
        }
        names::Kind::Other => journal.is_some() || names::entry_beside(stored).is_some(),
    }
}
