//! Wycheproof's streams, through every way of opening; `tests/vectors/chunked/README.md` says where they come from.

use std::io::{Cursor, Read};

use crate::common::*;
use serde_json::Value;
use sha2::{Digest, Sha512};
use warplock_container::{InputKey, Reader, Suite, open, open_bytes};

fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

#[test]
fn streams_open_or_are_refused_as_wycheproof_says() {
    let (engine, pipeline) = (engine(), pipeline());
    let mut counts = [0; 2];
    for (suite, aead) in [
        (Suite::Cobblestone128, "128"),
        (Suite::Cobblestone256, "256"),
    ] {
        let path = format!(
            "{}/../../tests/vectors/chunked/c2sp_chunked_encryption_aes_{aead}_gcm_test.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let groups = file["testGroups"].as_array().unwrap();
        for (group, test) in groups.iter().flat_map(|group| {
            group["tests"]
                .as_array()
                .unwrap()
                .iter()
                .map(move |test| (group, test))
        }) {
            assert_eq!(group["aead"], format!("AEAD_AES_{aead}_GCM"));
            assert_eq!(group["sha"], "SHA-512");
            let name = format!("{aead} tc{}: {}", test["tcId"], test["comment"]);
            let valid = test["result"] == "valid";
            counts[usize::from(valid)] += 1;
            let flag = |flag: &str| test["flags"].as_array().unwrap().iter().any(|f| f == flag);
            let Ok(key) = InputKey::new(suite, &hex(&test["key"])) else {
                assert!(flag("InvalidKeySize"), "{name}");
                continue;
            };
            assert!(!flag("InvalidKeySize"), "{name}");
            let key = key.with_context(&hex(&test["ctx"]));
            let sealed = miniz_oxide::inflate::decompress_to_vec_zlib(&hex(&test["ct"])).unwrap();
            let prefix = test["msgLength"].as_u64().unwrap_or(0) as usize;
            let is_message = |bytes: &[u8]| {
                let digest = Sha512::digest(bytes).to_vec();
                bytes.len() == prefix && digest == hex(&test["msgSha512"])
            };

            for way in WAYS {
                let (result, opened) =
                    along(way, &sealed, |from, to| open(from, to, &key, &pipeline));
                assert_eq!(result.is_ok(), valid, "{name} {way:?}");
                if valid {
                    assert!(is_message(&opened), "{name} {way:?}");
                } else if !way.positioned_out {
                    assert!(
                        opened.len() <= prefix,
                        "{name} {way:?}: wrote unverified bytes"
                    );
                    assert!(
                        opened.len() < prefix || prefix == 0 || is_message(&opened),
                        "{name}"
                    );
                }
            }
            let opened = open_bytes(&sealed, &key, &engine);
            assert_eq!(
                opened.as_ref().is_ok_and(|bytes| is_message(bytes)),
                valid,
                "{name}"
            );

            // The length is verified when the reader is made.
            let reader = Reader::new(Cursor::new(&sealed), &key, engine.clone());
            assert!(
                reader.is_err() || valid || flag("ValidFinalChunk"),
                "{name}"
            );
            let mut bytes = Vec::new();
            let read = reader.map(|mut reader| reader.read_to_end(&mut bytes));
            assert_eq!(matches!(read, Ok(Ok(_))), valid, "{name}");
            assert!(!valid || is_message(&bytes), "{name}");
        }
    }
    assert_eq!(counts.iter().sum::<i32>(), 70);
    assert!(counts[1] > 10, "the file has valid streams: {counts:?}");
}
