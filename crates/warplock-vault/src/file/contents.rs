//! Contents of files in use: opened once, and shared by all users.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::core::{is_missing, lock};
use crate::error::Result;
use crate::file::content::Content;
use crate::fs::FileType;
use crate::store::storage::{At, Storage};
use crate::tree::node::Node;
use crate::tree::places::Allowed;
use crate::vault::Vault;

/// Which threads may be changing names.
#[derive(Clone, Copy)]
enum Naming {
    Others,
    /// The caller, which holds the lock for that.
    Caller,
}

impl<S: Storage> Vault<S> {
    /// The content of a regular file, shared by all users.
    pub(crate) fn content(&self, node: &Arc<Node<S>>) -> Result<Arc<Content<S>>> {
        let content = self.content_of_allowed(node)?;
        self.expect_names(node, &content, Naming::Others)?;
        Ok(content)
    }

    /// The same for a caller that is changing names.
    pub(crate) fn content_to_name(&self, node: &Arc<Node<S>>) -> Result<Arc<Content<S>>> {
        let content = self.content_of_allowed(node)?;
        self.expect_names(node, &content, Naming::Caller)?;
        Ok(content)
    }

    /// Checks that all names of a file fit what is known, as opening it looked at only one. Each is
    /// judged once, because only a change of names in the vault can put anything else there.
    fn expect_names(
        &self,
        node: &Arc<Node<S>>,
        content: &Content<S>,
        naming: Naming,
    ) -> Result<()> {
        for name in node.unjudged_names() {
            let parent = self.folder(&name.parent)?;
            if !self.is_known_at(&parent, &name, content)? {
                // Or it is just being put there.
                let _naming = match naming {
                    Naming::Others => Some(lock(&self.naming)),
                    Naming::Caller => None,
                };
                let at = At::Name(parent.dir(), &name.stored);
                match self.core.storage.attributes(at) {
                    Ok(found) if found.inode() == node.inode() => {}
                    Err(error) if !is_missing(&error) => return Err(error.into()),
                    _ => {
                        node.remove_name(&name.place);
                        continue;
                    }
                }
                self.expect_at(&parent, &name, content, &self.path_of(node))?;
            }
            node.set_judged(&name.place);
        }
        Ok(())
    }

    /// Checks that all names that are known of a node were given to it, as far as that can be seen
    /// without opening it.
    pub(crate) fn check_shared(&self, node: &Arc<Node<S>>) -> Result<()> {
        match node.kind {
            FileType::RegularFile => {}
            FileType::Directory => return self.folder(node).map(drop),
            _ => return self.read_target(node).map(drop),
        }
        let in_use = lock(&node.content).upgrade();
        if let Some(content) = in_use {
            return self.check_names_of(node, &content);
        }
        let name = node.name().ok_or(Errno::NOENT)?;
        let parent = self.folder(&name.parent)?;
        let what = self.path_of(node);
        let Ok(header) = self.core.peek(parent.dir(), &name.stored, &what) else {
            return Ok(());
        };
        self.check_names(node, |check| check(header.allowed()))
    }

    fn check_names_of(&self, node: &Arc<Node<S>>, content: &Content<S>) -> Result<()> {
        self.check_names(node, |check| {
            let state = content.read_state();
            let left: Vec<_> = state.left.iter().map(|(place, _)| *place).collect();
            check(Allowed {
                left: &left,
                ..state.now.allowed()
            })
        })
    }

    /// The content of a file, if all names that lead there were given to it.
    fn content_of_allowed(&self, node: &Arc<Node<S>>) -> Result<Arc<Content<S>>> {
        match node.kind {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(Errno::INVAL.into()),
        }
        let mut slot = lock(&node.content);
        let in_use = slot.upgrade();
        if let Some(content) = in_use {
            // A thread that is changing names may be waiting for it.
            drop(slot);
            self.check_names_of(node, &content)?;
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
        self.check_names_of(node, &content)?;
        self.expect_content(&parent, &name, &content, &what)?;
        node.set_judged(&name.place);
        self.nodes.claim(node, &content.id);
        self.check_alone(node)?;
        // Whether the name is durable is not known.
        content.write_state().entry = Some(Arc::clone(&parent.dir));
        let content = Arc::new(content);
        *slot = Arc::downgrade(&content);
        drop(slot);
        // A crash may have left it young, or with the same time as different content.
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
}
