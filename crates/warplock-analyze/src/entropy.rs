//! Shannon entropy of bytes, whole and of blocks.

use std::f64::consts::LN_2;

use crate::data::{Grid, Plane};
use crate::distribution::{Discrete, chi_square_critical, chi_square_upper, normal_two_sided};
use crate::histogram::Histogram;
use crate::random::Random;
use crate::tables::histogram;
use crate::test::{Bounds, Test, judgement, shown_p};

/// Above this length the series for mean and variance is exact to ten digits.
const LONG: u64 = 1 << 22;

/// The entropy of bytes, in bits per byte.
#[derive(Clone, Copy, Debug)]
pub struct Entropy {
    /// The entropy of the frequencies.
    pub bits: f64,
    /// What random data of this length has on average: less than 8.
    pub expected: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

impl Entropy {
    /// Of the bytes that were counted; at least one.
    pub fn of(histogram: &Histogram) -> Self {
        let n = histogram.len();
        let (expected, deviation) = moments(n);
        Entropy {
            bits: bits(histogram),
            expected,
            deviation,
        }
    }

    /// The chance that the entropy of random data is at most this.
    pub fn p_value(&self) -> f64 {
        let (scale, freedom) = self.gap();
        chi_square_upper((8.0 - self.bits) / scale, freedom)
    }

    /// The difference to 8 bits is chi-square times a scale: the scale and the degrees of freedom.
    /// For long data these are 1 / (2 n ln 2) and 255; both moments are made to fit.
    fn gap(&self) -> (f64, f64) {
        let mean = 8.0 - self.expected;
        let variance = self.deviation * self.deviation;
        (variance / (2.0 * mean), 2.0 * mean * mean / variance)
    }

    /// Whether the entropy is too low.
    pub fn test(&self) -> Test {
        let (scale, freedom) = self.gap();
        let p = self.p_value();
        Test {
            name: "entropy",
            title: "entropy, bits a byte",
            value: self.bits,
            expected: self.expected,
            deviation: self.deviation,
            bounds: Bounds::at_levels(|level| {
                let gap = scale * chi_square_critical(level, freedom);
                (Some(8.0 - gap), None)
            }),
            p_value: p,
            is_continuous: true,
            sentence: format!(
                "Entropy is {:.6} bits a byte, where random data of this size has {:.6} on average \
                 and never 8 ({}): {}.",
                self.bits,
                self.expected,
                shown_p(p),
                judgement(p)
            ),
        }
    }
}

fn bits(histogram: &Histogram) -> f64 {
    let n = histogram.len() as f64;
    let counts = histogram.counts.iter();
    let sum: f64 = counts.map(|&count| entropy_term(count, n)).sum();
    // Not -0.
    (-sum / n).max(0.0)
}

/// What a byte that occurs `count` times among `n` contributes, times -`n`.
pub(crate) fn entropy_term(count: u64, n: f64) -> f64 {
    match count {
        0 => 0.0,
        count => count as f64 * (count as f64 / n).log2(),
    }
}

/// Mean and standard deviation of the entropy of `n` random bytes.
fn moments(n: u64) -> (f64, f64) {
    let len = n as f64;
    if n > LONG {
        // The first two terms of the bias; the variance of chi-square.
        let gap = 255.0 / (2.0 * len * LN_2) * (1.0 + 257.0 / (6.0 * len));
        return (8.0 - gap, 510f64.sqrt() / (2.0 * len * LN_2));
    }
    let term = |count: u64| match count {
        0 => 0.0,
        count => -(count as f64 / len) * (count as f64 / len).log2(),
    };
    // The counts depend on each other, but the mean of a sum does not.
    let one = Discrete::binomial(n, 1.0 / 256.0);
    let mean = 256.0 * one.iter().map(|(k, p)| p * term(k)).sum::<f64>();
    // The counts are independent Poisson variables under the condition that their sum is n: what a
    // linear function of the count explains does not vary.
    let rate = len / 256.0;
    let poisson = Discrete::poisson(rate);
    let average: f64 = poisson.iter().map(|(k, p)| p * term(k)).sum();
    let (mut variance, mut covariance) = (0.0, 0.0);
    for (k, p) in poisson.iter() {
        let difference = term(k) - average;
        variance += p * difference * difference;
        covariance += p * difference * (k as f64 - rate);
    }
    let rest = variance - covariance * covariance / rate;
    // One of 256 degrees of freedom is the sum's.
    (mean, (255.0 * rest.max(0.0)).sqrt())
}

/// The mean entropy of blocks chosen at random, which shows unevenness that the whole hides (Wu and
/// others, 2013): 30 blocks of 1,936 bytes, of a large image squares of 44 by 44 pixels.
#[derive(Clone, Copy, Debug)]
pub struct LocalEntropy {
    /// The mean of the blocks.
    pub bits: f64,
    /// The mean for random data.
    pub expected: f64,
    /// The standard deviation of a mean of 30 for random data.
    pub deviation: f64,
}

impl LocalEntropy {
    /// Blocks.
    pub const BLOCKS: usize = 30;
    /// Pixels along a block's edge.
    pub const EDGE: usize = 44;
    /// Bytes of a block.
    const LEN: usize = LocalEntropy::EDGE * LocalEntropy::EDGE;

    /// Of blocks that `seed` chooses from a grid of squares, or where there are fewer than 30 of
    /// these, from runs of 1,936 bytes; `None` if there are fewer than 30 runs.
    pub fn of(plane: &Plane<'_>, seed: u64) -> Option<Self> {
        let places = LocalEntropy::places(plane.grid(), seed)?;
        let bytes = plane.as_bytes();
        let bytes: Vec<_> = places.iter().map(|&place| bytes[place]).collect();
        Some(LocalEntropy::from_bytes(&bytes))
    }

    /// The places of the bytes of these blocks.
    pub(crate) fn places(grid: Grid, seed: u64) -> Option<Vec<usize>> {
        let Grid { len, width } = grid;
        let columns = width / LocalEntropy::EDGE;
        let squares = columns * (grid.height() / LocalEntropy::EDGE);
        let is_square = squares >= LocalEntropy::BLOCKS;
        let blocks = match is_square {
            true => squares,
            false => len / LocalEntropy::LEN,
        };
        if blocks < LocalEntropy::BLOCKS {
            return None;
        }
        // A block as rows of EDGE bytes.
        let (columns, pitch) = match is_square {
            true => (columns, width),
            false => (1, LocalEntropy::EDGE),
        };
        let mut numbers: Vec<usize> = (0..blocks).collect();
        let mut random = Random::new(seed);
        let mut places = Vec::with_capacity(LocalEntropy::BLOCKS * LocalEntropy::LEN);
        for chosen in 0..LocalEntropy::BLOCKS {
            numbers.swap(chosen, chosen + random.below(blocks - chosen));
            let (row, column) = (numbers[chosen] / columns, numbers[chosen] % columns);
            let start = LocalEntropy::EDGE * (row * pitch + column);
            let rows = (0..LocalEntropy::EDGE).map(|row| start + row * pitch);
            places.extend(rows.flat_map(|start| start..start + LocalEntropy::EDGE));
        }
        Some(places)
    }

    /// From the bytes of the blocks, one after the other.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let blocks = bytes.chunks_exact(LocalEntropy::LEN).map(|block| {
            bits(&Histogram {
                counts: histogram(block),
            })
        });
        let sum: f64 = blocks.sum();
        let (expected, deviation) = moments(LocalEntropy::LEN as u64);
        LocalEntropy {
            bits: sum / LocalEntropy::BLOCKS as f64,
            expected,
            deviation: deviation / (LocalEntropy::BLOCKS as f64).sqrt(),
        }
    }

    /// The chance that random data is at least as far off, to either side.
    pub fn p_value(&self) -> f64 {
        normal_two_sided((self.bits - self.expected) / self.deviation)
    }

    /// Whether the mean is too low or too high.
    pub fn test(&self) -> Test {
        let p = self.p_value();
        Test {
            name: "local_entropy",
            title: "local entropy, 30 blocks",
            value: self.bits,
            expected: self.expected,
            deviation: self.deviation,
            bounds: Bounds::normal(self.expected, self.deviation),
            p_value: p,
            is_continuous: true,
            sentence: format!(
                "The mean entropy of 30 blocks of 1,936 bytes is {:.6}, where {:.6} is expected \
                 ({}): {}.",
                self.bits,
                self.expected,
                shown_p(p),
                judgement(p)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_simulated_data() {
        // Published for blocks of 1,936 bytes; the deviation is of 1.2 million simulated blocks.
        let (mean, deviation) = moments(1936);
        assert!((mean - 7.902469317).abs() < 5e-10, "{mean}");
        assert!((deviation - 0.008688).abs() < 1.2e-5, "{deviation}");
        let mut random = Random::new(3);
        for (n, rounds) in [(1280, 6000), (4096, 3000)] {
            let (mean, deviation) = moments(n);
            let mut buffer = vec![0; n as usize];
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..rounds {
                random.fill(&mut buffer);
                let counts = histogram(&buffer);
                let z = (bits(&Histogram { counts }) - mean) / deviation;
                sum += z;
                squares += z * z;
            }
            let rounds = rounds as f64;
            assert!(
                sum.abs() < 3.5 * rounds.sqrt(),
                "{n}: mean {}",
                sum / rounds
            );
            let off = squares / rounds - 1.0;
            assert!(
                off.abs() < 3.5 * (2.0 / rounds).sqrt(),
                "{n}: variance {off}"
            );
        }
    }

    #[test]
    fn the_series_continues_the_sums() {
        let (below, above) = (moments(LONG), moments(LONG + 1));
        assert!((below.0 - above.0).abs() < 1e-10);
        assert!(
            (below.1 / above.1 - 1.0).abs() < 1e-4,
            "{below:?} {above:?}"
        );
    }

    #[test]
    fn critical_values_are_the_published_ones() {
        for (n, expected) in [
            (1 << 16, [7.996772, 7.996583]),
            (1 << 18, [7.999193, 7.999146]),
            (1 << 20, [7.999798, 7.999786]),
        ] {
            let (expected_bits, deviation) = moments(n);
            let entropy = Entropy {
                bits: 8.0,
                expected: expected_bits,
                deviation,
            };
            for (bounds, expected) in entropy.test().bounds.iter().zip(expected) {
                // Published without the correction for short data.
                let low = bounds.low.unwrap();
                assert!((low - expected).abs() < 3e-6, "{n}: {low} {expected}");
            }
        }
    }
}
