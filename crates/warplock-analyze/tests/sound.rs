//! Random data is flagged as often as the level says, and no more.

use std::num::NonZeroUsize;

use warplock_analyze::trials::Trials;
use warplock_analyze::{Data, LEVELS, Options, Random, Shape, analyze, compare};

const TRIALS: u64 = 1000;

#[test]
fn a_thousand_sound_ciphertexts_are_flagged_as_often_as_the_level_says() {
    let shape = Shape {
        width: 264,
        height: 250,
        channels: 1,
    };
    let mut trials = Trials::default();
    let mut bytes = vec![0; 2 * shape.len()];
    for number in 0..TRIALS {
        Random::new(number).fill(&mut bytes);
        let (left, right) = bytes.split_at(shape.len());
        let left = Data::image(left, shape).unwrap();
        let right = Data::image(right, shape).unwrap();
        let options = Options {
            seed: number,
            threads: NonZeroUsize::MIN,
            ..Options::default()
        };
        let report = analyze(&left, &options);
        report.tests().for_each(|test| trials.add("", test));
        let comparison = compare(&left, &right).unwrap();
        comparison.tests().for_each(|test| trials.add("", test));
    }
    let summaries = trials.summaries();
    assert_eq!(summaries.len(), 16);
    for summary in summaries {
        println!("{}", summary.sentence());
        assert_eq!(summary.trials, TRIALS);
        // Four standard deviations of a binomial distribution; a repeated block is never expected.
        for (place, level) in LEVELS.into_iter().enumerate() {
            let expected = TRIALS as f64 * level;
            let distance = 4.0 * (expected * (1.0 - level)).sqrt();
            let flagged = summary.flagged[place] as f64;
            assert!(flagged <= expected + distance, "{summary:?}");
            if summary.label != "repeated_blocks" {
                assert!(flagged >= expected - distance, "{summary:?}");
            }
        }
        if let Some(p) = summary.p_uniform {
            assert!(p > 1e-4, "{summary:?}");
        }
    }
}

#[test]
fn short_data_is_flagged_as_often_as_the_level_says() {
    let mut trials = Trials::default();
    let mut bytes = vec![0; 2 * 1280];
    for number in 0..2 * TRIALS {
        Random::new(number).fill(&mut bytes);
        let (left, right) = bytes.split_at(1280);
        let (left, right) = (Data::bytes(left), Data::bytes(right));
        let report = analyze(&left, &Options::default());
        report.tests().for_each(|test| trials.add("", test));
        let comparison = compare(&left, &right).unwrap();
        comparison.tests().for_each(|test| trials.add("", test));
    }
    for summary in trials.summaries() {
        println!("{}", summary.sentence());
        let expected = 2.0 * TRIALS as f64 * LEVELS[0];
        let distance = 4.0 * (expected * (1.0 - LEVELS[0])).sqrt();
        assert!(
            summary.flagged[0] as f64 <= expected + distance,
            "{summary:?}"
        );
    }
}
