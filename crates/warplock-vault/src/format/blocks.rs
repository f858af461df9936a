//! Runs of blocks: sealed into ciphertext of the same length and a [`Seal`] each, and opened again.

use std::cell::RefCell;

use warplock::{Aad, Batch, Ivs, Key, Keys, Spans, Tags, Text};

use crate::error::Result;
use crate::format::keys::Engines;
use crate::format::layout::{Layout, NONCE_LEN, TAG_LEN};
use crate::format::seals::Seal;

/// Bytes of a block's associated data: its number, big-endian.
const AAD_LEN: usize = 8;

/// Nonces, tags and associated data of the batch that a thread is about to run.
#[derive(Default)]
struct Lists {
    nonces: Vec<u8>,
    tags: Vec<u8>,
    aads: Vec<u8>,
}

thread_local! {
    static LISTS: RefCell<Lists> = RefCell::default();
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

fn even<'a>(count: usize, len: usize) -> Spans<'a> {
    Spans::Even {
        count,
        len,
        stride: len,
    }
}

/// Seals `plain`, blocks from `first` on, the last of which may be shorter, under fresh random
/// nonces into `out`, which is as long; returns each block's seal.
pub(crate) fn seal(
    engines: &Engines,
    key: &Key,
    layout: Layout,
    first: u64,
    plain: &[u8],
    out: &mut [u8],
) -> Result<Vec<Seal>> {
    debug_assert_eq!(plain.len(), out.len());
    let block = layout.block();
    let (whole, tail) = (plain.len() / block, plain.len() % block);
    let count = whole + usize::from(tail > 0);
    LISTS.with_borrow_mut(|lists| {
        lists.nonces.resize(count * NONCE_LEN, 0);
        lists.tags.resize(count * TAG_LEN, 0);
        number_aads(&mut lists.aads, first, count);
        // Whole blocks are one batch, a shorter one at the end is another.
        for (from, to, len) in [(0, whole, block), (whole, count, tail)] {
            if from == to {
                continue;
            }
            let bytes = from * block..from * block + (to - from) * len;
            let text = Text::Apart {
                input: &plain[bytes.clone()],
                input_spans: even(to - from, len),
                output: &mut out[bytes.clone()],
                output_spans: even(to - from, len),
            };
            engines.for_len(bytes.len()).run(
                Batch::seal(Keys::One(key), text)
                    .ivs(Ivs::Random(
                        &mut lists.nonces[from * NONCE_LEN..to * NONCE_LEN],
                    ))
                    .aad(each_aad(
                        &lists.aads[from * AAD_LEN..to * AAD_LEN],
                        to - from,
                    ))
                    .tags(Tags::Apart(&mut lists.tags[from * TAG_LEN..to * TAG_LEN])),
            )?;
        }
        let nonces = lists.nonces.chunks_exact(NONCE_LEN);
        let tags = lists.tags.chunks_exact(TAG_LEN);
        Ok(nonces
            .zip(tags)
            .map(|(nonce, tag)| Seal::new(nonce, tag))
            .collect())
    })
}

/// Opens `run`, the ciphertext of blocks from `first` on, in place; blocks without a seal become
/// zeros. Returns the index of the first block whose seal does not fit; then all of `run` must be
/// discarded.
pub(crate) fn open(
    engines: &Engines,
    key: &Key,
    layout: Layout,
    first: u64,
    seals: &[Seal],
    run: &mut [u8],
) -> Result<Option<usize>> {
    let block = layout.block();
    debug_assert_eq!(run.len().div_ceil(block), seals.len());
    let mut start = 0;
    while start < seals.len() {
        let whole = run.len() / block;
        let mut end = start + 1;
        if seals[start].is_none() {
            let bytes = start * block..(end * block).min(run.len());
            run[bytes].fill(0);
            start = end;
            continue;
        }
        while end < whole && !seals[end].is_none() {
            end += 1;
        }
        let bytes = start * block..(end * block).min(run.len());
        let number = first + start as u64;
        let failed = open_sealed(engines, key, number, &seals[start..end], &mut run[bytes])?;
        if let Some(index) = failed {
            return Ok(Some(start + index));
        }
        start = end;
    }
    Ok(None)
}

/// Opens blocks of equal length that all have a seal. Returns the index of the first that failed.
fn open_sealed(
    engines: &Engines,
    key: &Key,
    first: u64,
    seals: &[Seal],
    run: &mut [u8],
) -> Result<Option<usize>> {
    let (count, bytes) = (seals.len(), run.len());
    let opened = LISTS.with_borrow_mut(|lists| {
        lists.nonces.clear();
        lists.tags.clear();
        for seal in seals {
            lists.nonces.extend_from_slice(seal.nonce());
            lists.tags.extend_from_slice(seal.tag());
        }
        number_aads(&mut lists.aads, first, count);
        let text = Text::InPlace {
            buffer: run,
            spans: even(count, bytes / count),
        };
        engines.for_len(bytes).run(
            Batch::open(Keys::One(key), text)
                .ivs(Ivs::Each(&lists.nonces))
                .aad(each_aad(&lists.aads, count))
                .tags(Tags::Given(&lists.tags)),
        )
    });
    match opened {
        Ok(()) => Ok(None),
        Err(warplock::Error::Authentication { failed, .. }) => Ok(Some(failed[0])),
        Err(other) => Err(other.into()),
    }
}
