//! The records of the database, and their bytes.

use std::collections::HashMap;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::clock::{Stamp, Vector};
use super::verdict::{Kind, Known, Occupant, State};
use crate::format::keys::Id;
use crate::format::names::Place;

const META_LABEL: &[u8] = b"warplock memory 1";
const META_LEN: usize = 16 + 4 * 8 + 1;

/// A folder's id and a place in it.
pub(crate) type Spot = (Id, Place);

/// What there is one of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) vault: Id,
    pub(super) machine: u64,
    /// How many sessions have written to the vault.
    pub(super) session: u64,
    /// The highest number seen or issued before this session.
    pub(super) last: u64,
    /// The highest number reserved.
    pub(super) reserved: u64,
    /// Whether states of other machines were seen.
    pub(super) others: bool,
}

impl Meta {
    pub(super) fn encode(&self, key: &[u8; 32]) -> Vec<u8> {
        let mut bytes = self.vault.to_vec();
        for number in [self.machine, self.session, self.last, self.reserved] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.push(u8::from(self.others));
        let mac = mac(key, &bytes);
        bytes.extend_from_slice(&mac);
        bytes
    }

    pub(super) fn decode(key: &[u8; 32], bytes: &[u8]) -> Option<Self> {
        let (plain, found) = bytes.split_at_checked(META_LEN)?;
        let verified = bool::from(mac(key, plain).ct_eq(found));
        Self::decode_unverified(plain).filter(|_| verified)
    }

    pub(super) fn decode_unverified(bytes: &[u8]) -> Option<Self> {
        let plain = bytes.get(..META_LEN)?;
        Some(Meta {
            vault: *plain.first_chunk()?,
            machine: number(&plain[16..]),
            session: number(&plain[24..]),
            last: number(&plain[32..]),
            reserved: number(&plain[40..]),
            others: plain[48] != 0,
        })
    }
}

fn mac(key: &[u8; 32], bytes: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes any key");
    mac.update(META_LABEL);
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(*bytes.first_chunk().expect("8 bytes"))
}

/// What is to be written together.
#[derive(Clone, Default)]
pub(super) struct Batch {
    pub(super) objects: HashMap<Id, Known>,
    pub(super) places: HashMap<Spot, Occupant>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.places.is_empty()
    }

    /// Adds what is newer.
    pub(super) fn extend(&mut self, newer: Batch) {
        self.objects.extend(newer.objects);
        self.places.extend(newer.places);
    }
}

pub(super) fn key((folder, place): &Spot) -> [u8; 32] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(folder);
    key[16..].copy_from_slice(place);
    key
}

fn put_stamp(bytes: &mut Vec<u8>, stamp: Stamp, session: u64, noted: u64) {
    for number in [stamp.number, stamp.machine, session, noted] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
}

/// A stamp, a session, a time.
const STAMP_LEN: usize = 32;

fn get_stamp(bytes: &[u8]) -> (Stamp, u64, u64) {
    let stamp = Stamp {
        number: number(bytes),
        machine: number(&bytes[8..]),
    };
    (stamp, number(&bytes[16..]), number(&bytes[24..]))
}

/// As many stamps as there are.
fn encode_vector(vector: &Vector) -> Vec<u8> {
    let len = Stamp::LEN * vector.machines().count();
    vector.encode()[..len].to_vec()
}

pub(super) fn encode_known(known: &Known) -> Vec<u8> {
    let mut bytes = vec![known.kind as u8, u8::from(known.dead)];
    bytes.extend_from_slice(&known.place);
    put_stamp(&mut bytes, known.state.stamp, known.session, known.noted);
    bytes.extend_from_slice(&known.state.tag);
    bytes.extend_from_slice(&encode_vector(&known.state.vector));
    bytes
}

pub(super) fn decode_known(bytes: &[u8]) -> Option<Known> {
    let (&[kind, dead], rest) = bytes.split_first_chunk()?;
    let (place, rest) = rest.split_first_chunk()?;
    let (stamp, rest) = rest.split_at_checked(STAMP_LEN)?;
    let (tag, vector) = rest.split_first_chunk()?;
    let (stamp, session, noted) = get_stamp(stamp);
    Some(Known {
        kind: Kind::from_byte(kind)?,
        state: State {
            stamp,
            tag: *tag,
            vector: Vector::decode(vector),
        },
        dead: dead != 0,
        place: *place,
        session,
        noted,
    })
}

pub(super) fn encode_occupant(occupant: &Occupant) -> Vec<u8> {
    let mut bytes = vec![occupant.kind.map_or(0, |kind| kind as u8)];
    bytes.extend_from_slice(&occupant.id);
    put_stamp(&mut bytes, occupant.stamp, occupant.session, occupant.noted);
    let vector = encode_vector(&occupant.vector);
    bytes.push((vector.len() / Stamp::LEN) as u8);
    bytes.extend_from_slice(&vector);
    bytes.extend_from_slice(&occupant.stored);
    bytes
}

pub(super) fn decode_occupant(bytes: &[u8]) -> Option<Occupant> {
    let (&kind, rest) = bytes.split_first()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (stamp, rest) = rest.split_at_checked(STAMP_LEN)?;
    let (stamp, session, noted) = get_stamp(stamp);
    let (&count, rest) = rest.split_first()?;
    let (vector, stored) = rest.split_at_checked(usize::from(count) * Stamp::LEN)?;
    Some(Occupant {
        kind: match kind {
            0 => None,
            kind => Some(Kind::from_byte(kind)?),
        },
        id: *id,
        stamp,
        vector: Vector::decode(vector),
        session,
        noted,
        stored: stored.to_vec(),
    })
}
