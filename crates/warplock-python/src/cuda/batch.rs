//! A batch in GPU memory, from Python's numbers.

use pyo3::prelude::*;
use warplock::cuda::{
    DeviceAad, DeviceBatch, DeviceIvs, DeviceKeys, DeviceTags, DeviceText, Region,
};
use warplock::{AlgorithmInfo, Direction, Spans};

use super::nonces::{CountedNonces, First, NonceCounter};
use crate::batch::Layout;
use crate::errors;

/// An address in GPU memory, and bytes from there on.
pub(super) type At = (u64, usize);

/// Bytes on the GPU, and where messages lie in them, as [`crate::batch::KeySet::run`] says it.
type Placed<Layout> = (At, Layout);

/// How `warplock.cuda` describes a batch: whether it encrypts; the input; the output, or none for a
/// batch in place; where nonces are or go, their length, and what they are if they are not read
/// there; associated data, all of it for each message if there is no layout; tags, or none if they are
/// appended, and their length.
pub(super) type Parts<'py> = (
    bool,
    Placed<Bound<'py, PyAny>>,
    Option<Placed<Bound<'py, PyAny>>>,
    (Option<At>, usize, Option<Bound<'py, PyAny>>),
    Option<Placed<Option<Bound<'py, PyAny>>>>,
    (Option<At>, usize),
);

/// A batch that owns its layouts.
pub(super) struct Batch {
    info: &'static AlgorithmInfo,
    direction: Direction,
    input: Region,
    layout: Layout,
    output: Option<(Region, Layout)>,
    ivs: Option<Region>,
    iv_len: usize,
    source: Source,
    aad: Option<(Region, Option<Layout>)>,
    tags: Option<Region>,
    tag_len: usize,
}

/// What the nonces are, if they are not read from GPU memory.
enum Source {
    Given,
    Counter(Py<NonceCounter>),
    Counted(Py<CountedNonces>),
    Sectors(u128),
}

/// Memory on the GPU.
///
/// # Safety
/// Its bytes belong to Python's caller, and stay until the work is done.
pub(super) unsafe fn region(py: Python<'_>, (address, len): At) -> PyResult<Region> {
    let end = usize::try_from(address)
        .ok()
        .and_then(|at| at.checked_add(len));
    if end.is_none() || (address == 0 && len > 0) {
        return Err(errors::batch(
            py,
            "an array in GPU memory has no valid address",
        ));
    }
    // SAFETY: by this function's contract.
    Ok(unsafe { Region::new(address, len) })
}

impl Batch {
    /// # Safety
    /// All addresses are of GPU memory that belongs to Python's caller, and stays until the work is
    /// done.
    pub(super) unsafe fn new(
        py: Python<'_>,
        info: &'static AlgorithmInfo,
        parts: &Parts<'_>,
    ) -> PyResult<Self> {
        let (encrypts, (input, layout), output, (ivs, iv_len, source), aad, (tags, tag_len)) =
            parts;
        // SAFETY: by this function's contract.
        let region = |at: &At| unsafe { region(py, *at) };
        let direction = match encrypts {
            true => Direction::Encrypt,
            false => Direction::Decrypt,
        };
        let appended = match tags {
            None if info.algorithm.is_aead() => *tag_len,
            _ => 0,
        };
        let (tag_in, tag_out) = match direction {
            Direction::Encrypt => (0, appended),
            Direction::Decrypt => (appended, 0),
        };
        let output = match output {
            None => None,
            Some((at, layout)) => Some((region(at)?, Layout::of(layout, tag_out)?)),
        };
        let aad = match aad {
            None => None,
            Some((at, None)) => Some((region(at)?, None)),
            Some((at, Some(layout))) => Some((region(at)?, Some(Layout::of(layout, 0)?))),
        };
        let source = match source {
            None => Source::Given,
            Some(source) => match source.cast::<NonceCounter>() {
                Ok(counter) => Source::Counter(counter.clone().unbind()),
                Err(_) => match source.cast::<CountedNonces>() {
                    Ok(counted) => Source::Counted(counted.clone().unbind()),
                    Err(_) => Source::Sectors(source.extract()?),
                },
            },
        };
        Ok(Batch {
            info,
            direction,
            input: region(input)?,
            layout: Layout::of(layout, tag_in)?,
            output,
            ivs: ivs.as_ref().map(region).transpose()?,
            iv_len: *iv_len,
            source,
            aad,
            tags: tags.as_ref().map(region).transpose()?,
            tag_len: *tag_len,
        })
    }

    /// The engine's batch under a key.
    pub(super) fn of<'a>(
        &'a self,
        py: Python<'_>,
        keys: impl Into<DeviceKeys<'a>>,
    ) -> PyResult<DeviceBatch<'a>> {
        let spans = self.layout.spans();
        let text = match &self.output {
            None => DeviceText::InPlace {
                buffer: self.input,
                spans,
            },
            Some((output, layout)) => DeviceText::Apart {
                input: self.input,
                input_spans: spans,
                output: *output,
                output_spans: layout.spans(),
            },
        };
        let missing = || errors::batch(py, "the batch has no place for its nonces");
        let ivs = match &self.source {
            Source::Given => match self.ivs {
                None => DeviceIvs::None,
                Some(bytes) if self.iv_len == self.info.iv_len() => DeviceIvs::Each(bytes),
                Some(bytes) => DeviceIvs::Ragged {
                    bytes,
                    spans: Spans::Even {
                        count: spans.count(),
                        len: self.iv_len,
                        stride: self.iv_len,
                    },
                },
            },
            Source::Counter(counter) => DeviceIvs::Counter {
                counter: counter.get().get(py)?,
                nonces: self.ivs.ok_or_else(missing)?,
            },
            Source::Counted(counted) => {
                let counted = counted.get();
                let base = counted.base();
                match counted.first {
                    First::Xor(first) => DeviceIvs::Xor { base, first },
                    First::Add32(first) => DeviceIvs::Add32 { base, first },
                }
            }
            &Source::Sectors(first) => DeviceIvs::Sectors { first },
        };
        let aad = match &self.aad {
            None => DeviceAad::None,
            Some((bytes, None)) => DeviceAad::Shared(*bytes),
            Some((bytes, Some(layout))) => DeviceAad::Each {
                bytes: *bytes,
                spans: layout.spans(),
            },
        };
        let tags = match self.tags {
            Some(tags) => DeviceTags::Apart(tags),
            None => DeviceTags::Appended,
        };
        let batch = DeviceBatch::new(self.direction, keys, text);
        Ok(batch.ivs(ivs).aad(aad).tags(tags).tag_len(self.tag_len))
    }
}
