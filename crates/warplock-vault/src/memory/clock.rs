//! A Lamport clock over all machines that use a vault, and version vectors of states.

use std::sync::Mutex;

use crate::core::lock;
use crate::error::{Error, Result};

/// How many numbers are reserved at a time: one durable write for each step.
const STEP: u64 = 1 << 16;

/// Which machine made a state, and its number: higher than all that the machine had seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// 0: none.
    pub(crate) number: u64,
    pub(crate) machine: u64,
}

impl Stamp {
    /// Bytes of an encoded stamp.
    pub(crate) const LEN: usize = 16;

    fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..].copy_from_slice(&self.machine.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("8 bytes"));
        Stamp {
            number: number(&bytes[..8]),
            machine: number(&bytes[8..]),
        }
    }
}

/// The newest state of each machine that went into a state, its own included: a version vector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vector(Vec<Stamp>);

impl Vector {
    /// The most machines in a vector. With more, the one with the lowest number is dropped: its
    /// states then count as not included, which is reported as a conflict, never missed.
    pub(crate) const MAX: usize = 8;
    /// Bytes of an encoded vector.
    pub(crate) const LEN: usize = Self::MAX * Stamp::LEN;

    /// The vector of an object's first state.
    #[cfg(test)]
    pub(crate) fn of(stamp: Stamp) -> Self {
        Vector(vec![stamp])
    }

    /// Whether the state with this stamp went into the one with this vector. A state without a
    /// number was before all others.
    pub(crate) fn covers(&self, stamp: Stamp) -> bool {
        let newer = |it: &Stamp| it.machine == stamp.machine && it.number >= stamp.number;
        stamp.number == 0 || self.0.iter().any(newer)
    }

    /// Whether that state may have gone in: it did, or there was no room for its machine.
    pub(crate) fn may_cover(&self, stamp: Stamp) -> bool {
        let newer = |it: &Stamp| it.machine != stamp.machine && it.number >= stamp.number;
        self.covers(stamp) || self.0.len() == Self::MAX && self.0.iter().all(newer)
    }

    /// Includes all that another vector includes.
    pub(crate) fn join(&mut self, other: &Vector) {
        other.0.iter().for_each(|stamp| self.include(*stamp));
    }

    /// Includes a state.
    pub(crate) fn include(&mut self, stamp: Stamp) {
        match self.0.iter_mut().find(|it| it.machine == stamp.machine) {
            Some(it) => it.number = it.number.max(stamp.number),
            None if stamp.number > 0 => self.0.push(stamp),
            None => {}
        }
        self.0.sort_by_key(|it| (u64::MAX - it.number, it.machine));
        self.0.truncate(Self::MAX);
    }

    /// Machines whose states went in.
    pub(crate) fn machines(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|it| it.machine)
    }

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        for (room, stamp) in bytes.chunks_exact_mut(Stamp::LEN).zip(&self.0) {
            room.copy_from_slice(&stamp.encode());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let (stamps, _) = bytes.as_chunks::<{ Stamp::LEN }>();
        let stamps = stamps.iter().map(Stamp::decode);
        Vector(stamps.filter(|stamp| stamp.number > 0).collect())
    }
}

/// Which state of an object this is: its stamp, and what went into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) stamp: Stamp,
    pub(crate) vector: Vector,
}

impl Version {
    /// Bytes of an encoded version.
    pub(crate) const LEN: usize = Stamp::LEN + Vector::LEN;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..Stamp::LEN].copy_from_slice(&self.stamp.encode());
        bytes[Stamp::LEN..].copy_from_slice(&self.vector.encode());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let (stamp, vector) = bytes.split_first_chunk().expect("a stamp comes first");
        Version {
            stamp: Stamp::decode(stamp),
            vector: Vector::decode(vector),
        }
    }
}

/// Issues numbers. Each was durably reserved before, so that after a crash numbering continues
/// above all that were used, also by states that the crash undid.
pub(crate) struct Clock {
    pub(crate) machine: u64,
    numbers: Mutex<Numbers>,
}

#[derive(Clone, Copy)]
struct Numbers {
    /// The highest number seen or issued.
    last: u64,
    /// The highest number that may be issued.
    reserved: u64,
}

impl Clock {
    /// A clock that has seen `last`, and whose numbers up to `reserved` are reserved.
    pub(crate) fn new(machine: u64, last: u64, reserved: u64) -> Self {
        let numbers = Mutex::new(Numbers { last, reserved });
        Clock { machine, numbers }
    }

    /// What must be reserved to begin after `last`.
    pub(crate) fn reservation(last: u64) -> u64 {
        last.saturating_add(STEP)
    }

    /// Notes a number that another machine may have used.
    pub(crate) fn observe(&self, number: u64) {
        let mut numbers = lock(&self.numbers);
        numbers.last = numbers.last.max(number);
    }

    /// The next number; `reserve` gets the highest number so far and the end of a new reservation,
    /// which it makes durable.
    pub(crate) fn next(&self, reserve: impl FnOnce(u64, u64) -> Result<()>) -> Result<Stamp> {
        let mut numbers = lock(&self.numbers);
        let next = numbers.last.checked_add(1).ok_or_else(|| {
            Error::altered("the vault", "its numbers of states have come to their end")
        })?;
        if next > numbers.reserved {
            let end = Self::reservation(numbers.last);
            reserve(numbers.last, end)?;
            numbers.reserved = end;
        }
        numbers.last = next;
        Ok(Stamp {
            number: next,
            machine: self.machine,
        })
    }

    pub(crate) fn last(&self) -> u64 {
        lock(&self.numbers).last
    }

    pub(crate) fn reserved(&self) -> u64 {
        lock(&self.numbers).reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(number: u64, machine: u64) -> Stamp {
        Stamp { number, machine }
    }

    #[test]
    fn a_vector_covers_what_went_into_it() {
        let mut vector = Vector::of(stamp(5, 1));
        vector.include(stamp(9, 2));
        vector.include(stamp(3, 1));
        for (covered, of) in [
            (true, stamp(5, 1)),
            (true, stamp(1, 1)),
            (false, stamp(6, 1)),
            (true, stamp(9, 2)),
            (false, stamp(1, 3)),
            (true, stamp(0, 3)),
        ] {
            assert_eq!(vector.covers(of), covered, "{of:?}");
        }
        assert_eq!(Vector::decode(&vector.encode()), vector);
    }

    #[test]
    fn a_full_vector_leaves_the_lowest_number_out() {
        let mut vector = Vector::default();
        for machine in 1..=9 {
            vector.include(stamp(100 - machine, machine));
        }
        assert_eq!(vector.machines().count(), Vector::MAX);
        assert!(!vector.covers(stamp(91, 9)));
        assert!(vector.covers(stamp(92, 8)));
        assert!(vector.may_cover(stamp(91, 9)));
        assert!(!vector.may_cover(stamp(93, 9)));
        assert!(!vector.may_cover(stamp(93, 8)));
        assert_eq!(Vector::decode(&vector.encode()), vector);
    }

    #[test]
    fn numbers_are_reserved_before_they_are_used() {
        let mut reserved = 0;
        let clock = Clock::new(7, 10, 10);
        let first = clock.next(|_, end| {
            reserved = end;
            Ok(())
        });
        assert_eq!(first.unwrap(), stamp(11, 7));
        assert_eq!(reserved, 10 + STEP);
        for number in 12..=reserved {
            let next = clock.next(|_, _| panic!("{number} is reserved"));
            assert_eq!(next.unwrap().number, number);
        }
        // A number that cannot be reserved is not issued.
        let refused = clock.next(|_, _| Err(rustix::io::Errno::NOSPC.into()));
        assert!(refused.is_err());
        assert_eq!(clock.last(), reserved);
        // Numbers of other machines push ours on.
        clock.observe(1 << 40);
        let next = clock.next(|_, _| Ok(())).unwrap();
        assert_eq!(next.number, (1 << 40) + 1);
        assert!(clock.reserved() > next.number);
        let clock = Clock::new(7, u64::MAX, u64::MAX);
        assert!(clock.next(|_, _| Ok(())).is_err());
    }
}
