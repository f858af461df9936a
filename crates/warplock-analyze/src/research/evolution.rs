//! The genetic algorithm that optimises a generator.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::generator::{Generator, Operation};
use crate::correlation::{Correlation, Direction};
use crate::data::Plane;
use crate::difference::Difference;
use crate::entropy::Entropy;
use crate::random::Random;
use crate::tables::Tables;
use crate::test::Test;

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
const WORST: f64 = 1e4;

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

/// The fitness of a generator (lower is better): the mean square of the distance from what is
/// expected, in standard deviations, of five statistics: histogram, entropy, correlation of
/// neighbours (horizontal and vertical), NPCR and UACI (after one bit of the key was changed), for
/// pads of 64 x 64 bytes. Random data has 1.
pub fn cost(generator: &Generator, keys: u64, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let (mut sum, mut count) = (0.0, 0u32);
    for _ in 0..keys {
        let (mut key, mut iv) = ([0; 16], [0; 16]);
        random.fill(&mut key);
        random.fill(&mut iv);
        let mut pad = vec![0; EDGE * EDGE];
        generator.apply(&key, &iv, &mut pad);
        let bit = random.below(128);
        key[bit / 8] ^= 1 << (bit % 8);
        let mut other = vec![0; EDGE * EDGE];
        generator.apply(&key, &iv, &mut other);
        for test in statistics(&pad, &other) {
            let z = (test.value - test.expected) / test.deviation;
            // Undefined for constant pads.
            sum += if z.is_nan() {
                WORST
            } else {
                (z * z).min(WORST)
            };
            count += 1;
        }
    }
    sum / f64::from(count)
}

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

/// Optimises: tournaments of two choose parents, whose operations are mixed and sometimes changed. The
/// same seed gives the same generator, with any number of threads.
pub fn evolve(seed: u64, generations: u32, threads: NonZeroUsize) -> Evolved {
    let mut random = Random::new(seed);
    let mut population: Vec<_> = (0..POPULATION)
        .map(|_| Generator::draw(&mut random))
        .collect();
    let mut history = Vec::new();
    for _ in 0..generations {
        // Other keys each time, so that no generator is good for some keys alone.
        let mut ranked = rank(&population, random.next_u64(), threads);
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        history.push(ranked[0].0);
        population = ranked[..ELITE].iter().map(|&(_, one)| one).collect();
        while population.len() < POPULATION {
            // In a sorted list the smaller index is the better one.
            let mut parent = || ranked[random.below(POPULATION).min(random.below(POPULATION))].1;
            let (mother, father) = (parent(), parent());
            population.push(child(&mother, &father, &mut random));
        }
    }
    let mut ranked = rank(&population, random.next_u64(), threads);
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Few keys do not show every weakness: the best few meet more of them.
    let keys = random.next_u64();
    let finalists = ranked[..FINALISTS].iter();
    let finalists = finalists.map(|&(_, one)| (cost(&one, 5 * SAMPLES, keys), one));
    let best = finalists.min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, generator) = best.expect("there are finalists");
    Evolved {
        note: "not secure: for study".to_owned(),
        generator,
        seed,
        generations,
        cost: cost(&generator, 40, random.next_u64()),
        history,
    }
}

/// Each generator with its cost, in the order of the population.
fn rank(population: &[Generator], seed: u64, threads: NonZeroUsize) -> Vec<(f64, Generator)> {
    let share = population.len().div_ceil(threads.get());
    std::thread::scope(|scope| {
        let parts = population.chunks(share).map(|part| {
            scope.spawn(move || {
                let ranked = part.iter().map(|one| {
                    // Less than random data has is luck, not merit.
                    (cost(one, SAMPLES, seed).max(1.0), *one)
                });
                ranked.collect::<Vec<_>>()
            })
        });
        let workers: Vec<_> = parts.collect();
        let ranked = workers.into_iter();
        ranked
            .flat_map(|worker| worker.join().expect("measuring does not panic"))
            .collect()
    })
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
