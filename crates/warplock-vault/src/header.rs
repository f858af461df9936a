//! A file's header: what its content must be, and where the file may stand.

use std::time::{Duration, SystemTime};

use warplock::Key;

use crate::error::Result;
use crate::keys::{Engines, Id};
use crate::layout::{HEADER_LEN, MAX_LEN, OVERHEAD, ROOTS};
use crate::names::Place;
use crate::seals::{Roots, SEAL_LEN, Seal};

/// Associated data of a header.
const AAD: &[u8] = b"warplock-vault/2 header";
/// Bytes of a header's plaintext: after the file id, without nonce and tag.
pub(crate) const PLAIN_LEN: usize = HEADER_LEN - 16 - OVERHEAD;
/// What comes first; the rest of it is zeros.
const FIXED_LEN: usize = 256;
const ROOTS_END: usize = FIXED_LEN + ROOTS as usize * SEAL_LEN;
/// The most places in a header: names of one file, and one more while one of them changes.
pub(crate) const MAX_PLACES: usize = (PLAIN_LEN - ROOTS_END) / 16;

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
    /// The topmost seals of the tree over the blocks.
    pub(crate) roots: Roots,
    /// Where the file may stand.
    pub(crate) places: Vec<Place>,
}

/// Seconds and nanoseconds since 1970, the seconds rounded down.
pub(crate) fn split_time(time: SystemTime) -> (i64, u32) {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(error) => {
            let before = error.duration();
            match before.subsec_nanos() {
                0 => (-(before.as_secs() as i64), 0),
                nanos => (-(before.as_secs() as i64) - 1, 1_000_000_000 - nanos),
            }
        }
    }
}

fn join_time(seconds: i64, nanos: u32) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole),
        false => SystemTime::UNIX_EPOCH.checked_add(whole),
    };
    second?.checked_add(Duration::from_nanos(u64::from(nanos)))
}

impl Header {
    /// The plaintext of a header. There are at most [`MAX_PLACES`] places.
    pub(crate) fn encode(&self) -> [u8; PLAIN_LEN] {
        let mut plain = [0; PLAIN_LEN];
        let (seconds, nanos) = split_time(self.modified);
        plain[..8].copy_from_slice(&self.sequence.to_be_bytes());
        plain[8..16].copy_from_slice(&self.len.to_be_bytes());
        plain[16..20].copy_from_slice(&(self.places.len() as u32).to_be_bytes());
        plain[20..28].copy_from_slice(&seconds.to_be_bytes());
        plain[28..32].copy_from_slice(&nanos.to_be_bytes());
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
        let reserved = plain[32..FIXED_LEN].iter().any(|byte| *byte != 0);
        if places > MAX_PLACES || reserved || number(8..16) > MAX_LEN {
            return None;
        }
        let mut roots = [Seal::NONE; ROOTS as usize];
        let stored = plain[FIXED_LEN..ROOTS_END].chunks_exact(SEAL_LEN);
        for (seal, bytes) in roots.iter_mut().zip(stored) {
            *seal = Seal::from_bytes(bytes);
        }
        Some(Header {
            sequence: number(0..8),
            len: number(8..16),
            modified: join_time(number(20..28) as i64, number(28..32) as u32)?,
            roots,
            places: plain[ROOTS_END..]
                .chunks_exact(16)
                .take(places)
                .map(|place| place.try_into().expect("chunks of 16"))
                .collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970() {
        for (seconds, nanos) in [(0, 0), (0, 1), (5, 999_999_999), (-1, 0), (-1, 1), (-7, 5)] {
            let time = join_time(seconds, nanos).unwrap();
            assert_eq!(split_time(time), (seconds, nanos));
        }
        assert_eq!(join_time(i64::MAX, u32::MAX), None);
    }
}
