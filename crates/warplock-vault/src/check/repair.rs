//! What is done about what was found, and what shows only when all of the tree was seen.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Check, Finding, LOST, Remedy, Several};
use crate::content::Content;
use crate::core::{Core, JOURNALS, is_missing, journal_name, lock};
use crate::error::Result;
use crate::folder::Folder;
use crate::fs::RenameFlags;
use crate::keys::Id;
use crate::names::Place;
use crate::storage::Storage;

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
            repaired: false,
        });
        self.report.findings.last_mut().expect("it was just pushed")
    }

    /// Notes a finding and does something about it, if that is wanted.
    pub(super) fn remedy(
        &mut self,
        folder: &Folder<S>,
        path: &Path,
        problem: impl Into<String>,
        crash: bool,
        remedy: Remedy<'_>,
    ) -> Result<()> {
        let core = &self.vault.core;
        let repair = self.options.repair;
        let (action, repaired) = match remedy {
            Remedy::Person(action) => (action.to_owned(), false),
            Remedy::Remove(entry) if repair => {
                core.purge(folder.dir(), &entry.name)?;
                ("removed".to_owned(), true)
            }
            Remedy::Remove(_) => ("check --repair removes it".to_owned(), false),
            Remedy::Lose(entry) if repair => {
                let name = core.lose(folder.dir(), &entry.name)?;
                (format!("moved to {LOST}/{name} in the store"), true)
            }
            Remedy::Lose(_) => (format!("check --repair moves it to {LOST}"), false),
        };
        let finding = self.found(path, problem, crash);
        finding.action = action;
        finding.repaired = repaired;
        Ok(())
    }

    pub(super) fn interrupted_rename(&mut self, path: &Path) {
        let repaired = self.options.repair;
        let finding = self.found(path, "a change of its names was interrupted", true);
        finding.repaired = repaired;
        finding.action = if repaired {
            "finished"
        } else {
            "check --repair finishes it"
        }
        .into();
    }

    /// Whether the witness knows the file, if there is one.
    pub(super) fn witnessed(&mut self, content: &Content<S>, path: &Path) {
        let Some(witness) = &self.vault.core.witness else {
            return;
        };
        if witness.newest(&content.id).is_some() {
            return;
        }
        let sequence = content.read_state().now.sequence;
        if witness.learns {
            witness.note(&content.id, sequence);
            return;
        }
        let repair = self.options.repair;
        if repair {
            witness.note(&content.id, sequence);
        }
        let crash = self.vault.core.unclean.load(Ordering::Relaxed);
        let finding = self.found(
            path,
            "the witness does not know this file: it was removed once and came back, or was made \
             without the witness",
            crash,
        );
        finding.repaired = repair;
        finding.action = if repair {
            "the witness knows it now"
        } else {
            "remove it, or let check --repair tell the witness of it"
        }
        .into();
    }

    /// Files that the witness knows and that are not there.
    pub(super) fn gone(&mut self) {
        let Some(witness) = &self.vault.core.witness else {
            return;
        };
        let crash = self.vault.core.unclean.load(Ordering::Relaxed);
        for id in witness.known() {
            if self.files.contains_key(&id) {
                continue;
            }
            let repair = self.options.repair;
            if repair {
                witness.forget(&id);
            }
            let what = format!("the file with id {}", crate::core::hex(&id));
            let finding = self.found(
                Path::new(&what),
                "it is gone, but nobody removed it through the vault",
                crash,
            );
            finding.repaired = repair;
            finding.action = if repair {
                "the witness forgot it"
            } else {
                "restore it from a backup, or let check --repair tell the witness"
            }
            .into();
        }
    }

    /// Whether both headers verify, or only one was ever written.
    pub(super) fn headers(&mut self, content: &Arc<Content<S>>, path: &Path) -> Result<()> {
        let core = &self.vault.core;
        if !content.read_state().damaged {
            return Ok(());
        }
        let repair = self.options.repair && content.writable;
        if repair {
            let mut state = content.write_state();
            state.dirty = true;
            core.commit(content, &mut state, true)?;
        }
        let finding = self.found(path, "one of its two headers is damaged", true);
        finding.repaired = repair;
        finding.action = if repair {
            "written anew"
        } else {
            "check --repair writes it anew"
        }
        .into();
        Ok(())
    }

    /// Headers that name places where their file does not stand.
    pub(super) fn places(&mut self) -> Result<()> {
        let files = std::mem::take(&mut self.files);
        for seen in files.values() {
            let Some(several) = &seen.several else {
                continue;
            };
            let stands = |place: &Place| seen.places.contains(place);
            if several.allowed.iter().all(stands) {
                continue;
            }
            if self.options.repair {
                self.keep_places(several, &seen.path, stands)?;
            }
            self.interrupted_rename(&seen.path);
        }
        self.files = files;
        Ok(())
    }

    /// Takes all places out of a file's header but those where it stands.
    fn keep_places(
        &self,
        several: &Several<S>,
        path: &Path,
        stands: impl Fn(&Place) -> bool,
    ) -> Result<()> {
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
        Ok(())
    }

    /// Journals of files that are not there.
    pub(super) fn journals(&mut self) -> Result<()> {
        let core = &self.vault.core;
        let mut orphans: Vec<Id> = lock(&core.left_over).iter().copied().collect();
        orphans.sort_unstable();
        for id in orphans {
            let repair = self.options.repair;
            if repair {
                match core.storage.unlink(core.journals()?, &journal_name(&id)) {
                    Err(error) if !is_missing(&error) => return Err(error.into()),
                    _ => {}
                }
                lock(&core.left_over).remove(&id);
            }
            let path = Path::new("/").join(JOURNALS).join(journal_name(&id));
            let finding = self.found(&path, "a journal belongs to no file", true);
            finding.repaired = repair;
            finding.action = if repair {
                "removed"
            } else {
                "check --repair removes it"
            }
            .into();
        }
        Ok(())
    }
}

impl<S: Storage> Core<S> {
    /// Moves something out of the tree; gives its new name in [`LOST`].
    fn lose(&self, dir: &S::Dir, name: &OsStr) -> Result<String> {
        let (root, lost) = (self.storage.root()?, OsStr::new(LOST));
        match self.storage.make_dir(&root, lost, 0o700) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error.into());
            }
            _ => {}
        }
        let to = self.storage.open_dir(&root, lost)?;
        let new = crate::core::hex(&crate::keys::random::<8>()?);
        let target = (&to, OsStr::new(&new));
        self.storage
            .rename((dir, name), target, RenameFlags::empty())?;
        Ok(new)
    }
}
