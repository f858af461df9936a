//! NIST's vectors: the AESAVS known answers and multi-block messages (ECB, CBC), XTSVS, GCMVS, and
//! the examples of SP 800-38A and FIPS 197. Monte Carlo: [`crate::monte_carlo`].

use warplock::Mode;

use crate::common::algorithm;
use crate::common::case::{Case, check};
use crate::common::vectors::{Record, json, json_bytes, records};

/// A record of AESAVS; what it encrypts it also decrypts.
fn case(mode: Mode, record: &Record) -> Case {
    let key = record.bytes("key");
    Case {
        name: record.name.clone(),
        algorithm: algorithm(mode, key.len()).unwrap(),
        key,
        iv: if record.has("iv") {
            record.bytes("iv")
        } else {
            Vec::new()
        },
        aad: Vec::new(),
        plain: record.bytes("plaintext"),
        cipher: record.bytes("ciphertext"),
        tag: Vec::new(),
        forged: false,
    }
}

fn known_answers(mode: Mode, prefix: &str) -> usize {
    let kinds = ["GFSbox", "KeySbox", "VarKey", "VarTxt", "MMT"];
    let files = kinds
        .iter()
        .flat_map(|kind| [128, 192, 256].map(|bits| format!("{prefix}{kind}{bits}.rsp")));
    let cases: Vec<Case> = files
        .flat_map(|file| records(&file))
        .map(|record| case(mode, &record))
        .collect();
    check(&cases)
}

#[test]
fn ecb_known_answers() {
    assert_eq!(known_answers(Mode::Ecb, "aes/ecb/ECB"), 2138);
}

#[test]
fn cbc_known_answers() {
    assert_eq!(known_answers(Mode::Cbc, "aes/cbc/CBC"), 2138);
}

#[test]
fn xts() {
    let (mut cases, mut skipped) = (Vec::new(), 0);
    for folder in ["tweak-128hexstr", "tweak-dataunitseqno"] {
        for bits in [128, 256] {
            for record in records(&format!("aes/xts/{folder}/XTSGenAES{bits}.rsp")) {
                // The engine works on bytes; some data units are bit strings.
                if !record.number("dataunitlen").unwrap().is_multiple_of(8) {
                    skipped += 1;
                    continue;
                }
                let key = record.bytes("key");
                let tweak = match record.number("dataunitseqnumber") {
                    Some(number) => number.to_le_bytes().to_vec(),
                    None => record.bytes("i"),
                };
                cases.push(Case {
                    name: record.name.clone(),
                    algorithm: algorithm(Mode::Xts, key.len()).unwrap(),
                    key,
                    iv: tweak,
                    aad: Vec::new(),
                    plain: record.bytes("pt"),
                    cipher: record.bytes("ct"),
                    tag: Vec::new(),
                    forged: false,
                });
            }
        }
    }
    assert_eq!((check(&cases), skipped), (2800, 1200));
}

/// The records of one GCM file: the first five of each fifteen that NIST has (see the README
/// next to them).
fn gcm(kind: &str, bits: usize) -> Vec<Case> {
    let record = |record: Record| {
        let key = record.bytes("key");
        let forged = record.has("fail");
        Case {
            name: record.name.clone(),
            algorithm: algorithm(Mode::Gcm, key.len()).unwrap(),
            key,
            iv: record.bytes("iv"),
            aad: record.bytes("aad"),
            plain: if forged {
                Vec::new()
            } else {
                record.bytes("pt")
            },
            cipher: record.bytes("ct"),
            tag: record.bytes("tag"),
            forged,
        }
    };
    let file = format!("aes/gcm/gcm{kind}{bits}.rsp");
    records(&file).into_iter().map(record).collect()
}

#[test]
fn gcm_encrypt_with_external_iv() {
    for bits in [128, 192, 256] {
        assert_eq!(check(&gcm("EncryptExtIV", bits)), 2625);
    }
}

#[test]
fn gcm_decrypt() {
    for (bits, forged) in [(128, 1350), (192, 1319), (256, 1308)] {
        let cases = gcm("Decrypt", bits);
        assert_eq!(cases.iter().filter(|case| case.forged).count(), forged);
        assert_eq!(check(&cases), 2625);
    }
}

#[test]
fn examples_of_sp_800_38a_and_fips_197() {
    let file = json("aes/examples/sp800_38a_fips197.json");
    let cases: Vec<Case> = file["tests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|test| {
            let mode = match test["alg"].as_str().unwrap() {
                "AES-ECB" => Mode::Ecb,
                "AES-CBC" => Mode::Cbc,
                "AES-CTR" => Mode::Ctr,
                other => panic!("unexpected {other}"),
            };
            let key = json_bytes(test, "key");
            Case {
                name: test["source"].as_str().unwrap().to_owned(),
                algorithm: algorithm(mode, key.len()).unwrap(),
                key,
                iv: json_bytes(test, "iv"),
                aad: Vec::new(),
                plain: json_bytes(test, "pt"),
                cipher: json_bytes(test, "ct"),
                tag: Vec::new(),
                forged: false,
            }
        })
        .collect();
    assert_eq!(check(&cases), 12);
}
