//! Attributes of nodes: how they are reached, shown and changed.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use rustix::io::Errno;

use crate::core::lock;
use crate::error::{Error, Result, Subject};
use crate::file::content::Content;
use crate::filesystem::OpenFile;
use crate::format::header::Owner;
use crate::fs::{Attributes, Changes, FileType, Node as Number};
use crate::store::descriptors::is_exhausted;
use crate::store::storage::{At, Storage};
use crate::tree::node::Node;
use crate::vault::Vault;

impl<S: Storage> Vault<S> {
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
                        show_changed(state.now.owner, state.changed(), &mut found);
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

    /// Reads the header of a file that is not in use. A file without a whole header can still be
    /// looked at and removed, with the length that it has in the store.
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
                show_changed(header.owner, header.changed, found);
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

    pub(crate) fn change_node(
        &self,
        node: Number,
        file: Option<&OpenFile<S>>,
        changes: &Changes,
    ) -> Result<Attributes> {
        self.may_write()?;
        let node = self.node(node)?;
        if let Some(len) = changes.size {
            let content = match file {
                Some(file) => Arc::clone(&file.content),
                None => self.content(&node)?,
            };
            if content.kind() != FileType::RegularFile {
                return Err(Errno::INVAL.into());
            }
            let result = self.core.set_len(&content, len);
            self.list_uncommitted(&content);
            result.map_err(|error| error.with_path(&content.called(), || self.path_of(&node)))?;
        }
        match self.change_all_but_length(&node, file, changes) {
            // The kernel keeps times, and hands them in when it syncs, also of what is gone.
            Err(error) if error.errno() == Errno::NOENT && is_gone(&node, changes) => {}
            other => other?,
        }
        self.attributes_of(&node, file)
    }

    fn change_all_but_length(
        &self,
        node: &Arc<Node<S>>,
        file: Option<&OpenFile<S>>,
        changes: &Changes,
    ) -> Result<()> {
        let content = || match file {
            Some(file) => Ok(Arc::clone(&file.content)),
            None => self.content(node),
        };
        if changes.drop_privileges {
            self.drop_privileges(&content()?)?;
        }
        if changes.mode.is_some() || changes.uid.is_some() || changes.gid.is_some() {
            // What asks is told what is shown, and changes what is sealed.
            let change = |sealed| self.ids.map(self.ids.map(sealed).changed(changes));
            let in_store = |at: At<'_, S>, new: Owner| {
                let changes = Changes {
                    mode: changes.mode.map(|_| new.permissions_in_store()),
                    uid: changes.uid,
                    gid: changes.gid,
                    ..Changes::default()
                };
                Ok(self.core.storage.dress(at, &changes)?)
            };
            match node.kind {
                FileType::RegularFile => self.change_file_owner(&content()?, change, in_store)?,
                FileType::Directory => self.change_folder_owner(node, change, in_store)?,
                _ => {
                    let owner = Changes {
                        accessed: None,
                        modified: None,
                        ..*changes
                    };
                    self.with_at(node, file, |at| self.change_symlink_owner(at, &owner))?;
                }
            }
        }
        let mut times = Changes {
            accessed: changes.accessed,
            modified: changes.modified,
            ..Changes::default()
        };
        let set = changes.modified.is_some() || changes.changed.is_some();
        if set && node.kind == FileType::RegularFile {
            let content = content()?;
            self.core
                .set_times(&content, changes.modified, changes.changed)?;
            self.list_uncommitted(&content);
            // In the store, it tells programs that copy of changes.
            times.modified = None;
        }
        if times != Changes::default() {
            self.with_at(node, file, |at| Ok(self.core.storage.change(at, &times)?))?;
        }
        Ok(())
    }

    /// Changes the owner of a symlink, which is the store's own: a store that has no such owners needs
    /// none where nothing is to be changed.
    fn change_symlink_owner(&self, at: At<'_, S>, changes: &Changes) -> Result<()> {
        let storage = &self.core.storage;
        let found = storage.attributes(at)?;
        let same = |new: Option<u32>, old| new.is_none_or(|new| new == old);
        match storage.change(at, changes) {
            Err(error)
                if is_unsupported(&error)
                    && changes.mode.is_none()
                    && same(changes.uid, found.uid)
                    && same(changes.gid, found.gid) =>
            {
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Changes what a file's header says of its owner, at the next commit. `in_store` comes before:
    /// if it fails, nothing is changed.
    pub(crate) fn change_file_owner(
        &self,
        content: &Arc<Content<S>>,
        change: impl Fn(Owner) -> Owner,
        in_store: impl Fn(At<'_, S>, Owner) -> Result<()>,
    ) -> Result<()> {
        {
            let mut state = content.write_state();
            self.core.writable(content, &mut state)?;
            let owner = change(state.now.owner);
            in_store(At::File(&content.file), owner)?;
            state.set_owner(owner);
        }
        self.list_uncommitted(content);
        Ok(())
    }

    /// The same for a folder, durably.
    pub(crate) fn change_folder_owner(
        &self,
        node: &Arc<Node<S>>,
        change: impl Fn(Owner) -> Owner,
        in_store: impl Fn(At<'_, S>, Owner) -> Result<()>,
    ) -> Result<()> {
        let folder = self.folder(node)?;
        let before = folder.record().owner;
        let owner = change(before);
        in_store(At::Dir(folder.dir()), owner)?;
        // One that was removed has no record any more.
        if owner != before && !node.dead.load(Ordering::Relaxed) {
            self.change_folder(&folder, |record| record.owner = change(record.owner))?;
        }
        node.set_owner(owner);
        Ok(())
    }

    /// Takes off what a change of content must not leave: setuid, setgid, capabilities.
    pub(crate) fn drop_privileges(&self, content: &Arc<Content<S>>) -> Result<()> {
        let owner = content.read_state().now.owner;
        if owner != owner.unprivileged() {
            let mut state = content.write_state();
            let owner = state.now.owner.unprivileged();
            state.set_owner(owner);
            drop(state);
            self.list_uncommitted(content);
        }
        let capability = OsStr::new("security.capability");
        let at = At::File(&content.file);
        match self.core.storage.remove_xattr(at, capability) {
            Err(error)
                if !matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM)
                ) =>
            {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    /// Runs `action` with the best way to reach a node.
    pub(crate) fn with_at<T>(
        &self,
        node: &Arc<Node<S>>,
        file: Option<&OpenFile<S>>,
        action: impl FnOnce(At<'_, S>) -> Result<T>,
    ) -> Result<T> {
        if let Some(file) = file {
            return action(At::File(&file.content.file));
        }
        if let Some(content) = node.content_in_use() {
            return action(At::File(&content.file));
        }
        if node.kind == FileType::Directory {
            let folder = lock(&node.folder).clone();
            if let Some(folder) = folder {
                return action(At::Dir(folder.dir()));
            }
        }
        let name = node.name().ok_or(Errno::NOENT)?;
        let folder = self.folder(&name.parent)?;
        action(At::Name(folder.dir(), &name.stored))
    }

    pub(crate) fn attributes_of(
        &self,
        node: &Arc<Node<S>>,
        file: Option<&OpenFile<S>>,
    ) -> Result<Attributes> {
        let found = self.with_at(node, file, |at| Ok(self.core.storage.attributes(at)?));
        let found = match (found, node.last.get()) {
            (Err(error), Some(last)) if error.errno() == Errno::NOENT => *last,
            (found, _) => found?,
        };
        self.shown(node, found)
    }
}

/// Shows when a file changed last. Of a fifo, socket or device, the kernel does not tell when its names
/// change, so that the store's time is the better one.
fn show_changed(owner: Owner, changed: Option<SystemTime>, found: &mut Attributes) {
    if owner.kind() == FileType::RegularFile {
        found.changed = changed.unwrap_or(found.changed);
    }
}

/// Whether only times are to be changed, of something that has no name any more.
fn is_gone<S: Storage>(node: &Node<S>, changes: &Changes) -> bool {
    let times = Changes {
        accessed: changes.accessed,
        modified: changes.modified,
        changed: changes.changed,
        ..Changes::default()
    };
    node.last.get().is_some() && *changes == times
}

fn is_unsupported(error: &std::io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::OPNOTSUPP)
}
