//! Does the portable code's time depend on secrets? Statistically, as dudect does it (Reparaz,
//! Balasch, Verbauwhede: "Dude, is my code constant time?", 2017): time many runs with a fixed
//! secret and with random ones, in random order, and compare the two means by Welch's t-test.
//!
//! Timing decides no test that runs by itself, so the measurements are a command of their own:
//! `cargo test --release -p warplock --test constant_time -- --ignored --nocapture --test-threads 1`

mod leaky;
mod welch;

use std::num::NonZeroUsize;
use std::time::Instant;

use warplock::{Algorithm, Batch, Direction, Engine, Ivs, Keys, Tags, Text};
use welch::{THRESHOLD, largest_t};

/// Measurements of each case, of both classes together.
const RUNS: usize = 20_000;

/// What is fixed in one class and random in the other. A random text hides from a fixed key's
/// rounds what they would show, and the other way round; so both are fixed together, too.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Secret {
    Key,
    KeyAndText,
}

/// What a measured function gets.
struct Input {
    fixed: bool,
    key: Vec<u8>,
    text: Vec<u8>,
}

fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system's generator works");
}

/// Inputs of both classes in random order; what is not the secret is random in both.
fn inputs(secret: Secret, key_len: usize, text_len: usize, count: usize) -> Vec<Input> {
    let input = |_| {
        let mut class = [0];
        random(&mut class);
        let fixed = class[0] & 1 == 1;
        let (mut key, mut text) = (vec![0x5A; key_len], vec![0xA5; text_len]);
        if !fixed {
            random(&mut key);
        }
        if !fixed || secret != Secret::KeyAndText {
            random(&mut text);
        }
        Input { fixed, key, text }
    };
    (0..count).map(input).collect()
}

/// Times `run` on inputs of both classes and gives the largest |t|.
fn measure(secret: Secret, key_len: usize, text_len: usize, run: impl Fn(&[u8], &mut [u8])) -> f64 {
    let mut times = Vec::with_capacity(RUNS);
    // Both classes work in the same place.
    let (mut key, mut text) = (vec![0; key_len], vec![0; text_len]);
    for _ in 0..RUNS / 1000 {
        for (number, input) in inputs(secret, key_len, text_len, 1000).iter().enumerate() {
            key.copy_from_slice(&input.key);
            text.copy_from_slice(&input.text);
            let start = Instant::now();
            run(&key, &mut text);
            let time = start.elapsed().as_nanos() as f64;
            // The first ones after fresh inputs find cold caches.
            if number >= 10 {
                times.push((input.fixed, time));
            }
        }
    }
    largest_t(&times)
}

fn portable() -> Engine {
    let builder = Engine::builder().backend("cpu:portable".parse().unwrap());
    builder.threads(NonZeroUsize::MIN).build().unwrap()
}

/// Encrypts or decrypts one message, key schedule included.
fn run(engine: &Engine, algorithm: Algorithm, key: &[u8], text: &mut [u8]) {
    let keys = Keys::Each {
        algorithm,
        bytes: key,
    };
    let iv = [7; 16];
    let mut tag = [0; 16];
    let mut batch = Batch::new(Direction::Encrypt, keys, Text::in_place(text));
    if algorithm.is_aead() {
        batch = batch.ivs(Ivs::Each(&iv[..12])).tags(Tags::Apart(&mut tag));
    } else {
        batch = batch.ivs(Ivs::Each(&iv));
    }
    engine.run(batch).unwrap();
}

/// CTR and GCM in both cores: eight blocks take the narrow one, 256 the wide one.
#[test]
#[ignore = "measures time; see the head of this file"]
fn portable_code_takes_the_same_time_for_all_secrets() {
    let engine = portable();
    let mut leaks = Vec::new();
    for algorithm in [
        Algorithm::Aes128Ctr,
        Algorithm::Aes256Ctr,
        Algorithm::Aes128Gcm,
    ] {
        for len in [128, 4096] {
            for secret in [Secret::Key, Secret::KeyAndText] {
                let t = measure(secret, algorithm.key_len(), len, |key, text| {
                    run(&engine, algorithm, key, text);
                });
                println!("{algorithm}, {len} B, fixed against random {secret:?}: |t| = {t:.1}");
                if t > THRESHOLD {
                    leaks.push((algorithm, len, secret, t));
                }
            }
        }
    }
    assert!(leaks.is_empty(), "time depends on secrets: {leaks:?}");
}

#[test]
#[ignore = "measures time; see the head of this file"]
fn a_table_and_branches_are_found() {
    let table = leaky::s_box();
    let t = measure(Secret::KeyAndText, 16, 128, |key, text| {
        for block in text.as_chunks_mut().0 {
            leaky::encrypt(&table, key, block);
        }
    });
    println!("leaky AES, fixed against random key and text: |t| = {t:.1}");
    assert!(t > THRESHOLD, "|t| = {t:.1}: the test sees nothing");
}

/// The leaky code is AES, so that what the test finds in it could be found in an AES.
#[test]
fn the_leaky_code_is_aes() {
    let key: [u8; 16] = std::array::from_fn(|i| i as u8);
    let mut block: [u8; 16] = std::array::from_fn(|i| 0x11 * i as u8);
    leaky::encrypt(&leaky::s_box(), &key, &mut block);
    // FIPS 197, appendix C.1.
    assert_eq!(
        u128::from_be_bytes(block),
        0x69C4_E0D8_6A7B_0430_D8CD_B780_70B4_C55A
    );
}
