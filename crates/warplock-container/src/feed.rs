//! The start of a pipeline: segments of the input, claimed in ascending order by any thread.

use std::io::Read;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::source::{self, ReadAt, Source, read_full};
use crate::workers::lock;

/// A claimed piece of the input, read into a worker's buffer.
pub(crate) struct Segment {
    /// Its place in the order of segments.
    pub(crate) index: u64,
    /// The number of its first chunk.
    pub(crate) first: u64,
    /// Bytes read.
    pub(crate) len: usize,
    /// Whether the stream's last chunk is in it.
    pub(crate) last: bool,
}

/// Where segments are claimed.
pub(crate) enum Feed<'f> {
    Positioned {
        data: Box<dyn ReadAt + 'f>,
        /// Where chunk 0 starts.
        start: u64,
        /// Where the input ends.
        end: u64,
        /// The chunks to work on, and whether the last of them is the stream's last.
        chunks: Range<u64>,
        ends_stream: bool,
        next: AtomicU64,
        chunk_in: u64,
        segment_chunks: u64,
    },
    Sequential {
        state: Mutex<Sequence<'f>>,
        segment_chunks: u64,
    },
}

pub(crate) struct Sequence<'f> {
    reader: Box<dyn Read + Send + 'f>,
    next: u64,
    ended: bool,
}

pub(crate) type Claim = std::result::Result<Option<Segment>, (u64, Error)>;

impl<'f> Feed<'f> {
    /// Segments of `chunks`, and whether the last of those is the stream's last; without them, of all
    /// of the input. A whole chunk has `chunk_in` bytes there.
    pub(crate) fn new(
        source: Source<'f>,
        chunk_in: u64,
        chunks: Option<(Range<u64>, bool)>,
        segment_chunks: usize,
    ) -> Self {
        let segment_chunks = segment_chunks as u64;
        match source.0 {
            source::Kind::Positioned { data, start, end } => {
                let all = || (0..(end - start) / chunk_in + 1, true);
                let (chunks, ends_stream) = chunks.unwrap_or_else(all);
                let next = AtomicU64::new(0);
                Feed::Positioned {
                    data,
                    start,
                    end,
                    chunks,
                    ends_stream,
                    next,
                    chunk_in,
                    segment_chunks,
                }
            }
            source::Kind::Sequential(reader) => Feed::Sequential {
                state: Mutex::new(Sequence {
                    reader,
                    next: 0,
                    ended: false,
                }),
                segment_chunks,
            },
        }
    }

    /// Reads the next segment into `buffer`; `None` when there are no more.
    pub(crate) fn claim(&self, buffer: &mut [u8], cancelled: impl Fn() -> bool) -> Claim {
        match self {
            Feed::Positioned {
                data,
                start,
                end,
                chunks,
                ends_stream,
                next,
                chunk_in,
                segment_chunks,
            } => {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let first = chunks.start + index * segment_chunks;
                if first >= chunks.end {
                    return Ok(None);
                }
                let behind = (first + segment_chunks).min(chunks.end);
                let offset = start + first * chunk_in;
                let len = ((start + behind * chunk_in).min(*end) - offset) as usize;
                let read = |rest: &mut [u8], done| data.read_at(rest, offset + done);
                match read_full(read, &mut buffer[..len], cancelled) {
                    Ok(read) if read == len => {
                        let last = *ends_stream && behind == chunks.end;
                        Ok(Some(Segment {
                            index,
                            first,
                            len,
                            last,
                        }))
                    }
                    Ok(read) => {
                        let (expected, found) = (end - start, offset + read as u64 - start);
                        Err((index, Error::InputShrank { expected, found }))
                    }
                    Err(error) => Err((index, Error::Read(error))),
                }
            }
            Feed::Sequential {
                state,
                segment_chunks,
            } => {
                let mut state = lock(state);
                if state.ended {
                    return Ok(None);
                }
                let index = state.next;
                state.next += 1;
                let read = read_full(|rest, _| state.reader.read(rest), buffer, cancelled);
                // A stream ends with a chunk that is shorter than the others, so a full buffer
                // is never the end, and an empty one is.
                state.ended = !matches!(read, Ok(len) if len == buffer.len());
                let (first, last) = (index * segment_chunks, state.ended);
                match read {
                    Ok(len) => Ok(Some(Segment {
                        index,
                        first,
                        len,
                        last,
                    })),
                    Err(error) => Err((index, Error::Read(error))),
                }
            }
        }
    }
}
