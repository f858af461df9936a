//! Symlinks: the target, sealed together with the places where it may stand.

use std::ffi::OsStr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::core::lock;
use crate::error::{Error, Result, Subject};
use crate::format::layout::OVERHEAD;
use crate::fs::{Attributes, Caller, Changes, RenameFlags, SetTime};
use crate::memory::Version;
use crate::store::storage::{At, Storage};
use crate::tree::edit::Spot;
use crate::tree::node::{Name, Node};
use crate::tree::places::{PLACES_LEN, Places};
use crate::vault::Vault;

const AAD: &[u8] = b"warplock-vault/2 symlink";
/// The longest target of a symlink in the store, where Linux allows 4,095 bytes.
const MAX_STORED: usize = 4095;
/// The longest target.
const MAX_TARGET: usize = MAX_STORED / 4 * 3 - OVERHEAD - PLACES_LEN - Version::LEN;

/// A symlink's target, where it may stand, and which state of it this is.
pub(crate) struct Target {
    places: Places,
    pub(crate) version: Version,
    target: Zeroizing<Vec<u8>>,
    /// The whole content, as it is in the store.
    pub(crate) text: Vec<u8>,
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
        let places = Places::at(spot.name.place);
        let version = self.first_version(&spot.folder, spot.name.place)?;
        let sealed = self.seal_target(target, &places, &version)?;
        self.core.storage.make_symlink(dir, name, &sealed)?;
        let storage = &self.core.storage;
        if rustix::process::geteuid().is_root() {
            let parent = storage.attributes(At::Dir(spot.folder.dir()))?;
            let changes = Changes {
                uid: Some(caller.uid),
                gid: (parent.mode & 0o2000 == 0).then_some(caller.gid),
                ..Changes::default()
            };
            storage.dress(spot.at(), &changes)?;
        }
        self.remember_symlink(spot, &version, &sealed)?;
        self.enter_new(spot)
    }

    /// Reads a symlink's target.
    pub(crate) fn read_target(&self, node: &Arc<Node<S>>) -> Result<Zeroizing<Vec<u8>>> {
        let read = || -> Result<_> {
            let name = node.name().ok_or(Errno::NOENT)?;
            let folder = self.folder(&name.parent)?;
            let what = || self.path_of(node);
            let target = self.open_target(folder.dir(), &name.stored, what)?;
            Ok((name, folder, target))
        };
        let fits = |name: &Name<S>, target: &Target| {
            // A hard link to it under another name leads to the same node.
            target.places.contains(&name.place) && node.stands_only_at(target.places.allowed())
        };
        match read() {
            Ok((name, folder, target)) if fits(&name, &target) => {
                self.expect_symlink(node, &folder, (name.place, &name.stored), &target)?;
                return Ok(target.target);
            }
            _ => {}
        }
        // Or it is just being renamed, which writes it again.
        let _naming = lock(&self.naming);
        let (name, folder, target) = read()?;
        let found = self
            .core
            .storage
            .attributes(At::Name(folder.dir(), &name.stored))?;
        if found.inode() != node.inode() {
            return Err(self.stale(node, &name, None));
        }
        let allowed = target.places.allowed();
        self.check_place(allowed.places, &[name.place], || self.path_of(node))?;
        self.check_names(node, |check| check(allowed))?;
        self.expect_symlink(node, &folder, (name.place, &name.stored), &target)?;
        Ok(target.target)
    }

    /// Writes a symlink again at the spot where it stands, bound to `places`. `over` is where it is
    /// to be put.
    pub(crate) fn bind_symlink(
        &self,
        node: &Arc<Node<S>>,
        stands: &Spot<S>,
        places: Places,
        over: Option<&Spot<S>>,
        durable: bool,
    ) -> Result<()> {
        let storage = &self.core.storage;
        let (dir, name) = stands.pair();
        let target = self.open_target(dir, name, || self.path_of(node))?;
        // One that stands where it must not stays unreadable when it is renamed.
        if !target.places.contains(&stands.name.place) {
            return Err(Error::altered(
                self.path_of(node),
                "this symlink stands under a name that was never given to it",
            ));
        }
        let mut version = target.version;
        if let Some(over) = over {
            version.vector.join(&self.standing(over)?);
        }
        let version = self.core.memory.successor(&stands.name.place, &version)?;
        let sealed = self.seal_target(&target.target, &places, &version)?;
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
            .dress(at, &changes)
            .and_then(|()| storage.rename((dir, temporary), (dir, name), RenameFlags::empty()));
        if bound.is_err() {
            let _ = self
                .core
                .tidied(storage.unlink(dir, temporary).map_err(Into::into));
        }
        bound?;
        self.nodes.replace_inode(node, new.inode());
        self.remember_symlink(stands, &version, &sealed)?;
        if durable {
            storage.sync_dir(dir)?;
        }
        Ok(())
    }

    /// Judges a symlink that is about to be written again, which makes it the newest.
    pub(crate) fn expect_symlink_at(&self, node: &Arc<Node<S>>, spot: &Spot<S>) -> Result<()> {
        let (dir, stored) = spot.pair();
        let target = self.open_target(dir, stored, || self.path_of(node))?;
        self.expect_symlink(node, &spot.folder, (spot.name.place, stored), &target)
    }

    /// Notes that a symlink stands at a spot now.
    pub(crate) fn remember_moved_symlink(&self, spot: &Spot<S>) -> Result<()> {
        let (dir, stored) = spot.pair();
        let target = self.open_target(dir, stored, || self.called(spot))?;
        self.remember_symlink(spot, &target.version, &target.text)
    }

    /// Whether the symlink at this spot is being renamed.
    pub(crate) fn is_moving_symlink(&self, spot: &Spot<S>) -> Result<bool> {
        let (dir, name) = spot.pair();
        let target = self.open_target(dir, name, || self.called(spot))?;
        Ok(target.places.is_moving())
    }

    fn called(&self, spot: &Spot<S>) -> Subject {
        self.subject_in(&spot.node, &spot.folder, &spot.name.stored)
    }

    fn seal_target(&self, target: &[u8], places: &Places, version: &Version) -> Result<Vec<u8>> {
        let len = PLACES_LEN + Version::LEN + target.len();
        let mut plain = Zeroizing::new(Vec::with_capacity(len));
        plain.extend(places.encode());
        plain.extend(version.encode());
        plain.extend_from_slice(target);
        let keys = &self.core.keys;
        let sealed = keys.engines.seal(&keys.symlinks, AAD, &plain)?;
        Ok(BASE64.encode(sealed).into_bytes())
    }

    fn open_target(
        &self,
        dir: &S::Dir,
        stored: &OsStr,
        what: impl Fn() -> Subject,
    ) -> Result<Target> {
        let text = self.core.storage.read_symlink(dir, stored)?;
        let why = "its target does not verify; restore it from a backup";
        let altered = || Error::altered(what(), why);
        let sealed = BASE64.decode(&text).map_err(|_| altered())?;
        let keys = &self.core.keys;
        let plain = keys.engines.open(&keys.symlinks, AAD, &sealed)?;
        let plain = plain.ok_or_else(altered)?;
        let target = decode(&plain).ok_or_else(altered)?;
        Ok(Target { text, ..target })
    }
}

/// What a symlink's plaintext says.
pub(crate) fn decode(plain: &[u8]) -> Option<Target> {
    let (places, rest) = Places::decode(plain)?;
    let (version, target) = rest.split_first_chunk()?;
    Some(Target {
        places,
        version: Version::decode(version),
        target: Zeroizing::new(target.to_vec()),
        text: Vec::new(),
    })
}
