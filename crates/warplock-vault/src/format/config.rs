//! `warplock.vault`: what a vault is, and its master key, wrapped.

mod recovery;
mod text;
mod wrapped;

use std::ffi::OsStr;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use warplock::Algorithm;
use warplock_keyring::{Identities, MasterKey, Recipients, StanzaKind, derive};

use crate::core::{hex, is_missing, make_later};
use crate::error::{Error, Result};
use crate::format::keys::random;
use crate::fs::{Attributes, Changes, FileType, RenameFlags};
use crate::store::locks::lock_config;
use crate::store::posix::Posix;
use crate::store::storage::{At, Storage};
use crate::store::store_lock::{LOCK, lock_store};
use crate::tree::folder::{RECORD, RECORD_NEW};
pub use recovery::{export_key, recover};
pub(crate) use text::START;
use text::{File, MAX_LEN};
pub use wrapped::Unlocked;

/// The file's name in the store.
pub const CONFIG: &str = "warplock.vault";
/// What the file is called while it is being written, and something random.
pub(crate) const CONFIG_NEW: &str = "warplock.vault.new";
const FORMAT: u32 = 2;
/// Of a new vault: a reader of the file can guess its passphrases, as fast as their own machines
/// allow. `vault passwd` leaves the permissions as they are, for users who share a vault.
const MODE: u32 = 0o600;

/// The sizes that blocks can have, in bytes.
pub const BLOCK_SIZES: [u32; 4] = [4 << 10, 16 << 10, 64 << 10, 1 << 20];

/// What a new vault is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `aes-256-gcm` or `aes-128-gcm`.
    pub algorithm: Algorithm,
    /// One of [`BLOCK_SIZES`].
    pub block_size: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            algorithm: Algorithm::Aes256Gcm,
            block_size: BLOCK_SIZES[0],
        }
    }
}

/// What can be told about a vault without its key.
#[derive(Clone, Debug)]
pub struct Info {
    /// The format's version.
    pub format: u32,
    /// What contents are encrypted with.
    pub algorithm: Algorithm,
    /// Bytes of a block.
    pub block_size: u32,
    /// 32 hexadecimal digits.
    pub id: String,
    /// The wrapped keys: their names, and what opens each; nothing for one that is damaged.
    pub keys: Vec<(String, Vec<StanzaKind>)>,
}

/// The file, parsed.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) algorithm: Algorithm,
    pub(crate) block_size: u32,
    file: File,
}

/// How keys are derived: part of what is authenticated.
const KDF: &str = "hkdf-sha512";

fn broken(why: impl Into<String>) -> Error {
    Error::Config {
        what: CONFIG.into(),
        why: why.into(),
    }
}

fn missing() -> Error {
    broken(
        "it is missing: this folder is not a vault's store; name another, or make one with \
         `warplock vault init`",
    )
}

impl Config {
    pub(crate) fn read<S: Storage>(storage: &S, root: &S::Dir) -> Result<Self> {
        let file = match storage.open(root, OsStr::new(CONFIG), false) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => {
                return Err(missing());
            }
            Err(source) => {
                let found = storage.attributes(At::Name(root, OsStr::new(CONFIG)));
                if found.is_ok_and(|found| !is_regular(&found)) {
                    return Err(broken(
                        "it is not a regular file, and the vault did not make it; restore it \
                         from a backup",
                    ));
                }
                return Err(Error::Store {
                    what: format!("cannot open {CONFIG}"),
                    source,
                });
            }
        };
        let too_long = || {
            broken(format!(
                "it has more than {MAX_LEN} bytes, and no vault's does"
            ))
        };
        let size = storage.attributes(At::File(&file))?.size;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > MAX_LEN {
            return Err(too_long());
        }
        let mut bytes = vec![0; size + 1];
        let len = storage.read_at(&file, &mut bytes, 0)?;
        if len > size {
            return Err(broken("it changed while it was read; try again"));
        }
        Self::parse(&bytes[..len])
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| broken("it is not text"))?;
        let file = File::parse(text).map_err(broken)?;
        let algorithm = match file.algorithm.as_str() {
            "aes-256-gcm" => Algorithm::Aes256Gcm,
            "aes-128-gcm" => Algorithm::Aes128Gcm,
            other => {
                return Err(broken(format!(
                    "there is no algorithm '{other}' for vaults"
                )));
            }
        };
        if !BLOCK_SIZES.contains(&file.block_size) {
            return Err(broken(format!(
                "there is no block size {}",
                file.block_size
            )));
        }
        if file.kdf != KDF {
            return Err(broken(format!("there is no key derivation '{}'", file.kdf)));
        }
        Ok(Config {
            algorithm,
            block_size: file.block_size,
            file,
        })
    }

    /// In hexadecimal.
    pub(crate) fn id(&self) -> &str {
        &self.file.id
    }

    /// Whether the settings are those that the holder of `master` chose.
    pub(crate) fn verify(&self, master: &MasterKey) -> Result<()> {
        let right = mac(master, &self.file);
        if bool::from(right.as_bytes().ct_eq(self.file.mac.as_bytes())) {
            return Ok(());
        }
        Err(Error::altered(
            CONFIG,
            "its settings do not verify under this key: they were changed, or the key is \
             another vault's; restore the file from a backup",
        ))
    }

    /// Writes the file, with the owner and the permissions of the `former` one.
    fn write<S: Storage>(
        &self,
        storage: &S,
        root: &S::Dir,
        former: Option<&Attributes>,
    ) -> Result<()> {
        let text = self.file.text();
        if text.len() > MAX_LEN {
            return Err(Error::Usage(format!(
                "{CONFIG} would have more than {MAX_LEN} bytes; remove keys, or name fewer \
                 recipients"
            )));
        }
        // A unique name: where locks have no effect, no process uses another's half-written file.
        let new = format!("{CONFIG_NEW}.{}", hex(&random::<8>()?));
        let (new, name) = (OsStr::new(&new), OsStr::new(CONFIG));
        let file = storage.create(root, new, MODE)?;
        let written = (|| {
            if let Some(former) = former {
                take_after(storage, &file, former)?;
            }
            storage.write_at(&file, text.as_bytes(), 0)?;
            if let Some(former) = former {
                make_later(storage, &file, former)?;
            }
            storage.sync(&file, true)?;
            storage.rename((root, new), (root, name), RenameFlags::empty())
        })();
        if written.is_err() {
            let _ = storage.unlink(root, new);
        }
        written?;
        Ok(storage.sync_dir(root)?)
    }
}

fn is_regular(found: &Attributes) -> bool {
    FileType::from_raw_mode(found.mode) == FileType::RegularFile
}

/// Gives a new file the owner of the one that it replaces, where that is allowed, and the
/// permissions.
fn take_after<S: Storage>(storage: &S, file: &S::File, former: &Attributes) -> std::io::Result<()> {
    let made = storage.attributes(At::File(file))?;
    let (uid, gid) = (Some(former.uid), Some(former.gid));
    // A member may not give a file away, but may hand it on to a group of theirs.
    for (uid, gid) in [(uid, None), (None, gid)] {
        if uid.is_some_and(|uid| uid != made.uid) || gid.is_some_and(|gid| gid != made.gid) {
            let changes = Changes {
                uid,
                gid,
                ..Changes::default()
            };
            let _ = storage.change(At::File(file), &changes);
        }
    }
    let mode = former.mode & 0o777;
    if made.mode & 0o777 == mode {
        // Some file systems have no permissions to change.
        return Ok(());
    }
    let changes = Changes {
        mode: Some(mode),
        ..Changes::default()
    };
    storage.change(At::File(file), &changes)
}

/// HMAC-SHA256 over the settings, one per line. Wrapped keys have their own MACs, so that a foreign
/// one does not make the rest unusable.
fn mac(master: &MasterKey, file: &File) -> String {
    let key = derive::<32>(master, "warplock-vault/2 settings", b"");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key[..]).expect("HMAC takes any key");
    mac.update(
        format!(
            "format={}\nid={}\nalgorithm={}\nblock_size={}\nkdf={}\n",
            file.format, file.id, file.algorithm, file.block_size, file.kdf
        )
        .as_bytes(),
    );
    hex(&mac.finalize().into_bytes())
}

/// Makes a vault in an empty store; gives its master key, which is wrapped for `recipients`
/// under `key_name`.
///
/// # Errors
/// [`Error::Usage`] if the store is not empty or the settings do not exist.
pub fn init_on<S: Storage>(
    storage: &S,
    settings: &Settings,
    key_name: &str,
    recipients: &Recipients,
) -> Result<MasterKey> {
    let algorithm = match settings.algorithm {
        Algorithm::Aes256Gcm => "aes-256-gcm",
        Algorithm::Aes128Gcm => "aes-128-gcm",
        other => {
            return Err(Error::Usage(format!(
                "vaults are not encrypted with {other}; choose aes-256-gcm or aes-128-gcm"
            )));
        }
    };
    if !BLOCK_SIZES.contains(&settings.block_size) {
        return Err(Error::Usage(format!(
            "blocks of {} bytes do not exist; choose 4096, 16384, 65536 or 1048576",
            settings.block_size
        )));
    }
    let root = storage.root()?;
    if storage.list(&root)?.iter().any(|entry| entry.name != LOCK) {
        return Err(Error::Usage(
            "the folder for the new vault is not empty; name an empty one".into(),
        ));
    }
    let master = MasterKey::generate()?;
    let mut file = File {
        format: FORMAT,
        id: hex(&random::<16>()?),
        algorithm: algorithm.into(),
        block_size: settings.block_size,
        kdf: KDF.into(),
        mac: String::new(),
        keys_mac: String::new(),
        keys: Vec::new(),
    };
    file.mac = mac(&master, &file);
    let mut config = Config {
        algorithm: settings.algorithm,
        block_size: settings.block_size,
        file,
    };
    config.add_key(&master, key_name, recipients)?;
    config.sign_keys(&master);
    let written = crate::tree::folder::write_root_record(storage, &root, &master)
        .and_then(|()| config.write(storage, &root, None));
    written.inspect_err(|_| {
        // So that it can be tried again. Without the settings, nothing needs the record.
        for name in [RECORD, RECORD_NEW] {
            let _ = storage.unlink(&root, OsStr::new(name));
        }
    })?;
    Ok(master)
}

/// Makes a vault in the empty folder `path`; see [`init_on`].
///
/// # Errors
/// As [`init_on`].
pub fn init(
    path: &Path,
    settings: &Settings,
    key_name: &str,
    recipients: &Recipients,
) -> Result<MasterKey> {
    let store = open_store(path)?;
    let _lock = lock_store(&store, path, true)?;
    let made = store
        .probed()
        .and_then(|store| init_on(&store, settings, key_name, recipients));
    made.inspect_err(|_| {
        let _ = std::fs::remove_file(path.join(LOCK));
    })
}

/// What can be told about the vault in the folder `path` without its key.
///
/// # Errors
/// [`Error::Config`] if it is none.
pub fn info(path: &Path) -> Result<Info> {
    let (_, config) = read(path)?;
    let keys = &config.file.keys;
    Ok(Info {
        format: config.file.format,
        algorithm: config.algorithm,
        block_size: config.block_size,
        keys: (keys.iter().map(|key| (key.name.clone(), key.kinds()))).collect(),
        id: config.file.id,
    })
}

/// The master key of the vault in the folder `path`, from a wrapped key that opens.
///
/// A foreign wrapped key, or one whose name was changed, is not used, and does not keep others from
/// being tried.
///
/// # Errors
/// [`Error::Keyring`] if none opens, [`Error::Altered`] if only such keys do, or if the settings
/// were changed.
pub fn unlock(path: &Path, identities: &Identities) -> Result<Unlocked> {
    read(path)?.1.unlock(identities)
}

/// Wraps the master key once more, under the name `name`.
///
/// # Errors
/// [`Error::Usage`] if the name is taken; [`Error::Altered`] if the key is not the vault's.
pub fn add_key(path: &Path, master: &MasterKey, name: &str, to: &Recipients) -> Result<()> {
    edit(path, master, |config| config.add_key(master, name, to))
}

/// Removes the wrapped key called `name`, and returns what opened it. A user who could open it may
/// have kept the master key or an old copy of `warplock.vault`: for them, move the files to a new
/// vault.
///
/// # Errors
/// [`Error::Usage`] if there is none, or no other; [`Error::Altered`] if the name is not the one
/// that the key was given.
pub fn remove_key(path: &Path, master: &MasterKey, name: &str) -> Result<Vec<StanzaKind>> {
    edit(path, master, |config| {
        let kinds = config.take_key(master, name)?;
        if !config.has_key(master) {
            return Err(Error::Usage(
                "this is the vault's last key; add another one first".into(),
            ));
        }
        Ok(kinds)
    })
}

/// Removes the wrapped keys that [`unlock`] calls altered, and gives their names.
///
/// # Errors
/// [`Error::Usage`] if no other would be left.
pub fn remove_altered_keys(path: &Path, master: &MasterKey) -> Result<Vec<String>> {
    edit(path, master, |config| {
        let names = config.take_altered(master);
        if config.file.keys.is_empty() {
            return Err(Error::Usage(
                "all of the vault's keys were altered; add another one first".into(),
            ));
        }
        Ok(names)
    })
}

/// Puts a wrapped key in the place of the one called `name`: a new passphrase, for example. Gives
/// what opened the former one.
///
/// # Errors
/// As [`remove_key`], but there need not be another key.
pub fn replace_key(
    path: &Path,
    master: &MasterKey,
    name: &str,
    to: &Recipients,
) -> Result<Vec<StanzaKind>> {
    edit(path, master, |config| {
        let kinds = config.take_key(master, name)?;
        config.add_key(master, name, to)?;
        Ok(kinds)
    })
}

fn edit<T>(
    path: &Path,
    master: &MasterKey,
    change: impl FnOnce(&mut Config) -> Result<T>,
) -> Result<T> {
    let store = open_store(path)?;
    let root = store.root()?;
    // Until this is dropped, no other process changes it, so that no change is lost.
    let _locked = lock_config(&root)?;
    let mut config = Config::read(&store, &root)?;
    config.verify(master)?;
    let changed = change(&mut config)?;
    config.sign_keys(master);
    let former = store.attributes(At::Name(&root, OsStr::new(CONFIG)))?;
    let written = config.write(&store, &root, Some(&former));
    written.map(|()| changed).map_err(|error| match error {
        Error::Errno(errno) => Error::Store {
            what: format!("cannot write {CONFIG}"),
            source: errno.into(),
        },
        other => other,
    })
}

fn read(path: &Path) -> Result<(Posix, Config)> {
    let store = open_store(path)?;
    let config = Config::read(&store, &store.root()?)?;
    Ok((store, config))
}

fn open_store(path: &Path) -> Result<Posix> {
    Posix::new(path).map_err(|source| Error::Store {
        what: "cannot open the store".into(),
        source,
    })
}
