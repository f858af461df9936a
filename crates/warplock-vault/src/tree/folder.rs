//! A folder's record: its id, under which names in it are encrypted, and where it may stand.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use rustix::io::Errno;
use warplock::{Algorithm, Engine};
use warplock_keyring::MasterKey;

use crate::core::{Core, is_missing};
use crate::error::{Error, Result, Subject};
use crate::format::header::Owner;
use crate::format::keys::{Id, VaultKeys, random};
use crate::format::names::{self, ROOT_PLACE};
use crate::fs::{Changes, FileType, RenameFlags, SetTime};
use crate::memory::Version;
use crate::store::storage::{At, Inode, Listed, Storage};
use crate::tree::places::{PLACES_LEN, Places};

/// The record's name in the folder.
pub(crate) const RECORD: &str = "warplock.dir";
/// The record while it is being written.
pub(crate) const RECORD_NEW: &str = "warplock.dir.new";
const AAD: &[u8] = b"warplock-vault/2 folder";
const PLAIN_LEN: usize = 16 + PLACES_LEN + Version::LEN + Owner::SHORT_LEN;
/// The longest file next to an entry; records are shorter.
const MAX_SPARE: usize = names::MAX_NAME + 16;

/// An open folder.
pub(crate) struct Folder<S: Storage> {
    pub(crate) dir: Arc<S::Dir>,
    pub(crate) inode: Inode,
    pub(crate) id: Id,
    /// Only the vault changes it, so it is not read again while the folder is open.
    record: RwLock<Record>,
}

impl<S: Storage> Folder<S> {
    pub(crate) fn new(dir: S::Dir, inode: Inode, record: Record) -> Self {
        Folder {
            dir: Arc::new(dir),
            inode,
            id: record.id,
            record: RwLock::new(record),
        }
    }

    /// Its record, which does not change while this is held.
    pub(crate) fn record(&self) -> RwLockReadGuard<'_, Record> {
        self.record.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, to be changed with that in the store.
    pub(crate) fn record_mut(&self) -> RwLockWriteGuard<'_, Record> {
        self.record.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn dir(&self) -> &S::Dir {
        &self.dir
    }
}

/// What a folder's record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: Id,
    pub(crate) places: Places,
    /// Which state it is, across machines.
    pub(crate) version: Version,
    /// No folder is a device.
    pub(crate) owner: Owner,
}

impl Record {
    /// The record of a new folder.
    pub(crate) fn new(places: Places, version: Version, owner: Owner) -> Result<Self> {
        Ok(Record {
            id: random()?,
            places,
            version,
            owner,
        })
    }
}

impl<S: Storage> Core<S> {
    /// Reads the record of the folder `dir`, which errors call `what`.
    pub(crate) fn read_folder_record(
        &self,
        dir: &S::Dir,
        what: impl Fn() -> Subject,
    ) -> Result<Record> {
        let name = || what().part(|what| format!("the {RECORD} of {what}"));
        let open = || match self.open_own(dir, OsStr::new(RECORD), false, name) {
            Err(Error::Errno(Errno::NOENT)) => Err(Error::altered(
                what(),
                format!("its {RECORD} is missing; restore it from a backup"),
            )),
            other => other,
        };
        let file = self.storage.permitted(dir, open)?;
        let mut sealed = [0; PLAIN_LEN + crate::format::layout::OVERHEAD + 1];
        let len = self.storage.read_at(&file, &mut sealed, 0)?;
        self.open_record(&sealed[..len])?.ok_or_else(|| {
            Error::altered(
                what(),
                format!("its {RECORD} does not verify; restore it from a backup"),
            )
        })
    }

    /// What a sealed record says, if it verifies.
    fn open_record(&self, sealed: &[u8]) -> Result<Option<Record>> {
        let engines = &self.keys.engines;
        let plain = engines.open(&self.keys.folders, AAD, sealed)?;
        Ok(plain.and_then(|plain| decode(&plain)))
    }

    /// Writes the record of a folder, durably.
    pub(crate) fn write_folder_record(&self, dir: &S::Dir, record: &Record) -> Result<()> {
        write_record(&self.storage, &self.keys, dir, record, || {
            self.next_second()
        })
    }

    /// The ciphertext name in a file next to an entry with a long name; what is longer is cut.
    pub(crate) fn read_beside(&self, dir: &S::Dir, beside: &OsStr) -> Result<Vec<u8>> {
        let what = || format!("the file {} in the store", beside.to_string_lossy()).into();
        let file = self.open_own(dir, beside, false, what)?;
        let mut sealed = vec![0; MAX_SPARE + 1];
        let len = self.storage.read_at(&file, &mut sealed, 0)?;
        sealed.truncate(len);
        Ok(sealed)
    }

    /// A name for something that is not in the tree yet, or no more.
    pub(crate) fn temporary_name(&self) -> Result<String> {
        Ok(format!("{TEMPORARY}{}", crate::core::hex(&random::<12>()?)))
    }

    /// Whether a file is the vault's own and holds nothing that is not elsewhere: a folder's record
    /// while it is written, or the name next to an entry. A crash may leave them empty.
    fn is_spare(&self, dir: &S::Dir, entry: &Listed, id: Option<&Id>) -> Result<bool> {
        if entry.kind != FileType::RegularFile {
            return Ok(false);
        }
        let entry_beside = names::entry_beside(&entry.name);
        let is_record = entry.name == RECORD || entry.name == RECORD_NEW;
        if !is_record && entry_beside.is_none() {
            return Ok(false);
        }
        let bytes = self.read_beside(dir, &entry.name)?;
        if bytes.len() <= MAX_SPARE && bytes.iter().all(|byte| *byte == 0) {
            return Ok(true);
        }
        Ok(match entry_beside {
            Some(long) => names::fits(&long, &bytes),
            None => match (self.open_record(&bytes)?, id) {
                // Another folder's, or the only one, is not to be lost.
                (Some(found), Some(id)) => found.id == *id,
                (found, None) => found.is_some(),
                (None, _) => false,
            },
        })
    }

    /// Whether a record that was being written is not needed, because the folder has its own.
    pub(crate) fn is_spare_record(&self, dir: &S::Dir, entry: &Listed, id: &Id) -> Result<bool> {
        Ok(entry.name == RECORD_NEW && self.is_spare(dir, entry, Some(id))?)
    }

    /// Whether an entry is a folder that was being made or removed, and holds nothing. Such a one
    /// holds no folder, so this looks one level deep.
    pub(crate) fn is_spare_folder(&self, dir: &S::Dir, entry: &Listed) -> Result<bool> {
        if !is_temporary(&entry.name) || entry.kind != FileType::Directory {
            return Ok(false);
        }
        let inner = self.storage.open_dir(dir, &entry.name)?;
        self.storage.permitted(&inner, || {
            for entry in &self.storage.list(&inner)? {
                if !self.is_spare(&inner, entry, None)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Whether an entry is a symlink that was being written again.
    pub(crate) fn is_spare_symlink(&self, entry: &Listed) -> bool {
        is_temporary(&entry.name) && entry.kind == FileType::Symlink
    }

    /// Whether an interrupted operation left this, or it is the folder's own.
    pub(crate) fn is_leftover(&self, dir: &S::Dir, entry: &Listed, id: &Id) -> Result<bool> {
        Ok(self.is_spare(dir, entry, Some(id))?
            || self.is_spare_symlink(entry)
            || self.is_spare_folder(dir, entry)?)
    }

    /// Whether a folder that is about to be removed holds nothing. What interrupted operations left
    /// in it is removed first, so that what is removed never holds a folder.
    pub(crate) fn clear(&self, folder: &Folder<S>) -> Result<bool> {
        let dir = folder.dir();
        self.storage.permitted(dir, || {
            let mut left = Vec::new();
            for entry in self.storage.list(dir)? {
                if self.is_spare(dir, &entry, Some(&folder.id))? {
                    continue;
                }
                if !self.is_spare_symlink(&entry) && !self.is_spare_folder(dir, &entry)? {
                    return Ok(false);
                }
                left.push(entry);
            }
            for entry in left {
                self.purge(dir, &entry.name)?;
            }
            Ok(true)
        })
    }

    /// Removes a file, or a folder that is not in the tree with the files in it.
    pub(crate) fn purge(&self, dir: &S::Dir, name: &OsStr) -> Result<()> {
        let attributes = self.storage.attributes(At::Name(dir, name))?;
        if FileType::from_raw_mode(attributes.mode) != FileType::Directory {
            return Ok(self.storage.unlink(dir, name)?);
        }
        let inner = self.storage.open_dir(dir, name)?;
        self.storage.permitted(&inner, || {
            for entry in self.storage.list(&inner)? {
                if entry.kind == FileType::Directory {
                    return Err(Error::altered(
                        format!("the folder {} in the store", name.to_string_lossy()),
                        "there is a folder in it, and none is in what the vault leaves \
                         unfinished; `warplock vault check --repair` moves it out of the way",
                    ));
                }
                self.storage.unlink(&inner, &entry.name)?;
            }
            Ok(())
        })?;
        Ok(self.storage.remove_dir(dir, name)?)
    }
}

/// `second`: the time of the new record in the store, if there is an old one, which has the same
/// length.
fn write_record<S: Storage>(
    storage: &S,
    keys: &VaultKeys,
    dir: &S::Dir,
    record: &Record,
    second: impl Fn() -> SystemTime,
) -> Result<()> {
    let sealed = keys.engines.seal(&keys.folders, AAD, &encode(record))?;
    let (new, name) = (OsStr::new(RECORD_NEW), OsStr::new(RECORD));
    storage.permitted(dir, || {
        match storage.unlink(dir, new) {
            Err(error) if !is_missing(&error) => return Err(error.into()),
            _ => {}
        }
        let file = storage.create(dir, new, 0o600)?;
        let written = (|| -> Result<()> {
            storage.write_at(&file, &sealed, 0)?;
            if storage.attributes(At::Name(dir, name)).is_ok() {
                let changes = Changes {
                    modified: Some(SetTime::To(second())),
                    ..Changes::default()
                };
                storage.change(At::File(&file), &changes)?;
            }
            storage.sync(&file, true)?;
            Ok(storage.rename((dir, new), (dir, name), RenameFlags::empty())?)
        })();
        if written.is_err() {
            // Or it stays, and the next one replaces it.
            let _ = storage.unlink(dir, new);
            return written;
        }
        Ok(storage.sync_dir(dir)?)
    })
}

/// Makes the record of the topmost folder of a new vault, which belongs to whom the store's does.
pub(crate) fn write_root_record<S: Storage>(
    storage: &S,
    root: &S::Dir,
    master: &MasterKey,
) -> Result<()> {
    let keys = record_keys(master)?;
    let found = storage.attributes(At::Dir(root))?;
    let owner = Owner {
        mode: found.mode,
        uid: found.uid,
        gid: found.gid,
        rdev: 0,
    };
    // No machine made an earlier one, so it needs no stamp.
    let record = Record::new(Places::at(ROOT_PLACE), Version::default(), owner)?;
    write_record(storage, &keys, root, &record, SystemTime::now)
}

/// Whether the topmost folder has a record that verifies under this key.
pub(crate) fn is_root_record<S: Storage>(
    storage: &S,
    root: &S::Dir,
    master: &MasterKey,
) -> Result<bool> {
    let opened = storage.open(root, OsStr::new(RECORD), false);
    let file = opened.map_err(|source| Error::Store {
        what: format!("cannot read {RECORD}"),
        source,
    })?;
    let mut sealed = [0; PLAIN_LEN + crate::format::layout::OVERHEAD];
    let len = storage.read_at(&file, &mut sealed, 0)?;
    let keys = record_keys(master)?;
    let plain = keys.engines.open(&keys.folders, AAD, &sealed[..len])?;
    let record = plain.and_then(|plain| decode(&plain));
    Ok(record.is_some_and(|record| record.places.contains(&ROOT_PLACE)))
}

/// Keys for records: the algorithm is that of contents.
fn record_keys(master: &MasterKey) -> Result<VaultKeys> {
    let engine = Arc::new(Engine::builder().threads(NonZeroUsize::MIN).build()?);
    VaultKeys::new(master, Algorithm::Aes256Gcm, engine)
}

/// What names of temporary things begin with; 24 hexadecimal digits follow.
pub(crate) const TEMPORARY: &str = "warplock.tmp.";

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
    let parts: [&[u8]; 4] = [
        &record.id,
        &record.places.encode(),
        &record.version.encode(),
        &record.owner.encode()[..Owner::SHORT_LEN],
    ];
    parts.concat().try_into().expect("the parts are as long")
}

pub(crate) fn decode(plain: &[u8]) -> Option<Record> {
    let (id, places) = plain.split_first_chunk()?;
    let (places, rest) = Places::decode(places)?;
    let (version, rest) = rest.split_first_chunk()?;
    let owner: &[u8; Owner::SHORT_LEN] = rest.try_into().ok()?;
    Some(Record {
        id: *id,
        places,
        version: Version::decode(version),
        owner: Owner::decode(owner),
    })
}
