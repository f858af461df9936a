//! One pass over the bytes: counts, and sums of products of neighbours.

use std::num::NonZeroUsize;
use std::ops::Range;

use crate::correlation::Direction;
use crate::data::Plane;
use crate::histogram::Histogram;
use crate::threads::in_threads;

/// Bytes that stay in the L1 cache while every table takes them. A sum of as
/// many products fits 32 bits.
const CHUNK: usize = 16 << 10;

/// What one pass over a channel counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// How often each byte occurs.
    pub histogram: Histogram,
    /// Sums over all bytes of the byte times the one `lag` places later; for the lags of
    /// [`Direction::ALL`].
    pub(crate) products: [u64; 3],
}

impl Tables {
    /// Reads the channel with `threads` threads.
    pub fn of(plane: &Plane<'_>, threads: NonZeroUsize) -> Self {
        let bytes = plane.as_bytes();
        let lags = Direction::ALL.map(|direction| direction.lag(plane.grid()));
        let pieces = bytes.len().div_ceil(CHUNK);
        let share = pieces.div_ceil(threads.get()) * CHUNK;
        if share >= bytes.len() {
            return part(bytes, 0..bytes.len(), lags);
        }
        let starts = (0..bytes.len()).step_by(share);
        let ranges = starts.map(|start| start..(start + share).min(bytes.len()));
        let parts = in_threads(ranges, |range| part(bytes, range, lags));
        let sum = parts.into_iter().reduce(Tables::plus);
        sum.expect("there is a part")
    }

    fn plus(mut self, other: Tables) -> Tables {
        let counts = self.histogram.counts.iter_mut();
        counts
            .zip(other.histogram.counts)
            .for_each(|(sum, count)| *sum += count);
        let products = self.products.iter_mut();
        products
            .zip(other.products)
            .for_each(|(sum, product)| *sum += product);
        self
    }
}

fn part(bytes: &[u8], range: Range<usize>, lags: [Option<usize>; 3]) -> Tables {
    let mut counts = [0; 256];
    let mut products = [0; 3];
    for start in range.clone().step_by(CHUNK) {
        let chunk = start..(start + CHUNK).min(range.end);
        count(&bytes[chunk.clone()], &mut counts);
        for (sum, lag) in products.iter_mut().zip(lags) {
            *sum += lag.map_or(0, |lag| chunk_products(bytes, chunk.clone(), lag));
        }
    }
    let histogram = Histogram { counts };
    Tables {
        histogram,
        products,
    }
}

/// How often each byte occurs.
pub(crate) fn histogram(bytes: &[u8]) -> [u64; 256] {
    let mut counts = [0; 256];
    for chunk in bytes.chunks(CHUNK) {
        count(chunk, &mut counts);
    }
    counts
}

/// The sum over all bytes of the byte times the one `lag` places later.
pub(crate) fn lagged_products(bytes: &[u8], lag: usize) -> u64 {
    let chunks = (0..bytes.len()).step_by(CHUNK);
    chunks
        .map(|start| chunk_products(bytes, start..(start + CHUNK).min(bytes.len()), lag))
        .sum()
}

fn chunk_products(bytes: &[u8], chunk: Range<usize>, lag: usize) -> u64 {
    let Some(last) = bytes.len().checked_sub(lag) else {
        return 0;
    };
    let end = chunk.end.min(last);
    if chunk.start >= end {
        return 0;
    }
    let later = &bytes[chunk.start + lag..end + lag];
    u64::from(products(&bytes[chunk.start..end], later))
}

/// Adds the counts of at most [`CHUNK`] bytes.
///
/// Equal bytes in a row would wait for each other's count to be stored: they go to different tables.
fn count(chunk: &[u8], counts: &mut [u64; 256]) {
    let mut tables = [[0u32; 256]; 4];
    let [a, b, c, d] = &mut tables;
    let mut words = chunk.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("a word has 8 bytes"));
        let byte = |place: u32| (word >> (8 * place)) as u8 as usize;
        a[byte(0)] += 1;
        b[byte(1)] += 1;
        c[byte(2)] += 1;
        d[byte(3)] += 1;
        a[byte(4)] += 1;
        b[byte(5)] += 1;
        c[byte(6)] += 1;
        d[byte(7)] += 1;
    }
    for &byte in words.remainder() {
        a[byte as usize] += 1;
    }
    for (value, sum) in counts.iter_mut().enumerate() {
        let all: u32 = tables.iter().map(|table| table[value]).sum();
        *sum += u64::from(all);
    }
}

/// The scalar product of at most [`CHUNK`] bytes.
fn products(a: &[u8], b: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { products_avx2(a, b) };
    }
    products_portable(a, b)
}

/// The compiler makes this one of 256-bit multiplications.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn products_avx2(a: &[u8], b: &[u8]) -> u32 {
    products_portable(a, b)
}

#[inline(always)]
fn products_portable(a: &[u8], b: &[u8]) -> u32 {
    let pairs = a.iter().zip(b);
    pairs.map(|(&a, &b)| u32::from(a) * u32::from(b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn one_pass_counts_what_the_definition_does() {
        // Around chunks and words, and rows that are no multiple of either.
        for (len, width) in [
            (1, 1),
            (7, 7),
            (600, 30),
            (CHUNK, 128),
            (3 * CHUNK + 60, 36),
        ] {
            let mut bytes = vec![0; len];
            Random::new(len as u64).fill(&mut bytes);
            let plane = Plane::rows(&bytes, width);
            let mut counts = [0; 256];
            bytes.iter().for_each(|&byte| counts[byte as usize] += 1);
            for threads in [1, 2, 3] {
                let threads = NonZeroUsize::new(threads).unwrap();
                let tables = Tables::of(&plane, threads);
                assert_eq!(tables.histogram.counts, counts);
                for (direction, product) in Direction::ALL.into_iter().zip(tables.products) {
                    let Some(lag) = direction.lag(plane.grid()) else {
                        assert_eq!(product, 0);
                        continue;
                    };
                    let pairs = bytes.iter().zip(bytes.iter().skip(lag));
                    let sum: u64 = pairs.map(|(&a, &b)| u64::from(a) * u64::from(b)).sum();
                    assert_eq!(product, sum, "{len} {width} {direction:?}");
                    assert_eq!(lagged_products(&bytes, lag), sum);
                }
            }
        }
        let largest = vec![255; 2 * CHUNK];
        let sum = 255 * 255 * (largest.len() as u64 - 1);
        assert_eq!(lagged_products(&largest, 1), sum);
    }
}
