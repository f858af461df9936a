//! Conflict copies: a sync program keeps the other version of a file that was changed on two machines
//! next to it in the store, and adds something to its name.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::names::entry_beside;
use crate::fs::FileType;
use crate::store::storage::{Listed, Storage};
use crate::tree::folder::Folder;
use crate::tree::node::Node;
use crate::vault::Vault;

/// The fewest characters of an entry's name.
const SHORTEST: usize = 22;
/// The characters of a long name before its ending, and the ending.
const HASH: usize = 43;
const LONG: &str = ".long";

/// The file of which a conflict copy is another version.
pub(crate) struct Original {
    pub(crate) name: OsString,
    pub(crate) stored: OsString,
}

impl Original {
    /// The message about its copy, and how to read that.
    pub(crate) fn sentences(&self, copy: &OsStr) -> (String, String) {
        let (copy, stored) = (copy.to_string_lossy(), self.stored.to_string_lossy());
        (
            format!(
                "a sync program keeps another version of this file next to it in the store, as \
                 {copy}: it was changed on two machines"
            ),
            format!(
                "no mount shows that; to read it, rename it to {stored} in a copy of the store, and \
                 mount the copy with --no-memory --read-only; then remove it from the store"
            ),
        )
    }
}

impl<S: Storage> Vault<S> {
    /// Reports the objects in a folder that are not its entries: conflict copies as such, others
    /// with what is wrong.
    pub(crate) fn tell_of_strange(
        &self,
        node: &Arc<Node<S>>,
        folder: &Folder<S>,
        strange: Vec<(Listed, Option<Error>)>,
        present: &HashSet<OsString>,
    ) {
        let above = self.path_of(node);
        for (entry, error) in strange {
            if let Ok(Some(original)) = self.original_of(folder, &entry, present) {
                let what = self.subject_in(node, folder, &original.stored);
                let (problem, action) = original.sentences(&entry.name);
                self.core
                    .tell_of(&what, |what| format!("{what}: {problem}; {action}"));
            } else if let Some(error) = error {
                self.core.tell_error(&error.within(&above));
            }
        }
    }

    /// The file whose other version `entry` is: it is in the same folder, the entry's name in the
    /// store begins with its name, and the entry is a whole file that was given this name. Whether
    /// it is an old version or a new one cannot be known. No mount shows it: an attacker who can
    /// write to the store could make any old version appear under a new name.
    pub(crate) fn original_of(
        &self,
        folder: &Folder<S>,
        entry: &Listed,
        present: &HashSet<OsString>,
    ) -> Result<Option<Original>> {
        let Some(copy) = entry.name.to_str() else {
            return Ok(None);
        };
        if !may_be_copy(entry) {
            return Ok(None);
        }
        for stored in beginnings(copy).into_iter().map(OsString::from) {
            if !present.contains(&stored) {
                continue;
            }
            let named = self.plain_name(folder, &stored);
            let header = self.core.peek(folder.dir(), &entry.name, &"".into());
            match (named, header) {
                (Ok(Some((name, place))), Ok(header)) if header.places.contains(&place) => {
                    return Ok(Some(Original { name, stored }));
                }
                (Err(error), _) | (_, Err(error)) if is_unreadable(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// Whether something may be a conflict copy, by its name.
pub(crate) fn may_be_copy(entry: &Listed) -> bool {
    let name = entry.name.to_str().unwrap_or_default();
    entry.kind == FileType::RegularFile
        && entry_beside(&entry.name).is_none()
        && !beginnings(name).is_empty()
}

/// Whether it is neither altered nor unfinished, but could not be read.
fn is_unreadable(error: &Error) -> bool {
    !matches!(error, Error::Altered { .. } | Error::Unfinished { .. })
}

/// Names of entries to which something was added: `ENTRY.sync-conflict-...`, `ENTRY (conflicted copy)`,
/// `ENTRY-Conflict-...`, also before `.long`.
fn beginnings(copy: &str) -> Vec<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let end = copy.find(|c| !is_plain(c)).unwrap_or(copy.len());
    let cuts = copy[..end].match_indices('-').map(|(at, _)| at);
    let mut found: Vec<String> = cuts
        .chain([end])
        .filter(|at| *at >= SHORTEST && *at < copy.len())
        .map(|at| copy[..at].to_owned())
        .collect();
    if end >= HASH && copy.contains(LONG) {
        found.push(format!("{}{LONG}", &copy[..HASH]));
    }
    found.retain(|name| OsStr::new(name) != copy);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_something_added_begins_with_the_entry() {
        let (short, hash) = ("ALqO-QRl0XwOZjp-1CfqlxCC", "x".repeat(HASH));
        for added in [
            ".sync-conflict-20261129-101112-ABCDEFG",
            " (conflicted copy)",
            "-Conflict-1",
            "-LAPTOP",
            "~HEAD",
        ] {
            let found = beginnings(&format!("{short}{added}"));
            assert!(found.contains(&short.to_owned()), "{found:?}");
            let long = format!("{hash}{LONG}");
            for copy in [format!("{hash}{added}{LONG}"), format!("{long}{added}")] {
                assert!(beginnings(&copy).contains(&long), "{copy}");
            }
        }
        assert!(!beginnings(short).contains(&short.to_owned()));
        assert!(beginnings("notes.txt").is_empty());
        assert!(
            beginnings(&format!("{hash}{LONG}"))
                .iter()
                .all(|it| *it == hash)
        );
    }
}
