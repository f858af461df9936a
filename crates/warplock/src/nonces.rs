//! Refuses a batch that would use a nonce, or a counter block of CTR, twice under one key.
//!
//! Counters in ascending or descending order pass in one scan. Other nonces are hashed into a bit
//! table; only those whose bit was already set, and their possible partners, are sorted and
//! compared. Whatever the nonces are, the worst case is one sort of all of them.

use crate::batch::{Ivs, Keys, Span, Spans};
use crate::job::Job;
use crate::{Direction, Error, Mode};

/// Whether repeated IVs under one key must be refused. Those of CBC only reveal which texts begin
/// alike, and tweaks of XTS which blocks are equal.
pub(crate) fn must_differ(mode: Mode, direction: Direction) -> bool {
    // Data that was encrypted with a repeat must stay readable.
    matches!(mode, Mode::Gcm | Mode::Ctr | Mode::Acorn) && direction == Direction::Encrypt
}

/// Refuses a job that would encrypt two messages under the same key with the same nonce, or with a
/// common counter block of CTR.
#[inline]
pub(crate) fn check(job: &Job<'_>) -> Result<(), Error> {
    match job.count() < 2 || job.draws_ivs() || !must_differ(job.info().mode, job.direction()) {
        true => Ok(()),
        false => check_given(job),
    }
}

fn check_given(job: &Job<'_>) -> Result<(), Error> {
    let numbers = match job.keys() {
        // Distinct keys.
        Keys::Each { .. } => return Ok(()),
        Keys::One(_) => None,
        Keys::Indexed { index, .. } => Some(*index),
    };
    let counted = match (job.ivs(), job.info().mode) {
        (Ivs::Each(bytes), Mode::Ctr) => counters_follow(job, bytes.as_chunks().0),
        (Ivs::Each(bytes), Mode::Gcm) => is_counted(bytes.as_chunks::<12>().0),
        (Ivs::Each(bytes), _) => is_counted(bytes.as_chunks::<16>().0),
        _ => false,
    };
    match counted {
        true => Ok(()),
        false => compare(job, numbers),
    }
}

/// Whether the IVs are counters in ascending or descending order, judged by eight bytes of each.
/// Counters XORed with a constant, as TLS and C2SP use them, count after XOR with the first one.
fn is_counted<const LEN: usize>(ivs: &[[u8; LEN]]) -> bool {
    let big = |iv: &[u8; LEN]| u64::from_be_bytes(*iv.last_chunk().expect("IVs are longer"));
    let little = |iv: &[u8; LEN]| u64::from_le_bytes(*iv.first_chunk().expect("IVs are longer"));
    let first = ivs.first().map_or(0, big);
    let above = |a, b| a < b;
    in_order(ivs, big, above)
        || in_order(ivs, |iv| big(iv) ^ first, above)
        || in_order(ivs, little, above)
        || in_order(ivs, |iv| !big(iv), above)
        || in_order(ivs, |iv| !little(iv), above)
}

/// Whether `good` holds for the numbers of every two neighbours.
fn in_order<const LEN: usize>(
    ivs: &[[u8; LEN]],
    number: impl Fn(&[u8; LEN]) -> u64,
    good: impl Fn(u64, u64) -> bool,
) -> bool {
    let mut last = None;
    let mut follows = |next| last.replace(next).is_none_or(|last| good(last, next));
    let (groups, rest) = ivs.as_chunks::<8>();
    for group in groups {
        let numbers = group.each_ref().map(&number);
        // One branch per group: one per IV takes three times as long.
        let pairs = numbers.array_windows();
        let inside = pairs.fold(true, |all, &[a, b]| all & good(a, b));
        if !(inside & follows(numbers[0])) {
            return false;
        }
        follows(numbers[7]);
    }
    rest.iter().map(number).all(follows)
}

/// Whether each message of CTR starts at or after the end of the previous one, judged by the low
/// half of the counters, which must not wrap.
fn counters_follow(job: &Job<'_>, counters: &[[u8; 16]]) -> bool {
    let low = |counter: &[u8; 16]| u128::from_be_bytes(*counter) as u64;
    if job.is_even() {
        let blocks = blocks(job, 0);
        let ends = counters.last().map(|last| low(last).checked_add(blocks));
        let far = |a: u64, b: u64| (a < b) & (b.wrapping_sub(a) >= blocks);
        return ends.flatten().is_some() && in_order(counters, low, far);
    }
    let mut end = Some(0);
    counters.iter().enumerate().all(|(message, counter)| {
        let start = low(counter);
        let follows = end.is_some_and(|end| end <= start);
        end = start.checked_add(blocks(job, message));
        follows
    }) && end.is_some()
}

/// How many counter blocks a message of CTR uses.
fn blocks(job: &Job<'_>, message: usize) -> u64 {
    job.text_len(message).div_ceil(16) as u64
}

/// Compares IVs in any order. `numbers` are the messages' key numbers, if there are several keys.
#[inline(never)]
fn compare(job: &Job<'_>, numbers: Option<&[u32]>) -> Result<(), Error> {
    let count = job.count();
    let (bytes, spans) = match *job.ivs() {
        Ivs::Each(bytes) => {
            let len = job.info().iv_len();
            let stride = len;
            (bytes, Spans::Even { count, len, stride })
        }
        Ivs::Ragged { bytes, spans } => (bytes, spans),
        _ => return Ok(()),
    };
    let key = |message: usize| numbers.map_or(0, |numbers| numbers[message]);
    let iv = |message: usize| {
        let Span { offset, len } = spans.get(message);
        &bytes[offset..][..len]
    };
    let (found, what) = match job.info().mode {
        Mode::Ctr => {
            let start = |message: usize| {
                let counter = iv(message).first_chunk();
                u128::from_be_bytes(*counter.expect("the job was checked: it is a block"))
            };
            (overlapping(job, key, start), "overlapping counters")
        }
        _ => {
            let hashes = match (spans, numbers) {
                // The usual case: a third of the time with a constant length.
                (
                    Spans::Even {
                        len: 12,
                        stride: 12,
                        ..
                    },
                    None,
                ) => bytes
                    .as_chunks::<12>()
                    .0
                    .iter()
                    .map(|iv| hash(0, iv))
                    .collect(),
                _ => (0..count)
                    .map(|message| hash(key(message), iv(message)))
                    .collect(),
            };
            let nonce = |message| (key(message), iv(message));
            (repeated(hashes, nonce), "the same nonce")
        }
    };
    match found {
        None => Ok(()),
        Some((first, second)) => Err(Error::NonceReuse {
            first,
            second,
            what,
        }),
    }
}

/// Finds two messages with the same nonce, where equal nonces have equal `hashes`.
pub(crate) fn repeated<N: Ord>(
    hashes: Vec<u64>,
    nonce: impl Fn(usize) -> N,
) -> Option<(usize, usize)> {
    let mut suspects = suspects(&hashes);
    suspects.sort_unstable_by(|&(a_hash, a), &(b_hash, b)| {
        let by_hash = a_hash.cmp(&b_hash);
        by_hash
            .then_with(|| nonce(a).cmp(&nonce(b)))
            .then(a.cmp(&b))
    });
    let same = |pair: &&[(u64, usize)]| {
        let [(a_hash, a), (b_hash, b)] = [pair[0], pair[1]];
        a_hash == b_hash && nonce(a) == nonce(b)
    };
    let pair = suspects.windows(2).find(same)?;
    Some((pair[0].1, pair[1].1))
}

/// Finds two messages of CTR that share a counter block. Empty messages use none.
fn overlapping(
    job: &Job<'_>,
    key: impl Fn(usize) -> u32,
    start: impl Fn(usize) -> u128,
) -> Option<(usize, usize)> {
    let longest = match job.is_even() {
        true => blocks(job, 0),
        false => (0..job.count()).map(|message| blocks(job, message)).max()?,
    };
    // Counters are divided into cells of 2^bits blocks, longer than any message. So a message lies
    // in one cell or, rarely, in two, and messages that overlap share a cell.
    let bits = u64::BITS - longest.leading_zeros() + 3;
    let cells = |message: usize| {
        let (start, blocks) = (start(message), blocks(job, message));
        let end = start.wrapping_add(u128::from(blocks));
        let [first, last] = [start, end.wrapping_sub(1)].map(|counter| counter >> bits);
        let cell = |cell: u128| hash(key(message), &cell.to_le_bytes());
        match (blocks, first == last) {
            (0, _) => [NONE; 2],
            (_, true) => [cell(first), NONE],
            (_, false) => [cell(first), cell(last)],
        }
    };
    let cells: Vec<u64> = (0..job.count()).flat_map(cells).collect();
    let suspects = suspects(&cells).into_iter();
    let mut suspects: Vec<usize> = suspects.map(|(_, place)| place / 2).collect();
    suspects.sort_unstable_by_key(|&message| (key(message), start(message), message));
    suspects.dedup();
    let of_a_key = suspects.chunk_by(|&a, &b| key(a) == key(b));
    of_a_key
        .filter(|messages| messages.len() > 1)
        .find_map(|messages| {
            // Counters wrap, so the first follows the last.
            let next = messages.iter().cycle().skip(1);
            let overlap = |&(&message, &next): &(&usize, &usize)| {
                start(next).wrapping_sub(start(message)) < u128::from(blocks(job, message))
            };
            let (&a, &b) = messages.iter().zip(next).find(overlap)?;
            Some((a.min(b), a.max(b)))
        })
}

/// Marks an unused place in an array of hashes.
const NONE: u64 = 0;

/// Finds the hashes that occur more than once, with all their places, and a few others.
fn suspects(hashes: &[u64]) -> Vec<(u64, usize)> {
    // With 32 bits per hash, fewer than 2 % of distinct hashes find their bit set, and the table for
    // 65,536 of them (256 KiB) fits the L2 cache.
    let mut marks = vec![0_u64; hashes.len().div_ceil(2).next_power_of_two()];
    let mask = marks.len() - 1;
    let mut again = Vec::new();
    for &hash in hashes.iter().filter(|&&hash| hash != NONE) {
        let (word, bit) = (&mut marks[hash as usize >> 6 & mask], 1 << (hash % 64));
        if *word & bit != 0 {
            again.push(hash);
        }
        *word |= bit;
    }
    if again.is_empty() {
        return Vec::new();
    }
    // All places of these hashes, by other bits: for these few, the table fits the L1 cache.
    let mut marks = vec![0_u64; again.len().next_power_of_two()];
    let mask = marks.len() - 1;
    let place = |hash: u64| ((hash >> 38) as usize & mask, 1 << (hash >> 32 & 63));
    for (word, bit) in again.into_iter().map(place) {
        marks[word] |= bit;
    }
    let mut suspects = Vec::new();
    for (index, &hash) in hashes.iter().enumerate() {
        let (word, bit) = place(hash);
        if marks[word] & bit != 0 && hash != NONE {
            suspects.push((hash, index));
        }
    }
    suspects
}

/// A hash of a key number and a nonce. Collisions only cost time.
#[inline(always)]
pub(crate) fn hash(key: u32, nonce: &[u8]) -> u64 {
    // Digits of pi.
    const PI: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
    let mix = |a: u64, b: u64| {
        let product = u128::from(a ^ PI[0]) * u128::from(b ^ PI[1]);
        product as u64 ^ (product >> 64) as u64
    };
    let key = u64::from(key) << 32;
    let hash = match (nonce.first_chunk(), nonce.last_chunk(), nonce.len()) {
        (Some(first), Some(last), ..=16) => {
            mix(u64::from_le_bytes(*first) ^ key, u64::from_le_bytes(*last))
        }
        _ => nonce.chunks(8).fold(key, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(hash, u64::from_le_bytes(word))
        }),
    };
    // Never NONE.
    hash | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No other test would notice if these were compared one by one, only slower.
    #[test]
    fn counters_pass_in_one_scan() {
        fn ivs<const LEN: usize>(count: u64, iv: impl Fn(u64) -> [u8; LEN]) -> Vec<[u8; LEN]> {
            (0..count).map(iv).collect()
        }
        for count in [0, 1, 2, 7, 8, 9, 16, 17, 1000] {
            let big = |number: u64| {
                let mut iv = [3; 12];
                iv[4..].copy_from_slice(&number.to_be_bytes());
                iv
            };
            let little = |number: u64| {
                let mut iv = [3; 16];
                iv[..8].copy_from_slice(&number.to_le_bytes());
                iv
            };
            for (start, step) in [(0, 1), (0x1_fff0, 1), (5, 7), (1 << 40, 1 << 33)] {
                let number = |i: u64| start + step * i;
                assert!(is_counted(&ivs(count, |i| big(number(i)))));
                assert!(is_counted(&ivs(count, |i| big(number(count - i)))));
                assert!(is_counted(&ivs(count, |i| little(number(i)))));
                assert!(is_counted(&ivs(count, |i| little(number(count - i)))));
            }
            // XORed, from a multiple of a power of two on.
            let secret = 0x1234_5678_9abc_def7_u64;
            assert!(is_counted(&ivs(count, |i| big(secret ^ (4096 + i)))));
        }
    }

    #[test]
    fn repeats_do_not_pass_the_scan() {
        for count in [2, 8, 9, 16, 17, 40] {
            let good: Vec<[u8; 12]> = (0..count as u8).map(|i| [i; 12]).collect();
            assert!(is_counted(&good));
            for place in 1..count {
                let mut bad = good.clone();
                bad[place] = bad[place - 1];
                assert!(!is_counted(&bad), "{place} of {count}");
                bad[place] = bad[0];
                assert!(!is_counted(&bad), "{place} of {count}");
            }
        }
    }

    #[test]
    fn nonces_with_the_same_hash_are_compared() {
        for count in [1, 2, 100, 3000] {
            let different = repeated(vec![1 << 63; count], |i| i);
            assert_eq!(different, None);
            let same = repeated(vec![1 << 63; count], |i| i % (count - 1).max(1));
            assert_eq!(same, (count > 1).then_some((0, count - 1)));
        }
    }
}
