//! Compares what is known with what is found: whether a state, or what stands at a place, can be
//! right.

use std::fmt;

use super::clock::{Stamp, Vector};
use crate::format::keys::Id;
use crate::format::names::Place;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File = 1,
    Folder = 2,
    Symlink = 3,
}

impl Kind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Kind::File, Kind::Folder, Kind::Symlink]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// One state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) stamp: Stamp,
    /// Binds all of the state.
    pub(crate) tag: [u8; 16],
    /// What went into it, itself included.
    pub(crate) vector: Vector,
}

/// The newest state that is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) kind: Kind,
    pub(crate) state: State,
    /// Whether it was removed; the stamp is then that of the removal.
    pub(crate) dead: bool,
    /// The place where it was last put or found.
    pub(crate) place: Place,
    /// The session in which it was last found right.
    pub(crate) session: u64,
    /// When, in seconds since 1970.
    pub(crate) noted: u64,
}

/// What is known to stand at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Occupant {
    /// `None`: nothing now.
    pub(crate) kind: Option<Kind>,
    pub(crate) id: Id,
    /// Of the state that was put there, or of a later one that was found there; or of the removal.
    pub(crate) stamp: Stamp,
    /// What went into a removal: all that was known to have stood there.
    pub(crate) vector: Vector,
    pub(crate) session: u64,
    pub(crate) noted: u64,
    /// The entry's name in the store, which is ciphertext, so that a missing object can be named.
    pub(crate) stored: Vec<u8>,
}

/// A session of this machine that was not closed properly, and the numbers it may have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) session: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Whether names were being taken away, and the removals not noted yet.
    pub(crate) removing: bool,
}

/// The facts about this machine that a verdict depends on.
pub(crate) struct Past<'a> {
    pub(crate) machine: u64,
    /// The highest number this machine ever reserved.
    pub(crate) reserved: u64,
    pub(crate) crashes: &'a [Crash],
}

/// How what is found stands to what is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is what is known.
    Same,
    /// Nothing was known of it: it is remembered from now on.
    First,
    /// It is newer, and nothing speaks against it.
    Newer,
    /// It may be what a crash of this machine left: accepted once.
    Crash,
    Wrong(Wrong),
}

/// What is wrong unless the user accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// An older state than the one noted at this time.
    Old(u64),
    /// Another state with the same number.
    Branch,
    /// A superseded state of this machine.
    Lost,
    /// Another machine made it without the state noted at this time.
    Conflict(u64),
    /// It was removed at this time.
    Removed(u64),
    /// This machine made it and does not know it: it was removed.
    Unknown,
    /// It has a number that this machine, as far as it remembers, never issued.
    MemoryOlder,
    /// Something else stood at this place, put or removed there at this time.
    Displaced(u64),
    /// It is missing, and was not removed since this time.
    Missing(u64),
}

const ACCEPT: &str = "if this is right, `warplock vault memory accept` takes it as it is";

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Old(noted) => write!(
                f,
                "it is an old version: this machine knows a newer one of {}; restore that from a \
                 backup, or",
                date(*noted)
            ),
            Wrong::Branch => write!(
                f,
                "it is another version than the one this machine knows, with the same number; \
                 restore that from a backup, or"
            ),
            Wrong::Lost => write!(
                f,
                "it is a version that this machine made and that was superseded; restore the \
                 newest from a backup, or"
            ),
            Wrong::Conflict(noted) => write!(
                f,
                "it was changed on another machine from an older version: your version of {} is \
                 not in it; restore that from a backup or a conflict copy, or",
                date(*noted)
            ),
            Wrong::Removed(noted) => write!(
                f,
                "it was removed on {} and came back; remove it again, or",
                date(*noted)
            ),
            Wrong::Unknown => write!(
                f,
                "this machine made it and removed it, and it came back; remove it again, or"
            ),
            Wrong::MemoryOlder => write!(
                f,
                "this machine made it but does not know it: its memory was restored from an \
                 older copy;"
            ),
            Wrong::Displaced(noted) => write!(
                f,
                "it stands where something else stood, or nothing, since {}: this machine did \
                 not put it there; restore what stood there from a backup, or",
                date(*noted)
            ),
            Wrong::Missing(noted) => write!(
                f,
                "it is missing: it was there on {}, and this machine did not remove it; restore \
                 it from a backup, or",
                date(*noted)
            ),
        }?;
        write!(f, " {ACCEPT}")
    }
}

impl Past<'_> {
    /// Whether a crash since `session` may explain a state with this number.
    fn excuses(&self, number: u64, session: u64) -> bool {
        self.crashes
            .iter()
            .any(|crash| crash.session >= session && (crash.first..=crash.last).contains(&number))
    }

    /// Whether there was a crash after something was found right in `session`.
    pub(super) fn crashed_since(&self, session: u64) -> bool {
        self.crashes.iter().any(|crash| crash.session >= session)
    }

    /// Whether a crash may have taken away what was found right at a place in `session`.
    pub(super) fn may_have_removed(&self, session: u64) -> bool {
        let mut crashes = self.crashes.iter();
        crashes.any(|crash| crash.session >= session && crash.removing)
    }

    /// An object's state that was found.
    pub(crate) fn judge(&self, known: Option<&Known>, found: &State) -> Verdict {
        let (stamp, ours) = (found.stamp, found.stamp.machine == self.machine);
        if ours && stamp.number > self.reserved {
            return Verdict::Wrong(Wrong::MemoryOlder);
        }
        let Some(known) = known else {
            return match ours {
                false => Verdict::First,
                true if self.excuses(stamp.number, 0) => Verdict::Crash,
                true => Verdict::Wrong(Wrong::Unknown),
            };
        };
        let newest = &known.state;
        if known.dead {
            return Verdict::Wrong(Wrong::Removed(known.noted));
        }
        if stamp == newest.stamp {
            if found.tag == newest.tag {
                return match self.crashed_since(known.session) {
                    // Noted again: from now on that crash excuses nothing of it.
                    true => Verdict::Newer,
                    false => Verdict::Same,
                };
            }
            return Verdict::Wrong(Wrong::Branch);
        }
        if ours {
            return match stamp.number < newest.stamp.number {
                true => Verdict::Wrong(Wrong::Old(known.noted)),
                false if self.excuses(stamp.number, known.session) => Verdict::Crash,
                false => Verdict::Wrong(Wrong::Lost),
            };
        }
        if found.vector.covers(newest.stamp) {
            return Verdict::Newer;
        }
        Verdict::Wrong(match newest.vector.covers(stamp) {
            true => Wrong::Old(known.noted),
            false => Wrong::Conflict(known.noted),
        })
    }

    /// An object that was found where it is known to stand; `None` if something else is.
    pub(super) fn judge_same(&self, known: &Occupant, found: (Kind, &Id)) -> Option<Verdict> {
        let same = known.kind == Some(found.0) && known.id == *found.1;
        same.then(|| match self.crashed_since(known.session) {
            true => Verdict::Newer,
            false => Verdict::Same,
        })
    }

    /// What was found at a place where something is known to stand, or to have stood; `stood` is
    /// the newest state there that is known, `newest` says whether what was found is in the newest
    /// state that is known of it, which was found right since the last crash. Whatever puts an object elsewhere gives it a new state.
    pub(crate) fn judge_place(
        &self,
        known: &Occupant,
        stood: Stamp,
        (kind, id): (Kind, &Id),
        found: &State,
        newest: bool,
    ) -> Verdict {
        if let Some(same) = self.judge_same(known, (kind, id)) {
            return same;
        }
        let stamp = found.stamp;
        let includes = stamp != stood && found.vector.covers(stood);
        let right = match (stamp.machine == self.machine, known.kind) {
            // The number need not be one of the crash: of an object that it put under several names,
            // a later session may have made another state before this name was looked up.
            (true, Some(_)) => includes && self.may_have_removed(known.session),
            // What went into the removal was there before it.
            (_, None) if known.vector.may_cover(stamp) => false,
            (true, None) => {
                let excused = newest && self.crashed_since(known.session);
                includes && (excused || self.excuses(stamp.number, known.session))
            }
            (false, Some(_)) => includes,
            // A removal leaves nothing in the store that another machine could include: a higher
            // number tells that what was put there is not older.
            (false, None) => includes || stamp.number > stood.number,
        };
        match right {
            true => Verdict::Newer,
            false => Verdict::Wrong(Wrong::Displaced(known.noted)),
        }
    }

    /// Nothing was found at a place.
    pub(crate) fn judge_missing(&self, known: &Occupant) -> Verdict {
        match known.kind {
            None => Verdict::Same,
            Some(_) if self.may_have_removed(known.session) => Verdict::Crash,
            Some(_) => Verdict::Wrong(Wrong::Missing(known.noted)),
        }
    }
}

/// Seconds since 1970 as a date for people, in UTC.
pub(crate) fn date(seconds: u64) -> String {
    // Days to a civil date, with years that begin in March (H. Hinnant's algorithm).
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, year) = match month {
        0..=9 => (month + 3, era * 400 + year),
        _ => (month - 9, era * 400 + year + 1),
    };
    let (hour, minute) = (rest / 3600, rest / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests;
