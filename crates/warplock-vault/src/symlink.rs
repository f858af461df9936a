//! Symlinks: the target, sealed together with the places where it may stand.

use std::ffi::OsStr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::fs::{Attributes, Caller, Changes, RenameFlags, SetTime};
use crate::layout::OVERHEAD;
use crate::names::Place;
use crate::node::Node;
use crate::storage::{At, Storage};
use crate::tree::Spot;
use crate::vault::Vault;

const AAD: &[u8] = b"warplock-vault/1 symlink";
/// The longest target of a symlink in the store, where Linux allows 4,095 bytes.
const MAX_STORED: usize = 4095;
/// The longest target, so that there is room for two places.
const MAX_TARGET: usize = MAX_STORED / 4 * 3 - OVERHEAD - 1 - 32;

/// A symlink's target and where it may stand.
pub(crate) struct Target {
    places: Vec<Place>,
    target: Zeroizing<Vec<u8>>,
}

impl<S: Storage> Vault<S> {
    pub(crate) fn make_symlink(
        &self,
        spot: &Spot<S>,
        target: &[u8],
        caller: Caller,
    ) -> Result<Attributes> {
        self.may_write()?;
        if target.len() > MAX_TARGET {
            return Err(Errno::NAMETOOLONG.into());
        }
        self.make_beside(spot)?;
        let (dir, name) = spot.pair();
        let sealed = self.seal_target(target, &[spot.name.place])?;
        self.core.storage.make_symlink(dir, name, &sealed)?;
        let storage = &self.core.storage;
        if rustix::process::geteuid().is_root() {
            let parent = storage.attributes(At::Dir(spot.folder.dir()))?;
            let changes = Changes {
                uid: Some(caller.uid),
                gid: (parent.mode & 0o2000 == 0).then_some(caller.gid),
                ..Changes::default()
            };
            storage.change(spot.at(), &changes)?;
        }
        self.enter_new(spot)
    }

    /// Reads a symlink's target.
    pub(crate) fn read_target(&self, node: &Arc<Node<S>>) -> Result<Zeroizing<Vec<u8>>> {
        let name = node.name().ok_or(Errno::NOENT)?;
        let folder = self.folder(&name.parent)?;
        let target = self.open_target(folder.dir(), &name.stored)?;
        if !target.places.contains(&name.place) {
            return Err(Error::altered(
                self.path_of(node),
                "this symlink stands under a name that was never given to it: somebody moved \
                 or swapped it in the store; move it back",
            ));
        }
        Ok(target.target)
    }

    /// Writes a symlink anew at the spot where it stands, bound to the places of `spots`.
    pub(crate) fn bind_symlink(
        &self,
        node: &Arc<Node<S>>,
        stands: &Spot<S>,
        spots: &[&Spot<S>],
        durable: bool,
    ) -> Result<()> {
        let storage = &self.core.storage;
        let (dir, name) = stands.pair();
        let target = self.open_target(dir, name)?;
        // One that stands where it must not stays unreadable when it is renamed.
        if !target.places.contains(&stands.name.place) {
            return Err(Error::altered(
                self.path_of(node),
                "this symlink stands under a name that was never given to it",
            ));
        }
        let places: Vec<_> = spots.iter().map(|spot| spot.name.place).collect();
        let sealed = self.seal_target(&target.target, &places)?;
        let found = storage.attributes(stands.at())?;
        let temporary = self.core.temporary_name()?;
        let temporary = OsStr::new(&temporary);
        storage.make_symlink(dir, temporary, &sealed)?;
        let at = At::Name(dir, temporary);
        let new = storage.attributes(at)?;
        let changes = Changes {
            uid: (new.uid != found.uid).then_some(found.uid),
            gid: (new.gid != found.gid).then_some(found.gid),
            accessed: Some(SetTime::To(found.accessed)),
            modified: Some(SetTime::To(found.modified)),
            ..Changes::default()
        };
        let bound = storage
            .change(at, &changes)
            .and_then(|()| storage.rename((dir, temporary), (dir, name), RenameFlags::empty()));
        if bound.is_err() {
            let _ = storage.unlink(dir, temporary);
        }
        bound?;
        self.nodes.replace_inode(node, new.node);
        if durable {
            storage.sync_dir(dir)?;
        }
        Ok(())
    }

    /// How many places the symlink at this spot is bound to.
    pub(crate) fn symlink_places(&self, spot: &Spot<S>) -> Result<usize> {
        let (dir, name) = spot.pair();
        Ok(self.open_target(dir, name)?.places.len())
    }

    fn seal_target(&self, target: &[u8], places: &[Place]) -> Result<Vec<u8>> {
        let mut plain = Zeroizing::new(Vec::with_capacity(1 + 32 + target.len()));
        plain.push(places.len() as u8);
        plain.extend(places.iter().flatten());
        plain.extend_from_slice(target);
        let keys = &self.core.keys;
        let sealed = keys.engines.seal(&keys.symlinks, AAD, &plain)?;
        Ok(BASE64.encode(sealed).into_bytes())
    }

    fn open_target(&self, dir: &S::Dir, stored: &OsStr) -> Result<Target> {
        let text = self.core.storage.read_symlink(dir, stored)?;
        let altered = || {
            Error::altered(
                format!("the symlink {} in the store", stored.to_string_lossy()),
                "its target does not verify; restore it from a backup",
            )
        };
        let sealed = BASE64.decode(text).map_err(|_| altered())?;
        let keys = &self.core.keys;
        let plain = keys
            .engines
            .open(&keys.symlinks, AAD, &sealed)?
            .ok_or_else(altered)?;
        decode(&plain).ok_or_else(altered)
    }
}

/// What a symlink's plaintext says.
pub(crate) fn decode(plain: &[u8]) -> Option<Target> {
    let (count, rest) = plain.split_first()?;
    let (places, target) = rest.split_at_checked(16 * usize::from(*count))?;
    Some(Target {
        places: places.as_chunks().0.to_vec(),
        target: Zeroizing::new(target.to_vec()),
    })
}
