//! A few short batches on the portable code: little enough for Miri, which checks the pointers.
//! `cargo +nightly miri test -p warplock --test small`

use std::num::NonZeroUsize;

use warplock::{
    Algorithm, Batch, Cipher, Engine, Error, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text,
};

fn engine() -> Engine {
    let builder = Engine::builder().backend("cpu:portable".parse().unwrap());
    builder.threads(NonZeroUsize::MIN).build().unwrap()
}

/// Spans in any order, one of them empty, with a partial block where the mode takes one, and room
/// after each for a tag.
fn spans(mode: Mode) -> [Span; 4] {
    let partial = !matches!(mode, Mode::Ecb | Mode::Cbc) as usize;
    [
        (90, 16),
        (3, 32 + partial),
        (60, 0),
        (130, 48 + 15 * partial),
    ]
    .map(|(offset, len)| Span { offset, len })
}

/// One of each mode: Miri takes minutes as it is.
fn algorithms() -> impl Iterator<Item = Algorithm> {
    Algorithm::all()
        .filter(|algorithm| matches!(algorithm.info().cipher, Cipher::Aes128 | Cipher::Acorn128))
}

fn in_place<'a>(buffer: &'a mut [u8], spans: Spans<'a>) -> Text<'a> {
    Text::InPlace { buffer, spans }
}

const SIZE: usize = 210;

fn ivs(mode: Mode) -> Vec<u8> {
    let len = match mode {
        Mode::Ecb => 0,
        Mode::Gcm => 12,
        _ => 16,
    };
    // Distinct, and for CTR far apart.
    (0..4 * len).map(|at| (at / len) as u8).collect()
}

#[test]
fn in_place_there_and_back() {
    let engine = engine();
    for algorithm in algorithms() {
        let mode = algorithm.info().mode;
        let bytes: Vec<u8> = (0..algorithm.key_len() as u8).collect();
        let key = Key::new(algorithm, &bytes).unwrap();
        let (spans, ivs) = (spans(mode), ivs(mode));
        let start: Vec<u8> = (0..SIZE).map(|i| i as u8).collect();
        let mut buffer = start.clone();
        let run = |encrypt: bool, buffer: &mut [u8]| {
            let text = in_place(buffer, Spans::Ragged(&spans));
            let batch = match encrypt {
                true => Batch::encrypt(Keys::One(&key), text),
                false => Batch::decrypt(Keys::One(&key), text),
            };
            engine.run(batch.ivs(Ivs::Each(&ivs))).unwrap();
        };
        run(true, &mut buffer);
        assert_ne!(buffer, start, "{algorithm}");
        run(false, &mut buffer);
        for Span { offset, len } in spans {
            assert_eq!(
                buffer[offset..][..len],
                start[offset..][..len],
                "{algorithm}"
            );
        }
    }
}

#[test]
fn apart_with_a_key_each_there_and_back() {
    let engine = engine();
    for algorithm in algorithms() {
        let mode = algorithm.info().mode;
        let bytes: Vec<u8> = (0..4 * algorithm.key_len()).map(|i| i as u8).collect();
        let keys = Keys::Each {
            algorithm,
            bytes: &bytes,
        };
        let (spans, ivs) = (spans(mode), ivs(mode));
        let input: Vec<u8> = (0..SIZE).map(|i| i as u8).collect();
        let (mut sealed, mut opened) = (vec![0; SIZE], vec![0; SIZE]);
        let mut tags = [0; 64];
        let mut run = |encrypt: bool, input: &[u8], output: &mut [u8]| {
            let text = Text::Apart {
                input,
                input_spans: Spans::Ragged(&spans),
                output,
                output_spans: Spans::Ragged(&spans),
            };
            let batch = match encrypt {
                true => Batch::encrypt(keys, text),
                false => Batch::decrypt(keys, text),
            };
            let batch = match algorithm.is_aead() {
                true => batch.tags(Tags::Apart(&mut tags)),
                false => batch,
            };
            engine.run(batch.ivs(Ivs::Each(&ivs))).unwrap();
        };
        run(true, &input, &mut sealed);
        run(false, &sealed, &mut opened);
        for Span { offset, len } in spans {
            assert_eq!(
                opened[offset..][..len],
                input[offset..][..len],
                "{algorithm}"
            );
        }
    }
}

#[test]
fn a_forgery_among_four() {
    let engine = engine();
    let key = Key::new(Algorithm::Aes128Gcm, &[3; 16]).unwrap();
    let mut buffer = vec![5; 4 * 40];
    let spans = Spans::Even {
        count: 4,
        len: 20,
        stride: 40,
    };
    let seal = Batch::seal(Keys::One(&key), in_place(&mut buffer, spans));
    let mut nonces = [0; 48];
    engine.run(seal.ivs(Ivs::Random(&mut nonces))).unwrap();
    buffer[41] ^= 1;
    let open = Batch::open(Keys::One(&key), in_place(&mut buffer, spans));
    let refused = engine.run(open.ivs(Ivs::Each(&nonces))).unwrap_err();
    assert!(matches!(refused, Error::Authentication { failed, total: 4 } if failed == [1]));
    assert_eq!(buffer[..20], [5; 20]);
    assert_eq!(buffer[40..60], [0; 20]);
}
