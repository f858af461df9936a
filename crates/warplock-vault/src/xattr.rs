//! Extended attributes. Those of programs (`user.` and `trusted.`) are sealed and bound to file
//! and name; those that the kernel acts upon (`system.`, `security.`) go to the store as they are.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use rustix::io::Errno;

use crate::content::Content;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::fs::{FileType, XattrFlags};
use crate::keys::Id;
use crate::node::Node;
use crate::storage::{At, Storage};
use crate::vault::Vault;

const AAD: &[u8] = b"warplock-vault/2 xattr";
/// The name spaces of sealed attributes.
const SPACES: [&str; 2] = ["user.", "trusted."];
/// What stored names of sealed attributes go on with.
const MARK: &str = "warplock.";

/// What an attribute hangs on, held open.
enum Owner<S: Storage> {
    File(Arc<Content<S>>),
    Folder(Arc<Folder<S>>),
    Name(Arc<Folder<S>>, OsString),
}

impl<S: Storage> Owner<S> {
    fn at(&self) -> At<'_, S> {
        match self {
            Owner::File(content) => At::File(&content.file),
            Owner::Folder(folder) => At::Dir(folder.dir()),
            Owner::Name(folder, name) => At::Name(folder.dir(), name),
        }
    }

    /// The id that values are bound to.
    fn id(&self) -> Result<&Id> {
        match self {
            Owner::File(content) => Ok(&content.id),
            Owner::Folder(folder) => Ok(&folder.id),
            // Linux allows none there, but for `trusted.`, which would have nothing to hold on to.
            Owner::Name(..) => Err(Errno::PERM.into()),
        }
    }
}

/// The space of a name whose value is sealed.
fn space(name: &OsStr) -> Option<&'static str> {
    let name = name.as_bytes();
    SPACES
        .into_iter()
        .find(|space| name.starts_with(space.as_bytes()))
}

impl<S: Storage> Vault<S> {
    fn owner(&self, node: &Arc<Node<S>>, sealed: bool) -> Result<Owner<S>> {
        match node.kind {
            FileType::Directory => return Ok(Owner::Folder(self.folder(node)?)),
            FileType::RegularFile if sealed => return Ok(Owner::File(self.content(node)?)),
            FileType::RegularFile => {
                if let Some(content) = node.content_in_use() {
                    return Ok(Owner::File(content));
                }
            }
            _ => {}
        }
        let name = node.name().ok_or(Errno::NOENT)?;
        Ok(Owner::Name(self.folder(&name.parent)?, name.stored))
    }

    /// The name in the store: the synthetic IV of the name under the owner's id.
    fn stored_xattr(&self, space: &str, id: &Id, name: &OsStr) -> Result<OsString> {
        if name.len() > 255 {
            return Err(Errno::RANGE.into());
        }
        let sealed = self.core.keys.names.seal(&[b"xattr", id], name.as_bytes());
        Ok(format!("{space}{MARK}{}", BASE64.encode(&sealed[..16])).into())
    }

    fn aad(id: &Id) -> Vec<u8> {
        [AAD, id].concat()
    }

    pub(crate) fn write_xattr(
        &self,
        node: &Arc<Node<S>>,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        self.may_write()?;
        let storage = &self.core.storage;
        let Some(space) = space(name) else {
            let owner = self.owner(node, false)?;
            return Ok(storage.set_xattr(owner.at(), name, value, flags)?);
        };
        let owner = self.owner(node, true)?;
        let id = owner.id()?;
        let stored = self.stored_xattr(space, id, name)?;
        let mut plain = vec![name.len() as u8];
        plain.extend_from_slice(name.as_bytes());
        plain.extend_from_slice(value);
        let keys = &self.core.keys;
        let sealed = keys.engines.seal(&keys.xattrs, &Self::aad(id), &plain)?;
        Ok(storage.set_xattr(owner.at(), &stored, &sealed, flags)?)
    }

    pub(crate) fn read_xattr(&self, node: &Arc<Node<S>>, name: &OsStr) -> Result<Vec<u8>> {
        let storage = &self.core.storage;
        let Some(space) = space(name) else {
            let owner = self.owner(node, false)?;
            return Ok(storage.get_xattr(owner.at(), name)?);
        };
        if !matches!(node.kind, FileType::RegularFile | FileType::Directory) {
            return Err(Errno::NODATA.into());
        }
        let owner = self.owner(node, true)?;
        let id = owner.id()?;
        let stored = self.stored_xattr(space, id, name)?;
        let sealed = storage.get_xattr(owner.at(), &stored)?;
        let (found, value) = self.open_xattr(node, id, &sealed)?;
        if found != name {
            return Err(self.altered_xattr(node));
        }
        Ok(value)
    }

    /// The name and the value in a sealed attribute.
    fn open_xattr(
        &self,
        node: &Arc<Node<S>>,
        id: &Id,
        sealed: &[u8],
    ) -> Result<(OsString, Vec<u8>)> {
        let keys = &self.core.keys;
        let plain = keys.engines.open(&keys.xattrs, &Self::aad(id), sealed)?;
        let plain = plain.ok_or_else(|| self.altered_xattr(node))?;
        let (len, rest) = plain
            .split_first()
            .ok_or_else(|| self.altered_xattr(node))?;
        let (name, value) = rest
            .split_at_checked((*len).into())
            .ok_or_else(|| self.altered_xattr(node))?;
        Ok((OsStr::from_bytes(name).to_owned(), value.to_vec()))
    }

    fn altered_xattr(&self, node: &Arc<Node<S>>) -> Error {
        Error::altered(
            self.path_of(node)
                .part(|path| format!("an extended attribute of {path}")),
            "it does not verify: it was changed, or is another file's or name's; set it again",
        )
    }

    /// The names, each with a zero byte at its end. An attribute that was altered is an error.
    pub(crate) fn xattr_names(&self, node: &Arc<Node<S>>) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        self.each_xattr(node, |_, name| {
            names.extend_from_slice(name?.as_bytes());
            names.push(0);
            Ok(())
        })?;
        Ok(names)
    }

    /// The names in the store of attributes that were altered.
    pub(crate) fn bad_xattrs(&self, node: &Arc<Node<S>>) -> Result<Vec<OsString>> {
        let mut bad = Vec::new();
        let listed = self.each_xattr(node, |stored, name| {
            match name {
                Err(Error::Altered { .. }) => bad.push(stored.to_owned()),
                other => drop(other?),
            }
            Ok(())
        });
        match listed {
            // A file system without attributes has no bad ones.
            Err(error) if error.errno() == Errno::OPNOTSUPP => Ok(bad),
            other => other.map(|()| bad),
        }
    }

    /// Calls `each` with every attribute's name in the store and its true name.
    fn each_xattr(
        &self,
        node: &Arc<Node<S>>,
        mut each: impl FnMut(&OsStr, Result<OsString>) -> Result<()>,
    ) -> Result<()> {
        let sealed = matches!(node.kind, FileType::RegularFile | FileType::Directory);
        let storage = &self.core.storage;
        let listed = storage.list_xattrs(self.owner(node, false)?.at())?;
        let mut owner = None;
        for stored in listed
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
        {
            let stored = OsStr::from_bytes(stored);
            let Some(space) = space(stored) else {
                each(stored, Ok(stored.to_owned()))?;
                continue;
            };
            let own = stored.as_bytes()[space.len()..].starts_with(MARK.as_bytes());
            if !own || !sealed {
                continue;
            }
            let owner = match &owner {
                Some(owner) => owner,
                None => owner.insert(self.owner(node, true)?),
            };
            let id = owner.id()?;
            let value = storage.get_xattr(owner.at(), stored)?;
            let name = self.open_xattr(node, id, &value).and_then(|(name, _)| {
                // In another name space it would be listed, but not found.
                let fits = self::space(&name) == Some(space)
                    && self.stored_xattr(space, id, &name)? == stored;
                fits.then_some(name).ok_or_else(|| self.altered_xattr(node))
            });
            each(stored, name)?;
        }
        Ok(())
    }

    /// The value in the store of an attribute with this name in the store.
    pub(crate) fn stored_xattr_value(
        &self,
        node: &Arc<Node<S>>,
        stored: &OsStr,
    ) -> Result<Vec<u8>> {
        let owner = self.owner(node, true)?;
        Ok(self.core.storage.get_xattr(owner.at(), stored)?)
    }

    /// Removes an attribute by its name in the store.
    pub(crate) fn remove_stored_xattr(&self, node: &Arc<Node<S>>, stored: &OsStr) -> Result<()> {
        let owner = self.owner(node, true)?;
        Ok(self.core.storage.remove_xattr(owner.at(), stored)?)
    }

    pub(crate) fn delete_xattr(&self, node: &Arc<Node<S>>, name: &OsStr) -> Result<()> {
        self.may_write()?;
        let storage = &self.core.storage;
        let Some(space) = space(name) else {
            let owner = self.owner(node, false)?;
            return Ok(storage.remove_xattr(owner.at(), name)?);
        };
        let owner = self.owner(node, true)?;
        let stored = self.stored_xattr(space, owner.id()?, name)?;
        Ok(storage.remove_xattr(owner.at(), &stored)?)
    }
}
