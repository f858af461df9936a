//! Attributes of nodes: how they are reached, shown and changed.

use std::ffi::OsStr;
use std::sync::Arc;

use rustix::io::Errno;

use crate::core::lock;
use crate::error::Result;
use crate::filesystem::OpenFile;
use crate::fs::{Attributes, Changes, FileType, Node as Number};
use crate::node::Node;
use crate::storage::{At, Storage};
use crate::vault::Vault;

impl<S: Storage> Vault<S> {
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
            let result = self.core.set_len(&content, len);
            self.list_uncommitted(&content);
            result?;
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
        let mut in_store = *changes;
        if let Some(modified) = changes.modified
            && node.kind == FileType::RegularFile
        {
            let content = match file {
                Some(file) => Arc::clone(&file.content),
                None => self.content(node)?,
            };
            self.core.set_modified(&content, modified)?;
            self.list_uncommitted(&content);
            // In the store, it tells programs that copy of changes.
            in_store.modified = None;
        }
        self.with_at(node, file, |at| self.change_at(at, &in_store))
    }

    /// Changes what the store keeps: all but the length.
    fn change_at(&self, at: At<'_, S>, changes: &Changes) -> Result<()> {
        if changes.drop_privileges {
            self.drop_privileges(at)?;
        }
        let asks = changes.mode.is_some()
            || changes.uid.is_some()
            || changes.gid.is_some()
            || changes.accessed.is_some()
            || changes.modified.is_some();
        if asks {
            self.core.storage.change(at, changes)?;
        }
        Ok(())
    }

    /// Takes off what a change of content must not leave: setuid, setgid, capabilities.
    pub(crate) fn drop_privileges(&self, at: At<'_, S>) -> Result<()> {
        let storage = &self.core.storage;
        let mode = storage.attributes(at)?.mode;
        // Without execution by the group, setgid means something else.
        let setgid = if mode & 0o010 != 0 { 0o2000 } else { 0 };
        let drop = mode & (0o4000 | setgid);
        if drop != 0 {
            let changes = Changes {
                mode: Some(mode & 0o7777 & !drop),
                ..Changes::default()
            };
            storage.change(at, &changes)?;
        }
        let capability = OsStr::new("security.capability");
        match storage.remove_xattr(at, capability) {
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

/// Whether only times are to be changed, of something that has no name any more.
fn is_gone<S: Storage>(node: &Node<S>, changes: &Changes) -> bool {
    let times = Changes {
        accessed: changes.accessed,
        modified: changes.modified,
        ..Changes::default()
    };
    node.last.get().is_some() && *changes == times
}
