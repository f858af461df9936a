//! The user's decisions about the machine's memory: to accept the vault as it is, or to remove the
//! memory.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use crate::core::journal_id;
use crate::error::{Error, Result};
use crate::format::keys::Id;
use crate::fs::{FileSystem, FileType, ROOT};
use crate::memory::{self, Memory};
use crate::store::storage::Storage;
use crate::vault::Vault;

/// Accepts the objects at `paths` in the vault as they are, whatever this machine remembers;
/// without paths, all of them. The vault must have been opened with
/// [`accept`](crate::Options::accept).
///
/// # Errors
/// If the store or the memory fails, or a path leads nowhere and never did.
pub fn accept<S: Storage>(vault: &Vault<S>, paths: &[PathBuf]) -> Result<()> {
    let memory = &vault.core.memory;
    memory.accept(true);
    let accepted = match paths {
        [] => crate::check(vault, quick(), &mut |_| {}).map(drop),
        paths => paths.iter().try_for_each(|path| accept_path(vault, path)),
    };
    memory.accept(false);
    accepted
}

fn quick() -> crate::CheckOptions {
    crate::CheckOptions {
        quick: true,
        repair: false,
    }
}

fn accept_path<S: Storage>(vault: &Vault<S>, path: &Path) -> Result<()> {
    let mut parent = ROOT;
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let Some(mut name) = names.next() else {
        return Ok(());
    };
    loop {
        let next = names.next();
        let found = match vault.enter(&vault.spot(parent, name)?) {
            // It is remembered as removed.
            Err(Error::Errno(Errno::NOENT)) if next.is_none() => {
                return vault.accept_missing(parent, name);
            }
            found => found?,
        };
        let (node, _) = found;
        match (node.kind, next) {
            (FileType::Directory, _) => drop(vault.folder(&node)?),
            (FileType::RegularFile, None) => drop(vault.content(&node)?),
            (FileType::Symlink, None) => drop(vault.read_target(&node)?),
            _ => return Err(Errno::NOTDIR.into()),
        }
        let Some(next) = next else {
            vault.forget(node.number, 1);
            return Ok(());
        };
        (parent, name) = (node.number, next);
    }
}

/// Facts about this machine's memory of a vault.
#[derive(Clone, Debug)]
pub struct MemoryInfo {
    /// Where it is.
    pub path: PathBuf,
    /// This machine's number.
    pub machine: u64,
    /// How many sessions wrote to the vault.
    pub sessions: u64,
    /// Of these, how many were not closed properly, and not repaired since.
    pub crashes: u64,
    /// Objects and names that are known, those that were removed included.
    pub objects: u64,
    /// Names.
    pub names: u64,
    /// Whether other machines use the vault, too.
    pub others: bool,
}

/// What this machine remembers of the vault in the folder `store`; `None` if nothing.
///
/// # Errors
/// [`Error::Config`] if that is not a vault, [`Error::Memory`] if the memory cannot be read.
pub fn memory_info(dir: &Path, store: &Path) -> Result<Option<MemoryInfo>> {
    Memory::info(dir, &vault_id(store)?)
}

/// Forgets which vault was used at the path `store`, and, unless another one stands there now, all
/// that this machine knows of it. Returns whether there was anything.
///
/// # Errors
/// [`Error::Memory`] if it cannot be removed.
pub fn forget_memory(dir: &Path, store: &Path) -> Result<bool> {
    let path = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    let bound = memory::bound(dir, &path)?;
    let mut forgot = memory::unbind(dir, &path)?;
    let known = bound.and_then(|bound| journal_id(OsStr::new(&bound.id)));
    match (known, vault_id(store).ok()) {
        // Exchanged: both may be used again, elsewhere.
        (Some(known), Some(here)) if known != here => {}
        (Some(id), _) | (None, Some(id)) => forgot |= memory::remove(dir, &id)?,
        (None, None) => {}
    }
    Ok(forgot)
}

fn vault_id(store: &Path) -> Result<Id> {
    let id = crate::info(store)?.id;
    journal_id(OsStr::new(&id))
        .ok_or_else(|| Error::altered("the vault", "its id is not 32 hexadecimal digits"))
}
