//! The rules for batches that [`crate::job::Job`] and batches in GPU memory have in common, and the words
//! for what breaks them.

use subtle::ConstantTimeEq;

use crate::batch::{Direction, Keys, Span, Spans};
use crate::secret::declassify;
use crate::{AlgorithmInfo, Error, Mode};

/// Calls `check` for every message, but only once where all are alike.
pub(crate) fn each(
    spans: &Spans<'_>,
    mut check: impl FnMut(usize, Span) -> Result<(), Error>,
) -> Result<(), Error> {
    match spans {
        Spans::Even { count: 0, .. } => Ok(()),
        Spans::Even { .. } => check(0, spans.get(0)),
        Spans::Ragged(spans) => spans
            .iter()
            .enumerate()
            .try_for_each(|(index, &span)| check(index, span)),
    }
}

pub(crate) fn same_count(found: usize, messages: usize, what: &str) -> Result<(), Error> {
    if found == messages {
        return Ok(());
    }
    Err(Error::Batch(format!(
        "the batch has {messages} messages but {found} {what}"
    )))
}

pub(crate) fn check_array(
    found: usize,
    messages: usize,
    each: usize,
    what: &str,
) -> Result<(), Error> {
    if messages.checked_mul(each) == Some(found) {
        return Ok(());
    }
    Err(Error::Batch(format!(
        "the array of {what} has {found} bytes; {messages} messages with {each} bytes each need {}",
        messages as u128 * each as u128
    )))
}

pub(crate) fn check_keys(direction: Direction, keys: &Keys<'_>, count: usize) -> Result<(), Error> {
    match keys {
        Keys::One(_) => Ok(()),
        Keys::Each { algorithm, bytes } => {
            check_array(bytes.len(), count, algorithm.key_len(), "keys")?;
            if algorithm.info().mode != Mode::Xts || direction == Direction::Decrypt {
                return Ok(());
            }
            let mut each = bytes.chunks_exact(algorithm.key_len());
            match each.position(has_equal_halves) {
                None => Ok(()),
                Some(index) => Err(Error::Message {
                    index,
                    problem: Error::EqualHalves {
                        algorithm: *algorithm,
                    }
                    .to_string(),
                }),
            }
        }
        Keys::Indexed { keys, index } => {
            same_count(index.len(), count, "key numbers")?;
            if keys
                .iter()
                .any(|key| key.algorithm() != keys[0].algorithm())
            {
                return Err(Error::Batch(
                    "the table mixes keys of several algorithms: one batch, one algorithm"
                        .to_owned(),
                ));
            }
            match index
                .iter()
                .position(|&number| number as usize >= keys.len())
            {
                None => Ok(()),
                Some(place) => Err(Error::Message {
                    index: place,
                    problem: format!(
                        "takes key number {}, but the table has {} keys",
                        index[place],
                        keys.len()
                    ),
                }),
            }
        }
    }
}

pub(crate) fn check_tag_len(
    info: &AlgorithmInfo,
    direction: Direction,
    len: usize,
) -> Result<(), Error> {
    if info.accepts_tag_len(direction, len) || !info.algorithm.is_aead() {
        return Ok(());
    }
    Err(Error::Batch(format!(
        "a tag of {len} bytes is not allowed: {}",
        info.tag_rule()
    )))
}

/// Every text has a length that the algorithm takes.
pub(crate) fn check_texts(info: &AlgorithmInfo, spans: &Spans<'_>) -> Result<(), Error> {
    each(spans, |index, span| {
        if info.accepts_text_len(span.len as u64) {
            return Ok(());
        }
        let (name, rule) = (info.name, info.text_rule());
        Err(Error::Message {
            index,
            problem: format!("{name} needs a text of {rule}, not {} bytes", span.len),
        })
    })
}

/// Whether the halves of an XTS key are equal, in constant time.
pub(crate) fn has_equal_halves(key: &[u8]) -> bool {
    let (data, tweak) = key.split_at(key.len() / 2);
    // In blocks: byte by byte, the comparison would show in the time of a batch of many keys.
    let pairs = data.as_chunks().0.iter().zip(tweak.as_chunks().0);
    let difference = pairs.fold(0, |all, (a, b)| {
        all | u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)
    });
    declassify(difference.ct_eq(&0))
}

/// Checks the length of an array of IVs. GCM accepts nonces of any length, but only 12 bytes per
/// message here: otherwise an array made for a batch would pass as one long nonce.
pub(crate) fn check_iv_array(
    info: &AlgorithmInfo,
    found: usize,
    count: usize,
) -> Result<(), Error> {
    let len = info.iv_len();
    match check_array(found, count, len, "IVs") {
        Err(_) if info.mode == Mode::Ecb && count > 0 => check_iv_len(info, 0, found / count),
        Err(error) if info.mode == Mode::Gcm => Err(Error::Batch(format!(
            "{error} (nonces of another length: Ivs::Ragged)"
        ))),
        checked => checked,
    }
}

pub(crate) fn check_iv_len(info: &AlgorithmInfo, index: usize, len: usize) -> Result<(), Error> {
    if info.accepts_iv_len(len) {
        return Ok(());
    }
    Err(Error::Message {
        index,
        problem: format!("{} needs {}, not {len} bytes", info.name, info.iv_rule()),
    })
}

pub(crate) fn check_sectors(info: &AlgorithmInfo) -> Result<(), Error> {
    if info.mode == Mode::Xts {
        return Ok(());
    }
    Err(Error::Batch(format!(
        "{} has no sectors: only XTS numbers them",
        info.name
    )))
}

/// What is wrong with tags for an algorithm that has none.
pub(crate) fn no_tags(info: &AlgorithmInfo) -> Error {
    Error::Batch(format!("{} makes no tags: leave the tags away", info.name))
}

/// What is wrong with associated data for an algorithm that takes none.
pub(crate) fn no_aad(info: &AlgorithmInfo) -> Error {
    Error::Batch(format!(
        "{} takes no associated data: it would not be authenticated",
        info.name
    ))
}

/// What is wrong with a table of keys that has none.
pub(crate) fn no_keys() -> Error {
    Error::Batch("the batch has an empty table of keys: give it at least one".to_owned())
}

pub(crate) fn same_lengths(input: &Spans<'_>, output: &Spans<'_>) -> Result<(), Error> {
    same_count(output.count(), input.count(), "places for results")?;
    // Where all are alike, the first tells: a count may be absurd, and no array bounds it.
    let looked_at = match (input, output) {
        (Spans::Even { count, .. }, Spans::Even { .. }) => (*count).min(1),
        _ => input.count(),
    };
    match (0..looked_at).find(|&i| input.get(i).len != output.get(i).len) {
        None => Ok(()),
        Some(index) => Err(Error::Message {
            index,
            problem: format!(
                "has {} bytes of text but {} bytes of room for its result",
                input.get(index).len,
                output.get(index).len
            ),
        }),
    }
}

/// Every span and the `extra` bytes behind it must lie in a buffer of `len` bytes.
pub(crate) fn inside(spans: &Spans<'_>, extra: usize, len: usize, what: &str) -> Result<(), Error> {
    let check = |index, span: Span| {
        let end = span
            .offset
            .checked_add(span.len)
            .and_then(|end| end.checked_add(extra));
        if end.is_some_and(|end| end <= len) {
            return Ok(());
        }
        let tag = if extra > 0 {
            format!(" and a tag of {extra} bytes (Tags::Apart puts tags elsewhere)")
        } else {
            String::new()
        };
        Err(Error::Message {
            index,
            problem: format!(
                "lies outside {what}: {} bytes at {}{tag}, in a buffer of {len} bytes",
                span.len, span.offset
            ),
        })
    };
    match spans {
        Spans::Even { count: 0, .. } => Ok(()),
        // The last one lies furthest.
        Spans::Even { count, .. } => check(count - 1, spans.get(count - 1)),
        Spans::Ragged(_) => each(spans, check),
    }
}

/// No two spans (with the `extra` bytes behind each) may share a byte.
pub(crate) fn disjoint(spans: &Spans<'_>, extra: usize) -> Result<(), Error> {
    let overlap = |index: usize| Error::Message {
        index,
        problem: "overlaps another message's result: each needs a place of its own".to_owned(),
    };
    match spans {
        Spans::Even { count, len, stride } => {
            if *count > 1 && *stride < len + extra {
                Err(overlap(1))
            } else {
                Ok(())
            }
        }
        Spans::Ragged(spans) => {
            let taken = |span: &Span| span.len + extra;
            let follows = |pair: &[Span]| pair[0].offset + taken(&pair[0]) <= pair[1].offset;
            if spans.windows(2).all(follows) {
                return Ok(());
            }
            let mut order: Vec<usize> =
                (0..spans.len()).filter(|&i| taken(&spans[i]) > 0).collect();
            order.sort_unstable_by_key(|&i| spans[i].offset);
            let clash = order.windows(2).find(|pair| {
                spans[pair[0]].offset + taken(&spans[pair[0]]) > spans[pair[1]].offset
            });
            clash.map_or(Ok(()), |pair| Err(overlap(pair[0].max(pair[1]))))
        }
    }
}
