//! Objects in a store besides entries: the vault's own files, what a crash left of them, and
//! foreign files.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

use crate::core::{Core, JOURNALS, hex, open_own_dir};
use crate::error::Result;
use crate::format::config::{CONFIG, CONFIG_NEW, START};
use crate::format::names;
use crate::fs::FileType;
use crate::memory::{CLAIM_LEN, NEW, is_claim};
use crate::store::locks::CONFIG_LOCK;
use crate::store::storage::{At, Listed, Storage};
use crate::store::store_lock::LOCK;
use crate::tree::folder::{Folder, RECORD};
use crate::tree::lost::{EVIDENCE, LOST, STRAY, UNFINISHED};

/// What something in a folder of the store is.
pub(super) enum Own {
    /// The vault's own, and needed, or at least harmless.
    Kept,
    /// What an interrupted change of keys left, and whether it is empty. The vault need not have been
    /// open then.
    Keys { empty: bool },
    /// What a session left that was interrupted before it made the vault look open.
    Claim,
    /// What another interrupted operation left. It holds nothing, as its content proves.
    Leftover,
    /// A symlink that was being written again.
    Symlink,
    /// A sync program's or a desktop's own.
    Foreign,
    /// An entry, or foreign.
    Other,
}

impl<S: Storage> Core<S> {
    /// Classifies an object in `folder`, next to `present`.
    pub(super) fn own(
        &self,
        folder: &Folder<S>,
        entry: &Listed,
        present: &HashSet<OsString>,
        at_root: bool,
    ) -> Result<Own> {
        let name = entry.name.to_str().unwrap_or_default();
        let (file, dir) = (
            entry.kind == FileType::RegularFile,
            entry.kind == FileType::Directory,
        );
        let kept = match name {
            RECORD => true,
            CONFIG | LOCK => at_root && file,
            JOURNALS | LOST => at_root && dir,
            _ => false,
        };
        if kept {
            return Ok(Own::Kept);
        }
        if at_root && file && (is_claim(name, "") || is_claim(name, NEW)) {
            let found = self.storage.attributes(At::Name(folder.dir(), &entry.name));
            return Ok(match found?.size > CLAIM_LEN as u64 {
                true => Own::Other,
                false if is_claim(name, NEW) => Own::Claim,
                false => Own::Kept,
            });
        }
        if let Some(long) = names::entry_beside(&entry.name) {
            return Ok(if !file {
                Own::Other
            } else if present.contains(&long) {
                Own::Kept
            } else {
                self.name_alone(folder.dir(), &entry.name, &long)?
            });
        }
        if at_root && file && is_new_config(name) {
            return self.new_config(folder.dir(), entry);
        }
        let dir = folder.dir();
        let leftover =
            self.is_spare_record(dir, entry, &folder.id)? || self.is_spare_folder(dir, entry)?;
        Ok(if leftover {
            Own::Leftover
        } else if self.is_spare_symlink(entry) {
            Own::Symlink
        } else if is_foreign(name) {
            Own::Foreign
        } else {
            Own::Other
        })
    }

    /// What a file with the name of an entry is when the entry is not there.
    pub(super) fn name_alone(&self, dir: &S::Dir, beside: &OsStr, long: &OsStr) -> Result<Own> {
        let sealed = self.read_beside(dir, beside)?;
        Ok(if sealed.is_empty() {
            Own::Leftover
        } else if names::fits(long, &sealed) {
            // Nowhere else is this name: the entry may yet come, as a sync program brings it.
            Own::Kept
        } else {
            Own::Other
        })
    }

    /// Takes a file with the name of an entry out of the tree, which the entry has just left, if it
    /// is not that entry's; gives both its names.
    pub(super) fn lose_name(
        &self,
        dir: &S::Dir,
        entry: &OsStr,
    ) -> Result<Option<(OsString, String)>> {
        let names::Kind::Long(beside) = names::kind(entry) else {
            return Ok(None);
        };
        let found = self.storage.attributes(At::Name(dir, &beside));
        let file = found.is_ok_and(|it| FileType::from_raw_mode(it.mode) == FileType::RegularFile);
        if !file || matches!(self.name_alone(dir, &beside, entry)?, Own::Kept) {
            return Ok(None);
        }
        let name = self.lose(dir, &beside, self.stray_end(dir, &beside)?)?;
        Ok(Some((beside, name)))
    }

    /// What a file is that has the name of settings while they are written.
    fn new_config(&self, dir: &S::Dir, entry: &Listed) -> Result<Own> {
        let what = || format!("the file {} in the store", entry.name.to_string_lossy()).into();
        let file = self.open_own(dir, &entry.name, false, what)?;
        let mut start = [0; START.len()];
        let len = self.storage.read_at(&file, &mut start, 0)?;
        Ok(match entry.name == CONFIG_LOCK {
            // It may be in use: keys can be changed meanwhile.
            true if len == 0 => Own::Kept,
            false if START.as_bytes().starts_with(&start[..len]) => Own::Keys { empty: len == 0 },
            _ => Own::Other,
        })
    }

    /// Names of what earlier repairs took out of the tree and is still there, and of foreign files
    /// among it.
    pub(super) fn lost(&self) -> Result<(Vec<OsString>, Vec<OsString>)> {
        let root = self.storage.root()?;
        let Some(lost) = open_own_dir(&self.storage, &root, LOST)? else {
            return Ok(Default::default());
        };
        let names = self
            .storage
            .list(&lost)?
            .into_iter()
            .map(|entry| entry.name);
        Ok(names.partition(|name| is_lost(name)))
    }
}

/// Whether this is the name of settings while they are written, or of the lock for that.
fn is_new_config(name: &str) -> bool {
    let rest = name.strip_prefix(CONFIG_NEW);
    let written =
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('.').is_some_and(is_random));
    written || name == CONFIG_LOCK
}

/// What programs put into folders that they synchronize or show: they make it again if it is removed.
const FOREIGN: [&str; 14] = [
    ".stfolder",
    ".stignore",
    ".stversions",
    ".dropbox",
    ".dropbox.attr",
    ".dropbox.cache",
    ".nextcloudsync.log",
    ".owncloudsync.log",
    ".directory",
    ".DS_Store",
    "desktop.ini",
    "Thumbs.db",
    ".hidden",
    "lost+found",
];
/// How names of such things begin and end that have something between.
const FOREIGN_PARTS: [(&str, &str); 10] = [
    // Transfers that were interrupted.
    (".unison.", ".unison.tmp"),
    (".syncthing.", ".tmp"),
    ("~syncthing~", ".tmp"),
    (".sync_", ".db"),
    (".sync_", ".db-shm"),
    (".sync_", ".db-wal"),
    ("._sync_", ".db"),
    ("._sync_", ".db-shm"),
    ("._sync_", ".db-wal"),
    (".Trash-", ""),
];

/// Whether this is the name of a sync program's or a desktop's own file.
fn is_foreign(name: &str) -> bool {
    let part = |(start, end): &(&str, &str)| {
        let rest = name.strip_prefix(start);
        rest.is_some_and(|rest| rest.ends_with(end))
    };
    FOREIGN.contains(&name) || FOREIGN_PARTS.iter().any(part)
}

/// How names of lost things end on which nothing depends.
const ENDS: [&str; 3] = [UNFINISHED, EVIDENCE, STRAY];

/// Whether this is the name of something that a repair took out of the tree.
fn is_lost(name: &OsStr) -> bool {
    let name = name.to_str().unwrap_or_default();
    let end = ENDS.into_iter().find_map(|end| name.strip_suffix(end));
    is_random(end.unwrap_or(name))
}

/// Whether this is 8 random bytes, as names in the store have them.
fn is_random(text: &str) -> bool {
    u64::from_str_radix(text, 16).is_ok_and(|number| hex(&number.to_be_bytes()) == text)
}

/// Whether something lost may be what the rest of the vault depends on.
pub(super) fn is_needed(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    !ENDS.iter().any(|end| name.ends_with(end))
}
