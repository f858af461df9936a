//! The user's decisions about the machine's memory: to accept the vault as it is, or to remove the
//! memory.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::check::Class;
use crate::core::journal_id;
use crate::error::{Error, Result};
use crate::format::keys::Id;
use crate::fs::{FileSystem, FileType, ROOT};
use crate::memory::{self, Memory};
use crate::store::storage::Storage;
use crate::tree::node::Node;
use crate::vault::Vault;

/// Accepts the objects at `paths` in the vault, folders with all that is in them, as they are, whatever
/// this machine remembers; without paths, all objects. The vault must have been opened with
/// [`accept`](crate::Options::accept). Without paths, returns how many findings of a check are left:
/// what cannot be read or does not verify is not accepted.
///
/// # Errors
/// If the store or the memory fails, or a path leads nowhere and never did.
pub fn accept<S: Storage>(vault: &Vault<S>, paths: &[PathBuf]) -> Result<usize> {
    let memory = &vault.core.memory;
    memory.accept(true);
    let accepted = match paths {
        [] => crate::check(vault, quick(), &mut |_| {}).map(|report| {
            let left = |class| matches!(class, Class::Altered | Class::Unread);
            report.findings.iter().filter(|it| left(it.class)).count()
        }),
        paths => (paths.iter().try_for_each(|path| accept_path(vault, path))).map(|()| 0),
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
    let refused = |errno, why: &str| Error::Path {
        path: path.display().to_string(),
        errno,
        why: Some(why.to_owned()),
    };
    let mut parent = ROOT;
    let mut names = path
        .components()
        .filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    let mut next = names.next();
    while let Some(part) = next {
        let Component::Normal(name) = part else {
            return Err(refused(
                Errno::INVAL,
                "name it from the topmost folder of the vault on",
            ));
        };
        next = names.next();
        let spot = vault.spot(parent, name)?;
        let stood = vault.remembers(&spot)?;
        let node = match vault.enter(&spot) {
            Err(Error::Errno(Errno::NOENT)) => {
                // It is remembered as removed.
                let accepted = next.is_none() && (vault.accept_missing(parent, name)? || stood);
                return match accepted {
                    true => Ok(()),
                    false => Err(refused(
                        Errno::NOENT,
                        "there is nothing, and this machine knows of nothing that was there",
                    )),
                };
            }
            found => found?.0,
        };
        accept_object(vault, &node)?;
        match (node.kind, next) {
            (FileType::Directory, _) => parent = node.number,
            (_, None) => {
                vault.forget(node.number, 1);
                return Ok(());
            }
            (_, Some(_)) => return Err(refused(Errno::NOTDIR, "a part of it is no folder")),
        }
    }
    accept_below(vault, parent)
}

fn accept_object<S: Storage>(vault: &Vault<S>, node: &Arc<Node<S>>) -> Result<()> {
    match node.kind {
        FileType::Directory => drop(vault.folder(node)?),
        FileType::RegularFile => drop(vault.content(node)?),
        _ => drop(vault.read_target(node)?),
    }
    Ok(())
}

/// Accepts all that is in a folder, and that nothing else is.
fn accept_below<S: Storage>(vault: &Vault<S>, top: u64) -> Result<()> {
    let mut waiting = vec![top];
    while let Some(number) = waiting.pop() {
        let node = vault.node(number)?;
        let folder = vault.folder(&node)?;
        let mut present = HashSet::new();
        for entry in vault.core.storage.list(folder.dir())? {
            // What has no name in the vault is not shown, and `check` tells of it.
            let Ok(Some((name, place))) = vault.plain_name(&folder, &entry.name) else {
                continue;
            };
            present.insert(place);
            let (child, _) = vault.enter(&vault.spot(number, &name)?)?;
            accept_object(vault, &child)?;
            match child.kind {
                FileType::Directory => waiting.push(child.number),
                _ => vault.forget(child.number, 1),
            }
        }
        for (_, _, accepted) in vault.missing(&node, &folder, &present)? {
            accepted?;
        }
        vault.forget(number, 1);
    }
    Ok(())
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
