//! A file's header: what its content must be, and where the file may stand.

use std::time::SystemTime;

use warplock::Key;

use crate::error::Result;
use crate::format::keys::{Engines, Id};
use crate::format::layout::{HEADER_LEN, MAX_LEN, OVERHEAD, ROOTS};
use crate::format::names::Place;
use crate::format::seals::{Roots, SEAL_LEN, Seal};
use crate::format::times::{join_time, split_time};
use crate::memory::Version;
use crate::tree::places::Allowed;

/// Associated data of a header.
const AAD: &[u8] = b"warplock-vault/2 header";
/// Bytes of a header's plaintext: after the file id, without nonce and tag.
pub(crate) const PLAIN_LEN: usize = HEADER_LEN - 16 - OVERHEAD;
/// What comes before the seals; the rest of it is zeros.
const FIXED_LEN: usize = 256;
/// Where parts of it begin and end.
const VERSION: usize = 32;
const OWNER: usize = VERSION + Version::LEN;
const LEAVING: usize = OWNER + Owner::LEN;
const LEAVING_END: usize = LEAVING + MAX_PLACES.div_ceil(8);
const CHANGED_END: usize = LEAVING_END + 12;
const ROOTS_END: usize = FIXED_LEN + ROOTS as usize * SEAL_LEN;
/// The most places in a header: names of one file, and one more while one of them changes.
pub(crate) const MAX_PLACES: usize = (PLAIN_LEN - ROOTS_END) / 16;

/// Owner and permissions of an object, and the device that it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Type and permissions, as in `st_mode`.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Of a device, which one.
    pub(crate) rdev: u32,
}

impl Owner {
    /// Bytes of an encoded owner.
    const LEN: usize = 16;
    /// Without the device, which comes last.
    pub(crate) const SHORT_LEN: usize = 12;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let numbers = [self.mode, self.uid, self.gid, self.rdev];
        for (room, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            room.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// What is missing at the end of `bytes` is 0.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut numbers = [0; 4];
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *number = u32::from_be_bytes(*bytes);
        }
        let [mode, uid, gid, rdev] = numbers;
        Owner {
            mode,
            uid,
            gid,
            rdev,
        }
    }
}

/// A file's state, as its header tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// One more with each state; of two headers the higher one counts.
    pub(crate) sequence: u64,
    /// The true length in bytes.
    pub(crate) len: u64,
    /// When the content changed last. The time of the file in the store is another one: it is
    /// later with each commit, so that programs that copy the store see each change.
    pub(crate) modified: SystemTime,
    /// When anything of the file changed last, as `stat` calls it. That of the file in the store is
    /// another one, later with each commit. `None` in files of earlier builds.
    pub(crate) changed: Option<SystemTime>,
    /// The topmost seals of the tree over the blocks.
    pub(crate) roots: Roots,
    /// Which state it is, across machines.
    pub(crate) version: Version,
    pub(crate) owner: Owner,
    /// Where the file may stand. While it is renamed, the new place is the last.
    pub(crate) places: Vec<Place>,
    /// That of its places which a rename leaves: it stands there or at the last one, never at both.
    pub(crate) leaving: Option<Place>,
}

impl Header {
    /// Where the file may stand.
    pub(crate) fn allowed(&self) -> Allowed<'_> {
        let new = self.places.last();
        Allowed {
            places: &self.places,
            left: &[],
            renamed: self.leaving.zip(new).map(|(old, new)| [old, *new]),
        }
    }

    /// Adds a place, for which a rename leaves another one.
    pub(crate) fn add_place(&mut self, place: Place, leaves: Option<Place>) {
        if self.allowed().other(&place).is_some() {
            self.leaving = None;
        }
        self.places.retain(|other| *other != place);
        match self.leaving {
            // An earlier rename was interrupted, and it is not known yet at which of its places the
            // file stands.
            Some(_) => self.places.insert(self.places.len() - 1, place),
            None => {
                self.leaving = leaves.filter(|leaves| self.places.contains(leaves));
                self.places.push(place);
            }
        }
    }

    /// Takes out all places but these.
    pub(crate) fn retain_places(&mut self, keep: impl Fn(&Place) -> bool) {
        if !self.allowed().is_at_both(&keep) {
            self.leaving = None;
        }
        self.places.retain(keep);
    }

    /// The plaintext of a header. There are at most [`MAX_PLACES`] places.
    pub(crate) fn encode(&self) -> [u8; PLAIN_LEN] {
        let mut plain = [0; PLAIN_LEN];
        let (seconds, nanos) = split_time(self.modified);
        plain[..8].copy_from_slice(&self.sequence.to_be_bytes());
        plain[8..16].copy_from_slice(&self.len.to_be_bytes());
        plain[16..20].copy_from_slice(&(self.places.len() as u32).to_be_bytes());
        plain[20..28].copy_from_slice(&seconds.to_be_bytes());
        plain[28..32].copy_from_slice(&nanos.to_be_bytes());
        plain[VERSION..OWNER].copy_from_slice(&self.version.encode());
        plain[OWNER..LEAVING].copy_from_slice(&self.owner.encode());
        let leaving = self
            .places
            .iter()
            .position(|it| Some(it) == self.leaving.as_ref());
        if let Some(at) = leaving {
            plain[LEAVING + at / 8] = 0x80 >> (at % 8);
        }
        if let Some(changed) = self.changed {
            let (seconds, nanos) = split_time(changed);
            plain[LEAVING_END..LEAVING_END + 8].copy_from_slice(&seconds.to_be_bytes());
            plain[LEAVING_END + 8..CHANGED_END].copy_from_slice(&nanos.to_be_bytes());
        }
        let roots = plain[FIXED_LEN..ROOTS_END].chunks_exact_mut(SEAL_LEN);
        for (room, seal) in roots.zip(&self.roots) {
            room.copy_from_slice(seal.bytes());
        }
        for (room, place) in plain[ROOTS_END..].chunks_exact_mut(16).zip(&self.places) {
            room.copy_from_slice(place);
        }
        plain
    }

    /// The header in this plaintext; `None` if it is of a later version of the format.
    pub(crate) fn decode(plain: &[u8]) -> Option<Self> {
        let plain: &[u8; PLAIN_LEN] = plain.try_into().ok()?;
        let number = |range: std::ops::Range<usize>| {
            plain[range]
                .iter()
                .fold(0, |value: u64, byte| value << 8 | u64::from(*byte))
        };
        let places = number(16..20) as usize;
        let reserved = plain[CHANGED_END..FIXED_LEN].iter().any(|byte| *byte != 0);
        if places > MAX_PLACES || reserved || number(8..16) > MAX_LEN {
            return None;
        }
        let (stored, _) = plain[ROOTS_END..].as_chunks();
        let places = stored[..places].to_vec();
        let mut leaving = None;
        for at in 0..(LEAVING_END - LEAVING) * 8 {
            if plain[LEAVING + at / 8] & 0x80 >> (at % 8) != 0 {
                // One of two or more, of which the last is the new one.
                let place = places
                    .get(at)
                    .filter(|_| leaving.is_none() && at + 1 < places.len());
                leaving = Some(*place?);
            }
        }
        let changed = match number(LEAVING_END..LEAVING_END + 8) as i64 {
            0 if number(LEAVING_END + 8..CHANGED_END) == 0 => None,
            seconds => Some(join_time(
                seconds,
                number(LEAVING_END + 8..CHANGED_END) as u32,
            )?),
        };
        let mut roots = [Seal::NONE; ROOTS as usize];
        let stored = plain[FIXED_LEN..ROOTS_END].chunks_exact(SEAL_LEN);
        for (seal, bytes) in roots.iter_mut().zip(stored) {
            *seal = Seal::from_bytes(bytes);
        }
        Some(Header {
            sequence: number(0..8),
            len: number(8..16),
            modified: join_time(number(20..28) as i64, number(28..32) as u32)?,
            changed,
            roots,
            version: Version::decode(plain[VERSION..OWNER].first_chunk().expect("it is as long")),
            owner: Owner::decode(&plain[OWNER..LEAVING]),
            places,
            leaving,
        })
    }

    /// The bytes of the header in the file.
    pub(crate) fn seal(&self, engines: &Engines, key: &Key, id: &Id) -> Result<Vec<u8>> {
        let sealed = engines.seal(key, AAD, &self.encode())?;
        Ok([&id[..], &sealed].concat())
    }

    /// The header in these bytes of the file, without the id in front; `None` if it was not
    /// sealed with this key.
    pub(crate) fn open(engines: &Engines, key: &Key, sealed: &[u8]) -> Result<Option<Self>> {
        let plain = engines.open(key, AAD, sealed)?;
        Ok(plain.and_then(|plain| Header::decode(&plain)))
    }
}

/// The header of an empty file.
pub(crate) fn first_header(version: Version, owner: Owner, places: Vec<Place>) -> Header {
    let now = SystemTime::now();
    Header {
        sequence: 1,
        len: 0,
        modified: now,
        changed: Some(now),
        roots: [Seal::NONE; ROOTS as usize],
        version,
        owner,
        places,
        leaving: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Stamp, Vector};

    fn header() -> Header {
        let stamp = Stamp {
            number: 5,
            machine: 7,
        };
        let version = Version {
            stamp,
            vector: Vector::of(stamp),
        };
        let places = vec![[1; 16], [2; 16], [3; 16]];
        let mut header = first_header(version, Owner::default(), places);
        header.owner = Owner {
            mode: 0o100_644,
            uid: 1,
            gid: 2,
            rdev: 3,
        };
        header
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for leaving in [None, Some([1; 16]), Some([2; 16])] {
            let header = Header {
                leaving,
                changed: leaving.is_none().then(SystemTime::now),
                ..header()
            };
            assert_eq!(Header::decode(&header.encode()), Some(header));
        }
    }

    #[test]
    fn a_rename_ends_when_one_of_its_places_goes() {
        let mut header = header();
        header.add_place([4; 16], Some([1; 16]));
        assert_eq!(header.allowed().renamed, Some([[1; 16], [4; 16]]));
        // Another name does not take the new one's part.
        header.add_place([5; 16], None);
        header.add_place([6; 16], Some([2; 16]));
        header.retain_places(|place| *place != [3; 16]);
        assert_eq!(header.allowed().renamed, Some([[1; 16], [4; 16]]));
        assert_eq!(header.places.len(), 5);
        for gone in [[1; 16], [4; 16]] {
            let mut header = header.clone();
            header.retain_places(|place| *place != gone);
            assert_eq!((header.leaving, header.places.len()), (None, 4));
        }
        // And back.
        header.add_place([1; 16], Some([4; 16]));
        assert_eq!(header.allowed().renamed, Some([[4; 16], [1; 16]]));
    }

    #[test]
    fn other_forms_are_refused() {
        let plain = header().encode();
        // The last place, a missing one, two at the same time, and reserved bytes.
        for (at, byte) in [
            (192, 0x20),
            (192, 0x10),
            (192, 0xc0),
            (201, 0x01),
            (214, 0x80),
        ] {
            let mut plain = plain;
            plain[at] = byte;
            assert_eq!(Header::decode(&plain), None, "{at}: {byte}");
        }
    }
}
