//! Limits of the process. File descriptors: how many a vault may hold only to save time, and what is
//! done when there are none left.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Result};
use crate::store::storage::Storage;
use crate::vault::Vault;

/// More than any single operation opens.
const SPARE: usize = 8;

/// Raises the limit of descriptors to what this process may have: what programs have open in a
/// mount is open in the process that serves it, and the usual limit is meant for other programs.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where that is refused, the vault makes do with what there is.
    let _ = setrlimit(Resource::Nofile, most);
}

/// Raises the limits of file lengths, memory and CPU time as far as this process may: they are those of
/// the program that mounts, and this process serves others, for long. Gives what will end it all the same.
pub fn raise_inherited_limits() -> Vec<String> {
    let raised = |resource| {
        let limit = |maximum| {
            let current = maximum;
            setrlimit(resource, Rlimit { current, maximum })
        };
        if limit(None).is_err() {
            let _ = limit(getrlimit(resource).maximum);
        }
        getrlimit(resource).current
    };
    // Beyond this one, writing fails.
    raised(Resource::Fsize);
    let time = raised(Resource::Cpu);
    let memory = [Resource::As, Resource::Data]
        .into_iter()
        .filter_map(raised);
    let time = time.map(|seconds| format!("{seconds} s of CPU time (ulimit -t)"));
    let memory = memory.min().map(|bytes| {
        let mebibytes = bytes >> 20;
        format!("{mebibytes} MiB of memory (ulimit -v, -d)")
    });
    time.into_iter().chain(memory).collect()
}

/// What is kept open, as far as it is the vault's choice: together up to half of all descriptors.
pub(crate) struct Budget {
    /// The number of folders that are kept open to save time.
    pub(crate) folders: usize,
    /// The number of files, each with its journal, that may wait for a commit before one is made.
    pub(crate) uncommitted: usize,
}

impl Budget {
    pub(crate) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Budget {
            folders: (limit / 4).min(1000),
            uncommitted: (limit / 8).min(512),
        }
    }
}

/// Whether something failed because there is no descriptor left, here or in all of the system.
pub(crate) fn is_exhausted(error: &Error) -> bool {
    matches!(error.errno(), Errno::MFILE | Errno::NFILE)
}

impl<S: Storage> Vault<S> {
    /// Runs `action`; once more, with all descriptors that can be freed, if it ran out. The caller
    /// must hold no locks.
    pub(crate) fn with_descriptors<T>(&self, action: impl Fn() -> Result<T>) -> Result<T> {
        match action() {
            Err(error) if is_exhausted(&error) => {
                self.free_descriptors();
                action()
            }
            other => other,
        }
    }

    /// Sees to it that there are descriptors for what must not fail halfway.
    pub(crate) fn reserve_descriptors(&self) {
        let spare: Result<Vec<_>> = (0..SPARE).map(|_| Ok(self.core.storage.root()?)).collect();
        if spare.is_err_and(|error| is_exhausted(&error)) {
            self.free_descriptors();
        }
    }

    /// Closes what is open only to save time, or until it is committed.
    fn free_descriptors(&self) {
        self.close_folders();
        if let Err(error) = self.tick_unless_read_only() {
            self.core.tell_error(&error);
        }
    }
}
