//! Agreement with scipy and numpy; data/expected.py wrote the values.

use std::num::NonZeroUsize;

use serde_json::Value;
use warplock_analyze::{
    Autocorrelation, BitBalance, Correlation, Difference, Direction, Entropy, LocalEntropy, Plane,
    Random, Tables,
};

/// The inputs of `sample` in data/expected.py.
fn sample(number: usize) -> (usize, Vec<u8>) {
    let scale = if number >= 85 { 2 } else { 1 };
    let width = scale * (37 + 11 * (number % 23));
    let height = scale * (40 + 13 * (number % 17));
    let mut data = vec![0; width * height];
    Random::new(number as u64).fill(&mut data);
    for (place, byte) in data.iter_mut().enumerate() {
        match number % 4 {
            1 if place % 50 == 7 => *byte = 0,
            2 => *byte = (place / width + (*byte % 32) as usize) as u8,
            3 => *byte &= 0x5f,
            _ => {}
        }
    }
    (width, data)
}

#[track_caller]
fn assert_near(value: f64, expected: &Value, what: &str) {
    let expected = expected.as_f64().unwrap();
    let off = (value - expected).abs();
    assert!(
        off <= 1e-9 * expected.abs().max(1.0),
        "{what}: {value} is not {expected}"
    );
}

#[test]
fn a_hundred_inputs_give_the_values_of_scipy() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("data/expected.json")).unwrap();
    assert_eq!(rows.len(), 100);
    for (number, row) in rows.iter().enumerate() {
        let (width, data) = sample(number);
        let plane = Plane::rows(&data, width);
        let tables = Tables::of(&plane, NonZeroUsize::MIN);
        let near = |value: f64, name: &str, place: usize| {
            assert_near(
                value,
                &row[name][place],
                &format!("{name} of input {number}"),
            );
        };
        let histogram = &tables.histogram;
        near(histogram.chi_square(), "histogram", 0);
        near(histogram.p_value(), "histogram", 1);
        near(histogram.p_even(), "evenness", 1);
        let entropy = Entropy::of(histogram);
        near(entropy.bits, "entropy", 0);
        near(entropy.expected, "entropy", 1);
        for (place, direction) in Direction::ALL.into_iter().enumerate() {
            let found = Correlation::of(&plane, &tables, direction).unwrap();
            near(found.coefficient.unwrap(), "correlation", place);
            near(found.p_value(), "p_correlation", place);
        }
        let balance = BitBalance::of(histogram);
        near(balance.chi_square(), "bit_balance", 0);
        near(balance.p_value(), "bit_balance", 1);
        let auto = Autocorrelation::of(&data, histogram).unwrap();
        near(auto.chi_square(), "autocorrelation", 0);
        near(auto.p_value(), "autocorrelation", 1);
        match LocalEntropy::of(&plane, number as u64) {
            Some(found) => assert_near(found.bits, &row["local_entropy"], "local entropy"),
            None => assert!(row["local_entropy"].is_null()),
        }
        let mut other = vec![0; data.len()];
        Random::new(number as u64 + 1000).fill(&mut other);
        let difference = Difference::of(&data, &other).unwrap();
        near(difference.npcr().value(), "npcr", 0);
        near(difference.npcr().p_value(), "npcr", 1);
        near(difference.uaci().value(), "uaci", 0);
        near(difference.uaci().p_value(), "uaci", 1);
        assert_near(
            difference.bit_change().value(),
            &row["bit_change"],
            "bit change",
        );
    }
}
