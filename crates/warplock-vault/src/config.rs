//! `warplock.vault`: what a vault is, and its master key, wrapped.

use std::ffi::OsStr;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use warplock::Algorithm;
use warplock_keyring::{
    Identities, MasterKey, Recipients, StanzaKind, derive, from_armor, inspect_wrapped, to_armor,
    unwrap, wrap,
};

use crate::core::{hex, is_missing};
use crate::error::{Error, Result};
use crate::fs::RenameFlags;
use crate::keys::random;
use crate::locks::lock_config;
use crate::posix::Posix;
use crate::storage::Storage;
use crate::store_lock::{LOCK, lock_store};

/// The file's name in the store.
pub const CONFIG: &str = "warplock.vault";
/// What the file is called while it is being written, and something random.
pub(crate) const CONFIG_NEW: &str = "warplock.vault.new";
const FORMAT: u32 = 2;
/// More than a thousand recipients take.
const MAX_LEN: usize = 1 << 20;
const MAX_KEYS: usize = 64;
const COMMENT: &str = "\
# A Warplock vault: the other files here are its ciphertext, and need this one. It holds no
# secret without one of the keys. Change it with `warplock vault passwd` only.
";

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
    /// The wrapped keys: their names, and what opens each.
    pub keys: Vec<(String, Vec<StanzaKind>)>,
}

/// The file, parsed.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) algorithm: Algorithm,
    pub(crate) block_size: u32,
    file: File,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    id: String,
    algorithm: String,
    block_size: u32,
    kdf: String,
    mac: String,
    key: Vec<WrappedKey>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrappedKey {
    name: String,
    age: String,
}

/// How keys are derived: part of what is authenticated.
const KDF: &str = "hkdf-sha512";

fn broken(why: impl Into<String>) -> Error {
    Error::Config {
        what: CONFIG.into(),
        why: why.into(),
    }
}

pub(crate) fn missing() -> Error {
    broken(
        "it is missing: this folder is not a vault's store; name another, or make one with \
         `warplock vault init`",
    )
}

/// Only the version: to name a later one, whatever else its file holds.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Config {
    pub(crate) fn read<S: Storage>(storage: &S, root: &S::Dir) -> Result<Self> {
        let file = match storage.open(root, OsStr::new(CONFIG), false) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => {
                return Err(missing());
            }
            Err(source) => {
                return Err(Error::Store {
                    what: format!("cannot open {CONFIG}"),
                    source,
                });
            }
        };
        let mut bytes = vec![0; MAX_LEN + 1];
        let len = storage.read_at(&file, &mut bytes, 0)?;
        if len > MAX_LEN {
            return Err(broken("it is larger than any vault's"));
        }
        Self::parse(&bytes[..len])
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| broken("it is not text"))?;
        let version: Version = basic_toml::from_str(text)
            .map_err(|error| broken(format!("it cannot be read: {error}")))?;
        if version.format != FORMAT {
            return Err(broken(format!(
                "its format is {}, and this program knows format {FORMAT} only; use a newer one",
                version.format
            )));
        }
        let file: File = basic_toml::from_str(text)
            .map_err(|error| broken(format!("it cannot be read: {error}")))?;
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
        if file.key.len() > MAX_KEYS {
            return Err(broken(format!("it has more than {MAX_KEYS} keys")));
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

    fn write<S: Storage>(&self, storage: &S, root: &S::Dir) -> Result<()> {
        let text = basic_toml::to_string(&self.file)
            .map_err(|error| broken(format!("it cannot be written: {error}")))?;
        // A name of its own: where locks have no effect, nobody takes another's half-written file.
        let new = format!("{CONFIG_NEW}.{}", hex(&random::<8>()?));
        let (new, name) = (OsStr::new(&new), OsStr::new(CONFIG));
        let file = storage.create(root, new, 0o644)?;
        let written = (|| {
            storage.write_at(&file, format!("{COMMENT}{text}").as_bytes(), 0)?;
            storage.sync(&file, true)?;
            storage.rename((root, new), (root, name), RenameFlags::empty())
        })();
        if written.is_err() {
            let _ = storage.unlink(root, new);
        }
        written?;
        Ok(storage.sync_dir(root)?)
    }

    fn unlock(&self, identities: &Identities) -> Result<MasterKey> {
        let mut first = None;
        for key in &self.file.key {
            match unwrap(&from_armor(&key.age)?, identities) {
                Ok(master) => {
                    self.verify(&master)?;
                    return Ok(master);
                }
                // A wrong passphrase says more than that others' keys are no help.
                Err(error @ warplock_keyring::Error::WrongPassphrase { .. }) => {
                    first = Some(error);
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(match first {
            Some(error) => error.into(),
            None => broken("it holds no key; restore the file from a backup"),
        })
    }

    fn add_key(&mut self, master: &MasterKey, name: &str, to: &Recipients) -> Result<()> {
        if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
            return Err(Error::Usage(
                "a key's name is 1 to 64 bytes of text on one line".into(),
            ));
        }
        if self.file.key.iter().any(|key| key.name == name) {
            return Err(Error::Usage(format!(
                "there is a key '{name}' already; choose another name, or replace it"
            )));
        }
        if self.file.key.len() == MAX_KEYS {
            return Err(Error::Usage(format!("a vault has at most {MAX_KEYS} keys")));
        }
        self.file.key.push(WrappedKey {
            name: name.into(),
            age: to_armor(&wrap(master, to)?),
        });
        Ok(())
    }

    fn remove_key(&mut self, name: &str) -> Result<()> {
        let before = self.file.key.len();
        self.file.key.retain(|key| key.name != name);
        if self.file.key.len() == before {
            let names: Vec<_> = self.file.key.iter().map(|key| &*key.name).collect();
            return Err(Error::Usage(format!(
                "there is no key '{name}'; this vault's keys are called: {}",
                names.join(", ")
            )));
        }
        Ok(())
    }
}

/// HMAC-SHA256 over the settings, one a line. Wrapped keys are not among them: they
/// authenticate themselves, and opening one that is not this vault's shows here.
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
        key: Vec::new(),
    };
    file.mac = mac(&master, &file);
    let mut config = Config {
        algorithm: settings.algorithm,
        block_size: settings.block_size,
        file,
    };
    config.add_key(&master, key_name, recipients)?;
    crate::folder::write_root_record(storage, &root, &master)?;
    config.write(storage, &root)?;
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
    init_on(&store, settings, key_name, recipients).inspect_err(|_| {
        let _ = std::fs::remove_file(path.join(LOCK));
    })
}

/// What can be told about the vault in the folder `path` without its key.
///
/// # Errors
/// [`Error::Config`] if it is none.
pub fn info(path: &Path) -> Result<Info> {
    let (_, config) = read(path)?;
    let mut keys = Vec::new();
    for key in &config.file.key {
        keys.push((key.name.clone(), inspect_wrapped(&from_armor(&key.age)?)?));
    }
    Ok(Info {
        format: config.file.format,
        algorithm: config.algorithm,
        block_size: config.block_size,
        id: config.file.id,
        keys,
    })
}

/// The master key of the vault in the folder `path`, from the first wrapped key that opens.
///
/// # Errors
/// [`Error::Keyring`] if none does, [`Error::Altered`] if the settings were changed.
pub fn unlock(path: &Path, identities: &Identities) -> Result<MasterKey> {
    read(path)?.1.unlock(identities)
}

/// Wraps the master key once more, under the name `name`.
///
/// # Errors
/// [`Error::Usage`] if the name is taken; [`Error::Altered`] if the key is not the vault's.
pub fn add_key(path: &Path, master: &MasterKey, name: &str, to: &Recipients) -> Result<()> {
    edit(path, master, |config| config.add_key(master, name, to))
}

/// Removes the wrapped key called `name`. Whoever could open it may have kept the master key or
/// an old copy of `warplock.vault`: for them, move the files to a new vault.
///
/// # Errors
/// [`Error::Usage`] if there is none, or no other.
pub fn remove_key(path: &Path, master: &MasterKey, name: &str) -> Result<()> {
    edit(path, master, |config| {
        config.remove_key(name)?;
        if config.file.key.is_empty() {
            return Err(Error::Usage(
                "this is the vault's last key; add another one first".into(),
            ));
        }
        Ok(())
    })
}

/// Puts a wrapped key in the place of the one called `name`: a new passphrase, for example.
///
/// # Errors
/// [`Error::Usage`] if there is none.
pub fn replace_key(path: &Path, master: &MasterKey, name: &str, to: &Recipients) -> Result<()> {
    edit(path, master, |config| {
        config.remove_key(name)?;
        config.add_key(master, name, to)
    })
}

fn edit(
    path: &Path,
    master: &MasterKey,
    change: impl FnOnce(&mut Config) -> Result<()>,
) -> Result<()> {
    let store = open_store(path)?;
    let root = store.root()?;
    // Until this is dropped, nobody else changes it, so that no change is lost.
    let _locked = lock_config(&store, &root)?;
    let mut config = Config::read(&store, &root)?;
    config.verify(master)?;
    change(&mut config)?;
    let written = config.write(&store, &root);
    written.map_err(|error| match error {
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
