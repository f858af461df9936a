//! Files that need a commit: their list, the tick that commits them, and the closing of a vault,
//! for which all must be committed.

use std::ffi::OsStr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};
use std::time::SystemTime;

use rustix::io::Errno;

use crate::core::{JOURNALS, lock};
use crate::error::Result;
use crate::file::content::{Content, State};
use crate::store::storage::Storage;
use crate::vault::Vault;

/// Up to this many files are made durable individually.
const SYNCED_ONE_BY_ONE: usize = 4;

/// The files that need a commit.
pub(crate) struct Uncommitted<S: Storage> {
    /// Each once: [`Content::listed`] says which are here.
    files: Mutex<Vec<Arc<Content<S>>>>,
    /// Held while files taken from the list are committed: an empty list alone does not mean that
    /// all is committed.
    ticking: Mutex<()>,
}

impl<S: Storage> Default for Uncommitted<S> {
    fn default() -> Self {
        Uncommitted {
            files: Mutex::default(),
            ticking: Mutex::new(()),
        }
    }
}

impl<S: Storage> Uncommitted<S> {
    fn len(&self) -> usize {
        lock(&self.files).len()
    }
}

/// The gate for all changes of the vault, until it is closed.
#[derive(Default)]
pub(crate) struct Gate {
    closed: RwLock<bool>,
    /// Held while the vault is being closed; whether that was done.
    finished: Mutex<bool>,
}

impl Gate {
    /// Waits until the threads inside have left; no more may enter.
    fn close(&self) {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl<S: Storage> Vault<S> {
    /// Runs what changes the vault and lists what it changed, unless the vault was closed: a mount
    /// that is ended while it is in use still gets requests.
    pub(crate) fn changing<T>(&self, action: impl Fn() -> Result<T>) -> Result<T> {
        let closed = self.gate.closed.read();
        let closed = closed.unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(Errno::NOTCONN.into());
        }
        self.core.memory.usable()?;
        // Closing the vault waits for this.
        let result = self.with_descriptors(action);
        drop(closed);
        result
    }

    /// Commits what was written but not yet committed: after a crash, at most what was written
    /// since is lost (and nothing that was synced). Waits for another thread that is doing so.
    ///
    /// # Errors
    /// The first error; the other files are still committed.
    pub fn tick(&self) -> Result<()> {
        let _ticking = lock(&self.uncommitted.ticking);
        self.tick_alone()
    }

    fn tick_alone(&self) -> Result<()> {
        let files = std::mem::take(&mut *lock(&self.uncommitted.files));
        if files.is_empty() {
            self.nodes.sweep();
            return self.save_memory();
        }
        // One time for all files; a later tick takes a later one.
        let second = self.core.next_second();
        let mut result = self.sync_together(&files);
        let mut young = Vec::new();
        for content in files {
            content.listed.store(false, Ordering::Relaxed);
            let mut state = content.write_state();
            if state.dead && Arc::strong_count(&content) == 1 {
                let dropped = self.core.abandon(&content, &mut state);
                result = result.and(dropped);
                continue;
            }
            let committed = self.core.commit(&content, &mut state, false);
            let is_young = committed.is_ok() && state.is_young();
            result = result.and(self.committed(&content, state, committed, second));
            if is_young {
                young.push(content);
            }
        }
        result = result.and(self.sync_together(&young));
        for content in young {
            let mut state = content.write_state();
            let committed = self.core.bury_first(&content, &mut state);
            result = result.and(self.committed(&content, state, committed, second));
        }
        self.nodes.sweep();
        result.and_then(|()| self.save_memory())
    }

    /// After a commit: removes the journal of a file that needs no further commit and sets its time
    /// in the store; a file that failed waits for the next tick.
    fn committed(
        &self,
        content: &Arc<Content<S>>,
        mut state: RwLockWriteGuard<'_, State<S>>,
        committed: Result<()>,
        second: SystemTime,
    ) -> Result<()> {
        let done = committed
            .and_then(|()| self.core.drop_journal(content, &mut state))
            .and_then(|()| self.core.move_time(content, &mut state, second));
        // What was given up is opened again, as after a crash.
        let again = done.is_err() && !state.broken;
        drop(state);
        if again {
            self.list(content);
        }
        done
    }

    /// Makes what was written to many files durable in one step.
    fn sync_together(&self, files: &[Arc<Content<S>>]) -> Result<()> {
        if files.len() <= SYNCED_ONE_BY_ONE {
            return Ok(());
        }
        let written: Vec<_> = files
            .iter()
            .map(|content| (content, content.read_state().written))
            .collect();
        self.core.storage.sync_all()?;
        for (content, written) in written {
            let mut state = content.write_state();
            state.synced = state.synced.max(written);
        }
        Ok(())
    }

    fn save_memory(&self) -> Result<()> {
        self.core.memory.save(|| self.sync_store())
    }

    fn sync_store(&self) -> Result<()> {
        match self.core.read_only {
            true => Ok(()),
            false => Ok(self.core.storage.sync_all()?),
        }
    }

    pub(crate) fn tick_unless_read_only(&self) -> Result<()> {
        if self.core.read_only {
            return Ok(());
        }
        self.tick()
    }

    /// Remembers that a file needs a commit.
    pub(crate) fn list_uncommitted(&self, content: &Arc<Content<S>>) {
        if self.list(content) <= self.budget.uncommitted {
            return;
        }
        let ticking = lock(&self.uncommitted.ticking);
        // Another thread may have done it meanwhile.
        if self.uncommitted.len() <= self.budget.uncommitted {
            return;
        }
        let ticked = self.tick_alone();
        drop(ticking);
        if let Err(error) = ticked {
            self.core.tell_error(&error);
        }
    }

    /// Puts a file on the list of those that need a commit, unless it is there; returns the list's
    /// new length, or 0.
    fn list(&self, content: &Arc<Content<S>>) -> usize {
        if content.listed.swap(true, Ordering::Relaxed) {
            return 0;
        }
        let mut files = lock(&self.uncommitted.files);
        files.push(Arc::clone(content));
        files.len()
    }

    /// Releases a file whose last name is gone, so that it takes no more room; if it is open, the
    /// next tick does so.
    pub(crate) fn let_go(&self, content: Arc<Content<S>>) {
        let content = {
            let mut files = lock(&self.uncommitted.files);
            let Some(at) = files.iter().position(|file| Arc::ptr_eq(file, &content)) else {
                return;
            };
            drop(content);
            if Arc::strong_count(&files[at]) > 1 {
                return;
            }
            files.swap_remove(at)
        };
        let abandoned = self.core.abandon(&content, &mut content.write_state());
        if let Err(error) = abandoned {
            self.core.tell_error(&error);
        }
    }

    /// Closes the vault, if [`unmounted`](crate::fs::FileSystem::unmounted) has not done so, and
    /// says whether all of it is durable.
    ///
    /// # Errors
    /// Whatever could not be written, in the store or to this machine's memory.
    pub fn close(&self) -> Result<()> {
        self.finish()
    }

    /// Closes the vault: commits everything, and notes that in the store; from then on, no crash
    /// excuses what does not fit. If anything could not be committed, the store stays as after a
    /// crash.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.core.read_only {
            return self.core.memory.close(|| Ok(()));
        }
        // A second caller waits: the process may end when this returns.
        let mut finished = lock(&self.gate.finished);
        if *finished {
            return Ok(());
        }
        // Most of it, while requests are still answered.
        let ticked = self.tick();
        self.gate.close();
        ticked?;
        while self.uncommitted.len() > 0 {
            self.tick()?;
        }
        let _ticking = lock(&self.uncommitted.ticking);
        self.core.storage.sync_all()?;
        let seal = (&self.core.keys.engines, &self.core.keys.memory);
        self.core.memory.tell_again(&self.core.storage, seal)?;
        // Before the store says that the vault is closed.
        self.core.memory.close(|| self.sync_store())?;
        let journals = self.core.journals()?;
        // Until a repair has seen them all, files may be longer in the store than they are.
        let whole = !self.core.unclean.load(Ordering::Relaxed)
            && lock(&self.core.left_over).is_empty()
            && self.core.storage.list(journals)?.is_empty();
        if whole {
            let root = self.core.storage.root()?;
            self.core.storage.remove_dir(&root, OsStr::new(JOURNALS))?;
            self.core.storage.sync_dir(&root)?;
        }
        self.core.storage.closed();
        *finished = true;
        Ok(())
    }
}
