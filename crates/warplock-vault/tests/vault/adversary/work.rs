//! Honest work at random, done in the vault and in the model.

use std::ffi::OsStr;

use rustix::io::Errno;
use warplock_vault::fs::{Access, Changes, FileSystem, NewNode, ROOT, RenameFlags, XattrFlags};
use warplock_vault::{OpenFile, Vault};

use super::model::{Entry, Kind, Model, Obj, TOP};
use crate::common::mem::Mem;
use crate::common::rng::Rng;
use crate::common::{FILE, FOLDER, Short, WRITE};

/// More entries than this are not made.
const MOST: usize = 14;
const LONGEST: u64 = 90_000;
const XATTRS: [&str; 3] = ["user.a", "user.b", "user.c"];

pub(super) fn long_name() -> String {
    "n".repeat(250)
}

/// A session's open files.
pub(super) struct Work<'a> {
    pub(super) vault: &'a Vault<Mem>,
    pub(super) model: &'a mut Model,
    pub(super) rng: &'a mut Rng,
    pub(super) trace: &'a mut Vec<String>,
    pub(super) files: Vec<(OpenFile<Mem>, Obj)>,
    /// Whether the session will crash.
    pub(super) crashes: bool,
}

fn pick<'a, T>(rng: &mut Rng, all: &'a [T]) -> Option<&'a T> {
    match all.len() {
        0 => None,
        len => all.get(rng.below(len as u64) as usize),
    }
}

impl Work<'_> {
    fn say(&mut self, what: String) {
        self.trace.push(what);
    }

    fn name(&mut self) -> String {
        match self.rng.below(8) {
            0 => long_name(),
            at => ["a", "b", "c", "d", "e"][at as usize % 5].into(),
        }
    }

    fn node(&self, path: &[String]) -> Result<u64, Errno> {
        let mut node = ROOT;
        for name in path {
            node = self.vault.lookup(node, OsStr::new(name))?.node;
        }
        Ok(node)
    }

    /// A folder: its object and its path.
    fn folder(&mut self, entries: &[Entry]) -> (Obj, Vec<String>) {
        let mut folders = vec![(TOP, Vec::new())];
        for entry in entries {
            if self.model.object(entry.obj).kind == Kind::Folder {
                folders.push((entry.obj, entry.path.clone()));
            }
        }
        pick(self.rng, &folders).expect("the topmost one").clone()
    }

    /// One operation.
    pub(super) fn step(&mut self) -> Result<(), Errno> {
        self.model.steps_on();
        let entries = self.model.entries();
        let crowded = entries.len() >= MOST;
        match self.rng.below(100) {
            0..16 if !crowded => self.make(&entries),
            0..46 => self.edit(&entries),
            46..54 => self.sync(&entries),
            54..70 => self.rename(&entries),
            70..74 if !crowded => self.link(&entries),
            70..82 => self.remove(&entries),
            82..90 => self.xattr(&entries),
            90..93 => self.change_mode(&entries),
            93..96 => self.sync_folder(&entries),
            96..98 => {
                self.say("tick".into());
                self.vault.tick().map_err(|_| Errno::IO)
            }
            _ => {
                self.say("close a file".into());
                if !self.files.is_empty() {
                    self.files.remove(0);
                }
                Ok(())
            }
        }
    }

    fn make(&mut self, entries: &[Entry]) -> Result<(), Errno> {
        let (folder, path) = self.folder(entries);
        let name = self.name();
        if self.model.at(folder, &name).is_some() || path.len() > 2 {
            return Ok(());
        }
        let (kind, fifo) = match self.rng.below(10) {
            0..6 => (Kind::File, FILE),
            6..8 => (Kind::Folder, FOLDER),
            8 => (Kind::Symlink, FILE),
            _ => {
                let mode = 0o10_644;
                (Kind::Fifo, NewNode { mode, ..FILE })
            }
        };
        self.say(format!("make {kind:?} {path:?} {:.3}", name));
        let node = self.node(&path)?;
        let os = OsStr::new(&name);
        let target = match kind {
            Kind::Symlink => self.rng.bytes(5).iter().map(|b| b'a' + b % 26).collect(),
            _ => Vec::new(),
        };
        let made = match kind {
            Kind::File => self.vault.create(node, os, FILE, WRITE, true).map(Some),
            Kind::Folder => self.vault.make(node, os, FOLDER, 0).map(|_| None),
            Kind::Fifo => self.vault.make(node, os, fifo, 0).map(|_| None),
            Kind::Symlink => {
                let target = std::str::from_utf8(&target).unwrap();
                let target = OsStr::new(target);
                self.vault
                    .symlink(node, os, target, FILE.caller)
                    .map(|_| None)
            }
        };
        let obj = self.model.add(kind, target, Vec::new());
        self.model.bind(folder, &name, Some(obj));
        if let Some((_, file)) = made? {
            self.files.push((file, obj));
        }
        Ok(())
    }

    /// A file to write to: one that is open, or one that is opened.
    fn file(&mut self, entries: &[Entry]) -> Result<Option<usize>, Errno> {
        if !self.files.is_empty() && self.rng.below(2) == 0 {
            return Ok(Some(self.rng.below(self.files.len() as u64) as usize));
        }
        let files: Vec<_> = entries
            .iter()
            .filter(|entry| self.model.object(entry.obj).kind == Kind::File)
            .collect();
        let Some(entry) = pick(self.rng, &files) else {
            return Ok(None);
        };
        let node = self.node(&entry.path)?;
        let file = self.vault.open(node, WRITE)?;
        self.say(format!("open {:?}", short(&entry.path)));
        if self.files.len() > 2 {
            self.files.remove(0);
        }
        self.files.push((file, entry.obj));
        Ok(Some(self.files.len() - 1))
    }

    fn edit(&mut self, entries: &[Entry]) -> Result<(), Errno> {
        let Some(at) = self.file(entries)? else {
            return Ok(());
        };
        let obj = self.files[at].1;
        let mut state = (**self.model.state(obj)).clone();
        let len = state.len() as u64;
        let offset = match self.rng.below(4) {
            0 => len,
            1 => self.rng.below(LONGEST) & !4095,
            2 => self.rng.below(len + 1),
            _ => self.rng.below(len + 9000),
        };
        let done = match self.rng.below(10) {
            0..7 => {
                // Often of a length that keeps the file's.
                let count = match self.rng.below(3) {
                    0 => 4096 * (1 + self.rng.below(3)),
                    1 => 1 + self.rng.below(200),
                    _ => (len.saturating_sub(offset)).max(1),
                };
                let count = count.min((2 * LONGEST).saturating_sub(offset)) as usize;
                let data = self.rng.bytes(count);
                self.say(format!("write object {obj} at {offset}, {count} bytes"));
                let end = offset as usize + count;
                state.resize(state.len().max(end), 0);
                state[offset as usize..end].copy_from_slice(&data);
                self.vault.write(&self.files[at].0, offset, &data, false)
            }
            7 => {
                let to = match self.rng.below(3) {
                    0 => 0,
                    _ => offset,
                };
                self.say(format!("cut object {obj} to {to} bytes"));
                state.resize(to as usize, 0);
                // By a number that leads to it, if it has a name.
                let place = entries.iter().find(|entry| entry.obj == obj);
                let node = match place {
                    Some(entry) => self.node(&entry.path)?,
                    None => return Ok(()),
                };
                self.vault.resize(&self.files[at].0, node, to)
            }
            _ => {
                let count = 4096 * (1 + self.rng.below(4));
                let offset = offset.min(len) & !4095;
                self.say(format!("punch object {obj} at {offset}, {count} bytes"));
                let end = len.min(offset + count) as usize;
                state[offset as usize..end].fill(0);
                self.vault.allocate(&self.files[at].0, 3, offset, count)
            }
        };
        self.model.push_state(obj, state);
        done
    }

    fn sync(&mut self, entries: &[Entry]) -> Result<(), Errno> {
        let Some(at) = self.file(entries)? else {
            return Ok(());
        };
        let obj = self.files[at].1;
        self.say(format!("fsync object {obj}"));
        self.vault.fsync(&self.files[at].0, false)?;
        self.model.synced(obj);
        Ok(())
    }

    fn sync_folder(&mut self, entries: &[Entry]) -> Result<(), Errno> {
        let (folder, path) = self.folder(entries);
        self.say(format!("fsync folder {:?}", short(&path)));
        let dir = self.vault.open_dir(self.node(&path)?)?;
        self.vault.fsync_dir(&dir)?;
        self.model.synced_folder(folder);
        Ok(())
    }

    fn rename(&mut self, entries: &[Entry]) -> Result<(), Errno> {
        let Some(from) = pick(self.rng, entries) else {
            return Ok(());
        };
        let (folder, path) = self.folder(entries);
        let name = self.name();
        let depth = path.len() + from.path.len();
        if path.starts_with(&from.path) || depth > 4 {
            return Ok(());
        }
        let (kind, other) = (
            self.model.object(from.obj).kind,
            self.model.at(folder, &name),
        );
        let other_kind = other.map(|other| self.model.object(other).kind);
        let exchange = other.is_some() && self.rng.below(3) == 0 && !self.crashes;
        if other == Some(from.obj) {
            return Ok(());
        }
        if let Some(other) = other {
            let other_path = [&path[..], std::slice::from_ref(&name)].concat();
            if exchange && from.path.starts_with(&other_path) {
                return Ok(());
            }
            let folders = (kind == Kind::Folder, other_kind == Some(Kind::Folder));
            let fits = folders.0 == folders.1 && (!folders.1 || self.model.is_empty(other));
            if !exchange && !fits {
                return Ok(());
            }
        }
        self.say(format!(
            "rename {:?} to {:?}/{name:.3}{}",
            short(&from.path),
            short(&path),
            if exchange { ", exchanged" } else { "" }
        ));
        let parent = self.node(&from.path[..from.path.len() - 1])?;
        let to = self.node(&path)?;
        let flags = match exchange {
            true => RenameFlags::EXCHANGE,
            false => RenameFlags::empty(),
        };
        let (from_name, to_name) = (OsStr::new(&from.name), OsStr::new(&name));
        let done = self.vault.rename((parent, from_name), (to, to_name), flags);
        let left = other.filter(|_| exchange);
        self.model.bind(from.parent, &from.name, left);
        self.model.bind(folder, &name, Some(from.obj));
        done
    }

    fn link(&mut self, entries: &[Entry]) -> Result<(), Errno> {
        let Some(from) = pick(self.rng, entries) else {
            return Ok(());
        };
        let (folder, path) = self.folder(entries);
        let name = self.name();
        let kind = self.model.object(from.obj).kind;
        if kind != Kind::File || self.model.at(folder, &name).is_some() {
            return Ok(());
        }
        self.say(format!(
            "link {:?} to {:?}/{name:.3}",
            short(&from.path),
            path
        ));
        let (node, to) = (self.node(&from.path)?, self.node(&path)?);
        let done = self.vault.link(node, to, OsStr::new(&name));
        self.model.bind(folder, &name, Some(from.obj));
        done.map(drop)
    }

    fn remove(&mut self, entries: &[Entry]) -> Result<(), Errno> {
        let Some(entry) = pick(self.rng, entries) else {
            return Ok(());
        };
        let folder = self.model.object(entry.obj).kind == Kind::Folder;
        if folder && !self.model.is_empty(entry.obj) {
            return Ok(());
        }
        self.say(format!("remove {:?}", short(&entry.path)));
        let parent = self.node(&entry.path[..entry.path.len() - 1])?;
        let name = OsStr::new(&entry.name);
        let done = match folder {
            true => self.vault.rmdir(parent, name),
            false => self.vault.unlink(parent, name),
        };
        self.model.bind(entry.parent, &entry.name, None);
        done
    }

    fn xattr(&mut self, entries: &[Entry]) -> Result<(), Errno> {
        let Some(entry) = pick(self.rng, entries) else {
            return Ok(());
        };
        let object = self.model.object(entry.obj);
        if !matches!(object.kind, Kind::File | Kind::Folder) {
            return Ok(());
        }
        let name = *pick(self.rng, &XATTRS).expect("there are some");
        let there = object.xattrs.contains_key(name);
        let node = self.node(&entry.path)?;
        if there && self.rng.below(3) == 0 {
            self.say(format!("remove {name} of {:?}", short(&entry.path)));
            let done = self.vault.remove_xattr(node, OsStr::new(name));
            self.model.set_xattr(entry.obj, name, None);
            return done;
        }
        self.say(format!("set {name} of {:?}", short(&entry.path)));
        let value = self.rng.bytes(6);
        let done = self
            .vault
            .set_xattr(node, OsStr::new(name), &value, XattrFlags::empty());
        self.model.set_xattr(entry.obj, name, Some(value));
        done
    }

    fn change_mode(&mut self, entries: &[Entry]) -> Result<(), Errno> {
        let Some(entry) = pick(self.rng, entries) else {
            return Ok(());
        };
        if self.model.object(entry.obj).kind == Kind::Symlink {
            return Ok(());
        }
        self.say(format!("chmod {:?}", short(&entry.path)));
        let mode = 0o600 | self.rng.below(0o200) as u32 & 0o177;
        let changes = Changes {
            mode: Some(mode),
            ..Changes::default()
        };
        let node = self.node(&entry.path)?;
        let done = self.vault.change(node, None, &changes);
        self.model.set_mode(entry.obj, mode);
        done.map(drop)
    }

    /// What is read through the files that are open is the newest.
    pub(super) fn read_open_files(&self) -> Result<(), String> {
        for (file, obj) in &self.files {
            let state = self.model.state(*obj);
            let mut data = vec![0; state.len() + 1];
            match self.vault.read(file, 0, &mut data) {
                Ok(count) if data[..count] != state[..] => {
                    return Err(format!("an open file, object {obj}, holds something else"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

pub(super) fn short(path: &[String]) -> String {
    let names = path.iter().map(|name| format!("/{name:.3}"));
    names.collect()
}

/// Reading only.
pub(super) const READ: Access = Access {
    write: false,
    truncate: false,
    sync: false,
};
