//! What is done about what was found, and what shows only when all of the tree was seen.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Check, Finding, LOST, Remedy, Several, UNFINISHED};
use crate::content::Content;
use crate::core::{Core, JOURNALS, is_missing, journal_name, lock};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::fs::RenameFlags;
use crate::keys::Id;
use crate::names::Place;
use crate::node::Node;
use crate::storage::{At, Storage};

const KEPT: &str = "kept, for it may belong to what could not be checked, or is in warplock.lost: put \
     that back or remove it, and repair again";
const NOT_WRITABLE: &str = "let it be written to, and repair again";

impl<S: Storage> Check<'_, S> {
    pub(super) fn found(
        &mut self,
        path: &Path,
        problem: impl Into<String>,
        crash: bool,
    ) -> &mut Finding {
        self.report.findings.push(Finding {
            path: path.to_owned(),
            problem: problem.into(),
            action: String::new(),
            crash,
            unread: false,
            repaired: false,
        });
        self.report.findings.last_mut().expect("it was just pushed")
    }

    /// Notes what the store did not let be read or changed, and the check goes on.
    ///
    /// # Errors
    /// What is no fault of one object.
    pub(super) fn unread(&mut self, path: &Path, error: Error) -> Result<()> {
        let unread = match error {
            Error::Errno(_) | Error::Store { .. } => true,
            Error::Altered { .. } | Error::Unfinished { .. } => false,
            other => return Err(other),
        };
        self.unseen = true;
        let finding = self.found(path, format!("it could not be checked: {error}"), false);
        finding.unread = unread;
        finding.action = "see to what hinders that, and check again".into();
        Ok(())
    }

    /// Notes a finding in a folder and does something about it, if that is wanted.
    pub(super) fn remedy(
        &mut self,
        node: &Node<S>,
        folder: &Folder<S>,
        path: &Path,
        problem: impl Into<String>,
        crash: bool,
        remedy: Remedy<'_>,
    ) {
        let core = &self.vault.core;
        let repair = self.options.repair;
        // What a crash kept from being a file had nothing that another file or a journal could need.
        self.unseen |= matches!(remedy, Remedy::Lose(_)) && !crash;
        let done = match remedy {
            Remedy::Remove(entry) if repair => core
                .purge(folder.dir(), &entry.name)
                .map(|()| ("removed".to_owned(), true)),
            Remedy::Remove(_) => Ok(("check --repair removes it".to_owned(), false)),
            Remedy::Lose(entry) if repair => {
                core.lose(folder.dir(), &entry.name, crash).map(|name| {
                    // For who wants it back: by the name alone, nobody knows what it was.
                    let from = node.stored_path().join(&entry.name);
                    let from = from.display();
                    let action = format!("moved in the store from {from} to {LOST}/{name}");
                    (action, true)
                })
            }
            Remedy::Lose(_) => Ok((format!("check --repair moves it to {LOST}"), false)),
        };
        let (action, repaired) = done.unwrap_or_else(|error| {
            self.unseen = true;
            (format!("it could not be taken away: {error}"), false)
        });
        let finding = self.found(path, problem, crash);
        finding.action = action;
        finding.repaired = repaired;
    }

    pub(super) fn interrupted_rename(&mut self, path: &Path, repaired: bool) {
        let problem = "a change of its names was interrupted";
        self.written(
            path,
            problem,
            repaired,
            ["finished", "check --repair finishes it"],
        );
    }

    /// Notes what a crash left and only needs to be written: what was done, or else would be.
    fn written(&mut self, path: &Path, problem: &str, repaired: bool, [did, would]: [&str; 2]) {
        let action = match (repaired, self.options.repair) {
            (true, _) => did,
            (false, true) => NOT_WRITABLE,
            (false, false) => would,
        };
        let finding = self.found(path, problem, true);
        finding.repaired = repaired;
        finding.action = action.into();
    }

    /// What the machine's memory knows to stand in a folder and that is not there.
    pub(super) fn missing(
        &mut self,
        node: &Arc<Node<S>>,
        folder: &Folder<S>,
        path: &Path,
        present: &HashSet<Place>,
    ) -> Result<()> {
        for (_, name, result) in self.vault.missing(node, folder, present)? {
            let path = path.join(name);
            match result {
                Ok(None) => {}
                Ok(Some(sentence)) => {
                    let finding = self.found(&path, sentence, true);
                    finding.repaired = true;
                    finding.action = "it is remembered as removed".into();
                }
                Err(error @ Error::Altered { .. }) => {
                    let finding = self.found(&path, error.to_string(), false);
                    finding.action = "it cannot be repaired".into();
                }
                Err(error) => self.unread(&path, error)?,
            }
        }
        Ok(())
    }

    /// Whether both headers verify, or only one was ever written, and nothing stands behind the end.
    pub(super) fn headers(&mut self, content: &Arc<Content<S>>, path: &Path) -> Result<()> {
        let core = &self.vault.core;
        if content.read_state().damaged {
            let repair = self.options.repair && content.writable;
            if repair {
                let mut state = content.write_state();
                state.dirty = true;
                core.commit(content, &mut state, true)?;
            }
            let actions = ["written anew", "check --repair writes it anew"];
            self.written(path, "one of its two headers is damaged", repair, actions);
        }
        // What could be written to is in order since it was opened.
        if core.read_only || content.writable {
            return Ok(());
        }
        let (pending, stored) = {
            let state = content.read_state();
            let stored = core.layout.stored_len(state.now.len);
            (state.pending.is_some(), stored)
        };
        let size = core.storage.attributes(At::File(&content.file))?.size;
        if pending || size != stored {
            let finding = self.found(path, "its last change was interrupted", true);
            finding.action = NOT_WRITABLE.into();
        }
        Ok(())
    }

    /// Headers that name places where their file does not stand.
    pub(super) fn places(&mut self) -> Result<()> {
        // They may name what was not seen.
        if self.unseen {
            return Ok(());
        }
        let files = std::mem::take(&mut self.files);
        for seen in files.values() {
            let Some(several) = &seen.several else {
                continue;
            };
            let stands = |place: &Place| seen.places.contains(place);
            if several.allowed.iter().all(stands) {
                continue;
            }
            let done = match self.options.repair {
                true => self.keep_places(several, &seen.path, stands),
                false => Ok(false),
            };
            match done {
                Ok(done) => self.interrupted_rename(&seen.path, done),
                Err(error) => self.unread(&seen.path, error)?,
            }
        }
        self.files = files;
        Ok(())
    }

    /// Takes all places out of a file's header but those where it stands, if it can be written.
    fn keep_places(
        &self,
        several: &Several<S>,
        path: &Path,
        stands: impl Fn(&Place) -> bool,
    ) -> Result<bool> {
        let core = &self.vault.core;
        let folder = self.vault.folder(&several.parent)?;
        let content = core.open_content(folder.dir(), &several.stored, &path.to_string_lossy())?;
        if content.writable {
            let mut state = content.write_state();
            state.now.places.retain(stands);
            state.dirty = true;
            core.commit(&content, &mut state, true)?;
        }
        // Nobody else closes folders that are no longer in the tree of nodes.
        let mut node = Arc::clone(&several.parent);
        while let Some(name) = node.name() {
            *lock(&node.folder) = None;
            node = name.parent;
        }
        Ok(content.writable)
    }

    /// Journals of files that are not there.
    pub(super) fn journals(&mut self) -> Result<()> {
        let core = &self.vault.core;
        let mut orphans: Vec<Id> = lock(&core.left_over).iter().copied().collect();
        orphans.retain(|id| !self.files.contains_key(id));
        orphans.sort_unstable();
        for id in orphans {
            let path = Path::new("/").join(JOURNALS).join(journal_name(&id));
            let repair = self.options.repair && !self.unseen;
            if repair {
                match core.storage.unlink(core.journals()?, &journal_name(&id)) {
                    Err(error) if !is_missing(&error) => {
                        self.unread(&path, error.into())?;
                        continue;
                    }
                    _ => {}
                }
                lock(&core.left_over).remove(&id);
            }
            let action = match (repair, self.unseen) {
                (true, _) => "removed",
                (false, true) => KEPT,
                (false, false) => "check --repair removes it",
            };
            let finding = self.found(&path, "a journal belongs to no file", true);
            finding.repaired = repair;
            finding.action = action.into();
        }
        Ok(())
    }

    /// After a repair that left nothing of a crash, there was none: otherwise the vault would not
    /// forgive files what it still must.
    pub(super) fn settle(&mut self) {
        let unclean = &self.vault.core.unclean;
        if !unclean.load(Ordering::Relaxed) {
            return;
        }
        if self.unseen {
            let problem = "the vault was not closed properly, and not all of it could be checked";
            let finding = self.found(Path::new("/"), problem, true);
            finding.action =
                "put back or remove what is in warplock.lost, see to what could not be \
                 checked, and repair again"
                    .into();
        } else if self
            .report
            .findings
            .iter()
            .all(|it| it.repaired || !it.crash)
        {
            unclean.store(false, Ordering::Relaxed);
        }
    }
}

impl<S: Storage> Core<S> {
    /// Moves something out of the tree; gives its new name in [`LOST`].
    fn lose(&self, dir: &S::Dir, name: &OsStr, crash: bool) -> Result<String> {
        let (root, lost) = (self.storage.root()?, OsStr::new(LOST));
        match self.storage.make_dir(&root, lost, 0o700) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error.into());
            }
            _ => {}
        }
        let to = self.storage.open_dir(&root, lost)?;
        let mut new = crate::core::hex(&crate::keys::random::<8>()?);
        if crash {
            new.push_str(UNFINISHED);
        }
        let target = (&to, OsStr::new(&new));
        self.storage
            .rename((dir, name), target, RenameFlags::empty())?;
        Ok(new)
    }
}
