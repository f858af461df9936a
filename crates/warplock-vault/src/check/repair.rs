//! What is done about what was found, and what shows only when all of the tree was seen.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::own::is_needed;
use super::{Check, Class, Finding, Remedy, Several};
use crate::core::lock;
use crate::error::{Error, Result};
use crate::file::content::Content;
use crate::format::names::Place;
use crate::store::storage::{At, Storage};
use crate::tree::conflict::Original;
use crate::tree::folder::Folder;
use crate::tree::lost::{EVIDENCE, LOST, UNFINISHED, new_name};
use crate::tree::node::Node;
use crate::vault::Vault;

pub(super) const KEPT: &str = "kept, for it may belong to what could not be checked, or is in warplock.lost: put \
     that back or remove it, and repair again";
/// What is done about something that a crash took.
pub(super) const REMEMBERED: &str = "it is remembered as removed";
const NOT_WRITABLE: &str = "let it be written to, and repair again";

impl<S: Storage> Check<'_, S> {
    pub(super) fn found(
        &mut self,
        path: &Path,
        problem: impl Into<String>,
        class: Class,
    ) -> &mut Finding {
        self.report.findings.push(Finding {
            path: path.to_owned(),
            problem: problem.into(),
            action: String::new(),
            class,
            repaired: false,
        });
        self.report.findings.last_mut().expect("it was just pushed")
    }

    /// A sync program's other version of a file: a person's to compare and to remove.
    pub(super) fn conflict_copy(&mut self, folder: &Path, copy: &OsStr, original: &Original) {
        let (problem, action) = original.sentences(copy);
        let finding = self.found(&folder.join(&original.name), problem, Class::Note);
        finding.action = action;
    }

    /// Whether something is done about findings of this class.
    pub(super) fn repairs(&self, class: Class) -> bool {
        self.options.repair && (class == Class::Crash || !self.crash_only)
    }

    /// The class of what a crash may have left: none did in a vault that was closed properly.
    pub(super) fn crash(&self) -> Class {
        match self.crashed {
            true => Class::Crash,
            false => Class::Altered,
        }
    }

    /// What is in [`LOST`].
    pub(super) fn lost(&mut self) -> Result<()> {
        let path = Path::new("/").join(LOST);
        let (lost, others) = match self.vault.core.lost() {
            Ok(lost) => lost,
            Err(error) => return self.unread(&path, error),
        };
        let dealt_with = |name: &OsString| name.to_string_lossy().ends_with(UNFINISHED);
        let count = lost.iter().filter(|name| !dealt_with(name)).count();
        if count > 0 {
            self.unseen |= lost.iter().any(|name| is_needed(name));
            let problem = format!("it holds {} that repairs took out", things(count));
            let finding = self.found(&path, problem, Class::Note);
            finding.action = "put back or remove what you have dealt with".into();
        }
        for name in others {
            let problem = "no repair put this there";
            let finding = self.found(&path.join(name), problem, Class::Altered);
            finding.action = "move it away".into();
        }
        Ok(())
    }

    /// Notes what the store did not let be read or changed, and the check goes on.
    ///
    /// # Errors
    /// What is no fault of one object.
    pub(super) fn unread(&mut self, path: &Path, error: Error) -> Result<()> {
        let class = match error {
            Error::Errno(errno) if shows_another_kind(errno) => Class::Altered,
            Error::Errno(_) | Error::Store { .. } => Class::Unread,
            Error::Altered { .. } | Error::Unfinished { .. } => Class::Altered,
            other => return Err(other),
        };
        self.unseen = true;
        let finding = self.found(path, format!("it could not be checked: {error}"), class);
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
        class: Class,
        remedy: Remedy<'_>,
    ) {
        let core = &self.vault.core;
        let repair = self.repairs(class);
        let crash = class == Class::Crash;
        let end = match remedy {
            _ if crash => UNFINISHED,
            Remedy::LoseStray(entry) => core.stray_end(folder.dir(), &entry.name).unwrap_or(""),
            _ => "",
        };
        // What a crash kept from being a file had nothing that another file or a journal could need.
        self.unseen |= matches!(remedy, Remedy::Lose(_) | Remedy::LoseStray(_)) && end.is_empty();
        let done = match remedy {
            Remedy::Remove(entry) if repair => core
                .purge(folder.dir(), &entry.name)
                .map(|()| ("removed".to_owned(), true)),
            Remedy::Remove(_) => Ok(("check --repair removes it".to_owned(), false)),
            Remedy::Lose(entry) | Remedy::LoseStray(entry) if repair => {
                core.lose(folder.dir(), &entry.name, end).map(|name| {
                    // For a user who wants it back: the name alone does not tell what it was.
                    let from = node.stored_path().join(&entry.name);
                    let from = from.display();
                    let mut action = format!("moved in the store from {from} to {LOST}/{name}");
                    let beside = core.lose_name(folder.dir(), &entry.name);
                    if let Ok(Some((beside, name))) = beside {
                        action += &format!(", and {} to {LOST}/{name}", beside.display());
                    }
                    (action, true)
                })
            }
            Remedy::Lose(_) | Remedy::LoseStray(_) => {
                Ok((format!("check --repair moves it to {LOST}"), false))
            }
        };
        let (action, repaired) = done.unwrap_or_else(|error| {
            self.unseen = true;
            (format!("it could not be taken away: {error}"), false)
        });
        let finding = self.found(path, problem, class);
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
        let class = self.crash();
        let finding = self.found(path, problem, class);
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
                    let finding = self.found(&path, sentence.shown, Class::Crash);
                    finding.repaired = true;
                    finding.action = REMEMBERED.into();
                }
                Err(error @ Error::Altered { .. }) => {
                    let finding = self.found(&path, error.to_string(), Class::Altered);
                    finding.action = "it cannot be repaired".into();
                }
                Err(error) => self.unread(&path, error)?,
            }
        }
        Ok(())
    }

    /// Whether both headers verify, or only one was ever written, and nothing follows the end.
    pub(super) fn headers(&mut self, content: &Arc<Content<S>>, path: &Path) -> Result<()> {
        let core = &self.vault.core;
        if content.read_state().damaged {
            let repair = self.options.repair && content.writable;
            if repair {
                let mut state = content.write_state();
                state.dirty = true;
                core.commit(content, &mut state, true)?;
            }
            let actions = ["written again", "check --repair writes it again"];
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
            let class = self.crash();
            let finding = self.found(path, "its last change was interrupted", class);
            finding.action = NOT_WRITABLE.into();
        }
        Ok(())
    }

    /// Headers that name places where their file does not stand: a change of names that a crash
    /// interrupted, or a name that was removed in the store.
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
            let path = self.trails.path(&seen.trail);
            if self.unseen {
                let problem = "one of its names is gone, or was not seen";
                let class = if self.crashed {
                    Class::Crash
                } else {
                    Class::Unread
                };
                self.found(&path, problem, class).action = KEPT.into();
                continue;
            }
            let done = match self.options.repair {
                true => self.keep_places(several, &path, stands),
                false => Ok(false),
            };
            match done {
                Ok(done) if self.crashed => self.interrupted_rename(&path, done),
                Ok(done) => {
                    let actions = [
                        "it keeps the others",
                        "check --repair lets it keep the others",
                    ];
                    let problem = "one of its names is gone, but it was not removed in the vault";
                    self.written(&path, problem, done, actions);
                }
                Err(error) => self.unread(&path, error)?,
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
        let content = core.open_content(
            folder.dir(),
            &several.stored,
            &path.to_string_lossy().into(),
        )?;
        if content.writable {
            let mut state = content.write_state();
            state.now.retain_places(stands);
            state.dirty = true;
            core.commit(&content, &mut state, true)?;
        }
        // Folders that are no longer in the tree of nodes are closed only here.
        let mut node = Arc::clone(&several.parent);
        while let Some(name) = node.name() {
            *lock(&node.folder) = None;
            node = name.parent;
        }
        Ok(content.writable)
    }

    /// After a repair that left nothing of a crash, there was none: otherwise the vault would not
    /// forgive files what it still must. The memory forgives nothing any more if nothing is missing,
    /// either: what a person puts back may be of the crash.
    pub(super) fn settle(&mut self) {
        let found = |it: &Finding| match it.class {
            Class::Note => true,
            Class::Crash => it.repaired,
            Class::Altered | Class::Unread => false,
        };
        if !self.unseen && self.report.findings.iter().all(found) {
            self.vault.core.memory.settle();
        }
        let unclean = &self.vault.core.unclean;
        if !unclean.load(Ordering::Relaxed) {
            return;
        }
        if self.unseen {
            let problem = "the vault was not closed properly, and not all of it could be checked";
            let finding = self.found(Path::new("/"), problem, Class::Crash);
            finding.action =
                "put back or remove what is in warplock.lost, see to what could not be \
                 checked, and repair again"
                    .into();
        } else if self
            .report
            .findings
            .iter()
            .all(|it| it.repaired || it.class != Class::Crash)
        {
            unclean.store(false, Ordering::Relaxed);
        }
    }
}

impl<S: Storage> Vault<S> {
    /// Moves an extended attribute that does not verify to [`LOST`], where it is a file; gives that
    /// one's name. It may be another file's, and be put back there.
    pub(super) fn lose_xattr(&self, node: &Arc<Node<S>>, stored: &OsStr) -> Result<String> {
        let value = self.stored_xattr_value(node, stored)?;
        let storage = &self.core.storage;
        let (lost, name) = (self.core.make_lost()?, new_name(EVIDENCE)?);
        let file = storage.create(&lost, OsStr::new(&name), 0o600)?;
        let evidence = [stored.as_bytes(), &[0], &value].concat();
        storage.write_at(&file, &evidence, 0)?;
        storage.sync(&file, true)?;
        storage.sync_dir(&lost)?;
        self.remove_stored_xattr(node, stored)?;
        Ok(name)
    }
}

fn things(count: usize) -> String {
    match count {
        1 => "1 thing".into(),
        count => format!("{count} things"),
    }
}

/// Whether an error says that something of another kind stands there, or nothing now, rather than
/// that the store refuses it: the former was put there.
fn shows_another_kind(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::LOOP
            | Errno::INVAL
            | Errno::NXIO
            | Errno::NODEV
            | Errno::STALE
    )
}
