//! The checks of a batch in GPU memory: those of [`crate::job::Job`], and that nothing that is
//! written overlaps anything else, which the compiler ensures for host memory.

use super::batch::{DeviceAad, DeviceBatch, DeviceIvs, DeviceKeys, DeviceTags, DeviceText, Region};
use super::counter;
use crate::checks::{
    appended, check_array, check_iv_array, check_iv_len, check_keys, check_places, check_sectors,
    check_tag_len, each, inside, same_count,
};
use crate::nonces;
use crate::{
    Algorithm, AlgorithmInfo, BatchProblem, Direction, Error, Keys, Lack, Mode, Span, Spans,
};

/// A checked batch.
pub(super) struct Checked<'a> {
    pub(super) info: &'static AlgorithmInfo,
    pub(super) direction: Direction,
    pub(super) keys: DeviceKeys<'a>,
    pub(super) input: Region,
    pub(super) input_spans: Spans<'a>,
    pub(super) output: Region,
    pub(super) output_spans: Spans<'a>,
    /// Whether each message is replaced by its result.
    pub(super) in_place: bool,
    pub(super) text_bytes: u64,
    pub(super) ivs: DeviceIvs<'a>,
    pub(super) aad: DeviceAad<'a>,
    pub(super) tags: DeviceTags,
    pub(super) tag_len: usize,
    /// Bytes of the tag after each ciphertext.
    appended: usize,
}

impl<'a> Checked<'a> {
    pub(super) fn new(batch: DeviceBatch<'a>) -> Result<Self, Error> {
        let DeviceBatch {
            direction,
            keys,
            text,
            ivs,
            aad,
            tags,
            tag_len,
        } = batch;
        let info = algorithm(&keys)?.info();
        let aead = info.algorithm.is_aead();
        let (input, input_spans, output, output_spans) = match text {
            DeviceText::InPlace { buffer, spans } => (buffer, spans, buffer, spans),
            DeviceText::Apart {
                input,
                input_spans,
                output,
                output_spans,
            } => (input, input_spans, output, output_spans),
        };
        let in_place = matches!(text, DeviceText::InPlace { .. });
        let count = input_spans.count();
        if u32::try_from(count).is_err() {
            return Err(BatchProblem::TooManyMessages { count }.of_batch());
        }
        match &keys {
            DeviceKeys::Host(keys) => check_keys(direction, keys, count)?,
            DeviceKeys::Each { bytes, .. } => {
                check_array(bytes.len(), count, info.key_len, "keys")?
            }
        }
        check_tag_len(info, direction, tag_len)?;
        let appended = match tags {
            DeviceTags::Appended if aead => tag_len,
            _ => 0,
        };
        let texts = [(&input_spans, input.len()), (&output_spans, output.len())];
        check_places(info, direction, texts, in_place, appended)?;
        match tags {
            DeviceTags::Apart(_) if !aead => return Err(Lack::Tags.of(info.algorithm)),
            DeviceTags::Apart(array) => check_array(array.len(), count, tag_len, "tags")?,
            DeviceTags::Appended => {}
        }
        check_ivs(info, direction, &ivs, count)?;
        check_aad(info, &aad, count)?;
        let checked = Checked {
            info,
            direction,
            keys,
            input,
            input_spans,
            output,
            output_spans,
            in_place,
            text_bytes: input_spans.bytes(),
            ivs,
            aad,
            tags,
            tag_len,
            appended,
        };
        let [written, read] = checked.reaches();
        all_apart(&written, &read)?;
        checked.check_nonces()?;
        Ok(checked)
    }

    pub(super) fn count(&self) -> usize {
        self.input_spans.count()
    }

    /// Bytes of IVs that the engine writes from numbers.
    pub(super) fn own_ivs_len(&self) -> usize {
        match self.ivs {
            DeviceIvs::Sectors { .. } | DeviceIvs::Xor { .. } | DeviceIvs::Add32 { .. } => {
                self.info.iv_len() * self.count()
            }
            _ => 0,
        }
    }

    /// Bytes that a launch needs to note which of a counter's numbers it took.
    pub(super) fn counted_len(&self) -> usize {
        match self.ivs {
            DeviceIvs::Counter { .. } => size_of::<u64>(),
            _ => 0,
        }
    }

    /// Whether there is nothing to do: no message, or no text and no tags.
    pub(super) fn is_idle(&self) -> bool {
        let no_text = self.text_bytes == 0 && !self.info.algorithm.is_aead();
        no_text || self.count() == 0
    }

    /// The regions that are written, and those that are only read.
    fn reaches(&self) -> [Vec<Reach<'a>>; 2] {
        let (tag_in, tag_out) = appended(self.direction, self.appended);
        let output = Reach::some("the output", self.output, self.output_spans, tag_out);
        let (mut written, mut read) = (vec![output], Vec::new());
        if !self.in_place {
            read.push(Reach::some(
                "the input",
                self.input,
                self.input_spans,
                tag_in,
            ));
        }
        if let DeviceKeys::Each { bytes, .. } = self.keys {
            read.push(Reach::all("the keys", bytes));
        }
        match self.ivs {
            DeviceIvs::Each(bytes) => read.push(Reach::all("the IVs", bytes)),
            DeviceIvs::Ragged { bytes, spans } => {
                read.push(Reach::some("the IVs", bytes, spans, 0));
            }
            DeviceIvs::Counter { nonces, .. } => written.push(Reach::all("the nonces", nonces)),
            _ => {}
        }
        match self.aad {
            DeviceAad::None => {}
            DeviceAad::Shared(bytes) => read.push(Reach::all("the associated data", bytes)),
            DeviceAad::Each { bytes, spans } => {
                read.push(Reach::some("the associated data", bytes, spans, 0));
            }
        }
        if let DeviceTags::Apart(tags) = self.tags {
            let to = match self.direction {
                Direction::Encrypt => &mut written,
                Direction::Decrypt => &mut read,
            };
            to.push(Reach::all("the tags", tags));
        }
        [written, read]
    }

    /// Refuses regions that overlap each other or one of the batch's.
    pub(super) fn check_apart(&self, regions: &[(&'static str, Region)]) -> Result<(), Error> {
        let mut others: Vec<_> = self.reaches().into_iter().flatten().collect();
        for other in &mut others {
            other.spans = None;
        }
        let reach = |&(name, region)| Reach::all(name, region);
        let own: Vec<_> = regions.iter().map(reach).collect();
        all_apart(&own, &others)
    }
}

/// What is written must overlap nothing else that is read or written.
fn all_apart(written: &[Reach<'_>], read: &[Reach<'_>]) -> Result<(), Error> {
    for (place, reach) in written.iter().enumerate() {
        for other in written[place + 1..].iter().chain(read) {
            reach.apart_from(other)?;
        }
    }
    Ok(())
}

/// The bytes of a region that a batch reads or writes.
struct Reach<'a> {
    name: &'static str,
    region: Region,
    /// Only these spans, and this many bytes after each; none: all of the region.
    spans: Option<(Spans<'a>, usize)>,
}

impl<'a> Reach<'a> {
    fn all(name: &'static str, region: Region) -> Self {
        Reach {
            name,
            region,
            spans: None,
        }
    }

    fn some(name: &'static str, region: Region, spans: Spans<'a>, more: usize) -> Self {
        Reach {
            name,
            region,
            spans: Some((spans, more)),
        }
    }

    /// Adds the ranges of addresses, with `mark`.
    fn list(&self, ranges: &mut Vec<(u64, u64, bool)>, mark: bool) {
        let start = self.region.address();
        let mut add = |offset: usize, len: usize| {
            if len > 0 {
                let start = start + offset as u64;
                ranges.push((start, start + len as u64, mark));
            }
        };
        match self.spans {
            None => add(0, self.region.len()),
            Some((spans, more)) => (0..spans.count()).for_each(|index| {
                let Span { offset, len } = spans.get(index);
                add(offset, len + more);
            }),
        }
    }

    fn apart_from(&self, other: &Reach<'_>) -> Result<(), Error> {
        if !self.region.overlaps(&other.region) {
            return Ok(());
        }
        // Such as a nonce, a text and a tag side by side in one buffer.
        let mut ranges = Vec::new();
        self.list(&mut ranges, true);
        other.list(&mut ranges, false);
        ranges.sort_unstable();
        // The furthest end so far, of ranges of each kind.
        let mut ends = [0; 2];
        for (start, end, mark) in ranges {
            if start < ends[usize::from(!mark)] {
                return Err(BatchProblem::RegionsOverlap {
                    first: self.name,
                    second: other.name,
                }
                .of_batch());
            }
            let reached = &mut ends[usize::from(mark)];
            *reached = end.max(*reached);
        }
        Ok(())
    }
}

impl Checked<'_> {
    /// The host cannot see nonces in GPU memory, but two that lie at the same place are equal.
    fn check_nonces(&self) -> Result<(), Error> {
        let DeviceIvs::Ragged { spans, .. } = self.ivs else {
            return Ok(());
        };
        let number = match self.keys {
            DeviceKeys::Host(Keys::One(_)) => None,
            DeviceKeys::Host(Keys::Indexed { index, .. }) => Some(index),
            // Distinct keys.
            DeviceKeys::Host(Keys::Each { .. }) | DeviceKeys::Each { .. } => return Ok(()),
        };
        if !nonces::must_differ(self.info.mode, self.direction) {
            return Ok(());
        }
        let place = |message: usize| {
            let Span { offset, len } = spans.get(message);
            let key = number.map_or(0, |numbers| numbers[message]);
            // CTR uses no counter for an empty text.
            let idle = self.info.mode == Mode::Ctr && self.input_spans.get(message).len == 0;
            (key, offset, len, idle.then_some(message))
        };
        let hash = |message: usize| {
            let (key, offset, ..) = place(message);
            nonces::hash(key, &offset.to_le_bytes())
        };
        match nonces::repeated((0..self.count()).map(hash).collect(), place) {
            None => Ok(()),
            Some((first, second)) => Err(Error::NonceReuse {
                first,
                second,
                what: "the same place for their nonce",
            }),
        }
    }
}

fn algorithm(keys: &DeviceKeys<'_>) -> Result<Algorithm, Error> {
    let known = match keys {
        DeviceKeys::Host(keys) => keys.algorithm(),
        DeviceKeys::Each { algorithm, .. } => Some(*algorithm),
    };
    known.ok_or_else(|| BatchProblem::NoKeys.of_batch())
}

fn check_ivs(
    info: &AlgorithmInfo,
    direction: Direction,
    ivs: &DeviceIvs<'_>,
    count: usize,
) -> Result<(), Error> {
    match ivs {
        _ if count == 0 => Ok(()),
        DeviceIvs::None => check_iv_len(info, 0, 0),
        DeviceIvs::Each(bytes) => check_iv_array(info, bytes.len(), count),
        DeviceIvs::Ragged { bytes, spans } => {
            same_count(spans.count(), count, "spans of IVs")?;
            inside(spans, 0, bytes.len(), "the IVs")?;
            each(spans, |index, span| check_iv_len(info, index, span.len))
        }
        DeviceIvs::Sectors { .. } => check_sectors(info),
        DeviceIvs::Counter { .. } if direction == Direction::Decrypt => {
            Err(BatchProblem::NewNonces.of_batch())
        }
        DeviceIvs::Counter { counter, nonces } => {
            counter.check(info)?;
            check_iv_array(info, nonces.len(), count)
        }
        DeviceIvs::Xor { base, first } => counter::check_base(info, base, *first, count),
        DeviceIvs::Add32 { base, .. } => counter::check_base(info, base, 0, count),
    }
}

fn check_aad(info: &AlgorithmInfo, aad: &DeviceAad<'_>, count: usize) -> Result<(), Error> {
    match aad {
        DeviceAad::None => Ok(()),
        _ if !info.algorithm.is_aead() => Err(Lack::AssociatedData.of(info.algorithm)),
        DeviceAad::Shared(_) => Ok(()),
        DeviceAad::Each { bytes, spans } => {
            same_count(spans.count(), count, "spans of associated data")?;
            inside(spans, 0, bytes.len(), "the associated data")
        }
    }
}
