//! Random attacks on a store without a key, with old copies of all of it.

mod attributes;
mod own;

pub(super) use attributes::puts_other_attributes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};

use crate::common::mem::{Disk, Object};
use crate::common::rng::Rng;

const TOP: u64 = 1;
const FOLDER: u32 = 0o040_000;
const KIND: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// An entry of the store.
#[derive(Clone, Debug)]
struct Entry {
    dir: u64,
    name: OsString,
    inode: u64,
}

/// What was done, and what of it the documentation lets pass.
#[derive(Debug)]
pub(super) struct Attack {
    pub(super) what: String,
    /// Attributes were removed, or old ones put back: nothing tells that.
    pub(super) xattrs: bool,
    /// The vault must not be opened.
    pub(super) refused: bool,
    /// In a vault that was closed, nothing may change by it.
    pub(super) harmless: bool,
}

fn pick<'a, T>(rng: &mut Rng, all: &'a [T]) -> Option<&'a T> {
    match all.len() {
        0 => None,
        len => all.get(rng.below(len as u64) as usize),
    }
}

fn kind(disk: &Disk, inode: u64) -> u32 {
    disk.objects[&inode].mode & KIND
}

/// All entries, in an order that does not depend on keys.
fn entries(disk: &Disk) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut folders = vec![TOP];
    while let Some(dir) = folders.pop() {
        for (name, inode) in &disk.objects[&dir].entries {
            if kind(disk, *inode) == FOLDER {
                folders.push(*inode);
            }
            found.push(Entry {
                dir,
                name: name.clone(),
                inode: *inode,
            });
        }
    }
    found.sort_by_key(|entry| (entry.dir, entry.inode, entry.name.len(), entry.name.clone()));
    found
}

/// Whether an entry is one of the tree, not of the vault's own.
fn is_entry(entry: &Entry) -> bool {
    !entry.name.to_string_lossy().starts_with("warplock.")
}

/// Puts link counts right; false if the folders are no tree any more.
fn count_links(disk: &mut Disk) -> bool {
    let mut links: HashMap<u64, u32> = HashMap::new();
    let mut seen = BTreeSet::from([TOP]);
    let mut folders = vec![TOP];
    while let Some(dir) = folders.pop() {
        for inode in disk.objects[&dir].entries.values() {
            *links.entry(*inode).or_default() += 1;
            if kind(disk, *inode) == FOLDER {
                if !seen.insert(*inode) {
                    return false;
                }
                folders.push(*inode);
            }
        }
    }
    for (inode, object) in &mut disk.objects {
        // A folder is removed empty; and none holds itself.
        if !seen.contains(inode) {
            object.entries.clear();
        }
        object.links = match object.mode & KIND == FOLDER {
            true => 1,
            false => links.get(inode).copied().unwrap_or(0),
        };
    }
    true
}

/// Puts a copy of an object of another disk, with all below it, on this one.
fn copy(disk: &mut Disk, from: &Disk, inode: u64) -> u64 {
    let mut object = from.objects[&inode].clone();
    let below = std::mem::take(&mut object.entries);
    let copied: BTreeMap<_, _> = below
        .into_iter()
        .map(|(name, inode)| (name, copy(disk, from, inode)))
        .collect();
    object.entries = copied;
    disk.plant(object)
}

/// A range of a file: mostly one that means something in the format.
fn range(rng: &mut Rng, len: usize) -> (usize, usize) {
    let pages = (len / 4096).max(1) as u64;
    let (start, count) = match rng.below(10) {
        0 => (0, 16),
        1 => (rng.below(2) * 2048, 2048),
        2 => (0, 4096),
        3 => (rng.below(2) * 2048 + rng.below(2048), 1 + rng.below(40)),
        4..7 => (rng.below(pages) * 4096, 4096),
        7 => (rng.below(pages) * 4096, 4096 * (1 + rng.below(pages))),
        8 => (rng.below(len as u64 + 1), 1 + rng.below(5000)),
        _ => (4096, len as u64),
    };
    let start = (start as usize).min(len);
    (start, (count as usize).min(len - start))
}

impl Attack {
    /// Does something to a disk; `None` if what was drawn cannot be done to it.
    pub(super) fn any(disk: &mut Disk, copies: &[Disk], rng: &mut Rng) -> Option<Self> {
        let mut changed = disk.clone();
        let mut attacker = Attacker {
            disk: &mut changed,
            copies,
            rng,
            xattrs: false,
            refused: false,
            harmless: false,
        };
        let what = attacker.attack()?;
        let attack = Attack {
            what,
            xattrs: attacker.xattrs,
            refused: attacker.refused,
            harmless: attacker.harmless,
        };
        if !count_links(&mut changed) {
            return None;
        }
        *disk = changed;
        Some(attack)
    }
}

struct Attacker<'a> {
    disk: &'a mut Disk,
    copies: &'a [Disk],
    rng: &'a mut Rng,
    xattrs: bool,
    refused: bool,
    harmless: bool,
}

impl<'a> Attacker<'a> {
    fn old(&mut self) -> Option<&'a Disk> {
        pick(self.rng, self.copies)
    }

    fn any_entry(&mut self, wanted: impl Fn(&Disk, &Entry) -> bool) -> Option<Entry> {
        let mut all = entries(self.disk);
        all.retain(|entry| wanted(self.disk, entry));
        pick(self.rng, &all).cloned()
    }

    fn file(&mut self) -> Option<Entry> {
        let own = self.rng.below(8) == 0;
        self.any_entry(|disk, entry| kind(disk, entry.inode) == FILE && (own || is_entry(entry)))
    }

    /// An entry of the tree, seldom one of the vault's own.
    fn entry(&mut self) -> Option<Entry> {
        let own = self.rng.below(6) == 0;
        self.any_entry(|_, entry| own || is_entry(entry))
    }

    fn old_entry(&mut self) -> Option<(&'a Disk, Entry)> {
        let old = self.old()?;
        let own = self.rng.below(6) == 0;
        let mut all = entries(old);
        all.retain(|entry| own || is_entry(entry));
        Some((old, pick(self.rng, &all)?.clone()))
    }

    fn attack(&mut self) -> Option<String> {
        match self.rng.below(100) {
            0..10 => self.change_bytes(),
            10..22 => self.old_bytes(),
            22..32 => self.old_object(),
            32..44 => self.old_name(),
            44..50 => self.remove(),
            50..57 => self.swap(),
            57..66 => self.double(),
            66..73 => self.move_away(),
            73..76 => self.change_kind(),
            76..83 => self.xattr(),
            83..86 => self.whole(),
            86..90 => self.subtree(),
            90..94 => self.own(),
            94 => self.settings(),
            95 | 96 => {
                self.old_journals()?;
                self.harmless = true;
                Some("old journals".into())
            }
            _ => self.invent(),
        }
    }

    fn change_bytes(&mut self) -> Option<String> {
        let entry = self.file()?;
        let len = self.disk.objects[&entry.inode].data.len();
        let (start, count) = range(self.rng, len);
        let (other, _) = range(self.rng, len);
        let choice = self.rng.below(8);
        let random = self.rng.bytes(count);
        let data = &mut self.disk.object(entry.inode).data;
        let part = &mut data[start..start + count];
        let how = match choice {
            0 | 1 if count > 0 => {
                part[0] ^= 1;
                "flip"
            }
            2 => {
                part.fill(0);
                "zero"
            }
            3 => {
                part.copy_from_slice(&random);
                "scramble"
            }
            4 => {
                data.truncate(start);
                "cut"
            }
            5 => {
                data.extend(random);
                "lengthen by"
            }
            6 => {
                data.resize(len + count, 0);
                "lengthen by zeros"
            }
            _ => {
                let count = count.min(len - other);
                let from = data[other..other + count].to_vec();
                data[start..start + count].copy_from_slice(&from);
                "repeat"
            }
        };
        Some(format!("{how} {count} bytes at {start} of {}", entry.inode))
    }

    /// Part of a file as it was, or as another one is.
    fn old_bytes(&mut self) -> Option<String> {
        let entry = self.file()?;
        let from = match self.rng.below(4) {
            0 => self.file()?.inode,
            _ => entry.inode,
        };
        let old = match self.rng.below(6) {
            0 => self.disk.objects[&from].data.clone(),
            _ => self.old()?.objects.get(&from)?.data.clone(),
        };
        let (start, count) = range(self.rng, old.len());
        let data = &mut self.disk.object(entry.inode).data;
        if data.len() < start + count {
            data.resize(start + count, 0);
        }
        data[start..start + count].copy_from_slice(&old[start..start + count]);
        let mut what = format!("bytes of {from} at {start}, {count}, into {}", entry.inode);
        if self.rng.below(3) == 0 {
            data.resize(old.len(), 0);
            what.push_str(", and its length");
        }
        Some(what)
    }

    /// All of an object as it was.
    fn old_object(&mut self) -> Option<String> {
        let entry = self.entry()?;
        let old = self.old()?.objects.get(&entry.inode)?;
        let object = self.disk.object(entry.inode);
        if object.mode & KIND == FOLDER {
            return None;
        }
        let xattrs = object.xattrs.clone();
        *object = old.clone();
        // What comes back of them would tell nothing.
        object.xattrs = xattrs;
        let mut what = format!("an old state of {}", entry.inode);
        if self.rng.below(2) == 0 {
            what.push_str(", with its journal");
            self.old_journals();
        }
        Some(what)
    }

    /// Journals as they were at some time.
    fn old_journals(&mut self) -> Option<()> {
        let old = self.old()?;
        let name = OsStr::new("warplock.journal");
        let journals = old.objects[&TOP].entries.get(name)?;
        let new = copy(self.disk, old, *journals);
        self.disk.object(TOP).entries.insert(name.into(), new);
        Some(())
    }

    /// A name as it was, with what stood there, or stands somewhere now.
    fn old_name(&mut self) -> Option<String> {
        let (old, entry) = self.old_entry()?;
        if !self.disk.objects.contains_key(&entry.dir) {
            return None;
        }
        let here = self.disk.objects.contains_key(&entry.inode);
        let choice = self.rng.below(4);
        let (inode, what) = match choice {
            0 if here => (entry.inode, "now"),
            1 if here && kind(self.disk, entry.inode) != FOLDER => {
                // As it was then, and under its other names, too.
                let mut object = old.objects[&entry.inode].clone();
                object.xattrs = self.disk.objects[&entry.inode].xattrs.clone();
                *self.disk.object(entry.inode) = object;
                (entry.inode, "then")
            }
            2 if here => {
                let disk = self.disk.clone();
                (copy(self.disk, &disk, entry.inode), "a copy of now")
            }
            _ => (copy(self.disk, old, entry.inode), "a copy of then"),
        };
        self.xattrs |= what == "a copy of then";
        if kind(self.disk, inode) == FOLDER {
            // A folder has one name.
            for object in self.disk.objects.values_mut() {
                object.entries.retain(|_, found| *found != inode);
            }
        }
        self.beside(old, &entry);
        let dir = self.disk.object(entry.dir);
        dir.entries.insert(entry.name.clone(), inode);
        Some(format!(
            "an old name of {} in {}, {what}",
            entry.inode, entry.dir
        ))
    }

    /// The file with a long name, too.
    fn beside(&mut self, from: &Disk, entry: &Entry) {
        let Some(name) = beside(&entry.name) else {
            return;
        };
        if let Some(inode) = from.objects[&entry.dir].entries.get(&name)
            && !self.disk.objects[&entry.dir].entries.contains_key(&name)
        {
            let new = copy(self.disk, from, *inode);
            self.disk.object(entry.dir).entries.insert(name, new);
        }
    }

    fn remove(&mut self) -> Option<String> {
        let entry = self.entry()?;
        self.disk.object(entry.dir).entries.remove(&entry.name);
        if let Some(beside) = beside(&entry.name)
            && self.rng.below(2) == 0
        {
            self.disk.object(entry.dir).entries.remove(&beside);
        }
        Some(format!("remove {} from {}", entry.inode, entry.dir))
    }

    fn swap(&mut self) -> Option<String> {
        let (one, two) = (self.entry()?, self.entry()?);
        if one.inode == two.inode {
            return None;
        }
        let (a, b) = (one.inode, two.inode);
        match self.rng.below(4) {
            // Only what they hold.
            0 => {
                let data = std::mem::take(&mut self.disk.object(a).data);
                let data = std::mem::replace(&mut self.disk.object(b).data, data);
                self.disk.object(a).data = data;
                let target = std::mem::take(&mut self.disk.object(a).target);
                let target = std::mem::replace(&mut self.disk.object(b).target, target);
                self.disk.object(a).target = target;
                Some(format!("exchange what {a} and {b} hold"))
            }
            _ => {
                self.disk.object(one.dir).entries.insert(one.name, b);
                self.disk.object(two.dir).entries.insert(two.name, a);
                Some(format!("swap {a} and {b}"))
            }
        }
    }

    /// A second name, or a copy, in the place of something else, of nothing any more, or elsewhere.
    fn double(&mut self) -> Option<String> {
        let entry = self.entry()?;
        let (dir, name) = self.target(&entry)?;
        let link = self.rng.below(2) == 0 && kind(self.disk, entry.inode) != FOLDER;
        let inode = match link {
            true => entry.inode,
            false => {
                let disk = self.disk.clone();
                copy(self.disk, &disk, entry.inode)
            }
        };
        self.disk.object(dir).entries.insert(name, inode);
        let how = if link { "link" } else { "copy" };
        Some(format!("{how} {} into {dir}", entry.inode))
    }

    fn move_away(&mut self) -> Option<String> {
        let entry = self.entry()?;
        let (dir, name) = self.target(&entry)?;
        self.disk.object(entry.dir).entries.remove(&entry.name);
        self.disk.object(dir).entries.insert(name, entry.inode);
        Some(format!("move {} to {dir}", entry.inode))
    }

    /// A place for something to stand at.
    fn target(&mut self, entry: &Entry) -> Option<(u64, OsString)> {
        Some(match self.rng.below(5) {
            0 | 1 => {
                let (_, old) = self.old_entry()?;
                (old.dir, old.name)
            }
            2 => {
                let other = self.entry()?;
                (other.dir, other.name)
            }
            3 => {
                let other = self.entry()?;
                (other.dir, entry.name.clone())
            }
            _ => (entry.dir, self.random_name()),
        })
        .filter(|(dir, _)| self.disk.objects.contains_key(dir))
    }

    fn random_name(&mut self) -> OsString {
        let text = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let len = [22, 24, 43, 60][self.rng.below(4) as usize];
        let bytes = self.rng.bytes(len);
        let name = bytes
            .iter()
            .map(|byte| text.as_bytes()[*byte as usize % 64] as char);
        let name: String = name.collect();
        match self.rng.below(8) {
            0 => format!("{}.long", &name[..22]).into(),
            1 => format!("{}.name", &name[..22]).into(),
            2 => ".stfolder".into(),
            3 => format!("warplock.tmp.{}", "ab".repeat(12)).into(),
            _ => name.into(),
        }
    }

    /// All of the store as it was.
    fn whole(&mut self) -> Option<String> {
        let old = self.old()?;
        // What is open and has no name then stays open.
        self.disk.objects.extend(old.objects.clone());
        self.xattrs = true;
        Some("all of an old copy".into())
    }

    /// A folder and all below it as it was.
    fn subtree(&mut self) -> Option<String> {
        let old = self.old()?;
        let folders: Vec<_> = entries(old)
            .into_iter()
            .filter(|entry| kind(old, entry.inode) == FOLDER && is_entry(entry))
            .collect();
        let entry = pick(self.rng, &folders)?;
        if !self.disk.objects.contains_key(&entry.dir) {
            return None;
        }
        self.xattrs = true;
        let new = copy(self.disk, old, entry.inode);
        self.beside(old, entry);
        let dir = self.disk.object(entry.dir);
        dir.entries.insert(entry.name.clone(), new);
        Some(format!("all of folder {} as it was", entry.inode))
    }
}

fn beside(name: &OsStr) -> Option<OsString> {
    let text = name.to_str()?;
    Some(format!("{}.name", text.strip_suffix(".long")?).into())
}
