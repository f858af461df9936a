//! The names of a file: adding one, and the places that its header allows.

use std::sync::Arc;

use rustix::io::Errno;

use crate::core::{is_missing, lock};
use crate::error::Result;
use crate::file::content::Content;
use crate::format::header::MAX_PLACES;
use crate::format::names::Place;
use crate::fs::FileType;
use crate::store::storage::Storage;
use crate::tree::edit::Spot;
use crate::tree::node::Node;
use crate::vault::Vault;

impl<S: Storage> Vault<S> {
    /// Gives a file another name.
    pub(crate) fn add_link(&self, node: &Arc<Node<S>>, spot: &Spot<S>) -> Result<()> {
        self.may_write()?;
        let _naming = lock(&self.naming);
        let name = node.name().ok_or(Errno::NOENT)?;
        match self.core.storage.attributes(spot.at()) {
            Ok(_) => return Err(Errno::EXIST.into()),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error.into()),
        }
        let content = match node.kind {
            FileType::RegularFile => self.content_to_name(node)?,
            // A symlink is bound to one place; a folder has one name only.
            _ => return Err(Errno::PERM.into()),
        };
        let from = self.folder(&name.parent)?;
        self.expect_kind_in(&spot.folder, content.kind())?;
        self.allow_place(&content, spot, None)?;
        let linked = self.make_beside(spot).and_then(|()| {
            let from = (from.dir(), name.stored.as_os_str());
            Ok(self.core.storage.link(from, spot.pair())?)
        });
        match &linked {
            Err(_) => self.forbid_place(&content, &spot.name.place, &[&spot.folder.dir]),
            Ok(()) => self.remember_content(spot, &content)?,
        }
        linked
    }

    /// Durably allows a file at a spot, before it gets there. `leaves` is the place that a rename
    /// takes it from: the last free place is reserved for a rename.
    pub(crate) fn allow_place(
        &self,
        content: &Arc<Content<S>>,
        spot: &Spot<S>,
        leaves: Option<Place>,
    ) -> Result<()> {
        let mut state = content.write_state();
        self.core.writable(content, &mut state)?;
        self.core.commit(content, &mut state, false)?;
        let room = MAX_PLACES - usize::from(leaves.is_none());
        if state.now.places.len() >= room {
            return Err(Errno::MLINK.into());
        }
        let standing = self.standing(spot)?;
        state.now.version.vector.join(&standing);
        state.left.retain(|(place, _)| *place != spot.name.place);
        state.now.add_place(spot.name.place, leaves);
        state.dirty = true;
        let allowed = self.core.commit(content, &mut state, true);
        if allowed.is_ok() {
            state.entry = Some(Arc::clone(&spot.folder.dir));
        }
        let (broken, young) = (state.broken, state.is_young());
        drop(state);
        if young {
            self.list_uncommitted(content);
        }
        if allowed.is_err() && !broken {
            self.forbid_place(content, &spot.name.place, &[&spot.folder.dir]);
        }
        allowed
    }

    /// Removes a place from a file that no longer stands there, at its next commit: the header may
    /// stop naming it only when the change of `folders` is durable.
    pub(crate) fn forbid_place(
        &self,
        content: &Arc<Content<S>>,
        place: &Place,
        folders: &[&Arc<S::Dir>],
    ) {
        let folders = folders.iter().map(|dir| Arc::clone(dir)).collect();
        content.write_state().left.push((*place, folders));
        self.list_uncommitted(content);
    }
}
