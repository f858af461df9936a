//! Vectors that are not NIST's: RFC 3686 and Botan for CTR, and our own random ones for all modes.

use serde_json::Value;
use sha2::{Digest, Sha256};
use warplock::{Algorithm, Batch, Direction, Ivs, Key, Keys, Mode, Spans, Tags, Text};

use crate::common::case::{Case, check};
use crate::common::layout::assert_same;
use crate::common::random::Random;
use crate::common::vectors::{json, json_bytes, records};
use crate::common::{algorithm, engines, oracle};

fn ctr(name: &str, key: Vec<u8>, iv: Vec<u8>, plain: Vec<u8>, cipher: Vec<u8>) -> Case {
    Case {
        name: name.to_owned(),
        algorithm: algorithm(Mode::Ctr, key.len()).unwrap(),
        key,
        iv,
        aad: Vec::new(),
        plain,
        cipher,
        tag: Vec::new(),
        forged: false,
    }
}

#[test]
fn ctr_of_rfc_3686() {
    let files = [128, 192, 256].map(|bits| records(&format!("aes/ctr/aes-{bits}-ctr.txt")));
    let cases: Vec<Case> = files
        .into_iter()
        .flatten()
        .map(|record| {
            ctr(
                &record.name,
                record.bytes("key"),
                record.bytes("iv"),
                record.bytes("plaintext"),
                record.bytes("ciphertext"),
            )
        })
        .collect();
    assert_eq!(check(&cases), 9);
}

/// The counter of a block where only the last `width` bytes count, the others never change.
fn narrow_counter(nonce: u128, width: usize, block: usize) -> [u8; 16] {
    let mask = (1u128 << (8 * width)) - 1;
    (nonce & !mask | nonce.wrapping_add(block as u128) & mask).to_be_bytes()
}

#[test]
fn ctr_of_botan() {
    let (mut whole, mut narrow, mut blocks) = (Vec::new(), 0, Vec::new());
    for record in records("aes/ctr/botan_ctr.vec") {
        let Some(name) = record.section.strip_prefix("CTR-BE(AES-") else {
            continue;
        };
        let (key, out) = (record.bytes("key"), record.bytes("out"));
        let input = if record.has("in") {
            record.bytes("in")
        } else {
            vec![0; out.len()]
        };
        let mut nonce = record.bytes("nonce");
        nonce.resize(16, 0);
        if let Some((_, width)) = name.trim_end_matches(')').split_once(',') {
            // No algorithm here has a narrow counter: each block is a message with its own counter.
            let nonce = u128::from_be_bytes(nonce.try_into().unwrap());
            let width = width.parse().unwrap();
            let texts = input.chunks(16).zip(out.chunks(16)).enumerate();
            blocks.extend(texts.map(|(block, (plain, cipher))| {
                let counter = narrow_counter(nonce, width, block).to_vec();
                ctr(
                    &record.name,
                    key.clone(),
                    counter,
                    plain.to_vec(),
                    cipher.to_vec(),
                )
            }));
            narrow += 1;
            continue;
        }
        // The text begins `Seek` bytes into the key stream: whole blocks move the counter on.
        let seek = record.number("seek").unwrap_or(0);
        let counter = u128::from_be_bytes(nonce.try_into().unwrap()).wrapping_add(seek / 16);
        let seek = (seek % 16) as usize;
        let nonce = counter.to_be_bytes().to_vec();
        let plain = [vec![0; seek], input].concat();
        let aes = algorithm(Mode::Ctr, key.len()).unwrap();
        let (cipher, _) = oracle::encrypt(aes, &key, &nonce, b"", &plain);
        assert_eq!(cipher[seek..], out, "{}", record.name);
        whole.push(ctr(&record.name, key, nonce, plain, cipher));
    }
    assert_eq!((check(&whole), narrow), (185, 5));
    assert_eq!(check(&blocks), 136);
}

fn shared(test: &Value) -> Option<Algorithm> {
    let mode = match test["alg"].as_str().unwrap() {
        "AES-ECB" => Mode::Ecb,
        "AES-CBC" => Mode::Cbc,
        "AES-CTR" => Mode::Ctr,
        "AES-XTS" => Mode::Xts,
        "AES-GCM" => Mode::Gcm,
        other => panic!("unexpected {other}"),
    };
    algorithm(mode, json_bytes(test, "key").len())
}

/// A field of bytes, or its seed and length.
fn given_or_seeded(test: &Value, field: &str) -> Vec<u8> {
    if let Some(seed) = test[format!("seed_{field}")].as_str() {
        let len = test[format!("{field}_len")].as_u64().unwrap() as usize;
        return Random::new(u64::from_str_radix(seed, 16).unwrap()).bytes(len);
    }
    match test[field].is_null() {
        true => Vec::new(),
        false => json_bytes(test, field),
    }
}

#[test]
fn random_cases_of_all_modes() {
    let file = json("aes/aes_modes_random_shared.json");
    let (mut cases, mut bulk, mut skipped) = (Vec::new(), 0, 0);
    for test in file["tests"].as_array().unwrap() {
        let Some(algorithm) = shared(test) else {
            skipped += 1;
            continue;
        };
        let case = Case {
            name: format!("random {}", test["id"]),
            algorithm,
            key: json_bytes(test, "key"),
            iv: json_bytes(test, "iv"),
            aad: given_or_seeded(test, "aad"),
            plain: given_or_seeded(test, "pt"),
            cipher: given_or_seeded(test, "ct"),
            tag: if algorithm.is_aead() {
                json_bytes(test, "tag")
            } else {
                Vec::new()
            },
            forged: false,
        };
        if test["seed_pt"].is_string() {
            check_bulk(&case, &json_bytes(test, "sha256_ct"));
            bulk += 1;
        } else {
            cases.push(case);
        }
    }
    assert_eq!((check(&cases), bulk, skipped), (353, 110, 38));
}

/// A case whose ciphertext is known by its hash; as one message, on one thread and on two (the
/// largest only on two, for time).
fn check_bulk(case: &Case, cipher_hash: &[u8]) {
    let key = Key::new(case.algorithm, &case.key).unwrap();
    let threads: &[usize] = if case.plain.len() > 4 << 20 {
        &[2]
    } else {
        &[1, 2]
    };
    for engine in engines(threads) {
        let context = format!("{} on {}", case.name, engine.backend());
        let mut text = case.plain.clone();
        let mut tag = case.tag.clone();
        tag.fill(0);
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let batch = Batch::new(direction, Keys::One(&key), Text::in_place(&mut text));
            let batch = match case.algorithm.is_aead() {
                true => batch.tags(Tags::Apart(&mut tag)),
                false => batch,
            };
            let batch = batch.ivs(match case.iv.is_empty() {
                true => Ivs::None,
                false => Ivs::Ragged {
                    bytes: &case.iv,
                    spans: Spans::one(case.iv.len()),
                },
            });
            let batch = match case.aad.is_empty() {
                true => batch,
                false => batch.aad(warplock::Aad::Shared(&case.aad)),
            };
            engine.run(batch).unwrap();
            if direction == Direction::Encrypt {
                assert_eq!(Sha256::digest(&text)[..], *cipher_hash, "{context}");
                assert_eq!(tag, case.tag, "{context}");
            }
        }
        assert_same(&text, &case.plain, &context);
    }
}
