//! ACORN-128 v3: the vectors of its specification and of four authors' implementations. The lanes
//! of each kind of vectors are tested next to the code, as `cpu:NAME` does not choose them.

use serde_json::Value;
use sha2::{Digest, Sha256};
use warplock::{Aad, Algorithm, Batch, Engine, Error, Ivs, Keys, Span, Spans, Tags, Text};

use crate::common::case::{Case, check};
use crate::common::engines;
use crate::common::vectors::{json, json_bytes, records};

/// The cases of a file with `CT` = ciphertext and tag.
fn file(name: &str) -> Vec<Case> {
    let case = |record: crate::common::vectors::Record| {
        let mut cipher = record.bytes("ct");
        let tag = cipher.split_off(cipher.len() - 16);
        Case {
            name: record.name.clone(),
            algorithm: Algorithm::Acorn128,
            key: record.bytes("key"),
            iv: record.bytes("nonce"),
            aad: record.bytes("ad"),
            plain: record.bytes("pt"),
            cipher,
            tag,
            forged: false,
        }
    };
    records(&format!("acorn/{name}"))
        .into_iter()
        .map(case)
        .collect()
}

#[test]
fn specification() {
    assert_eq!(check(&file("acorn128v3_spec_kat.rsp")), 6);
}

#[test]
fn texts_and_associated_data_of_0_to_32_bytes() {
    let cases = file("acorn128v3_lwc_style_kat_128_128.txt");
    assert_eq!(check(&cases), 1089);
}

#[test]
fn random_messages() {
    assert_eq!(check(&file("acorn128v3_random_shared.rsp")), 372);
}

#[test]
fn forgeries() {
    let file = json("acorn/acorn128v3_negative_shared.json");
    let tests = file["tests"].as_array().unwrap();
    let cases: Vec<Case> = tests
        .iter()
        .map(|test| {
            assert_eq!(test["result"], "invalid");
            Case {
                name: format!("forgery {}", test["id"]),
                algorithm: Algorithm::Acorn128,
                key: json_bytes(test, "key"),
                iv: json_bytes(test, "nonce"),
                aad: json_bytes(test, "ad"),
                plain: Vec::new(),
                cipher: json_bytes(test, "ct"),
                tag: json_bytes(test, "tag"),
                forged: true,
            }
        })
        .collect();
    assert_eq!(check(&cases), 300);
}

/// The first bytes of the stream that the batches' file describes: splitmix64.
fn stream(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut state = seed;
    while bytes.len() < len {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend((z ^ (z >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn seed(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap(), 16).unwrap()
}

/// Where the messages lie: one after the other.
fn spans(value: &Value, count: usize) -> Vec<Span> {
    let lens: Vec<usize> = match value["fixed"].as_u64() {
        Some(len) => vec![len as usize; count],
        None => {
            let most = value["max"].as_u64().unwrap() as usize;
            let words = stream(seed(&value["seed"]), 4 * count);
            let words = words.as_chunks::<4>().0.iter();
            let word = |word: &[u8; 4]| u32::from_le_bytes(*word) as usize;
            words.map(|bytes| word(bytes) % (most + 1)).collect()
        }
    };
    let mut end = 0;
    let next = |len| {
        end += len;
        Span {
            offset: end - len,
            len,
        }
    };
    lens.into_iter().map(next).collect()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Seals and opens the batches whose total length passes, on all of the engines; one message of
/// each is then forged. Gives how many batches there were.
fn batches(engines: &[Engine], wanted: impl Fn(u64) -> bool) -> usize {
    let file = json("acorn/acorn128v3_batch_shared.json");
    let tests = file["tests"].as_array().unwrap().iter();
    let total =
        |test: &Value| test["total_pt"].as_u64().unwrap() + test["total_ad"].as_u64().unwrap();
    let tests: Vec<&Value> = tests.filter(|test| wanted(total(test))).collect();
    for test in &tests {
        let name = format!("batch {}", test["id"]);
        let count = test["n"].as_u64().unwrap() as usize;
        let len = |field: &str| test[field].as_u64().unwrap() as usize;
        let keys = stream(seed(&test["seed_key"]), 16 * count);
        let nonces = stream(seed(&test["seed_nonce"]), 16 * count);
        let aad = stream(seed(&test["seed_ad"]), len("total_ad"));
        let plain = stream(seed(&test["seed_pt"]), len("total_pt"));
        let (spans, aad_spans) = (spans(&test["pt_len"], count), spans(&test["ad_len"], count));
        for engine in engines {
            let mut text = plain.clone();
            let mut tags = vec![0; 16 * count];
            let mut run = |sealing: bool, text: &mut [u8]| {
                let keys = Keys::Each {
                    algorithm: Algorithm::Acorn128,
                    bytes: &keys,
                };
                let text = Text::InPlace {
                    buffer: text,
                    spans: Spans::Ragged(&spans),
                };
                let batch = match sealing {
                    true => Batch::seal(keys, text).tags(Tags::Apart(&mut tags)),
                    false => Batch::open(keys, text).tags(Tags::Given(&tags)),
                };
                let aad = Aad::Each {
                    bytes: &aad,
                    spans: Spans::Ragged(&aad_spans),
                };
                let ran = engine.run(batch.ivs(Ivs::Each(&nonces)).aad(aad));
                if sealing {
                    assert_eq!(sha256(&tags), test["sha256_tags"], "{name}");
                    ran.unwrap();
                    // For the way back.
                    tags[16 * (count / 2)] ^= 1;
                    return;
                }
                let refused = ran.unwrap_err();
                let right = matches!(
                    refused,
                    Error::Authentication { failed, total } if failed == [count / 2] && total == count
                );
                assert!(right, "{name}");
            };
            run(true, &mut text);
            assert_eq!(sha256(&text), test["sha256_ct"], "{name}");
            run(false, &mut text);
            let mut expected = plain.clone();
            let Span { offset, len } = spans[count / 2];
            expected[offset..][..len].fill(0);
            assert!(text == expected, "{name}");
        }
    }
    tests.len()
}

/// Up to 8,192 messages and 5 MB.
#[test]
fn batches_by_seed() {
    assert_eq!(batches(&engines(&[1, 2]), |total| total < 5_000_000), 59);
}

/// Up to 262,144 messages and 70 MB: half a minute.
#[test]
#[ignore = "230 MB of text on every instruction set"]
fn long_batches_by_seed() {
    assert_eq!(batches(&engines(&[2]), |total| total >= 5_000_000), 8);
}
