//! Batches that must not become plans.

use super::super::check::Checked;
use super::super::{DeviceAad, DeviceBatch, DeviceIvs, DeviceKeys, DeviceTags, DeviceText};
use super::{apart, even, region};
use crate::{Algorithm, Direction, Key, Keys, Span, Spans};

fn key(algorithm: Algorithm) -> Key {
    Key::generate(algorithm).unwrap()
}

fn refusal(batch: DeviceBatch<'_>) -> String {
    match Checked::new(batch) {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn overlaps_in_gpu_memory_are_refused() {
    let gcm = key(Algorithm::Aes128Gcm);
    let text = apart(4, 100);
    let ivs = DeviceIvs::Each(region(0x100, 48));
    let tags = DeviceTags::Apart(region(0x200, 64));
    let good = DeviceBatch::encrypt(&gcm, text).ivs(ivs).tags(tags);
    assert!(Checked::new(good).is_ok());

    let on_output = region(0x1000_0000 + 399, 64);
    let error = refusal(good.tags(DeviceTags::Apart(on_output)));
    assert!(error.contains("the output and the tags overlap"), "{error}");
    let error = refusal(good.tags(DeviceTags::Apart(region(0x100 + 47, 64))));
    assert!(error.contains("the tags and the IVs overlap"), "{error}");
    let error = refusal(good.ivs(DeviceIvs::Each(region(0x1000_0000, 48))));
    assert!(error.contains("the output and the IVs"), "{error}");
    let error = refusal(good.aad(DeviceAad::Shared(region(0x1000_0001, 1))));
    assert!(error.contains("associated data"), "{error}");
    // When opening, tags are only read, and may be anywhere but in the output.
    let open = DeviceBatch {
        direction: Direction::Decrypt,
        ..good
    };
    assert!(Checked::new(open.tags(DeviceTags::Apart(region(0x100, 64)))).is_ok());
    assert!(refusal(open.tags(DeviceTags::Apart(on_output))).contains("the tags"));

    let half = DeviceText::Apart {
        input: region(0x1000, 64),
        input_spans: even(4, 16),
        output: region(0x1000 + 32, 64),
        output_spans: even(4, 16),
    };
    let ecb = key(Algorithm::Aes128Ecb);
    let error = refusal(DeviceBatch::encrypt(&ecb, half));
    assert!(error.contains("the output and the input"), "{error}");
    let each = DeviceKeys::Each {
        algorithm: Algorithm::Aes128Ecb,
        bytes: region(0x1000_0000 + 63, 64),
    };
    let error = refusal(DeviceBatch::encrypt(each, apart(4, 16)));
    assert!(error.contains("the output and the keys"), "{error}");
}

#[test]
fn lengths_and_places_are_checked_as_in_host_memory() {
    let ecb = key(Algorithm::Aes128Ecb);
    assert!(refusal(DeviceBatch::encrypt(&ecb, apart(2, 17))).contains("a multiple of 16"));
    let outside = DeviceText::InPlace {
        buffer: region(0x1000, 100),
        spans: Spans::Ragged(&[Span {
            offset: 96,
            len: 16,
        }]),
    };
    assert!(refusal(DeviceBatch::encrypt(&ecb, outside)).contains("lie outside the input"));
    let twice = DeviceText::InPlace {
        buffer: region(0x1000, 100),
        spans: Spans::Ragged(&[
            Span { offset: 0, len: 32 },
            Span {
                offset: 16,
                len: 16,
            },
        ]),
    };
    assert!(refusal(DeviceBatch::encrypt(&ecb, twice)).contains("overlaps another message"));
    let tags = DeviceTags::Apart(region(0x10, 32));
    assert!(refusal(DeviceBatch::encrypt(&ecb, apart(2, 16)).tags(tags)).contains("no tags"));
    let aad = DeviceAad::Shared(region(0x10, 32));
    assert!(refusal(DeviceBatch::encrypt(&ecb, apart(2, 16)).aad(aad)).contains("no associated"));
    let uneven = DeviceText::Apart {
        input: region(0x1000, 64),
        input_spans: even(4, 16),
        output: region(0x2000, 64),
        output_spans: even(2, 32),
    };
    assert!(refusal(DeviceBatch::encrypt(&ecb, uneven)).contains("4 messages but 2"));
    let many = DeviceText::InPlace {
        buffer: region(0x1000, 0),
        spans: even(1 << 32, 0),
    };
    assert!(refusal(DeviceBatch::encrypt(&ecb, many)).contains("too many"));
}

#[test]
fn ivs_tags_and_keys_are_checked_as_in_host_memory() {
    let ctr = key(Algorithm::Aes256Ctr);
    let batch = DeviceBatch::encrypt(&ctr, apart(2, 16));
    assert!(refusal(batch).contains("a start counter of 16 bytes, not 0"));
    let short = DeviceIvs::Each(region(0x10, 24));
    assert!(refusal(batch.ivs(short)).contains("16 bytes each need 32"));
    let odd = DeviceIvs::Each(region(0x10, 33));
    assert!(refusal(batch.ivs(odd)).contains("IVs"));
    let sectors = DeviceIvs::Sectors { first: 3 };
    assert!(refusal(batch.ivs(sectors)).contains("only XTS"));
    let xts = key(Algorithm::Aes128Xts);
    assert!(Checked::new(DeviceBatch::encrypt(&xts, apart(2, 17)).ivs(sectors)).is_ok());

    let gcm = key(Algorithm::Aes128Gcm);
    let ivs = DeviceIvs::Each(region(0x10, 24));
    let seal = DeviceBatch::encrypt(&gcm, apart(2, 16)).ivs(ivs);
    // No room for tags after the texts.
    assert!(refusal(seal).contains("and a tag of 16 bytes"));
    let tags = DeviceTags::Apart(region(0x100, 31));
    assert!(refusal(seal.tags(tags)).contains("tags"));
    assert!(refusal(seal.tag_len(8)).contains("12 to 16 to seal"));

    // The content is unknown, but it is the same.
    let places = [Span { offset: 0, len: 12 }; 2];
    let same = DeviceIvs::Ragged {
        bytes: region(0x10, 24),
        spans: Spans::Ragged(&places),
    };
    let tags = DeviceTags::Apart(region(0x100, 32));
    let seal = seal.tags(tags).ivs(same);
    let error = refusal(seal);
    assert!(
        error.starts_with("messages 0 and 1 have the same place"),
        "{error}"
    );
    let open = DeviceBatch::decrypt(&gcm, apart(2, 16));
    assert!(Checked::new(open.tags(tags).ivs(same)).is_ok());
    let two = [key(Algorithm::Aes128Gcm), key(Algorithm::Aes128Gcm)];
    let indexed = Keys::Indexed {
        keys: &two,
        index: &[0, 1],
    };
    let seal = DeviceBatch {
        keys: indexed.into(),
        ..seal
    };
    assert!(Checked::new(seal).is_ok());
    let long = DeviceIvs::Each(region(0x10, 24));
    let one = DeviceBatch::encrypt(&gcm, apart(1, 16)).tags(DeviceTags::Apart(region(0x100, 16)));
    assert!(refusal(one.ivs(long)).contains("12 bytes each need 12 (nonces of another length"));

    let equal = Keys::Each {
        algorithm: Algorithm::Aes128Xts,
        bytes: &[1; 64],
    };
    let seal = DeviceBatch::encrypt(equal, apart(2, 16)).ivs(sectors);
    assert!(refusal(seal).starts_with("message 0: both halves"));

    let few = DeviceKeys::Each {
        algorithm: Algorithm::Aes128Ecb,
        bytes: region(0x10, 31),
    };
    assert!(refusal(DeviceBatch::encrypt(few, apart(2, 16))).contains("keys"));
    let none = Keys::Indexed {
        keys: &[],
        index: &[],
    };
    assert!(refusal(DeviceBatch::encrypt(none, apart(2, 16))).contains("empty table"));
}
