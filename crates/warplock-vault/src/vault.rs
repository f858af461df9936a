//! An open vault: from nodes and names to ciphertext and back.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use warplock::Engine;
use warplock_keyring::MasterKey;

use crate::config::Config;
use crate::content::Content;
use crate::core::{Core, Hearers, JOURNALS, Trouble, is_missing, journal_id, lock, open_own_dir};
use crate::descriptors::{Budget, is_exhausted};
use crate::error::{Error, Result, Subject};
use crate::folder::{Folder, Record};
use crate::fs::{Attributes, FileType, ROOT};
use crate::header::Owner;
use crate::keys::VaultKeys;
use crate::layout::Layout;
use crate::listings::Listings;
use crate::names::{self, Place, ROOT_PLACE, Sealed};
use crate::node::{Name, Node, Table};
use crate::owners::Ids;
use crate::places::{Allowed, Places};
use crate::pool::Pool;
use crate::posix::Posix;
use crate::remember::open_memory;
use crate::storage::{At, Storage, cannot_change};
use crate::store_lock::{Lock, lock_store};
use crate::uncommitted::{Gate, Uncommitted};

const UNCLEAN: &str = "the vault was not closed properly the last time; what was synced is \
     there, and `warplock vault check --repair` tidies up";
const UNCLEAN_READ_ONLY: &str = "the vault was not closed properly the last time; what was synced \
     is shown, and journals stay as they are while it is open for reading only: `warplock vault \
     check --repair`, which must be able to write to the store, tidies up";
const STORE_READ_ONLY: &str = "the vault is open for reading only, because its store is on a \
     read-only file system; to change files, make that writable and mount the vault again";

const NO_LOCKS: &str = "the store's file system has no locks, so a second mount of the vault is not \
     noticed; see to it that there is none";
/// Folders in each other: more are refused. Also where the store is changed so that two lie in each
/// other, a search upwards ends.
pub(crate) const MAX_DEPTH: usize = 100_000;
/// Bytes of a path that a sentence shows, about.
const MAX_SHOWN: usize = 2000;

/// How a vault is to be opened.
#[derive(Clone, Default)]
pub struct Options {
    /// Where contents are encrypted; without it, an engine with default settings.
    pub engine: Option<Arc<Engine>>,
    /// Nothing in the store is to be changed.
    pub read_only: bool,
    /// The folder of this machine's memories of vaults: what is old, missing or another's is
    /// noticed with it. See [`default_memory_dir`](crate::default_memory_dir).
    pub memory: Option<PathBuf>,
    /// The id that the vault must have, in hexadecimal.
    pub id: Option<String>,
    /// Takes a vault that the memory speaks against as it is; see [`accept`](crate::accept()).
    pub accept: bool,
    /// Hears in sentences what a person should know: which file was altered, and what to do.
    pub trouble: Option<Arc<Trouble>>,
    /// Hears the same with the names of entries as they are in the store: for logs that others may
    /// read.
    pub log: Option<Arc<Trouble>>,
}

/// An open vault. It is a [`FileSystem`](crate::fs::FileSystem); call [`tick`](Self::tick) every
/// few seconds, and [`unmounted`](crate::fs::FileSystem::unmounted) at the end.
pub struct Vault<S: Storage> {
    pub(crate) core: Core<S>,
    pub(crate) nodes: Table<S>,
    pub(crate) uncommitted: Uncommitted<S>,
    pub(crate) gate: Gate,
    /// Held while names change.
    pub(crate) naming: Mutex<()>,
    pub(crate) budget: Budget,
    pub(crate) listings: Listings<S>,
    pub(crate) ids: Ids,
    open_folders: AtomicUsize,
}

impl Vault<Posix> {
    /// Opens the vault whose store is the folder `path`.
    ///
    /// One process at a time can have a vault open for writing, and none then for reading. Where
    /// the store's file system is read-only, the vault is open for reading only.
    ///
    /// # Errors
    /// [`Error::Locked`]; [`Error::Config`] if this is no vault; [`Error::Altered`] if the key or
    /// `warplock.vault` is another vault's.
    pub fn open(path: &Path, master: &MasterKey, options: Options) -> Result<Self> {
        let (store, lock, write) = locked_store(path, options.read_only)?;
        if let Some(lock) = lock.as_ref().filter(|_| write) {
            lock.note_open();
        }
        let store = store.granting(write).holding(lock);
        let store = if write { store.probed() } else { store };
        // By which the memory tells it from others.
        let path = path.canonicalize().map_err(|source| Error::Store {
            what: "cannot open the store".into(),
            source,
        })?;
        let vault = Self::open_at(store, master, options, Some(&path))?;
        if let Some(sentence) = vault.core.storage.lacks.sentence() {
            vault.core.tell(&sentence);
        }
        if vault.core.storage.lock().is_some_and(|lock| !lock.works) {
            vault.core.tell(NO_LOCKS);
        }
        Ok(vault)
    }

    /// Checks that no other process has the vault open, so that this can be refused before the
    /// prompt for a passphrase.
    ///
    /// # Errors
    /// [`Error::Locked`].
    pub fn check_unused(path: &Path, read_only: bool) -> Result<()> {
        locked_store(path, read_only).map(drop)
    }
}

/// The store, its lock, and whether it is to be written to.
fn locked_store(path: &Path, read_only: bool) -> Result<(Posix, Option<Lock>, bool)> {
    let store = Posix::new(path).map_err(|source| Error::Store {
        what: "cannot open the store".into(),
        source,
    })?;
    let write = !read_only && !cannot_change(&store)?;
    let lock = lock_store(&store, path, write)?;
    Ok((store, lock, write))
}

impl<S: Storage> Vault<S> {
    /// Opens the vault in any store, which the caller has to himself.
    ///
    /// # Errors
    /// As [`Vault::open`].
    pub fn open_on(storage: S, master: &MasterKey, options: Options) -> Result<Self> {
        Self::open_at(storage, master, options, None)
    }

    fn open_at(
        storage: S,
        master: &MasterKey,
        options: Options,
        path: Option<&Path>,
    ) -> Result<Self> {
        let root = storage.root()?;
        let config = Config::read(&storage, &root)?;
        config.verify(master)?;
        let engine = match &options.engine {
            Some(engine) => Arc::clone(engine),
            None => Arc::new(Engine::new()?),
        };
        let keys = VaultKeys::new(master, config.algorithm, engine)?;
        let name = OsStr::new(JOURNALS);
        let found = open_own_dir(&storage, &root, JOURNALS)?;
        let unclean = found.is_some();
        let mut left_over = HashSet::new();
        if let Some(found) = &found {
            let listed = storage.list(found)?;
            left_over.extend(listed.iter().filter_map(|entry| journal_id(&entry.name)));
        }
        let barred = cannot_change(&storage)?;
        let read_only = options.read_only || barred;
        let hearers = Hearers {
            trouble: options.trouble.clone(),
            log: options.log.clone(),
        };
        let tell = |text: &str| hearers.tell(text, || text.to_owned());
        if barred && !options.read_only {
            tell(STORE_READ_ONLY);
        }
        if unclean {
            tell(match read_only {
                true => UNCLEAN_READ_ONLY,
                false => UNCLEAN,
            });
        }
        let memory = open_memory(&storage, &config, &keys, &options, read_only, path)?;
        let journals = match found {
            None if !read_only => {
                storage.make_dir(&root, name, 0o700)?;
                storage.sync_dir(&root)?;
                Some(storage.open_dir(&root, name)?)
            }
            found => found,
        };
        let core = Core {
            keys,
            memory,
            layout: Layout::new(config.block_size as usize),
            pool: Pool::default(),
            held_pages: Arc::default(),
            newest_second: AtomicU64::new(0),
            read_only,
            journals,
            left_over: Mutex::new(left_over),
            unclean: AtomicBool::new(unclean),
            hearers,
            storage,
        };
        let record = core.read_folder_record(&root, || "the topmost folder".into())?;
        if !record.places.contains(&ROOT_PLACE) {
            return Err(Error::altered(
                "the topmost folder",
                "another folder's record stands in its place; restore it from a backup",
            ));
        }
        core.memory.accept(options.accept);
        core.expect_root(&record)?;
        core.memory.accept(false);
        let found = core.storage.attributes(At::Dir(&root))?;
        let inode = found.inode();
        let vault = Vault {
            core,
            nodes: Table::new(inode),
            uncommitted: Uncommitted::default(),
            gate: Gate::default(),
            naming: Mutex::new(()),
            budget: Budget::new(),
            listings: Listings::default(),
            ids: Ids::new(&record.owner, &found),
            open_folders: AtomicUsize::new(0),
        };
        let top = vault.node(ROOT)?;
        *lock(&top.folder) = Some(Arc::new(Folder::new(root, inode, record)));
        Ok(vault)
    }

    /// Whether nothing in it can be changed: because that was wanted, or because the store's file
    /// system is read-only.
    pub fn is_read_only(&self) -> bool {
        self.core.read_only
    }

    /// The node with this number.
    pub(crate) fn node(&self, number: u64) -> Result<Arc<Node<S>>> {
        self.nodes.get(number).ok_or(Errno::STALE.into())
    }

    /// The open folder of a node, if all names that lead there were given to it.
    pub(crate) fn folder(&self, node: &Arc<Node<S>>) -> Result<Arc<Folder<S>>> {
        if node.kind != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        // Up to a folder that is open, then down again: trees are deeper than stacks.
        let mut closed = Vec::new();
        let mut next = Arc::clone(node);
        let mut folder = loop {
            let open = lock(&next.folder).clone();
            if let Some(folder) = open {
                self.check_names(&next, |check| check(folder.record().places.allowed()))?;
                self.check_alone(&next)?;
                break folder;
            }
            let name = next.name().ok_or(Errno::NOENT)?;
            let parent = Arc::clone(&name.parent);
            if closed.len() > MAX_DEPTH {
                return Err(Errno::LOOP.into());
            }
            closed.push((std::mem::replace(&mut next, parent), name));
        };
        while let Some((node, name)) = closed.pop() {
            folder = self.open_folder(&node, &folder, &name)?;
        }
        Ok(folder)
    }

    /// Opens the folder of a node under a name that leads there.
    fn open_folder(
        &self,
        node: &Arc<Node<S>>,
        parent: &Folder<S>,
        name: &Name<S>,
    ) -> Result<Arc<Folder<S>>> {
        let storage = &self.core.storage;
        let dir = match storage.open_dir(parent.dir(), &name.stored) {
            Ok(dir) if storage.attributes(At::Dir(&dir))?.inode() == node.inode() => dir,
            other => return Err(self.stale(node, name, other.err())),
        };
        let record = self.core.read_folder_record(&dir, || self.path_of(node))?;
        let folder = Arc::new(Folder::new(dir, node.inode(), record));
        self.check_names(node, |check| check(folder.record().places.allowed()))?;
        let what = || self.path_of(node);
        self.expect_folder(parent, name, &folder.record(), &what)?;
        self.nodes.claim(node, &folder.id);
        self.check_alone(node)?;
        if self.open_folders.fetch_add(1, Ordering::Relaxed) > self.budget.folders {
            self.close_folders();
        }
        *lock(&node.folder) = Some(Arc::clone(&folder));
        Ok(folder)
    }

    /// What to say of a node that does not stand under one of its names any more: the store was
    /// changed below. Whoever asks again by a path finds what stands there now.
    pub(crate) fn stale(
        &self,
        node: &Node<S>,
        name: &Name<S>,
        error: Option<std::io::Error>,
    ) -> Error {
        match error {
            Some(error) if !is_missing(&error) => error.into(),
            _ => {
                node.remove_name(&name.place);
                Errno::STALE.into()
            }
        }
    }

    /// Closes folders that are open only to save time.
    pub(crate) fn close_folders(&self) {
        self.open_folders.store(0, Ordering::Relaxed);
        self.nodes.close_folders();
    }

    /// Changes a folder's record, durably.
    pub(crate) fn change_folder(
        &self,
        folder: &Folder<S>,
        change: impl FnOnce(&mut Record),
    ) -> Result<()> {
        let core = &self.core;
        let mut now = folder.record_mut();
        let mut record = now.clone();
        change(&mut record);
        record.version = core.memory.successor(&record.id, &record.version)?;
        let former = now.version.stamp;
        let written = core.write_folder_record(folder.dir(), &record);
        written
            .and_then(|()| core.note_folder(former, &record))
            .inspect_err(|_| core.memory.given_up(&record.id))?;
        *now = record;
        Ok(())
    }

    /// Changes a folder's places.
    pub(crate) fn set_folder_places(&self, folder: &Folder<S>, places: Places) -> Result<()> {
        self.change_folder(folder, |record| record.places = places)
    }

    /// Refuses what stands at other places than it may.
    pub(crate) fn check_place(
        &self,
        allowed: &[Place],
        found: &[Place],
        what: impl FnOnce() -> Subject,
    ) -> Result<()> {
        if found.iter().all(|place| allowed.contains(place)) {
            return Ok(());
        }
        Err(Error::altered(
            what(),
            "it stands under a name that was never given to it: somebody moved or swapped it in \
             the store; move it back, or restore it from a backup",
        ))
    }

    /// Refuses what stands under a name that was never given to it. What links or renames it allows
    /// the new place first; what removes a name forbids the place later. `places` calls what it is
    /// given with the places where it may stand, to which none is added meanwhile.
    ///
    /// This is asked at each use, not only when something is opened: below a mount, the store may
    /// be changed at any time, and then the kernel brings another name for a node that is known.
    pub(crate) fn check_names(
        &self,
        node: &Arc<Node<S>>,
        places: impl Fn(&mut dyn FnMut(Allowed<'_>) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut fine = false;
        places(&mut |allowed| {
            fine = node.stands_only_at(allowed);
            Ok(())
        })?;
        if fine {
            return Ok(());
        }
        let storage = &self.core.storage;
        let mut standing = Vec::new();
        for name in node.names() {
            // Whoever found it there had it open. To open and check it now might lead back here.
            let parent = lock(&name.parent.folder).clone().ok_or(Errno::STALE)?;
            let mut check = |allowed: Allowed<'_>| {
                // A name may be noted although it is just gone: who looked it up was overtaken.
                match storage.attributes(At::Name(parent.dir(), &name.stored)) {
                    Ok(found) if found.inode() == node.inode() => {}
                    Err(error) if !is_missing(&error) => return Err(error.into()),
                    _ => {
                        node.remove_name(&name.place);
                        return Ok(());
                    }
                }
                self.check_place(allowed.places, &[name.place], || self.path_of(node))?;
                standing.push(name.place);
                match allowed.is_at_both(|place| standing.contains(place)) {
                    true => Err(put_back(self.path_of(node))),
                    false => Ok(()),
                }
            };
            places(&mut check)?;
        }
        Ok(())
    }

    /// Refuses an object whose id another one has, too: a copy, by a backup program that parted
    /// hard links or by somebody who wants parts of it in two places. Which is the right one nobody
    /// knows, and with one id they would share a journal.
    fn check_alone(&self, node: &Arc<Node<S>>) -> Result<()> {
        if !node.is_contested() {
            return Ok(());
        }
        let mut gone = Vec::new();
        for rival in self.nodes.rivals(node) {
            if self.stands(&rival)? {
                let (one, other) = (self.path_of(node), self.path_of(&rival));
                return Err(Error::altered(
                    one,
                    format!(
                        "{} is a copy of it in the store; remove the wrong one there, or let \
                         `warplock vault check --repair` do that",
                        other.logged
                    ),
                ));
            }
            if rival.is_in_use() {
                return Err(Error::altered(
                    self.path_of(node),
                    "another file was put in its place in the store while it is in use; try again \
                     when those who use it have closed it, and a few seconds later",
                ));
            }
            gone.push(rival);
        }
        self.nodes.give_up_claims(node, &gone);
        Ok(())
    }

    /// Whether the store may still have a node's object under one of the names that are known.
    fn stands(&self, node: &Arc<Node<S>>) -> Result<bool> {
        for name in node.names() {
            let Some(parent) = lock(&name.parent.folder).clone() else {
                return Ok(true);
            };
            let at = At::Name(parent.dir(), &name.stored);
            match self.core.storage.attributes(at) {
                Ok(found) if found.inode() == node.inode() => return Ok(true),
                Err(error) if !is_missing(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(false)
    }

    /// The content of a regular file, shared by all who use it.
    pub(crate) fn content(&self, node: &Arc<Node<S>>) -> Result<Arc<Content<S>>> {
        match node.kind {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Errno::INVAL.into()),
        }
        let mut slot = lock(&node.content);
        let check_names = |content: &Content<S>| {
            self.check_names(node, |check| check(content.read_state().now.allowed()))
        };
        if let Some(content) = slot.upgrade() {
            check_names(&content)?;
            self.check_alone(node)?;
            return Ok(content);
        }
        let name = node.name().ok_or(Errno::NOENT)?;
        let parent = self.folder(&name.parent)?;
        let storage = &self.core.storage;
        match storage.attributes(At::Name(parent.dir(), &name.stored)) {
            Ok(found) if found.inode() == node.inode() => {}
            other => return Err(self.stale(node, &name, other.err())),
        }
        let what = self.path_of(node);
        let content = self.core.open_content(parent.dir(), &name.stored, &what)?;
        if storage.attributes(At::File(&content.file))?.inode() != node.inode() {
            return Err(Errno::STALE.into());
        }
        self.check_place(&content.read_state().now.places, &[name.place], || {
            what.clone()
        })?;
        check_names(&content)?;
        self.expect_content(&parent, &name, &content, &what)?;
        self.nodes.claim(node, &content.id);
        self.check_alone(node)?;
        // Whether the name is durable is not known.
        content.write_state().entry = Some(Arc::clone(&parent.dir));
        let content = Arc::new(content);
        *slot = Arc::downgrade(&content);
        drop(slot);
        // A crash may have left it young, or with a time that it shared with other bytes.
        let crashed = self.core.unclean.load(Ordering::Relaxed) && !self.core.read_only;
        let unfinished = || {
            let state = content.read_state();
            state.is_young() || state.timed != state.written
        };
        if crashed && content.writable {
            if unfinished() {
                self.list_uncommitted(&content);
            }
            // If a rename was interrupted, the file stands here, so the other place is dropped.
            let other = content.read_state().now.allowed().other(&name.place);
            if let Some(other) = other {
                self.forbid_place(&content, &other, &[&parent.dir]);
            }
        }
        Ok(content)
    }

    /// The attributes of what stands under a name in the store, as the vault shows them.
    pub(crate) fn shown(&self, node: &Arc<Node<S>>, mut found: Attributes) -> Result<Attributes> {
        found.node = node.number;
        found.block_size = self.core.layout.block().max(4096) as u32;
        // What has no name any more has no header or record to look at either.
        let dead = node.dead.load(Ordering::Relaxed);
        let owner = match node.kind {
            FileType::RegularFile => {
                let content = match node.content_in_use() {
                    // What a crash left may not be what the length in the store says.
                    None if self.core.unclean.load(Ordering::Relaxed) => match self.content(node) {
                        Err(error) if is_exhausted(&error) => return Err(error),
                        content => content.ok(),
                    },
                    content => content,
                };
                let owner = match content {
                    Some(content) => {
                        let state = content.read_state();
                        found.size = state.now.len;
                        found.modified = state.modified();
                        Some(state.now.owner)
                    }
                    None => self.show_header(node, &mut found)?,
                };
                let special = owner.is_some_and(|owner| owner.kind() != FileType::RegularFile);
                if special && !dead {
                    // The kernel does not open these here, where it would be checked.
                    self.content(node)?;
                }
                owner
            }
            FileType::Directory => self.owner_of_folder(node)?,
            _ => {
                found.size = self.read_target(node).map_or(0, |t| t.len() as u64);
                // What is in the store never was another.
                found.mode = FileType::Symlink.as_raw_mode() | 0o777;
                return Ok(found);
            }
        };
        if let Some(owner) = owner {
            node.set_owner(owner);
        }
        let owner = owner.or_else(|| node.owner().filter(|_| dead));
        let owner = owner.map_or_else(|| Owner::unsealed(node.kind), |owner| self.ids.map(owner));
        owner.show(&mut found);
        Ok(found)
    }

    /// What the record of a folder says; `None` if it cannot be opened, which is told: the folder
    /// can be looked at and removed all the same.
    fn owner_of_folder(&self, node: &Arc<Node<S>>) -> Result<Option<Owner>> {
        if let Some(owner) = node.owner() {
            return Ok(Some(owner));
        }
        match self.folder(node) {
            Ok(folder) => Ok(Some(folder.record().owner)),
            Err(error) if is_exhausted(&error) => Err(error),
            Err(error) => {
                if matches!(error, Error::Altered { .. }) {
                    self.core.tell_error(&error);
                }
                Ok(None)
            }
        }
    }

    /// What the header of a file that nobody uses says of it. A file without a whole header can be
    /// looked at and removed all the same, with the length that it has in the store.
    fn show_header(&self, node: &Arc<Node<S>>, found: &mut Attributes) -> Result<Option<Owner>> {
        let Some(name) = node.name() else {
            return Ok(None);
        };
        let parent = self.folder(&name.parent)?;
        let peek = |what: &Subject| self.core.peek(parent.dir(), &name.stored, what);
        // What it is called takes longer to find than its header.
        let header = match peek(&"".into()) {
            Err(Error::Altered { .. }) => peek(&self.path_of(node)),
            header => header,
        };
        match header {
            Ok(header) => {
                found.size = header.len;
                found.modified = header.modified;
                let here = header.places.contains(&name.place);
                return Ok(here.then_some(header.owner));
            }
            Err(error) if is_exhausted(&error) => return Err(error),
            Err(Error::Unfinished { .. }) => found.size = 0,
            Err(error) => {
                if matches!(error, Error::Altered { .. }) {
                    self.core.tell_error(&error);
                }
            }
        }
        Ok(None)
    }

    /// A path for people: the names that lead to a node. Of a long one, the end.
    pub(crate) fn path_of(&self, node: &Arc<Node<S>>) -> Subject {
        let (mut shown, mut logged) = (String::new(), String::new());
        let mut node = Arc::clone(node);
        while let Some(name) = node.name() {
            if shown.len().max(logged.len()) > MAX_SHOWN {
                shown.insert_str(0, "...");
                logged.insert_str(0, "...");
                break;
            }
            let folder = lock(&name.parent.folder).clone();
            let plain = folder.and_then(|folder| self.plain_name(&folder, &name.stored).ok()?);
            let plain = plain.as_ref().map_or(&name.stored, |(plain, _)| plain);
            shown.insert_str(0, &format!("/{}", plain.to_string_lossy()));
            logged.insert_str(0, &format!("/{}", name.stored.to_string_lossy()));
            node = name.parent;
        }
        if shown.is_empty() {
            return "the topmost folder".into();
        }
        let logged = format!("the entry {} in the store", logged.trim_start_matches('/'));
        Subject { shown, logged }
    }

    /// The name that a name in the store stands for; `None` if it is none of the vault's entries.
    ///
    /// # Errors
    /// [`Error::Altered`] if it looks like one, but was never given in this folder.
    pub(crate) fn plain_name(
        &self,
        folder: &Folder<S>,
        stored: &OsStr,
    ) -> Result<Option<(std::ffi::OsString, Place)>> {
        let sealed = match names::kind(stored) {
            names::Kind::Other => return Ok(None),
            names::Kind::Short(sealed) => sealed,
            names::Kind::Long(beside) => self.sealed_beside(folder, stored, &beside)?,
        };
        names::open(&self.core.keys, &folder.id, stored, &sealed)
            .map(Some)
            .ok_or_else(|| {
                altered_entry(
                    stored,
                    "it was never given that name in this folder; move it back or remove it",
                )
            })
    }

    /// The ciphertext name of an entry with a long name.
    ///
    /// # Errors
    /// `ENOENT` if the entry was removed meanwhile.
    fn sealed_beside(&self, folder: &Folder<S>, stored: &OsStr, beside: &OsStr) -> Result<Vec<u8>> {
        let storage = &self.core.storage;
        let read = || self.core.read_beside(folder.dir(), beside);
        match read() {
            Err(Error::Errno(Errno::NOENT)) => {}
            other => return other,
        }
        // Both may be gone. If the entry is there, so is the file, even if both were just made.
        storage.attributes(At::Name(folder.dir(), stored))?;
        match read() {
            Err(Error::Errno(Errno::NOENT)) => Err(altered_entry(
                stored,
                "the file with its name is missing; restore it from a backup",
            )),
            other => other,
        }
    }

    /// Encrypts a name in a folder.
    pub(crate) fn sealed_name(&self, folder: &Folder<S>, name: &OsStr) -> Result<Sealed> {
        names::seal(&self.core.keys, &folder.id, name)
    }
}

/// Something stands at both places of a rename.
pub(crate) fn put_back(what: Subject) -> Error {
    Error::altered(
        what,
        "it stands under a name that it was taken from by a rename: somebody put it back there; \
         remove the old name in the store",
    )
}

fn altered_entry(stored: &OsStr, why: &str) -> Error {
    Error::altered(
        format!("the entry {} in the store", stored.to_string_lossy()),
        why,
    )
}
