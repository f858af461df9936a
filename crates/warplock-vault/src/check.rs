//! Checking a whole vault: everything that can be noticed is, and what a crash left is tidied.

mod own;
mod repair;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use own::Own;
use rustix::io::Errno;
use subtle::ConstantTimeEq;

use crate::blocks;
use crate::content::Content;
use crate::core::{Core, lock};
use crate::error::{Error, NO_HEADER, Result};
use crate::folder::{Folder, Record};
use crate::fs::{Attributes, FileType, ROOT};
use crate::keys::Id;
use crate::layout::OVERHEAD;
use crate::names::{Place, Sealed};
use crate::node::Node;
use crate::storage::{Listed, Storage};
use crate::sum::EMPTY;
use crate::tree::Spot;
use crate::vault::Vault;

/// The folder in the store to which repairs move what they take out of the tree.
pub const LOST: &str = "warplock.lost";
/// What ends names there of what had never been a whole file, so that nothing else depends on it.
const UNFINISHED: &str = ".unfinished";

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
    /// Whether the store did not let it be read or changed, so that nothing is known of it.
    pub unread: bool,
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
    /// Whether there may be files that were not seen: then what seems to belong to none is kept.
    unseen: bool,
}

/// A file that was seen.
struct Seen<S: Storage> {
    inode: u64,
    path: PathBuf,
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

/// What can be done about a finding.
enum Remedy<'a> {
    /// Move the entry out of the tree.
    Lose(&'a Listed),
    /// Remove the entry, which holds nothing.
    Remove(&'a Listed),
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
            "nothing can be repaired while the vault can only be read: open it for writing; if its \
             store is on a read-only file system, make that writable first"
                .into(),
        ));
    }
    vault.tick_unless_read_only()?;
    let mut check = Check {
        vault,
        options,
        report: Report::default(),
        files: HashMap::new(),
        unseen: false,
    };
    match vault.core.holds_lost() {
        Ok(lost) => check.unseen = lost,
        Err(error) => check.unread(&Path::new("/").join(LOST), error)?,
    }
    let root = vault.node(ROOT)?;
    let mut waiting = vec![(root, PathBuf::from("/"))];
    while let Some((node, path)) = waiting.pop() {
        progress(&path);
        if let Err(error) = check.folder(&node, &path, &mut waiting, progress) {
            check.unread(&path, error)?;
        }
        if node.number != ROOT {
            // It may be kept as the folder of a file.
            *lock(&node.folder) = None;
            vault.nodes.forget(node.number, 1);
        }
    }
    check.gone();
    check.places()?;
    check.journals()?;
    vault.tick_unless_read_only()?;
    if options.repair {
        check.settle();
    }
    Ok(check.report)
}

impl<S: Storage> Check<'_, S> {
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
        if let Err(error) = self.xattrs(node, path) {
            self.unread(path, error)?;
        }
        let listed = vault.core.storage.list(folder.dir())?;
        let present: HashSet<_> = listed.iter().map(|entry| entry.name.clone()).collect();
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
            if let Err(error) = self.entry(&spot, entry, &path, waiting) {
                self.unread(&path, error)?;
            }
        }
        Ok(())
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
            .own(folder.dir(), entry, present, node.number == ROOT)?;
        let (problem, crash) = match own {
            Own::Kept => return Ok(None),
            Own::Keys => ("a change of keys was interrupted".to_owned(), true),
            Own::Unfinished => ("an operation was interrupted".to_owned(), true),
            Own::Other => match vault.plain_name(folder, &entry.name) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => ("this is none of the vault's files".to_owned(), false),
                Err(Error::Errno(Errno::NOENT)) => (
                    "the file with its name is missing; restore it from a backup".to_owned(),
                    false,
                ),
                Err(error @ Error::Altered { .. }) => (error.to_string(), false),
                Err(error) => return Err(error),
            },
        };
        let remedy = if crash {
            Remedy::Remove(entry)
        } else {
            Remedy::Lose(entry)
        };
        let path = path.join(&entry.name);
        self.remedy(node, folder, &path, problem, crash, remedy);
        Ok(None)
    }

    fn entry(
        &mut self,
        spot: &Spot<S>,
        entry: &Listed,
        path: &Path,
        waiting: &mut Vec<(Arc<Node<S>>, PathBuf)>,
    ) -> Result<()> {
        let vault = self.vault;
        let found = vault.core.storage.attributes(spot.at())?;
        let node = vault.nodes.enter(&spot.node, &spot.name, &found);
        let result = match node.kind {
            FileType::Directory => match vault.folder(&node) {
                Ok(folder) => {
                    waiting.push((node, path.to_owned()));
                    return self.folder_places(&folder, spot, path);
                }
                Err(error) => Err(error),
            },
            FileType::RegularFile => self.file(&node, spot, &found, path),
            FileType::Symlink => {
                self.report.others += 1;
                self.symlink(&node, spot, path)
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
                let problem = match error {
                    // What to do is said with the remedy.
                    Error::Unfinished { .. } => format!("it {NO_HEADER}"),
                    error => error.to_string(),
                };
                self.remedy(&spot.node, &spot.folder, path, problem, crash, remedy);
                Ok(())
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
        self.interrupted_rename(path, repair);
        Ok(())
    }

    fn symlink(&mut self, node: &Arc<Node<S>>, spot: &Spot<S>, path: &Path) -> Result<()> {
        self.vault.read_target(node)?;
        if self.vault.symlink_places(spot)? > 1 {
            if self.options.repair {
                self.vault.bind_symlink(node, spot, &[spot], true)?;
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
        path: &Path,
    ) -> Result<()> {
        let content = self.vault.content(node)?;
        if let Some(seen) = self.files.get_mut(&content.id) {
            if seen.inode == found.node {
                // If somebody has it open, opening it looked at no place.
                let places = &content.read_state().now.places;
                self.vault
                    .check_place(places, &[spot.name.place], &path.to_string_lossy())?;
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
        self.xattrs(node, path)?;
        let id = content.id;
        let allowed = content.read_state().now.places.clone();
        let seen = Seen {
            inode: found.node,
            path: path.to_owned(),
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
            let repair = self.options.repair;
            if repair {
                self.vault.remove_stored_xattr(node, &name)?;
            }
            let finding = self.found(path, "an extended attribute does not verify", false);
            finding.repaired = repair;
            finding.action = match repair {
                true => "removed",
                false => "set it again, or let check --repair remove it",
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
        if !bool::from(sum.ct_eq(&state.now.sum)) {
            return Err(self.wrong_sum(content));
        }
        Ok(len)
    }
}
