//! The owner's work: a tree of objects with all their states, and since when each is durable.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// The number of an object in the model.
pub(super) type Obj = usize;
/// The topmost folder.
pub(super) const TOP: Obj = 0;

pub(super) type Xattrs = BTreeMap<String, Vec<u8>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Symlink,
    Fifo,
}

#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    /// Contents or targets, oldest first, and since when.
    states: Vec<(u64, Rc<Vec<u8>>)>,
    pub(super) xattrs: Xattrs,
    /// All attributes that it ever had.
    ever: BTreeSet<(String, Vec<u8>)>,
    /// All permissions that it had, the newest last.
    modes: Vec<u32>,
    /// What it was called in the model before a crash.
    was: Vec<Obj>,
}

/// Which states of the tree are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// The newest one.
    Now,
    /// All since what was synced.
    Crash,
    /// All that there were: what is promised without a memory.
    Ever,
}

/// Since when what is durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Floors {
    all: u64,
    folders: HashMap<Obj, u64>,
    places: HashMap<(Obj, String), u64>,
    objects: HashMap<Obj, u64>,
}

/// What stands at a place since when.
type History = Vec<(u64, Option<Obj>)>;

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) now: u64,
    objects: Vec<Object>,
    places: BTreeMap<(Obj, String), History>,
    pub(super) floors: Floors,
}

/// An entry of the newest tree.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) parent: Obj,
    pub(super) name: String,
    pub(super) obj: Obj,
    pub(super) path: Vec<String>,
}

impl Model {
    pub(super) fn new() -> Self {
        let mut model = Model {
            now: 1,
            objects: Vec::new(),
            places: BTreeMap::new(),
            floors: Floors::default(),
        };
        model.add(Kind::Folder, Vec::new(), Vec::new());
        model
    }

    pub(super) fn add(&mut self, kind: Kind, state: Vec<u8>, was: Vec<Obj>) -> Obj {
        let mode = match kind {
            Kind::Folder => 0o755,
            Kind::Symlink => 0o777,
            _ => 0o644,
        };
        self.objects.push(Object {
            kind,
            modes: vec![mode],
            states: vec![(self.now, Rc::new(state))],
            xattrs: Xattrs::new(),
            ever: BTreeSet::new(),
            was,
        });
        self.objects.len() - 1
    }

    pub(super) fn object(&self, obj: Obj) -> &Object {
        &self.objects[obj]
    }

    pub(super) fn state(&self, obj: Obj) -> &Rc<Vec<u8>> {
        &self.objects[obj].states.last().expect("it has one").1
    }

    pub(super) fn push_state(&mut self, obj: Obj, state: Vec<u8>) {
        self.objects[obj].states.push((self.now, Rc::new(state)));
    }

    pub(super) fn set_xattr(&mut self, obj: Obj, name: &str, value: Option<Vec<u8>>) {
        let object = &mut self.objects[obj];
        match value {
            Some(value) => {
                object.ever.insert((name.into(), value.clone()));
                object.xattrs.insert(name.into(), value);
            }
            None => drop(object.xattrs.remove(name)),
        }
    }

    pub(super) fn set_mode(&mut self, obj: Obj, mode: u32) {
        self.objects[obj].modes.push(mode);
    }

    /// Whether these may be an object's permissions.
    pub(super) fn may_permit(&self, obj: Obj, mode: u32, window: Window) -> bool {
        match window {
            Window::Now => self.objects[obj].modes.last() == Some(&mode),
            _ => {
                let mut was = self.ancestry(obj).into_iter();
                was.any(|obj| self.objects[obj].modes.contains(&mode))
            }
        }
    }

    /// Attributes are bound to a file, not to a state of it: an old state may have those that were
    /// given to it later, after a crash under another number in the model.
    pub(super) fn had_xattr(&self, obj: Obj, name: &str, value: &[u8], window: Window) -> bool {
        let attribute = (name.to_owned(), value.to_vec());
        let was = self.ancestry(obj);
        let had = |obj: Obj| self.objects[obj].ever.contains(&attribute);
        let became = |later: &Obj| self.ancestry(*later).contains(&obj);
        was.into_iter().any(had)
            || window == Window::Ever && (obj + 1..self.objects.len()).filter(became).any(had)
    }

    /// Attributes of a branch that was given up may come back on its objects.
    pub(super) fn had_xattrs_of(&mut self, other: &Model) {
        for (object, other) in self.objects.iter_mut().zip(&other.objects) {
            object.ever.extend(other.ever.iter().cloned());
        }
    }

    /// An object and all that it was.
    fn ancestry(&self, obj: Obj) -> Vec<Obj> {
        let mut all = vec![obj];
        let mut at = 0;
        while at < all.len() {
            for was in &self.objects[all[at]].was {
                if !all.contains(was) {
                    all.push(*was);
                }
            }
            at += 1;
        }
        all
    }

    pub(super) fn bind(&mut self, parent: Obj, name: &str, obj: Option<Obj>) {
        let history = self.places.entry((parent, name.into())).or_default();
        history.push((self.now, obj));
    }

    pub(super) fn at(&self, parent: Obj, name: &str) -> Option<Obj> {
        let history = self.places.get(&(parent, name.to_owned()))?;
        history.last()?.1
    }

    /// The newest tree.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut found = Vec::new();
        let mut folders = vec![(TOP, Vec::new())];
        while let Some((folder, path)) = folders.pop() {
            for ((_, name), history) in self.range(folder) {
                if let Some(obj) = history.last().expect("it has one").1 {
                    let mut path: Vec<String> = path.clone();
                    path.push(name.clone());
                    if self.objects[obj].kind == Kind::Folder {
                        folders.push((obj, path.clone()));
                    }
                    found.push(Entry {
                        parent: folder,
                        name: name.clone(),
                        obj,
                        path,
                    });
                }
            }
        }
        found
    }

    fn range(&self, folder: Obj) -> impl Iterator<Item = (&(Obj, String), &History)> {
        self.places
            .range((folder, String::new())..(folder + 1, String::new()))
    }

    pub(super) fn is_empty(&self, folder: Obj) -> bool {
        self.range(folder)
            .all(|(_, history)| history.last().expect("it has one").1.is_none())
    }

    pub(super) fn places_of(&self, obj: Obj) -> Vec<(Obj, String)> {
        let entries = self.entries();
        let names = entries.into_iter().filter(|entry| entry.obj == obj);
        names.map(|entry| (entry.parent, entry.name)).collect()
    }

    /// All names that may stand in one of these folders.
    pub(super) fn names(&self, folders: &[Obj], window: Window) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for folder in folders
            .iter()
            .flat_map(|folder| self.related(*folder, window))
        {
            for ((_, name), _) in self.range(folder) {
                names.insert(name.clone());
            }
        }
        names
    }

    fn related(&self, obj: Obj, window: Window) -> Vec<Obj> {
        match window {
            Window::Ever => self.ancestry(obj),
            _ => vec![obj],
        }
    }

    /// What may stand at a place of one of these folders.
    pub(super) fn occupants(
        &self,
        folders: &[Obj],
        name: &str,
        window: Window,
    ) -> Vec<Option<Obj>> {
        let mut found = Vec::new();
        for folder in folders
            .iter()
            .flat_map(|folder| self.related(*folder, window))
        {
            let key = (folder, name.to_owned());
            let Some(history) = self.places.get(&key) else {
                found.push(None);
                continue;
            };
            let floors = &self.floors;
            let floor = match window {
                Window::Now => self.now,
                Window::Ever => 0,
                Window::Crash => [floors.folders.get(&folder), floors.places.get(&key)]
                    .into_iter()
                    .flatten()
                    .fold(floors.all, |floor, at| floor.max(*at)),
            };
            let first = history.iter().rposition(|(at, _)| *at <= floor);
            if first.is_none() {
                found.push(None);
            }
            found.extend(history[first.unwrap_or(0)..].iter().map(|(_, obj)| *obj));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether these bytes may be an object's.
    pub(super) fn may_hold(&self, obj: Obj, bytes: &[u8], window: Window) -> bool {
        self.related(obj, window).into_iter().any(|obj| {
            let states = &self.objects[obj].states;
            let floor = match window {
                Window::Now => self.now,
                Window::Ever => 0,
                Window::Crash => {
                    let synced = self.floors.objects.get(&obj).copied();
                    self.floors.all.max(synced.unwrap_or(0))
                }
            };
            let first = states.iter().rposition(|(at, _)| *at <= floor);
            let mut states = states[first.unwrap_or(0)..].iter();
            states.any(|(_, state)| ***state == *bytes)
        })
    }

    /// A file is durable, and its name, if it has one only. One without a name has nothing that
    /// could be found again.
    pub(super) fn synced(&mut self, obj: Obj) {
        if self.places_of(obj).is_empty() {
            return;
        }
        self.floors.objects.insert(obj, self.now);
        if let [place] = &self.places_of(obj)[..] {
            self.floors.places.insert(place.clone(), self.now);
        }
    }

    /// Whether an object was ever durable; a file that was not may be without a header.
    pub(super) fn was_synced(&self, obj: Obj) -> bool {
        let made = self.objects[obj].states.first().expect("it has one").0;
        made <= self.floors.all || self.floors.objects.contains_key(&obj)
    }

    pub(super) fn synced_folder(&mut self, folder: Obj) {
        self.floors.folders.insert(folder, self.now);
    }

    /// All is durable.
    pub(super) fn synced_all(&mut self) {
        self.floors = Floors {
            all: self.now,
            ..Floors::default()
        };
    }

    /// Forgets the tree, but not what there was: it is made again from what is seen.
    pub(super) fn clear(&mut self) {
        self.now += 1;
        for history in self.places.values_mut() {
            history.push((self.now, None));
        }
    }

    pub(super) fn steps_on(&mut self) {
        self.now += 1;
    }
}
