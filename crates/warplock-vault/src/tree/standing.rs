//! Checks that an object in use stands at a place and under names that were given to it, and alone.

use std::sync::Arc;

use rustix::io::Errno;

use crate::core::{is_missing, lock};
use crate::error::{Error, Result, Subject};
use crate::format::names::Place;
use crate::store::storage::{At, Storage};
use crate::tree::node::Node;
use crate::tree::places::Allowed;
use crate::vault::Vault;

impl<S: Storage> Vault<S> {
    /// Refuses an object at a place where it may not stand.
    pub(crate) fn check_place(
        &self,
        allowed: &[Place],
        found: &[Place],
        what: impl FnOnce() -> Subject,
    ) -> Result<()> {
        if found.iter().all(|place| allowed.contains(place)) {
            return Ok(());
        }
        Err(Error::altered(
            what(),
            "it stands under a name that was never given to it: it was moved or swapped in \
             the store; move it back, or restore it from a backup",
        ))
    }

    /// Refuses what stands under a name that was never given to it, or taken from it. What links or
    /// renames it allows the new place first; what removes a name forbids the place later. `places`
    /// calls its argument with the places where it may stand, to which none is added meanwhile.
    ///
    /// This is checked at each use, not only at the first: the store may change under a mount at
    /// any time, and the kernel may then use another name for a known node.
    pub(crate) fn check_names(
        &self,
        node: &Arc<Node<S>>,
        places: impl Fn(&mut dyn FnMut(Allowed<'_>) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut fine = false;
        places(&mut |allowed| {
            fine = node.stands_only_at(allowed);
            Ok(())
        })?;
        if fine {
            return Ok(());
        }
        let storage = &self.core.storage;
        let mut standing = Vec::new();
        for name in node.names() {
            // The caller that found it there had it open. Opening and checking it now might lead
            // back here.
            let parent = lock(&name.parent.folder).clone().ok_or(Errno::STALE)?;
            let mut check = |allowed: Allowed<'_>| {
                // A name may be noted although it is gone: a removal may have overtaken the lookup.
                match storage.attributes(At::Name(parent.dir(), &name.stored)) {
                    Ok(found) if found.inode() == node.inode() => {}
                    Err(error) if !is_missing(&error) => return Err(error.into()),
                    _ => {
                        node.remove_name(&name.place);
                        return Ok(());
                    }
                }
                self.check_place(allowed.places, &[name.place], || self.path_of(node))?;
                standing.push(name.place);
                let is_left = allowed.left.contains(&name.place);
                match is_left || allowed.is_at_both(|place| standing.contains(place)) {
                    true => Err(put_back(self.path_of(node))),
                    false => Ok(()),
                }
            };
            places(&mut check)?;
        }
        Ok(())
    }

    /// Refuses an object whose id another one also has: a copy, by a backup program that separated
    /// hard links or by an attacker who wants parts of it in two places. Which one is right cannot
    /// be known, and with one id they would share a journal.
    pub(crate) fn check_alone(&self, node: &Arc<Node<S>>) -> Result<()> {
        if !node.is_contested() {
            return Ok(());
        }
        let mut gone = Vec::new();
        for rival in self.nodes.rivals(node) {
            if self.stands(&rival)? {
                let (one, other) = (self.path_of(node), self.path_of(&rival));
                return Err(Error::altered(
                    one,
                    format!(
                        "{} is a copy of it in the store; remove the wrong one there, or let \
                         `warplock vault check --repair` do that",
                        other.logged
                    ),
                ));
            }
            if rival.is_in_use() {
                return Err(Error::altered(
                    self.path_of(node),
                    "another file was put in its place in the store while it is in use; try again \
                     when the programs that use it have closed it, and a few seconds later",
                ));
            }
            gone.push(rival);
        }
        self.nodes.give_up_claims(node, &gone);
        Ok(())
    }

    /// Whether the store may still have a node's object under one of the names that are known.
    fn stands(&self, node: &Arc<Node<S>>) -> Result<bool> {
        for name in node.names() {
            let Some(parent) = lock(&name.parent.folder).clone() else {
                return Ok(true);
            };
            let at = At::Name(parent.dir(), &name.stored);
            match self.core.storage.attributes(at) {
                Ok(found) if found.inode() == node.inode() => return Ok(true),
                Err(error) if !is_missing(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// Something stands at both places of a rename, or at one that it was taken from.
pub(crate) fn put_back(what: Subject) -> Error {
    Error::altered(
        what,
        "it stands under a name that was taken from it by a rename or a removal: it was put \
         back there; remove the old name in the store",
    )
}
