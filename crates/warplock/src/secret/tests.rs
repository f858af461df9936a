//! Every algorithm both ways, on every instruction set that valgrind presents to this program, with
//! secret keys and texts.

use std::num::NonZeroUsize;

use super::valgrind::{classify, errors, is_running, publish};
use crate::cpu::CpuBackend;
use crate::testing::random_jobs::{Buffers, Random, Setup, buffers};
use crate::{
    Algorithm, Batch, Direction, Engine, Error, InstructionSet, Ivs, Key, Keys, MessageStream,
    Mode, Tags, Text,
};

#[path = "../../tests/constant_time/leaky.rs"]
mod leaky;

/// Runs `work`, in which valgrind must not find anything.
fn silent<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let before = errors();
    let result = work();
    assert_eq!(errors(), before, "{what}: a secret decided something");
    result
}

fn sets() -> impl Iterator<Item = InstructionSet> {
    InstructionSet::all().filter(|set| set.is_available())
}

fn classify_keys(setup: &Setup) {
    classify(&setup.raw_keys);
    for key in &setup.keys {
        classify(key.bytes());
    }
}

fn publish_all(buffers: &Buffers) {
    publish(&buffers.input);
    publish(&buffers.output);
    publish(&buffers.tags);
}

/// The same random job twice, the second time with secrets.
fn random_job(backend: &CpuBackend, algorithm: Algorithm, seed: u64) {
    let setup = |random: &mut Random| Setup::random(random, algorithm, 300);
    let random = &mut Random::new(seed);
    let (open, secret) = (setup(&mut Random::new(seed)), setup(random));
    classify_keys(&secret);
    let plain = buffers(&secret, random);
    let what = format!("{algorithm} with {set}, seed {seed}", set = backend.name());

    let (mut expected, mut sealed) = (plain.clone(), plain);
    expected.run(backend, &open, Direction::Encrypt);
    classify(&sealed.input);
    classify(&sealed.output);
    silent(&format!("{what}, encryption"), || {
        sealed.run(backend, &secret, Direction::Encrypt)
    });
    publish_all(&sealed);
    assert!(sealed.output == expected.output && sealed.tags == expected.tags);

    let mut received = sealed.reversed(&secret, random);
    received.forge(&secret, random);
    let mut expected = received.clone();
    let refused = expected.run(backend, &open, Direction::Decrypt);
    for message in 0..secret.spans.len() {
        let at = secret.sealed_at(message);
        let text = match secret.in_place {
            true => &received.output,
            false => &received.input,
        };
        classify(&text[at.offset..][..at.len]);
    }
    let found = silent(&format!("{what}, decryption"), || {
        received.run(backend, &secret, Direction::Decrypt)
    });
    publish_all(&received);
    assert!(received.output == expected.output && found == refused);
}

#[test]
fn batches_keep_secrets() {
    for set in sets() {
        let backend = CpuBackend::new(set, NonZeroUsize::MIN).unwrap();
        for algorithm in Algorithm::all() {
            for seed in 0..8 {
                random_job(&backend, algorithm, seed << 8 | algorithm as u64);
            }
        }
    }
}

fn iv(algorithm: Algorithm) -> &'static [u8] {
    match algorithm.info().mode {
        Mode::Ecb => &[],
        Mode::Gcm => &[5; 12],
        _ => &[5; 16],
    }
}

/// One message through the shortest path, and through a stream; a forgery as well.
fn one_message(engine: &Engine, algorithm: Algorithm, len: usize) {
    let what = format!("{algorithm} with {}, {len} bytes", engine.backend());
    let bytes: Vec<u8> = (3..).take(algorithm.key_len()).collect();
    let key = Key::new(algorithm, &bytes).unwrap();
    classify(key.bytes());
    let plain: Vec<u8> = (0..len).map(|i| i as u8).collect();
    let (mut text, mut tag) = (plain.clone(), [0; 16]);
    let run = |direction, text: &mut [u8], tag: &mut [u8]| {
        classify(text);
        let batch = Batch::new(direction, Keys::One(&key), Text::in_place(text));
        let batch = match algorithm.is_aead() {
            true => batch.tags(Tags::Apart(tag)),
            false => batch,
        };
        silent(&format!("{what}, {direction:?}"), || {
            engine.run(batch.ivs(Ivs::Each(iv(algorithm))))
        })
    };
    run(Direction::Encrypt, &mut text, &mut tag).unwrap();
    publish(&text);
    publish(&tag);
    let sealed = text.clone();
    run(Direction::Decrypt, &mut text, &mut tag).unwrap();
    publish(&text);
    assert_eq!(text, plain, "{what}");

    let stream = |direction, text: &mut [u8], tag: Option<[u8; 16]>| {
        classify(text);
        let (head, tail) = text.split_at_mut(len / 32 * 16);
        silent(&format!("{what}, stream, {direction:?}"), || {
            let mut stream =
                MessageStream::new(engine, direction, &key, iv(algorithm), b"").unwrap();
            stream.update(head).unwrap();
            match tag {
                Some(tag) => stream.verify(tail, &tag).map(|()| None),
                None => stream.finish(tail),
            }
        })
    };
    text.copy_from_slice(&plain);
    let made = stream(Direction::Encrypt, &mut text, None).unwrap();
    publish(&text);
    assert_eq!(text, sealed, "{what}");
    let Some(made) = made else {
        return;
    };
    publish(&made);
    assert_eq!(made, tag, "{what}");
    stream(Direction::Decrypt, &mut text, Some(tag)).unwrap();

    tag[15] ^= 1;
    text.copy_from_slice(&sealed);
    let refused = run(Direction::Decrypt, &mut text, &mut tag).unwrap_err();
    assert!(matches!(refused, Error::Authentication { .. }));
    text.copy_from_slice(&sealed);
    stream(Direction::Decrypt, &mut text, Some(tag)).unwrap_err();
}

#[test]
fn single_messages_keep_secrets() {
    for set in sets() {
        let choice = format!("cpu:{}", set.name()).parse().unwrap();
        let builder = Engine::builder().backend(choice);
        let engine = builder.threads(NonZeroUsize::MIN).build().unwrap();
        for algorithm in Algorithm::all() {
            for len in [16, 33, 64, 100, 1000] {
                if algorithm.info().accepts_text_len(len) {
                    one_message(&engine, algorithm, len as usize);
                }
            }
        }
    }
}

/// Good and bad padding: only the verdict and the length become known.
#[test]
fn padding_keeps_secrets() {
    for padding in [0, 1, 7, 16, 17, 200] {
        let mut text = [padding; 32];
        text[..16].fill(9);
        classify(&text);
        let len = silent("padding", || crate::pkcs7::unpadded_len(&text));
        assert_eq!(len.is_ok(), (1..=16).contains(&padding));
    }
}

/// Proves that the check can fail.
#[test]
fn leaks_are_found() {
    assert!(
        is_running() || std::env::var_os("WARPLOCK_VALGRIND").is_none(),
        "valgrind does not run this, although WARPLOCK_VALGRIND says so"
    );
    let table = leaky::s_box();
    for secret_key in [true, false] {
        let (key, mut block) = ([7; 16], [9; 16]);
        match secret_key {
            true => classify(&key),
            false => classify(&block),
        }
        let before = errors();
        leaky::encrypt(&table, &key, &mut block);
        assert_eq!(
            errors() > before,
            is_running(),
            "AES with a table and branches"
        );
        publish(&block);
    }
    let sets: Vec<_> = sets().map(InstructionSet::name).collect();
    match is_running() {
        true => println!("secrets were followed on: {}", sets.join(", ")),
        false => println!("valgrind is not there: nothing was marked as secret"),
    }
}
