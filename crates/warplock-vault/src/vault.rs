//! An open vault: from nodes and names to ciphertext and back.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use warplock::Engine;
use warplock_keyring::MasterKey;

use crate::config::Config;
use crate::content::Content;
use crate::core::{Core, JOURNALS, Trouble, is_missing, journal_id, lock};
use crate::descriptors::{Budget, is_exhausted};
use crate::error::{Error, Result};
use crate::folder::{Folder, Record};
use crate::fs::{Attributes, FileType, ROOT};
use crate::keys::VaultKeys;
use crate::layout::Layout;
use crate::locks::lock_store;
use crate::names::{self, Place, ROOT_PLACE, Sealed};
use crate::node::{Node, Table};
use crate::pool::Pool;
use crate::posix::Posix;
use crate::remember::open_memory;
use crate::storage::{At, Storage, cannot_change};
use crate::uncommitted::{Gate, Uncommitted};

const UNCLEAN: &str = "the vault was not closed properly the last time; what was synced is \
     there, and `warplock vault check --repair` tidies up";
const UNCLEAN_READ_ONLY: &str = "the vault was not closed properly the last time; what was synced \
     is shown, and journals stay as they are while it is open for reading only: `warplock vault \
     check --repair`, which must be able to write to the store, tidies up";
const STORE_READ_ONLY: &str = "the vault is open for reading only, because its store is on a \
     read-only file system; to change files, make that writable and mount the vault again";

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
        let store = Posix::new(path).map_err(|source| Error::Store {
            what: "cannot open the store".into(),
            source,
        })?;
        let write = !options.read_only && !cannot_change(&store)?;
        lock_store(&store, path, write)?;
        let store = store.granting(write);
        // By which the memory tells it from others.
        let path = path.canonicalize().map_err(|source| Error::Store {
            what: "cannot open the store".into(),
            source,
        })?;
        Self::open_at(store, master, options, Some(&path))
    }
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
        let found = match storage.open_dir(&root, name) {
            Ok(found) => Some(found),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error.into()),
        };
        let unclean = found.is_some();
        let mut left_over = HashSet::new();
        if let Some(found) = &found {
            let listed = storage.list(found)?;
            left_over.extend(listed.iter().filter_map(|entry| journal_id(&entry.name)));
        }
        let barred = cannot_change(&storage)?;
        let read_only = options.read_only || barred;
        if let Some(trouble) = &options.trouble {
            if barred && !options.read_only {
                trouble(STORE_READ_ONLY);
            }
            if unclean {
                trouble(if read_only {
                    UNCLEAN_READ_ONLY
                } else {
                    UNCLEAN
                });
            }
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
            read_only,
            journals,
            left_over: Mutex::new(left_over),
            unclean: AtomicBool::new(unclean),
            trouble: options.trouble,
            storage,
        };
        let record = core.read_folder_record(&root, "the topmost folder")?;
        if !record.places.contains(&ROOT_PLACE) {
            return Err(Error::altered(
                "the topmost folder",
                "another folder's record stands in its place; restore it from a backup",
            ));
        }
        let inode = core.storage.attributes(At::Dir(&root))?.node;
        let vault = Vault {
            core,
            nodes: Table::new(inode),
            uncommitted: Uncommitted::default(),
            gate: Gate::default(),
            naming: Mutex::new(()),
            budget: Budget::new(),
            open_folders: AtomicUsize::new(0),
        };
        let top = vault.node(ROOT)?;
        *lock(&top.folder) = Some(Arc::new(Folder {
            dir: Arc::new(root),
            id: record.id,
        }));
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

    /// The open folder of a node.
    pub(crate) fn folder(&self, node: &Arc<Node<S>>) -> Result<Arc<Folder<S>>> {
        if node.kind != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        if let Some(folder) = &*lock(&node.folder) {
            return Ok(Arc::clone(folder));
        }
        let name = node.name().ok_or(Errno::NOENT)?;
        let parent = self.folder(&name.parent)?;
        let dir = self.core.storage.open_dir(parent.dir(), &name.stored)?;
        let what = self.path_of(node);
        let record = self.core.read_folder_record(&dir, &what)?;
        self.check_place(&record.places, &node.places(), &what)?;
        self.expect_folder(&parent, &name, &record.id, &what)?;
        let folder = Arc::new(Folder {
            dir: Arc::new(dir),
            id: record.id,
        });
        if self.open_folders.fetch_add(1, Ordering::Relaxed) > self.budget.folders {
            self.close_folders();
        }
        *lock(&node.folder) = Some(Arc::clone(&folder));
        Ok(folder)
    }

    /// Closes folders that are open only to save time.
    pub(crate) fn close_folders(&self) {
        self.open_folders.store(0, Ordering::Relaxed);
        self.nodes.close_folders();
    }

    /// Changes a folder's places.
    pub(crate) fn set_folder_places(&self, folder: &Folder<S>, places: Vec<Place>) -> Result<()> {
        let id = folder.id;
        self.core
            .write_folder_record(folder.dir(), &Record { id, places })
    }

    /// Refuses what stands at other places than it may.
    pub(crate) fn check_place(&self, allowed: &[Place], found: &[Place], what: &str) -> Result<()> {
        if found.iter().all(|place| allowed.contains(place)) {
            return Ok(());
        }
        Err(Error::altered(
            what,
            "it stands under a name that was never given to it: somebody moved or swapped it in \
             the store; move it back, or restore it from a backup",
        ))
    }

    /// Refuses a file that stands under a name that was never given to it. What links or renames
    /// it allows the new place first; what removes a name forbids the place later.
    fn check_names(&self, node: &Arc<Node<S>>, content: &Content<S>) -> Result<()> {
        let storage = &self.core.storage;
        let all = |allowed: &[Place]| node.places().iter().all(|place| allowed.contains(place));
        if all(&content.read_state().now.places) {
            return Ok(());
        }
        let inode = storage.attributes(At::File(&content.file))?.node;
        for name in node.names() {
            let parent = self.folder(&name.parent);
            // While this is held, no place is allowed anew.
            let state = content.read_state();
            let places = &state.now.places;
            if places.contains(&name.place) {
                continue;
            }
            // A name may be noted although it is just gone: who looked it up was overtaken.
            let found = parent.and_then(|parent| {
                let at = At::Name(parent.dir(), &name.stored);
                Ok(storage.attributes(at)?)
            });
            match found {
                Ok(found) if found.node == inode => {
                    self.check_place(places, &[name.place], &self.path_of(node))?;
                }
                Err(error) if error.errno() != Errno::NOENT => return Err(error),
                _ => node.remove_name(&name.place),
            }
        }
        Ok(())
    }

    /// The content of a regular file, shared by all who use it.
    pub(crate) fn content(&self, node: &Arc<Node<S>>) -> Result<Arc<Content<S>>> {
        match node.kind {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Errno::INVAL.into()),
        }
        let mut slot = lock(&node.content);
        if let Some(content) = slot.upgrade() {
            self.check_names(node, &content)?;
            return Ok(content);
        }
        let name = node.name().ok_or(Errno::NOENT)?;
        let parent = self.folder(&name.parent)?;
        let what = self.path_of(node);
        let content = self.core.open_content(parent.dir(), &name.stored, &what)?;
        self.check_place(&content.read_state().now.places, &[name.place], &what)?;
        self.check_names(node, &content)?;
        self.expect_content(&parent, &name, &content, &what)?;
        // Whether the name is durable is not known.
        content.write_state().entry = Some(Arc::clone(&parent.dir));
        let content = Arc::new(content);
        *slot = Arc::downgrade(&content);
        drop(slot);
        // A crash may have left it young.
        let crashed = self.core.unclean.load(Ordering::Relaxed) && !self.core.read_only;
        if crashed && content.writable && content.read_state().is_young() {
            self.list_uncommitted(&content);
        }
        Ok(content)
    }

    /// The attributes of what stands under a name in the store, as the vault shows them.
    pub(crate) fn shown(&self, node: &Arc<Node<S>>, mut found: Attributes) -> Result<Attributes> {
        found.node = node.number;
        found.block_size = self.core.layout.block().max(4096) as u32;
        match node.kind {
            FileType::RegularFile => {
                let content = match node.content_in_use() {
                    // What a crash left may not be what the length in the store says.
                    None if self.core.unclean.load(Ordering::Relaxed) => match self.content(node) {
                        Err(error) if is_exhausted(&error) => return Err(error),
                        content => content.ok(),
                    },
                    content => content,
                };
                match content {
                    Some(content) => {
                        let state = content.read_state();
                        found.size = state.now.len;
                        found.modified = state.lock_moves().modified.unwrap_or(found.modified);
                    }
                    None => found.size = self.core.layout.plain_len(found.size),
                }
            }
            FileType::Symlink => {
                found.size = self.read_target(node).map_or(0, |t| t.len() as u64);
            }
            _ => {}
        }
        Ok(found)
    }

    /// A path for people: the names that lead to a node.
    pub(crate) fn path_of(&self, node: &Arc<Node<S>>) -> String {
        let mut parts = Vec::new();
        let mut node = Arc::clone(node);
        while let Some(name) = node.name() {
            let folder = lock(&name.parent.folder).clone();
            let plain = folder.and_then(|folder| self.plain_name(&folder, &name.stored).ok()?);
            parts.push(plain.map_or_else(
                || name.stored.to_string_lossy().into_owned(),
                |(plain, _)| plain.to_string_lossy().into_owned(),
            ));
            node = name.parent;
        }
        let path: PathBuf = std::iter::once("/".to_owned())
            .chain(parts.into_iter().rev())
            .collect();
        path.display().to_string()
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
            names::Kind::Long(beside) => {
                let sealed = self.core.read_beside(folder.dir(), &beside)?;
                if !names::long_fits(stored, &sealed) {
                    return Err(self.foreign_name(stored));
                }
                sealed
            }
        };
        names::open(&self.core.keys, &folder.id, &sealed)
            .map(Some)
            .ok_or_else(|| self.foreign_name(stored))
    }

    fn foreign_name(&self, stored: &OsStr) -> Error {
        Error::altered(
            format!("the entry {} in the store", stored.to_string_lossy()),
            "it was never given that name in this folder; move it back or remove it",
        )
    }

    /// Encrypts a name in a folder.
    pub(crate) fn sealed_name(&self, folder: &Folder<S>, name: &OsStr) -> Result<Sealed> {
        names::seal(&self.core.keys, &folder.id, name)
    }
}
