//! The IVs, associated data and keys of parts of messages: how they are written, and how verdicts
//! are read.

use std::collections::HashMap;

use super::abi::{GcmMessage, Verdict};
use super::acorn;
use super::cut::{Part, Previous};
use crate::job::{Iv, Job};
use crate::{Keys, Mode};

/// Every section of a sheet starts at a multiple of this.
pub(super) const ALIGN: usize = 16;

pub(super) fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

/// Writes a structure at any alignment.
pub(super) fn put<T: Copy>(host: &mut [u8], at: usize, value: T) {
    let place = &mut host[at..at + size_of::<T>()];
    // SAFETY: the place is as long as the value.
    unsafe { place.as_mut_ptr().cast::<T>().write_unaligned(value) };
}

/// What a part starts from: the message's IV, or the preceding ciphertext; empty if that is on the
/// device.
pub(super) fn start_iv<'a>(job: &Job<'a>, part: &Part) -> Iv<'a> {
    match part.previous {
        Previous::Iv => job.message(part.message).iv,
        Previous::Block(block) => Iv::Block(block),
        Previous::Chained(_) => Iv::Bytes(&[]),
    }
}

/// Offsets of associated data. If consecutive messages share it, it is stored once.
#[derive(Default)]
pub(super) struct AadPlaces {
    last: Option<(*const u8, usize, usize)>,
    end: usize,
}

impl AadPlaces {
    /// The offset for one message, and whether it is a new one.
    pub(super) fn place(&mut self, aad: &[u8]) -> (usize, bool) {
        match self.last {
            Some((start, len, place)) if start == aad.as_ptr() && len == aad.len() => {
                (place, false)
            }
            _ => {
                let place = self.end;
                self.end += padded(aad.len());
                self.last = Some((aad.as_ptr(), aad.len(), place));
                (place, true)
            }
        }
    }

    /// Bytes for all messages.
    pub(super) fn all(mut self, job: &Job<'_>, parts: &[Part]) -> usize {
        for part in parts {
            self.place(job.message(part.message).aad);
        }
        self.end
    }
}

/// Numbers the keys of some parts: an owner for each key, and a number for each part.
pub(super) fn number_keys(job: &Job<'_>, parts: &[Part]) -> (Vec<usize>, Vec<u32>) {
    let Keys::Indexed { index, .. } = job.keys() else {
        let owners = parts.iter().map(|part| part.message).collect();
        return (owners, (0..parts.len() as u32).collect());
    };
    let mut owners = Vec::new();
    let mut known = HashMap::new();
    let numbers = parts
        .iter()
        .map(|part| {
            *known.entry(index[part.message]).or_insert_with(|| {
                owners.push(part.message);
                owners.len() as u32 - 1
            })
        })
        .collect();
    (owners, numbers)
}

/// Bytes of a message's structure, for an authenticated algorithm.
pub(crate) fn message_size(mode: Mode) -> usize {
    match mode {
        Mode::Acorn => size_of::<acorn::Message>(),
        _ => size_of::<GcmMessage>(),
    }
}

/// The offset of the first verdict in the results, and the distance to the next.
pub(crate) fn verdict(mode: Mode) -> (usize, usize) {
    match mode {
        Mode::Acorn => (0, size_of::<Verdict>()),
        _ => (
            std::mem::offset_of!(GcmMessage, failed),
            size_of::<GcmMessage>(),
        ),
    }
}

/// Whether the message at `index` of the results was refused.
pub(crate) fn was_refused(mode: Mode, results: &[u8], index: usize) -> bool {
    let (first, stride) = verdict(mode);
    let at = first + index * stride;
    results[at..at + 4] != [0; 4]
}
