//! Judges what a vault shows and says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use rustix::io::Errno;
use warplock_vault::fs::{FileSystem, ROOT};
use warplock_vault::{CheckOptions, Class, Finding, Vault, check};

use super::model::{Kind, Model, Obj, TOP, Window, Xattrs};
use super::work::{READ, long_name, short};
use crate::common::Told;
use crate::common::mem::Mem;

/// What stands under a name.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Seen {
    Missing,
    Fails(Errno),
    Thing(Thing),
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Missing => write!(f, "nothing"),
            Seen::Fails(errno) => write!(f, "{errno}"),
            Seen::Thing(it) => write!(
                f,
                "{:?} {} {:o} of {} bytes, {:.2?}.., attributes {:?}",
                it.kind,
                it.node,
                it.mode,
                it.bytes.len(),
                it.bytes.get(..4),
                it.xattrs
            ),
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Thing {
    node: u64,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) xattrs: Result<Xattrs, Errno>,
}

impl Thing {
    pub(super) fn node(&self) -> u64 {
        self.node
    }
}

/// A name that was looked at.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) path: Vec<String>,
    /// The folders that may be the one it is in.
    pub(super) parents: Vec<Obj>,
    listed: bool,
    pub(super) seen: Seen,
}

/// All that was seen and said.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) items: Vec<Item>,
    /// Why the vault could not be opened.
    pub(super) refused: Option<String>,
    pub(super) told: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

impl View {
    /// Looks at all of a vault.
    pub(super) fn walk(&mut self, vault: &Vault<Mem>, model: &Model, window: Window) {
        self.walk_folder(vault, model, window, ROOT, &[TOP], &[]);
    }

    fn walk_folder(
        &mut self,
        vault: &Vault<Mem>,
        model: &Model,
        window: Window,
        node: u64,
        folders: &[Obj],
        path: &[String],
    ) {
        let mut listed = BTreeSet::new();
        let dir = vault.open_dir(node);
        let list = dir.and_then(|dir| {
            vault.list(&dir, 0, &mut |entry| {
                if entry.name != "." && entry.name != ".." {
                    listed.insert(entry.name.to_string_lossy().into_owned());
                }
                true
            })
        });
        if let Err(errno) = list {
            // If a folder is refused, so is everything in it.
            let item = self.items.iter_mut().rfind(|item| item.path == path);
            item.into_iter()
                .for_each(|item| item.seen = Seen::Fails(errno));
            return;
        }
        let names = model.names(folders, window);
        for name in names.union(&listed) {
            let path = [path, std::slice::from_ref(name)].concat();
            let found = vault.lookup(node, OsStr::new(name));
            let (seen, below) = match found {
                Err(Errno::NOENT) => (Seen::Missing, None),
                Err(errno) => (Seen::Fails(errno), None),
                Ok(found) => match look(vault, found.node, found.mode) {
                    Ok(thing) => {
                        let below = (thing.kind == Kind::Folder).then_some(found.node);
                        (Seen::Thing(thing), below)
                    }
                    Err(errno) => (Seen::Fails(errno), None),
                },
            };
            self.items.push(Item {
                path: path.clone(),
                parents: folders.to_vec(),
                listed: listed.contains(name),
                seen,
            });
            if let Some(node) = below {
                let mut inner = model.occupants(folders, name, window);
                inner.retain(|obj| obj.is_some_and(|o| model.object(o).kind == Kind::Folder));
                let inner: Vec<_> = inner.into_iter().flatten().collect();
                self.walk_folder(vault, model, window, node, &inner, &path);
            }
        }
    }

    pub(super) fn check(&mut self, vault: &Vault<Mem>, repair: bool) {
        let options = CheckOptions {
            quick: false,
            repair,
        };
        match check(vault, options, &mut |_| {}) {
            Ok(report) => self.findings.extend(report.findings),
            Err(error) => self.told.push(error.to_string()),
        }
    }

    /// All of it, for debugging.
    pub(super) fn describe(&self) -> Vec<String> {
        let mut lines: Vec<_> = self
            .told
            .iter()
            .map(|told| format!("told: {told}"))
            .collect();
        lines.extend(self.refused.iter().map(|why| format!("refused: {why}")));
        for item in &self.items {
            let listed = if item.listed { "listed, " } else { "" };
            lines.push(format!("{}: {listed}{:?}", short(&item.path), item.seen));
        }
        for it in &self.findings {
            let path = it.path.display();
            lines.push(format!(
                "{path:.40}: {:?}: {}; {}",
                it.class, it.problem, it.action
            ));
        }
        lines
    }

    pub(super) fn hear(&mut self, told: &Told) {
        self.told.append(&mut told.lock().unwrap());
    }

    /// Whether all could be looked at.
    pub(super) fn is_readable(&self) -> bool {
        let fails = |item: &Item| matches!(item.seen, Seen::Fails(_));
        self.refused.is_none() && !self.items.iter().any(fails)
    }

    /// Whether nothing was said that honest work would not cause.
    pub(super) fn is_silent(&self) -> bool {
        let fails = |item: &Item| match &item.seen {
            Seen::Fails(_) => true,
            Seen::Thing(thing) => thing.xattrs.is_err(),
            Seen::Missing => false,
        };
        let finding = |it: &Finding| it.class != Class::Note;
        self.refused.is_none()
            && self.told.is_empty()
            && !self.items.iter().any(fails)
            && !self.findings.iter().any(finding)
    }

    /// Whether what was served is right.
    pub(super) fn judge(&self, model: &Model, ask: &Ask) -> Result<(), String> {
        let silent = self.is_silent();
        for item in &self.items {
            let name = item.path.last().expect("it has one");
            let allowed = model.occupants(&item.parents, name, ask.window);
            let is_durable = |allowed: &[Option<Obj>]| {
                let durable = |it: &Option<Obj>| it.is_some_and(|it| model.was_synced(it));
                allowed.iter().all(durable)
            };
            let wrong = |why: &str| Err(format!("{}: {why}", short(&item.path)));
            match &item.seen {
                Seen::Missing if allowed.contains(&None) || ask.may_miss => {
                    if item.listed && silent {
                        return wrong("listed, but not found");
                    }
                }
                Seen::Missing if self.is_missed(&item.path) => {}
                Seen::Missing => return wrong("it is missing, and nothing says so"),
                Seen::Fails(_) if ask.honest && is_durable(&allowed) => {
                    return wrong("it cannot be read, and it was not attacked");
                }
                Seen::Fails(_) => {}
                Seen::Thing(thing) => {
                    if !item.listed && silent {
                        return wrong("found, but not listed");
                    }
                    let mut objects = allowed.into_iter().flatten();
                    let right = |obj: Obj| {
                        model.object(obj).kind == thing.kind
                            && model.may_hold(obj, &thing.bytes, ask.window)
                            && model.may_permit(obj, thing.mode, ask.window)
                            && has_right_xattrs(model, obj, thing, ask, silent)
                    };
                    if !objects.any(right) {
                        return wrong("something is shown that its owner never put there");
                    }
                }
            }
        }
        if silent && ask.window == Window::Now {
            self.judge_links(model)?;
        }
        if ask.honest {
            let altered = self.findings.iter().find(|it| it.class == Class::Altered);
            if let Some(finding) = altered {
                return Err(format!("nothing was altered: {finding:?}"));
            }
            if let Some(refused) = &self.refused {
                return Err(format!("nothing was altered: {refused}"));
            }
            if ask.window == Window::Now && !silent {
                return Err("nothing was done, and something is said".into());
            }
        }
        Ok(())
    }

    /// Whether a crash is said to have taken something away.
    fn is_missed(&self, path: &[String]) -> bool {
        let long = path.contains(&long_name());
        let path: PathBuf = path.iter().fold("/".into(), |path, name| path.join(name));
        let shown = path.to_string_lossy();
        // Of a long name, the file that tells it may be missing, too.
        let missing = |text: &str| {
            text.contains("is missing")
                && (text.contains(&*shown) || long && text.contains(".long"))
        };
        let found = |it: &Finding| it.path == path || missing(&it.problem);
        let told = |text: &String| missing(text);
        self.findings.iter().any(found) || self.told.iter().any(told)
    }

    /// Names of one file lead to one file.
    fn judge_links(&self, model: &Model) -> Result<(), String> {
        for entry in model.entries() {
            for other in model.entries() {
                let node = |path: &[String]| {
                    let item = self.items.iter().find(|item| item.path == path);
                    match item.map(|item| &item.seen) {
                        Some(Seen::Thing(thing)) => Some(thing.node),
                        _ => None,
                    }
                };
                let (one, two) = (node(&entry.path), node(&other.path));
                if (entry.obj == other.obj) != (one == two) {
                    return Err(format!(
                        "{} and {}: one file is two, or two are one",
                        short(&entry.path),
                        short(&other.path)
                    ));
                }
            }
        }
        Ok(())
    }

    /// What could be read before still can.
    pub(super) fn keeps(&self, after: &View) -> Result<(), String> {
        for item in &self.items {
            let Seen::Thing(thing) = &item.seen else {
                continue;
            };
            // One that is not listed, or in a folder that is not, has lost its name already.
            let above = |it: &&Item| item.path.starts_with(&it.path);
            let listed = self.items.iter().filter(above).all(|it| it.listed);
            if thing.kind != Kind::File || !listed {
                continue;
            }
            let later = after.items.iter().find(|it| it.path == item.path);
            // Of a file and its copy, or an old version, one stays.
            let altered = |it: &Finding| {
                it.problem.contains("is a copy") || it.problem.contains("it is an old version")
            };
            let copied = after.findings.iter().any(altered);
            // Of two names of one rename, that which is used first stays; where the other cannot be
            // taken away, the file is refused under both.
            let renamed = |it: &Finding| it.problem.contains("taken from it by a rename");
            let stands = |it: &Item| match &it.seen {
                Seen::Thing(it) => it.node == thing.node && it.bytes == thing.bytes,
                _ => false,
            };
            let stays = |it: &Finding| renamed(it) && it.action.contains("could not be taken away");
            let is_refused = later.is_some_and(|it| matches!(it.seen, Seen::Fails(_)));
            let refused = is_refused && after.findings.iter().any(stays);
            let mut findings = self.findings.iter().chain(&after.findings);
            let renamed = findings.any(renamed) && after.items.iter().any(stands);
            match later.map(|it| &it.seen) {
                Some(Seen::Thing(kept)) if kept.bytes == thing.bytes => {}
                _ if copied || renamed || refused => {}
                other => {
                    return Err(format!(
                        "{}: a repair lost it: {other:?}",
                        short(&item.path)
                    ));
                }
            }
        }
        Ok(())
    }
}

/// What is asked of what was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) window: Window,
    /// Whether things may be missing without a word: there is no memory.
    pub(super) may_miss: bool,
    /// Whether attributes must be right although nothing is said.
    pub(super) xattrs: bool,
    /// Whether the store was never attacked.
    pub(super) honest: bool,
}

fn has_right_xattrs(model: &Model, obj: Obj, thing: &Thing, ask: &Ask, silent: bool) -> bool {
    let Ok(found) = &thing.xattrs else {
        return true;
    };
    let right = &model.object(obj).xattrs;
    match ask.xattrs && silent {
        true => found == right,
        false => found
            .iter()
            .all(|(name, value)| model.had_xattr(obj, name, value, ask.window)),
    }
}

fn look(vault: &Vault<Mem>, node: u64, mode: u32) -> Result<Thing, Errno> {
    let mut opened = None;
    let (kind, bytes) = match mode & 0o170_000 {
        0o040_000 => {
            vault.open_dir(node)?;
            (Kind::Folder, Vec::new())
        }
        0o120_000 => (Kind::Symlink, vault.readlink(node)?),
        0o100_000 => {
            let file = vault.open(node, READ)?;
            let len = vault.attributes(node, Some(&file))?.size;
            let mut bytes = vec![0; len as usize + 1];
            let count = vault.read(&file, 0, &mut bytes)?;
            bytes.truncate(count);
            if count as u64 != len {
                return Err(Errno::OVERFLOW);
            }
            opened = Some(file);
            (Kind::File, bytes)
        }
        _ => (Kind::Fifo, Vec::new()),
    };
    let mode = vault.attributes(node, opened.as_ref())?.mode & 0o7777;
    let xattrs = match kind {
        Kind::File | Kind::Folder => xattrs(vault, node),
        _ => Ok(Xattrs::new()),
    };
    Ok(Thing {
        node,
        kind,
        mode,
        bytes,
        xattrs,
    })
}

fn xattrs(vault: &Vault<Mem>, node: u64) -> Result<Xattrs, Errno> {
    let mut found = Xattrs::new();
    let names = vault.list_xattrs(node)?;
    for name in names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = String::from_utf8_lossy(name).into_owned();
        let value = vault.get_xattr(node, OsStr::new(&name))?;
        found.insert(name, value);
    }
    Ok(found)
}
