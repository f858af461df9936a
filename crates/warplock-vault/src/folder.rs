//! A folder's record: its id, under which names in it are encrypted, and where it may stand.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use warplock::{Algorithm, Engine};
use warplock_keyring::MasterKey;

use crate::core::{Core, is_missing};
use crate::error::{Error, Result};
use crate::fs::{FileType, RenameFlags};
use crate::keys::{Id, VaultKeys, random};
use crate::names::{self, Place, ROOT_PLACE};
use crate::storage::{At, Listed, Storage};

/// The record's name in the folder.
pub(crate) const RECORD: &str = "warplock.dir";
/// The record while it is being written.
const RECORD_NEW: &str = "warplock.dir.new";
const AAD: &[u8] = b"warplock-vault/1 folder";
/// An id, a number, two places.
const PLAIN_LEN: usize = 16 + 1 + 32;

/// An open folder.
pub(crate) struct Folder<S: Storage> {
    pub(crate) dir: Arc<S::Dir>,
    pub(crate) id: Id,
}

impl<S: Storage> Folder<S> {
    pub(crate) fn dir(&self) -> &S::Dir {
        &self.dir
    }
}

/// What a folder's record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: Id,
    /// One place, or two while the folder is being renamed.
    pub(crate) places: Vec<Place>,
}

impl<S: Storage> Core<S> {
    /// Reads the record of the folder `dir`, which errors call `what`.
    pub(crate) fn read_folder_record(&self, dir: &S::Dir, what: &str) -> Result<Record> {
        let open = || match self.storage.open(dir, OsStr::new(RECORD), false) {
            Err(error) if is_missing(&error) => Err(Error::altered(
                what,
                format!("its {RECORD} is missing; restore it from a backup"),
            )),
            other => Ok(other?),
        };
        let file = self.storage.permitted(dir, open)?;
        let mut sealed = [0; PLAIN_LEN + crate::layout::OVERHEAD + 1];
        let len = self.storage.read_at(&file, &mut sealed, 0)?;
        let engines = &self.keys.engines;
        let plain = engines.open(&self.keys.folders, AAD, &sealed[..len])?;
        plain.and_then(|plain| decode(&plain)).ok_or_else(|| {
            Error::altered(
                what,
                format!("its {RECORD} does not verify; restore it from a backup"),
            )
        })
    }

    /// Writes the record of a folder, durably.
    pub(crate) fn write_folder_record(&self, dir: &S::Dir, record: &Record) -> Result<()> {
        write_record(&self.storage, &self.keys, dir, record)
    }

    /// The ciphertext name in a file beside an entry with a long name; what is longer is cut.
    pub(crate) fn read_beside(&self, dir: &S::Dir, beside: &OsStr) -> Result<Vec<u8>> {
        let file = self.storage.open(dir, beside, false)?;
        let mut sealed = vec![0; names::MAX_NAME + 17];
        let len = self.storage.read_at(&file, &mut sealed, 0)?;
        sealed.truncate(len);
        Ok(sealed)
    }

    /// A name for something that is not in the tree yet, or no more.
    pub(crate) fn temporary_name(&self) -> Result<String> {
        Ok(format!("{TEMPORARY}{}", crate::core::hex(&random::<12>()?)))
    }

    /// Whether something was left by an interrupted operation and holds nothing.
    pub(crate) fn is_unfinished(&self, dir: &S::Dir, entry: &Listed) -> Result<bool> {
        if entry.name == RECORD_NEW {
            return Ok(entry.kind == FileType::RegularFile);
        }
        if !is_temporary(&entry.name) {
            return Ok(false);
        }
        match entry.kind {
            FileType::Symlink => Ok(true),
            FileType::Directory => self.holds_nothing(&self.storage.open_dir(dir, &entry.name)?),
            _ => Ok(false),
        }
    }

    /// Whether a folder that is not in the tree holds nothing but what the vault makes in an empty
    /// one.
    pub(crate) fn holds_nothing(&self, dir: &S::Dir) -> Result<bool> {
        let listed = self
            .storage
            .permitted(dir, || Ok(self.storage.list(dir)?))?;
        for entry in &listed {
            let ours = entry.name == RECORD || names::is_beside(&entry.name);
            let ours = ours && entry.kind == FileType::RegularFile;
            if !ours && !self.is_unfinished(dir, entry)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes what is left of a folder that is not in the tree, or a file.
    pub(crate) fn purge(&self, dir: &S::Dir, name: &OsStr) -> Result<()> {
        let attributes = self.storage.attributes(At::Name(dir, name))?;
        if attributes.mode & 0o170_000 != 0o040_000 {
            return Ok(self.storage.unlink(dir, name)?);
        }
        let inner = self.storage.open_dir(dir, name)?;
        self.storage.permitted(&inner, || {
            for entry in self.storage.list(&inner)? {
                self.purge(&inner, &entry.name)?;
            }
            Ok(())
        })?;
        Ok(self.storage.remove_dir(dir, name)?)
    }
}

fn write_record<S: Storage>(
    storage: &S,
    keys: &VaultKeys,
    dir: &S::Dir,
    record: &Record,
) -> Result<()> {
    let sealed = keys.engines.seal(&keys.folders, AAD, &encode(record))?;
    let (new, name) = (OsStr::new(RECORD_NEW), OsStr::new(RECORD));
    storage.permitted(dir, || {
        match storage.unlink(dir, new) {
            Err(error) if !is_missing(&error) => return Err(error.into()),
            _ => {}
        }
        let file = storage.create(dir, new, 0o600)?;
        storage.write_at(&file, &sealed, 0)?;
        storage.sync(&file, true)?;
        storage.rename((dir, new), (dir, name), RenameFlags::empty())?;
        Ok(storage.sync_dir(dir)?)
    })
}

/// Makes the record of the topmost folder of a new vault.
pub(crate) fn write_root_record<S: Storage>(
    storage: &S,
    root: &S::Dir,
    master: &MasterKey,
) -> Result<()> {
    let engine = Arc::new(Engine::builder().threads(NonZeroUsize::MIN).build()?);
    let keys = VaultKeys::new(master, Algorithm::Aes256Gcm, engine)?;
    let record = Record {
        id: random()?,
        places: vec![ROOT_PLACE],
    };
    write_record(storage, &keys, root, &record)
}

/// What names of temporary things begin with; 24 hexadecimal digits follow.
const TEMPORARY: &str = "warplock.tmp.";

fn is_temporary(stored: &OsStr) -> bool {
    let rest = stored
        .to_str()
        .and_then(|name| name.strip_prefix(TEMPORARY));
    rest.is_some_and(|rest| {
        rest.len() == 24
            && rest
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

pub(crate) fn encode(record: &Record) -> [u8; PLAIN_LEN] {
    let mut plain = [0; PLAIN_LEN];
    plain[..16].copy_from_slice(&record.id);
    plain[16] = record.places.len() as u8;
    for (room, place) in plain[17..].chunks_exact_mut(16).zip(&record.places) {
        room.copy_from_slice(place);
    }
    plain
}

pub(crate) fn decode(plain: &[u8]) -> Option<Record> {
    let plain: &[u8; PLAIN_LEN] = plain.try_into().ok()?;
    let count = usize::from(plain[16]);
    if !(1..=2).contains(&count) {
        return None;
    }
    Some(Record {
        id: *plain.first_chunk()?,
        places: plain[17..]
            .chunks_exact(16)
            .take(count)
            .map(|place| place.try_into().expect("chunks of 16"))
            .collect(),
    })
}
