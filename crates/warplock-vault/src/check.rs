//! Checking a whole vault: everything that can be noticed is, and what a crash left is tidied.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::blocks;
use crate::config::{CONFIG, CONFIG_NEW};
use crate::content::Content;
use crate::core::{Core, JOURNALS, is_missing, journal_name, lock};
use crate::error::{Error, Result};
use crate::folder::{Folder, RECORD, Record};
use crate::fs::{Attributes, FileType, ROOT, RenameFlags};
use crate::keys::Id;
use crate::layout::OVERHEAD;
use crate::names::{self, Place, Sealed};
use crate::node::Node;
use crate::storage::{Listed, Storage};
use crate::sum::EMPTY;
use crate::tree::Spot;
use crate::vault::Vault;

/// The folder in the store to which repairs move what they take out of the tree.
pub const LOST: &str = "warplock.lost";

/// How thoroughly to check, and what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Leave the content of files longer than a few blocks unread: names, headers, lengths and
    /// places only.
    pub quick: bool,
    /// Tidy up what a crash left, and move what was altered to [`LOST`] in the store.
    pub repair: bool,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: the path in the vault, or as much of it as can be read.
    pub path: PathBuf,
    /// What is wrong, as a sentence.
    pub problem: String,
    /// What was done about it, or is to be done.
    pub action: String,
    /// Whether a crash explains it; otherwise somebody or something altered the store.
    pub crash: bool,
    /// Whether it is as it should be now.
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
    /// What is not as it should be.
    pub findings: Vec<Finding>,
}

/// A check on its way.
struct Check<'a, S: Storage> {
    vault: &'a Vault<S>,
    options: CheckOptions,
    report: Report,
    /// The files seen.
    files: HashMap<Id, Seen<S>>,
}

/// A file that was seen.
struct Seen<S: Storage> {
    inode: u64,
    path: PathBuf,
    /// Where it was seen.
    places: HashSet<Place>,
    /// Held only if it may stand in other places, too.
    content: Option<Arc<Content<S>>>,
}

/// What can be done about a finding.
enum Remedy<'a> {
    /// Move the entry out of the tree.
    Lose(&'a Listed),
    /// Remove the entry, which holds nothing.
    Remove(&'a Listed),
    /// A person has to.
    Person(&'static str),
}

/// Checks all of a vault that nobody else uses. `progress` hears of each path.
///
/// # Errors
/// If the store fails. What was altered is no error but a [`Finding`].
pub fn check<S: Storage>(
    vault: &Vault<S>,
    options: CheckOptions,
    progress: &mut dyn FnMut(&Path),
) -> Result<Report> {
    if options.repair && vault.core.read_only {
        return Err(Error::Usage(
            "a vault that is open for reading only cannot be repaired".into(),
        ));
    }
    vault.tick_unless_read_only()?;
    let mut check = Check {
        vault,
        options,
        report: Report::default(),
        files: HashMap::new(),
    };
    let root = vault.node(ROOT)?;
    let mut waiting = vec![(root, PathBuf::from("/"))];
    while let Some((node, path)) = waiting.pop() {
        progress(&path);
        check.folder(&node, &path, &mut waiting, progress)?;
        if node.number != ROOT {
            vault.nodes.forget(node.number, 1);
        }
    }
    check.gone();
    check.places()?;
    check.journals()?;
    vault.tick_unless_read_only()?;
    if options.repair {
        vault.core.unclean.store(false, Ordering::Relaxed);
    }
    Ok(check.report)
}

impl<S: Storage> Check<'_, S> {
    fn found(&mut self, path: &Path, problem: impl Into<String>, crash: bool) -> &mut Finding {
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
    fn remedy(
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
            Remedy::Lose(_) => (
                format!("restore it from a backup, or let check --repair move it to {LOST}"),
                false,
            ),
        };
        let finding = self.found(path, problem, crash);
        finding.action = action;
        finding.repaired = repaired;
        Ok(())
    }

    fn folder(
        &mut self,
        node: &Arc<Node<S>>,
        path: &Path,
        waiting: &mut Vec<(Arc<Node<S>>, PathBuf)>,
        progress: &mut dyn FnMut(&Path),
    ) -> Result<()> {
        let vault = self.vault;
        let folder = vault.folder(node)?;
        self.report.folders += 1;
        self.xattrs(node, &folder, path)?;
        let listed = vault.core.storage.list(folder.dir())?;
        let present: HashSet<_> = listed.iter().map(|entry| entry.name.clone()).collect();
        for entry in &listed {
            if self.own(node, &folder, path, entry, &present)? {
                continue;
            }
            let (name, place) = match vault.plain_name(&folder, &entry.name) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    let path = path.join(&entry.name);
                    let problem = "this is none of the vault's files";
                    self.remedy(&folder, &path, problem, false, Remedy::Lose(entry))?;
                    continue;
                }
                Err(error) => {
                    let path = path.join(&entry.name);
                    let problem = match error {
                        Error::Errno(_) => "the file with its name is missing".to_owned(),
                        other => other.to_string(),
                    };
                    self.remedy(&folder, &path, problem, false, Remedy::Lose(entry))?;
                    continue;
                }
            };
            let path = path.join(name);
            progress(&path);
            let spot = Spot {
                node: Arc::clone(node),
                folder: Arc::clone(&folder),
                name: Sealed {
                    stored: entry.name.clone(),
                    beside: None,
                    place,
                },
            };
            self.entry(&spot, entry, path, waiting)?;
        }
        Ok(())
    }

    /// Deals with the vault's own files in a folder; false for entries.
    fn own(
        &mut self,
        node: &Arc<Node<S>>,
        folder: &Folder<S>,
        path: &Path,
        entry: &Listed,
        present: &HashSet<std::ffi::OsString>,
    ) -> Result<bool> {
        let at_root = node.number == ROOT;
        let own = match entry.name.to_str() {
            Some(RECORD) => true,
            Some(CONFIG | JOURNALS | LOST) => at_root,
            _ => false,
        };
        if own {
            return Ok(true);
        }
        let beside = names::entry_beside(&entry.name);
        let needed = beside.as_ref().is_some_and(|entry| present.contains(entry));
        if needed {
            return Ok(true);
        }
        let unfinished = !crate::tree::is_entry(&entry.name);
        if !unfinished {
            return Ok(false);
        }
        let secret = at_root && entry.name == CONFIG_NEW;
        let problem = if secret {
            "a change of keys was interrupted"
        } else {
            "an operation was interrupted"
        };
        let path = path.join(&entry.name);
        self.remedy(folder, &path, problem, true, Remedy::Remove(entry))?;
        Ok(true)
    }

    fn entry(
        &mut self,
        spot: &Spot<S>,
        entry: &Listed,
        path: PathBuf,
        waiting: &mut Vec<(Arc<Node<S>>, PathBuf)>,
    ) -> Result<()> {
        let vault = self.vault;
        let found = vault.core.storage.attributes(spot.at())?;
        let node = vault.nodes.enter(&spot.node, &spot.name, &found);
        let result = match node.kind {
            FileType::Directory => match vault.folder(&node) {
                Ok(folder) => {
                    self.folder_places(&folder, spot, &path)?;
                    waiting.push((node, path));
                    return Ok(());
                }
                Err(error) => Err(error),
            },
            FileType::RegularFile => self.file(&node, spot, &found, &path),
            FileType::Symlink => {
                self.report.others += 1;
                self.symlink(&node, spot, &path)
            }
            _ => {
                self.report.others += 1;
                Ok(())
            }
        };
        vault.nodes.forget(node.number, 1);
        match result {
            Err(error @ (Error::Altered { .. } | Error::Unfinished { .. })) => {
                node.remove_name(&spot.name.place);
                let crash = matches!(error, Error::Unfinished { .. });
                let remedy = if crash && found.size == 0 {
                    Remedy::Remove(entry)
                } else {
                    Remedy::Lose(entry)
                };
                self.remedy(&spot.folder, &path, error.to_string(), crash, remedy)
            }
            other => other,
        }
    }

    fn folder_places(&mut self, folder: &Folder<S>, spot: &Spot<S>, path: &Path) -> Result<()> {
        let core = &self.vault.core;
        let record = core.read_folder_record(folder.dir(), &path.to_string_lossy())?;
        if record.places.len() == 1 {
            return Ok(());
        }
        let repair = self.options.repair;
        if repair {
            let places = vec![spot.name.place];
            let id = record.id;
            core.write_folder_record(folder.dir(), &Record { id, places })?;
        }
        self.interrupted_rename(path);
        Ok(())
    }

    fn interrupted_rename(&mut self, path: &Path) {
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

    fn symlink(&mut self, node: &Arc<Node<S>>, spot: &Spot<S>, path: &Path) -> Result<()> {
        self.vault.read_target(node)?;
        if self.vault.symlink_places(spot)? > 1 {
            if self.options.repair {
                self.vault.bind_symlink(node, spot, &[spot], true)?;
            }
            self.interrupted_rename(path);
        }
        Ok(())
    }

    fn file(
        &mut self,
        node: &Arc<Node<S>>,
        spot: &Spot<S>,
        found: &Attributes,
        path: &Path,
    ) -> Result<()> {
        let content = self.vault.content(node)?;
        if let Some(seen) = self.files.get_mut(&content.id) {
            if seen.inode == found.node {
                seen.places.insert(spot.name.place);
                return Ok(());
            }
            return Err(Error::altered(
                path.to_string_lossy(),
                format!(
                    "it is a copy, or an old version, of {}; restore it from a backup",
                    seen.path.display()
                ),
            ));
        }
        self.report.files += 1;
        if !self.options.quick {
            self.report.bytes += self.vault.core.verify(&content)?;
        }
        self.witnessed(&content, path);
        self.headers(&content, path)?;
        self.xattrs(node, &spot.folder, path)?;
        let id = content.id;
        let elsewhere = content.read_state().now.places.len() > 1;
        let seen = Seen {
            inode: found.node,
            path: path.to_owned(),
            places: HashSet::from([spot.name.place]),
            content: elsewhere.then_some(content),
        };
        self.files.insert(id, seen);
        Ok(())
    }

    /// Whether the witness knows the file, if there is one.
    fn witnessed(&mut self, content: &Content<S>, path: &Path) {
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
    fn gone(&mut self) {
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
    fn headers(&mut self, content: &Arc<Content<S>>, path: &Path) -> Result<()> {
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

    fn xattrs(&mut self, node: &Arc<Node<S>>, folder: &Folder<S>, path: &Path) -> Result<()> {
        let bad = self.vault.bad_xattrs(node)?;
        for name in bad {
            if self.options.repair {
                self.vault.remove_stored_xattr(node, &name)?;
                let finding = self.found(path, "an extended attribute does not verify", false);
                finding.action = "removed".into();
                finding.repaired = true;
            } else {
                let problem = "an extended attribute does not verify";
                let action = "set it again, or let check --repair remove it";
                self.remedy(folder, path, problem, false, Remedy::Person(action))?;
            }
        }
        Ok(())
    }

    /// Headers that name places where their file does not stand.
    fn places(&mut self) -> Result<()> {
        for seen in std::mem::take(&mut self.files).into_values() {
            let (path, places) = (seen.path, seen.places);
            let Some(content) = seen.content else {
                continue;
            };
            let mut state = content.write_state();
            if state.now.places.iter().all(|place| places.contains(place)) {
                continue;
            }
            if self.options.repair && content.writable {
                state.now.places.retain(|place| places.contains(place));
                state.dirty = true;
                self.vault.core.commit(&content, &mut state, true)?;
            }
            drop(state);
            self.interrupted_rename(&path);
        }
        Ok(())
    }

    /// Journals of files that are not there.
    fn journals(&mut self) -> Result<()> {
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
    /// Reads all of a file and compares the sum over its blocks with its header's; gives the bytes
    /// that were read.
    fn verify(&self, content: &Content<S>) -> Result<u64> {
        let mut state = content.write_state();
        state.gather();
        let (len, layout) = (state.now.len, self.layout);
        let step = ((1 << 20) / layout.slot() as u64).max(1);
        let mut sum = EMPTY;
        let mut number = 0;
        let mut plain = self.pool.take_secret(step as usize * layout.block());
        while number < layout.blocks(len) {
            let count = step.min(layout.blocks(len) - number);
            let last = layout.block_len(number + count - 1, len);
            let bytes = (count as usize - 1) * layout.block() + last;
            let mut run = self.pool.take(bytes + count as usize * OVERHEAD);
            self.read_slots(content, &state, number, &mut run)?;
            let (engines, key) = (&self.keys.engines, &content.keys.content);
            let (out, holes) = (&mut plain[..bytes], state.now.holes);
            if let Err(bad) = blocks::open(engines, key, layout, number, &run, out, holes)? {
                return Err(self.bad_block(content, number, bad));
            }
            let tags = blocks::slots(layout, &run).map(blocks::tag_of);
            content.keys.summer.toggle(&mut sum, number, tags);
            number += count;
        }
        if sum != state.now.sum {
            return Err(self.wrong_sum(content));
        }
        Ok(len)
    }

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
