//! The vault's access to the machine's memory.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::core::{Core, hex, is_missing, journal_id, lock};
use crate::error::{Error, Result, Subject};
use crate::file::content::Content;
use crate::format::config::Config;
use crate::format::header::Header;
use crate::format::keys::{Id, VaultKeys};
use crate::format::names::{Place, Sealed};
use crate::fs::{self, FileType};
use crate::memory::{self, Binding, Kind, Memory, Spot as Key, Stamp, State, Vector, Version};
use crate::store::storage::{At, Storage};
use crate::tree::edit::Spot;
use crate::tree::folder::{Folder, Record, encode};
use crate::tree::node::{Name, Node};
use crate::tree::symlink::Target;
use crate::vault::Vault;

/// A place at which something is missing, its name, and what to say.
type Missing = (Place, OsString, Result<Option<Subject>>);

fn mac(keys: &VaultKeys, parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = Hmac::<Sha256>::new_from_slice(&keys.memory_mac[..]).expect("HMAC takes any key");
    parts.iter().for_each(|part| mac.update(part));
    let mac: [u8; 32] = mac.finalize().into_bytes().into();
    *mac.first_chunk().expect("32 bytes")
}

/// Opens the memory of a vault, and refuses one that is not the vault that was used at this path.
pub(crate) fn open_memory<S: Storage>(
    storage: &S,
    config: &Config,
    keys: &VaultKeys,
    options: &crate::Options,
    read_only: bool,
    path: Option<&Path>,
) -> Result<Memory> {
    let id = config.id();
    if let Some(wanted) = &options.id
        && (wanted.len() != 32 || !wanted.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        return Err(Error::Usage(format!(
            "'{wanted}' is no vault's id: that has 32 hexadecimal digits; `warplock vault info` shows it"
        )));
    }
    if let Some(wanted) = &options.id
        && !wanted.eq_ignore_ascii_case(id)
    {
        return Err(Error::altered(
            "the vault",
            format!("it has the id {id} instead of {wanted}: another vault is in its place"),
        ));
    }
    let vault = journal_id(OsStr::new(id))
        .ok_or_else(|| Error::altered("the vault", "its id is not 32 hexadecimal digits"))?;
    let Some(dir) = &options.memory else {
        return Memory::none(vault);
    };
    let now = Binding {
        id: id.into(),
        fingerprint: hex(&mac(keys, &[b"vault", &vault])),
    };
    let before = match path {
        Some(path) => memory::bound(dir, path)?,
        None => None,
    };
    if let Some(before) = &before
        && *before != now
        && options.id.is_none()
    {
        let how = match before.id == now.id {
            true => "that had another key",
            false => "that had another id",
        };
        return Err(Error::altered(
            "the vault",
            format!(
                "it is not the one that this machine used at this path before: {how} ({} then, {} \
                 now); if you put it there, `warplock vault memory forget` forgets the other, or \
                 name it with --id",
                before.id, now.id
            ),
        ));
    }
    let seal = (&keys.engines, &keys.memory);
    let renew = options.accept && {
        let (mut old, _) = Memory::open(dir, vault, &keys.memory_mac, false, false)?;
        old.claim(storage, seal, false).is_err()
    };
    let (mut memory, known) = Memory::open(dir, vault, &keys.memory_mac, !read_only, renew)?;
    let tell = |text: &str| {
        if let Some(trouble) = &options.trouble {
            trouble(text);
        }
    };
    match memory.claim(storage, seal, renew || !known) {
        Ok(Some(older)) if !options.accept => tell(&older),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    if let Some(path) = path
        && before.as_ref() != Some(&now)
    {
        memory::bind(dir, path, &now)?;
    }
    if !known {
        tell(
            "this machine does not know this vault yet: it takes what it sees first as right, and \
             notices what is put back from then on; `warplock vault check` shows it everything",
        );
    }
    Ok(memory)
}

impl<S: Storage> Core<S> {
    /// An object's state as the memory knows it; `parts` are all of it.
    fn state_of(&self, version: &Version, parts: &[&[u8]]) -> State {
        State {
            stamp: version.stamp,
            tag: match self.memory.exists() {
                true => mac(&self.keys, parts),
                false => [0; 16],
            },
            vector: version.vector.clone(),
        }
    }

    fn file_state(&self, id: &Id, header: &Header) -> State {
        self.state_of(&header.version, &[b"file", id, &header.encode()])
    }

    fn folder_state(&self, record: &Record) -> State {
        self.state_of(&record.version, &[b"folder", &encode(record)])
    }

    /// `text` is what it holds in the store.
    fn symlink_state(&self, version: &Version, text: &[u8]) -> State {
        self.state_of(version, &[b"symlink", text])
    }

    /// Checks that a file's state fits what is known.
    pub(crate) fn expect_state(&self, id: &Id, header: &Header, what: &Subject) -> Result<()> {
        let state = self.file_state(id, header);
        self.memory
            .found(Kind::File, id, &state, None, &|| what.clone())
    }

    /// Notes a state of a file that was just written, based on the one with the stamp `former`.
    pub(crate) fn note(&self, id: &Id, former: Stamp, header: &Header) -> Result<()> {
        let state = self.file_state(id, header);
        self.memory.note(Kind::File, id, former, &state)
    }

    /// Checks that the record of the topmost folder, which stands at no place, fits what is known.
    pub(crate) fn expect_root(&self, record: &Record) -> Result<()> {
        let state = self.folder_state(record);
        let what = || "the topmost folder".into();
        self.memory
            .found(Kind::Folder, &record.id, &state, None, &what)
    }

    /// Notes a folder's record that was just written, durably, from the one with the stamp `former`.
    pub(crate) fn note_folder(&self, former: Stamp, record: &Record) -> Result<()> {
        let state = self.folder_state(record);
        self.memory.note(Kind::Folder, &record.id, former, &state)?;
        self.memory.record_synced(&record.id);
        Ok(())
    }
}

fn key<S: Storage>(folder: &Folder<S>, place: Place) -> Key {
    (folder.id, place)
}

impl<S: Storage> Vault<S> {
    /// What is called so in a folder.
    pub(crate) fn subject_in(
        &self,
        parent: &Arc<Node<S>>,
        folder: &Folder<S>,
        stored: &OsStr,
    ) -> Subject {
        let name = match self.plain_name(folder, stored) {
            Ok(Some((name, _))) => name,
            _ => stored.to_owned(),
        };
        let above = self.path_of(parent);
        Subject {
            shown: format!("{}/{}", above.shown, name.to_string_lossy()),
            logged: format!("{}/{}", above.logged, stored.to_string_lossy()),
        }
    }

    /// Called if nothing was found under a name: checks that nothing is known to stand there.
    pub(crate) fn expect_nothing(
        &self,
        parent: &Arc<Node<S>>,
        folder: &Folder<S>,
        name: &Sealed,
    ) -> Result<()> {
        let missing = self.judge_missing(parent, folder, name.place, &name.stored)?;
        if let Some(sentence) = missing {
            self.core.tell_of(&sentence, str::to_owned);
        }
        Ok(())
    }

    fn judge_missing(
        &self,
        parent: &Arc<Node<S>>,
        folder: &Folder<S>,
        place: Place,
        stored: &OsStr,
    ) -> Result<Option<Subject>> {
        let (memory, spot) = (&self.core.memory, key(folder, place));
        if !memory.stands(&spot)? {
            return Ok(None);
        }
        // Or it is just being removed or renamed.
        let _naming = lock(&self.naming);
        match self.core.storage.attributes(At::Name(folder.dir(), stored)) {
            Err(error) if is_missing(&error) => {}
            _ => return Ok(None),
        }
        memory.found_nothing(&spot, &|| self.subject_in(parent, folder, stored))
    }

    /// What is known to stand in a folder and is not among `present`, with a message about it.
    pub(crate) fn missing(
        &self,
        node: &Arc<Node<S>>,
        folder: &Folder<S>,
        present: &HashSet<Place>,
    ) -> Result<Vec<Missing>> {
        let mut missing = Vec::new();
        for (place, stored) in self.core.memory.entries(&folder.id)? {
            if !present.contains(&place) {
                let name = match self.plain_name(folder, &stored) {
                    Ok(Some((name, _))) => name,
                    _ => stored.clone(),
                };
                missing.push((
                    place,
                    name,
                    self.judge_missing(node, folder, place, &stored),
                ));
            }
        }
        Ok(missing)
    }

    /// Of a missing long name, only its form in the store is known: the entry of that name is
    /// remembered as removed. Whether there was one.
    pub(crate) fn accept_missing(&self, parent: fs::Node, stored: &OsStr) -> Result<bool> {
        let node = self.node(parent)?;
        let folder = self.folder(&node)?;
        let mut known = false;
        for (place, name) in self.core.memory.entries(&folder.id)? {
            if name == stored {
                self.judge_missing(&node, &folder, place, stored)?;
                known = true;
            }
        }
        Ok(known)
    }

    /// Whether anything is known to stand at a spot, or to have stood there.
    pub(crate) fn remembers(&self, spot: &Spot<S>) -> Result<bool> {
        self.core.memory.remembers(&self.key_of(spot))
    }

    /// Tells of what is missing in a listing.
    pub(crate) fn expect_listed(
        &self,
        node: &Arc<Node<S>>,
        folder: &Folder<S>,
        present: &HashSet<Place>,
    ) {
        match self.missing(node, folder, present) {
            Ok(missing) => {
                for (place, _, result) in missing {
                    if !self.core.memory.first_told(&key(folder, place)) {
                        continue;
                    }
                    match result {
                        Ok(None) => {}
                        Ok(Some(sentence)) => self.core.tell_of(&sentence, str::to_owned),
                        Err(error) => self.core.tell_error(&error),
                    }
                }
            }
            Err(error) => self.core.tell_error(&error),
        }
    }

    /// Checks that a file's state and its name fit what is known.
    pub(crate) fn expect_content(
        &self,
        parent: &Folder<S>,
        name: &Name<S>,
        content: &Content<S>,
        what: &Subject,
    ) -> Result<()> {
        let state = self.core.file_state(&content.id, &content.read_state().now);
        let at = Some((key(parent, name.place), name.stored.as_os_str()));
        let memory = &self.core.memory;
        memory.found(Kind::File, &content.id, &state, at, &|| what.clone())
    }

    /// Whether a file is known to stand under a name, with nothing new to note of that.
    pub(crate) fn is_known_at(
        &self,
        parent: &Folder<S>,
        name: &Name<S>,
        content: &Content<S>,
    ) -> Result<bool> {
        let (spot, memory) = (key(parent, name.place), &self.core.memory);
        let stamp = content.read_state().now.version.stamp;
        memory.knows(&spot, Kind::File, &content.id, stamp)
    }

    /// Checks that the name of a file whose state was found right fits what is known.
    pub(crate) fn expect_at(
        &self,
        parent: &Folder<S>,
        name: &Name<S>,
        content: &Content<S>,
        what: &Subject,
    ) -> Result<()> {
        let state = self.core.file_state(&content.id, &content.read_state().now);
        let at = (key(parent, name.place), name.stored.as_os_str());
        let memory = &self.core.memory;
        memory.found_at(Kind::File, &content.id, &state, at, &|| what.clone())
    }

    /// Checks that a folder's record and its name fit what is known.
    pub(crate) fn expect_folder(
        &self,
        parent: &Folder<S>,
        name: &Name<S>,
        record: &Record,
        what: &dyn Fn() -> Subject,
    ) -> Result<()> {
        let state = self.core.folder_state(record);
        let at = Some((key(parent, name.place), name.stored.as_os_str()));
        let memory = &self.core.memory;
        memory.found(Kind::Folder, &record.id, &state, at, what)
    }

    /// Checks that a symlink is the one that is known. Its place serves as its id.
    pub(crate) fn expect_symlink(
        &self,
        node: &Arc<Node<S>>,
        folder: &Folder<S>,
        (place, stored): (Place, &OsStr),
        found: &Target,
    ) -> Result<()> {
        let state = self.core.symlink_state(&found.version, &found.text);
        let at = Some((key(folder, place), stored));
        let (memory, what) = (&self.core.memory, || self.path_of(node));
        memory.found(Kind::Symlink, &place, &state, at, &what)
    }

    fn key_of(&self, spot: &Spot<S>) -> Key {
        key(&spot.folder, spot.name.place)
    }

    /// The version of something that is made at a spot.
    pub(crate) fn first_version(&self, folder: &Folder<S>, place: Place) -> Result<Version> {
        self.core.memory.first(&key(folder, place))
    }

    /// The vector for an object that is put at a spot, which includes what stands, or stood, there.
    pub(crate) fn standing(&self, spot: &Spot<S>) -> Result<Vector> {
        self.core.memory.standing(&self.key_of(spot))
    }

    fn placed(&self, spot: &Spot<S>, kind: Kind, id: &Id, stamp: Stamp) -> Result<()> {
        let (memory, stored) = (&self.core.memory, &spot.name.stored);
        memory.placed(self.key_of(spot), stored, kind, id, stamp)
    }

    /// Notes a file that was just made.
    pub(crate) fn remember_file(&self, spot: &Spot<S>, id: &Id, header: &Header) -> Result<()> {
        self.placed(spot, Kind::File, id, header.version.stamp)
    }

    /// Notes a file that was made again in the place of one without a header.
    pub(crate) fn remember_renewed(
        &self,
        folder: &Folder<S>,
        name: &Name<S>,
        id: &Id,
        header: &Header,
    ) -> Result<()> {
        let stamp = header.version.stamp;
        let (memory, spot) = (&self.core.memory, key(folder, name.place));
        memory.placed(spot, &name.stored, Kind::File, id, stamp)
    }

    /// Notes that a file stands at a spot now. An fsync after that was allowed may have synced the
    /// folder too early.
    pub(crate) fn remember_content(&self, spot: &Spot<S>, content: &Content<S>) -> Result<()> {
        let mut state = content.write_state();
        state.entry = Some(Arc::clone(&spot.folder.dir));
        self.remember_file(spot, &content.id, &state.now)
    }

    /// Notes that a folder stands at a spot now.
    pub(crate) fn remember_folder(&self, spot: &Spot<S>, record: &Record) -> Result<()> {
        self.placed(spot, Kind::Folder, &record.id, record.version.stamp)
    }

    /// Notes a symlink that was just written or put at a spot.
    pub(crate) fn remember_symlink(
        &self,
        spot: &Spot<S>,
        version: &Version,
        text: &[u8],
    ) -> Result<()> {
        let (id, state) = (spot.name.place, self.core.symlink_state(version, text));
        let former = Stamp::default();
        self.core.memory.note(Kind::Symlink, &id, former, &state)?;
        self.placed(spot, Kind::Symlink, &id, version.stamp)
    }

    /// Notes that nothing stands at a spot now; what stood there may stand elsewhere.
    pub(crate) fn remember_left(&self, spot: &Spot<S>) -> Result<()> {
        let memory = &self.core.memory;
        memory.removed(self.key_of(spot), None, memory.next_stamp()?)
    }

    /// Notes the removal of an object that had `links` names. `stamp` was taken before anything
    /// came in its place.
    pub(crate) fn remember_gone(
        &self,
        spot: &Spot<S>,
        (kind, links): (FileType, u32),
        content: Option<&Content<S>>,
        stamp: Stamp,
    ) {
        let memory = &self.core.memory;
        let key = self.key_of(spot);
        let last = match kind {
            FileType::Directory => true,
            // Its place tells of it.
            FileType::Symlink => false,
            _ => links < 2,
        };
        let id = match (last, content) {
            (false, _) => Ok(None),
            (true, Some(content)) => Ok(Some(content.id)),
            (true, None) => memory.occupant_id(&key),
        };
        let noted = id.and_then(|id| memory.removed(key, id.as_ref(), stamp));
        if let Err(error) = noted {
            self.core.tell_error(&error);
        }
    }
}
