//! Renaming: what is renamed is first allowed at its new place, durably, then renamed, then
//! forbidden at its old one. A crash in between leaves it allowed at both.

use std::sync::Arc;

use rustix::io::Errno;

use crate::core::{is_missing, lock};
use crate::error::Result;
use crate::file::content::Content;
use crate::fs::{Attributes, Caller, FileType, NewNode, RenameFlags};
use crate::store::storage::Storage;
use crate::tree::edit::{Spot, Victim};
use crate::tree::folder::Folder;
use crate::tree::foreign::foreign;
use crate::tree::node::Node;
use crate::tree::places::Places;
use crate::vault::Vault;

/// Something on its way from one spot to another.
struct Mover<'a, S: Storage> {
    from: &'a Spot<S>,
    to: &'a Spot<S>,
    node: Arc<Node<S>>,
    what: What<S>,
}

/// What is bound to its place, and how.
enum What<S: Storage> {
    File(Arc<Content<S>>),
    Folder(Arc<Folder<S>>),
    Symlink,
}

impl<S: Storage> Vault<S> {
    pub(crate) fn rename_spots(
        &self,
        from: &Spot<S>,
        to: &Spot<S>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.may_write()?;
        let known = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
        if !known.contains(flags) || flags == known {
            return Err(Errno::INVAL.into());
        }
        let _naming = lock(&self.naming);
        let _removing = self.core.memory.removing()?;
        let storage = &self.core.storage;
        let found = storage.attributes(from.at())?;
        let other = match storage.attributes(to.at()) {
            Ok(other) => Some(other),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error.into()),
        };
        if flags.contains(RenameFlags::NOREPLACE) && other.is_some() {
            return Err(Errno::EXIST.into());
        }
        if other.is_some_and(|other| other.inode() == found.inode()) {
            return self.expect_both(from, to, &found);
        }
        if flags.contains(RenameFlags::EXCHANGE) {
            let other = other.ok_or(Errno::NOENT)?;
            return self.exchange(from, to, found, other);
        }
        let mover = self.mover(from, to, found)?;
        let result = match other {
            Some(other) => self.with_victim(to, other, |victim| self.replace(&mover, Some(victim))),
            None => self.replace(&mover, None),
        };
        self.nodes.forget(mover.node.number, 1);
        result
    }

    /// Two names of one file: by POSIX, nothing happens. But a name that an attacker gave it in the
    /// store would stay where its owner now expects the file, and so would the other one.
    fn expect_both(&self, from: &Spot<S>, to: &Spot<S>, found: &Attributes) -> Result<()> {
        let [node, _] = [from, to].map(|spot| self.nodes.enter(&spot.node, &spot.name, found));
        let fits = match node.kind {
            FileType::RegularFile => self.content_to_name(&node).map(drop),
            FileType::Directory => self.folder(&node).map(drop),
            // It has one name only.
            FileType::Symlink => {
                let [from, to] = [from, to].map(|spot| [spot.name.place]);
                self.check_place(&from, &to, || self.path_of(&node))
            }
            _ => Err(foreign(self.path_of(&node))),
        };
        self.nodes.forget(node.number, 2);
        fits
    }

    fn mover<'a>(
        &self,
        from: &'a Spot<S>,
        to: &'a Spot<S>,
        found: Attributes,
    ) -> Result<Mover<'a, S>> {
        let node = self.nodes.enter(&from.node, &from.name, &found);
        let what = (|| -> Result<_> {
            Ok(match node.kind {
                FileType::RegularFile => {
                    let content = self.content_to_name(&node)?;
                    self.expect_kind_in(&to.folder, content.kind())?;
                    What::File(content)
                }
                FileType::Directory => What::Folder(self.folder(&node)?),
                FileType::Symlink => {
                    self.expect_symlink_at(&node, from)?;
                    What::Symlink
                }
                _ => return Err(foreign(self.path_of(&node))),
            })
        })();
        let what = what.inspect_err(|_| {
            self.nodes.forget(node.number, 1);
        })?;
        Ok(Mover {
            from,
            to,
            node,
            what,
        })
    }

    fn replace(&self, mover: &Mover<'_, S>, victim: Option<&Victim<S>>) -> Result<()> {
        let (from, to) = (mover.from, mover.to);
        let mut aside = None;
        let mut unnamed = None;
        if let Some(victim) = victim {
            let folder = victim.node.kind == FileType::Directory;
            match (folder, mover.node.kind == FileType::Directory) {
                (true, false) => return Err(Errno::ISDIR.into()),
                (false, true) => return Err(Errno::NOTDIR.into()),
                (true, true) => {}
                (false, false) => unnamed = self.content_to_unname(victim)?,
            }
        }
        self.make_beside(to)?;
        // What takes the victim's place is newer than its removal.
        let stamp = self.core.memory.next_stamp()?;
        self.allow(mover)?;
        if let Some(victim) = victim
            && mover.node.kind == FileType::Directory
        {
            // The store's folder is never empty, so it has to go first.
            aside = match self.set_aside(to, &victim.node) {
                Ok(aside) => Some(aside),
                Err(error) => {
                    self.take_back(mover);
                    return Err(error);
                }
            };
        }
        let storage = &self.core.storage;
        if let Err(error) = storage.rename(from.pair(), to.pair(), RenameFlags::empty()) {
            if let Some(aside) = &aside {
                let aside = (to.folder.dir(), std::ffi::OsStr::new(aside));
                let back = storage.rename(aside, to.pair(), RenameFlags::empty());
                self.core.tidied(back.map_err(Into::into))?;
            }
            self.take_back(mover);
            return Err(error.into());
        }
        if let Some(victim) = victim {
            self.unnamed(to, victim, unnamed, stamp);
        }
        mover.node.remove_name(&from.name.place);
        mover
            .node
            .add_name(&to.node, &to.name.stored, to.name.place);
        self.remember_moved(mover)?;
        self.drop_beside(from);
        self.forbid(mover, to)?;
        if let Some(aside) = aside {
            let purged = self
                .core
                .purge(to.folder.dir(), std::ffi::OsStr::new(&aside));
            self.core.tidied(purged)?;
        }
        Ok(())
    }

    /// Renames, and puts a device 0:0 in the former place: so overlayfs marks what it hides.
    pub(crate) fn rename_leaving_whiteout(
        &self,
        from: &Spot<S>,
        to: &Spot<S>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.rename_spots(from, to, flags.difference(RenameFlags::WHITEOUT))?;
        let whiteout = NewNode {
            caller: Caller {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
            mode: FileType::CharacterDevice.as_raw_mode(),
            umask: 0,
        };
        match self.make_file(from, &whiteout, 0) {
            Ok((made, _)) => {
                // The kernel has not looked it up.
                self.nodes.forget(made.node, 1);
                Ok(())
            }
            Err(error) => {
                // What was replaced stays replaced.
                self.rename_spots(to, from, RenameFlags::NOREPLACE)?;
                Err(error)
            }
        }
    }

    fn exchange(
        &self,
        from: &Spot<S>,
        to: &Spot<S>,
        found: Attributes,
        other: Attributes,
    ) -> Result<()> {
        let one = self.mover(from, to, found)?;
        let two = match self.mover(to, from, other) {
            Ok(two) => two,
            Err(error) => {
                self.nodes.forget(one.node.number, 1);
                return Err(error);
            }
        };
        let result = self.swap(&one, &two);
        self.nodes.forget(one.node.number, 1);
        self.nodes.forget(two.node.number, 1);
        result
    }

    fn swap(&self, one: &Mover<'_, S>, two: &Mover<'_, S>) -> Result<()> {
        self.allow(one)?;
        let (from, to) = (one.from.pair(), one.to.pair());
        let swapped = self.allow(two).and_then(|()| {
            let swapped = self.core.storage.rename(from, to, RenameFlags::EXCHANGE);
            swapped.map_err(|error| {
                self.take_back(two);
                error.into()
            })
        });
        if let Err(error) = swapped {
            self.take_back(one);
            return Err(error);
        }
        // Both before anything can fail: until then each leads to the other.
        for mover in [one, two] {
            let (old, new) = (mover.from, mover.to);
            mover.node.remove_name(&old.name.place);
            mover
                .node
                .add_name(&new.node, &new.name.stored, new.name.place);
            self.remember_put(mover)?;
        }
        let first = self.forbid(one, one.to);
        self.forbid(two, two.to).and(first)
    }

    /// Notes that something stands at its new place.
    fn remember_put(&self, mover: &Mover<'_, S>) -> Result<()> {
        match &mover.what {
            What::File(content) => self.remember_content(mover.to, content),
            What::Folder(folder) => self.remember_folder(mover.to, &folder.record()),
            What::Symlink => self.remember_moved_symlink(mover.to),
        }
    }

    fn remember_moved(&self, mover: &Mover<'_, S>) -> Result<()> {
        self.remember_left(mover.from)?;
        self.remember_put(mover)
    }

    /// Allows what is to be renamed at both places, durably; what fails leaves it allowed where it
    /// is.
    fn allow(&self, mover: &Mover<'_, S>) -> Result<()> {
        let (from, to) = (mover.from, mover.to);
        let allowed = match &mover.what {
            What::File(content) => self.allow_place(content, to, Some(from.name.place)),
            What::Folder(folder) => {
                let standing = self.standing(to)?;
                self.change_folder(folder, |record| {
                    record.places = Places::moving(from.name.place, to.name.place);
                    record.version.vector.join(&standing);
                })
            }
            What::Symlink => {
                let places = Places::moving(from.name.place, to.name.place);
                self.bind_symlink(&mover.node, from, places, Some(to), true)
            }
        };
        if allowed.is_err() && !matches!(mover.what, What::File(_)) {
            self.take_back(mover);
        }
        allowed
    }

    /// Forbids what was not renamed after all at its new place. Where that fails, too, `check`
    /// finds an interrupted rename, as after a crash.
    fn take_back(&self, mover: &Mover<'_, S>) {
        let _ = self.forbid(mover, mover.from);
    }

    /// Forbids all places but that of `stays`, where the thing now is.
    fn forbid(&self, mover: &Mover<'_, S>, stays: &Spot<S>) -> Result<()> {
        self.core.tidied(self.forbid_others(mover, stays))
    }

    fn forbid_others(&self, mover: &Mover<'_, S>, stays: &Spot<S>) -> Result<()> {
        let folders = [&mover.from.folder.dir, &mover.to.folder.dir];
        if matches!(mover.what, What::Folder(_) | What::Symlink) {
            for folder in folders {
                self.core.storage.sync_dir(folder)?;
            }
        }
        match &mover.what {
            What::File(content) => {
                let gone = [mover.from, mover.to]
                    .into_iter()
                    .find(|spot| spot.name.place != stays.name.place);
                if let Some(gone) = gone {
                    self.forbid_place(content, &gone.name.place, &folders);
                }
                Ok(())
            }
            What::Folder(folder) => self.set_folder_places(folder, Places::at(stays.name.place)),
            What::Symlink => {
                let places = Places::at(stays.name.place);
                self.bind_symlink(&mover.node, stays, places, None, false)
            }
        }
    }
}
