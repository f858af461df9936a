//! What is known against what is found: whether a state, or what stands at a place, may be so.

use std::fmt;

use super::clock::{Stamp, Vector};
use crate::keys::Id;
use crate::names::Place;

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
    /// `None`: nothing any more.
    pub(crate) kind: Option<Kind>,
    pub(crate) id: Id,
    /// Of the state that was put there, or of the removal.
    pub(crate) stamp: Stamp,
    /// What went into a removal: all that was known to have stood there.
    pub(crate) vector: Vector,
    pub(crate) session: u64,
    pub(crate) noted: u64,
    /// The entry's name in the store, which is ciphertext: so that what is missing has a name.
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

/// What judging needs to know of this machine.
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

/// What cannot be right unless somebody says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// An older state than the one noted at this time.
    Old(u64),
    /// Another state with the same number.
    Branch,
    /// A state that this machine made and has since gone back behind.
    Lost,
    /// Another machine made it without the state noted at this time.
    Conflict(u64),
    /// It was removed at this time.
    Removed(u64),
    /// This machine made it and does not know it: it was removed.
    Unknown,
    /// It has a number that this machine, as far as it remembers, never gave out.
    MemoryOlder,
    /// Something else stood at this place, put or removed there at this time.
    Displaced(u64),
    /// It is not there, and nobody removed it since this time.
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
    /// Whether a crash may have left this number behind what was known since `session`.
    fn excuses(&self, number: u64, session: u64) -> bool {
        self.crashes
            .iter()
            .any(|crash| crash.session >= session && (crash.first..=crash.last).contains(&number))
    }

    /// Whether there was a crash after something was found right in `session`.
    fn crashed_since(&self, session: u64) -> bool {
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

    /// What was found at a place where something is known to stand, or to have stood; `stood` is
    /// the newest state there that is known. Whatever puts an object elsewhere gives it a new state.
    pub(crate) fn judge_place(
        &self,
        known: &Occupant,
        stood: Stamp,
        (kind, id): (Kind, &Id),
        found: &State,
    ) -> Verdict {
        if known.kind == Some(kind) && known.id == *id {
            return match self.crashed_since(known.session) {
                true => Verdict::Newer,
                false => Verdict::Same,
            };
        }
        let stamp = found.stamp;
        let later = stamp.number > stood.number;
        let taken_away = known.kind.is_none() || self.may_have_removed(known.session);
        let includes = stamp != stood && found.vector.covers(stood);
        let (right, verdict) = match (stamp.machine == self.machine, known.kind) {
            (true, _) => {
                let excused = self.excuses(stamp.number, known.session);
                (taken_away && later && excused, Verdict::Crash)
            }
            (false, Some(_)) => (includes, Verdict::Newer),
            // A removal leaves nothing in the store that another machine could include: a higher
            // number tells that what was put there is no older.
            (false, None) => (includes || later, Verdict::Newer),
        };
        match right {
            true => verdict,
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
mod tests {
    use super::*;

    const US: u64 = 1;
    const THEM: u64 = 2;

    fn state(number: u64, machine: u64, from: &[Stamp]) -> State {
        let stamp = Stamp { number, machine };
        let mut vector = Vector::of(stamp);
        from.iter().for_each(|stamp| vector.include(*stamp));
        State {
            stamp,
            tag: [number as u8; 16],
            vector,
        }
    }

    fn known(state: State, session: u64) -> Known {
        Known {
            kind: Kind::File,
            state,
            dead: false,
            place: [0; 16],
            session,
            noted: 99,
        }
    }

    fn stamp(number: u64, machine: u64) -> Stamp {
        Stamp { number, machine }
    }

    /// Session 3 used at most the numbers 100 to 199 and was not closed.
    const CRASHES: &[Crash] = &[Crash {
        session: 3,
        first: 100,
        last: 199,
        removing: true,
    }];

    fn past(crashes: &[Crash]) -> Past<'_> {
        Past {
            machine: US,
            reserved: 1000,
            crashes,
        }
    }

    #[test]
    fn states_of_this_machine() {
        let ours = known(state(120, US, &[]), 3);
        let calm = past(&[]);
        let wrong = Verdict::Wrong;
        assert_eq!(calm.judge(Some(&ours), &ours.state), Verdict::Same);
        let old = state(119, US, &[]);
        assert_eq!(calm.judge(Some(&ours), &old), wrong(Wrong::Old(99)));
        let lost = state(121, US, &[stamp(120, US)]);
        assert_eq!(calm.judge(Some(&ours), &lost), wrong(Wrong::Lost));
        let mut branch = ours.state.clone();
        branch.tag[0] ^= 1;
        assert_eq!(calm.judge(Some(&ours), &branch), wrong(Wrong::Branch));
        let future = state(1001, US, &[]);
        assert_eq!(calm.judge(Some(&ours), &future), wrong(Wrong::MemoryOlder));
        assert_eq!(calm.judge(None, &old), wrong(Wrong::Unknown));
        assert_eq!(calm.judge(None, &state(5, THEM, &[])), Verdict::First);
    }

    #[test]
    fn a_crash_excuses_its_own_numbers_once() {
        let after = past(CRASHES);
        let wrong = Verdict::Wrong;
        let ours = known(state(120, US, &[]), 3);
        let newer = state(121, US, &[]);
        assert_eq!(after.judge(Some(&ours), &newer), Verdict::Crash);
        // Even then nothing goes back, and no other number is excused.
        let old = state(119, US, &[]);
        assert_eq!(after.judge(Some(&ours), &old), wrong(Wrong::Old(99)));
        let later = state(200, US, &[]);
        assert_eq!(after.judge(Some(&ours), &later), wrong(Wrong::Lost));
        // What was found right since is not excused any more.
        assert_eq!(after.judge(Some(&ours), &ours.state), Verdict::Newer);
        let ours = known(ours.state, 4);
        assert_eq!(after.judge(Some(&ours), &newer), wrong(Wrong::Lost));
        // A file that the crash kept from being noted, and one from before.
        assert_eq!(after.judge(None, &state(150, US, &[])), Verdict::Crash);
        assert_eq!(
            after.judge(None, &state(99, US, &[])),
            wrong(Wrong::Unknown)
        );
    }

    #[test]
    fn what_was_removed_stays_removed() {
        let mut dead = known(state(120, US, &[]), 3);
        dead.dead = true;
        for found in [
            state(110, US, &[]),
            state(150, US, &[]),
            state(300, THEM, &[]),
        ] {
            let verdict = past(CRASHES).judge(Some(&dead), &found);
            assert_eq!(verdict, Verdict::Wrong(Wrong::Removed(99)));
        }
    }

    #[test]
    fn states_of_other_machines() {
        let calm = past(&[]);
        let ours = known(state(120, US, &[stamp(50, THEM)]), 3);
        let wrong = Verdict::Wrong;
        let built_on_ours = state(130, THEM, &[stamp(120, US)]);
        assert_eq!(calm.judge(Some(&ours), &built_on_ours), Verdict::Newer);
        let apart = state(130, THEM, &[stamp(110, US)]);
        assert_eq!(calm.judge(Some(&ours), &apart), wrong(Wrong::Conflict(99)));
        // A lower number is a conflict, too, unless it went into ours.
        let apart = state(60, THEM, &[]);
        assert_eq!(calm.judge(Some(&ours), &apart), wrong(Wrong::Conflict(99)));
        let in_ours = state(50, THEM, &[]);
        assert_eq!(calm.judge(Some(&ours), &in_ours), wrong(Wrong::Old(99)));
        let third = known(built_on_ours, 3);
        let old = state(120, US, &[stamp(50, THEM)]);
        assert_eq!(calm.judge(Some(&third), &old), wrong(Wrong::Old(99)));
    }

    #[test]
    fn places() {
        let id = [7; 16];
        let mut occupant = Occupant {
            kind: Some(Kind::File),
            id,
            stamp: stamp(120, US),
            vector: Vector::default(),
            session: 3,
            noted: 99,
            stored: Vec::new(),
        };
        let found = state(120, US, &[]);
        let (calm, after) = (past(&[]), past(CRASHES));
        let displaced = Verdict::Wrong(Wrong::Displaced(99));
        let judge = |past: &Past<'_>, it: &Occupant, kind, id, found| {
            past.judge_place(it, it.stamp, (kind, &id), found)
        };
        assert_eq!(
            judge(&calm, &occupant, Kind::File, id, &found),
            Verdict::Same
        );
        assert_eq!(
            judge(&calm, &occupant, Kind::Symlink, id, &found),
            displaced
        );
        assert_eq!(
            judge(&calm, &occupant, Kind::File, [8; 16], &found),
            displaced
        );
        // Replaced by this machine within the crash, by another one that knew ours, or not.
        let ours = state(130, US, &[]);
        assert_eq!(
            judge(&after, &occupant, Kind::File, [8; 16], &ours),
            Verdict::Crash
        );
        let theirs = state(130, THEM, &[stamp(120, US)]);
        assert_eq!(
            judge(&calm, &occupant, Kind::File, [8; 16], &theirs),
            Verdict::Newer
        );
        let apart = state(130, THEM, &[]);
        assert_eq!(
            judge(&calm, &occupant, Kind::File, [8; 16], &apart),
            displaced
        );
        assert_eq!(
            calm.judge_missing(&occupant),
            Verdict::Wrong(Wrong::Missing(99))
        );
        assert_eq!(after.judge_missing(&occupant), Verdict::Crash);
        occupant.kind = None;
        assert_eq!(calm.judge_missing(&occupant), Verdict::Same);
        assert_eq!(judge(&calm, &occupant, Kind::File, id, &found), displaced);
        // Removed here: what another machine put there later is right, what stood there is not.
        assert_eq!(
            judge(&calm, &occupant, Kind::File, id, &apart),
            Verdict::Newer
        );
        let before = state(119, THEM, &[]);
        assert_eq!(judge(&calm, &occupant, Kind::File, id, &before), displaced);
        occupant.stamp = apart.stamp;
        assert_eq!(judge(&calm, &occupant, Kind::File, id, &apart), displaced);
    }

    #[test]
    fn dates() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_795_885_500, "2026-11-28 17:05 UTC"),
        ] {
            assert_eq!(date(seconds), shown);
        }
    }
}
