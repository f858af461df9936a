//! Nodes: what the kernel knows by number, and under which names it stands.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError, Weak};

use crate::core::lock;
use crate::file::content::Content;
use crate::format::header::Owner;
use crate::format::keys::Id;
use crate::format::names::{Place, Sealed};
use crate::fs::{Attributes, FileType, ROOT};
use crate::store::storage::{Inode, Storage};
use crate::tree::folder::Folder;
use crate::tree::places::Allowed;
use crate::vault::MAX_DEPTH;

/// Numbers of nodes whose inode number is taken start here.
const SPARE: u64 = 1 << 62;

/// A file, folder or anything else.
pub(crate) struct Node<S: Storage> {
    pub(crate) number: u64,
    /// What it is in the store: a file, whose header tells whether it stands for a fifo, socket or
    /// device; a folder; a symlink.
    pub(crate) kind: FileType,
    /// Names that are known to lead here.
    names: Mutex<Vec<Name<S>>>,
    references: AtomicU64,
    /// Its inode in the store, which changes when a symlink is rewritten.
    inode: Mutex<Inode>,
    /// Its id, once it was opened.
    id: Mutex<Option<Id>>,
    /// Whether another node was found with the same id.
    contested: AtomicBool,
    /// The open folder, if this is one.
    pub(crate) folder: Mutex<Option<Arc<Folder<S>>>>,
    /// The content, if this is a regular file in use.
    pub(crate) content: Mutex<Weak<Content<S>>>,
    /// Its owner and permissions, as last read from its header or record.
    owner: Mutex<Option<Owner>>,
    /// Whether the last name is gone.
    pub(crate) dead: AtomicBool,
    /// The attributes that it had in the store then, except its link count.
    pub(crate) last: OnceLock<Attributes>,
}

/// A name of a node.
pub(crate) struct Name<S: Storage> {
    pub(crate) parent: Arc<Node<S>>,
    pub(crate) stored: OsString,
    pub(crate) place: Place,
    /// Whether the memory was asked if this may stand there.
    judged: bool,
}

impl<S: Storage> Clone for Name<S> {
    fn clone(&self) -> Self {
        Name {
            parent: Arc::clone(&self.parent),
            stored: self.stored.clone(),
            place: self.place,
            judged: self.judged,
        }
    }
}

impl<S: Storage> Node<S> {
    fn new(number: u64, inode: Inode, kind: FileType) -> Arc<Self> {
        Arc::new(Node {
            number,
            kind,
            names: Mutex::new(Vec::new()),
            references: AtomicU64::new(0),
            inode: Mutex::new(inode),
            id: Mutex::new(None),
            contested: AtomicBool::new(false),
            folder: Mutex::new(None),
            content: Mutex::new(Weak::new()),
            owner: Mutex::new(None),
            dead: AtomicBool::new(false),
            last: OnceLock::new(),
        })
    }

    /// What it is in the store.
    pub(crate) fn inode(&self) -> Inode {
        *lock(&self.inode)
    }

    /// Its owner and permissions, as last read from its header or record.
    pub(crate) fn owner(&self) -> Option<Owner> {
        *lock(&self.owner)
    }

    pub(crate) fn set_owner(&self, owner: Owner) {
        *lock(&self.owner) = Some(owner);
    }

    /// A name that leads here, if one is known.
    pub(crate) fn name(&self) -> Option<Name<S>> {
        lock(&self.names).last().cloned()
    }

    /// Where it stands in the store, as far as names are known.
    pub(crate) fn stored_path(&self) -> PathBuf {
        let mut names = Vec::new();
        let mut next = self.name();
        while let Some(name) = next.filter(|_| names.len() <= MAX_DEPTH) {
            names.push(name.stored);
            next = name.parent.name();
        }
        names.iter().rev().collect()
    }

    /// All names that are known to lead here.
    pub(crate) fn names(&self) -> Vec<Name<S>> {
        lock(&self.names).clone()
    }

    /// Whether all names that are known to lead here are allowed, also together.
    pub(crate) fn stands_only_at(&self, allowed: Allowed<'_>) -> bool {
        let names = lock(&self.names);
        let fits = |name: &Name<S>| {
            allowed.places.contains(&name.place) && !allowed.left.contains(&name.place)
        };
        let stands = |place: &Place| names.iter().any(|name| name.place == *place);
        names.iter().all(fits) && !allowed.is_at_both(stands)
    }

    pub(crate) fn add_name(&self, parent: &Arc<Node<S>>, stored: &OsStr, place: Place) {
        let mut names = lock(&self.names);
        if !names.iter().any(|name| name.place == place) {
            names.push(Name {
                parent: Arc::clone(parent),
                stored: stored.to_owned(),
                place,
                judged: false,
            });
        }
    }

    /// Names of which the memory was not asked yet.
    pub(crate) fn unjudged_names(&self) -> Vec<Name<S>> {
        let names = lock(&self.names);
        names.iter().filter(|name| !name.judged).cloned().collect()
    }

    pub(crate) fn set_judged(&self, place: &Place) {
        let mut names = lock(&self.names);
        let name = names.iter_mut().find(|name| name.place == *place);
        name.into_iter().for_each(|name| name.judged = true);
    }

    pub(crate) fn remove_name(&self, place: &Place) {
        lock(&self.names).retain(|name| name.place != *place);
    }

    /// The content, if it is in use.
    pub(crate) fn content_in_use(&self) -> Option<Arc<Content<S>>> {
        lock(&self.content).upgrade()
    }

    /// Whether another node was found with the same id, and may still be there.
    pub(crate) fn is_contested(&self) -> bool {
        self.contested.load(Ordering::Relaxed)
    }

    /// Whether the content is in use, or about to be.
    pub(crate) fn is_in_use(&self) -> bool {
        match self.content.try_lock() {
            Ok(content) => content.strong_count() > 0,
            Err(TryLockError::Poisoned(content)) => content.into_inner().strong_count() > 0,
            // Held while the content is opened. Waiting could last forever: the thread that opens
            // it may want the table.
            Err(TryLockError::WouldBlock) => true,
        }
    }
}

/// Parents that only this node holds are dropped in a loop: recursion along a deep path could
/// overflow the stack.
impl<S: Storage> Drop for Node<S> {
    fn drop(&mut self) {
        let mut names = std::mem::take(&mut *lock(&self.names));
        while let Some(name) = names.pop() {
            if let Some(parent) = Arc::into_inner(name.parent) {
                names.append(&mut lock(&parent.names));
            }
        }
    }
}

/// All nodes that are known.
pub(crate) struct Table<S: Storage> {
    maps: Mutex<Maps<S>>,
}

struct Maps<S: Storage> {
    nodes: HashMap<u64, Arc<Node<S>>>,
    /// From inode numbers in the store to living nodes.
    inodes: HashMap<Inode, u64>,
    /// From ids of files and folders to the nodes that have them: one each, unless there is a copy
    /// in the store.
    ids: HashMap<Id, Vec<u64>>,
    /// Nodes that were without references when their content was in use.
    idle: HashSet<u64>,
    spare: u64,
}

impl<S: Storage> Maps<S> {
    /// Makes a node, and maps its inode number to it.
    fn add(&mut self, found: &Attributes) -> Arc<Node<S>> {
        let taken = found.node == ROOT
            || found.node == 0
            || found.node >= SPARE
            || self.nodes.contains_key(&found.node);
        let number = if taken {
            self.spare += 1;
            self.spare
        } else {
            found.node
        };
        let kind = FileType::from_raw_mode(found.mode);
        let node = Node::new(number, found.inode(), kind);
        self.nodes.insert(number, Arc::clone(&node));
        self.inodes.insert(found.inode(), number);
        node
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Node<S>>> {
        let node = self.nodes.remove(&number)?;
        self.unmap(&node);
        self.unclaim(&node);
        Some(node)
    }

    /// Parts a node from its id.
    fn unclaim(&mut self, node: &Node<S>) {
        let Some(id) = lock(&node.id).take() else {
            return;
        };
        if let Entry::Occupied(mut claims) = self.ids.entry(id) {
            claims.get_mut().retain(|number| *number != node.number);
            if claims.get().is_empty() {
                claims.remove();
            }
        }
    }

    /// Unmaps a node's inode number, unless it is another's already: the store reuses a number as
    /// soon as it is free.
    fn unmap(&mut self, node: &Node<S>) {
        let inode = node.inode();
        if self.inodes.get(&inode) == Some(&node.number) {
            self.inodes.remove(&inode);
        }
    }
}

impl<S: Storage> Table<S> {
    pub(crate) fn new(root_inode: Inode) -> Self {
        let root = Node::new(ROOT, root_inode, FileType::Directory);
        root.references.store(1, Ordering::Relaxed);
        Table {
            maps: Mutex::new(Maps {
                nodes: HashMap::from([(ROOT, root)]),
                inodes: HashMap::from([(root_inode, ROOT)]),
                ids: HashMap::new(),
                idle: HashSet::new(),
                spare: SPARE,
            }),
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<Node<S>>> {
        lock(&self.maps).nodes.get(&number).cloned()
    }

    /// The number that the node of this inode has, or would probably get.
    pub(crate) fn number_of(&self, inode: Inode) -> u64 {
        lock(&self.maps)
            .inodes
            .get(&inode)
            .copied()
            .unwrap_or(inode.number)
    }

    /// The node of what was found under a name, with one more reference.
    pub(crate) fn enter(
        &self,
        parent: &Arc<Node<S>>,
        name: &Sealed,
        found: &Attributes,
    ) -> Arc<Node<S>> {
        let kind = FileType::from_raw_mode(found.mode);
        let mut maps = lock(&self.maps);
        let known = maps
            .inodes
            .get(&found.inode())
            .and_then(|n| maps.nodes.get(n));
        let node = match known {
            Some(node) if node.kind == kind => Arc::clone(node),
            _ => maps.add(found),
        };
        if node.references.fetch_add(1, Ordering::Relaxed) == 0 {
            // Of names from before, folders may have been renamed since.
            lock(&node.names).clear();
        }
        node.add_name(parent, &name.stored, name.place);
        node
    }

    /// The node of what was just made under a name, with a reference, and the content if it is a
    /// regular file. A node that is known by this inode number is that of something removed.
    pub(crate) fn enter_new(
        &self,
        parent: &Arc<Node<S>>,
        name: &Sealed,
        made: &Attributes,
        content: Weak<Content<S>>,
    ) -> Arc<Node<S>> {
        let node = {
            let mut maps = lock(&self.maps);
            let node = maps.add(made);
            *lock(&node.content) = content;
            node.references.store(1, Ordering::Relaxed);
            node
        };
        node.add_name(parent, &name.stored, name.place);
        node
    }

    /// Takes references back; a node without any is forgotten. One whose content is in use is kept
    /// until [`sweep`](Self::sweep): what is not committed yet hangs on it, and opening the file
    /// under another node would bring back what is in the store.
    pub(crate) fn forget(&self, number: u64, count: u64) -> Option<Arc<Node<S>>> {
        if number == ROOT {
            return None;
        }
        let mut maps = lock(&self.maps);
        let node = maps.nodes.get(&number)?;
        let before = node.references.load(Ordering::Relaxed);
        let left = before.saturating_sub(count);
        node.references.store(left, Ordering::Relaxed);
        if left > 0 {
            return None;
        }
        if node.is_in_use() {
            maps.idle.insert(number);
            return None;
        }
        maps.remove(number)
    }

    /// Forgets nodes without references whose content is no longer in use.
    pub(crate) fn sweep(&self) {
        let mut maps = lock(&self.maps);
        let mut gone = Vec::new();
        for number in std::mem::take(&mut maps.idle) {
            let Some(node) = maps.nodes.get(&number) else {
                continue;
            };
            if node.references.load(Ordering::Relaxed) > 0 {
                continue;
            }
            if node.is_in_use() {
                maps.idle.insert(number);
            } else {
                gone.push(maps.remove(number));
            }
        }
        // Dropping nodes closes folders: not under the lock.
        drop(maps);
    }

    /// The last name of a node is gone: its inode number may be another's any time.
    pub(crate) fn bury(&self, node: &Node<S>) {
        node.dead.store(true, Ordering::Relaxed);
        lock(&self.maps).unmap(node);
    }

    /// Notes the id of a node that was opened. If another node has it, both are contested.
    pub(crate) fn claim(&self, node: &Node<S>, id: &Id) {
        let mut maps = lock(&self.maps);
        if *lock(&node.id) == Some(*id) || !maps.nodes.contains_key(&node.number) {
            return;
        }
        maps.unclaim(node);
        *lock(&node.id) = Some(*id);
        let claims = maps.ids.entry(*id).or_default();
        claims.push(node.number);
        if claims.len() > 1 {
            let claims = claims.clone();
            for node in claims.iter().filter_map(|number| maps.nodes.get(number)) {
                node.contested.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The other nodes with a node's id.
    pub(crate) fn rivals(&self, node: &Node<S>) -> Vec<Arc<Node<S>>> {
        let maps = lock(&self.maps);
        let claims = lock(&node.id).and_then(|id| maps.ids.get(&id));
        let others = claims.into_iter().flatten();
        others
            .filter(|number| **number != node.number)
            .filter_map(|number| maps.nodes.get(number).cloned())
            .collect()
    }

    /// The objects of some nodes are gone from the store; then no other node has this one's id.
    pub(crate) fn give_up_claims(&self, node: &Node<S>, gone: &[Arc<Node<S>>]) {
        let mut maps = lock(&self.maps);
        for node in gone {
            maps.unclaim(node);
        }
        let claims = lock(&node.id).and_then(|id| maps.ids.get(&id));
        let alone = claims.is_none_or(|claims| claims.len() < 2);
        node.contested.store(!alone, Ordering::Relaxed);
    }

    /// A node has another inode from now on: a symlink was rewritten.
    pub(crate) fn replace_inode(&self, node: &Node<S>, new: Inode) {
        let mut maps = lock(&self.maps);
        maps.unmap(node);
        *lock(&node.inode) = new;
        maps.inodes.insert(new, node.number);
    }

    /// Closes folders that are kept open only to save time.
    pub(crate) fn close_folders(&self) {
        let nodes: Vec<_> = lock(&self.maps).nodes.values().cloned().collect();
        for node in nodes
            .iter()
            .filter(|node| node.number != ROOT && !node.dead.load(Ordering::Relaxed))
        {
            *lock(&node.folder) = None;
        }
    }
}
