//! The witness: a file outside the store that remembers how new each file is, so that old ones
//! and missing ones show.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::core::{is_missing, lock};
use crate::error::{Error, Result};
use crate::keys::{Id, VaultKeys};

const AAD: &[u8] = b"warplock-vault/2 witness";
const MAGIC: &[u8] = b"warplock-witness/1\n";
/// An id and a sequence number.
const ENTRY_LEN: usize = 24;

/// What is remembered of all files of a vault.
pub(crate) struct Witness {
    path: PathBuf,
    /// Whether there was none, so that this session teaches it.
    pub(crate) learns: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest sequence number of each file.
    files: HashMap<Id, u64>,
    changed: bool,
}

impl Witness {
    /// Reads the witness at `path`, or starts a new one.
    pub(crate) fn open(path: &Path, keys: &VaultKeys) -> Result<Self> {
        let refuse = |why: &str| {
            Error::altered(
                format!("the witness {}", path.display()),
                format!("{why}; name the right file, or a new one"),
            )
        };
        let bytes = match fs::read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if is_missing(&error) => None,
            Err(source) => {
                return Err(Error::Store {
                    what: format!("cannot read the witness {}", path.display()),
                    source,
                });
            }
        };
        let mut state = State::default();
        if let Some(bytes) = &bytes {
            let sealed = bytes
                .strip_prefix(MAGIC)
                .ok_or_else(|| refuse("this is none"))?;
            let plain = keys
                .engines
                .open(&keys.witness, AAD, sealed)?
                .ok_or_else(|| refuse("it is another vault's, or was altered"))?;
            for entry in plain.chunks_exact(ENTRY_LEN) {
                let (id, sequence) = entry.split_first_chunk().expect("an entry begins so");
                let sequence = sequence.try_into().expect("an entry ends in 8 bytes");
                state.files.insert(*id, u64::from_be_bytes(sequence));
            }
        }
        Ok(Witness {
            path: path.to_owned(),
            learns: bytes.is_none(),
            state: Mutex::new(state),
        })
    }

    /// The newest sequence number that was seen of a file.
    pub(crate) fn newest(&self, id: &Id) -> Option<u64> {
        lock(&self.state).files.get(id).copied()
    }

    /// All files that are known.
    pub(crate) fn known(&self) -> Vec<Id> {
        let mut known: Vec<_> = lock(&self.state).files.keys().copied().collect();
        known.sort_unstable();
        known
    }

    /// Remembers a header that was written.
    pub(crate) fn note(&self, id: &Id, sequence: u64) {
        let mut state = lock(&self.state);
        if state.files.insert(*id, sequence) != Some(sequence) {
            state.changed = true;
        }
    }

    /// Forgets a file that was removed.
    pub(crate) fn forget(&self, id: &Id) {
        let mut state = lock(&self.state);
        state.changed |= state.files.remove(id).is_some();
    }

    /// Writes what is known, if it changed. All that was noted until `sync` is called is durable
    /// in the store when it returns: a witness must never know more than the store.
    pub(crate) fn save(&self, keys: &VaultKeys, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut plain = Vec::new();
        {
            let mut state = lock(&self.state);
            if !state.changed {
                return Ok(());
            }
            state.changed = false;
            for (id, sequence) in &state.files {
                plain.extend_from_slice(id);
                plain.extend_from_slice(&sequence.to_be_bytes());
            }
        }
        let saved = sync().and_then(|()| {
            let sealed = keys.engines.seal(&keys.witness, AAD, &plain)?;
            self.replace(&sealed).map_err(|source| Error::Store {
                what: format!("cannot write the witness {}", self.path.display()),
                source,
            })
        });
        if saved.is_err() {
            lock(&self.state).changed = true;
        }
        saved
    }

    fn replace(&self, sealed: &[u8]) -> std::io::Result<()> {
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(MAGIC)?;
        file.write_all(sealed)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self
            .path
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}
