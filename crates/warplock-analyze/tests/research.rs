//! The pad cipher passes every statistic, and falls to sixteen known bytes.

use std::num::NonZeroUsize;

use warplock_analyze::pictures::Picture;
use warplock_analyze::research::{Generator, cost, decrypt, encrypt, evolve, recover_key};
use warplock_analyze::trials::Trials;
use warplock_analyze::{Data, LEVELS, Options, Random, Shape, analyze, compare};

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

fn random_block(random: &mut Random) -> [u8; 16] {
    let mut block = [0; 16];
    random.fill(&mut block);
    block
}

#[test]
fn an_evolution_can_be_repeated_with_any_number_of_threads() {
    let one = evolve(11, 4, threads(1));
    assert_eq!(one, evolve(11, 4, threads(3)));
    assert_ne!(one.generator, evolve(12, 4, threads(3)).generator);
}

#[test]
fn evolution_makes_a_generator_better_than_most() {
    let evolved = evolve(1, 20, threads(2));
    // Random data has 1; the mean of 240 squares has a deviation of about 0.1.
    assert!(evolved.cost < 1.5, "{evolved:?}");
    let mut random = Random::new(3);
    let poor = (0..100).filter(|_| cost(&Generator::draw(&mut random), 6, 1) > 10.0);
    let poor = poor.count();
    assert!(poor > 90, "{poor}");
}

#[test]
fn it_passes_the_statistics_and_falls_to_sixteen_known_bytes() {
    let generator = evolve(1, 20, threads(2)).generator;
    let shape = Shape {
        width: 256,
        height: 256,
        channels: 1,
    };
    let plain = Picture::Photograph.draw(shape, 1);
    let plain = plain.as_bytes();
    let mut random = Random::new(2);
    let mut trials = Trials::default();
    const TRIALS: u64 = 200;
    for _ in 0..TRIALS {
        let (mut key, iv) = (random_block(&mut random), random_block(&mut random));
        let cipher = encrypt(&generator, &key, &iv, plain);
        key[0] ^= 1;
        let other = encrypt(&generator, &key, &iv, plain);
        let cipher = Data::image(&cipher[16..], shape).unwrap();
        let other = Data::image(&other[16..], shape).unwrap();
        let report = analyze(&cipher, &Options::default());
        report.tests().for_each(|test| trials.add("", test));
        let comparison = compare(&cipher, &other).unwrap();
        comparison.tests().for_each(|test| trials.add("", test));
    }
    for summary in trials.summaries() {
        println!("{}", summary.sentence());
        let expected = TRIALS as f64 * LEVELS[0];
        assert!(
            summary.flagged[0] as f64 <= expected + 4.0 * expected.sqrt(),
            "{summary:?}"
        );
    }

    let (key, iv) = (random_block(&mut random), random_block(&mut random));
    let cipher = encrypt(&generator, &key, &iv, plain);
    for (offset, len) in [(0, 16), (5, 27), (65_520, 16), (1000, 64_000)] {
        let known = &plain[offset..offset + len];
        assert_eq!(
            recover_key(&generator, &cipher, known, offset),
            Some(key),
            "{offset}"
        );
    }
    // The key opens a message of which nothing is known.
    let other = encrypt(
        &generator,
        &key,
        &random_block(&mut random),
        b"another message",
    );
    let found = recover_key(&generator, &cipher, &plain[..16], 0).unwrap();
    assert_eq!(
        decrypt(&generator, &found, &other).unwrap(),
        b"another message"
    );
    // Too little, nothing, wrong or misplaced bytes.
    for (known, offset) in [
        (&plain[..15], 0),
        (&plain[..0], 0),
        (&plain[1..31], 1),
        (&plain[..40], 16),
        (&plain[..16], usize::MAX),
        (&plain[..16], plain.len()),
    ] {
        assert_eq!(
            recover_key(&generator, &cipher, known, offset),
            None,
            "{offset}"
        );
    }
    assert_eq!(decrypt(&generator, &key, &[0; 15]), None);
    assert_eq!(decrypt(&generator, &key, &[0; 16]).unwrap(), b"");
}
