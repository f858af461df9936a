//! Distributions of the statistics under the hypothesis that all bytes are random.

use statrs::function::erf::{erfc, erfc_inv};
use statrs::function::gamma::{gamma_lr, gamma_ur};

/// P(X >= x) for chi-square.
pub(crate) fn chi_square_upper(x: f64, freedom: f64) -> f64 {
    match x > 0.0 {
        // Far out the continued fraction ends in 0 * infinity.
        true if x > 1000.0 * freedom => 0.0,
        true => gamma_ur(freedom / 2.0, x / 2.0),
        false => 1.0,
    }
}

/// P(X <= x) for chi-square.
pub(crate) fn chi_square_lower(x: f64, freedom: f64) -> f64 {
    match x > 0.0 {
        true if x > 1000.0 * freedom => 1.0,
        true => gamma_lr(freedom / 2.0, x / 2.0),
        false => 0.0,
    }
}

/// The x with P(X >= x) = `p`, by bisection.
pub(crate) fn chi_square_critical(p: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, freedom + 40.0 * (2.0 * freedom).sqrt() + 40.0);
    // A double has 53 bits.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match chi_square_upper(middle, freedom) > p {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

/// P(|Z| >= |z|) for the normal distribution.
pub(crate) fn normal_two_sided(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// P(Z <= z) for the normal distribution.
pub(crate) fn normal_lower(z: f64) -> f64 {
    erfc(-z / std::f64::consts::SQRT_2) / 2.0
}

/// The z with P(|Z| >= z) = `p`.
pub(crate) fn normal_critical(p: f64) -> f64 {
    std::f64::consts::SQRT_2 * erfc_inv(p)
}

/// The probabilities of a discrete distribution, without those below 10^-300 of the largest, and
/// scaled to a sum of 1. No logarithm of a large factorial takes part, which would cost digits.
pub(crate) struct Discrete {
    first: u64,
    probabilities: Vec<f64>,
}

impl Discrete {
    /// Of successes in `n` trials with probability `p` each, 0 < `p` < 1.
    pub(crate) fn binomial(n: u64, p: f64) -> Self {
        let odds = p / (1.0 - p);
        let mode = (((n + 1) as f64 * p) as u64).min(n);
        Discrete::around(mode, n, |k| (n - k) as f64 * odds / (k + 1) as f64)
    }

    /// The Poisson distribution with mean `mean`.
    pub(crate) fn poisson(mean: f64) -> Self {
        Discrete::around(mean as u64, u64::MAX, |k| mean / (k + 1) as f64)
    }

    /// `ratio(k)` is P(k + 1) / P(k); no value is above `max`.
    fn around(mode: u64, max: u64, ratio: impl Fn(u64) -> f64) -> Self {
        const SMALLEST: f64 = 1e-300;
        let mut probabilities = Vec::new();
        let (mut first, mut weight) = (mode, 1.0);
        while first > 0 && weight > SMALLEST {
            first -= 1;
            weight /= ratio(first);
            probabilities.push(weight);
        }
        probabilities.reverse();
        probabilities.push(1.0);
        let (mut k, mut weight) = (mode, 1.0);
        while k < max && weight > SMALLEST {
            weight *= ratio(k);
            k += 1;
            probabilities.push(weight);
        }
        let sum: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|value| *value /= sum);
        Discrete {
            first,
            probabilities,
        }
    }

    /// Each value with its probability.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, f64)> {
        (self.first..).zip(self.probabilities.iter().copied())
    }

    /// P(X >= k).
    pub(crate) fn upper(&self, k: u64) -> f64 {
        let skip = k.saturating_sub(self.first).min(usize::MAX as u64) as usize;
        // Small ones first.
        let tail = self.probabilities.iter().skip(skip).rev();
        (0.0 + tail.sum::<f64>()).min(1.0)
    }

    /// The largest k with P(X >= k) >= `alpha`.
    pub(crate) fn upper_critical(&self, alpha: f64) -> u64 {
        let mut sum = 0.0;
        for (index, p) in self.probabilities.iter().enumerate().rev() {
            sum += p;
            if sum >= alpha {
                return self.first + index as u64;
            }
        }
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_tables() {
        for (p, expected) in [(0.05, 293.248), (0.01, 310.457), (0.001, 330.520)] {
            assert!((chi_square_critical(p, 255.0) - expected).abs() < 5e-4);
        }
        for (p, expected) in [(0.05, 1.959964), (0.01, 2.575829), (0.001, 3.290527)] {
            assert!((normal_critical(p) - expected).abs() < 5e-7);
        }
    }

    #[test]
    fn extreme_values_give_probabilities_of_0_and_1() {
        for x in [1e5, 1e9, 1e300, f64::INFINITY] {
            assert_eq!(chi_square_upper(x, 255.0), 0.0);
            assert_eq!(chi_square_lower(x, 255.0), 1.0);
        }
        assert_eq!(chi_square_upper(0.0, 255.0), 1.0);
        assert_eq!(normal_two_sided(f64::INFINITY), 0.0);
        assert_eq!(normal_two_sided(0.0), 1.0);
    }

    #[test]
    fn binomial_tails_are_those_of_the_definition() {
        let binomial = Discrete::binomial(10, 0.5);
        assert!((binomial.upper(8) - 56.0 / 1024.0).abs() < 1e-15);
        assert_eq!(binomial.upper(0), 1.0);
        assert_eq!(binomial.upper(11), 0.0);
        // P(X >= 8) = 0.0547, P(X >= 9) = 0.0107.
        assert_eq!(binomial.upper_critical(0.05), 8);
        let large = Discrete::binomial(1 << 30, 1.0 / 256.0);
        let mean: f64 = large.iter().map(|(k, p)| k as f64 * p).sum();
        assert!((mean / (1 << 22) as f64 - 1.0).abs() < 1e-12);
    }
}
