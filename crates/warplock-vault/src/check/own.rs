//! What stands in a store besides entries: the vault's own files, what a crash left of them, and
//! what is somebody else's.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

use crate::config::{CONFIG, CONFIG_NEW};
use crate::core::{Core, JOURNALS, is_missing};
use crate::error::Result;
use crate::folder::RECORD;
use crate::fs::FileType;
use crate::memory::{NEW, is_claim};
use crate::names;
use crate::storage::{At, Listed, Storage};

use super::LOST;

/// What something in a folder of the store is.
pub(super) enum Own {
    /// The vault's own, and needed, or at least harmless.
    Kept,
    /// What an interrupted change of keys left.
    Keys,
    /// What another interrupted operation left. It holds nothing.
    Unfinished,
    /// An entry, or somebody else's.
    Other,
}

impl<S: Storage> Core<S> {
    /// Tells what something is that stands in `dir`, with `present` beside it.
    pub(super) fn own(
        &self,
        dir: &S::Dir,
        entry: &Listed,
        present: &HashSet<OsString>,
        at_root: bool,
    ) -> Result<Own> {
        let name = entry.name.to_str().unwrap_or_default();
        if name == RECORD || at_root && matches!(name, CONFIG | JOURNALS | LOST) {
            return Ok(Own::Kept);
        }
        if at_root && is_claim(name, "") {
            return Ok(Own::Kept);
        }
        if at_root && is_claim(name, NEW) && entry.kind == FileType::RegularFile {
            return Ok(Own::Unfinished);
        }
        if let Some(long) = names::entry_beside(&entry.name) {
            return Ok(if present.contains(&long) {
                Own::Kept
            } else {
                self.name_alone(dir, entry, &long)?
            });
        }
        let keys = name
            .strip_prefix(CONFIG_NEW)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        Ok(if at_root && keys && entry.kind == FileType::RegularFile {
            Own::Keys
        } else if self.is_unfinished(dir, entry)? {
            Own::Unfinished
        } else {
            Own::Other
        })
    }

    /// What a file with the name of an entry is when the entry is not there.
    fn name_alone(&self, dir: &S::Dir, entry: &Listed, long: &OsStr) -> Result<Own> {
        if entry.kind != FileType::RegularFile || !names::is_long(long) {
            return Ok(Own::Other);
        }
        let sealed = self.read_beside(dir, &entry.name)?;
        Ok(if sealed.iter().all(|byte| *byte == 0) {
            Own::Unfinished
        } else if names::long_fits(long, &sealed) {
            // Nowhere else is this name: the entry may yet come, as a sync program brings it.
            Own::Kept
        } else {
            Own::Other
        })
    }

    /// What repairs took out of the tree earlier, and nobody has dealt with.
    pub(super) fn holds_lost(&self) -> Result<bool> {
        let (root, lost) = (self.storage.root()?, OsStr::new(LOST));
        match self.storage.attributes(At::Name(&root, lost)) {
            Err(error) if is_missing(&error) => return Ok(false),
            other => other?,
        };
        let listed = self.storage.list(&self.storage.open_dir(&root, lost)?)?;
        let needs_nothing =
            |entry: &Listed| entry.name.to_string_lossy().ends_with(super::UNFINISHED);
        Ok(!listed.iter().all(needs_nothing))
    }
}
