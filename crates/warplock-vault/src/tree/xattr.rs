//! Extended attributes. Those of programs (`user.` and `trusted.`) are sealed and bound to file and
//! name; those that the kernel acts upon (`system.`, `security.`) go to the store as they are. The
//! part of an ACL that permissions also express follows the sealed ones.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::file::content::Content;
use crate::format::header::Owner;
use crate::format::keys::Id;
use crate::fs::{FileType, XattrFlags};
use crate::store::storage::{At, Storage};
use crate::tree::folder::Folder;
use crate::tree::node::Node;
use crate::tree::owners::{ACL, NO_ACL, acl_with_mode, mode_of_acl};
use crate::vault::Vault;

const AAD: &[u8] = b"warplock-vault/2 xattr";
/// The name spaces of sealed attributes.
const SPACES: [&str; 2] = ["user.", "trusted."];
/// Follows the space in the stored names of sealed attributes.
const MARK: &str = "warplock.";

/// The object that an attribute belongs to, held open.
enum Holder<S: Storage> {
    File(Arc<Content<S>>),
    Folder(Arc<Folder<S>>),
    Name(Arc<Folder<S>>, OsString),
}

impl<S: Storage> Holder<S> {
    fn at(&self) -> At<'_, S> {
        match self {
            Holder::File(content) => At::File(&content.file),
            Holder::Folder(folder) => At::Dir(folder.dir()),
            Holder::Name(folder, name) => At::Name(folder.dir(), name),
        }
    }

    /// The id that values are bound to.
    fn id(&self) -> Result<&Id> {
        match self {
            Holder::File(content) => Ok(&content.id),
            Holder::Folder(folder) => Ok(&folder.id),
            // Linux allows none there except `trusted.`, and there is no id to bind its value to.
            Holder::Name(..) => Err(Errno::PERM.into()),
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
    fn holder(&self, node: &Arc<Node<S>>, sealed: bool) -> Result<Holder<S>> {
        match node.kind {
            FileType::Directory => return Ok(Holder::Folder(self.folder(node)?)),
            FileType::RegularFile if sealed => return Ok(Holder::File(self.content(node)?)),
            FileType::RegularFile => {
                if let Some(content) = node.content_in_use() {
                    return Ok(Holder::File(content));
                }
            }
            _ => {}
        }
        let name = node.name().ok_or(Errno::NOENT)?;
        Ok(Holder::Name(self.folder(&name.parent)?, name.stored))
    }

    /// The name in the store: the synthetic IV of the name under the holder's id.
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
            if name == ACL {
                return self.write_acl(node, value, flags);
            }
            let holder = self.holder(node, false)?;
            return Ok(storage.set_xattr(holder.at(), name, value, flags)?);
        };
        let holder = self.holder(node, true)?;
        let id = holder.id()?;
        let stored = self.stored_xattr(space, id, name)?;
        let mut plain = vec![name.len() as u8];
        plain.extend_from_slice(name.as_bytes());
        plain.extend_from_slice(value);
        let keys = &self.core.keys;
        let sealed = keys.engines.seal(&keys.xattrs, &Self::aad(id), &plain)?;
        Ok(storage.set_xattr(holder.at(), &stored, &sealed, flags)?)
    }

    /// Sets the ACL in the store, whose owner may use the object as always, and then the
    /// permissions that it implies.
    fn write_acl(&self, node: &Arc<Node<S>>, value: &[u8], flags: XattrFlags) -> Result<()> {
        let change = |sealed: Owner| match value.len() > NO_ACL {
            true => sealed.permitting(mode_of_acl(value)),
            false => sealed,
        };
        let set = |at: At<'_, S>, new: Owner| {
            let value = acl_with_mode(value, new.permissions_in_store());
            Ok(self
                .core
                .storage
                .set_xattr(at, OsStr::new(ACL), &value, flags)?)
        };
        match node.kind {
            FileType::Directory => self.change_folder_owner(node, change, set),
            FileType::RegularFile => self.change_file_owner(&self.content(node)?, change, set),
            _ => Err(Errno::OPNOTSUPP.into()),
        }
    }

    pub(crate) fn read_xattr(&self, node: &Arc<Node<S>>, name: &OsStr) -> Result<Vec<u8>> {
        let storage = &self.core.storage;
        let Some(space) = space(name) else {
            let holder = self.holder(node, false)?;
            let value = storage.get_xattr(holder.at(), name)?;
            return Ok(match node.owner() {
                Some(owner) if name == ACL => acl_with_mode(&value, owner.mode),
                _ => value,
            });
        };
        if !matches!(node.kind, FileType::RegularFile | FileType::Directory) {
            return Err(Errno::NODATA.into());
        }
        let holder = self.holder(node, true)?;
        let id = holder.id()?;
        let stored = self.stored_xattr(space, id, name)?;
        let sealed = storage.get_xattr(holder.at(), &stored)?;
        let (found, value) = self.open_xattr(node, id, &sealed)?;
        if found != name {
            return Err(self.altered_xattr(node));
        }
        Ok(value)
    }

    /// The name and the value of a sealed attribute.
    fn open_xattr(
        &self,
        node: &Arc<Node<S>>,
        id: &Id,
        sealed: &[u8],
    ) -> Result<(OsString, Vec<u8>)> {
        let keys = &self.core.keys;
        let plain = keys.engines.open(&keys.xattrs, &Self::aad(id), sealed)?;
        plain
            .and_then(|plain| decode(&plain))
            .ok_or_else(|| self.altered_xattr(node))
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
        let listed = storage.list_xattrs(self.holder(node, false)?.at())?;
        let mut holder = None;
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
            let holder = match &holder {
                Some(holder) => holder,
                None => holder.insert(self.holder(node, true)?),
            };
            let id = holder.id()?;
            let value = storage.get_xattr(holder.at(), stored)?;
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
        let holder = self.holder(node, true)?;
        Ok(self.core.storage.get_xattr(holder.at(), stored)?)
    }

    /// Removes an attribute by its name in the store.
    pub(crate) fn remove_stored_xattr(&self, node: &Arc<Node<S>>, stored: &OsStr) -> Result<()> {
        let holder = self.holder(node, true)?;
        Ok(self.core.storage.remove_xattr(holder.at(), stored)?)
    }

    pub(crate) fn delete_xattr(&self, node: &Arc<Node<S>>, name: &OsStr) -> Result<()> {
        self.may_write()?;
        let storage = &self.core.storage;
        let Some(space) = space(name) else {
            let holder = self.holder(node, false)?;
            return Ok(storage.remove_xattr(holder.at(), name)?);
        };
        let holder = self.holder(node, true)?;
        let stored = self.stored_xattr(space, holder.id()?, name)?;
        Ok(storage.remove_xattr(holder.at(), &stored)?)
    }
}

/// The name and the value in an attribute's plaintext.
pub(crate) fn decode(plain: &[u8]) -> Option<(OsString, Vec<u8>)> {
    let (len, rest) = plain.split_first()?;
    let (name, value) = rest.split_at_checked((*len).into())?;
    Some((OsStr::from_bytes(name).to_owned(), value.to_vec()))
}
