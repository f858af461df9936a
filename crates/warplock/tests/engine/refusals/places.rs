//! Texts of a wrong length, spans outside their buffers, and spans that overlap.

use warplock::{Algorithm, Batch, Engine, Ivs, Key, Keys, Spans, Text};

use super::{One, Whole, apart, check, even, place, span};

#[test]
fn texts() {
    check(&[
        ("ECB of a partial block", One(0, "multiple of 16"), |p| {
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, even(2, 15, 16)))
        }),
        ("CBC of a partial block", One(1, "multiple of 16"), |p| {
            let spans = Spans::Ragged(const { &[span(0, 16), span(16, 17), span(64, 16)] });
            let batch = Batch::decrypt(Keys::One(&p.cbc), place(&mut p.output, spans));
            batch.ivs(Ivs::Each(&p.ivs[..48]))
        }),
        (
            "XTS of less than a block",
            One(2, "at least 16 bytes"),
            |p| {
                let spans = Spans::Ragged(const { &[span(0, 16), span(16, 0), span(32, 15)] });
                let batch = Batch::encrypt(Keys::One(&p.xts), place(&mut p.output, spans));
                batch.ivs(Ivs::Sectors { first: 0 })
            },
        ),
        (
            "GCM beyond 2^36 - 32 bytes",
            One(0, "at most 68,719,476,704"),
            |p| {
                let spans = Spans::one((1 << 36) - 31);
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, spans));
                batch.ivs(Ivs::Each(&p.ivs[..12]))
            },
        ),
        (
            "fewer places than texts",
            Whole("3 messages but 2 places"),
            |p| {
                let text = apart(&p.input, even(3, 16, 16), &mut p.output, even(2, 16, 16));
                Batch::encrypt(Keys::One(&p.ecb), text)
            },
        ),
        (
            "more places than texts",
            Whole("2 messages but 3 places"),
            |p| {
                let text = apart(&p.input, even(2, 16, 16), &mut p.output, even(3, 16, 16));
                Batch::encrypt(Keys::One(&p.ecb), text)
            },
        ),
        (
            "a place that is too small",
            One(1, "32 bytes of text but 16 bytes of room"),
            |p| {
                let from = Spans::Ragged(const { &[span(0, 16), span(16, 32)] });
                let to = Spans::Ragged(const { &[span(0, 16), span(16, 16)] });
                Batch::encrypt(Keys::One(&p.ecb), apart(&p.input, from, &mut p.output, to))
            },
        ),
        (
            "a place that is too large",
            One(0, "16 bytes of text but 32 bytes of room"),
            |p| {
                let text = apart(&p.input, even(2, 16, 16), &mut p.output, even(2, 32, 32));
                Batch::encrypt(Keys::One(&p.ecb), text)
            },
        ),
    ]);
}

#[test]
fn spans_outside() {
    check(&[
        ("one block too many", One(16, "outside the input"), |p| {
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, even(17, 16, 16)))
        }),
        (
            "a ragged span beyond the end",
            One(1, "outside the input"),
            |p| {
                let spans = Spans::Ragged(const { &[span(0, 16), span(241, 16), span(16, 16)] });
                Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
            },
        ),
        (
            "an empty span beyond the end",
            One(0, "outside the input"),
            |p| {
                let spans = Spans::Ragged(const { &[span(257, 0)] });
                Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
            },
        ),
        (
            "an offset that overflows",
            One(1, "outside the input"),
            |p| {
                let spans = Spans::Ragged(const { &[span(0, 16), span(usize::MAX - 15, 16)] });
                Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
            },
        ),
        ("the largest offset", One(0, "outside the input"), |p| {
            let spans = Spans::Ragged(const { &[span(usize::MAX, 0)] });
            Batch::encrypt(Keys::One(&p.ctr), place(&mut p.output, spans)).ivs(Ivs::Each(&[0; 16]))
        }),
        ("the largest length", One(0, "outside the input"), |p| {
            let spans = Spans::Ragged(const { &[span(1, usize::MAX)] });
            Batch::encrypt(Keys::One(&p.ctr), place(&mut p.output, spans)).ivs(Ivs::Each(&[0; 16]))
        }),
        (
            "a stride that overflows",
            One(2, "outside the input"),
            |p| {
                let spans = even(3, 16, usize::MAX / 2 + 8);
                Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
            },
        ),
        ("the largest stride", One(1, "outside the input"), |p| {
            Batch::encrypt(
                Keys::One(&p.ecb),
                place(&mut p.output, even(2, 16, usize::MAX)),
            )
        }),
        (
            "the largest count",
            One(usize::MAX - 1, "outside the input"),
            |p| {
                Batch::encrypt(
                    Keys::One(&p.ecb),
                    place(&mut p.output, even(usize::MAX, 16, 16)),
                )
            },
        ),
        (
            "no room for the tag",
            One(0, "and a tag of 16 bytes"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(1, 241, 0)));
                batch.ivs(Ivs::Each(&p.ivs[..12]))
            },
        ),
        ("a tag that overflows", One(0, "outside the input"), |p| {
            let spans = Spans::Ragged(const { &[span(usize::MAX - 20, 10)] });
            let batch = Batch::open(Keys::One(&p.gcm), place(&mut p.output, spans));
            batch.ivs(Ivs::Each(&p.ivs[..12]))
        }),
        (
            "no tag after the ciphertext",
            One(0, "outside the input"),
            |p| {
                let text = apart(&p.input, even(1, 241, 0), &mut p.output, even(1, 241, 0));
                Batch::open(Keys::One(&p.gcm), text).ivs(Ivs::Each(&p.ivs[..12]))
            },
        ),
        ("an output too short", One(0, "outside the output"), |p| {
            Batch::encrypt(
                Keys::One(&p.ecb),
                Text::apart(&p.input, &mut p.output[..240]),
            )
        }),
        (
            "an output too short for the tag",
            One(0, "outside the output"),
            |p| {
                let text = Text::apart(&p.input[..241], &mut p.output);
                Batch::seal(Keys::One(&p.gcm), text).ivs(Ivs::Each(&p.ivs[..12]))
            },
        ),
        (
            "output spans that overflow",
            One(1, "outside the output"),
            |p| {
                let to = Spans::Ragged(const { &[span(0, 16), span(usize::MAX - 7, 16)] });
                let text = apart(&p.input, even(2, 16, 16), &mut p.output, to);
                Batch::encrypt(Keys::One(&p.ecb), text)
            },
        ),
    ]);
}

/// A count from a broken header must not keep the machine busy for years.
#[test]
fn huge_counts_are_refused_without_delay() {
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        check(&[(
            "the largest count, apart",
            One(usize::MAX - 1, "outside the input"),
            |p| {
                let spans = even(usize::MAX, 16, 16);
                let text = apart(&p.input, spans, &mut p.output, spans);
                Batch::encrypt(Keys::One(&p.ecb), text)
            },
        )]);
        done.send(()).unwrap();
    });
    let limit = std::time::Duration::from_secs(5);
    waiting.recv_timeout(limit).expect("refused within seconds");
}

#[test]
fn overlaps() {
    check(&[
        ("a stride below the length", One(1, "overlaps"), |p| {
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, even(2, 32, 31)))
        }),
        ("a stride of nothing", One(1, "overlaps"), |p| {
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, even(4, 16, 0)))
        }),
        ("tags without room between", One(1, "overlaps"), |p| {
            let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(2, 16, 31)));
            batch.ivs(Ivs::Each(&p.ivs[..24]))
        }),
        (
            "a text written over the next tag to read",
            One(1, "overlaps"),
            |p| {
                let batch = Batch::open(Keys::One(&p.gcm), place(&mut p.output, even(2, 16, 31)));
                batch.ivs(Ivs::Each(&p.ivs[..24]))
            },
        ),
        ("two ragged spans", One(2, "overlaps"), |p| {
            let spans = Spans::Ragged(const { &[span(32, 32), span(0, 16), span(48, 16)] });
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
        }),
        ("the same span twice", One(1, "overlaps"), |p| {
            let spans = Spans::Ragged(const { &[span(32, 16), span(32, 16)] });
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
        }),
        ("a span in another", One(1, "overlaps"), |p| {
            let spans = Spans::Ragged(const { &[span(0, 64), span(16, 16), span(64, 0)] });
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
        }),
        ("a far span in a long one", One(2, "overlaps"), |p| {
            let spans = Spans::Ragged(const { &[span(0, 128), span(20, 0), span(112, 16)] });
            Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, spans))
        }),
        ("two results", One(1, "overlaps"), |p| {
            let to = Spans::Ragged(const { &[span(0, 16), span(15, 16)] });
            let text = apart(&p.input, even(2, 16, 16), &mut p.output, to);
            Batch::encrypt(Keys::One(&p.ecb), text)
        }),
        ("the tags of empty texts", One(1, "overlaps"), |p| {
            let spans = Spans::Ragged(const { &[span(0, 0), span(15, 0)] });
            let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, spans));
            batch.ivs(Ivs::Each(&p.ivs[..24]))
        }),
    ]);
}

/// Nor must a count of nothing: there is no work in it.
#[test]
fn any_number_of_empty_messages_takes_no_time() {
    let key = Key::generate(Algorithm::Aes128Ecb).unwrap();
    let mut nothing = [];
    let batch = Batch::encrypt(Keys::One(&key), place(&mut nothing, even(usize::MAX, 0, 0)));
    Engine::new().unwrap().run(batch).unwrap();
}
