//! The database of a memory.

use std::io;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use redb::backends::FileBackend;
use redb::{
    Builder, ConcurrencyMode, Database, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, StorageError, Table, TableDefinition, TableError, WriteTransaction,
};
use zeroize::Zeroizing;

use super::path::{DATABASE, Folder};
use super::record::{
    Batch, Meta, Spot, decode_known, decode_occupant, encode_known, encode_occupant, key,
};
use super::verdict::{Crash, Known, Occupant};
use crate::error::{Error, Result};
use crate::format::keys::Id;
use crate::format::names::Place;

/// By id: the newest state of each object.
const OBJECTS: TableDefinition<'_, [u8; 16], &[u8]> = TableDefinition::new("objects");
/// By folder and place: what stands there.
const PLACES: TableDefinition<'_, [u8; 32], &[u8]> = TableDefinition::new("places");
/// By number: sessions that were not closed, the present one among them, and their numbers.
const SESSIONS: TableDefinition<'_, u64, (u64, u64, bool)> = TableDefinition::new("sessions");
/// In place of the numbers of a session that is over, but after which what was removed must stay
/// known: there may be objects that are known and gone, and of which nothing else tells.
const OVER: (u64, u64, bool) = (1, 0, false);
/// One record, [`Meta`].
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const META_KEY: &str = "memory";
/// What of the database is kept in memory. The pages above the leaves of a million files are 2 MiB.
const CACHE_LEN: usize = 16 << 20;

/// The open database.
pub(super) struct Store {
    folder: Folder,
    path: PathBuf,
    /// Whether no other process may have it open: the vault is open for writing.
    exclusive: bool,
    key: Zeroizing<[u8; 32]>,
    /// `None` after it failed, until it is opened again.
    database: RwLock<Option<Database>>,
}

impl Store {
    /// Opens the database in a folder, and makes it if it is not there.
    pub(super) fn open(folder: Folder, exclusive: bool, key: Zeroizing<[u8; 32]>) -> Result<Self> {
        let store = Store {
            path: folder.path.join(DATABASE),
            folder,
            exclusive,
            key,
            database: RwLock::new(None),
        };
        store.reopen()?;
        Ok(store)
    }

    fn failed(&self, what: &'static str, error: impl Into<redb::Error>) -> Error {
        let source = match error.into() {
            redb::Error::Io(source) => source,
            redb::Error::DatabaseAlreadyOpen => {
                io::Error::other("another process uses it, with this vault or a copy of it")
            }
            other => io::Error::other(other),
        };
        Error::memory(&self.path, what, source)
    }

    /// Opens the database again if it failed: what was committed is there.
    fn reopen(&self) -> Result<()> {
        let mut database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if database.is_some() {
            return Ok(());
        }
        let file = self.folder.file(DATABASE, true)?.expect("it was made");
        let opened = FileBackend::new(file).and_then(|backend| {
            let mut builder = Builder::new();
            builder.set_cache_size(CACHE_LEN);
            if self.exclusive {
                // What a disk has spoilt is an error then, and no panic later.
                builder.set_check_integrity_on_open(true);
            } else {
                builder.set_concurrency_mode(ConcurrencyMode::MultiWriter);
            }
            builder.create_with_backend(backend)
        });
        *database = Some(opened.map_err(|error| self.failed("cannot be opened", error))?);
        Ok(())
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> std::result::Result<T, redb::Error>,
    ) -> Result<T> {
        self.reopen()?;
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let result = match &*database {
            Some(database) => database
                .begin_read()
                .map_err(redb::Error::from)
                .and_then(|transaction| read(&transaction)),
            None => Err(redb::Error::DatabaseClosed),
        };
        result.map_err(|error| self.failed("cannot be read", error))
    }

    /// Runs a write and makes it durable.
    fn write(
        &self,
        write: impl FnOnce(&WriteTransaction) -> std::result::Result<(), redb::Error>,
    ) -> Result<()> {
        self.reopen()?;
        let result = {
            let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
            match &*database {
                Some(database) => (|| {
                    let transaction = database.begin_write()?;
                    write(&transaction)?;
                    Ok(transaction.commit()?)
                })(),
                None => Err(redb::Error::DatabaseClosed),
            }
        };
        result.map_err(|error| {
            // It refuses everything after an error, until it is opened again.
            *self
                .database
                .write()
                .unwrap_or_else(PoisonError::into_inner) = None;
            self.failed("cannot be written", error)
        })
    }

    /// The one record; `None` in a new database.
    pub(super) fn meta(&self) -> Result<Option<Meta>> {
        let Some(bytes) = self.meta_bytes()? else {
            return Ok(None);
        };
        let meta = Meta::decode(&self.key, &bytes).ok_or_else(|| {
            Error::altered(
                format!("the machine's memory {}", self.path.display()),
                "it is another vault's, or was altered; `warplock vault memory forget` removes it",
            )
        })?;
        Ok(Some(meta))
    }

    /// The same, for callers without a key.
    pub(super) fn meta_unverified(&self) -> Result<Option<Meta>> {
        let bytes = self.meta_bytes()?;
        Ok(bytes.and_then(|bytes| Meta::decode_unverified(&bytes)))
    }

    fn meta_bytes(&self) -> Result<Option<Vec<u8>>> {
        self.read(|transaction| {
            let table = match transaction.open_table(META) {
                Err(TableError::TableDoesNotExist(_)) => return Ok(None),
                other => other?,
            };
            Ok(table.get(META_KEY)?.map(|found| found.value().to_vec()))
        })
    }

    /// Writes the one record, the numbers of its session with it if it has one.
    pub(super) fn set_meta(&self, meta: &Meta, session: Option<Crash>) -> Result<()> {
        self.write(|transaction| {
            let bytes = meta.encode(&self.key);
            transaction.open_table(META)?.insert(META_KEY, &*bytes)?;
            // All tables are there from the first session on.
            transaction.open_table(OBJECTS)?;
            transaction.open_table(PLACES)?;
            let mut sessions = transaction.open_table(SESSIONS)?;
            if let Some(it) = session {
                sessions.insert(it.session, (it.first, it.last, it.removing))?;
            }
            Ok(())
        })
    }

    /// Sessions that were not closed, and of which not all is noted.
    pub(super) fn crashes(&self) -> Result<Vec<Crash>> {
        self.read(|transaction| Ok(crashes(&transaction.open_table(SESSIONS)?)?))
    }

    /// Ends a session: its numbers are excused no more; with `settled`, neither are those of earlier
    /// ones. On the only machine, what it removed can be forgotten, too: a state of this machine that
    /// it does not know was removed. Not after a crash, whose numbers excuse what is not known, and
    /// not once something is gone without a removal: in a crash, or because that was `accepted`.
    pub(super) fn end_session(&self, meta: &Meta, settled: bool, accepted: bool) -> Result<()> {
        self.write(|transaction| {
            let bytes = meta.encode(&self.key);
            transaction.open_table(META)?.insert(META_KEY, &*bytes)?;
            let mut sessions = transaction.open_table(SESSIONS)?;
            match accepted {
                true => sessions.insert(meta.session, OVER)?,
                false => sessions.remove(meta.session)?,
            };
            if settled {
                let crashes = crashes(&sessions)?;
                for crash in &crashes {
                    sessions.insert(crash.session, OVER)?;
                }
                let last = crashes.iter().map(|it| it.session).max();
                // What another machine moved may not have arrived.
                if let Some(last) = last.filter(|_| !meta.others) {
                    bury(&mut transaction.open_table(OBJECTS)?, last)?;
                }
            }
            if meta.others || !sessions.is_empty()? {
                return Ok(());
            }
            drop(sessions);
            let of_session = |session: u64| session == meta.session;
            transaction.open_table(OBJECTS)?.retain(|_, bytes| {
                decode_known(bytes).is_none_or(|it| {
                    !it.dead || !of_session(it.session) || it.state.stamp.machine != meta.machine
                })
            })?;
            transaction.open_table(PLACES)?.retain(|_, bytes| {
                decode_occupant(bytes).is_none_or(|it| {
                    let ours = it.stamp.machine == meta.machine;
                    it.kind.is_some() || !of_session(it.session) || !ours
                })
            })?;
            Ok(())
        })
    }

    pub(super) fn object(&self, id: &Id) -> Result<Option<Known>> {
        self.read(|transaction| {
            let table = transaction.open_table(OBJECTS)?;
            match table.get(id)? {
                Some(found) => decode_known(found.value()).map(Some).ok_or_else(damaged),
                None => Ok(None),
            }
        })
    }

    pub(super) fn place(&self, spot: &Spot) -> Result<Option<Occupant>> {
        self.read(|transaction| {
            let table = transaction.open_table(PLACES)?;
            match table.get(key(spot))? {
                Some(found) => decode_occupant(found.value()).map(Some).ok_or_else(damaged),
                None => Ok(None),
            }
        })
    }

    /// All places of a folder at which something stands or stood.
    pub(super) fn places(&self, folder: &Id) -> Result<Vec<(Place, Occupant)>> {
        self.read(|transaction| {
            let table = transaction.open_table(PLACES)?;
            let range = key(&(*folder, [0; 16]))..=key(&(*folder, [0xff; 16]));
            let mut places = Vec::new();
            for entry in table.range(range)? {
                let (spot, bytes) = entry?;
                let place = *spot.value().last_chunk().expect("32 bytes");
                places.push((place, decode_occupant(bytes.value()).ok_or_else(damaged)?));
            }
            Ok(places)
        })
    }

    /// How many objects and places are known, what was removed included.
    pub(super) fn counts(&self) -> Result<(u64, u64)> {
        self.read(|transaction| {
            Ok((
                transaction.open_table(OBJECTS)?.len()?,
                transaction.open_table(PLACES)?.len()?,
            ))
        })
    }

    /// Writes a batch durably; with `session`, whether in that session names are being taken away.
    pub(super) fn commit(&self, batch: &Batch, session: Option<(u64, bool)>) -> Result<()> {
        self.write(|transaction| {
            if let Some((session, removing)) = session {
                let mut table = transaction.open_table(SESSIONS)?;
                let numbers = table.get(session)?.map(|found| found.value());
                if let Some((first, last, _)) = numbers {
                    table.insert(session, (first, last, removing))?;
                }
            }
            let mut table = transaction.open_table(OBJECTS)?;
            for (id, known) in &batch.objects {
                // Another process may have seen more meanwhile.
                if !self.exclusive
                    && let Some(found) = table.get(id)?
                    && decode_known(found.value()).is_some_and(|it| {
                        it.dead || it.state.stamp.number > known.state.stamp.number
                    })
                {
                    continue;
                }
                table.insert(id, &*encode_known(known))?;
            }
            drop(table);
            let mut table = transaction.open_table(PLACES)?;
            for (spot, occupant) in &batch.places {
                table.insert(key(spot), &*encode_occupant(occupant))?;
            }
            Ok(())
        })
    }

    /// Whether it is open: not closed, and it has not failed.
    pub(super) fn is_open(&self) -> bool {
        let database = self.database.read();
        database.unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Closes the database, so that opening it needs no repair.
    pub(super) fn close(&self) -> Result<()> {
        let database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match database {
            Some(database) => database
                .close()
                .map_err(|error| self.failed("cannot be closed", error)),
            None => Ok(()),
        }
    }
}

fn crashes(
    sessions: &impl ReadableTable<u64, (u64, u64, bool)>,
) -> std::result::Result<Vec<Crash>, StorageError> {
    let mut crashes = Vec::new();
    for entry in sessions.iter()? {
        let (session, numbers) = entry?;
        let (first, last, removing) = numbers.value();
        if numbers.value() != OVER {
            crashes.push(Crash {
                session: session.value(),
                first,
                last,
                removing,
            });
        }
    }
    Ok(crashes)
}

/// Notes as removed what was not found since the session `last`, which crashed, although all was
/// looked at: the crash took it away.
fn bury(
    objects: &mut Table<'_, [u8; 16], &[u8]>,
    last: u64,
) -> std::result::Result<(), StorageError> {
    let mut gone = Vec::new();
    for entry in objects.iter()? {
        let (id, bytes) = entry?;
        let known = decode_known(bytes.value());
        if let Some(known) = known.filter(|it| !it.dead && it.session <= last) {
            gone.push((
                id.value(),
                Known {
                    dead: true,
                    ..known
                },
            ));
        }
    }
    for (id, known) in gone {
        objects.insert(id, &*encode_known(&known))?;
    }
    Ok(())
}

fn damaged() -> redb::Error {
    StorageError::Corrupted("a record in it has a wrong form".into()).into()
}

#[cfg(test)]
mod tests;
