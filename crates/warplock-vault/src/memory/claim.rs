//! What the store tells of a machine: in which session it last wrote. A memory that knows of fewer
//! sessions was restored from an older copy, a store that does, too.

use std::ffi::OsString;

use warplock::Key;

use crate::core::is_missing;
use crate::error::{Error, Result};
use crate::format::keys::Engines;
use crate::format::layout::OVERHEAD;
use crate::fs::RenameFlags;
use crate::store::storage::Storage;

/// What the file's name begins with; the machine's number follows in 16 hexadecimal digits.
const PREFIX: &str = "warplock.machine.";
/// What ends it while the file is being written.
pub(crate) const NEW: &str = ".new";
const AAD: &[u8] = b"warplock-vault/2 machine";
/// The machine and the session.
const PLAIN_LEN: usize = 16;
/// The most bytes of the file. Everything else that a vault keeps in a file has more.
pub(crate) const MAX_LEN: usize = PLAIN_LEN + OVERHEAD;

fn name(machine: u64) -> OsString {
    format!("{PREFIX}{machine:016x}").into()
}

/// Whether this is the name of such a file; with [`NEW`], of one that was never finished.
pub(crate) fn is_claim(name: &str, ending: &str) -> bool {
    let digits = name.strip_prefix(PREFIX);
    let digits = digits.and_then(|digits| digits.strip_suffix(ending));
    digits.is_some_and(|digits| {
        digits.len() == 16
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// The last session of a machine, as the store tells it; `None` if it does not.
pub(crate) fn read<S: Storage>(
    storage: &S,
    (engines, key): (&Engines, &Key),
    machine: u64,
) -> Result<Option<u64>> {
    let (root, name) = (storage.root()?, name(machine));
    let file = match storage.open(&root, &name, false) {
        Err(error) if is_missing(&error) => return Ok(None),
        other => other?,
    };
    let mut sealed = [0; MAX_LEN + 1];
    let len = storage.read_at(&file, &mut sealed, 0)?;
    let plain = engines.open(key, AAD, &sealed[..len])?;
    let plain = plain.filter(|plain| plain[..8] == machine.to_be_bytes());
    match plain {
        Some(plain) => Ok(plain[8..].first_chunk().map(|it| u64::from_be_bytes(*it))),
        None => Err(Error::altered(
            name.to_string_lossy(),
            "it does not verify; restore it from a backup, or remove it",
        )),
    }
}

/// Tells the store, durably, that a session of a machine begins.
pub(crate) fn write<S: Storage>(
    storage: &S,
    (engines, key): (&Engines, &Key),
    machine: u64,
    session: u64,
) -> Result<()> {
    let (root, name) = (storage.root()?, name(machine));
    let plain = [machine.to_be_bytes(), session.to_be_bytes()].concat();
    let sealed = engines.seal(key, AAD, &plain)?;
    let mut new = name.clone();
    new.push(NEW);
    match storage.unlink(&root, &new) {
        Err(error) if !is_missing(&error) => return Err(error.into()),
        _ => {}
    }
    let file = storage.create(&root, &new, 0o600)?;
    storage.write_at(&file, &sealed, 0)?;
    storage.sync(&file, true)?;
    storage.rename((&root, &new), (&root, &name), RenameFlags::empty())?;
    Ok(storage.sync_dir(&root)?)
}
