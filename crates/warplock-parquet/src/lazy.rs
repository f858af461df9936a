//! A plain file whose pages are decrypted when they are read.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use warplock::{Aad, Batch, Engine, Ivs, Keys, Span, Spans, Text};
use zeroize::Zeroizing;

use crate::decrypt::{Options, convert};
use crate::error::{Error, Result};
use crate::keys::KeySource;
use crate::module::{NONCE, counters};
use crate::sheet::{ChunkPages, Sheet};

/// The plain file of an encrypted one, which [`LazyFile::read`] decrypts page by page.
///
/// The footer, the headers of all pages, indexes and bloom filters are verified when it is opened,
/// each page when a part of it is read.
pub struct LazyFile {
    sheet: Sheet,
    /// Where the bytes of each of the sheet's runs begin.
    host_starts: Vec<usize>,
    source_len: usize,
    /// The last page that was read in part: small reads come one after the other.
    last: Mutex<Option<LastPage>>,
}

struct LastPage {
    chunk: usize,
    page: usize,
    bytes: Zeroizing<Vec<u8>>,
}

impl LazyFile {
    /// Opens the encrypted file `source`; keys of all columns are needed.
    ///
    /// # Errors
    /// As [`decrypt`](crate::decrypt()), but for those of pages.
    pub fn open(
        mut source: &[u8],
        keys: &mut dyn KeySource,
        options: &Options,
        engine: &Engine,
    ) -> Result<Self> {
        let source_len = source.len();
        let mut sheet = Sheet::default();
        convert(&mut source, &mut sheet, keys, options, engine)?;
        let host_starts = sheet.runs.iter().scan(0, |at, run| {
            *at += run.len;
            Some(*at - run.len)
        });
        Ok(LazyFile {
            host_starts: host_starts.collect(),
            sheet,
            source_len,
            last: Mutex::default(),
        })
    }

    /// Bytes of the plain file.
    pub fn len(&self) -> u64 {
        self.sheet.len as u64
    }

    /// Never: a plain file without rows has a footer.
    pub fn is_empty(&self) -> bool {
        self.sheet.len == 0
    }

    /// Reads at `offset`, as much as fits into `output` and is there; returns how much. `source` is
    /// the file that was opened.
    ///
    /// # Errors
    /// [`Error::Changed`] and those of the engine; then `output` holds nothing of use.
    pub fn read(
        &self,
        source: &[u8],
        offset: u64,
        output: &mut [u8],
        engine: &Engine,
    ) -> Result<usize> {
        if source.len() != self.source_len {
            return Err(Error::NotParquet(
                "its length has changed since the opening",
            ));
        }
        let start = usize::try_from(offset).map_or(self.sheet.len, |at| at.min(self.sheet.len));
        let wanted = start..self.sheet.len.min(start.saturating_add(output.len()));
        let output = &mut output[..wanted.len()];
        let Sheet {
            runs,
            copies,
            chunks,
            host,
            ..
        } = &self.sheet;
        let first = runs.partition_point(|run| run.offset + run.len <= wanted.start);
        for (run, from) in runs.iter().zip(&self.host_starts).skip(first) {
            let Some((inside, to)) = shared(run.offset, run.len, &wanted) else {
                break;
            };
            let len = to.len();
            output[to].copy_from_slice(&host[from + inside..][..len]);
        }
        let first = copies.partition_point(|(from, to)| to + from.len <= wanted.start);
        for (from, to) in &copies[first..] {
            match shared(*to, from.len, &wanted) {
                Some((inside, to)) => {
                    let len = to.len();
                    output[to].copy_from_slice(&source[from.offset + inside..][..len]);
                }
                None if *to >= wanted.end => break,
                None => {}
            }
        }
        let first = chunks.partition_point(|chunk| end(chunk) <= wanted.start);
        for (number, chunk) in chunks.iter().enumerate().skip(first) {
            if chunk.to[0] >= wanted.end {
                break;
            }
            self.pages(number, chunk, &wanted, source, output, engine)?;
        }
        Ok(wanted.len())
    }

    /// Writes what is wanted of a chunk's pages.
    fn pages(
        &self,
        number: usize,
        chunk: &ChunkPages,
        wanted: &Range<usize>,
        source: &[u8],
        output: &mut [u8],
        engine: &Engine,
    ) -> Result<()> {
        let first = chunk.to.partition_point(|to| *to < wanted.start);
        let rest = chunk.to.iter().zip(&chunk.texts).skip(first);
        let whole = rest.take_while(|(to, text)| *to + text.len <= wanted.end);
        let after = first + whole.count();
        let places: Vec<_> = (first..after)
            .map(|page| Span {
                offset: chunk.to[page] - wanted.start,
                len: chunk.texts[page].len,
            })
            .collect();
        open(chunk, first, &places, source, output, engine)?;
        // At most one at either end.
        for page in [first.wrapping_sub(1), after] {
            let Some(text) = chunk.texts.get(page) else {
                continue;
            };
            let Some((inside, to)) = shared(chunk.to[page], text.len, wanted) else {
                continue;
            };
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let is_last = |last: &LastPage| (last.chunk, last.page) == (number, page);
            if !last.as_ref().is_some_and(is_last) {
                let mut bytes = Zeroizing::new(vec![0; text.len]);
                let place = Span {
                    offset: 0,
                    len: text.len,
                };
                open(chunk, page, &[place], source, &mut bytes, engine)?;
                *last = Some(LastPage {
                    chunk: number,
                    page,
                    bytes,
                });
            }
            if let Some(last) = &*last {
                let len = to.len();
                output[to].copy_from_slice(&last.bytes[inside..][..len]);
            }
        }
        Ok(())
    }
}

fn end(chunk: &ChunkPages) -> usize {
    let last = chunk.texts.len() - 1;
    chunk.to[last] + chunk.texts[last].len
}

/// What `to..to + len` and `wanted` share: where it begins in the first, and its place in the second.
fn shared(to: usize, len: usize, wanted: &Range<usize>) -> Option<(usize, Range<usize>)> {
    let (from, end) = (to.max(wanted.start), (to + len).min(wanted.end));
    (from < end).then(|| (from - to, from - wanted.start..end - wanted.start))
}

/// Opens pages of a chunk from number `first` on to these places, in one batch.
fn open(
    chunk: &ChunkPages,
    first: usize,
    places: &[Span],
    source: &[u8],
    output: &mut [u8],
    engine: &Engine,
) -> Result<()> {
    let pages = first..first + places.len();
    let texts = &chunk.texts[pages.clone()];
    let nonces = texts.iter().map(|text| Span {
        offset: text.offset - NONCE,
        len: NONCE,
    });
    let text = Text::Apart {
        input: source,
        input_spans: Spans::Ragged(texts),
        output,
        output_spans: Spans::Ragged(places),
    };
    if let Some(key) = &chunk.key.ctr {
        let nonces = nonces.map(|nonce| &source[nonce.offset..][..nonce.len]);
        let ivs = counters(nonces);
        return Ok(engine.run(Batch::decrypt(Keys::One(key), text).ivs(Ivs::Each(&ivs)))?);
    }
    let nonces: Vec<_> = nonces.collect();
    let ivs = Ivs::Ragged {
        bytes: source,
        spans: Spans::Ragged(&nonces),
    };
    let aad = Aad::Each {
        bytes: &chunk.aad,
        spans: Spans::Ragged(&chunk.aad_spans[pages]),
    };
    let batch = Batch::open(Keys::One(&chunk.key.gcm), text)
        .ivs(ivs)
        .aad(aad);
    match engine.run(batch) {
        Err(warplock::Error::Authentication { failed, .. }) => {
            Err(Error::Changed(chunk.place(first + failed[0])))
        }
        other => Ok(other?),
    }
}
