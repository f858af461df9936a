//! Names of entries, in the vault and in the store, and paths for people.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use rustix::io::Errno;

use crate::core::lock;
use crate::error::{Error, Result, Subject};
use crate::format::names::{self, Place, Sealed};
use crate::store::storage::{At, Storage};
use crate::tree::folder::Folder;
use crate::tree::node::Node;
use crate::vault::Vault;

/// Bytes of a path that a sentence shows, about.
const MAX_SHOWN: usize = 2000;

impl<S: Storage> Vault<S> {
    /// A path for people: the names that lead to a node. Of a long one, the end.
    pub(crate) fn path_of(&self, node: &Arc<Node<S>>) -> Subject {
        let (mut shown, mut logged) = (String::new(), String::new());
        let mut node = Arc::clone(node);
        while let Some(name) = node.name() {
            if shown.len().max(logged.len()) > MAX_SHOWN {
                shown.insert_str(0, "...");
                logged.insert_str(0, "...");
                break;
            }
            let folder = lock(&name.parent.folder).clone();
            let plain = folder.and_then(|folder| self.plain_name(&folder, &name.stored).ok()?);
            let plain = plain.as_ref().map_or(&name.stored, |(plain, _)| plain);
            shown.insert_str(0, &format!("/{}", plain.to_string_lossy()));
            logged.insert_str(0, &format!("/{}", name.stored.to_string_lossy()));
            node = name.parent;
        }
        if shown.is_empty() {
            return "the topmost folder".into();
        }
        let logged = format!("the entry {} in the store", logged.trim_start_matches('/'));
        Subject { shown, logged }
    }

    /// The name that a name in the store stands for; `None` if it is none of the vault's entries.
    ///
    /// # Errors
    /// [`Error::Altered`] if it looks like one, but was never given in this folder.
    pub(crate) fn plain_name(
        &self,
        folder: &Folder<S>,
        stored: &OsStr,
    ) -> Result<Option<(OsString, Place)>> {
        let sealed = match names::kind(stored) {
            names::Kind::Other => return Ok(None),
            names::Kind::Short(sealed) => sealed,
            names::Kind::Long(beside) => self.sealed_beside(folder, stored, &beside)?,
        };
        names::open(&self.core.keys, &folder.id, stored, &sealed)
            .map(Some)
            .ok_or_else(|| {
                altered_entry(
                    stored,
                    "it was never given that name in this folder; move it back or remove it",
                )
            })
    }

    /// The ciphertext name of an entry with a long name.
    ///
    /// # Errors
    /// `ENOENT` if the entry was removed meanwhile.
    fn sealed_beside(&self, folder: &Folder<S>, stored: &OsStr, beside: &OsStr) -> Result<Vec<u8>> {
        let storage = &self.core.storage;
        let read = || self.core.read_beside(folder.dir(), beside);
        match read() {
            Err(Error::Errno(Errno::NOENT)) => {}
            other => return other,
        }
        // Both may be gone. If the entry is there, so is the file, even if both were just made.
        storage.attributes(At::Name(folder.dir(), stored))?;
        match read() {
            Err(Error::Errno(Errno::NOENT)) => Err(altered_entry(
                stored,
                "the file with its name is missing; restore it from a backup",
            )),
            other => other,
        }
    }

    /// Encrypts a name in a folder.
    pub(crate) fn sealed_name(&self, folder: &Folder<S>, name: &OsStr) -> Result<Sealed> {
        names::seal(&self.core.keys, &folder.id, name)
    }
}

fn altered_entry(stored: &OsStr, why: &str) -> Error {
    Error::altered(
        format!("the entry {} in the store", stored.to_string_lossy()),
        why,
    )
}
