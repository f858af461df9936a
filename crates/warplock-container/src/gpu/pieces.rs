//! A segment's chunks by where their plaintext goes.

use std::ops::Range;

use crate::feed::Segment;
use crate::layout::{CHUNK_LEN, SEALED_CHUNK_LEN, TAG_LEN};

/// Neighbouring chunks of one length that are opened by one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The number of the first.
    pub(crate) first: u64,
    pub(crate) count: usize,
    /// Bytes of plaintext in each.
    pub(crate) len: usize,
    /// Where they begin in the segment.
    pub(crate) offset: usize,
    /// The bytes of the plaintext that are wanted; if not all, it is a single chunk.
    pub(crate) wanted: Range<u64>,
}

impl Piece {
    fn new(segment: &Segment, chunk: usize, count: usize, len: usize, clip: &Range<u64>) -> Self {
        let first = segment.first + chunk as u64;
        let start = first * CHUNK_LEN as u64;
        let end = start + (count * len) as u64;
        let from = clip.start.clamp(start, end);
        Piece {
            first,
            count,
            len,
            offset: chunk * SEALED_CHUNK_LEN,
            wanted: from..clip.end.clamp(from, end),
        }
    }

    /// Bytes in the sealed segment.
    pub(crate) fn sealed_len(&self) -> usize {
        self.count * (self.len + TAG_LEN)
    }

    /// Bytes of plaintext.
    pub(crate) fn plain_len(&self) -> usize {
        self.count * self.len
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.end - self.wanted.start == self.plain_len() as u64
    }
}

/// The pieces of a segment, of which the bytes `clip` of the plaintext are wanted; `None` if its
/// last chunk is not even as long as a tag.
pub(crate) fn pieces(segment: &Segment, clip: &Range<u64>) -> Option<Vec<Piece>> {
    let (whole, rest) = (
        segment.len / SEALED_CHUNK_LEN,
        segment.len % SEALED_CHUNK_LEN,
    );
    let piece = |chunk, count, len| Piece::new(segment, chunk, count, len, clip);
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut to = whole;
    let is_cut = |chunk: usize| !piece(chunk, 1, CHUNK_LEN).is_wanted();
    if from < to && is_cut(from) {
        pieces.push(piece(from, 1, CHUNK_LEN));
        from += 1;
    }
    let cut_end = from < to && is_cut(to - 1);
    to -= usize::from(cut_end);
    if from < to {
        pieces.push(piece(from, to - from, CHUNK_LEN));
    }
    if cut_end {
        pieces.push(piece(to, 1, CHUNK_LEN));
    }
    if segment.last {
        pieces.push(piece(whole, 1, rest.checked_sub(TAG_LEN)?));
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_segment_and_cut_only_single_chunks() {
        const CHUNK: u64 = CHUNK_LEN as u64;
        for whole in 0..4_u64 {
            for tail in [None, Some(0_usize), Some(5)] {
                let len = whole as usize * SEALED_CHUNK_LEN + tail.map_or(0, |tail| tail + TAG_LEN);
                let segment = Segment {
                    index: 0,
                    first: 7,
                    len,
                    last: tail.is_some(),
                };
                let start = 7 * CHUNK;
                let end = start + whole * CHUNK + tail.unwrap_or(0) as u64;
                let edges = [
                    0,
                    1,
                    CHUNK,
                    CHUNK + 1,
                    2 * CHUNK,
                    3 * CHUNK + 2,
                    u64::MAX - start,
                ];
                for from in edges {
                    for to in edges {
                        let clip = start + from..start + to.max(from);
                        // Only chunks with wanted bytes are claimed.
                        let last = start + whole.saturating_sub(1) * CHUNK;
                        if whole > 0 && (from >= CHUNK || clip.end <= last) {
                            continue;
                        }
                        let pieces = pieces(&segment, &clip).unwrap();
                        let (mut offset, mut chunk) = (0, 7);
                        let mut next = clip.start.clamp(start, end);
                        for piece in &pieces {
                            assert_eq!((piece.offset, piece.first), (offset, chunk));
                            assert!(piece.is_wanted() || piece.count == 1);
                            offset += piece.sealed_len();
                            chunk += piece.count as u64;
                            if !piece.wanted.is_empty() {
                                assert_eq!(piece.wanted.start, next);
                                next = piece.wanted.end;
                            }
                        }
                        assert_eq!(offset, len);
                        assert_eq!(next, clip.end.clamp(clip.start.clamp(start, end), end));
                    }
                }
            }
        }
        let cut = Segment {
            index: 0,
            first: 0,
            len: SEALED_CHUNK_LEN + TAG_LEN - 1,
            last: true,
        };
        assert_eq!(pieces(&cut, &(0..1)), None);
    }
}
