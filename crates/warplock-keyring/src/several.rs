//! Several wrapped keys of which one is to be opened, as a vault keeps them.

use crate::error::{Error, Result};
use crate::header::Header;
use crate::identity::Identities;
use crate::key::MasterKey;
use crate::work::Work;
use crate::wrap::{Attempts, WHAT, open};

/// The most work of one of several keys, as base-2 logarithm of scrypt's N.
const MAX_WORK: u8 = 20;

/// The scrypt work of the keys tried so far.
#[derive(Default)]
struct TotalWork(u64);

impl TotalWork {
    /// The work of 64 keys as [`wrap`](crate::wrap()) makes them. Cheap keys come first, so in a
    /// list of 64, other keys cannot keep one of those from being tried.
    const MOST: u64 = 64 << 17;

    /// Whether a key with this work may be tried as well.
    fn add(&mut self, work: Work) -> bool {
        let log_n = work.log_n();
        self.0 += 1 << log_n.min(MAX_WORK);
        log_n <= MAX_WORK && self.0 <= Self::MOST
    }
}

/// Opens those of several wrapped keys that `identities` open, one after the other, until `accept`
/// takes one: it gets the key's index and the key.
///
/// An attacker who can write to the list may have added keys, so a key that cannot be opened, or is
/// not accepted, does not end the search, and the cheapest is tried first: keys for identities
/// before those for passphrases, few recipients before many, little work before much. No question
/// is asked about work: more than 2^20 of scrypt for one key, or 2^23 for all, is not done.
///
/// # Errors
/// If none is accepted: [`Error::WrongPassphrase`] if a passphrase was wrong for any, else the most
/// informative error, else [`Error::NoMatch`].
pub fn unwrap_any<T>(
    wrapped: &[Vec<u8>],
    identities: &Identities,
    mut accept: impl FnMut(usize, MasterKey) -> Option<T>,
) -> Result<T> {
    let mut failure: Option<Error> = None;
    let mut failed = |error: Error| {
        if failure.as_ref().is_none_or(|old| rank(&error) < rank(old)) {
            failure = Some(error);
        }
    };
    let mut keys = Vec::new();
    for (number, bytes) in wrapped.iter().enumerate() {
        match Header::read(bytes, WHAT) {
            Ok(header) => keys.push((number, header)),
            Err(error) => failed(error),
        }
    }
    keys.sort_by_key(|(_, header)| {
        let work = header.passphrase_work().map(|work| work.log_n());
        (work, header.kinds().count())
    });
    let (mut attempts, mut total) = (Attempts::default(), TotalWork::default());
    for (number, header) in keys {
        if let Some(work) = header
            .passphrase_work()
            .filter(|_| identities.has_passphrase())
        {
            if !total.add(work) {
                failed(work.excessive(WHAT, MAX_WORK));
                break;
            }
            work.reserve(WHAT)?;
        }
        match open(&wrapped[number], &header, identities, &mut attempts) {
            Ok(key) => {
                if let Some(taken) = accept(number, key) {
                    return Ok(taken);
                }
            }
            // The prompt cannot answer for the others either.
            Err(error @ (Error::NoPassphrase { .. } | Error::NoTerminal { .. })) => {
                return Err(error);
            }
            Err(error) => failed(error),
        }
    }
    Err(failure.unwrap_or(Error::NoMatch {
        wanted: Vec::new(),
        had_identities: identities.has_files(),
        had_passphrase: identities.has_passphrase(),
    }))
}

/// Of several failures the one with the lowest number is reported: problems with other keys of the
/// list are the least informative.
fn rank(error: &Error) -> u8 {
    match error {
        Error::WrongPassphrase { .. } => 0,
        Error::NoMatch { .. } => 2,
        Error::NotAgeFile { .. }
        | Error::NewerFormat { .. }
        | Error::Malformed { .. }
        | Error::TooLarge { .. }
        | Error::Altered { .. }
        | Error::PayloadLength => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_limited_for_each_and_in_all() {
        for (log_n, most) in [(10, 1 << 13), (17, 64), (20, 8), (21, 0), (255, 0)] {
            let mut total = TotalWork::default();
            let tried = (0..10_000)
                .filter(|_| total.add(Work::Scrypt { log_n }))
                .count();
            assert_eq!(tried, most, "2^{log_n}");
        }
    }
}
