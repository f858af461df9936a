//! Keys, IVs, tags and associated data that do not fit the batch.

use warplock::{Aad, Algorithm, Batch, Ivs, Keys, Spans, Tags};

use super::{One, Whole, check, even, place, span};

#[test]
fn keys() {
    check(&[
        ("no key at all", Whole("empty table of keys"), |p| {
            let keys = Keys::Indexed {
                keys: &[],
                index: &[],
            };
            Batch::encrypt(keys, place(&mut p.output, even(0, 0, 0)))
        }),
        ("a key too few", Whole("array of keys has 32 bytes"), |p| {
            let keys = Keys::Each {
                algorithm: Algorithm::Aes128Ecb,
                bytes: &p.ivs[..32],
            };
            Batch::encrypt(keys, place(&mut p.output, even(3, 16, 16)))
        }),
        (
            "half a key too much",
            Whole("array of keys has 40 bytes"),
            |p| {
                let keys = Keys::Each {
                    algorithm: Algorithm::Aes128Ecb,
                    bytes: &p.ivs[..40],
                };
                Batch::encrypt(keys, place(&mut p.output, even(2, 16, 16)))
            },
        ),
        (
            "a key number too few",
            Whole("2 messages but 1 key numbers"),
            |p| {
                let keys = Keys::Indexed {
                    keys: &p.two,
                    index: &[0],
                };
                Batch::encrypt(keys, place(&mut p.output, even(2, 16, 16)))
            },
        ),
        (
            "a key number too many",
            Whole("2 messages but 3 key numbers"),
            |p| {
                let keys = Keys::Indexed {
                    keys: &p.two,
                    index: &[0, 1, 0],
                };
                Batch::encrypt(keys, place(&mut p.output, even(2, 16, 16)))
            },
        ),
        (
            "a key that is not there",
            One(2, "key number 2, but the table has 2"),
            |p| {
                let keys = Keys::Indexed {
                    keys: &p.two,
                    index: &[0, 1, 2],
                };
                Batch::encrypt(keys, place(&mut p.output, even(3, 16, 16)))
            },
        ),
        ("a huge key number", One(0, "key number 4294967295"), |p| {
            let keys = Keys::Indexed {
                keys: &p.two,
                index: &[u32::MAX],
            };
            Batch::encrypt(keys, place(&mut p.output, even(1, 16, 16)))
        }),
        (
            "a key of XTS with equal halves",
            One(1, "both halves of this aes-128-xts key"),
            |p| {
                let keys = Keys::Each {
                    algorithm: Algorithm::Aes128Xts,
                    bytes: const { &[[1; 16], [2; 16], [3; 16], [3; 16]] }.as_flattened(),
                };
                let batch = Batch::encrypt(keys, place(&mut p.output, even(2, 16, 16)));
                batch.ivs(Ivs::Sectors { first: 0 })
            },
        ),
        ("keys of two algorithms", Whole("several algorithms"), |p| {
            let keys = Keys::Indexed {
                keys: &p.mixed,
                index: &[0, 0],
            };
            Batch::encrypt(keys, place(&mut p.output, even(2, 16, 16)))
        }),
    ]);
}

#[test]
fn tags_and_associated_data() {
    check(&[
        ("tags of CTR", Whole("makes no tags"), |p| {
            let batch = Batch::encrypt(Keys::One(&p.ctr), place(&mut p.output, even(1, 16, 16)));
            batch
                .ivs(Ivs::Each(&p.ivs[..16]))
                .tags(Tags::Apart(&mut p.tags))
        }),
        ("tags given to ECB", Whole("makes no tags"), |p| {
            let batch = Batch::decrypt(Keys::One(&p.ecb), place(&mut p.output, even(1, 16, 16)));
            batch.tags(Tags::Given(&p.tags))
        }),
        (
            "tags to compare when sealing",
            Whole("sealing writes tags"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(4, 16, 16)));
                batch
                    .ivs(Ivs::Each(&p.ivs[..48]))
                    .tags(Tags::Given(&p.tags))
            },
        ),
        ("a tag too many", Whole("array of tags has 64 bytes"), |p| {
            let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(3, 16, 16)));
            batch
                .ivs(Ivs::Each(&p.ivs[..36]))
                .tags(Tags::Apart(&mut p.tags))
        }),
        (
            "tags of another length",
            Whole("array of tags has 64 bytes"),
            |p| {
                let batch = Batch::open(Keys::One(&p.gcm), place(&mut p.output, even(4, 16, 16)));
                batch
                    .ivs(Ivs::Each(&p.ivs[..48]))
                    .tags(Tags::Given(&p.tags))
                    .tag_len(12)
            },
        ),
        ("associated data of XTS", Whole("no associated data"), |p| {
            let batch = Batch::encrypt(Keys::One(&p.xts), place(&mut p.output, even(1, 16, 16)));
            batch.ivs(Ivs::Sectors { first: 0 }).aad(Aad::Shared(b"AD"))
        }),
        (
            "associated data of one message too few",
            Whole("4 messages but 3 spans"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(4, 16, 32)));
                let aad = Aad::Each {
                    bytes: &p.input,
                    spans: even(3, 10, 10),
                };
                batch.ivs(Ivs::Each(&p.ivs[..48])).aad(aad)
            },
        ),
        (
            "associated data outside",
            One(1, "outside the associated data"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(2, 16, 32)));
                let spans = Spans::Ragged(const { &[span(0, 10), span(250, 7)] });
                let aad = Aad::Each {
                    bytes: &p.input,
                    spans,
                };
                batch.ivs(Ivs::Each(&p.ivs[..24])).aad(aad)
            },
        ),
        (
            "associated data that overflows",
            One(0, "outside the associated data"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(1, 16, 32)));
                let spans = Spans::Ragged(const { &[span(usize::MAX, 7)] });
                let aad = Aad::Each {
                    bytes: &p.input,
                    spans,
                };
                batch.ivs(Ivs::Each(&p.ivs[..12])).aad(aad)
            },
        ),
    ]);
}

#[test]
fn ivs() {
    check(&[
        (
            "no IV for GCM",
            One(0, "needs an IV of at least one byte"),
            |p| Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(1, 16, 16))),
        ),
        (
            "empty IVs for GCM",
            Whole("array of IVs has 0 bytes"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(2, 16, 32)));
                batch.ivs(Ivs::Each(b""))
            },
        ),
        (
            "no start counter for CTR",
            One(0, "needs a start counter of 16"),
            |p| Batch::encrypt(Keys::One(&p.ctr), place(&mut p.output, even(1, 16, 16))),
        ),
        (
            "a nonce for a start counter",
            Whole("2 messages with 16 bytes each need 32"),
            |p| {
                let batch =
                    Batch::encrypt(Keys::One(&p.ctr), place(&mut p.output, even(2, 16, 16)));
                batch.ivs(Ivs::Each(&p.ivs[..24]))
            },
        ),
        ("an IV for ECB", One(0, "needs no IV"), |p| {
            let batch = Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, even(1, 16, 16)));
            batch.ivs(Ivs::Each(&p.ivs[..16]))
        }),
        (
            "IVs of unlike lengths in a row",
            Whole("array of IVs has 50 bytes"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(4, 16, 32)));
                batch.ivs(Ivs::Each(&p.ivs[..50]))
            },
        ),
        (
            "the nonces of two messages for one",
            Whole("1 messages with 12 bytes each need 12 (nonces of another length: Ivs::Ragged)"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(1, 16, 32)));
                batch.ivs(Ivs::Each(&p.ivs[..24]))
            },
        ),
        (
            "no room for a nonce to draw",
            Whole("2 messages with 12 bytes each need 24"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(2, 16, 32)));
                batch.ivs(Ivs::Random(&mut p.ivs[..12]))
            },
        ),
        ("nonces to draw for ECB", One(0, "needs no IV"), |p| {
            let batch = Batch::encrypt(Keys::One(&p.ecb), place(&mut p.output, even(1, 16, 16)));
            batch.ivs(Ivs::Random(&mut p.ivs[..16]))
        }),
        (
            "nonces to draw for decryption",
            Whole("Ivs::Random is for encryption"),
            |p| {
                let batch = Batch::open(Keys::One(&p.gcm), place(&mut p.output, even(1, 16, 32)));
                batch.ivs(Ivs::Random(&mut p.ivs[..12]))
            },
        ),
        (
            "IVs for no message",
            Whole("array of IVs has 16 bytes"),
            |p| {
                let batch =
                    Batch::encrypt(Keys::One(&p.ctr), place(&mut p.output, even(0, 16, 16)));
                batch.ivs(Ivs::Each(&p.ivs[..16]))
            },
        ),
        (
            "an IV too few",
            Whole("2 messages but 1 spans of IVs"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(2, 16, 32)));
                batch.ivs(Ivs::Ragged {
                    bytes: &p.ivs,
                    spans: even(1, 12, 12),
                })
            },
        ),
        ("an IV outside", One(1, "outside the IVs"), |p| {
            let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(2, 16, 32)));
            let spans = Spans::Ragged(const { &[span(0, 12), span(250, 12)] });
            batch.ivs(Ivs::Ragged {
                bytes: &p.ivs,
                spans,
            })
        }),
        (
            "a short IV among good ones",
            One(1, "an IV of 16 bytes, not 15"),
            |p| {
                let batch =
                    Batch::encrypt(Keys::One(&p.cbc), place(&mut p.output, even(3, 16, 16)));
                let spans = Spans::Ragged(const { &[span(0, 16), span(16, 15), span(32, 16)] });
                batch.ivs(Ivs::Ragged {
                    bytes: &p.ivs,
                    spans,
                })
            },
        ),
        (
            "an empty IV among good ones",
            One(2, "at least one byte"),
            |p| {
                let batch = Batch::seal(Keys::One(&p.gcm), place(&mut p.output, even(3, 16, 32)));
                let spans = Spans::Ragged(const { &[span(0, 12), span(12, 1), span(13, 0)] });
                batch.ivs(Ivs::Ragged {
                    bytes: &p.ivs,
                    spans,
                })
            },
        ),
        ("sectors of CBC", Whole("only XTS numbers them"), |p| {
            let batch = Batch::encrypt(Keys::One(&p.cbc), place(&mut p.output, even(1, 16, 16)));
            batch.ivs(Ivs::Sectors { first: 1 })
        }),
    ]);
}
