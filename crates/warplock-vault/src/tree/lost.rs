//! What is taken out of the tree, but not out of the store.

use std::ffi::OsStr;
use std::sync::Arc;

use rustix::io::Errno;

use crate::core::{Core, hex, open_own_dir};
use crate::error::{Error, Result};
use crate::format::keys::random;
use crate::fs::{FileType, RenameFlags};
use crate::store::storage::{At, Listed, Storage};
use crate::tree::folder::Folder;
use crate::tree::node::Node;
use crate::vault::Vault;

/// The folder in the store to which what is taken out of the tree is moved.
pub const LOST: &str = "warplock.lost";
/// What ends names there of what had never been a whole file, so that nothing else depends on it.
pub(crate) const UNFINISHED: &str = ".unfinished";
/// What ends names there of what was no entry and has no other name, so that nothing else depends on it
/// either.
pub(crate) const STRAY: &str = ".stray";
/// What ends names there of extended attributes that did not verify: each a file that holds the
/// attribute's name in the store, a zero byte and its value.
pub(crate) const EVIDENCE: &str = ".xattr";

impl<S: Storage> Core<S> {
    /// Moves something out of the tree; gives its new name in [`LOST`], which has this end.
    pub(crate) fn lose(&self, dir: &S::Dir, name: &OsStr, end: &str) -> Result<String> {
        let lost = self.make_lost()?;
        let new = new_name(end)?;
        let target = (&lost, OsStr::new(&new));
        self.storage
            .rename((dir, name), target, RenameFlags::empty())?;
        Ok(new)
    }

    /// How the name of what is no entry ends in [`LOST`].
    pub(crate) fn stray_end(&self, dir: &S::Dir, name: &OsStr) -> Result<&'static str> {
        let found = self.storage.attributes(At::Name(dir, name))?;
        let file = FileType::from_raw_mode(found.mode) == FileType::RegularFile;
        Ok(if file && found.links == 1 { STRAY } else { "" })
    }

    /// The folder [`LOST`], made if it is not there.
    pub(crate) fn make_lost(&self) -> Result<S::Dir> {
        let root = self.storage.root()?;
        if let Some(lost) = open_own_dir(&self.storage, &root, LOST)? {
            return Ok(lost);
        }
        self.storage.make_dir(&root, OsStr::new(LOST), 0o700)?;
        self.storage.sync_dir(&root)?;
        Ok(self.storage.open_dir(&root, OsStr::new(LOST))?)
    }
}

impl<S: Storage> Vault<S> {
    /// Moves what no mount shows out of a folder that is about to be removed: conflict copies and other
    /// files of sync programs, and entries that do not verify. Otherwise the folder would look empty and
    /// could not be removed.
    ///
    /// # Errors
    /// `ENOTEMPTY` if it has an entry.
    pub(crate) fn lose_foreign(&self, node: &Arc<Node<S>>, folder: &Folder<S>) -> Result<()> {
        let (core, dir) = (&self.core, folder.dir());
        let foreign = core.storage.permitted(dir, || self.all_foreign(folder))?;
        for entry in &foreign {
            let end = core.stray_end(dir, &entry.name)?;
            let name = core.lose(dir, &entry.name, end)?;
            let stored = entry.name.to_string_lossy();
            core.tell_of(&self.path_of(node), |folder| {
                format!(
                    "{folder} is removed, but {stored}, which is in it in the store, is none of its \
                     files: it was moved to {LOST}/{name} in the store"
                )
            });
        }
        match core.clear(folder)? {
            true => Ok(()),
            // More was put there.
            false => Err(Errno::NOTEMPTY.into()),
        }
    }

    /// All in a folder that is neither an entry nor left by an interrupted operation.
    fn all_foreign(&self, folder: &Folder<S>) -> Result<Vec<Listed>> {
        let (core, dir) = (&self.core, folder.dir());
        let mut foreign = Vec::new();
        for entry in core.storage.list(dir)? {
            if core.is_leftover(dir, &entry, &folder.id)? {
                continue;
            }
            match self.plain_name(folder, &entry.name) {
                Ok(Some(_)) => return Err(Errno::NOTEMPTY.into()),
                Ok(None) | Err(Error::Altered { .. }) => foreign.push(entry),
                Err(error) => return Err(error),
            }
        }
        Ok(foreign)
    }
}

/// A name for something in [`LOST`].
pub(crate) fn new_name(end: &str) -> Result<String> {
    Ok(format!("{}{end}", hex(&random::<8>()?)))
}
