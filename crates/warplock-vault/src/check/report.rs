//! The options and the report of a check.

use std::path::PathBuf;

/// How thoroughly to check, and what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Leave the content of files longer than a few blocks unread: names, headers, lengths and
    /// places only.
    pub quick: bool,
    /// Tidy up what a crash left, and move what was altered to [`LOST`](super::LOST) in the store.
    /// Removes only what is provably the vault's own and empty.
    pub repair: bool,
}

/// What a [`Finding`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The store was altered by something other than the vault.
    Altered,
    /// A crash explains it: the vault was not closed properly, and only a crash leaves this.
    Crash,
    /// The store did not let it be read or changed, so nothing is known about it.
    Unread,
    /// Nothing is wrong, but the user may want to know.
    Note,
}

/// Something that is wrong, or that the user may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The path in the vault, or as much of it as can be read.
    pub path: PathBuf,
    /// What is wrong, as a sentence.
    pub problem: String,
    /// What was done about it, or should be done.
    pub action: String,
    /// What it is about.
    pub class: Class,
    /// Whether it is right again.
    pub repaired: bool,
}

/// What a check saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Regular files, each counted once.
    pub files: u64,
    /// Folders, with the topmost one.
    pub folders: u64,
    /// Symlinks, fifos, sockets and devices.
    pub others: u64,
    /// Bytes of content that were read and verified.
    pub bytes: u64,
    /// Objects that this machine did not know before, and now remembers.
    pub first_seen: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}
