//! The places where an object may stand: its own and, during a rename, also the one it leaves.

use crate::format::names::Place;

/// Bytes of encoded places.
pub(crate) const PLACES_LEN: usize = 1 + 32;

/// The places of a folder or a symlink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Its own, which during a rename is the new one, and then the one that it leaves.
    list: Vec<Place>,
}

/// Where an object may stand, of whatever kind it is.
#[derive(Clone, Copy)]
pub(crate) struct Allowed<'a> {
    pub(crate) places: &'a [Place],
    /// Of these, the ones that it was taken from, which the next commit forgets.
    pub(crate) left: &'a [Place],
    /// The place that a rename leaves and the new one: it stands at one of them, never at both.
    pub(crate) renamed: Option<[Place; 2]>,
}

impl Allowed<'_> {
    /// Whether it stands at both places of a rename.
    pub(crate) fn is_at_both(&self, stands: impl Fn(&Place) -> bool) -> bool {
        self.renamed.is_some_and(|both| both.iter().all(stands))
    }

    /// The place of a rename that is not `here`; `None` if `here` is neither of the two.
    pub(crate) fn other(&self, here: &Place) -> Option<Place> {
        match self.renamed? {
            [old, new] if new == *here => Some(old),
            [old, new] if old == *here => Some(new),
            _ => None,
        }
    }
}

impl Places {
    pub(crate) fn at(place: Place) -> Self {
        Places { list: vec![place] }
    }

    pub(crate) fn moving(from: Place, to: Place) -> Self {
        Places {
            list: vec![to, from],
        }
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.list.len() > 1
    }

    pub(crate) fn contains(&self, place: &Place) -> bool {
        self.list.contains(place)
    }

    pub(crate) fn allowed(&self) -> Allowed<'_> {
        Allowed {
            places: &self.list,
            left: &[],
            renamed: self.list.get(1).map(|old| [*old, self.list[0]]),
        }
    }

    /// Their number, then the places, then zeros.
    pub(crate) fn encode(&self) -> [u8; PLACES_LEN] {
        let mut bytes = [0; PLACES_LEN];
        bytes[0] = self.list.len() as u8;
        for (room, place) in bytes[1..].chunks_exact_mut(16).zip(&self.list) {
            room.copy_from_slice(place);
        }
        bytes
    }

    /// The places at the start of `bytes`, and what comes after them.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (places, rest) = bytes.split_first_chunk::<PLACES_LEN>()?;
        let (own, leaving) = (*places[1..].first_chunk()?, *places[17..].first_chunk()?);
        let places = match places[0] {
            1 if leaving == [0; 16] => Places::at(own),
            2 => Places::moving(leaving, own),
            _ => return None,
        };
        Some((places, rest))
    }
}
