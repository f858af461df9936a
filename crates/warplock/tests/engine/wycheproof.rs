//! Wycheproof: edge cases and forgeries.

use serde_json::Value;
use warplock::{Batch, Error, Ivs, Key, Keys, Mode, Text, pkcs7};

use crate::common::case::{Case, check};
use crate::common::vectors::{json_bytes, wycheproof};
use crate::common::{algorithm, engines};

fn case(file: &str, test: &Value, mode: Mode, forged: bool) -> Option<Case> {
    let key = json_bytes(test, "key");
    let field = |name: &str| match test[name].is_null() {
        true => Vec::new(),
        false => json_bytes(test, name),
    };
    Some(Case {
        name: format!("{file} {}", test["tcId"]),
        algorithm: algorithm(mode, key.len())?,
        key,
        iv: json_bytes(test, "iv"),
        aad: field("aad"),
        plain: json_bytes(test, "msg"),
        cipher: field("ct"),
        tag: field("tag"),
        forged,
    })
}

#[test]
fn gcm() {
    let file = "aes_gcm_test.json";
    let tests = wycheproof(file);
    let cases = tests
        .iter()
        .map(|(test, valid)| case(file, test, Mode::Gcm, !valid).unwrap());
    let (cases, without_iv): (Vec<_>, Vec<_>) = cases.partition(|case| !case.iv.is_empty());
    assert_eq!(check(&cases) + without_iv.len(), 316);

    assert_eq!(without_iv.len(), 6);
    for case in without_iv {
        assert!(case.forged, "GCM has no empty IVs");
        let key = Key::new(case.algorithm, &case.key).unwrap();
        for engine in engines(&[1]) {
            let mut text = [case.cipher.clone(), case.tag.clone()].concat();
            let before = text.clone();
            let len = case.cipher.len();
            let place = Text::InPlace {
                buffer: &mut text,
                spans: warplock::Spans::one(len),
            };
            let open = Batch::open(Keys::One(&key), place).ivs(Ivs::Each(b""));
            let refused = engine.run(open).unwrap_err();
            assert!(matches!(refused, Error::Batch { .. }), "{}", case.name);
            assert_eq!(text, before, "{}", case.name);
        }
    }
}

/// GMAC is GCM of nothing: the message is the associated data.
#[test]
fn gmac() {
    let file = "aes_gmac_test.json";
    let cases: Vec<Case> = wycheproof(file)
        .iter()
        .map(|(test, valid)| {
            let mut case = case(file, test, Mode::Gcm, !valid).unwrap();
            case.aad = std::mem::take(&mut case.plain);
            case
        })
        .collect();
    assert_eq!(check(&cases), 414);
}

#[test]
fn xts() {
    let file = "aes_xts_test.json";
    let cases: Vec<Case> = wycheproof(file)
        .iter()
        .filter_map(|(test, valid)| {
            assert!(valid);
            let mut case = case(file, test, Mode::Xts, false)?;
            // A shorter IV is a sector number in fewer bytes, little-endian.
            case.iv.resize(16, 0);
            Some(case)
        })
        .collect();
    // The other 41 are AES-192-XTS.
    assert_eq!(check(&cases), 82);
}

#[test]
fn cbc_with_pkcs7() {
    let file = "aes_cbc_pkcs5_test.json";
    let (mut valid_cases, mut invalid) = (Vec::new(), 0);
    for (test, valid) in wycheproof(file) {
        let mut case = case(file, &test, Mode::Cbc, false).unwrap();
        if valid {
            for found in decrypt_padded(&case) {
                assert_eq!(found.as_ref(), Some(&case.plain), "{}", case.name);
            }
            pkcs7::pad(&mut case.plain);
            valid_cases.push(case);
        } else {
            for found in decrypt_padded(&case) {
                assert_eq!(found, None, "{} has good padding", case.name);
            }
            invalid += 1;
        }
    }
    assert_eq!((check(&valid_cases), invalid), (72, 144));
}

/// The text without its padding, or that there was no good one, by every instruction set.
fn decrypt_padded(case: &Case) -> Vec<Option<Vec<u8>>> {
    let key = Key::new(case.algorithm, &case.key).unwrap();
    let run = |engine: &warplock::Engine| {
        let mut text = case.cipher.clone();
        let batch = Batch::decrypt(Keys::One(&key), Text::in_place(&mut text));
        if let Err(error) = engine.run(batch.ivs(Ivs::Each(&case.iv))) {
            // Ciphertexts that are no whole number of blocks are no CBC at all.
            assert!(
                matches!(
                    error,
                    Error::Batch {
                        message: Some(0),
                        ..
                    }
                ),
                "{error}"
            );
            assert!(!text.len().is_multiple_of(16));
            return None;
        }
        match pkcs7::unpadded_len(&text) {
            Ok(len) => Some(text[..len].to_vec()),
            Err(Error::Padding) => None,
            Err(error) => panic!("{error}"),
        }
    };
    engines(&[1]).iter().map(run).collect()
}
