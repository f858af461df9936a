//! One message, as several suites build and run it.

use warplock::{Algorithm, Batch, Direction, Engine, Ivs, Key, Keys, Mode, Tags, Text};

use crate::error::Result;

/// Bytes of a message's IV; those of XTS are tweaks.
pub(crate) fn iv_len(mode: Mode) -> usize {
    match mode {
        Mode::Ecb => 0,
        Mode::Gcm => 12,
        Mode::Cbc | Mode::Ctr | Mode::Xts | Mode::Acorn => 16,
    }
}

/// The length that the algorithm works on for a text of `size` bytes: whole blocks where it takes no
/// others.
pub(crate) fn padded(algorithm: Algorithm, size: usize) -> usize {
    match algorithm.info().mode {
        // What does not fit into a number fits into no memory.
        Mode::Ecb | Mode::Cbc => size.checked_next_multiple_of(16).unwrap_or(usize::MAX),
        Mode::Xts => size.max(16),
        Mode::Ctr | Mode::Gcm | Mode::Acorn => size,
    }
}

/// Runs it; the tags are for authenticated algorithms alone.
pub(crate) fn run(
    engine: &Engine,
    direction: Direction,
    (key, iv): (&Key, &[u8]),
    text: Text<'_>,
    tags: Tags<'_>,
) -> Result<()> {
    let mut batch = Batch::new(direction, Keys::One(key), text);
    if !iv.is_empty() {
        batch = batch.ivs(Ivs::Each(iv));
    }
    if key.algorithm().is_aead() {
        batch = batch.tags(tags);
    }
    Ok(engine.run(batch)?)
}
