//! Opening a file of the store: what its headers say, and whether the rest fits.

use std::ffi::OsStr;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::core::{Core, lock};
use crate::error::{Error, Result, Subject};
use crate::file::content::{Content, State};
use crate::format::header::Header;
use crate::format::keys::{FileKeys, Id};
use crate::format::layout::{BLOCKS_START, HEADER_LEN};
use crate::format::times::split_time;
use crate::store::storage::{At, Storage};

/// What a file's headers say.
struct Headers {
    id: Id,
    keys: FileKeys,
    /// The newest one that verifies.
    header: Header,
    /// Whether the other one is damaged.
    damaged: bool,
}

impl<S: Storage> Core<S> {
    /// Opens a file in the store, finishes what a crash interrupted, and checks that it is whole
    /// as far as headers and length tell.
    ///
    /// A damaged header, or a length that does not fit, is what a crash leaves; in a vault that was
    /// closed properly, it is an alteration.
    pub(crate) fn open_content(
        &self,
        dir: &S::Dir,
        stored: &OsStr,
        what: &Subject,
    ) -> Result<Content<S>> {
        let (file, writable) = self.open_file(dir, stored)?;
        let crashed = self.unclean.load(Ordering::Relaxed);
        let Some(headers) = self.read_headers(&file, what)? else {
            return Err(self.no_header(&file, what)?);
        };
        if headers.damaged {
            if !crashed {
                return Err(Error::altered(
                    what,
                    "one of its two headers is damaged; restore it from a backup",
                ));
            }
            self.tell_of(what, |what| {
                format!("a crash interrupted the last change of {what}: it is as it was before")
            });
        }
        let tree = self.tree_of(&headers.header);
        let mut state = State::committed(headers.header, tree);
        state.damaged = headers.damaged;
        let content = Content::new(file, headers.id, headers.keys, writable, state);
        let left_over = lock(&self.left_over).contains(&headers.id);
        let mut guard = content.write_state();
        let state = &mut *guard;
        if left_over {
            self.recover(&content, state)
                .map_err(|error| error.with_path(&content.called(), || what.clone()))?;
        }
        let stored = self.layout.stored_len(state.now.len);
        let attributes = self.storage.attributes(At::File(&content.file))?;
        let size = attributes.size;
        self.saw_time(attributes.modified);
        if split_time(attributes.modified).1 != 0 {
            // The system gave it this time: a crash came before the commit did.
            state.timed = 0;
        }
        // A file that was just made has nothing after its header yet.
        let cut = size < stored && state.now.len > 0 && state.pending.is_none();
        if cut || (size != stored && !crashed) {
            return Err(Error::altered(
                what,
                format!(
                    "it has {size} bytes in the store instead of {stored}; restore it from a backup"
                ),
            ));
        }
        if size != stored && writable {
            // After the end: writes that a crash interrupted; nothing refers to them.
            self.storage.set_len(&content.file, stored)?;
        }
        drop(guard);
        Ok(content)
    }

    /// The newest header of a file that is not in use.
    pub(crate) fn peek(&self, dir: &S::Dir, stored: &OsStr, what: &Subject) -> Result<Header> {
        let file = self.storage.open(dir, stored, false)?;
        match self.read_headers(&file, what)? {
            Some(headers) => Ok(headers.header),
            None => Err(self.no_header(&file, what)?),
        }
    }

    /// Opens for both, or for reading where the store allows no more.
    fn open_file(&self, dir: &S::Dir, stored: &OsStr) -> Result<(S::File, bool)> {
        if self.read_only {
            return Ok((self.storage.open(dir, stored, false)?, false));
        }
        match self.storage.open(dir, stored, true) {
            Ok(file) => Ok((file, true)),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) => {
                    Ok((self.storage.open(dir, stored, false)?, false))
                }
                _ => Err(error.into()),
            },
        }
    }

    /// Reads both headers; `None` if none verifies.
    fn read_headers(&self, file: &S::File, what: &Subject) -> Result<Option<Headers>> {
        let mut bytes = [0; BLOCKS_START as usize];
        self.storage.read_at(file, &mut bytes, 0)?;
        let mut keys: Option<(Id, FileKeys)> = None;
        let mut found = [None, None];
        for (place, bytes) in bytes.chunks_exact(HEADER_LEN).enumerate() {
            let (id, sealed) = bytes
                .split_first_chunk::<16>()
                .expect("a header is longer than an id");
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            if keys.as_ref().is_none_or(|(known, _)| known != id) {
                keys = Some((*id, self.keys.file(id)?));
            }
            if let Some((_, keys)) = &keys {
                let header = Header::open(&self.keys.engines, &keys.header, sealed)?;
                // Odd numbers stand in the first place, even ones in the second.
                found[place] = header
                    .filter(|header| header.sequence % 2 != place as u64)
                    .map(|header| (*id, header));
            }
        }
        let second_is_unused = bytes[HEADER_LEN..] == [0; HEADER_LEN];
        let newest = match &found {
            [Some((a, _)), Some((b, _))] if a != b => {
                return Err(Error::altered(
                    what,
                    "it has headers of two files; restore it from a backup",
                ));
            }
            [Some((_, a)), Some((_, b))] => usize::from(b.sequence > a.sequence),
            [Some(_), None] => 0,
            [None, Some(_)] => 1,
            [None, None] => return Ok(None),
        };
        let other = found[1 - newest].take();
        let (id, header) = found[newest].take().expect("it was just seen");
        let keys = match keys {
            Some((known, keys)) if known == id => keys,
            _ => self.keys.file(&id)?,
        };
        let damaged = match other {
            Some((_, other)) => other.sequence + 1 != header.sequence,
            None => header.sequence > 1 || !second_is_unused,
        };
        Ok(Some(Headers {
            id,
            keys,
            header,
            damaged,
        }))
    }

    /// Only a file's first header can be lost in a crash, while there is no second one.
    fn no_header(&self, file: &S::File, what: &Subject) -> Result<Error> {
        let mut second = [0; HEADER_LEN];
        self.storage.read_at(file, &mut second, HEADER_LEN as u64)?;
        let crashed = self.unclean.load(Ordering::Relaxed);
        Ok(if crashed && second == [0; HEADER_LEN] {
            Error::Unfinished { what: what.into() }
        } else {
            Error::altered(
                what,
                "no header in it verifies: it was altered, or is another vault's; restore it \
                 from a backup",
            )
        })
    }
}
