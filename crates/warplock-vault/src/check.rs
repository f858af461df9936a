//! Checking a whole vault: everything that can be noticed is, and what a crash left is tidied.

mod journals;
mod own;
mod repair;
mod report;
mod tidy;
mod trails;
mod verify;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use own::Own;
pub use report::{CheckOptions, Class, Finding, Report};
use trails::{Trail, Trails};

use crate::core::lock;
use crate::error::{Error, NO_HEADER, Result};
use crate::format::keys::Id;
use crate::format::names::{Place, Sealed};
use crate::fs::{Attributes, FileType, ROOT};
use crate::store::storage::{Inode, Listed, Storage};
use crate::tree::edit::Spot;
use crate::tree::folder::Folder;
use crate::tree::foreign::{foreign, is_foreign};
pub use crate::tree::lost::LOST;
use crate::tree::node::Node;
use crate::tree::places::Places;
use crate::tree::standing::put_back;
use crate::vault::Vault;

/// A check on its way.
struct Check<'a, S: Storage> {
    vault: &'a Vault<S>,
    options: CheckOptions,
    /// Only what a crash left is repaired.
    crash_only: bool,
    report: Report,
    /// The files seen.
    files: HashMap<Id, Seen<S>>,
    /// The folders seen.
    folders: HashMap<Id, Trail>,
    /// Whether a crash may excuse anything: only in a vault that was not closed properly.
    crashed: bool,
    /// The symlinks seen that have other names in the store.
    symlinks: HashMap<Inode, Trail>,
    trails: Trails,
    /// Whether there may be files that were not seen: then what seems to belong to none is kept.
    unseen: bool,
}

/// A file that was seen.
struct Seen<S: Storage> {
    inode: Inode,
    trail: Trail,
    /// Where it was seen.
    places: HashSet<Place>,
    /// Only if it may stand in other places, too.
    several: Option<Several<S>>,
}

/// What is remembered of a file that may stand in several places: not the file itself, for there
/// may be more of them than can be open.
struct Several<S: Storage> {
    /// The places in its header.
    allowed: Vec<Place>,
    /// A name to open it by.
    parent: Arc<Node<S>>,
    stored: OsString,
}

/// What is to be done on the way through the tree.
enum Step<S: Storage> {
    /// Look at a folder.
    Enter(Arc<Node<S>>, usize),
    /// All below a folder was looked at. Until then its node stays known, so that what is open only
    /// to save time can be closed.
    Leave(Arc<Node<S>>),
}

/// What can be done about a finding.
enum Remedy<'a> {
    /// Move the entry out of the tree.
    Lose(&'a Listed),
    /// The same of what is no entry.
    LoseStray(&'a Listed),
    /// Remove the entry, which holds nothing.
    Remove(&'a Listed),
}

/// Checks all of a vault that is not otherwise in use. `progress` is called with each path.
///
/// # Errors
/// If the store fails. What was altered is no error but a [`Finding`].
pub fn check<S: Storage>(
    vault: &Vault<S>,
    options: CheckOptions,
    progress: &mut dyn FnMut(&Path),
) -> Result<Report> {
    check_all(vault, options, false, progress)
}

fn check_all<S: Storage>(
    vault: &Vault<S>,
    options: CheckOptions,
    crash_only: bool,
    progress: &mut dyn FnMut(&Path),
) -> Result<Report> {
    if options.repair && vault.core.read_only {
        return Err(Error::Usage(
            "nothing can be repaired while the vault can only be read: open it for writing; if its \
             store is on a read-only file system, make that writable first"
                .into(),
        ));
    }
    vault.tick_unless_read_only()?;
    let _removing = match options.repair {
        true => Some(vault.core.memory.removing()?),
        false => None,
    };
    let mut check = Check {
        vault,
        options,
        crash_only,
        report: Report::default(),
        files: HashMap::new(),
        folders: HashMap::new(),
        crashed: vault.core.unclean.load(Ordering::Relaxed),
        symlinks: HashMap::new(),
        trails: Trails(vec![Trail {
            folder: 0,
            name: OsString::new(),
        }]),
        unseen: false,
    };
    check.lost()?;
    let root = vault.node(ROOT)?;
    let mut waiting = vec![Step::Enter(root, 0)];
    while let Some(step) = waiting.pop() {
        let (node, number) = match step {
            Step::Enter(node, number) => (node, number),
            Step::Leave(node) => {
                *lock(&node.folder) = None;
                vault.nodes.forget(node.number, 1);
                continue;
            }
        };
        let mut path = check.trails.folder(number);
        progress(&path);
        if node.number != ROOT {
            waiting.push(Step::Leave(Arc::clone(&node)));
        }
        if let Err(error) = check.folder(&node, number, &mut path, &mut waiting, progress) {
            check.unread(&path, error)?;
        }
        if node.number != ROOT {
            *lock(&node.folder) = None;
        }
    }
    // Places are taken out of headers by a commit of their own.
    vault.tick_unless_read_only()?;
    check.places()?;
    check.journals()?;
    vault.tick_unless_read_only()?;
    if options.repair {
        check.settle();
    }
    check.report.first_seen = vault.core.memory.first_seen();
    Ok(check.report)
}

impl<S: Storage> Check<'_, S> {
    fn folder(
        &mut self,
        node: &Arc<Node<S>>,
        number: usize,
        path: &mut PathBuf,
        waiting: &mut Vec<Step<S>>,
        progress: &mut dyn FnMut(&Path),
    ) -> Result<()> {
        let vault = self.vault;
        let folder = vault.folder(node)?;
        self.report.folders += 1;
        if let Err(error) = self.xattrs(node, path) {
            self.unread(path, error)?;
        }
        let listed = vault.core.storage.list(folder.dir())?;
        let present: HashSet<_> = listed.iter().map(|entry| entry.name.clone()).collect();
        let mut places = HashSet::new();
        for entry in &listed {
            let found = self.identify(node, &folder, path, entry, &present);
            let (name, place) = match found {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(error) => {
                    self.unread(&path.join(&entry.name), error)?;
                    continue;
                }
            };
            path.push(&name);
            places.insert(place);
            progress(path);
            let trail = Trail {
                folder: number,
                name,
            };
            let spot = Spot {
                node: Arc::clone(node),
                folder: Arc::clone(&folder),
                name: Sealed {
                    stored: entry.name.clone(),
                    beside: None,
                    place,
                },
            };
            if let Err(error) = self.entry(&spot, entry, trail, path, waiting) {
                self.unread(path, error)?;
            }
            path.pop();
        }
        self.missing(node, &folder, path, &places)
    }

    /// The name and place of an entry; everything else is dealt with.
    fn identify(
        &mut self,
        node: &Node<S>,
        folder: &Folder<S>,
        path: &Path,
        entry: &Listed,
        present: &HashSet<OsString>,
    ) -> Result<Option<(OsString, Place)>> {
        let vault = self.vault;
        let own = vault
            .core
            .own(folder, entry, present, node.number == ROOT)?;
        let interrupted = "an operation was interrupted".to_owned();
        let (problem, class, remedy) = match own {
            Own::Kept => return Ok(None),
            // They may be changed at this moment by a program that has the vault open.
            Own::Keys { .. } if self.crash_only => return Ok(None),
            Own::Keys { empty } => (
                "a change of keys was interrupted".to_owned(),
                Class::Crash,
                match empty {
                    true => Remedy::Remove(entry),
                    false => Remedy::Lose(entry),
                },
            ),
            Own::Claim => (interrupted, Class::Crash, Remedy::Remove(entry)),
            Own::Leftover => (interrupted, self.crash(), Remedy::Remove(entry)),
            Own::Symlink => (interrupted, self.crash(), Remedy::Lose(entry)),
            Own::Foreign => {
                let path = path.join(&entry.name);
                let problem = "this is a sync program's or a desktop's, not the vault's";
                let finding = self.found(&path, problem, Class::Note);
                finding.action = "it stays, and no mount shows it".into();
                return Ok(None);
            }
            Own::Other => {
                let named = vault.plain_name(folder, &entry.name);
                if !matches!(named, Ok(Some(_)))
                    && let Some(original) = vault.original_of(folder, entry, present)?
                {
                    self.conflict_copy(path, &entry.name, &original);
                    return Ok(None);
                }
                let (problem, remedy) = match named {
                    Ok(Some(found)) => return Ok(Some(found)),
                    Ok(None) => (
                        "this is none of the vault's files".to_owned(),
                        Remedy::LoseStray(entry),
                    ),
                    Err(error @ Error::Altered { .. }) => (error.to_string(), Remedy::Lose(entry)),
                    Err(error) => return Err(error),
                };
                (problem, Class::Altered, remedy)
            }
        };
        let path = path.join(&entry.name);
        self.remedy(node, folder, &path, problem, class, remedy);
        Ok(None)
    }

    fn entry(
        &mut self,
        spot: &Spot<S>,
        entry: &Listed,
        trail: Trail,
        path: &Path,
        waiting: &mut Vec<Step<S>>,
    ) -> Result<()> {
        let vault = self.vault;
        let found = vault.core.storage.attributes(spot.at())?;
        let node = vault.nodes.enter(&spot.node, &spot.name, &found);
        let result = match node.kind {
            _ if is_foreign(&found) => Err(foreign(path.to_string_lossy())),
            FileType::Directory => match self.new_folder(&node, &trail, path) {
                Ok(folder) => {
                    waiting.push(Step::Enter(node, self.trails.add(trail)));
                    return self.folder_places(&folder, spot, path);
                }
                Err(error) => Err(error),
            },
            FileType::RegularFile => self.file(&node, spot, &found, trail, path),
            _ => {
                self.report.others += 1;
                self.symlink(&node, spot, &found, trail, path)
            }
        };
        vault.nodes.forget(node.number, 1);
        match result {
            Err(error @ (Error::Altered { .. } | Error::Unfinished { .. })) => {
                node.remove_name(&spot.name.place);
                let class = match error {
                    Error::Unfinished { .. } => self.crash(),
                    _ => Class::Altered,
                };
                let problem = match error {
                    // What to do is said with the remedy.
                    Error::Unfinished { .. } => format!("it {NO_HEADER}"),
                    error => error.to_string(),
                };
                let remedy = Remedy::Lose(entry);
                self.remedy(&spot.node, &spot.folder, path, problem, class, remedy);
                // What was altered is missed until it is put back or that is accepted.
                let repaired = self.report.findings.last().is_some_and(|it| it.repaired);
                if class == Class::Crash && repaired {
                    vault.remember_left(spot)?;
                }
                Ok(())
            }
            other => other,
        }
    }

    /// A folder that was not seen before, opened.
    fn new_folder(
        &mut self,
        node: &Arc<Node<S>>,
        trail: &Trail,
        path: &Path,
    ) -> Result<Arc<Folder<S>>> {
        let folder = self.vault.folder(node)?;
        match self.folders.entry(folder.id) {
            Entry::Occupied(seen) => Err(copy_of(&self.trails.path(seen.get()), path)),
            Entry::Vacant(new) => {
                new.insert(trail.clone());
                Ok(folder)
            }
        }
    }

    fn folder_places(&mut self, folder: &Folder<S>, spot: &Spot<S>, path: &Path) -> Result<()> {
        let core = &self.vault.core;
        let record = core.read_folder_record(folder.dir(), || path.to_string_lossy().into())?;
        if !record.places.is_moving() {
            return Ok(());
        }
        let repair = self.options.repair;
        if repair {
            let places = Places::at(spot.name.place);
            self.vault.set_folder_places(folder, places)?;
        }
        self.interrupted_rename(path, repair);
        Ok(())
    }

    fn symlink(
        &mut self,
        node: &Arc<Node<S>>,
        spot: &Spot<S>,
        found: &Attributes,
        trail: Trail,
        path: &Path,
    ) -> Result<()> {
        self.vault.read_target(node)?;
        if found.links > 1
            && let Some(other) = self.symlinks.insert(found.inode(), trail)
        {
            return Err(Error::altered(
                path.to_string_lossy(),
                format!(
                    "it is a hard link to {}, which the vault never makes of a symlink; remove \
                     the wrong one in the store",
                    self.trails.path(&other).display()
                ),
            ));
        }
        if self.vault.is_moving_symlink(spot)? {
            if self.options.repair {
                let places = Places::at(spot.name.place);
                self.vault.bind_symlink(node, spot, places, None, true)?;
            }
            self.interrupted_rename(path, self.options.repair);
        }
        Ok(())
    }

    fn file(
        &mut self,
        node: &Arc<Node<S>>,
        spot: &Spot<S>,
        found: &Attributes,
        trail: Trail,
        path: &Path,
    ) -> Result<()> {
        let content = self.vault.content(node)?;
        if let Some(seen) = self.files.get_mut(&content.id) {
            if seen.inode == found.inode() {
                // If it is open already, opening it looked at no place.
                let state = content.read_state();
                let what = || path.to_string_lossy().into();
                let (allowed, place) = (state.now.allowed(), spot.name.place);
                self.vault.check_place(allowed.places, &[place], what)?;
                let other = allowed.other(&place);
                if other.is_some_and(|other| seen.places.contains(&other)) {
                    return Err(put_back(what()));
                }
                seen.places.insert(place);
                return Ok(());
            }
            return Err(copy_of(&self.trails.path(&seen.trail), path));
        }
        match content.kind() {
            FileType::RegularFile => self.report.files += 1,
            _ => self.report.others += 1,
        }
        if !self.options.quick {
            self.report.bytes += self.vault.core.verify(&content)?;
        }
        self.headers(&content, path)?;
        self.xattrs(node, path)?;
        let id = content.id;
        let allowed = content.read_state().places_to_be();
        let seen = Seen {
            inode: found.inode(),
            trail,
            places: HashSet::from([spot.name.place]),
            several: (allowed.len() > 1).then(|| Several {
                allowed,
                parent: Arc::clone(&spot.node),
                stored: spot.name.stored.clone(),
            }),
        };
        self.files.insert(id, seen);
        Ok(())
    }

    fn xattrs(&mut self, node: &Arc<Node<S>>, path: &Path) -> Result<()> {
        let bad = self.vault.bad_xattrs(node)?;
        for name in bad {
            let repair = self.repairs(Class::Altered);
            let action = match repair {
                true => format!("moved to {LOST}/{}", self.vault.lose_xattr(node, &name)?),
                false => format!("set it again, or let check --repair move it to {LOST}"),
            };
            let problem = "an extended attribute does not verify";
            let finding = self.found(path, problem, Class::Altered);
            finding.repaired = repair;
            finding.action = action;
        }
        Ok(())
    }
}

fn copy_of(other: &Path, path: &Path) -> Error {
    Error::altered(
        path.to_string_lossy(),
        format!(
            "it is a copy, or an old version, of {}; restore it from a backup",
            other.display()
        ),
    )
}
