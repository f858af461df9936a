//! Names and what stands under them: looking up, making, linking, removing.

use std::ffi::OsStr;
use std::sync::{Arc, Weak};

use rustix::io::Errno;

use crate::core::{is_missing, lock};
use crate::error::{Error, Result};
use crate::file::content::{Content, State};
use crate::format::header::{Header, Owner, first_header};
use crate::format::keys::{FileKeys, Id, random};
use crate::format::names::{Place, Sealed};
use crate::fs::{Attributes, Changes, FileType, NewNode, RenameFlags};
use crate::memory::Stamp;
use crate::store::storage::{At, Storage};
use crate::tree::folder::{Folder, Record};
use crate::tree::foreign::{foreign, is_foreign};
use crate::tree::node::Node;
use crate::tree::owners::{DEFAULT_ACL, SETGID, TYPE};
use crate::tree::places::Places;
use crate::vault::Vault;

/// A name in an open folder.
pub(crate) struct Spot<S: Storage> {
    pub(crate) node: Arc<Node<S>>,
    pub(crate) folder: Arc<Folder<S>>,
    pub(crate) name: Sealed,
}

impl<S: Storage> Spot<S> {
    /// What stands there, in the store.
    pub(crate) fn at(&self) -> At<'_, S> {
        At::Name(self.folder.dir(), &self.name.stored)
    }

    pub(crate) fn pair(&self) -> (&S::Dir, &OsStr) {
        (self.folder.dir(), &self.name.stored)
    }
}

/// What is about to lose a name, held by a reference. Afterwards its inode number tells nothing
/// any more: it may be that of something new.
pub(crate) struct Victim<S: Storage> {
    pub(crate) node: Arc<Node<S>>,
    found: Attributes,
}

impl<S: Storage> Vault<S> {
    /// The spot of a name in a folder.
    pub(crate) fn spot(&self, parent: u64, name: &OsStr) -> Result<Spot<S>> {
        let node = self.node(parent)?;
        let folder = self.folder(&node)?;
        let name = self.sealed_name(&folder, name)?;
        Ok(Spot { node, folder, name })
    }

    pub(crate) fn may_write(&self) -> Result<()> {
        if self.core.read_only {
            return Err(Errno::ROFS.into());
        }
        Ok(())
    }

    /// What stands at a spot, with a reference more.
    pub(crate) fn enter(&self, spot: &Spot<S>) -> Result<(Arc<Node<S>>, Attributes)> {
        self.enter_as(&spot.node, &spot.folder, &spot.name)
    }

    /// The same, where the spot is in parts.
    pub(crate) fn enter_as(
        &self,
        parent: &Arc<Node<S>>,
        folder: &Folder<S>,
        name: &Sealed,
    ) -> Result<(Arc<Node<S>>, Attributes)> {
        let at = At::Name(folder.dir(), &name.stored);
        let found = match self.core.storage.attributes(at) {
            Err(error) if is_missing(&error) => {
                self.expect_nothing(parent, folder, name)?;
                return Err(error.into());
            }
            other => other?,
        };
        if is_foreign(&found) {
            return Err(foreign(self.subject_in(parent, folder, &name.stored)));
        }
        let node = self.nodes.enter(parent, name, &found);
        let shown = self.shown_entered(&node, found)?;
        Ok((node, shown))
    }

    /// What was just made at a spot, with a reference.
    pub(crate) fn enter_new(&self, spot: &Spot<S>) -> Result<Attributes> {
        let made = self.core.storage.attributes(spot.at())?;
        let nodes = &self.nodes;
        let node = nodes.enter_new(&spot.node, &spot.name, &made, Weak::new());
        self.shown_entered(&node, made)
    }

    /// The attributes of a node that was just entered, for the caller that gets the reference.
    fn shown_entered(&self, node: &Arc<Node<S>>, found: Attributes) -> Result<Attributes> {
        self.shown(node, found).inspect_err(|_| {
            self.nodes.forget(node.number, 1);
        })
    }

    /// Makes the file next to an entry with a long name.
    pub(crate) fn make_beside(&self, spot: &Spot<S>) -> Result<()> {
        let Some((name, sealed)) = &spot.name.beside else {
            return Ok(());
        };
        match self.core.storage.create(spot.folder.dir(), name, 0o600) {
            Ok(file) => {
                let storage = &self.core.storage;
                let written = storage
                    .write_at(&file, sealed, 0)
                    .and_then(|()| storage.sync(&file, false));
                self.core.tidied(written.map_err(Into::into))
            }
            // Left over from an entry that is gone, or the entry is there; a crash may have
            // left it empty.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let what = || format!("the file {} in the store", name.to_string_lossy()).into();
                let file = self.core.open_own(spot.folder.dir(), name, true, what)?;
                let size = self.core.storage.attributes(At::File(&file))?.size;
                if size != sealed.len() as u64 {
                    self.core.storage.write_at(&file, sealed, 0)?;
                    self.core.storage.set_len(&file, sealed.len() as u64)?;
                    self.core.storage.sync(&file, false)?;
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the file next to an entry that is gone.
    pub(crate) fn drop_beside(&self, spot: &Spot<S>) {
        if let Some((name, _)) = &spot.name.beside {
            // One that stays does no harm: the next entry of that name takes it.
            let _ = self.core.storage.unlink(spot.folder.dir(), name);
        }
    }

    /// The permissions to make something with, and whether they are to be set again afterwards.
    fn mode_for(&self, folder: &Folder<S>, new: &NewNode) -> (u32, bool) {
        let acl = OsStr::new(DEFAULT_ACL);
        let inherits = self
            .core
            .storage
            .get_xattr(At::Dir(folder.dir()), acl)
            .is_ok();
        if inherits {
            (new.mode & 0o7777, false)
        } else {
            (new.mode & 0o7777 & !new.umask, true)
        }
    }

    /// Gives something new in the store its owner and permissions; they are what is to be sealed.
    /// `set`: the permissions are `mode`. Else the folder's ACL has had its say, and may have made
    /// them fewer.
    fn dress(
        &self,
        at: At<'_, S>,
        folder: &Folder<S>,
        new: &NewNode,
        (mode, set): (u32, bool),
        device: u32,
    ) -> Result<Owner> {
        let storage = &self.core.storage;
        let made = storage.attributes(at)?;
        let parent = self.ids.map(folder.record().owner);
        let mut owner = Owner {
            mode: new.mode & TYPE | mode,
            uid: new.caller.uid,
            gid: new.caller.gid,
            rdev: 0,
        };
        if matches!(
            owner.kind(),
            FileType::CharacterDevice | FileType::BlockDevice
        ) {
            owner.rdev = device;
        }
        if !set {
            owner.mode &= !0o777 | made.mode;
        }
        if parent.hands_down_group() {
            owner.gid = parent.gid;
            if owner.kind() == FileType::Directory {
                owner.mode |= SETGID;
            }
        }
        let mut changes = Changes::default();
        if rustix::process::geteuid().is_root() {
            changes.uid = (made.uid != owner.uid).then_some(owner.uid);
            changes.gid = (made.gid != owner.gid).then_some(owner.gid);
        }
        let permissions = owner.permissions_in_store();
        changes.mode = (made.mode & 0o7777 != permissions).then_some(permissions);
        if changes != Changes::default() {
            storage.dress(at, &changes)?;
        }
        Ok(self.ids.map(owner))
    }

    /// Makes an empty file, or what the kernel takes for a fifo, socket or device: in the store it
    /// is a file all the same.
    pub(crate) fn make_file(
        &self,
        spot: &Spot<S>,
        new: &NewNode,
        device: u32,
    ) -> Result<(Attributes, Arc<Content<S>>)> {
        self.may_write()?;
        let permissions = self.mode_for(&spot.folder, new);
        self.expect_kind_in(&spot.folder, FileType::from_raw_mode(new.mode))?;
        self.make_beside(spot)?;
        let core = &self.core;
        let file = core.storage.create(
            spot.folder.dir(),
            &spot.name.stored,
            permissions.0 & 0o777 | 0o600,
        )?;
        let undo = |error: Error| {
            let (dir, name) = spot.pair();
            let _ = core.tidied(core.storage.unlink(dir, name).map_err(Into::into));
            self.drop_beside(spot);
            error
        };
        let made = (|| -> Result<_> {
            let owner = self.dress(At::File(&file), &spot.folder, new, permissions, device)?;
            let (id, keys, header) =
                self.write_first_header(&file, &spot.folder, spot.name.place, owner)?;
            self.remember_file(spot, &id, &header)?;
            let tree = core.tree_of(&header);
            let mut state = State::committed(header, tree);
            state.entry = Some(Arc::clone(&spot.folder.dir));
            // It was without a header for a moment.
            state.timed = 0;
            Ok(Content::new(file, id, keys, true, state))
        })()
        .map_err(undo)?;
        let content = Arc::new(made);
        self.list_uncommitted(&content);
        let found = core.storage.attributes(At::File(&content.file))?;
        let in_use = Arc::downgrade(&content);
        let node = self.nodes.enter_new(&spot.node, &spot.name, &found, in_use);
        self.nodes.claim(&node, &content.id);
        let shown = self.shown_entered(&node, found)?;
        Ok((shown, content))
    }

    /// Makes an empty file of a file in the store that holds nothing.
    fn write_first_header(
        &self,
        file: &S::File,
        folder: &Folder<S>,
        place: Place,
        owner: Owner,
    ) -> Result<(Id, FileKeys, Header)> {
        let core = &self.core;
        let id = random()?;
        let keys = core.keys.file(&id)?;
        let version = self.first_version(folder, place)?;
        let header = first_header(version, owner, vec![place]);
        let sealed = header.seal(&core.keys.engines, &keys.header, &id)?;
        core.storage.set_len(file, core.layout.stored_len(0))?;
        core.storage.write_at(file, &sealed, 0)?;
        core.note(&id, Stamp::default(), &header)?;
        Ok((id, keys, header))
    }

    /// Makes an empty file of one that a crash left empty, for a caller that cuts it to nothing
    /// anyway. Content, or other names, must not be lost silently.
    pub(crate) fn renew(&self, node: &Arc<Node<S>>) -> Result<()> {
        self.may_write()?;
        let name = node.name().ok_or(Errno::NOENT)?;
        let folder = self.folder(&name.parent)?;
        let storage = &self.core.storage;
        let file = storage.open(folder.dir(), &name.stored, true)?;
        let found = storage.attributes(At::File(&file))?;
        let what = self.path_of(node);
        if found.size > 0 || found.links > 1 || found.inode() != node.inode() {
            return Err(Error::Unfinished { what });
        }
        // Whose it was to be was in the header.
        let owner = self.ids.map(Owner::unsealed(FileType::RegularFile));
        let (id, _, header) = self.write_first_header(&file, &folder, name.place, owner)?;
        self.remember_renewed(&folder, &name, &id, &header)?;
        self.core.tell_of(&what, |what| {
            format!("{what} was left empty by a crash when it was made: it was made again")
        });
        Ok(())
    }

    /// Makes a folder: whole under another name, then under its own.
    pub(crate) fn make_folder(&self, spot: &Spot<S>, new: &NewNode) -> Result<()> {
        self.may_write()?;
        let storage = &self.core.storage;
        match storage.attributes(spot.at()) {
            Ok(_) => return Err(Errno::EXIST.into()),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error.into()),
        }
        let permissions @ (mode, set) = self.mode_for(&spot.folder, new);
        let temporary = self.core.temporary_name()?;
        let temporary = OsStr::new(&temporary);
        let parent = spot.folder.dir();
        storage.make_dir(parent, temporary, if set { 0o700 } else { mode | 0o700 })?;
        let made = (|| -> Result<_> {
            let dir = storage.open_dir(parent, temporary)?;
            let owner = self.dress(At::Dir(&dir), &spot.folder, new, permissions, 0)?;
            let version = self.first_version(&spot.folder, spot.name.place)?;
            let record = Record::new(Places::at(spot.name.place), version, owner)?;
            self.core.write_folder_record(&dir, &record)?;
            self.make_beside(spot)?;
            storage.rename((parent, temporary), spot.pair(), RenameFlags::NOREPLACE)?;
            self.core.note_folder(Stamp::default(), &record)?;
            self.remember_folder(spot, &record)?;
            Ok(storage.sync_dir(parent)?)
        })();
        if made.is_err() {
            let _ = self.core.tidied(self.core.purge(parent, temporary));
        }
        made
    }

    /// Something is about to stand in a folder. Where that is a fifo, socket or device, listing the
    /// folder takes a look into what seem files from then on.
    pub(crate) fn expect_kind_in(&self, folder: &Folder<S>, kind: FileType) -> Result<()> {
        if kind == FileType::RegularFile || folder.record().owner.may_hold_specials() {
            return Ok(());
        }
        self.change_folder(folder, |record| {
            record.owner = record.owner.holding_specials();
        })
    }

    /// Removes a name that is no folder's.
    pub(crate) fn remove_file(&self, spot: &Spot<S>) -> Result<()> {
        self.may_write()?;
        let _naming = lock(&self.naming);
        let _removing = self.core.memory.removing()?;
        let found = self.core.storage.attributes(spot.at())?;
        if FileType::from_raw_mode(found.mode) == FileType::Directory {
            return Err(Errno::ISDIR.into());
        }
        self.with_victim(spot, found, |victim| {
            let (dir, name) = spot.pair();
            // With other names left, the header must be written, so the file is opened before.
            let content = self.content_to_unname(victim)?;
            let stamp = self.core.memory.next_stamp()?;
            self.core.storage.unlink(dir, name)?;
            self.unnamed(spot, victim, content, stamp);
            self.drop_beside(spot);
            Ok(())
        })
    }

    /// Runs `action`, which is to take its name from what was found at a spot.
    pub(crate) fn with_victim<T>(
        &self,
        spot: &Spot<S>,
        found: Attributes,
        action: impl FnOnce(&Victim<S>) -> Result<T>,
    ) -> Result<T> {
        self.core.saw_time(found.modified);
        let node = self.nodes.enter(&spot.node, &spot.name, &found);
        let victim = Victim { node, found };
        let result = action(&victim);
        self.nodes.forget(victim.node.number, 1);
        result
    }

    /// The content of a file that is about to lose one of several names.
    pub(crate) fn content_to_unname(&self, victim: &Victim<S>) -> Result<Option<Arc<Content<S>>>> {
        let last = victim.found.links < 2;
        if victim.node.kind != FileType::RegularFile {
            return Ok(None);
        }
        if last {
            self.empty_journal(&victim.node);
            return Ok(None);
        }
        match self.content_to_name(&victim.node) {
            // What was altered can be removed all the same.
            Err(error) if error.errno() == Errno::IO => {
                self.core.tell_error(&error);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Makes sure that no journal holds what was synced to a file that is about to lose its last
    /// name: after a crash, it would look as if the file had been hidden. If that fails, it will,
    /// and nothing is lost.
    fn empty_journal(&self, node: &Arc<Node<S>>) {
        let content = match node.content_in_use() {
            // Opening it deals with what a crash left.
            None if !lock(&self.core.left_over).is_empty() => self.content_to_name(node).ok(),
            content => content,
        };
        let Some(content) = content else { return };
        let mut state = content.write_state();
        if !state.broken && content.writable && self.core.apply(&content, &mut state).is_ok() {
            let journal = state.journal.file.as_ref();
            let _ = journal.map(|journal| self.core.storage.sync(journal, false));
        }
    }

    /// Draws the consequences of a name's end; `stamp` was taken before it.
    pub(crate) fn unnamed(
        &self,
        spot: &Spot<S>,
        victim: &Victim<S>,
        content: Option<Arc<Content<S>>>,
        stamp: Stamp,
    ) {
        let node = &victim.node;
        node.remove_name(&spot.name.place);
        let what = (node.kind, victim.found.links);
        self.remember_gone(spot, what, content.as_deref(), stamp);
        if node.kind != FileType::Directory && victim.found.links > 1 {
            if let Some(content) = content {
                self.forbid_place(&content, &spot.name.place, &[&spot.folder.dir]);
            }
            return;
        }
        let _ = node.last.set(Attributes {
            links: 0,
            ..victim.found
        });
        self.nodes.bury(node);
        if let Some(in_use) = node.content_in_use() {
            let mut state = in_use.write_state();
            state.dead = true;
            // What is committed from now on says that it stands nowhere.
            let folders = vec![Arc::clone(&spot.folder.dir)];
            state.left.push((spot.name.place, folders));
            drop(state);
            drop(content);
            self.let_go(in_use);
        }
    }

    /// Removes an empty folder.
    pub(crate) fn remove_folder(&self, spot: &Spot<S>) -> Result<()> {
        self.may_write()?;
        let _naming = lock(&self.naming);
        let _removing = self.core.memory.removing()?;
        let found = self.core.storage.attributes(spot.at())?;
        if FileType::from_raw_mode(found.mode) != FileType::Directory {
            return Err(Errno::NOTDIR.into());
        }
        self.with_victim(spot, found, |victim| {
            let stamp = self.core.memory.next_stamp()?;
            let gone = match self.set_aside(spot, &victim.node) {
                // One from a lower layer of overlayfs cannot be renamed, only removed.
                Err(error) if error.errno() == Errno::XDEV => spot.name.stored.clone(),
                gone => gone?.into(),
            };
            self.unnamed(spot, victim, None, stamp);
            self.drop_beside(spot);
            let purged = self.core.purge(spot.folder.dir(), &gone);
            self.core.tidied(purged)
        })
    }

    /// Gives an empty folder a temporary name, which takes it out of the tree.
    pub(crate) fn set_aside(&self, spot: &Spot<S>, node: &Arc<Node<S>>) -> Result<String> {
        let (dir, name) = spot.pair();
        let storage = &self.core.storage;
        // It may be another one that was put there.
        let folder = self.folder(node)?;
        if !self.core.clear(&folder)? {
            // Foreign files are not ours to remove with it.
            self.lose_foreign(node, &folder)?;
        }
        let temporary = self.core.temporary_name()?;
        storage.rename(
            (dir, name),
            (dir, OsStr::new(&temporary)),
            RenameFlags::empty(),
        )?;
        Ok(temporary)
    }
}
