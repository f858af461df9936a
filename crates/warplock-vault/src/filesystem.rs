//! The vault as a [`FileSystem`], for the mount and for tests.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::file::content::Content;
use crate::format::names::{Place, Sealed};
use crate::fs::{
    self, Access, Attributes, Caller, Changes, Entry, FileSystem, FileType, NewNode,
    Node as Number, RenameFlags, Seek, StatVfs, XattrFlags,
};
use crate::store::descriptors::is_exhausted;
use crate::store::storage::{Inode, Storage};
use crate::tree::conflict::may_be_copy;
use crate::tree::folder::Folder;
use crate::tree::listings::{Found, Listing};
use crate::tree::node::Node;
use crate::vault::Vault;

/// An open file of a vault.
pub struct OpenFile<S: Storage> {
    node: Arc<Node<S>>,
    pub(crate) content: Arc<Content<S>>,
    sync: bool,
}

/// An open folder of a vault. It holds no listing and no descriptor: there may be any number.
pub struct OpenDir<S: Storage> {
    node: Arc<Node<S>>,
}

fn found_places(found: &[Found]) -> HashSet<Place> {
    let sealed = found.iter().filter_map(|found| found.sealed.as_ref());
    sealed.map(|sealed| sealed.place).collect()
}

// fallocate(2)
const KEEP_SIZE: u32 = 0x01;
const PUNCH_HOLE: u32 = 0x02;
const ZERO_RANGE: u32 = 0x10;

impl<S: Storage> Vault<S> {
    /// For the kernel only the number; what it cannot tell, a person hears.
    fn answer<T>(&self, result: Result<T>) -> fs::Result<T> {
        result.map_err(|error| {
            if !matches!(error, Error::Errno(_)) {
                self.core.tell_error(&error);
            }
            error.errno()
        })
    }

    /// The same for a file in use, which the error calls by its path.
    fn answer_of<T>(&self, file: &OpenFile<S>, result: Result<T>) -> fs::Result<T> {
        self.answer(
            result.map_err(|error| {
                error.with_path(&file.content.called(), || self.path_of(&file.node))
            }),
        )
    }

    /// What a name was found to lead to, for the kernel, if an object that is known under other names
    /// may have this one. The kernel does nothing when it is to rename an object over itself, so it
    /// must not take two for one.
    fn known(&self, (node, shown): (Arc<Node<S>>, Attributes)) -> Result<Attributes> {
        let checked = match node.names().len() {
            0 | 1 => Ok(()),
            _ => self.check_shared(&node),
        };
        match checked {
            Err(error @ Error::Altered { .. }) => {
                self.nodes.forget(node.number, 1);
                Err(error)
            }
            // What else is wrong shows when it is used.
            _ => Ok(shown),
        }
    }

    fn list_now(&self, node: &Arc<Node<S>>) -> Result<Listing> {
        let folder = self.folder(node)?;
        let parent = node.name().map_or(node.number, |name| name.parent.number);
        let mut found = vec![
            Found::dots(".", node.number, 1),
            Found::dots("..", parent, 2),
        ];
        let mut strange = Vec::new();
        for entry in self.core.storage.list(folder.dir())? {
            match self.plain_name(&folder, &entry.name) {
                Ok(Some((name, place))) => {
                    let sealed = Sealed {
                        stored: entry.name,
                        beside: None,
                        place,
                    };
                    let number = self.nodes.number_of(Inode {
                        volume: folder.inode.volume,
                        number: entry.inode,
                    });
                    let kind = self.listed_kind(&folder, entry.kind, &sealed.stored);
                    found.push(Found::entry(name, number, kind, sealed));
                }
                Ok(None) => strange.push((entry, None)),
                // Or it was removed just now.
                Err(Error::Errno(Errno::NOENT)) => {}
                Err(error) if is_exhausted(&error) => return Err(error),
                // One bad name must not hide the others.
                Err(error) => strange.push((entry, Some(error))),
            }
        }
        strange.retain(|(entry, error)| error.is_some() || may_be_copy(entry));
        if !strange.is_empty() {
            let present = found.iter().filter_map(|found| found.sealed.as_ref());
            let present = present.map(|sealed| sealed.stored.clone()).collect();
            self.tell_of_strange(node, &folder, strange, &present);
        }
        self.expect_listed(node, &folder, &found_places(&found));
        Ok(Listing::new(found))
    }

    /// What an entry is, as far as that can be told without looking into every file.
    fn listed_kind(&self, folder: &Folder<S>, stored: FileType, name: &OsStr) -> FileType {
        if stored != FileType::RegularFile || !folder.record().owner.may_hold_specials() {
            return stored;
        }
        let header = self.core.peek(folder.dir(), name, &"".into());
        header.map_or(stored, |header| header.owner.kind())
    }

    fn open_node(&self, node: &Arc<Node<S>>, access: Access) -> Result<OpenFile<S>> {
        let content = match self.content(node) {
            Err(Error::Unfinished { .. }) if access.write && access.truncate => {
                self.renew(node)?;
                self.content(node)?
            }
            other => other?,
        };
        if content.kind() != FileType::RegularFile {
            // The kernel opens these itself.
            return Err(Errno::NXIO.into());
        }
        if access.write {
            self.may_write()?;
            if !content.writable {
                return Err(self.core.why_not_writable().into());
            }
        }
        if access.truncate {
            let result = self.core.set_len(&content, 0);
            self.list_uncommitted(&content);
            result.map_err(|error| error.with_path(&content.called(), || self.path_of(node)))?;
        }
        Ok(OpenFile {
            node: Arc::clone(node),
            content,
            sync: access.sync,
        })
    }

    fn allocate_in(&self, content: &Content<S>, mode: u32, offset: u64, len: u64) -> Result<()> {
        let (keep, kind) = (mode & KEEP_SIZE != 0, mode & !KEEP_SIZE);
        match kind {
            0 => self.core.reserve(content, offset, len),
            PUNCH_HOLE if keep => self.core.zero(content, offset, len),
            ZERO_RANGE => self.core.zero(content, offset, len),
            _ => Err(Errno::OPNOTSUPP.into()),
        }?;
        let end = offset.saturating_add(len);
        if !keep && end > content.read_state().now.len {
            self.core.set_len(content, end)?;
        }
        Ok(())
    }

    fn fsync_content(&self, content: &Arc<Content<S>>, metadata: bool) -> Result<()> {
        if self.core.read_only {
            return Ok(());
        }
        let mut state = content.write_state();
        if state.dead || !content.writable {
            return Ok(());
        }
        self.core.make_durable(content, &mut state)?;
        if metadata {
            self.core.storage.sync(&content.file, true)?;
        }
        drop(state);
        // Nothing of it can be taken back unnoticed from here on.
        self.core.memory.make_durable()
    }
}

impl<S: Storage> FileSystem for Vault<S> {
    type File = OpenFile<S>;
    type Dir = OpenDir<S>;

    fn lookup(&self, parent: Number, name: &OsStr) -> fs::Result<Attributes> {
        let look = || self.known(self.enter(&self.spot(parent, name)?)?);
        self.answer(self.with_descriptors(look))
    }

    fn forget(&self, node: Number, count: u64) {
        self.nodes.forget(node, count);
    }

    fn attributes(&self, node: Number, file: Option<&OpenFile<S>>) -> fs::Result<Attributes> {
        let attributes = || self.attributes_of(&self.node(node)?, file);
        self.answer(self.with_descriptors(attributes))
    }

    fn change(
        &self,
        node: Number,
        file: Option<&OpenFile<S>>,
        changes: &Changes,
    ) -> fs::Result<Attributes> {
        self.answer(self.changing(|| self.change_node(node, file, changes)))
    }

    fn make(
        &self,
        parent: Number,
        name: &OsStr,
        new: NewNode,
        device: u64,
    ) -> fs::Result<Attributes> {
        self.answer(self.changing(|| {
            let spot = self.spot(parent, name)?;
            match FileType::from_raw_mode(new.mode) {
                FileType::Directory => {
                    self.reserve_descriptors();
                    self.make_folder(&spot, &new)?;
                    self.enter_new(&spot)
                }
                FileType::Symlink => Err(Errno::INVAL.into()),
                _ => Ok(self.make_file(&spot, &new, device as u32)?.0),
            }
        }))
    }

    fn symlink(
        &self,
        parent: Number,
        name: &OsStr,
        target: &OsStr,
        caller: Caller,
    ) -> fs::Result<Attributes> {
        self.answer(self.changing(|| {
            let spot = self.spot(parent, name)?;
            self.make_symlink(&spot, target.as_encoded_bytes(), caller)
        }))
    }

    fn readlink(&self, node: Number) -> fs::Result<Vec<u8>> {
        let read = || Ok(self.read_target(&self.node(node)?)?.to_vec());
        self.answer(self.with_descriptors(read))
    }

    fn link(&self, node: Number, parent: Number, name: &OsStr) -> fs::Result<Attributes> {
        self.answer(self.changing(|| {
            let node = self.node(node)?;
            let spot = self.spot(parent, name)?;
            self.add_link(&node, &spot)?;
            Ok(self.enter(&spot)?.1)
        }))
    }

    fn unlink(&self, parent: Number, name: &OsStr) -> fs::Result<()> {
        self.answer(self.changing(|| self.remove_file(&self.spot(parent, name)?)))
    }

    fn rmdir(&self, parent: Number, name: &OsStr) -> fs::Result<()> {
        self.answer(self.changing(|| {
            let spot = self.spot(parent, name)?;
            self.reserve_descriptors();
            self.remove_folder(&spot)
        }))
    }

    fn rename(
        &self,
        from: (Number, &OsStr),
        to: (Number, &OsStr),
        flags: RenameFlags,
    ) -> fs::Result<()> {
        self.answer(self.changing(|| {
            let from = self.spot(from.0, from.1)?;
            let to = self.spot(to.0, to.1)?;
            self.reserve_descriptors();
            match flags.contains(RenameFlags::WHITEOUT) {
                true => self.rename_leaving_whiteout(&from, &to, flags),
                false => self.rename_spots(&from, &to, flags),
            }
        }))
    }

    fn open(&self, node: Number, access: Access) -> fs::Result<OpenFile<S>> {
        let open = || self.open_node(&self.node(node)?, access);
        self.answer(match access.write {
            true => self.changing(open),
            false => self.with_descriptors(open),
        })
    }

    fn create(
        &self,
        parent: Number,
        name: &OsStr,
        new: NewNode,
        access: Access,
        exclusive: bool,
    ) -> fs::Result<(Attributes, OpenFile<S>)> {
        self.answer(self.changing(|| {
            let spot = self.spot(parent, name)?;
            match self.make_file(&spot, &new, 0) {
                Ok((attributes, content)) => {
                    let file = OpenFile {
                        node: self.node(attributes.node)?,
                        content,
                        sync: access.sync,
                    };
                    Ok((attributes, file))
                }
                Err(error) if error.errno() == Errno::EXIST && !exclusive => {
                    let (node, _) = self.enter(&spot)?;
                    let opened = self
                        .open_node(&node, access)
                        .and_then(|file| Ok((self.attributes_of(&node, Some(&file))?, file)));
                    if opened.is_err() {
                        self.nodes.forget(node.number, 1);
                    }
                    opened
                }
                Err(error) => Err(error),
            }
        }))
    }

    fn read(&self, file: &OpenFile<S>, offset: u64, buffer: &mut [u8]) -> fs::Result<usize> {
        self.answer_of(file, self.core.read(&file.content, offset, buffer))
    }

    fn write(
        &self,
        file: &OpenFile<S>,
        offset: u64,
        data: &[u8],
        drop_privileges: bool,
    ) -> fs::Result<()> {
        let write = || {
            let result = self.core.write(&file.content, offset, data);
            self.list_uncommitted(&file.content);
            result?;
            if drop_privileges {
                self.drop_privileges(&file.content)?;
            }
            if file.sync {
                self.fsync_content(&file.content, false)?;
            }
            Ok(())
        };
        self.answer_of(file, self.changing(write))
    }

    fn fsync(&self, file: &OpenFile<S>, data_only: bool) -> fs::Result<()> {
        let sync = || self.fsync_content(&file.content, !data_only);
        self.answer_of(file, self.changing(sync))
    }

    fn seek(&self, file: &OpenFile<S>, offset: u64, to: Seek) -> fs::Result<u64> {
        self.answer_of(file, self.core.seek(&file.content, offset, to))
    }

    fn allocate(&self, file: &OpenFile<S>, mode: u32, offset: u64, len: u64) -> fs::Result<()> {
        let allocate = || {
            let done = self.allocate_in(&file.content, mode, offset, len);
            self.list_uncommitted(&file.content);
            done
        };
        self.answer_of(file, self.changing(allocate))
    }

    fn open_dir(&self, node: Number) -> fs::Result<OpenDir<S>> {
        self.answer(self.with_descriptors(|| {
            let node = self.node(node)?;
            // What cannot be opened is said now.
            self.folder(&node)?;
            Ok(OpenDir { node })
        }))
    }

    fn list(
        &self,
        dir: &OpenDir<S>,
        offset: u64,
        add: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> fs::Result<()> {
        let kept = (offset > 0).then(|| self.listings.get(&dir.node)).flatten();
        let listing = match kept {
            Some(listing) => listing,
            None => {
                let listing = self.with_descriptors(|| self.list_now(&dir.node));
                let listing = Arc::new(self.answer(listing)?);
                self.listings.put(&dir.node, &listing);
                listing
            }
        };
        let rest = listing.after(offset);
        if rest.is_empty() {
            self.listings.drop_listing(&dir.node);
        }
        for found in rest {
            let entry = Entry {
                name: &found.name,
                node: found.node,
                kind: found.kind,
                next: found.next(),
            };
            if !add(entry) {
                break;
            }
        }
        Ok(())
    }

    fn lookup_listed(
        &self,
        dir: &OpenDir<S>,
        parent: Number,
        entry: &Entry<'_>,
    ) -> fs::Result<Attributes> {
        let listing = self.listings.get(&dir.node);
        let found = listing
            .as_ref()
            .and_then(|listing| listing.before(entry.next));
        let name = found
            .filter(|found| found.name == entry.name)
            .and_then(|found| found.sealed.as_ref());
        let Some(name) = name else {
            return self.lookup(parent, entry.name);
        };
        // It was decrypted a moment ago, so it need not be encrypted again.
        let look = || {
            let folder = self.folder(&dir.node)?;
            self.known(self.enter_as(&dir.node, &folder, name)?)
        };
        self.answer(self.with_descriptors(look))
    }

    fn fsync_dir(&self, dir: &OpenDir<S>) -> fs::Result<()> {
        // Of a folder that was removed nothing is left to make durable.
        if self.core.read_only || dir.node.dead.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.answer(self.with_descriptors(|| {
            let folder = self.folder(&dir.node)?;
            self.core.storage.sync_dir(folder.dir())?;
            self.core.memory.folder_synced(&folder.id);
            self.core.memory.make_durable()
        }))
    }

    fn set_xattr(
        &self,
        node: Number,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> fs::Result<()> {
        let write = || self.write_xattr(&self.node(node)?, name, value, flags);
        self.answer(self.changing(write))
    }

    fn get_xattr(&self, node: Number, name: &OsStr) -> fs::Result<Vec<u8>> {
        let read = || self.read_xattr(&self.node(node)?, name);
        self.answer(self.with_descriptors(read))
    }

    fn list_xattrs(&self, node: Number) -> fs::Result<Vec<u8>> {
        let names = || self.xattr_names(&self.node(node)?);
        self.answer(self.with_descriptors(names))
    }

    fn remove_xattr(&self, node: Number, name: &OsStr) -> fs::Result<()> {
        self.answer(self.changing(|| self.delete_xattr(&self.node(node)?, name)))
    }

    fn stat_fs(&self) -> fs::Result<StatVfs> {
        self.answer(self.core.storage.stat_fs().map_err(Error::from))
    }

    fn tick(&self) {
        self.listings.age();
        if let Err(error) = Vault::tick(self) {
            self.core.tell_failure("writing is put off", &error);
        }
    }

    fn unmounted(&self) {
        if let Err(error) = self.finish() {
            self.core
                .tell_failure("the vault could not be closed", &error);
        }
    }
}
