//! Streams: however a message is cut into pieces, the result is that of one batch.

use proptest::prelude::*;
use warplock::{Algorithm, Direction, Engine, Error, Key, MessageStream, Mode};

use crate::common::case::stream;
use crate::common::layout::{Message, Plan, assert_same};
use crate::common::random::Random;
use crate::common::{engines, iv_len, round_len};

/// A message to encrypt, and where it is cut: multiples of 16 that leave a last piece that the
/// mode can end with.
fn message(algorithm: Algorithm, len: usize, cuts: &[usize], seed: u64) -> (Message, Vec<usize>) {
    let mode = algorithm.info().mode;
    let mut random = Random::new(seed);
    let key = random.bytes(algorithm.key_len());
    let iv = random.bytes(iv_len(mode));
    let aad = random.bytes(if algorithm.is_aead() { len % 100 } else { 0 });
    let text = random.bytes(round_len(mode, len));
    // XTS steals from the last whole block.
    let stolen = mode == Mode::Xts && !text.len().is_multiple_of(16);
    let end = (text.len() / 16).saturating_sub(stolen as usize);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (end + 1) * 16).collect();
    cuts.sort_unstable();
    (Message::new(algorithm, &key, &iv, &aad, text), cuts)
}

fn check(engine: &Engine, algorithm: Algorithm, message: &Message, cuts: &[usize]) {
    let back = message.reversed();
    for (direction, message) in [(Direction::Encrypt, message), (Direction::Decrypt, &back)] {
        let plan = Plan {
            name: "stream",
            algorithm,
            direction,
            messages: &[],
        };
        let context = format!(
            "{algorithm} {direction:?} {} bytes cut at {cuts:?} on {}",
            message.input.len(),
            engine.backend()
        );
        let (text, tag) = stream(engine, &plan, message, cuts).unwrap();
        assert_same(&text, &message.output, &context);
        if direction == Direction::Encrypt {
            assert_eq!(tag, message.tag, "{context}");
            continue;
        }
        let mut forged = message.clone();
        let Some(first) = forged.tag.first_mut() else {
            continue;
        };
        *first ^= 1;
        // `stream` looks that the last piece is zeros.
        let refused = stream(engine, &plan, &forged, cuts);
        assert!(
            matches!(refused, Err(Error::Authentication { .. })),
            "{context}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_cuts_give_what_one_batch_gives(
        algorithm in prop::sample::select(Algorithm::all().collect::<Vec<_>>()),
        len in 0..3000usize,
        cuts in prop::collection::vec(any::<u16>(), 0..6),
        seed in any::<u64>(),
    ) {
        let cuts: Vec<usize> = cuts.into_iter().map(usize::from).collect();
        let (message, cuts) = message(algorithm, len, &cuts, seed);
        for engine in engines(&[1, 2]) {
            check(&engine, algorithm, &message, &cuts);
        }
    }
}

/// Pieces of several lengths, some of them cut over the threads.
#[test]
fn long_pieces() {
    for algorithm in Algorithm::all() {
        let len = (2 << 20) + 33;
        let blocks = [3, 4, 40_000, 40_001, 73_000];
        let (message, cuts) = message(algorithm, len, &blocks, 7);
        for engine in engines(&[1, 2, 3]) {
            check(&engine, algorithm, &message, &cuts);
        }
    }
}

/// What hands on an IV goes where batches go.
#[test]
fn some_modes_may_leave_the_cpu() {
    let engine = &engines(&[1])[0];
    for algorithm in Algorithm::all() {
        let key = Key::generate(algorithm).unwrap();
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let stays = match algorithm.info().mode {
                Mode::Ecb | Mode::Ctr => false,
                Mode::Cbc => direction == Direction::Encrypt,
                Mode::Xts | Mode::Gcm | Mode::Acorn => true,
            };
            let stream = start(engine, direction, &key);
            assert_eq!(stream.stays_on_cpu(), stays, "{algorithm}, {direction:?}");
        }
    }
}

fn start<'a>(engine: &'a Engine, direction: Direction, key: &'a Key) -> MessageStream<'a> {
    let iv = vec![0; iv_len(key.algorithm().info().mode)];
    MessageStream::new(engine, direction, key, &iv, b"").unwrap()
}

#[test]
fn pieces_that_do_not_fit_are_refused_and_left_as_they_are() {
    for engine in engines(&[1]) {
        for algorithm in Algorithm::all() {
            let key = Key::generate(algorithm).unwrap();
            for len in [1, 15, 17, 100] {
                let mut piece = vec![0xA5; len];
                let mut stream = start(&engine, Direction::Encrypt, &key);
                let refused = stream.update(&mut piece).unwrap_err();
                assert!(
                    matches!(refused, Error::Batch { .. }),
                    "{algorithm}: {refused}"
                );
                assert_eq!(piece, vec![0xA5; len], "{algorithm}");

                // The refusal took nothing away: the stream still works.
                stream.update(&mut [0; 16]).unwrap();
                stream.finish(&mut []).unwrap();
            }
            let ends = |len: usize| match algorithm.info().mode {
                Mode::Ecb | Mode::Cbc => len.is_multiple_of(16),
                Mode::Xts => len == 0 || len >= 16,
                Mode::Ctr | Mode::Gcm | Mode::Acorn => true,
            };
            for len in 0..40 {
                let mut piece = vec![0xA5; len];
                let result = start(&engine, Direction::Encrypt, &key).finish(&mut piece);
                assert_eq!(result.is_ok(), ends(len), "{algorithm}, {len} bytes");
                if result.is_err() {
                    assert_eq!(piece, vec![0xA5; len], "{algorithm}");
                }
            }
        }
    }
}

/// XTS needs the last whole block and the partial one together.
#[test]
fn xts_refuses_a_partial_block_alone() {
    for engine in engines(&[1]) {
        let key = Key::generate(Algorithm::Aes256Xts).unwrap();
        for len in 1..16 {
            let mut piece = vec![0xA5; len];
            let mut stream = start(&engine, Direction::Encrypt, &key);
            stream.update(&mut [0; 32]).unwrap();
            let refused = stream.finish(&mut piece).unwrap_err();
            assert!(matches!(refused, Error::Batch { .. }), "{refused}");
            assert_eq!(piece, vec![0xA5; len]);
        }
    }
}

#[test]
fn wrong_ivs_and_associated_data_are_refused() {
    let engine = Engine::new().unwrap();
    for algorithm in Algorithm::all() {
        let key = Key::generate(algorithm).unwrap();
        let info = algorithm.info();
        for len in 0..40 {
            let stream = MessageStream::new(&engine, Direction::Encrypt, &key, &vec![0; len], b"");
            let fits = match info.mode {
                Mode::Gcm => len > 0,
                mode => len == iv_len(mode),
            };
            assert_eq!(stream.is_ok(), fits, "{algorithm}, {len} bytes of IV");
        }
        let iv = vec![0; iv_len(info.mode)];
        let stream = MessageStream::new(&engine, Direction::Encrypt, &key, &iv, b"AD");
        assert_eq!(stream.is_ok(), algorithm.is_aead(), "{algorithm}");
    }
}

#[test]
fn tags_that_are_too_short_or_long_are_refused() {
    let engine = Engine::new().unwrap();
    let key = Key::generate(Algorithm::Aes128Gcm).unwrap();
    for len in [0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 17, 32] {
        let mut last = [0xA5; 20];
        let stream = start(&engine, Direction::Decrypt, &key);
        let refused = stream.verify(&mut last, &vec![0; len]).unwrap_err();
        assert!(matches!(refused, Error::Batch { .. }), "{len}: {refused}");
    }
}

/// An algorithm without tags verifies nothing, so it must not say that it did.
#[test]
fn nothing_is_verified_without_authentication() {
    let engine = Engine::new().unwrap();
    for algorithm in Algorithm::all().filter(|algorithm| !algorithm.is_aead()) {
        let key = Key::generate(algorithm).unwrap();
        let mut last = [0xA5; 32];
        let stream = start(&engine, Direction::Decrypt, &key);
        let refused = stream.verify(&mut last, &[0; 16]);
        assert!(
            matches!(refused, Err(Error::Batch { .. })),
            "{algorithm}: {refused:?}"
        );
    }
}
