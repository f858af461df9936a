//! Batches whose parts do not fit together: the right error, and not one byte changed.

mod parts;
mod places;

use warplock::{Algorithm, Batch, BatchProblem, Error, Ivs, Key, Keys, Lack, Span, Spans, Text};

use crate::common::engines;

/// What a batch borrows: buffers of 256 bytes of text, four tags.
struct Parts {
    gcm: Key,
    cbc: Key,
    ctr: Key,
    ecb: Key,
    xts: Key,
    two: [Key; 2],
    mixed: [Key; 2],
    input: Vec<u8>,
    output: Vec<u8>,
    tags: Vec<u8>,
    ivs: Vec<u8>,
}

impl Parts {
    fn new() -> Self {
        let key = |name| Key::generate(name).unwrap();
        Parts {
            gcm: key(Algorithm::Aes128Gcm),
            cbc: key(Algorithm::Aes128Cbc),
            ctr: key(Algorithm::Aes128Ctr),
            ecb: key(Algorithm::Aes128Ecb),
            xts: key(Algorithm::Aes128Xts),
            two: [key(Algorithm::Aes128Ecb), key(Algorithm::Aes128Ecb)],
            mixed: [key(Algorithm::Aes128Ecb), key(Algorithm::Aes256Ecb)],
            input: vec![0x11; 256],
            output: vec![0x22; 256],
            tags: vec![0x33; 64],
            ivs: (0..=255).collect(),
        }
    }
}

/// How a batch must be refused; the text is a part of the error's sentence.
enum Refusal {
    Batch(&'static str),
    Message(usize, &'static str),
}
use Refusal::{Batch as Whole, Message as One};

type Build = for<'a> fn(&'a mut Parts) -> Batch<'a>;

/// A mistake, the refusal it must meet, and a batch that makes it.
type Mistake = (&'static str, Refusal, Build);

fn check(mistakes: &[Mistake]) {
    for engine in engines(&[1, 2]) {
        for (name, expected, batch) in mistakes {
            let mut parts = Parts::new();
            let error = match engine.run(batch(&mut parts)) {
                Ok(()) => panic!("{name}: not refused"),
                Err(error) => error,
            };
            let (right, part) = match (expected, &error) {
                (Whole(part), Error::Batch { message, .. }) => (message.is_none(), part),
                (One(place, part), Error::Batch { message, .. }) => {
                    (*message == Some(*place), part)
                }
                (Whole(part) | One(_, part), _) => (false, part),
            };
            assert!(right, "{name}: another error: {error:?}");
            assert!(error.to_string().contains(part), "{name}: {error}");
            let before = Parts::new();
            assert_eq!(parts.output, before.output, "{name}: the output changed");
            assert_eq!(parts.tags, before.tags, "{name}: the tags changed");
            assert_eq!(parts.ivs, before.ivs, "{name}: the IVs changed");
        }
    }
}

fn even(count: usize, len: usize, stride: usize) -> Spans<'static> {
    Spans::Even { count, len, stride }
}

const fn span(offset: usize, len: usize) -> Span {
    Span { offset, len }
}

fn place<'a>(buffer: &'a mut [u8], spans: Spans<'a>) -> Text<'a> {
    Text::InPlace { buffer, spans }
}

fn apart<'a>(input: &'a [u8], from: Spans<'a>, output: &'a mut [u8], to: Spans<'a>) -> Text<'a> {
    Text::Apart {
        input,
        input_spans: from,
        output,
        output_spans: to,
    }
}

#[test]
fn programs_can_tell_what_is_wrong() {
    use BatchProblem::*;

    /// A batch, and what its problem must be.
    type Case = (Build, fn(&BatchProblem) -> bool);
    let cases: [Case; 9] = [
        (
            |p| {
                let keys = Keys::Indexed {
                    keys: &p.two,
                    index: &[2],
                };
                Batch::encrypt(keys, place(&mut p.output, even(1, 16, 16)))
            },
            |problem| matches!(problem, KeyNumber { number: 2, keys: 2 }),
        ),
        (
            |p| {
                let keys = Keys::Indexed {
                    keys: &p.mixed,
                    index: &[0],
                };
                Batch::encrypt(keys, place(&mut p.output, even(1, 16, 16)))
            },
            |problem| matches!(problem, MixedKeys),
        ),
        (
            |p| Batch::encrypt(Keys::One(&p.ctr), place(&mut p.output, even(1, 16, 16))),
            |problem| {
                matches!(
                    problem,
                    IvLength {
                        algorithm: Algorithm::Aes128Ctr,
                        found: 0
                    }
                )
            },
        ),
        (
            |p| {
                let text = place(&mut p.output, even(2, 16, 32));
                Batch::seal(Keys::One(&p.gcm), text).ivs(Ivs::Each(&p.ivs[..25]))
            },
            |problem| {
                matches!(
                    problem,
                    ArrayLength {
                        each: 12,
                        found: 25,
                        any_iv: true,
                        ..
                    }
                )
            },
        ),
        (
            |p| {
                let text = place(&mut p.output, even(1, 16, 16));
                Batch::seal(Keys::One(&p.gcm), text).tag_len(11)
            },
            |problem| matches!(problem, TagLength { found: 11, .. }),
        ),
        (
            |p| Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, even(1, 15, 15))),
            |problem| matches!(problem, TextLength { found: 15, .. }),
        ),
        (
            |p| Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, even(1, 272, 0))),
            |problem| {
                matches!(
                    problem,
                    OutOfBounds {
                        offset: 0,
                        len: 272,
                        buffer: 256,
                        ..
                    }
                )
            },
        ),
        (
            |p| Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, even(2, 32, 16))),
            |problem| matches!(problem, ResultsOverlap),
        ),
        (
            |p| Batch::seal(Keys::One(&p.ctr), place(&mut p.output, even(1, 16, 16))),
            |problem| {
                matches!(
                    problem,
                    Unsupported {
                        lack: Lack::Authentication,
                        ..
                    }
                )
            },
        ),
    ];
    let engine = &engines(&[1])[0];
    for (number, (batch, expected)) in cases.iter().enumerate() {
        match engine.run(batch(&mut Parts::new())) {
            Err(Error::Batch { problem, .. }) if expected(&problem) => {}
            other => panic!("case {number}: {other:?}"),
        }
    }
}

#[test]
fn tag_lengths() {
    let mut parts = Parts::new();
    for engine in engines(&[1]) {
        for len in 0..40 {
            let seal = Batch::seal(
                Keys::One(&parts.gcm),
                place(&mut parts.output, even(1, 0, 0)),
            );
            let sealed = engine.run(seal.ivs(Ivs::Each(&[0; 12])).tag_len(len));
            match sealed {
                Ok(()) => assert!((12..=16).contains(&len), "{len}"),
                Err(Error::Batch { .. }) => assert!(!(12..=16).contains(&len), "{len}"),
                Err(error) => panic!("{len}: {error}"),
            }
            let opened = [4, 8, 12, 13, 14, 15, 16].contains(&len);
            let open = Batch::open(
                Keys::One(&parts.gcm),
                place(&mut parts.output, even(1, 0, 0)),
            );
            match engine.run(open.ivs(Ivs::Each(&[1; 12])).tag_len(len)) {
                Err(Error::Authentication { .. }) => assert!(opened, "{len}"),
                Err(Error::Batch { .. }) => assert!(!opened, "{len}"),
                other => panic!("{len}: {other:?}"),
            }
        }
    }
}

/// Unusual but right: nothing here is refused.
#[test]
fn what_fits_is_accepted() {
    let batches: [(&str, Build); 6] = [
        ("no message", |p| {
            Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(0, 100, 0)))
        }),
        ("the same input twice", |p| {
            let text = apart(&p.input, even(3, 32, 0), &mut p.output, even(3, 32, 32));
            Batch::encrypt(Keys::One(&p.ecb), text)
        }),
        ("empty messages at one place and at the end", |p| {
            let spans = Spans::Ragged(const { &[span(256, 0), span(8, 0), span(8, 0)] });
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
        }),
        ("an empty message in another", |p| {
            let spans = Spans::Ragged(const { &[span(0, 64), span(32, 0), span(64, 16)] });
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
        }),
        ("one IV for all, by overlapping spans", |p| {
            let batch = Batch::encrypt(Keys::One(&p.cbc), place(&mut p.output, even(4, 16, 16)));
            batch.ivs(Ivs::Ragged {
                bytes: &p.ivs,
                spans: even(4, 16, 0),
            })
        }),
        ("empty XTS units", |p| {
            let batch = Batch::encrypt(Keys::One(&p.xts), place(&mut p.output, even(3, 0, 0)));
            batch.ivs(Ivs::Sectors { first: u128::MAX })
        }),
    ];
    for engine in engines(&[1, 2]) {
        for (name, batch) in batches {
            let mut parts = Parts::new();
            if let Err(error) = engine.run(batch(&mut parts)) {
                panic!("{name}: {error}");
            }
        }
    }
}
