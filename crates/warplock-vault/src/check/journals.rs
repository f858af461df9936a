//! Journals that belong to no file that was seen, and what else stands among them.

use std::path::Path;

use super::repair::KEPT;
use super::{Check, Class};
use crate::core::{Core, JOURNALS, journal_id, lock};
use crate::error::Result;
use crate::file::content::{Content, State};
use crate::format::header::Owner;
use crate::format::header::first_header;
use crate::format::keys::Id;
use crate::fs::FileType;
use crate::memory::Version;
use crate::store::storage::{At, Listed, Storage};
use crate::tree::lost::{LOST, UNFINISHED};

/// What a file among the journals is.
enum Journal {
    /// A file's that was seen: opening it has dealt with it.
    Seen,
    /// It holds nothing.
    Empty,
    /// It holds no whole change, so that nothing was synced through it.
    Broken,
    /// It holds a change that was synced, of a file that was not seen.
    Whole,
    /// Not the vault's.
    Other,
}

impl<S: Storage> Check<'_, S> {
    /// Looks at what stands among the journals.
    pub(super) fn journals(&mut self) -> Result<()> {
        let core = &self.vault.core;
        let Some(dir) = &core.journals else {
            return Ok(());
        };
        let folder = Path::new("/").join(JOURNALS);
        let listed = match core.storage.list(dir) {
            Ok(listed) => listed,
            Err(error) => return self.unread(&folder, error.into()),
        };
        for entry in &listed {
            let path = folder.join(&entry.name);
            match self.journal(dir, entry) {
                Ok(journal) => self.stray(dir, entry, &path, &journal),
                Err(error) => self.unread(&path, error)?,
            }
        }
        Ok(())
    }

    fn journal(&self, dir: &S::Dir, entry: &Listed) -> Result<Journal> {
        let core = &self.vault.core;
        let Some(id) = journal_id(&entry.name).filter(|_| entry.kind == FileType::RegularFile)
        else {
            return Ok(Journal::Other);
        };
        if self.files.contains_key(&id) {
            return Ok(Journal::Seen);
        }
        let what = || format!("the journal {}", entry.name.to_string_lossy()).into();
        let file = core.open_own(dir, &entry.name, false, what)?;
        if core.storage.attributes(At::File(&file))?.size == 0 {
            return Ok(Journal::Empty);
        }
        Ok(match core.holds_change(id, file)? {
            true => Journal::Whole,
            false => Journal::Broken,
        })
    }

    /// Notes a journal without a file, and does something about it, if that is wanted.
    fn stray(&mut self, dir: &S::Dir, entry: &Listed, path: &Path, journal: &Journal) {
        let core = &self.vault.core;
        let (unseen, name) = (self.unseen, &*entry.name);
        let (problem, class) = match journal {
            Journal::Seen => return,
            Journal::Empty => ("an empty journal belongs to no file", self.crash()),
            Journal::Broken => (
                "a journal without a whole change belongs to no file",
                self.crash(),
            ),
            Journal::Whole if unseen => (
                "a journal holds what was synced to a file that was not seen",
                Class::Unread,
            ),
            Journal::Whole => (
                "a journal holds what was synced to a file, and that is missing",
                Class::Altered,
            ),
            Journal::Other => ("this is no journal", Class::Altered),
        };
        let repair = self.repairs(class);
        let forget = || {
            if let Some(id) = journal_id(name) {
                lock(&core.left_over).remove(&id);
            }
        };
        let done: Result<(String, bool)> = match journal {
            Journal::Whole if unseen => Ok((KEPT.into(), false)),
            // It is all that is known of the file, and if that comes back, what was synced is here.
            Journal::Whole => Ok((
                "kept: put the file back where it was, or remove the journal".into(),
                false,
            )),
            Journal::Broken if unseen => Ok((KEPT.into(), false)),
            Journal::Empty if repair => core
                .storage
                .unlink(dir, name)
                .map(|()| ("removed".into(), true))
                .map_err(Into::into),
            Journal::Empty => Ok(("check --repair removes it".into(), false)),
            _ if repair => core
                .lose(
                    dir,
                    name,
                    if let Journal::Broken = journal {
                        UNFINISHED
                    } else {
                        ""
                    },
                )
                .map(|new| (format!("moved to {LOST}/{new}"), true)),
            _ => Ok((format!("check --repair moves it to {LOST}"), false)),
        };
        let (action, repaired) = done.unwrap_or_else(|error| {
            self.unseen = true;
            (format!("it could not be taken away: {error}"), false)
        });
        if repaired {
            forget();
        }
        let finding = self.found(path, problem, class);
        finding.action = action;
        finding.repaired = repaired;
    }
}

impl<S: Storage> Core<S> {
    /// Whether a journal ends in a record that verifies, of a file that stood somewhere: the file's
    /// id gives the key.
    fn holds_change(&self, id: Id, file: S::File) -> Result<bool> {
        let header = first_header(Version::default(), Owner::default(), Vec::new());
        let keys = self.keys.file(&id)?;
        let tree = self.tree_of(&header);
        let state = State::committed(header, tree);
        let journal = Content::new(file, id, keys, false, state);
        let record = self.read_record(&journal, &journal.file)?;
        // What has no name any more can be in use, and commits.
        Ok(record.is_some_and(|record| !record.pending.header.places.is_empty()))
    }
}
