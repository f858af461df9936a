//! Balance of bits, and repetition at a distance.

use crate::correlation::lagged_sums;
use crate::distribution::{chi_square_critical, chi_square_upper};
use crate::histogram::Histogram;
use crate::tables::lagged_products;
use crate::test::{Bounds, Test, judgement, shown_p};

/// Whether each of the eight bits of a byte is 1 as often as 0.
#[derive(Clone, Copy, Debug)]
pub struct BitBalance {
    /// Bytes.
    pub bytes: u64,
    /// How often each bit is 1, from the lowest.
    pub ones: [u64; 8],
}

impl BitBalance {
    /// Of the bytes that were counted.
    pub fn of(histogram: &Histogram) -> Self {
        BitBalance {
            bytes: histogram.len(),
            ones: histogram.ones(),
        }
    }

    /// The share of ones among all bits.
    pub fn share(&self) -> f64 {
        self.ones.iter().sum::<u64>() as f64 / (8 * self.bytes) as f64
    }

    /// Chi-square of the eight positions; 8 degrees of freedom.
    pub fn chi_square(&self) -> f64 {
        let half = self.bytes as f64 / 2.0;
        let squares = self.ones.iter().map(|&ones| (ones as f64 - half).powi(2));
        squares.sum::<f64>() / (half / 2.0)
    }

    /// The chance that random data is at least as unbalanced.
    pub fn p_value(&self) -> f64 {
        chi_square_upper(self.chi_square(), 8.0)
    }

    /// Whether a bit is 1 too often or too rarely.
    pub fn test(&self) -> Test {
        let p = self.p_value();
        Test {
            name: "bit_balance",
            title: "bit balance, chi-square",
            value: self.chi_square(),
            expected: 8.0,
            deviation: 4.0,
            bounds: Bounds::at_levels(|level| (None, Some(chi_square_critical(level, 8.0)))),
            p_value: p,
            is_continuous: true,
            sentence: format!(
                "Of all bits {:.4} % are 1; chi-square of the eight positions is {:.2}, where 8 is \
                 expected ({}): {}.",
                100.0 * self.share(),
                self.chi_square(),
                shown_p(p),
                judgement(p)
            ),
        }
    }
}

/// Correlation of bytes at a distance, which shows short periods and repeated keys.
#[derive(Clone, Debug)]
pub struct Autocorrelation {
    /// For each lag in bytes the coefficient; `None` if the bytes are constant.
    pub coefficients: Vec<(usize, Option<f64>)>,
    /// Bytes.
    pub len: usize,
}

impl Autocorrelation {
    /// Of the lags 1 to 32, and powers of two from 64 up to a quarter of the length; `None` for
    /// fewer than 256 bytes.
    pub fn of(bytes: &[u8], histogram: &Histogram) -> Option<Self> {
        let lags = Autocorrelation::lags(bytes.len())?;
        let products: Vec<_> = (lags.iter().map(|&lag| lagged_products(bytes, lag))).collect();
        Some(Autocorrelation::from_products(
            histogram, &lags, &products, bytes, bytes,
        ))
    }

    /// The lags for data of this length.
    pub(crate) fn lags(len: usize) -> Option<Vec<usize>> {
        let powers = (6..17).map(|power| 1 << power);
        let lags = (1..=32).chain(powers.take_while(|lag| *lag <= len / 4));
        (len >= 256).then(|| lags.collect())
    }

    /// From the sum of the products for each lag; `head` and `tail` are the first and the last bytes,
    /// as many as the largest lag or more.
    pub(crate) fn from_products(
        histogram: &Histogram,
        lags: &[usize],
        products: &[u64],
        head: &[u8],
        tail: &[u8],
    ) -> Self {
        let coefficient = |(&lag, &product): (&usize, &u64)| {
            let sums = lagged_sums(&histogram.counts, lag, product, head, tail);
            (lag, sums.coefficient())
        };
        Autocorrelation {
            coefficients: lags.iter().zip(products).map(coefficient).collect(),
            len: histogram.len() as usize,
        }
    }

    /// The sum of the squares, each in units of its variance: chi-square with a degree of freedom
    /// for each lag.
    pub fn chi_square(&self) -> f64 {
        let terms = self.coefficients.iter().map(|&(lag, r)| match r {
            Some(r) => (self.len - lag) as f64 * r * r,
            None => f64::INFINITY,
        });
        terms.sum()
    }

    /// The lag with the strongest correlation, and its coefficient.
    pub fn strongest(&self) -> (usize, f64) {
        let defined = self
            .coefficients
            .iter()
            .filter_map(|&(lag, r)| Some((lag, r?)));
        let score = |(lag, r): (usize, f64)| (self.len - lag) as f64 * r * r;
        defined
            .reduce(|best, one| if score(one) > score(best) { one } else { best })
            .unwrap_or((1, f64::NAN))
    }

    /// The chance that random data is correlated at least as strongly.
    pub fn p_value(&self) -> f64 {
        chi_square_upper(self.chi_square(), self.coefficients.len() as f64)
    }

    /// Whether bytes depend on earlier ones.
    pub fn test(&self) -> Test {
        let freedom = self.coefficients.len() as f64;
        let p = self.p_value();
        let (lag, r) = self.strongest();
        Test {
            name: "autocorrelation",
            title: "autocorrelation, chi-square",
            value: self.chi_square(),
            expected: freedom,
            deviation: (2.0 * freedom).sqrt(),
            bounds: Bounds::at_levels(|level| (None, Some(chi_square_critical(level, freedom)))),
            p_value: p,
            is_continuous: true,
            sentence: format!(
                "Chi-square of {freedom} lags is {:.1}; the strongest correlation is {r:.5}, {lag} \
                 bytes apart ({}): {}.",
                self.chi_square(),
                shown_p(p),
                judgement(p)
            ),
        }
    }
}
