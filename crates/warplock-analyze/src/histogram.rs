//! How often each byte occurs.

use crate::distribution::{chi_square_critical, chi_square_lower, chi_square_upper};
use crate::test::{Bounds, Test, judgement, shown_p};

/// Values of a byte, less 1.
const FREEDOM: f64 = 255.0;

/// The counts of the 256 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// How often each byte occurs.
    pub counts: [u64; 256],
}

impl Histogram {
    /// Fewest bytes for which the chi-square distribution holds: 5 expected of each value.
    pub const MIN_LEN: u64 = 5 * 256;

    /// Bytes counted.
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pearson's chi-square against equal counts; 255 degrees of freedom.
    pub fn chi_square(&self) -> f64 {
        let n = self.len();
        let expected = n as f64 / 256.0;
        let squares = self.counts.iter().map(|&count| {
            let difference = count as f64 - expected;
            difference * difference
        });
        squares.sum::<f64>() / expected
    }

    /// The chance that random data is at least as uneven.
    pub fn p_value(&self) -> f64 {
        chi_square_upper(self.chi_square(), FREEDOM)
    }

    /// The chance that random data is at least as even.
    pub fn p_even(&self) -> f64 {
        chi_square_lower(self.chi_square(), FREEDOM)
    }

    /// How many bits of the data are 1, for each position from the lowest.
    pub fn ones(&self) -> [u64; 8] {
        let mut ones = [0; 8];
        for (value, &count) in self.counts.iter().enumerate() {
            for (bit, sum) in ones.iter_mut().enumerate() {
                *sum += (value as u64 >> bit & 1) * count;
            }
        }
        ones
    }

    /// Whether some bytes are too frequent.
    pub fn test(&self) -> Test {
        let p = self.p_value();
        self.as_test(
            "histogram",
            "histogram, chi-square",
            p,
            Bounds::at_levels(|level| (None, Some(chi_square_critical(level, FREEDOM)))),
            format!(
                "Chi-square of the 256 counts is {:.1}, where 255 is expected ({}): {}.",
                self.chi_square(),
                shown_p(p),
                judgement(p)
            ),
        )
    }

    /// Whether the counts are more equal than chance makes them, as those of a counter are or of a
    /// generator with a short period.
    pub fn evenness_test(&self) -> Test {
        let p = self.p_even();
        self.as_test(
            "evenness",
            "histogram, too even",
            p,
            Bounds::at_levels(|level| (Some(chi_square_critical(1.0 - level, FREEDOM)), None)),
            format!(
                "The counts are as equal as these in {:.2} % of random data ({}): {}.",
                100.0 * p,
                shown_p(p),
                judgement(p)
            ),
        )
    }

    fn as_test(
        &self,
        name: &'static str,
        title: &'static str,
        p_value: f64,
        bounds: [Bounds; 3],
        sentence: String,
    ) -> Test {
        Test {
            name,
            title,
            value: self.chi_square(),
            expected: FREEDOM,
            deviation: (2.0 * FREEDOM * (1.0 - 1.0 / self.len() as f64)).sqrt(),
            bounds,
            p_value,
            is_continuous: true,
            sentence,
        }
    }
}
