//! Notes on their way to the database: each waits until the store has durably what it tells, then
//! for the next commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Memory;
use super::record::{Batch, Spot};
use super::store::Store;
use super::verdict::{Kind, Known, Occupant};
use crate::core::lock;
use crate::error::Result;
use crate::format::keys::Id;
use crate::format::names::Place;

/// Notes on their way to the database.
#[derive(Default)]
pub(super) struct Pending {
    /// Of what the store may not have durably.
    pub(super) written: Written,
    /// Of what the store is just being synced for. Nothing in it is older than what is durable.
    pub(super) marked: Batch,
    /// Of what the store has durably.
    pub(super) durable: Batch,
    /// What is just being committed.
    pub(super) committing: Arc<Batch>,
    /// Whether a session began and nothing was noted in it.
    pub(super) untouched: bool,
    /// Spots that the user was told of.
    told: HashSet<Spot>,
    /// Threads that are removing names.
    intents: usize,
    /// Whether names may have been taken away without a note: durably so.
    pub(super) removing: bool,
    /// Objects that may have gone back in this session, because a sync failed.
    pub(super) given_up: HashSet<Id>,
}

impl Pending {
    /// Adds what the store has durably. It is newer than what the store is just being synced for.
    fn add_durable(&mut self, newer: Batch) {
        for id in newer.objects.keys() {
            self.marked.objects.remove(id);
        }
        for spot in newer.places.keys() {
            self.marked.places.remove(spot);
        }
        self.durable.extend(newer);
    }

    /// Takes back what could not be committed. It is older than everything else.
    pub(super) fn put_back(&mut self, mut older: Batch) {
        let marked = &self.marked;
        older
            .objects
            .retain(|id, _| !marked.objects.contains_key(id));
        older
            .places
            .retain(|spot, _| !marked.places.contains_key(spot));
        let newer = std::mem::replace(&mut self.durable, older);
        self.durable.extend(newer);
    }
}

/// Notes by what makes them durable: an object's state by syncing its file, a name by syncing its
/// folder.
#[derive(Default)]
pub(super) struct Written {
    pub(super) objects: HashMap<Id, Known>,
    pub(super) folders: HashMap<Id, HashMap<Place, Occupant>>,
    /// Spots from which something was taken, whatever stands there now.
    pub(super) emptied: HashSet<Spot>,
    /// Removed objects, with the folder of their last name.
    pub(super) dead: HashMap<Id, (Known, Id)>,
    /// The new places of an object, which are durable with its file: putting it at the next one makes
    /// the one before durable.
    pub(super) entries: HashMap<Id, Vec<Spot>>,
}

impl Written {
    fn removes(&self) -> bool {
        !self.dead.is_empty() || !self.emptied.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.folders.is_empty() && self.dead.is_empty()
    }

    fn into_batch(self) -> Batch {
        let mut batch = Batch::default();
        batch.objects.extend(self.objects);
        let dead = self.dead.into_iter().map(|(id, (known, _))| (id, known));
        batch.objects.extend(dead);
        for (folder, places) in self.folders {
            let places = places.into_iter();
            batch
                .places
                .extend(places.map(|(place, it)| ((folder, place), it)));
        }
        batch
    }
}

impl Memory {
    /// Refuses changes while they could not be remembered.
    pub(crate) fn usable(&self) -> Result<()> {
        match self.failed.load(Ordering::Relaxed) {
            true => Err(rustix::io::Errno::ROFS.into()),
            false => Ok(()),
        }
    }

    /// The newest state that is known of an object.
    #[cfg(test)]
    pub(crate) fn known(&self, id: &Id) -> Result<Option<Known>> {
        self.known_in(&lock(&self.pending), id)
    }

    pub(super) fn known_in(&self, pending: &Pending, id: &Id) -> Result<Option<Known>> {
        let Some(store) = &self.store else {
            return Ok(None);
        };
        let written = &pending.written;
        let newest = written.dead.get(id).map(|(known, _)| known);
        let newest = newest
            .or_else(|| written.objects.get(id))
            .or_else(|| pending.marked.objects.get(id))
            .or_else(|| pending.durable.objects.get(id))
            .or_else(|| pending.committing.objects.get(id));
        match newest {
            Some(known) => Ok(Some(known.clone())),
            None => store.object(id),
        }
    }

    pub(super) fn place_in(&self, pending: &Pending, spot: &Spot) -> Result<Option<Occupant>> {
        let Some(store) = &self.store else {
            return Ok(None);
        };
        let folder = pending.written.folders.get(&spot.0);
        let newest = folder
            .and_then(|folder| folder.get(&spot.1))
            .or_else(|| pending.marked.places.get(spot))
            .or_else(|| pending.durable.places.get(spot))
            .or_else(|| pending.committing.places.get(spot));
        match newest {
            Some(occupant) => Ok(Some(occupant.clone())),
            None => store.place(spot),
        }
    }

    /// The store has an object durably as it was last noted, but maybe not its name.
    pub(crate) fn record_synced(&self, id: &Id) {
        let pending = &mut *lock(&self.pending);
        let mut durable = Batch::default();
        let known = pending.written.objects.remove(id);
        durable.objects.extend(known.map(|known| (*id, known)));
        pending.add_durable(durable);
    }

    /// The store has an object durably as it was last noted, and its new names.
    pub(crate) fn synced(&self, id: &Id) {
        if self.store.is_none() {
            return;
        }
        self.record_synced(id);
        let pending = &mut *lock(&self.pending);
        let mut durable = Batch::default();
        let written = &mut pending.written;
        for spot in written.entries.remove(id).unwrap_or_default() {
            // Unless it has left that place again.
            if let Some(folder) = written.folders.get_mut(&spot.0)
                && folder.get(&spot.1).is_some_and(|it| it.id == *id)
                && let Some(occupant) = folder.remove(&spot.1)
            {
                written.emptied.remove(&spot);
                durable.places.insert(spot, occupant);
            }
        }
        pending.add_durable(durable);
    }

    /// The store has the names of a folder durably as they were last noted.
    pub(crate) fn folder_synced(&self, folder: &Id) {
        if self.store.is_none() {
            return;
        }
        let pending = &mut *lock(&self.pending);
        let mut durable = Batch::default();
        let written = &mut pending.written;
        let places = written.folders.remove(folder).unwrap_or_default();
        written.emptied.retain(|spot| spot.0 != *folder);
        // A symlink is what its entry holds.
        let links = places.values().filter(|it| it.kind == Some(Kind::Symlink));
        for id in links.map(|it| it.id) {
            let known = written.objects.remove(&id);
            durable.objects.extend(known.map(|known| (id, known)));
        }
        let places = places.into_iter().map(|(place, it)| ((*folder, place), it));
        durable.places.extend(places);
        let gone = written.dead.extract_if(|_, (_, last)| last == folder);
        let gone = gone.map(|(id, (known, _))| (id, known));
        durable.objects.extend(gone);
        pending.add_durable(durable);
    }

    /// Makes all notes durable whose subject is durable in the store. One commit serves all threads
    /// that wait for it.
    pub(crate) fn make_durable(&self) -> Result<()> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let _committing = lock(&self.committing);
        let (batch, session) = {
            let mut pending = lock(&self.pending);
            let noted = pending.intents == 0
                && pending.marked.is_empty()
                && !(pending.removing && pending.written.removes());
            let session = (pending.removing && noted).then_some((self.session, false));
            // Another thread's commit had them.
            if pending.durable.is_empty() && session.is_none() {
                drop(pending);
                return self.usable_again(store);
            }
            pending.removing &= !noted;
            pending.untouched = false;
            pending.committing = Arc::new(std::mem::take(&mut pending.durable));
            (Arc::clone(&pending.committing), session)
        };
        let committed = store.commit(&batch, session);
        let mut pending = lock(&self.pending);
        pending.committing = Arc::default();
        self.failed.store(committed.is_err(), Ordering::Relaxed);
        if committed.is_err() {
            let older = Arc::try_unwrap(batch).unwrap_or_else(|shared| (*shared).clone());
            pending.put_back(older);
        }
        committed
    }

    /// Says durably that names are about to be taken away, until that is noted: only then may a
    /// crash excuse that something is missing. One commit serves until the notes are next saved.
    pub(crate) fn removing(&self) -> Result<Removing<'_>> {
        let mut pending = lock(&self.pending);
        pending.intents += 1;
        let (said, removing) = (pending.removing, Removing(self));
        drop(pending);
        if let (Some(store), true, false) = (&self.store, self.writes, said) {
            let _committing = lock(&self.committing);
            let said = (self.session, true);
            let said = store.commit(&Batch::default(), Some(said));
            self.failed.store(said.is_err(), Ordering::Relaxed);
            said?;
            lock(&self.pending).removing = true;
        }
        Ok(removing)
    }

    /// After a failure there are notes left, unless there was no time to write any.
    fn usable_again(&self, store: &Store) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            let meta = self.meta(self.clock.last(), self.clock.reserved());
            store.set_meta(&meta, None)?;
            self.failed.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes all notes durable; `sync` makes everything in the store durable, and is called if
    /// there is anything to note.
    pub(crate) fn save(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        loop {
            // First what is older.
            self.make_durable()?;
            let mut pending = lock(&self.pending);
            if pending.written.is_empty() && pending.marked.is_empty() {
                return Ok(());
            }
            if pending.durable.is_empty() {
                let written = std::mem::take(&mut pending.written).into_batch();
                pending.marked.extend(written);
                break;
            }
        }
        // If this fails, they stay marked until it does not.
        sync()?;
        {
            let mut pending = lock(&self.pending);
            let marked = std::mem::take(&mut pending.marked);
            pending.durable.extend(marked);
        }
        self.make_durable()
    }

    /// Whether the user was not told of this spot yet.
    pub(crate) fn first_told(&self, spot: &Spot) -> bool {
        lock(&self.pending).told.insert(*spot)
    }

    /// Ends the session, with all notes durable.
    pub(crate) fn close(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        self.save(sync)?;
        let Some(store) = &self.store else {
            return Ok(());
        };
        let _committing = lock(&self.committing);
        if self.writes {
            let last = self.clock.last();
            let [settled, accepted] =
                [&self.settled, &self.accepted].map(|it| it.load(Ordering::Relaxed));
            store.end_session(&self.meta(last, last), settled, accepted)?;
        }
        store.close()
    }
}

/// A session in which nothing was noted, such as one that could not be mounted, leaves nothing that
/// a crash would excuse.
impl Drop for Memory {
    fn drop(&mut self) {
        let nothing = {
            let pending = lock(&self.pending);
            let empty = pending.marked.is_empty() && pending.durable.is_empty();
            empty && pending.written.is_empty() && pending.untouched && !pending.removing
        };
        // Opened again, it would hinder the next process.
        let open = self.store.as_ref().is_some_and(|store| store.is_open());
        if nothing && open && self.clock.last() < self.first {
            // What cannot be ended counts as a crash.
            let _ = self.close(|| Ok(()));
        }
    }
}

/// Names are being taken away while this exists.
pub(crate) struct Removing<'a>(&'a Memory);

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        lock(&self.0.pending).intents -= 1;
    }
}
