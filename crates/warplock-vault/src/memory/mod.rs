//! The machine's memory: what this machine knows of a vault, outside the store, so that nothing in
//! it goes back or disappears unnoticed. `docs/vault-format.md` says what may be relied upon.
//!
//! A note waits until the store has durably what it tells: what is remembered is never ahead of the
//! store. Before an fsync returns, its notes are durable, too; one commit serves all that wait.

mod claim;
mod clock;
mod found;
mod path;
mod pending;
mod record;
mod store;
mod verdict;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use warplock::Key;
use zeroize::Zeroizing;

pub(crate) use claim::{MAX_LEN as CLAIM_LEN, NEW, is_claim};
use clock::Clock;
pub(crate) use clock::{Stamp, Vector, Version};
pub(crate) use path::{Binding, bind, bound, remove, unbind};
pub use path::{default_memory_dir, known_vaults, memory_lies_in};
use pending::Pending;
use record::Meta;
pub(crate) use record::Spot;
use store::Store;
use verdict::Crash;
pub(crate) use verdict::{Kind, Known, Occupant, State};

use crate::accept::MemoryInfo;
use crate::core::{hex, lock};
use crate::error::{Error, Result};
use crate::format::keys::{Engines, Id, random};
use crate::store::storage::Storage;

/// What this machine knows of a vault; without a place to keep it, nothing.
pub(crate) struct Memory {
    store: Option<Store>,
    vault: Id,
    clock: Clock,
    /// The present session; of one that only reads, the next.
    session: u64,
    /// The first number of this session.
    first: u64,
    writes: bool,
    /// The highest number of which the store was told; 0 if it was not.
    told: AtomicU64,
    crashes: Vec<Crash>,
    /// Whether all that these left is noted, so that they excuse nothing any more.
    settled: AtomicBool,
    pending: Mutex<Pending>,
    /// Held while a batch is committed: a thread that waits for it finds its own notes committed,
    /// too.
    committing: Mutex<()>,
    /// Whether the last commit failed.
    failed: AtomicBool,
    /// Whether states of other machines were seen.
    others: AtomicBool,
    /// Whether everything found is accepted, because the user says so.
    accepting: AtomicBool,
    /// Whether something was accepted that is not right.
    accepted: AtomicBool,
    /// Objects that were seen for the first time, and not made here.
    first_seen: AtomicU64,
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

impl Memory {
    /// No memory: a machine of its own for one session.
    pub(crate) fn none(vault: Id) -> Result<Self> {
        let machine = u64::from_be_bytes(random()?);
        let clock = Clock::new(machine, 0, 0);
        Ok(Self::new(None, vault, clock, 0, Vec::new(), false))
    }

    fn new(
        store: Option<Store>,
        vault: Id,
        clock: Clock,
        session: u64,
        crashes: Vec<Crash>,
        writes: bool,
    ) -> Self {
        Memory {
            store,
            vault,
            session,
            first: clock.last().saturating_add(1),
            clock,
            writes,
            told: AtomicU64::new(0),
            crashes,
            settled: AtomicBool::new(false),
            pending: Mutex::default(),
            committing: Mutex::new(()),
            failed: AtomicBool::new(false),
            others: AtomicBool::new(false),
            accepting: AtomicBool::new(false),
            accepted: AtomicBool::new(false),
            first_seen: AtomicU64::new(0),
        }
    }

    /// Opens the memory of the vault `vault` in `dir`, or makes one; whether it was there. With
    /// `writes`, a session is to [`begin`](Self::begin); `renew` makes this another machine, for a
    /// memory that was restored from an older copy.
    pub(crate) fn open(
        dir: &Path,
        vault: Id,
        key: &Zeroizing<[u8; 32]>,
        writes: bool,
        renew: bool,
    ) -> Result<(Self, bool)> {
        let folder = path::Folder::open(dir, &hex(&vault), true)?.expect("it was made");
        let store = Store::open(folder, writes, key.clone())?;
        let found = store.meta()?;
        let known = found.is_some();
        let mut meta = match found {
            Some(meta) if meta.vault == vault => meta,
            Some(_) => {
                return Err(Error::altered(
                    format!("the machine's memory in {}", dir.display()),
                    "it is of a vault with another id; `warplock vault memory forget` removes it",
                ));
            }
            None => Meta {
                vault,
                machine: u64::from_be_bytes(random()?),
                session: 0,
                last: 0,
                reserved: 0,
                others: false,
            },
        };
        if renew && known {
            meta.machine = u64::from_be_bytes(random()?);
            meta.others = true;
        }
        if !known {
            store.set_meta(&meta, None)?;
        }
        // Numbers go on above all that an earlier session may have used.
        let last = meta.last.max(meta.reserved);
        let crashes = store.crashes()?;
        let reserved = match writes {
            true => Clock::reservation(last),
            false => meta.reserved,
        };
        let clock = Clock::new(meta.machine, last, reserved);
        let session = meta.session + 1;
        let memory = Self::new(Some(store), vault, clock, session, crashes, writes);
        memory.others.store(meta.others, Ordering::Relaxed);
        Ok((memory, known))
    }

    /// Begins a session that writes, which must be closed.
    fn begin(&self) -> Result<()> {
        match (&self.store, self.writes) {
            (Some(store), true) => {
                self.reserve(store, self.clock.last(), self.clock.reserved())?;
                lock(&self.pending).untouched = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reserves numbers for this session, durably.
    fn reserve(&self, store: &Store, last: u64, reserved: u64) -> Result<()> {
        let numbers = Crash {
            session: self.session,
            first: self.first,
            last: reserved,
            removing: lock(&self.pending).removing,
        };
        store.set_meta(&self.meta(last, reserved), Some(numbers))
    }

    /// What can be told of a vault's memory without a key.
    pub(crate) fn info(dir: &Path, vault: &Id) -> Result<Option<MemoryInfo>> {
        let Some(folder) = path::Folder::open(dir, &hex(vault), false)? else {
            return Ok(None);
        };
        let path = folder.path.clone();
        let store = Store::open(folder, false, Zeroizing::new([0; 32]))?;
        let Some(meta) = store.meta_unverified()? else {
            return Ok(None);
        };
        let (objects, names) = store.counts()?;
        Ok(Some(MemoryInfo {
            path,
            machine: meta.machine,
            sessions: meta.session,
            crashes: store.crashes()?.len() as u64,
            objects,
            names,
            others: meta.others,
        }))
    }

    /// Compares what the store tells of this machine's sessions with what is remembered, begins a
    /// session that writes, and tells the store of it; gives a sentence for the user if the store is older.
    pub(crate) fn claim<S: Storage>(
        &mut self,
        storage: &S,
        seal: (&Engines, &Key),
        renewed: bool,
    ) -> Result<Option<String>> {
        self.go_on_above(claim::highest(storage, seal, self.clock.machine)?);
        if self.store.is_none() {
            return Ok(None);
        }
        let before = self.session - 1;
        let mut older = None;
        if !renewed {
            let told = claim::read(storage, seal, self.clock.machine)?;
            let told = told.map_or(0, |told| told.session);
            if told > before {
                return Err(Error::altered(
                    "this machine's memory of the vault",
                    format!(
                        "it knows of {before} sessions, but this machine had {told}: it was \
                         restored from an older copy; `warplock vault memory accept` goes on with \
                         what it knows"
                    ),
                ));
            }
            // Of a session that crashed when it began, the store need not know.
            let begun = self.crashes.iter().filter(|it| it.session > told).count() as u64;
            if told + begun < before {
                older = Some(format!(
                    "the store is an older copy of the vault: this machine wrote to it in \
                     {before} sessions, and it knows of {told}; if it was restored on purpose, \
                     `warplock vault memory accept` takes it as it is"
                ));
            }
        }
        if self.writes {
            // Only now: a memory that is refused must not count its way up to what the store tells.
            self.begin()?;
            let written = self.tell(storage, seal);
            lock(&self.pending).untouched = written.is_ok();
            match written {
                // The vault must open on a full disk, too: things are removed through it. Then it is
                // told when the vault is closed.
                Err(error) if matches!(error.errno(), Errno::NOSPC | Errno::DQUOT) => {}
                other => other?,
            }
        }
        Ok(older)
    }

    /// Numbers go on above all that another machine may have given out: of what it removed, the store
    /// has nothing that tells its number.
    fn go_on_above(&mut self, number: u64) {
        if number < self.first {
            return;
        }
        let reserved = match self.writes {
            true => Clock::reservation(number),
            false => self.clock.reserved(),
        };
        self.clock = Clock::new(self.clock.machine, number, reserved);
        self.first = number.saturating_add(1);
    }

    fn tell<S: Storage>(&self, storage: &S, seal: (&Engines, &Key)) -> Result<()> {
        let reserved = self.clock.reserved();
        claim::write(storage, seal, self.clock.machine, (self.session, reserved))?;
        self.told.store(reserved, Ordering::Relaxed);
        Ok(())
    }

    /// Tells the store if a session could not when it began, or gave out more numbers than it told then.
    pub(crate) fn tell_again<S: Storage>(&self, storage: &S, seal: (&Engines, &Key)) -> Result<()> {
        let told = self.told.load(Ordering::Relaxed);
        match self.writes && (told == 0 || self.clock.last() > told) {
            true => self.tell(storage, seal),
            false => Ok(()),
        }
    }

    /// Whether there is a memory at all.
    pub(crate) fn exists(&self) -> bool {
        self.store.is_some()
    }

    /// Whether the last session of this machine was not closed properly, or one before it.
    #[cfg(test)]
    pub(crate) fn crashed(&self) -> bool {
        !self.crashes.is_empty()
    }

    /// All that is in the vault was found and noted: from now on, earlier crashes excuse nothing,
    /// also in later sessions if this one is closed.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// Earlier crashes that may excuse something.
    fn crashes(&self) -> &[Crash] {
        match self.settled.load(Ordering::Relaxed) {
            true => &[],
            false => &self.crashes,
        }
    }

    /// Objects that this machine saw for the first time in this session.
    pub(crate) fn first_seen(&self) -> u64 {
        self.first_seen.load(Ordering::Relaxed)
    }

    /// From now on, or no more, whatever is found is right.
    pub(crate) fn accept(&self, accepting: bool) {
        self.accepting.store(accepting, Ordering::Relaxed);
    }

    /// The version of the next state of an object, which this machine makes from `former`.
    pub(crate) fn successor(&self, id: &Id, former: &Version) -> Result<Version> {
        let stamp = self.next_stamp()?;
        let mut vector = former.vector.clone();
        // If the user accepted `former` in place of a known state, that one goes into it, too.
        if let Some(known) = self.known_in(&lock(&self.pending), id)? {
            vector.join(&known.state.vector);
        }
        vector.include(stamp);
        Ok(Version { stamp, vector })
    }

    /// The version of the first state of an object that is made at a spot.
    pub(crate) fn first(&self, spot: &Spot) -> Result<Version> {
        let stamp = self.next_stamp()?;
        let mut vector = self.standing(spot)?;
        vector.include(stamp);
        Ok(Version { stamp, vector })
    }

    /// All that is known to have gone into what stands at a spot, or stood there: whatever is put
    /// there includes it, so that other machines take it as the newest.
    pub(crate) fn standing(&self, spot: &Spot) -> Result<Vector> {
        self.standing_in(&lock(&self.pending), spot)
    }

    /// The stamp of the next state that this machine makes, or of what it removes.
    pub(crate) fn next_stamp(&self) -> Result<Stamp> {
        self.clock.next(|last, end| match &self.store {
            Some(store) => self.reserve(store, last, end),
            None => Ok(()),
        })
    }

    fn meta(&self, last: u64, reserved: u64) -> Meta {
        Meta {
            vault: self.vault,
            machine: self.clock.machine,
            session: self.session,
            last,
            reserved,
            others: self.others.load(Ordering::Relaxed),
        }
    }

    /// Notes a state that this machine has just made of the one with the stamp `former`.
    ///
    /// # Errors
    /// [`Error::Altered`] if another one is known: two objects with one id are in use.
    pub(crate) fn note(&self, kind: Kind, id: &Id, former: Stamp, state: &State) -> Result<()> {
        if self.store.is_none() {
            return Ok(());
        }
        let mut pending = lock(&self.pending);
        let mut now = self.known_now(kind, state);
        if let Some(known) = self.known_in(&pending, id)?
            // One place may have had several symlinks.
            && kind != Kind::Symlink
        {
            if known.dead {
                return Ok(());
            }
            now.place = known.place;
            let newest = &known.state;
            let same = newest.stamp == state.stamp && newest.tag == state.tag;
            if newest.stamp != former && !same {
                return Err(Error::altered(
                    format!("the object with id {}", hex(id)),
                    "there are two of it in the store, and both are in use: one is a copy; remove \
                     that",
                ));
            }
        }
        pending.written.objects.insert(*id, now);
        Ok(())
    }

    fn known_now(&self, kind: Kind, state: &State) -> Known {
        Known {
            kind,
            state: state.clone(),
            dead: false,
            place: [0; 16],
            session: self.session,
            noted: now(),
        }
    }

    /// Notes that this machine has put an object at a place; `stored` is its name in the store.
    pub(crate) fn placed(
        &self,
        spot: Spot,
        stored: &OsStr,
        kind: Kind,
        id: &Id,
        stamp: Stamp,
    ) -> Result<()> {
        if self.store.is_none() {
            return Ok(());
        }
        let mut pending = lock(&self.pending);
        let known = self.known_in(&pending, id)?;
        if let Some(known) = known.filter(|it| !it.dead && it.place != spot.1) {
            let place = spot.1;
            pending
                .written
                .objects
                .insert(*id, Known { place, ..known });
        }
        let occupant = self.occupant(Some(kind), id, stamp, stored);
        let replaced = self.place_in(&pending, &spot)?;
        let written = &mut pending.written;
        if replaced.is_some_and(|it| it.kind.is_some() && (it.kind, it.id) != (Some(kind), *id)) {
            written.emptied.insert(spot);
        }
        written.entries.entry(*id).or_default().push(spot);
        let folder = written.folders.entry(spot.0).or_default();
        folder.insert(spot.1, occupant);
        Ok(())
    }

    /// Notes that this machine has emptied a place; `object` is what stood there, if that was its
    /// last name.
    pub(crate) fn removed(&self, spot: Spot, object: Option<&Id>, stamp: Stamp) -> Result<()> {
        if self.store.is_none() {
            return Ok(());
        }
        let mut pending = lock(&self.pending);
        let mut nothing = self.occupant(None, &[0; 16], stamp, OsStr::new(""));
        nothing.vector = self.standing_in(&pending, &spot)?;
        // Under its other names, it goes on: what it becomes there did not stand here.
        if let (None, Some(stood)) = (object, self.place_in(&pending, &spot)?)
            && stood.kind == Some(Kind::File)
            && let Some(known) = self.known_in(&pending, &stood.id)?
            && (known.dead, known.place) == (false, spot.1)
        {
            let elsewhere = Known {
                place: [0; 16],
                ..known
            };
            pending.written.objects.insert(stood.id, elsewhere);
        }
        pending.written.emptied.insert(spot);
        let folder = pending.written.folders.entry(spot.0).or_default();
        folder.insert(spot.1, nothing);
        let Some(id) = object else {
            return Ok(());
        };
        if let Some(known) = self.known_in(&pending, id)? {
            let mut dead = self.known_now(known.kind, &known.state);
            dead.dead = true;
            dead.state.vector.include(stamp);
            dead.state.stamp = stamp;
            pending.written.objects.remove(id);
            pending.written.entries.remove(id);
            pending.written.dead.insert(*id, (dead, spot.0));
        }
        Ok(())
    }

    fn occupant(&self, kind: Option<Kind>, id: &Id, stamp: Stamp, stored: &OsStr) -> Occupant {
        Occupant {
            kind,
            id: *id,
            stamp,
            vector: Vector::default(),
            session: self.session,
            noted: now(),
            stored: stored.as_bytes().to_vec(),
        }
    }

    /// A sync of this object failed: what was written of it since may be there or not.
    pub(crate) fn given_up(&self, id: &Id) {
        if self.store.is_some() {
            let mut pending = lock(&self.pending);
            pending.written.objects.remove(id);
            pending.marked.objects.remove(id);
            pending.given_up.insert(*id);
        }
    }
}

#[cfg(test)]
mod tests;
