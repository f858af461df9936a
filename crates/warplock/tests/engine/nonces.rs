//! Nonces: drawn ones are fresh, and repeated ones are refused.

use std::collections::HashSet;

use warplock::{
    Algorithm, Batch, Direction, Engine, Error, Ivs, Key, Keys, Mode, Span, Spans, Text,
    fill_random,
};

use crate::common::random::Random;
use crate::common::{engines, iv_len};

/// Bytes from one message's start to the next one's.
const STRIDE: usize = 64;

/// Encrypts `count` messages of 48 bytes in place, each with room for a tag.
fn seal(engine: &Engine, keys: Keys<'_>, count: usize, ivs: Ivs<'_>) -> Result<Vec<u8>, Error> {
    let mut buffer = vec![7; count * STRIDE];
    run(engine, Direction::Encrypt, keys, &mut buffer, ivs).map(|()| buffer)
}

fn run(
    engine: &Engine,
    direction: Direction,
    keys: Keys<'_>,
    buffer: &mut [u8],
    ivs: Ivs<'_>,
) -> Result<(), Error> {
    let spans = Spans::Even {
        count: buffer.len() / STRIDE,
        len: 48,
        stride: STRIDE,
    };
    let text = Text::InPlace { buffer, spans };
    engine.run(Batch::new(direction, keys, text).ivs(ivs))
}

#[test]
fn random_nonces_are_fresh_and_written_out() {
    for engine in engines(&[1, 2]) {
        for algorithm in Algorithm::all().filter(|a| a.info().mode != Mode::Ecb) {
            let key = Key::generate(algorithm).unwrap();
            let mut seen = HashSet::new();
            for count in [1, 2, 5, 6, 100] {
                let mut ivs = vec![0; count * iv_len(algorithm.info().mode)];
                for _ in 0..3 {
                    let drawn = Ivs::Random(&mut ivs);
                    let mut sealed = seal(&engine, Keys::One(&key), count, drawn).unwrap();
                    for iv in ivs.chunks(iv_len(algorithm.info().mode)) {
                        assert!(seen.insert(iv.to_vec()), "{algorithm}: {iv:?} again");
                    }
                    let (one, given) = (Keys::One(&key), Ivs::Each(&ivs));
                    run(&engine, Direction::Decrypt, one, &mut sealed, given).unwrap();
                    assert!(sealed.chunks(STRIDE).all(|text| text[..48] == [7; 48]));
                }
            }
        }
    }
}

/// Whether a batch with these nonces is refused, and for which messages.
fn reuse(key: &Key, ivs: &[u8], count: usize) -> Option<(usize, usize)> {
    let engine = Engine::builder().backend("cpu".parse().unwrap()).build();
    match seal(&engine.unwrap(), Keys::One(key), count, Ivs::Each(ivs)) {
        Ok(_) => None,
        Err(Error::NonceReuse { first, second, .. }) => Some((first, second)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_repeated_nonce_is_refused_wherever_it_is() {
    let mut random = Random::new(1);
    for algorithm in [
        Algorithm::Aes256Gcm,
        Algorithm::Acorn128,
        Algorithm::Aes128Ctr,
    ] {
        let key = Key::generate(algorithm).unwrap();
        let len = iv_len(algorithm.info().mode);
        for count in [2, 3, 10, 1000] {
            // Counters up and down, big- and little-endian, in steps of a message's three blocks;
            // and random nonces.
            let counted = |message: usize| 3 * (message + 1) as u128;
            let big = |number: u128| number.to_be_bytes()[16 - len..].to_vec();
            let little = |number: u128| number.to_le_bytes()[..len].to_vec();
            let kinds: [Vec<Vec<u8>>; 5] = [
                (0..count).map(|i| big(counted(i))).collect(),
                (0..count).map(|i| big(counted(count - i))).collect(),
                (0..count).map(|i| little(counted(i))).collect(),
                (0..count).map(|i| little(counted(count - i))).collect(),
                (0..count).map(|_| random.bytes(len)).collect(),
            ];
            for ivs in kinds {
                assert_eq!(reuse(&key, &ivs.concat(), count), None, "{algorithm}");
                for _ in 0..20 {
                    let (mut first, mut second) = (random.below(count), random.below(count));
                    if first == second {
                        (first, second) = (0, count - 1);
                    }
                    let mut ivs = ivs.clone();
                    ivs[first] = ivs[second].clone();
                    let found = reuse(&key, &ivs.concat(), count);
                    assert_eq!(found, Some((first.min(second), first.max(second))));
                }
            }
        }
    }
}

/// Compared with a check of all pairs.
#[test]
fn only_batches_with_a_repeat_are_refused() {
    let mut random = Random::new(2);
    let (mut refused, mut sealed) = (0, 0);
    for round in 0..3000 {
        let algorithm = *random.pick(&[Algorithm::Aes128Gcm, Algorithm::Aes128Ctr]);
        let key = Key::generate(algorithm).unwrap();
        let len = iv_len(algorithm.info().mode);
        let count = 1 + random.below(12);
        let most = *random.pick(&[8, 64, 1024]);
        let wraps = random.flip();
        let numbers: Vec<u128> = (0..count)
            .map(|_| (random.below(most) as u128).wrapping_sub(4 * u128::from(wraps)))
            .collect();
        let ivs: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_be_bytes()[16 - len..].to_vec())
            .collect();
        // A message of CTR has three blocks.
        let blocks = if algorithm.is_aead() { 1 } else { 3 };
        let collide = |a: usize, b: usize| numbers[b].wrapping_sub(numbers[a]) < blocks;
        let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
        let repeat = pairs.clone().any(|(a, b)| a != b && collide(a, b));
        match reuse(&key, &ivs, count) {
            Some((a, b)) => {
                assert!(a < b && (collide(a, b) || collide(b, a)), "round {round}");
                refused += 1;
            }
            None => {
                assert!(!repeat, "round {round}: {algorithm}, {numbers:?}");
                sealed += 1;
            }
        }
    }
    assert!(refused > 500 && sealed > 500, "{refused} {sealed}");
}

/// CTR with messages of different lengths; empty ones use no counter block.
#[test]
fn overlapping_counters_are_refused() {
    let engine = Engine::new().unwrap();
    let key = Key::generate(Algorithm::Aes256Ctr).unwrap();
    let run = |messages: &[(u128, usize)]| {
        let mut end = 0;
        let place = |&(_, len): &(u128, usize)| {
            end += len;
            Span {
                offset: end - len,
                len,
            }
        };
        let spans: Vec<Span> = messages.iter().map(place).collect();
        let ivs: Vec<u8> = messages.iter().flat_map(|m| m.0.to_be_bytes()).collect();
        let mut buffer = vec![7; end];
        let text = Text::InPlace {
            buffer: &mut buffer,
            spans: Spans::Ragged(&spans),
        };
        match engine.run(Batch::encrypt(Keys::One(&key), text).ivs(Ivs::Each(&ivs))) {
            Ok(()) => None,
            Err(error) => {
                assert_eq!(buffer, vec![7; end], "a refused batch wrote");
                Some(error.to_string())
            }
        }
    };
    let overlap = |first, second| {
        Some(format!(
            "messages {first} and {second} have overlapping counters under the same key: give each \
             its own, as Ivs::Random does"
        ))
    };
    assert_eq!(run(&[(5, 160), (15, 16), (4, 16), (16, 1)]), None);
    assert_eq!(run(&[(5, 160), (15, 16), (4, 17), (16, 1)]), overlap(0, 2));
    assert_eq!(run(&[(5, 161), (15, 16), (4, 16)]), overlap(0, 1));
    assert_eq!(run(&[(9, 100_000), (7, 1), (100, 16)]), overlap(0, 2));
    assert_eq!(run(&[(9, 0), (9, 16), (9, 0)]), None);
    assert_eq!(run(&[(1, 16), (u128::MAX, 32)]), None);
    assert_eq!(run(&[(1, 16), (u128::MAX, 48)]), overlap(0, 1));
    assert_eq!(run(&[(0, 16), (u128::MAX, 17)]), overlap(0, 1));
}

#[test]
fn harmless_repeats_are_accepted() {
    let engine = Engine::new().unwrap();
    for algorithm in Algorithm::all() {
        let mode = algorithm.info().mode;
        let ivs = vec![9; 3 * iv_len(mode)];
        let keys = [0; 3].map(|_| Key::generate(algorithm).unwrap());
        let bytes: Vec<u8> = (0..3 * algorithm.key_len()).map(|at| at as u8).collect();
        let each = Keys::Each {
            algorithm,
            bytes: &bytes,
        };
        let indexed = |index| Keys::Indexed { keys: &keys, index };
        let harmless = matches!(mode, Mode::Ecb | Mode::Cbc | Mode::Xts);
        for (keys, sealed) in [
            (each, true),
            (indexed(&[2, 0, 1]), true),
            (indexed(&[2, 0, 2]), harmless),
            (Keys::One(&keys[0]), harmless),
        ] {
            let found = seal(&engine, keys, 3, Ivs::Each(&ivs));
            assert_eq!(found.is_ok(), sealed, "{algorithm}");
            // Decryption is not refused; only the tags are wrong.
            let mut buffer = [7; 3 * STRIDE];
            match run(
                &engine,
                Direction::Decrypt,
                keys,
                &mut buffer,
                Ivs::Each(&ivs),
            ) {
                Ok(()) => assert!(!algorithm.is_aead()),
                Err(error) => assert!(matches!(error, Error::Authentication { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn ragged_nonces_are_compared_too() {
    let engine = Engine::new().unwrap();
    let key = Key::generate(Algorithm::Aes128Gcm).unwrap();
    let bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
    let run = |spans: Spans<'_>| {
        let ivs = Ivs::Ragged {
            bytes: &bytes,
            spans,
        };
        match seal(&engine, Keys::One(&key), spans.count(), ivs) {
            Ok(_) => None,
            Err(Error::NonceReuse { first, second, .. }) => Some((first, second)),
            Err(error) => panic!("{error}"),
        }
    };
    let ragged = |places: &[(usize, usize)]| {
        let spans: Vec<Span> = places
            .iter()
            .map(|&(offset, len)| Span { offset, len })
            .collect();
        run(Spans::Ragged(&spans))
    };
    assert_eq!(ragged(&[(0, 12), (0, 13), (1, 12), (0, 60), (0, 61)]), None);
    assert_eq!(ragged(&[(0, 12), (0, 13), (256, 12)]), Some((0, 2)));
    assert_eq!(
        ragged(&[(300, 60), (0, 13), (5, 7), (44, 60)]),
        Some((0, 3))
    );
    let even = |count, len, stride| run(Spans::Even { count, len, stride });
    assert_eq!(even(20, 12, 13), None);
    assert_eq!(even(20, 12, 1), None);
    assert_eq!(even(3, 12, 0), Some((0, 1)));
    assert_eq!(even(2, 12, 256), Some((0, 1)));
    assert_eq!(even(2, 16, 255), None);
}

#[test]
fn random_bytes_of_every_length_are_fresh() {
    let mut seen = HashSet::new();
    for len in (16..300).chain([5000]) {
        let mut bytes = vec![0; len];
        fill_random(&mut bytes).unwrap();
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        assert!(zeros < len / 4, "{len} bytes: {zeros} zeros");
        assert!(seen.insert(bytes[..16].to_vec()));
        assert!(seen.insert(bytes[len - 16..].to_vec()) || len == 16);
    }
    fill_random(&mut []).unwrap();
}
