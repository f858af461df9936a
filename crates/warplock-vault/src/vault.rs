//! An open vault: from nodes and names to ciphertext and back.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use warplock::Engine;
use warplock_keyring::MasterKey;

use crate::core::{Core, Hearers, JOURNALS, Trouble, is_missing, journal_id, lock, open_own_dir};
use crate::error::{Error, Result};
use crate::file::uncommitted::{Gate, Uncommitted};
use crate::format::config::Config;
use crate::format::keys::VaultKeys;
use crate::format::layout::Layout;
use crate::format::names::ROOT_PLACE;
use crate::fs::{FileType, ROOT};
use crate::memory::memory_lies_in;
use crate::pool::Pool;
use crate::remember::open_memory;
use crate::store::descriptors::Budget;
use crate::store::posix::Posix;
use crate::store::storage::{At, Storage, cannot_change};
use crate::store::store_lock::{Lock, lock_store};
use crate::tree::folder::{Folder, RECORD, Record};
use crate::tree::listings::Listings;
use crate::tree::node::{Name, Node, Table};
use crate::tree::owners::Ids;
use crate::tree::places::Places;

const UNCLEAN: &str = "the vault was not closed properly the last time; unless the store was changed \
     since, what was synced is there, and `warplock vault check --repair` tidies up";
const UNTIDY: &str = "the vault was not closed properly the last time; unless the store was changed since, \
     what was synced is there, but it could not be tidied up";
const UNCLEAN_READ_ONLY: &str = "the vault was not closed properly the last time; unless the store was \
     changed since, what was synced is shown, and journals stay as they are while it is open for reading only: `warplock vault \
     check --repair`, which must be able to write to the store, tidies up";
const STORE_READ_ONLY: &str = "the vault is open for reading only, because its store is on a \
     read-only file system; to change files, make that writable and mount the vault again";

const NO_LOCKS: &str = "the store's file system has no locks, so a second mount of the vault is not \
     noticed; see to it that there is none";
/// Folders in each other: more are refused. Also where the store is changed so that two lie in each
/// other, a search upwards ends.
pub(crate) const MAX_DEPTH: usize = 100_000;
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
    /// What a crash left is tidied up before anything else, which takes a look at all names and headers.
    pub tidy: bool,
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
        let failed = |source| Error::Store {
            what: "cannot open the store".into(),
            source,
        };
        // By which the memory tells it from others.
        let path = path.canonicalize().map_err(failed)?;
        if let Some(dir) = &options.memory
            && memory_lies_in(dir, &path)
                .map_err(|error| Error::memory(dir, "cannot be found", error))?
        {
            return Err(Error::Usage(format!(
                "this machine's memory would be in the vault's store, {}, and go back together with it; \
                 choose another place with --memory DIR",
                dir.display()
            )));
        }
        let store = store.granting(write).holding(lock);
        let store = if write { store.probed()? } else { store };
        let tidy = options.tidy;
        let vault = Self::open_at(store, master, options, Some(&path))?;
        if let Some(sentence) = vault.core.storage.lacks.sentence() {
            vault.core.tell(&sentence);
        }
        if vault.core.storage.lock().is_some_and(|lock| !lock.works) {
            vault.core.tell(NO_LOCKS);
        }
        if tidy && let Err(error) = vault.tidy() {
            vault.core.tell_failure(UNTIDY, &error);
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
        if unclean && read_only {
            tell(UNCLEAN_READ_ONLY);
        } else if unclean && !options.tidy {
            tell(UNCLEAN);
        }
        let memory = open_memory(&storage, &config, &keys, &options, read_only, path)?;
        let journals = match found {
            None if !read_only => {
                let failed = |source| Error::Store {
                    what: format!("cannot make {JOURNALS}"),
                    source,
                };
                storage.make_dir(&root, name, 0o700).map_err(failed)?;
                storage.sync_dir(&root).map_err(failed)?;
                Some(storage.open_dir(&root, name).map_err(failed)?)
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
        let record = core
            .read_folder_record(&root, || "the topmost folder".into())
            .map_err(|error| match error {
                Error::Errno(errno) => Error::Store {
                    what: format!("cannot read {RECORD}"),
                    source: errno.into(),
                },
                error => error,
            })?;
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
    /// changed under the mount. A new lookup by path finds what stands there now.
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
}
