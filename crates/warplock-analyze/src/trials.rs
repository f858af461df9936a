//! Results over many trials: how often random data would be flagged as often as this.

use crate::distribution::{Discrete, chi_square_upper};
use crate::test::{LEVELS, Test};

/// The p-values of each statistic over many ciphertexts.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    statistics: Vec<Statistic>,
}

#[derive(Clone, Debug)]
struct Statistic {
    label: String,
    is_continuous: bool,
    values: Vec<f64>,
    p_values: Vec<f64>,
}

/// The summary of one statistic over many trials.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The channel and the statistic's name.
    pub label: String,
    /// Trials.
    pub trials: u64,
    /// The mean of the statistic.
    pub mean: f64,
    /// Its standard deviation over the trials.
    pub deviation: f64,
    /// How many trials have a p-value below each of [`LEVELS`].
    pub flagged: [u64; 3],
    /// The chance that of as many random samples at least as many are flagged, for each level.
    pub p_flagged: [f64; 3],
    /// The chance that p-values of random data are spread at least as unevenly over ten equal
    /// intervals; `None` for fewer than 50 trials and for statistics that count.
    pub p_uniform: Option<f64>,
}

impl Trials {
    /// Adds a result; `label` names the channel or what was changed, and may be empty.
    pub fn add(&mut self, label: &str, test: &Test) {
        let label = match label {
            "" => test.name.to_owned(),
            label => format!("{label} {}", test.name),
        };
        let found = self.statistics.iter().position(|one| one.label == label);
        let place = found.unwrap_or_else(|| {
            self.statistics.push(Statistic {
                label,
                is_continuous: test.is_continuous,
                values: Vec::new(),
                p_values: Vec::new(),
            });
            self.statistics.len() - 1
        });
        self.statistics[place].values.push(test.value);
        self.statistics[place].p_values.push(test.p_value);
    }

    /// One summary for each statistic, in the order in which they came.
    pub fn summaries(&self) -> Vec<Summary> {
        self.statistics.iter().map(Statistic::summary).collect()
    }
}

impl Statistic {
    fn summary(&self) -> Summary {
        let trials = self.p_values.len() as u64;
        let count = trials as f64;
        let mean = self.values.iter().sum::<f64>() / count;
        let squares = self.values.iter().map(|value| (value - mean).powi(2));
        let flagged = LEVELS.map(|level| {
            let below = self.p_values.iter().filter(|&&p| p < level);
            below.count() as u64
        });
        let chance = |place: usize| Discrete::binomial(trials, LEVELS[place]).upper(flagged[place]);
        Summary {
            label: self.label.clone(),
            trials,
            mean,
            deviation: (squares.sum::<f64>() / (count - 1.0).max(1.0)).sqrt(),
            flagged,
            p_flagged: [0, 1, 2].map(chance),
            p_uniform: (self.is_continuous && trials >= 50).then(|| self.uniform()),
        }
    }

    fn uniform(&self) -> f64 {
        let mut counts = [0u32; 10];
        for p in &self.p_values {
            counts[((10.0 * p) as usize).min(9)] += 1;
        }
        let expected = self.p_values.len() as f64 / 10.0;
        let squares = counts
            .iter()
            .map(|&count| (f64::from(count) - expected).powi(2));
        chi_square_upper(squares.sum::<f64>() / expected, 9.0)
    }
}

impl Summary {
    /// The smallest of the chances, times their number: small where any of them is.
    pub fn p_value(&self) -> f64 {
        let chances = self.p_flagged.iter().copied().chain(self.p_uniform);
        let count = chances.clone().count() as f64;
        (count * chances.fold(1.0, f64::min)).min(1.0)
    }

    /// The summary in one sentence.
    pub fn sentence(&self) -> String {
        let Summary {
            label,
            trials,
            flagged,
            ..
        } = self;
        let verdict = match self.p_value() {
            0.01.. => "as of random data",
            0.001.. => "more than of random data in 99 of 100 cases: repeat it",
            _ => {
                "which random data does not do in 999 of 1,000 cases: a flaw, unless what was \
                  measured explains it"
            }
        };
        format!(
            "{label}: {}, {} and {} of {trials} trials are outside the bounds at 5, 1 and 0.1 %, \
             {verdict}.",
            flagged[0], flagged[1], flagged[2]
        )
    }
}
