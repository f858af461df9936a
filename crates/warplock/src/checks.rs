//! The rules that batches in host memory ([`crate::job::Job`]) and in GPU memory have in common.

use subtle::ConstantTimeEq;

use crate::batch::{Direction, Keys, Span, Spans};
use crate::secret::declassify;
use crate::{AlgorithmInfo, BatchProblem, Error, Lack, Mode};

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

pub(crate) fn same_count(found: usize, messages: usize, what: &'static str) -> Result<(), Error> {
    if found == messages {
        return Ok(());
    }
    Err(BatchProblem::Count {
        what,
        messages,
        found,
    }
    .of_batch())
}

pub(crate) fn check_array(
    found: usize,
    messages: usize,
    each: usize,
    what: &'static str,
) -> Result<(), Error> {
    if messages.checked_mul(each) == Some(found) {
        return Ok(());
    }
    Err(BatchProblem::ArrayLength {
        what,
        messages,
        each,
        found,
        any_iv: false,
    }
    .of_batch())
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
                Some(index) => {
                    let algorithm = *algorithm;
                    Err(BatchProblem::EqualHalves { algorithm }.of_message(index))
                }
            }
        }
        Keys::Indexed { keys, index } => {
            same_count(index.len(), count, "key numbers")?;
            if keys
                .iter()
                .any(|key| key.algorithm() != keys[0].algorithm())
            {
                return Err(BatchProblem::MixedKeys.of_batch());
            }
            match index
                .iter()
                .position(|&number| number as usize >= keys.len())
            {
                None => Ok(()),
                Some(place) => Err(BatchProblem::KeyNumber {
                    number: index[place],
                    keys: keys.len(),
                }
                .of_message(place)),
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
    Err(BatchProblem::TagLength {
        algorithm: info.algorithm,
        found: len,
    }
    .of_batch())
}

/// Bytes of appended tags after each input, and after each output.
pub(crate) fn appended(direction: Direction, tag: usize) -> (usize, usize) {
    match direction {
        Direction::Encrypt => (0, tag),
        Direction::Decrypt => (tag, 0),
    }
}

/// All texts and their places fit, in an input and an output of these lengths, with a tag of
/// `tag` bytes after each ciphertext.
pub(crate) fn check_places(
    info: &AlgorithmInfo,
    direction: Direction,
    [(input, input_len), (output, output_len)]: [(&Spans<'_>, usize); 2],
    in_place: bool,
    tag: usize,
) -> Result<(), Error> {
    if !in_place {
        same_lengths(input, output)?;
    }
    check_texts(info, input)?;
    let (tag_in, tag_out) = appended(direction, tag);
    inside(input, tag_in, input_len, "the input")?;
    inside(output, tag_out, output_len, "the output")?;
    // In place, a message's tag must not be overwritten by other messages, even if it is only
    // read.
    disjoint(output, if in_place { tag } else { tag_out })
}

/// Every text has a length that the algorithm takes.
fn check_texts(info: &AlgorithmInfo, spans: &Spans<'_>) -> Result<(), Error> {
    each(spans, |index, span| {
        if info.accepts_text_len(span.len as u64) {
            return Ok(());
        }
        Err(BatchProblem::TextLength {
            algorithm: info.algorithm,
            found: span.len as u64,
        }
        .of_message(index))
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
        Err(_) if info.mode == Mode::Gcm => Err(BatchProblem::ArrayLength {
            what: "IVs",
            messages: count,
            each: len,
            found,
            any_iv: true,
        }
        .of_batch()),
        checked => checked,
    }
}

pub(crate) fn check_iv_len(info: &AlgorithmInfo, index: usize, len: usize) -> Result<(), Error> {
    if info.accepts_iv_len(len) {
        return Ok(());
    }
    Err(BatchProblem::IvLength {
        algorithm: info.algorithm,
        found: len,
    }
    .of_message(index))
}

pub(crate) fn check_sectors(info: &AlgorithmInfo) -> Result<(), Error> {
    if info.mode == Mode::Xts {
        return Ok(());
    }
    Err(Lack::Sectors.of(info.algorithm))
}

fn same_lengths(input: &Spans<'_>, output: &Spans<'_>) -> Result<(), Error> {
    same_count(output.count(), input.count(), "places for results")?;
    // Where all are alike, the first tells: a count may be absurd, and no array bounds it.
    let looked_at = match (input, output) {
        (Spans::Even { count, .. }, Spans::Even { .. }) => (*count).min(1),
        _ => input.count(),
    };
    match (0..looked_at).find(|&i| input.get(i).len != output.get(i).len) {
        None => Ok(()),
        Some(index) => Err(BatchProblem::ResultLength {
            text: input.get(index).len,
            room: output.get(index).len,
        }
        .of_message(index)),
    }
}

/// Every span and the tag of `tag` bytes after it must lie in a buffer of `len` bytes.
pub(crate) fn inside(
    spans: &Spans<'_>,
    tag: usize,
    len: usize,
    what: &'static str,
) -> Result<(), Error> {
    let check = |index, span: Span| {
        let end = span
            .offset
            .checked_add(span.len)
            .and_then(|end| end.checked_add(tag));
        if end.is_some_and(|end| end <= len) {
            return Ok(());
        }
        Err(BatchProblem::OutOfBounds {
            what,
            offset: span.offset,
            len: span.len,
            tag,
            buffer: len,
        }
        .of_message(index))
    };
    match spans {
        Spans::Even { count: 0, .. } => Ok(()),
        // The last one ends last.
        Spans::Even { count, .. } => check(count - 1, spans.get(count - 1)),
        Spans::Ragged(_) => each(spans, check),
    }
}

/// No two spans (with the `extra` bytes after each) may share a byte.
fn disjoint(spans: &Spans<'_>, extra: usize) -> Result<(), Error> {
    let overlap = |index: usize| BatchProblem::ResultsOverlap.of_message(index);
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
