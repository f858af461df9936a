//! A vault without a mount, used by the paths of its files.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use warplock_keyring::Identities;

use crate::core::lock;
use crate::error::{Error, Result};
use crate::format::config::unlock;
use crate::fs::{Access, Attributes, Caller, FileSystem, FileType, NewNode, Node, ROOT};
use crate::store::posix::Posix;
use crate::vault::{Options, Vault};

/// An open vault, used by paths that begin at its topmost folder, with `/` between names. Closed
/// when dropped; [`VaultFiles::close`] says whether that went well.
///
/// ```
/// use std::sync::Arc;
/// use warplock_keyring::{Identities, NewIdentity, NoPrompt, Recipients};
/// use warplock_vault::{Settings, VaultFiles, init};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = folder.path().join("store");
/// # let me = NewIdentity::generate();
/// # let mut recipients = Recipients::new(Arc::new(NoPrompt));
/// # recipients.add(&me.recipient())?;
/// # std::fs::create_dir(&store).unwrap();
/// # init(&store, &Settings::default(), "me", &recipients)?;
/// # let mut identities = Identities::new(Arc::new(NoPrompt));
/// # identities.add("me", me.file_text().as_bytes())?;
/// let vault = VaultFiles::open(&store, &identities)?;
/// vault.create_dir_all("letters/2026")?;
/// vault.write("letters/2026/may.txt", b"Dear ...")?;
/// assert_eq!(vault.read("letters/2026/may.txt")?, b"Dear ...");
/// vault.close()?;
/// # Ok::<(), warplock_vault::Error>(())
/// ```
pub struct VaultFiles {
    vault: Vault<Posix>,
    /// What the vault said since the operation under way began.
    said: Arc<Mutex<Option<String>>>,
}

impl VaultFiles {
    /// Opens the vault whose store is the folder `store`, with the first of `identities` that fits,
    /// for reading and writing, and with this machine's memory of it in its usual place.
    ///
    /// # Errors
    /// Those of [`unlock`] and [`Vault::open`].
    pub fn open(store: impl AsRef<Path>, identities: &Identities) -> Result<Self> {
        let options = Options {
            memory: Some(crate::default_memory_dir()?),
            ..Options::default()
        };
        VaultFiles::open_with(store, identities, options)
    }

    /// As [`VaultFiles::open`], with other options.
    ///
    /// # Errors
    /// As [`VaultFiles::open`].
    pub fn open_with(
        store: impl AsRef<Path>,
        identities: &Identities,
        mut options: Options,
    ) -> Result<Self> {
        let store = store.as_ref();
        Vault::check_unused(store, options.read_only)?;
        let unlocked = unlock(store, identities)?;
        let said = Arc::new(Mutex::new(None));
        let (keep, pass_on) = (Arc::clone(&said), options.trouble.take());
        options.trouble = Some(Arc::new(move |sentence: &str| {
            *lock(&keep) = Some(sentence.to_owned());
            if let Some(pass_on) = &pass_on {
                pass_on(sentence);
            }
        }));
        let vault = Vault::open(store, &unlocked.master, options)?;
        Ok(VaultFiles { vault, said })
    }

    /// All of a file's content, verified.
    ///
    /// # Errors
    /// [`Error::Path`]: no such file, a folder, or bytes that are not what was written.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        self.at(path, |walk| {
            let node = walk.find(path)?;
            let file = self.vault.open(node, Access::default())?;
            let size = self.vault.attributes(node, Some(&file))?.size;
            let mut content = vec![0; usize::try_from(size).map_err(|_| Errno::FBIG)?];
            let len = self.vault.read(&file, 0, &mut content);
            self.vault.release(&file);
            content.truncate(len?);
            Ok(content)
        })
    }

    /// Makes `content` all that the file holds; makes the file if it is not there. Durable when it
    /// returns; after a crash before that, the file holds the old content, the new one, or nothing.
    ///
    /// # Errors
    /// [`Error::Path`]: no such folder, no room, or the vault is open for reading only.
    pub fn write(&self, path: impl AsRef<Path>, content: &[u8]) -> Result<()> {
        let path = path.as_ref();
        self.at(path, |walk| {
            let (parent, name) = walk.parent(path)?;
            let access = Access {
                write: true,
                truncate: true,
                sync: false,
            };
            let new = new(FileType::RegularFile);
            let (made, file) = self.vault.create(parent, &name, new, access, false)?;
            walk.seen(made);
            let written = self.vault.write(&file, 0, content, false);
            let synced = written.and_then(|()| self.vault.fsync(&file, false));
            self.vault.release(&file);
            synced
        })
    }

    /// The names in a folder, sorted, without `.` and `..`.
    ///
    /// # Errors
    /// [`Error::Path`].
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        let path = path.as_ref();
        self.at(path, |walk| {
            let node = walk.find(path)?;
            let dir = self.vault.open_dir(node)?;
            let mut names = Vec::new();
            self.vault.list(&dir, 0, &mut |entry| {
                if entry.name != "." && entry.name != ".." {
                    names.push(entry.name.to_owned());
                }
                true
            })?;
            names.sort();
            Ok(names)
        })
    }

    /// Makes a folder, and those above it that are not there.
    ///
    /// # Errors
    /// [`Error::Path`].
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.at(path, |walk| {
            let mut folder = ROOT;
            for name in names(path)? {
                folder = match walk.lookup(folder, name) {
                    Ok(found) if is_folder(found.mode) => found.node,
                    Ok(_) => return Err(Errno::NOTDIR),
                    Err(Errno::NOENT) => {
                        let new = new(FileType::Directory);
                        walk.seen(self.vault.make(folder, name, new, 0)?).node
                    }
                    Err(error) => return Err(error),
                };
            }
            Ok(())
        })
    }

    /// Removes a file, a symlink or an empty folder.
    ///
    /// # Errors
    /// [`Error::Path`].
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.at(path, |walk| {
            let (parent, name) = walk.parent(path)?;
            match is_folder(walk.lookup(parent, &name)?.mode) {
                true => self.vault.rmdir(parent, &name),
                false => self.vault.unlink(parent, &name),
            }
        })
    }

    /// The vault itself, for what has no method here. Call [`Vault::tick`] every few seconds while
    /// files are written through it.
    pub fn vault(&self) -> &Vault<Posix> {
        &self.vault
    }

    /// Closes the vault, after all of it is durable.
    ///
    /// # Errors
    /// Whatever could not be written; the vault then counts as not closed properly.
    pub fn close(self) -> Result<()> {
        self.vault.close()
    }

    /// Runs an operation, and adds path and reason to its error.
    fn at<T>(
        &self,
        path: &Path,
        work: impl FnOnce(&mut Walk<'_>) -> crate::fs::Result<T>,
    ) -> Result<T> {
        *lock(&self.said) = None;
        let mut walk = Walk {
            vault: &self.vault,
            seen: Vec::new(),
        };
        work(&mut walk).map_err(|errno| Error::Path {
            path: path.display().to_string(),
            errno,
            why: match errno {
                Errno::IO => lock(&self.said).take(),
                _ => None,
            },
        })
    }
}

/// The nodes that one operation has looked up: the vault keeps each until it is told to forget it.
struct Walk<'a> {
    vault: &'a Vault<Posix>,
    seen: Vec<Node>,
}

impl Walk<'_> {
    fn seen(&mut self, found: Attributes) -> Attributes {
        self.seen.push(found.node);
        found
    }

    fn lookup(&mut self, parent: Node, name: &OsStr) -> crate::fs::Result<Attributes> {
        let found = self.vault.lookup(parent, name)?;
        Ok(self.seen(found))
    }

    fn find(&mut self, path: &Path) -> crate::fs::Result<Node> {
        let mut node = ROOT;
        for name in names(path)? {
            node = self.lookup(node, name)?.node;
        }
        Ok(node)
    }

    /// The folder that a path's last name is in, and that name.
    fn parent(&mut self, path: &Path) -> crate::fs::Result<(Node, OsString)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let above = path.parent().unwrap_or(Path::new(""));
        Ok((self.find(above)?, name.to_owned()))
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        for node in self.seen.drain(..) {
            self.vault.forget(node, 1);
        }
    }
}

impl Drop for VaultFiles {
    fn drop(&mut self) {
        self.vault.unmounted();
    }
}

/// The names of a path within the vault.
fn names(path: &Path) -> crate::fs::Result<Vec<&OsStr>> {
    path.components()
        .filter(|component| !matches!(component, Component::RootDir | Component::CurDir))
        .map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(Errno::INVAL),
        })
        .collect()
}

fn is_folder(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::Directory
}

/// A new node that belongs to this process, with permissions for its user alone.
fn new(kind: FileType) -> NewNode {
    let permissions = match kind {
        FileType::Directory => 0o700,
        _ => 0o600,
    };
    NewNode {
        caller: Caller {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        },
        mode: kind.as_raw_mode() | permissions,
        umask: 0o077,
    }
}
