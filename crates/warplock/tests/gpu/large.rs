//! Buffers beyond 4 GiB.

use warplock::{Algorithm, Batch, Direction, Engine, Ivs, Key, Keys, Span, Text};

use crate::random::Random;
use crate::sample::Sample;
use crate::{cpu, gpu};

/// Past 2^32 bytes by more than a chunk of the largest size, and no multiple of anything.
const LEN: usize = (4 << 30) + (40 << 20) + 5;

/// Random bytes, fast.
fn noise(cpu: &Engine) -> Vec<u8> {
    let key = Key::new(Algorithm::Aes128Ctr, &[0x3C; 16]).unwrap();
    let mut bytes = vec![0; LEN];
    let batch = Batch::encrypt(Keys::One(&key), Text::in_place(&mut bytes));
    cpu.run(batch.ivs(Ivs::Each(&[9; 16]))).unwrap();
    bytes
}

fn compare(algorithm: Algorithm, spans: impl Fn() -> Vec<Span>) {
    let (Some(gpu), cpu) = (gpu(), cpu()) else {
        return;
    };
    let sample = Sample::new(&mut Random::new(8), algorithm, spans(), 1);
    let plain = noise(&cpu);
    let encrypt = Direction::Encrypt;
    let wanted = sample.run(&cpu, encrypt, None, plain.clone(), sample.tags());
    let found = sample.run(&gpu, encrypt, Some(&plain), vec![0; LEN], sample.tags());
    assert!(found.tags == wanted.tags, "{algorithm}: tags");
    for span in &sample.spans {
        let place = span.offset..span.offset + span.len;
        let (found, wanted) = (&found.text[place.clone()], &wanted.text[place]);
        let wrong = found.iter().zip(wanted).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{algorithm}: first wrong byte of {span:?}");
    }
    drop(wanted);
    // In place.
    let back = sample.run(&gpu, Direction::Decrypt, None, found.text, found.tags);
    assert!(back.refused.is_empty(), "{algorithm}");
    for span in &sample.spans {
        let place = span.offset..span.offset + span.len;
        assert!(
            back.text[place.clone()] == plain[place],
            "{algorithm}: {span:?}"
        );
    }
}

#[test]
#[ignore = "takes 13 GiB of memory"]
fn ctr_of_one_message() {
    compare(Algorithm::Aes128Ctr, || {
        vec![Span {
            offset: 0,
            len: LEN,
        }]
    });
}

#[test]
#[ignore = "takes 13 GiB of memory"]
fn gcm_of_one_message() {
    compare(Algorithm::Aes256Gcm, || {
        vec![Span {
            offset: 0,
            len: LEN,
        }]
    });
}

#[test]
#[ignore = "takes 13 GiB of memory"]
fn gcm_of_many_messages() {
    // Ragged, and across 2^32.
    let each = 1_000_003;
    let spans = || {
        let span = |place: usize| Span {
            offset: place * each,
            len: each - place % 4000,
        };
        (0..LEN / each).map(span).collect()
    };
    compare(Algorithm::Aes128Gcm, spans);
}
