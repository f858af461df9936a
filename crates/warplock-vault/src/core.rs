//! What every part of an open vault works with.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::keys::{Id, VaultKeys};
use crate::layout::Layout;
use crate::pool::Pool;
use crate::storage::Storage;
use crate::witness::Witness;

/// The folder of journals in the store. While it is there, the vault is open for writing, or was
/// not closed properly.
pub(crate) const JOURNALS: &str = "warplock.journal";

/// Hears of what a person should know, in a sentence.
pub type Trouble = dyn Fn(&str) + Send + Sync;

/// Store, keys, shape.
pub(crate) struct Core<S: Storage> {
    pub(crate) storage: S,
    pub(crate) keys: VaultKeys,
    pub(crate) layout: Layout,
    pub(crate) pool: Pool,
    pub(crate) read_only: bool,
    /// The folder of journals; `None` in a vault open for reading that was closed properly.
    pub(crate) journals: Option<S::Dir>,
    /// Files whose journals were found when the vault was opened, and files that were given up
    /// since: a journal may hold what is to be done when they are opened.
    pub(crate) left_over: Mutex<HashSet<Id>>,
    /// Whether the vault was not closed properly the last time, and not repaired since.
    pub(crate) unclean: AtomicBool,
    pub(crate) witness: Option<Witness>,
    pub(crate) trouble: Option<Arc<Trouble>>,
}

impl<S: Storage> Core<S> {
    /// Tells a person what went wrong.
    pub(crate) fn tell(&self, text: &str) {
        if let Some(trouble) = &self.trouble {
            trouble(text);
        }
    }

    /// The folder of journals.
    pub(crate) fn journals(&self) -> Result<&S::Dir> {
        self.journals
            .as_ref()
            .ok_or(Error::Errno(rustix::io::Errno::ROFS))
    }
}

/// The name of the journal of the file `id`: its id in hexadecimal.
pub(crate) fn journal_name(id: &Id) -> OsString {
    hex(id).into()
}

/// The file whose journal has this name.
pub(crate) fn journal_id(name: &OsStr) -> Option<Id> {
    let text = name.to_str().filter(|text| text.len() == 32)?;
    let mut id = [0; 16];
    for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    // Not `+1` or `AB`, which parse as well: one file has one journal.
    (journal_name(&id) == name).then_some(id)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Locks, also after a panic elsewhere: every guarded value is whole between statements.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether something is simply not there.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_have_one_name() {
        let id = [0xab; 16];
        let name = journal_name(&id);
        assert_eq!(journal_id(&name), Some(id));
        let text = name.to_str().unwrap();
        for other in [text.to_uppercase(), format!("+1{}", &text[2..])] {
            assert_eq!(journal_id(OsStr::new(&other)), None, "{other}");
        }
    }
}
