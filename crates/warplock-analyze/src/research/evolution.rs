//! The genetic algorithm that optimises a generator.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::generator::{Generator, Operation};
use crate::correlation::{Correlation, Direction};
use crate::data::Plane;
use crate::difference::Difference;
use crate::entropy::{Entropy, entropy_term};
use crate::random::Random;
use crate::tables::Tables;
use crate::test::Test;
use crate::threads::in_threads;

/// Generators of a generation.
const POPULATION: usize = 48;
/// The best of a generation that stay as they are.
const ELITE: usize = 4;
/// The best of the last generation, of which one is the result.
const FINALISTS: usize = 8;
/// Keys for which each generator is measured in a generation.
const SAMPLES: u64 = 6;
/// Edge of the square picture that a pad is measured as.
const EDGE: usize = 64;
/// Bounds each result, so that none outweighs all others.
pub(super) const WORST: f64 = 1e4;
/// Bytes of a pad that is measured.
const PAD: usize = EDGE * EDGE;

/// The result of an evolution, as it stands in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evolved {
    /// "not secure: for study".
    pub note: String,
    /// The generator.
    pub generator: Generator,
    /// The seed of the evolution.
    pub seed: u64,
    /// Its generations.
    pub generations: u32,
    /// [`cost`] of the generator, for keys that took no part in the evolution.
    pub cost: f64,
    /// The cost of the best generator of each generation.
    pub history: Vec<f64>,
}

/// Statistics of a fitness.
pub(super) const SCORES: usize = 6;

/// A key and an IV, and the key with one bit changed.
pub(super) struct Sample {
    pub(super) key: [u8; 16],
    pub(super) iv: [u8; 16],
    pub(super) other: [u8; 16],
}

/// Draws samples.
pub(super) fn samples(count: u64, seed: u64) -> Vec<Sample> {
    let mut random = Random::new(seed);
    let mut draw = || {
        let (mut key, mut iv) = ([0; 16], [0; 16]);
        random.fill(&mut key);
        random.fill(&mut iv);
        let bit = random.below(128);
        let mut other = key;
        other[bit / 8] ^= 1 << (bit % 8);
        Sample { key, iv, other }
    };
    (0..count).map(|_| draw()).collect()
}

/// The fitness of a generator (lower is better): the mean square of the distance from what is
/// expected, in standard deviations, of five statistics: histogram, entropy, correlation of
/// neighbours (horizontal and vertical), NPCR and UACI (after one bit of the key was changed), for
/// pads of 64 x 64 bytes. Random data has 1.
pub fn cost(generator: &Generator, keys: u64, seed: u64) -> f64 {
    let reference = Reference::get();
    let scores = samples(keys, seed).into_iter().flat_map(|sample| {
        let [mut pad, mut other] = [[0; PAD]; 2];
        generator.apply(&sample.key, &sample.iv, &mut pad);
        generator.apply(&sample.other, &sample.iv, &mut other);
        reference.scores(&pad, &other)
    });
    mean(scores)
}

/// The mean of the scores.
pub(super) fn mean(scores: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = scores.fold((0.0, 0u32), |(sum, count), score| (sum + score, count + 1));
    sum / f64::from(count)
}

/// What random data has, for pads of this size.
pub(super) struct Reference {
    pub(super) expected: [f64; SCORES],
    pub(super) deviation: [f64; SCORES],
    /// By a byte's count, its term in the entropy.
    pub(super) terms: Vec<f64>,
}

impl Reference {
    pub(super) fn get() -> &'static Self {
        static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
            // Neither depends on the data.
            let tests = statistics(&[0; PAD], &[0; PAD]);
            let of = |number: fn(&Test) -> f64| [0, 1, 2, 3, 4, 5].map(|test| number(&tests[test]));
            Reference {
                expected: of(|test| test.expected),
                deviation: of(|test| test.deviation),
                terms: (0..=PAD as u64)
                    .map(|count| entropy_term(count, PAD as f64))
                    .collect(),
            }
        });
        &REFERENCE
    }

    /// The squares of the distances from what is expected. The same floating-point operations in the
    /// same order as in `kernels/research.cu`.
    fn scores(&self, pad: &[u8], other: &[u8]) -> [f64; SCORES] {
        let plane = Plane::rows(pad, EDGE);
        let tables = Tables::of(&plane, NonZeroUsize::MIN);
        let difference = Difference::of(pad, other).expect("both have the same length");
        let counts = tables.histogram.counts.iter();
        let entropy: f64 = counts.map(|&count| self.terms[count as usize]).sum();
        let correlation = |direction| {
            let found = Correlation::of(&plane, &tables, direction);
            let coefficient = found.and_then(|found| found.coefficient);
            coefficient.unwrap_or(f64::NAN)
        };
        let values = [
            tables.histogram.chi_square(),
            (-entropy / PAD as f64).max(0.0),
            100.0 * difference.npcr().value(),
            100.0 * difference.uaci().value(),
            correlation(Direction::Horizontal),
            correlation(Direction::Vertical),
        ];
        let each = [0, 1, 2, 3, 4, 5];
        each.map(|test| {
            let z = (values[test] - self.expected[test]) / self.deviation[test];
            // Undefined for constant pads.
            if z.is_nan() {
                WORST
            } else {
                (z * z).min(WORST)
            }
        })
    }
}

/// The same six statistics as results.
fn statistics(pad: &[u8], other: &[u8]) -> Vec<Test> {
    let plane = Plane::rows(pad, EDGE);
    let tables = Tables::of(&plane, NonZeroUsize::MIN);
    let difference = Difference::of(pad, other).expect("both have the same length");
    let mut tests = vec![
        tables.histogram.test(),
        Entropy::of(&tables.histogram).test(),
        difference.npcr().test(),
        difference.uaci().test(),
    ];
    for direction in [Direction::Horizontal, Direction::Vertical] {
        let found = Correlation::of(&plane, &tables, direction);
        tests.extend(found.map(|found| found.test()));
    }
    tests
}

/// What measures generators: threads, or a GPU.
pub(super) trait Measure {
    type Error;

    /// The [`cost`] of each generator.
    fn costs(
        &self,
        generators: &[Generator],
        keys: u64,
        seed: u64,
    ) -> Result<Vec<f64>, Self::Error>;
}

struct Threads(NonZeroUsize);

impl Measure for Threads {
    type Error = Infallible;

    fn costs(
        &self,
        generators: &[Generator],
        keys: u64,
        seed: u64,
    ) -> Result<Vec<f64>, Infallible> {
        let share = generators.len().div_ceil(self.0.get());
        let costs = in_threads(generators.chunks(share), |part| {
            let costs = part.iter().map(|one| cost(one, keys, seed));
            costs.collect::<Vec<_>>()
        });
        Ok(costs.concat())
    }
}

/// Optimises: tournaments of two choose parents, whose operations are mixed and sometimes changed. The
/// same seed gives the same generator, with any number of threads.
pub fn evolve(seed: u64, generations: u32, threads: NonZeroUsize) -> Evolved {
    let Ok(evolved) = evolve_with(&Threads(threads), seed, generations);
    evolved
}

pub(super) fn evolve_with<M: Measure>(
    measure: &M,
    seed: u64,
    generations: u32,
) -> Result<Evolved, M::Error> {
    let mut random = Random::new(seed);
    let mut population: Vec<_> = (0..POPULATION)
        .map(|_| Generator::draw(&mut random))
        .collect();
    let mut history = Vec::new();
    for _ in 0..generations {
        // Other keys each time, so that no generator is good for some keys alone.
        let ranked = rank(measure, &population, random.next_u64())?;
        history.push(ranked[0].0);
        population = ranked[..ELITE].iter().map(|&(_, one)| one).collect();
        while population.len() < POPULATION {
            // In a sorted list the smaller index is the better one.
            let mut parent = || ranked[random.below(POPULATION).min(random.below(POPULATION))].1;
            let (mother, father) = (parent(), parent());
            population.push(child(&mother, &father, &mut random));
        }
    }
    let ranked = rank(measure, &population, random.next_u64())?;
    // Few keys do not show every weakness: the best few meet more of them.
    let finalists: Vec<_> = ranked[..FINALISTS].iter().map(|&(_, one)| one).collect();
    let costs = measure.costs(&finalists, 5 * SAMPLES, random.next_u64())?;
    let finalists = costs.into_iter().zip(finalists);
    let best = finalists.min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, generator) = best.expect("there are finalists");
    let costs = measure.costs(&[generator], 40, random.next_u64())?;
    Ok(Evolved {
        note: "not secure: for study".to_owned(),
        generator,
        seed,
        generations,
        cost: costs[0],
        history,
    })
}

/// Each generator with its cost, the best first.
fn rank<M: Measure>(
    measure: &M,
    population: &[Generator],
    seed: u64,
) -> Result<Vec<(f64, Generator)>, M::Error> {
    let costs = measure.costs(population, SAMPLES, seed)?;
    // Less than random data has is luck, not merit.
    let costs = costs.into_iter().map(|cost| cost.max(1.0));
    let mut ranked: Vec<_> = costs.zip(population.iter().copied()).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(ranked)
}

fn child(mother: &Generator, father: &Generator, random: &mut Random) -> Generator {
    let mut child = *mother;
    for (place, operation) in child.operations.iter_mut().enumerate() {
        *operation = match random.below(16) {
            0..7 => mother.operations[place],
            7..14 => father.operations[place],
            _ => Operation::draw(random),
        };
    }
    child
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_the_results() {
        let mut random = Random::new(1);
        for number in 0..40 {
            let generator = Generator::draw(&mut random);
            let sample = &samples(1, number)[0];
            let [mut pad, mut other] = [[number as u8; PAD]; 2];
            // The first few are constant.
            if number > 3 {
                generator.apply(&sample.key, &sample.iv, &mut pad);
                generator.apply(&sample.other, &sample.iv, &mut other);
            }
            let scores = Reference::get().scores(&pad, &other);
            for (score, test) in scores.into_iter().zip(statistics(&pad, &other)) {
                let z = (test.value - test.expected) / test.deviation;
                let expected = if z.is_nan() {
                    WORST
                } else {
                    (z * z).min(WORST)
                };
                assert_eq!(score, expected, "{test:?}");
            }
        }
    }
}
