//! Two ciphertexts of one size: NPCR, UACI, changed bits.

use crate::data::Error;
use crate::distribution::{Discrete, normal_lower, normal_two_sided};
use crate::test::{Bounds, Test, judgement, shown_p};

/// What one pass over two channels counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Bytes of each.
    pub len: u64,
    /// Places where the bytes differ.
    pub differing: u64,
    /// The sum of the absolute differences.
    pub distance: u64,
    /// Bits that differ.
    pub bits: u64,
    /// The first place where they differ.
    pub first: Option<u64>,
}

/// Number of pixels change rate: the share of differing bytes (Wu, Noonan, Agaian, 2011).
#[derive(Clone, Copy, Debug)]
pub struct Npcr {
    /// Bytes of each.
    pub len: u64,
    /// Places where the bytes differ.
    pub differing: u64,
}

/// Unified average changing intensity: the mean absolute difference, over 255.
#[derive(Clone, Copy, Debug)]
pub struct Uaci {
    /// Bytes of each.
    pub len: u64,
    /// The sum of the absolute differences.
    pub distance: u64,
}

/// The share of differing bits: the avalanche effect.
#[derive(Clone, Copy, Debug)]
pub struct BitChange {
    /// Bytes of each.
    pub len: u64,
    /// Bits that differ.
    pub bits: u64,
}

impl Difference {
    /// Of two samples of one length.
    ///
    /// # Errors
    /// [`Error::Unequal`].
    pub fn of(left: &[u8], right: &[u8]) -> Result<Self, Error> {
        if left.len() != right.len() {
            return Err(Error::Unequal {
                left: left.len(),
                right: right.len(),
            });
        }
        let mut difference = Difference {
            len: left.len() as u64,
            differing: 0,
            distance: 0,
            bits: 0,
            first: (left.iter().zip(right))
                .position(|(a, b)| a != b)
                .map(|place| place as u64),
        };
        // A sum over this number of bytes fits 32 bits.
        const CHUNK: usize = 16 << 10;
        for (left, right) in left.chunks(CHUNK).zip(right.chunks(CHUNK)) {
            let pairs = || left.iter().zip(right);
            let differing: u32 = pairs().map(|(a, b)| u32::from(a != b)).sum();
            let distance: u32 = pairs().map(|(&a, &b)| u32::from(a.abs_diff(b))).sum();
            let bits: u32 = pairs().map(|(a, b)| (a ^ b).count_ones()).sum();
            difference.differing += u64::from(differing);
            difference.distance += u64::from(distance);
            difference.bits += u64::from(bits);
        }
        Ok(difference)
    }

    /// The share of differing bytes.
    pub fn npcr(&self) -> Npcr {
        Npcr {
            len: self.len,
            differing: self.differing,
        }
    }

    /// The mean absolute difference.
    pub fn uaci(&self) -> Uaci {
        Uaci {
            len: self.len,
            distance: self.distance,
        }
    }

    /// The share of differing bits.
    pub fn bit_change(&self) -> BitChange {
        BitChange {
            len: self.len,
            bits: self.bits,
        }
    }

    /// NPCR, UACI and changed bits; nothing for empty samples.
    pub fn tests(&self) -> Vec<Test> {
        match self.len {
            0 => Vec::new(),
            _ => vec![
                self.npcr().test(),
                self.uaci().test(),
                self.bit_change().test(),
            ],
        }
    }
}

impl Npcr {
    /// The share, from 0 to 1.
    pub fn value(&self) -> f64 {
        self.differing as f64 / self.len as f64
    }

    fn equal(&self) -> Discrete {
        Discrete::binomial(self.len, 1.0 / 256.0)
    }

    /// The chance that in random data at most as many bytes differ, exact.
    pub fn p_value(&self) -> f64 {
        self.equal().upper(self.len - self.differing)
    }

    /// Whether too few bytes differ.
    pub fn test(&self) -> Test {
        let len = self.len as f64;
        let equal = self.equal();
        let p = equal.upper(self.len - self.differing);
        Test {
            name: "npcr",
            title: "NPCR, %",
            value: 100.0 * self.value(),
            expected: 100.0 * 255.0 / 256.0,
            deviation: 100.0 * (255.0 / len).sqrt() / 256.0,
            bounds: Bounds::at_levels(|level| {
                let most = equal.upper_critical(level) as f64;
                (Some(100.0 * (1.0 - most / len)), None)
            }),
            p_value: p,
            is_continuous: false,
            sentence: format!(
                "{:.4} % of the bytes differ, where 99.6094 % are expected ({}): {}.",
                100.0 * self.value(),
                shown_p(p),
                judgement(p)
            ),
        }
    }
}

impl Uaci {
    /// The mean difference over 255, from 0 to 1.
    pub fn value(&self) -> f64 {
        self.distance as f64 / (255.0 * self.len as f64)
    }

    /// The mean of random data.
    pub const EXPECTED: f64 = 257.0 / 768.0;

    /// The standard deviation for random data.
    pub fn deviation(&self) -> f64 {
        const F: f64 = 255.0;
        let one = (F + 2.0) * (F * F + 2.0 * F + 3.0) / (18.0 * (F + 1.0) * (F + 1.0) * F);
        (one / self.len as f64).sqrt()
    }

    /// The chance that random data is at least as far from the mean.
    pub fn p_value(&self) -> f64 {
        normal_two_sided((self.value() - Uaci::EXPECTED) / self.deviation())
    }

    /// Whether the differences are too small or too large.
    pub fn test(&self) -> Test {
        let p = self.p_value();
        let (expected, deviation) = (100.0 * Uaci::EXPECTED, 100.0 * self.deviation());
        Test {
            name: "uaci",
            title: "UACI, %",
            value: 100.0 * self.value(),
            expected,
            deviation,
            bounds: Bounds::normal(expected, deviation),
            p_value: p,
            is_continuous: true,
            sentence: format!(
                "The mean difference is {:.4} % of 255, where 33.4635 % is expected ({}): {}.",
                100.0 * self.value(),
                shown_p(p),
                judgement(p)
            ),
        }
    }
}

impl BitChange {
    /// The share, from 0 to 1.
    pub fn value(&self) -> f64 {
        self.bits as f64 / (8 * self.len) as f64
    }

    /// The chance that in random data the share is at least as far from a half.
    pub fn p_value(&self) -> f64 {
        // The number of bits has steps of 1: the two tails without half a step each.
        let half = 4.0 * self.len as f64;
        let distance = ((self.bits as f64 - half).abs() - 0.5).max(0.0);
        (2.0 * normal_lower(-distance / (half / 2.0).sqrt())).min(1.0)
    }

    /// Whether too few or too many bits differ.
    pub fn test(&self) -> Test {
        let p = self.p_value();
        let deviation = 100.0 / (32.0 * self.len as f64).sqrt();
        Test {
            name: "bit_change",
            title: "changed bits, %",
            value: 100.0 * self.value(),
            expected: 50.0,
            deviation,
            bounds: Bounds::normal(50.0, deviation),
            p_value: p,
            is_continuous: true,
            sentence: format!(
                "{:.4} % of the bits differ, where 50 % are expected ({}): {}.",
                100.0 * self.value(),
                shown_p(p),
                judgement(p)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wu, Noonan and Agaian's table, whose NPCR is a normal approximation.
    #[test]
    fn critical_values_are_the_published_ones() {
        for (len, npcr, uaci) in [
            (
                1 << 16,
                [99.5693, 99.5527, 99.5341],
                [(33.2824, 33.6447), (33.2255, 33.7016), (33.1594, 33.7677)],
            ),
            (
                1 << 18,
                [99.5893, 99.5810, 99.5717],
                [(33.3730, 33.5541), (33.3445, 33.5826), (33.3115, 33.6156)],
            ),
            (
                1 << 20,
                [99.5994, 99.5952, 99.5906],
                [(33.4183, 33.5088), (33.4040, 33.5231), (33.3875, 33.5396)],
            ),
        ] {
            let difference = Difference {
                len,
                differing: len,
                distance: 0,
                bits: 0,
                first: None,
            };
            let tests = (difference.npcr().test(), difference.uaci().test());
            for level in 0..3 {
                let low = tests.0.bounds[level].low.unwrap();
                // Far out the binomial distribution is skewed.
                assert!((low - npcr[level]).abs() < 0.003, "{len}: {low}");
                let bounds = tests.1.bounds[level];
                assert!(
                    (bounds.low.unwrap() - uaci[level].0).abs() < 6e-5,
                    "{bounds:?}"
                );
                assert!(
                    (bounds.high.unwrap() - uaci[level].1).abs() < 6e-5,
                    "{bounds:?}"
                );
            }
        }
    }

    #[test]
    fn differences_are_counted() {
        let left = [0, 1, 255, 7, 7];
        let right = [0, 2, 0, 7, 6];
        let difference = Difference::of(&left, &right).unwrap();
        assert_eq!(
            difference,
            Difference {
                len: 5,
                differing: 3,
                distance: 257,
                bits: 11,
                first: Some(1),
            }
        );
        assert!(Difference::of(&left, &right[1..]).is_err());
    }
}
