//! What the store records about a machine: its last session that wrote, and the highest number of
//! its states. A memory that knows fewer sessions was restored from an older copy; so was a store
//! that knows fewer. Other machines continue above that number: a removal leaves no other trace of
//! it.

use std::ffi::{OsStr, OsString};

use rustix::io::Errno;
use warplock::Key;

use crate::core::{is_missing, make_later, not_ours, open_own_file};
use crate::error::{Error, Result};
use crate::format::keys::Engines;
use crate::format::layout::OVERHEAD;
use crate::fs::{FileType, RenameFlags};
use crate::store::storage::{At, Storage};

/// What the file's name begins with; the machine's number follows in 16 hexadecimal digits.
const PREFIX: &str = "warplock.machine.";
/// What ends it while the file is being written.
pub(crate) const NEW: &str = ".new";
const AAD: &[u8] = b"warplock-vault/2 machine";
/// The machine, the session and the number, which earlier builds did not write.
const PLAIN_LEN: usize = 24;
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

/// What a machine told.
pub(crate) struct Claim {
    pub(crate) session: u64,
    number: u64,
}

/// The last claim of a machine; `None` if the store has none.
pub(crate) fn read<S: Storage>(
    storage: &S,
    (engines, key): (&Engines, &Key),
    machine: u64,
) -> Result<Option<Claim>> {
    let (root, name) = (storage.root()?, name(machine));
    let what = || name.to_string_lossy().into();
    let file = match open_own_file(storage, &root, &name, false, what) {
        Err(Error::Errno(Errno::NOENT)) => return Ok(None),
        other => other?,
    };
    let mut sealed = [0; MAX_LEN + 1];
    let len = storage.read_at(&file, &mut sealed, 0)?;
    let plain = engines.open(key, AAD, &sealed[..len])?;
    let plain = plain.filter(|plain| plain[..8] == machine.to_be_bytes());
    let numbers = plain.as_ref().map(|plain| plain[8..].as_chunks().0);
    let Some([session, rest @ ..]) = numbers else {
        return Err(Error::altered(
            name.to_string_lossy(),
            "it does not verify; restore it from a backup, or remove it",
        ));
    };
    Ok(Some(Claim {
        session: u64::from_be_bytes(*session),
        number: rest.first().map_or(0, |it| u64::from_be_bytes(*it)),
    }))
}

/// The highest number that any other machine may have given to a state. A claim that does not
/// verify is ignored: too low a number only leads to a reported conflict.
pub(crate) fn highest<S: Storage>(storage: &S, seal: (&Engines, &Key), but: u64) -> Result<u64> {
    let mut highest = 0;
    for entry in storage.list(&storage.root()?)? {
        let name = entry.name.to_str().unwrap_or_default();
        let machine = match is_claim(name, "") {
            true => u64::from_str_radix(&name[PREFIX.len()..], 16).ok(),
            false => None,
        };
        if let Some(machine) = machine.filter(|machine| *machine != but)
            && let Ok(Some(claim)) = read(storage, seal, machine)
        {
            highest = highest.max(claim.number);
        }
    }
    Ok(highest)
}

/// Records durably in the store that a machine is in a session with numbers up to `number`.
pub(crate) fn write<S: Storage>(
    storage: &S,
    (engines, key): (&Engines, &Key),
    machine: u64,
    (session, number): (u64, u64),
) -> Result<()> {
    let (root, name) = (storage.root()?, name(machine));
    let plain = [machine, session, number].map(u64::to_be_bytes).concat();
    let sealed = engines.seal(key, AAD, &plain)?;
    let mut new = name.clone();
    new.push(NEW);
    let shown = name.to_string_lossy();
    let failed = |source| Error::Store {
        what: format!("cannot write {shown}"),
        source,
    };
    match storage.unlink(&root, &new) {
        Err(error) if !is_missing(&error) => {
            return Err(match is_folder(storage, &root, &new) {
                true => not_ours(format!("{shown}{NEW}").into(), "regular file"),
                false => failed(error),
            });
        }
        _ => {}
    }
    let written = (|| {
        let file = storage.create(&root, &new, 0o600)?;
        storage.write_at(&file, &sealed, 0)?;
        if let Ok(former) = storage.attributes(At::Name(&root, &name)) {
            make_later(storage, &file, &former)?;
        }
        storage.sync(&file, true)?;
        storage.rename((&root, &new), (&root, &name), RenameFlags::empty())?;
        storage.sync_dir(&root)
    })();
    written.map_err(|error| {
        // In a vault that is not open, it would look as if it had been put there.
        let _ = storage.unlink(&root, &new);
        failed(error)
    })
}

fn is_folder<S: Storage>(storage: &S, root: &S::Dir, name: &OsStr) -> bool {
    let found = storage.attributes(At::Name(root, name));
    found.is_ok_and(|found| FileType::from_raw_mode(found.mode) == FileType::Directory)
}
