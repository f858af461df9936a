//! The common form of all results.

/// The levels of significance for which bounds are given.
pub const LEVELS: [f64; 3] = [0.05, 0.01, 0.001];

/// The bounds of a statistic at one level. A side that cannot be exceeded, or does not count as a
/// flaw, is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The chance that random data lies outside.
    pub level: f64,
    /// The smallest value inside.
    pub low: Option<f64>,
    /// The largest value inside.
    pub high: Option<f64>,
}

impl Bounds {
    pub(crate) fn at_levels(of: impl Fn(f64) -> (Option<f64>, Option<f64>)) -> [Bounds; 3] {
        LEVELS.map(|level| {
            let (low, high) = of(level);
            Bounds { level, low, high }
        })
    }

    /// `expected` plus and minus the critical multiple of `deviation`.
    pub(crate) fn normal(expected: f64, deviation: f64) -> [Bounds; 3] {
        Bounds::at_levels(|level| {
            let distance = crate::distribution::normal_critical(level) * deviation;
            (Some(expected - distance), Some(expected + distance))
        })
    }
}

/// The result of one statistical test.
#[derive(Clone, Debug)]
pub struct Test {
    /// The statistic, for programs: `entropy`, `correlation_horizontal`.
    pub name: &'static str,
    /// What is measured, for people.
    pub title: &'static str,
    /// The statistic's value.
    pub value: f64,
    /// What random data has on average.
    pub expected: f64,
    /// Its standard deviation for random data of this size.
    pub deviation: f64,
    /// Bounds at 5, 1 and 0.1 %.
    pub bounds: [Bounds; 3],
    /// The chance that random data is at least as far from what is expected.
    pub p_value: f64,
    /// Whether p-values of random data are spread evenly; those of counts come in steps.
    pub is_continuous: bool,
    /// The result in one sentence.
    pub sentence: String,
}

impl Test {
    /// Whether random data is outside the bounds in fewer than `level` of all cases.
    pub fn is_flagged(&self, level: f64) -> bool {
        self.p_value < level
    }
}

/// What a p-value means, as the second half of a sentence.
pub(crate) fn judgement(p: f64) -> &'static str {
    if p < 0.001 {
        "random data is this far off in fewer than 1 of 1,000 cases: a flaw, unless what was \
         measured explains it"
    } else if p < 0.01 {
        "random data is this far off in fewer than 1 of 100 cases: repeat it with other keys"
    } else if p < 0.05 {
        "random data is this far off in 1 to 5 of 100 cases: repeat it with other keys"
    } else {
        "as random data is"
    }
}

/// A number with four significant digits, and p-values too small for it as a bound.
pub(crate) fn shown_p(p: f64) -> String {
    match p {
        0.0001.. => format!("p = {p:.4}"),
        _ => "p < 0.0001".to_owned(),
    }
}
