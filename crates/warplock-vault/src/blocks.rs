//! Runs of blocks: sealed into slots, opened from slots.

use std::cell::RefCell;

use warplock::{Aad, Batch, Ivs, Key, Keys, Spans, Text};

use crate::error::Result;
use crate::keys::{Engines, fill_random};
use crate::layout::{Layout, NONCE_LEN, OVERHEAD, TAG_LEN};

/// Bytes of a block's associated data: its number, big-endian.
const AAD_LEN: usize = 8;

/// Opening a run failed at this block, counted from the run's start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The tag does not fit.
    Tag(usize),
    /// There is a hole where none may be.
    Hole(usize),
}

/// Nonces and associated data of the batch that a thread is about to run.
#[derive(Default)]
struct Lists {
    nonces: Vec<u8>,
    aads: Vec<u8>,
}

thread_local! {
    static LISTS: RefCell<Lists> = RefCell::default();
}

/// The tag in a slot that holds nothing but one block.
pub(crate) fn tag_of(slot: &[u8]) -> [u8; TAG_LEN] {
    *slot.last_chunk().expect("a slot ends in a tag")
}

/// The slots of a run, the last of which may be shorter.
pub(crate) fn slots(layout: Layout, run: &[u8]) -> impl Iterator<Item = &[u8]> {
    run.chunks(layout.slot())
}

fn is_hole(slot: &[u8]) -> bool {
    slot[..NONCE_LEN] == [0; NONCE_LEN] && slot.iter().all(|byte| *byte == 0)
}

fn number_aads(aads: &mut Vec<u8>, first: u64, count: usize) {
    aads.clear();
    aads.extend((first..first + count as u64).flat_map(u64::to_be_bytes));
}

fn each_aad(aads: &[u8], count: usize) -> Aad<'_> {
    Aad::Each {
        bytes: aads,
        spans: Spans::Even {
            count,
            len: AAD_LEN,
            stride: AAD_LEN,
        },
    }
}

/// Seals `plain`, blocks from `first` on, the last of which may be shorter, under fresh random
/// nonces into `out`, which is exactly as long as their slots.
pub(crate) fn seal(
    engines: &Engines,
    key: &Key,
    layout: Layout,
    first: u64,
    plain: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let (whole, tail) = (plain.len() / layout.block(), plain.len() % layout.block());
    let count = whole + usize::from(tail > 0);
    debug_assert_eq!(out.len(), plain.len() + count * OVERHEAD);
    if count == 0 {
        return Ok(());
    }
    LISTS.with_borrow_mut(|lists| {
        lists.nonces.resize(count * NONCE_LEN, 0);
        fill_random(&mut lists.nonces)?;
        for (slot, nonce) in out
            .chunks_mut(layout.slot())
            .zip(lists.nonces.chunks_exact(NONCE_LEN))
        {
            slot[..NONCE_LEN].copy_from_slice(nonce);
        }
        number_aads(&mut lists.aads, first, count);
        let (whole_in, tail_in) = plain.split_at(whole * layout.block());
        let (whole_out, tail_out) = out.split_at_mut(whole * layout.slot());
        let (whole_nonces, tail_nonce) = lists.nonces.split_at(whole * NONCE_LEN);
        let (whole_aads, tail_aad) = lists.aads.split_at(whole * AAD_LEN);
        if whole > 0 {
            let text = Text::Apart {
                input: whole_in,
                input_spans: plain_spans(layout, whole),
                output: &mut whole_out[NONCE_LEN..],
                output_spans: slot_spans(layout, whole),
            };
            engines.for_len(whole_in.len()).run(
                Batch::seal(Keys::One(key), text)
                    .ivs(Ivs::Each(whole_nonces))
                    .aad(each_aad(whole_aads, whole)),
            )?;
        }
        if tail > 0 {
            let text = Text::Apart {
                input: tail_in,
                input_spans: Spans::one(tail),
                output: &mut tail_out[NONCE_LEN..],
                output_spans: Spans::one(tail),
            };
            engines.for_len(tail).run(
                Batch::seal(Keys::One(key), text)
                    .ivs(Ivs::Each(tail_nonce))
                    .aad(Aad::Shared(tail_aad)),
            )?;
        }
        Ok(())
    })
}

fn plain_spans<'a>(layout: Layout, count: usize) -> Spans<'a> {
    Spans::Even {
        count,
        len: layout.block(),
        stride: layout.block(),
    }
}

/// The ciphertexts in neighbouring slots, counted from the first ciphertext.
fn slot_spans<'a>(layout: Layout, count: usize) -> Spans<'a> {
    Spans::Even {
        count,
        len: layout.block(),
        stride: layout.slot(),
    }
}

/// Opens the slots in `run`, blocks from `first` on, into `out`. Holes become zeros, if they are
/// legal. Inner error: what is wrong with which block; then `out` is to be thrown away.
pub(crate) fn open(
    engines: &Engines,
    key: &Key,
    layout: Layout,
    first: u64,
    run: &[u8],
    out: &mut [u8],
    holes: bool,
) -> Result<std::result::Result<(), Bad>> {
    let count = slots(layout, run).count();
    debug_assert_eq!(run.len(), out.len() + count * OVERHEAD);
    let mut start = 0;
    while start < count {
        let at = |index: usize| &run[index * layout.slot()..][..slot_len(layout, run, index)];
        if is_hole(at(start)) {
            if !holes {
                return Ok(Err(Bad::Hole(start)));
            }
            let end = out.len().min((start + 1) * layout.block());
            out[start * layout.block()..end].fill(0);
            start += 1;
            continue;
        }
        let whole_end = count - usize::from(!run.len().is_multiple_of(layout.slot()));
        let mut end = start + 1;
        while end < whole_end && at(end)[..NONCE_LEN] != [0; NONCE_LEN] {
            end += 1;
        }
        let len = (end - start - 1) * layout.block() + slot_len(layout, run, end - 1) - OVERHEAD;
        let run = &run[start * layout.slot()..][..len + (end - start) * OVERHEAD];
        let out = &mut out[start * layout.block()..][..len];
        if let Some(bad) = open_present(engines, key, layout, first + start as u64, run, out)? {
            return Ok(Err(Bad::Tag(start + bad)));
        }
        start = end;
    }
    Ok(Ok(()))
}

fn slot_len(layout: Layout, run: &[u8], index: usize) -> usize {
    (run.len() - index * layout.slot()).min(layout.slot())
}

/// Opens slots without holes: whole ones, or a single shorter one. Gives the first that failed.
fn open_present(
    engines: &Engines,
    key: &Key,
    layout: Layout,
    first: u64,
    run: &[u8],
    out: &mut [u8],
) -> Result<Option<usize>> {
    let count = slots(layout, run).count();
    let len = out.len() / count;
    let opened = LISTS.with_borrow_mut(|lists| {
        number_aads(&mut lists.aads, first, count);
        let text = Text::Apart {
            input: &run[NONCE_LEN..],
            input_spans: Spans::Even {
                count,
                len,
                stride: layout.slot(),
            },
            output: out,
            output_spans: Spans::Even {
                count,
                len,
                stride: len,
            },
        };
        let nonces = Ivs::Ragged {
            bytes: run,
            spans: Spans::Even {
                count,
                len: NONCE_LEN,
                stride: layout.slot(),
            },
        };
        engines.for_len(run.len()).run(
            Batch::open(Keys::One(key), text)
                .ivs(nonces)
                .aad(each_aad(&lists.aads, count)),
        )
    });
    match opened {
        Ok(()) => Ok(None),
        Err(warplock::Error::Authentication { failed, .. }) => Ok(failed.first().copied()),
        Err(other) => Err(other.into()),
    }
}
