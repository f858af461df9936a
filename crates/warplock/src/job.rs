//! A batch after all checks: what backends work on.

use std::marker::PhantomData;
use std::ops::Range;

use crate::batch::{Aad, Batch, Direction, Ivs, Keys, Span, Spans, Tags, Text};
use crate::{Error, Info};

/// A checked batch. That one exists proves: every span lies inside its buffer, spans that are
/// written overlap nothing else, and every key, IV, length and tag fits the algorithm. The
/// buffers stay borrowed for `'a`.
pub struct Job<'a> {
    info: &'static Info,
    direction: Direction,
    keys: Keys<'a>,
    input: *const u8,
    output: *mut u8,
    input_spans: Spans<'a>,
    output_spans: Spans<'a>,
    ivs: Ivs<'a>,
    /// Bytes of each of [`Ivs::Each`]: a division for each message would show.
    iv_len: usize,
    aad: Aad<'a>,
    tags: TagPlace,
    tag_len: usize,
    borrows: PhantomData<&'a mut [u8]>,
}

/// Where tags are, as pointers.
#[derive(Clone, Copy)]
enum TagPlace {
    Appended,
    Apart(*mut u8),
    Given(*const u8),
}

// SAFETY: a job is a set of borrows (`&[u8]`, `&mut [u8]`, `&Key`) that may all go to other
// threads; the pointers only split the mutable ones by message, and messages do not overlap.
unsafe impl Send for Job<'_> {}
// SAFETY: as above; threads that share a job work on different messages or segments of them.
unsafe impl Sync for Job<'_> {}

/// One message of a job. The pointers are valid for `len` bytes; `input == output` when in
/// place, otherwise they do not overlap.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) input: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) len: usize,
    pub(crate) iv: Iv<'a>,
    pub(crate) aad: &'a [u8],
    /// Where the tag is read from (open) or written to (seal); unused by other algorithms.
    pub(crate) tag: *mut u8,
}

/// A message's IV: the caller's bytes, or a sector's number.
#[derive(Clone, Copy)]
pub(crate) enum Iv<'a> {
    Bytes(&'a [u8]),
    Sector([u8; 16]),
}

impl Iv<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Iv::Bytes(bytes) => bytes,
            Iv::Sector(bytes) => bytes,
        }
    }
}

impl<'a> Job<'a> {
    /// The algorithm's row of the table.
    pub fn info(&self) -> &'static Info {
        self.info
    }

    /// Which way the job goes.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// How many messages there are.
    pub fn count(&self) -> usize {
        self.input_spans.count()
    }

    /// Text bytes of all messages together.
    pub fn text_bytes(&self) -> u64 {
        match self.input_spans {
            Spans::Even { count, len, .. } => count as u64 * len as u64,
            Spans::Ragged(spans) => spans.iter().map(|span| span.len as u64).sum(),
        }
    }

    pub(crate) fn keys(&self) -> &Keys<'a> {
        &self.keys
    }

    /// Whether all messages have the same length.
    pub(crate) fn is_even(&self) -> bool {
        matches!(self.input_spans, Spans::Even { .. })
    }

    /// The bytes of text and of associated data of each message, where all are alike.
    pub(crate) fn alike(&self) -> Option<(usize, usize)> {
        let Spans::Even { len, .. } = self.input_spans else {
            return None;
        };
        match self.aad {
            Aad::None => Some((len, 0)),
            Aad::Shared(bytes) => Some((len, bytes.len())),
            Aad::Each { .. } => None,
        }
    }

    /// Whether results replace their input.
    pub(crate) fn is_in_place(&self) -> bool {
        self.input == self.output.cast_const()
    }

    pub(crate) fn tag_len(&self) -> usize {
        self.tag_len
    }

    pub(crate) fn text_len(&self, index: usize) -> usize {
        self.input_spans.get(index).len
    }

    pub(crate) fn aad_len(&self, index: usize) -> usize {
        match self.aad {
            Aad::None => 0,
            Aad::Shared(bytes) => bytes.len(),
            Aad::Each { spans, .. } => spans.get(index).len,
        }
    }

    #[inline(always)]
    pub(crate) fn message(&self, index: usize) -> Message<'a> {
        let from = self.input_spans.get(index);
        let to = self.output_spans.get(index);
        // SAFETY: the checks in `new` found both spans inside their buffers.
        let (input, output) = unsafe { (self.input.add(from.offset), self.output.add(to.offset)) };
        let tag = match self.tags {
            // SAFETY: the checks in `new` found the text and the tag behind it in the buffer.
            TagPlace::Appended if self.info.algorithm.is_aead() => unsafe {
                match self.direction {
                    Direction::Encrypt => output.add(to.len),
                    Direction::Decrypt => input.add(from.len).cast_mut(),
                }
            },
            TagPlace::Appended => output,
            // SAFETY: the checks in `new` found `tag_len` bytes for each message.
            TagPlace::Apart(tags) => unsafe { tags.add(index * self.tag_len) },
            // SAFETY: as above; a job that opens only reads them.
            TagPlace::Given(tags) => unsafe { tags.add(index * self.tag_len).cast_mut() },
        };
        let iv = match self.ivs {
            Ivs::None => Iv::Bytes(&[]),
            Ivs::Each(bytes) => Iv::Bytes(&bytes[index * self.iv_len..][..self.iv_len]),
            Ivs::Ragged { bytes, spans } => Iv::Bytes(slice(bytes, spans.get(index))),
            Ivs::Sectors { first } => Iv::Sector(first.wrapping_add(index as u128).to_le_bytes()),
        };
        let aad = match self.aad {
            Aad::None => &[],
            Aad::Shared(bytes) => bytes,
            Aad::Each { bytes, spans } => slice(bytes, spans.get(index)),
        };
        Message {
            input,
            output,
            len: from.len,
            iv,
            aad,
            tag,
        }
    }

    /// The keys and the text of some messages, if each is one block under a key of its own and
    /// they follow each other without gaps: the pointers are valid for 16 bytes a message.
    pub(crate) fn single_blocks(
        &self,
        messages: Range<usize>,
    ) -> Option<(&'a [u8], *const u8, *mut u8)> {
        let gapless = |spans: &Spans<'_>| {
            matches!(
                spans,
                Spans::Even {
                    len: 16,
                    stride: 16,
                    ..
                }
            )
        };
        let Keys::Each { bytes, algorithm } = self.keys else {
            return None;
        };
        if messages.is_empty() || !gapless(&self.input_spans) || !gapless(&self.output_spans) {
            return None;
        }
        let Message { input, output, .. } = self.message(messages.start);
        let len = algorithm.key_len();
        Some((
            &bytes[messages.start * len..messages.end * len],
            input,
            output,
        ))
    }

    /// Checks a batch; the only way to a job.
    #[inline(always)]
    pub(crate) fn new(batch: Batch<'a>) -> Result<Self, Error> {
        let Batch {
            direction,
            keys,
            text,
            ivs,
            aad,
            tags,
            tag_len,
        } = batch;
        let algorithm = keys.algorithm().ok_or_else(|| {
            Error::Batch("the batch has an empty table of keys: give it at least one".to_owned())
        })?;
        let info = algorithm.info();
        let aead = algorithm.is_aead();

        let (input, input_len, output, output_len, input_spans, output_spans, in_place) = match text
        {
            Text::InPlace { buffer, spans } => {
                let (pointer, len) = (buffer.as_mut_ptr(), buffer.len());
                (pointer.cast_const(), len, pointer, len, spans, spans, true)
            }
            Text::Apart {
                input,
                input_spans,
                output,
                output_spans,
            } => {
                let (to, to_len) = (output.as_mut_ptr(), output.len());
                (
                    input.as_ptr(),
                    input.len(),
                    to,
                    to_len,
                    input_spans,
                    output_spans,
                    false,
                )
            }
        };
        let count = input_spans.count();

        check_keys(&keys, count)?;
        check_tag_len(info, direction, tag_len)?;
        if !in_place {
            same_lengths(&input_spans, &output_spans)?;
        }
        each(&input_spans, |index, span| {
            if info.accepts_text_len(span.len as u64) {
                return Ok(());
            }
            let (name, rule) = (info.name, info.text_rule());
            Err(Error::Message {
                index,
                problem: format!("{name} needs a text of {rule}, not {} bytes", span.len),
            })
        })?;

        let appended = if aead && matches!(tags, Tags::Appended) {
            tag_len
        } else {
            0
        };
        let (tag_in, tag_out) = match direction {
            Direction::Encrypt => (0, appended),
            Direction::Decrypt => (appended, 0),
        };
        inside(&input_spans, tag_in, input_len, "the input")?;
        inside(&output_spans, tag_out, output_len, "the output")?;
        // In place, a message's tag must survive its neighbours also when it is only read.
        disjoint(&output_spans, if in_place { appended } else { tag_out })?;

        let tags = match tags {
            Tags::Appended => TagPlace::Appended,
            _ if !aead => {
                return Err(Error::Batch(format!(
                    "{} makes no tags: leave the tags away",
                    info.name
                )));
            }
            Tags::Apart(array) => {
                check_array(array.len(), count, tag_len, "tags")?;
                TagPlace::Apart(array.as_mut_ptr())
            }
            Tags::Given(_) if direction == Direction::Encrypt => {
                return Err(Error::Batch(
                    "sealing writes tags: give it a mutable array, not tags to compare".to_owned(),
                ));
            }
            Tags::Given(array) => {
                check_array(array.len(), count, tag_len, "tags")?;
                TagPlace::Given(array.as_ptr())
            }
        };

        check_ivs(info, &ivs, count)?;
        match aad {
            Aad::None => {}
            _ if !aead => {
                return Err(Error::Batch(format!(
                    "{} takes no associated data: it would not be authenticated",
                    info.name
                )));
            }
            Aad::Shared(_) => {}
            Aad::Each { bytes, spans } => {
                same_count(spans.count(), count, "spans of associated data")?;
                inside(&spans, 0, bytes.len(), "the associated data")?;
            }
        }
        let iv_len = match ivs {
            Ivs::Each(bytes) => share(bytes, count),
            _ => 0,
        };
        Ok(Job {
            info,
            direction,
            keys,
            input,
            output,
            input_spans,
            output_spans,
            ivs,
            iv_len,
            aad,
            tags,
            tag_len,
            borrows: PhantomData,
        })
    }
}

/// Bytes of each of `count` messages' IVs. One message is worth a special case: a division takes
/// as long as encrypting three blocks.
#[inline]
fn share(bytes: &[u8], count: usize) -> usize {
    match count {
        1 => bytes.len(),
        _ => bytes.len().checked_div(count).unwrap_or(0),
    }
}

fn slice(bytes: &[u8], span: Span) -> &[u8] {
    &bytes[span.offset..][..span.len]
}

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

pub(crate) fn check_keys(keys: &Keys<'_>, count: usize) -> Result<(), Error> {
    match keys {
        Keys::One(_) => Ok(()),
        Keys::Each { algorithm, bytes } => {
            check_array(bytes.len(), count, algorithm.key_len(), "keys")
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

pub(crate) fn check_tag_len(info: &Info, direction: Direction, len: usize) -> Result<(), Error> {
    if info.accepts_tag_len(direction, len) || !info.algorithm.is_aead() {
        return Ok(());
    }
    Err(Error::Batch(format!(
        "a tag of {len} bytes is not allowed: {}",
        info.tag_rule()
    )))
}

fn check_ivs(info: &Info, ivs: &Ivs<'_>, count: usize) -> Result<(), Error> {
    let wrong = |index, found: usize| Error::Message {
        index,
        problem: format!("{} needs {}, not {found} bytes", info.name, info.iv_rule()),
    };
    match ivs {
        Ivs::None if info.accepts_iv_len(0) || count == 0 => Ok(()),
        Ivs::None => Err(wrong(0, 0)),
        Ivs::Each(bytes) => {
            let len = share(bytes, count);
            check_array(bytes.len(), count, len, "IVs")?;
            if count == 0 || info.accepts_iv_len(len) {
                Ok(())
            } else {
                Err(wrong(0, len))
            }
        }
        Ivs::Ragged { bytes, spans } => {
            same_count(spans.count(), count, "spans of IVs")?;
            inside(spans, 0, bytes.len(), "the IVs")?;
            each(spans, |index, span| {
                if info.accepts_iv_len(span.len) {
                    Ok(())
                } else {
                    Err(wrong(index, span.len))
                }
            })
        }
        Ivs::Sectors { .. } if info.mode == crate::Mode::Xts => Ok(()),
        Ivs::Sectors { .. } => Err(Error::Batch(format!(
            "{} has no sectors: only XTS numbers them",
            info.name
        ))),
    }
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
            format!(" and a tag of {extra} bytes")
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
