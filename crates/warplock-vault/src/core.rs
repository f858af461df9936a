//! The state that all parts of an open vault share.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result, Subject};
use crate::format::keys::{Id, VaultKeys};
use crate::format::layout::Layout;
use crate::fs::{Attributes, Changes, FileType, SetTime};
use crate::memory::Memory;
use crate::pool::Pool;
use crate::store::storage::{At, Storage};

/// The folder of journals in the store. While it exists, the vault is open for writing, or was not
/// closed properly.
pub(crate) const JOURNALS: &str = "warplock.journal";

/// No commit has a time in the store that is further in the future than this.
const MOST_AHEAD: u64 = 24 * 3600;

/// Receives sentences that the user should see.
pub type Trouble = dyn Fn(&str) + Send + Sync;

/// Store, keys, shape.
pub(crate) struct Core<S: Storage> {
    pub(crate) storage: S,
    pub(crate) keys: VaultKeys,
    pub(crate) layout: Layout,
    pub(crate) pool: Pool,
    /// Pages of seals in memory, of all files in use.
    pub(crate) held_pages: Arc<AtomicUsize>,
    pub(crate) read_only: bool,
    /// The folder of journals; `None` in a vault open for reading that was closed properly.
    pub(crate) journals: Option<S::Dir>,
    /// Files whose journals were found when the vault was opened, and files that were given up
    /// since: their journals may hold work to do when they are opened.
    pub(crate) left_over: Mutex<HashSet<Id>>,
    /// Whether the vault was not closed properly the last time, and not repaired since.
    pub(crate) unclean: AtomicBool,
    /// The newest time, in whole seconds, that a commit set or that was seen in the store.
    pub(crate) newest_second: AtomicU64,
    /// What this machine knows of the vault.
    pub(crate) memory: Memory,
    pub(crate) hearers: Hearers,
}

/// The receivers of sentences that the user should see.
#[derive(Clone, Default)]
pub(crate) struct Hearers {
    /// For a user who may know what is in the vault.
    pub(crate) trouble: Option<Arc<Trouble>>,
    /// A log that others may read.
    pub(crate) log: Option<Arc<Trouble>>,
}

impl Hearers {
    /// Tells both, the log in other words.
    pub(crate) fn tell(&self, text: &str, in_log: impl FnOnce() -> String) {
        if let Some(trouble) = &self.trouble {
            trouble(text);
        }
        if let Some(log) = &self.log {
            log(&in_log());
        }
    }
}

impl<S: Storage> Core<S> {
    /// Reports to the user, in a sentence without names in the vault.
    pub(crate) fn tell(&self, text: &str) {
        self.hearers.tell(text, || text.to_owned());
    }

    /// Tells a person what went wrong.
    pub(crate) fn tell_error(&self, error: &Error) {
        self.hearers.tell(&error.to_string(), || error.in_log());
    }

    /// Reports to the user what failed, and why.
    pub(crate) fn tell_failure(&self, undone: &str, error: &Error) {
        self.hearers.tell(&format!("{undone}: {error}"), || {
            format!("{undone}: {}", error.in_log())
        });
    }

    /// Tells a person something about `what`.
    pub(crate) fn tell_of(&self, what: &Subject, sentence: impl Fn(&str) -> String) {
        let shown = sentence(&what.shown);
        self.hearers.tell(&shown, || what.in_log(sentence));
    }

    /// Notes a time that was seen in the store.
    pub(crate) fn saw_time(&self, shown: SystemTime) {
        let (shown, now) = (seconds(shown), seconds(SystemTime::now()));
        if shown <= now + MOST_AHEAD {
            self.newest_second.fetch_max(shown, Ordering::Relaxed);
        }
    }

    /// A whole second, in the future, that nothing in the store has yet: programs that copy the
    /// store compare lengths and whole seconds.
    pub(crate) fn next_second(&self) -> SystemTime {
        let now = seconds(SystemTime::now());
        let newest = |newest: u64| Some(newest.max(now) + 1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.newest_second.fetch_update(set, fetch, newest);
        let before = before.unwrap_or_else(|newest| newest);
        SystemTime::UNIX_EPOCH + Duration::from_secs(before.max(now) + 1)
    }

    /// A half-done operation could not be undone: the store looks as after a crash, so this session
    /// must not end as closed properly.
    pub(crate) fn tidied<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.unclean.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Opens one of the vault's internal files, which errors call `what`; it must be a regular
    /// file.
    pub(crate) fn open_own(
        &self,
        dir: &S::Dir,
        name: &OsStr,
        write: bool,
        what: impl FnOnce() -> Subject,
    ) -> Result<S::File> {
        open_own_file(&self.storage, dir, name, write, what)
    }

    /// The folder of journals.
    pub(crate) fn journals(&self) -> Result<&S::Dir> {
        self.journals
            .as_ref()
            .ok_or(Error::Errno(rustix::io::Errno::ROFS))
    }
}

/// Whole seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Gives a file that is to replace another one a time in a later whole second: programs that copy
/// the store compare lengths and whole seconds.
pub(crate) fn make_later<S: Storage>(
    storage: &S,
    file: &S::File,
    former: &Attributes,
) -> io::Result<()> {
    let later = former.modified.checked_add(Duration::from_secs(1));
    let made = storage.attributes(At::File(file))?;
    let Some(later) = later.filter(|later| *later > made.modified) else {
        return Ok(());
    };
    let changes = Changes {
        modified: Some(SetTime::To(later)),
        ..Changes::default()
    };
    storage.change(At::File(file), &changes)
}

/// [`Core::open_own`], before there is a core.
pub(crate) fn open_own_file<S: Storage>(
    storage: &S,
    dir: &S::Dir,
    name: &OsStr,
    write: bool,
    what: impl FnOnce() -> Subject,
) -> Result<S::File> {
    storage.open(dir, name, write).map_err(|error| {
        if !is_missing(&error)
            && let Ok(found) = storage.attributes(At::Name(dir, name))
            && FileType::from_raw_mode(found.mode) != FileType::RegularFile
        {
            return not_ours(what(), "regular file");
        }
        error.into()
    })
}

/// Opens one of the vault's internal folders in the topmost one; `None` if it does not exist.
pub(crate) fn open_own_dir<S: Storage>(
    storage: &S,
    root: &S::Dir,
    name: &'static str,
) -> Result<Option<S::Dir>> {
    match storage.open_dir(root, OsStr::new(name)) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => {
            let found = storage.attributes(At::Name(root, OsStr::new(name)))?;
            match FileType::from_raw_mode(found.mode) {
                FileType::Directory => Err(error.into()),
                _ => Err(not_ours(name.into(), "folder")),
            }
        }
    }
}

pub(crate) fn not_ours(what: Subject, kind: &str) -> Error {
    Error::altered(
        what,
        format!("what stands there is no {kind}; remove it, or restore it from a backup"),
    )
}

/// The name of the journal of the file `id`: its id in hexadecimal.
pub(crate) fn journal_name(id: &Id) -> OsString {
    hex(id).into()
}

/// The file whose journal has this name. A journal has one name: under another (capitals, signs)
/// nothing would find it.
pub(crate) fn journal_id(name: &OsStr) -> Option<Id> {
    let text = name.to_str().filter(|text| text.len() == 32)?;
    let id = u128::from_str_radix(text, 16).ok()?.to_be_bytes();
    (journal_name(&id) == name).then_some(id)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Locks, also after a panic elsewhere: every guarded value is consistent between statements.
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
