//! A file's header: what its content must be, and where the file may stand.

use warplock::Key;

use crate::error::Result;
use crate::keys::{Engines, Id};
use crate::layout::{HEADER_LEN, OVERHEAD};
use crate::names::Place;

/// Associated data of a header.
const AAD: &[u8] = b"warplock-vault/1 header";
/// Bytes of a header's plaintext: behind the file id, without nonce and tag.
pub(crate) const PLAIN_LEN: usize = HEADER_LEN - 16 - OVERHEAD;
const FIXED_LEN: usize = 40;
/// The most places in a header: names of one file, and one more while one of them changes.
pub(crate) const MAX_PLACES: usize = (PLAIN_LEN - FIXED_LEN) / 16;
/// In `flags`: blocks may be missing and then read as zeros.
const HOLES: u32 = 1;

/// A file's state, as its header tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// One more with each state; of two headers the higher one counts.
    pub(crate) sequence: u64,
    /// The true length in bytes.
    pub(crate) len: u64,
    /// Whether holes are legal.
    pub(crate) holes: bool,
    /// The sum over (number, tag) of all blocks that are no holes.
    pub(crate) sum: [u8; 16],
    /// Where the file may stand.
    pub(crate) places: Vec<Place>,
}

impl Header {
    /// The plaintext of a header. There are at most [`MAX_PLACES`] places.
    pub(crate) fn encode(&self) -> [u8; PLAIN_LEN] {
        let mut plain = [0; PLAIN_LEN];
        plain[..8].copy_from_slice(&self.sequence.to_be_bytes());
        plain[8..16].copy_from_slice(&self.len.to_be_bytes());
        let flags = if self.holes { HOLES } else { 0 };
        plain[16..20].copy_from_slice(&flags.to_be_bytes());
        plain[20..24].copy_from_slice(&(self.places.len() as u32).to_be_bytes());
        plain[24..40].copy_from_slice(&self.sum);
        for (room, place) in plain[FIXED_LEN..].chunks_exact_mut(16).zip(&self.places) {
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
        let (flags, places) = (number(16..20) as u32, number(20..24) as usize);
        if flags & !HOLES != 0 || places > MAX_PLACES {
            return None;
        }
        Some(Header {
            sequence: number(0..8),
            len: number(8..16),
            holes: flags & HOLES != 0,
            sum: *plain[24..].first_chunk()?,
            places: plain[FIXED_LEN..]
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
