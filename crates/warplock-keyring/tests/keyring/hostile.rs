//! Bytes from an attacker: nothing panics, nothing unwraps, nothing takes long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::*;
use warplock_keyring::{
    Error, Identities, MAX_WRAPPED_LEN, NoPrompt, Recipients, from_armor, inspect_wrapped,
    parse_key, to_armor, unwrap, wrap,
};

/// Changes, cuts and extends `good` at every place and wants an error each time.
fn corrupt(good: &[u8], identities: &Identities) {
    assert_eq!(unwrap(good, identities).unwrap(), known_key());
    for i in 0..good.len() {
        for change in [1, 0x20, 0x80] {
            let mut bad = good.to_vec();
            bad[i] ^= change;
            assert!(unwrap(&bad, identities).is_err(), "byte {i} ^ {change:#x}");
            let _ = inspect_wrapped(&bad);
        }
        let mut bad = good.to_vec();
        bad.remove(i);
        assert!(unwrap(&bad, identities).is_err(), "byte {i} removed");
        assert!(unwrap(&good[..i], identities).is_err(), "cut at {i}");
    }
    let longer = [good, b"\n"].concat();
    assert!(matches!(
        unwrap(&longer, identities),
        Err(Error::Altered { .. })
    ));
}

#[test]
fn every_byte_of_a_wrapped_key_counts() {
    let prompt = Arc::new(NoPrompt);
    let age = identity("age_identity", prompt.clone());
    let own = age.recipients().unwrap()[0].clone();
    corrupt(&wrap(&known_key(), &recipients(&[&own])).unwrap(), &age);
    let ssh = identity("ssh_ed25519", prompt.clone());
    let own = data_text("ssh_ed25519.pub");
    corrupt(&wrap(&known_key(), &recipients(&[&own])).unwrap(), &ssh);
    let good = wrap(&known_key(), &passphrase_recipient("p")).unwrap();
    // Changed digits of the work factor ask for real work; leave those to another test.
    let line = good
        .iter()
        .skip(22)
        .position(|&byte| byte == b'\n')
        .unwrap()
        + 22;
    let identities = passphrase_identity("p");
    for i in (0..good.len()).filter(|&i| !(line - 2..=line).contains(&i)) {
        let mut bad = good.clone();
        bad[i] ^= 1;
        assert!(unwrap(&bad, &identities).is_err(), "byte {i}");
    }
}

#[test]
fn a_bit_of_an_rsa_wrapped_key_counts() {
    let good = wrap(&known_key(), &recipients(&[&data_text("ssh_rsa.pub")])).unwrap();
    let identities = identity("ssh_rsa", Arc::new(NoPrompt));
    assert_eq!(unwrap(&good, &identities).unwrap(), known_key());
    // RSA is slow: a sample of places.
    for i in (0..good.len()).step_by(13) {
        let mut bad = good.clone();
        bad[i] ^= 1;
        assert!(unwrap(&bad, &identities).is_err(), "byte {i}");
    }
}

/// age 0.12 alone would need hours for some of these.
#[test]
fn long_headers_take_little_time() {
    let identities = identity("age_identity", Arc::new(NoPrompt));
    let stanza = format!("-> X25519 {}\n{}\n", "A".repeat(43), "A".repeat(43));
    let body_line = format!("{}\n", "A".repeat(64));
    let many_args = format!("->{}\n\n", " a".repeat(30_000));
    for (head, unit) in [
        ("", "-> a\n"),
        ("", "-> a\n\n"),
        ("", "-> a"),
        ("", "\n"),
        ("", "-"),
        ("", &stanza),
        ("", &many_args),
        ("-> a\n", &body_line),
    ] {
        let mut bytes = format!("age-encryption.org/v1\n{head}").into_bytes();
        while bytes.len() + unit.len() + 100 <= MAX_WRAPPED_LEN {
            bytes.extend_from_slice(unit.as_bytes());
        }
        for end in [
            &b""[..],
            b"--- ",
            &[b"--- ", &[b'A'; 43][..], b"\n0123456789abcdef"].concat(),
        ] {
            let hostile = [&bytes[..], end].concat();
            let start = Instant::now();
            assert!(unwrap(&hostile, &identities).is_err());
            let _ = inspect_wrapped(&hostile);
            assert!(
                Identities::new(Arc::new(NoPrompt))
                    .add("x", &hostile)
                    .is_err()
            );
            let time = start.elapsed();
            assert!(
                time < Duration::from_secs(20),
                "{head:?} {unit:.20?} {end:.8?}: {time:?}"
            );
        }
    }
}

#[test]
fn a_huge_input_is_refused_unread() {
    let huge = vec![b'a'; MAX_WRAPPED_LEN + 1];
    let nothing = Identities::new(Arc::new(NoPrompt));
    assert!(matches!(
        unwrap(&huge, &nothing),
        Err(Error::TooLarge { .. })
    ));
    let text = "-----BEGIN AGE ENCRYPTED FILE-----".repeat(100_000);
    assert!(matches!(from_armor(&text), Err(Error::TooLarge { .. })));
}

/// A text in the SSH wire format of one RSA key with the integers given.
fn rsa_line(integers: &[&[u8]]) -> String {
    use base64::Engine;
    let mut blob = Vec::new();
    for part in std::iter::once(&b"ssh-rsa"[..]).chain(integers.iter().copied()) {
        blob.extend_from_slice(&(part.len() as u32).to_be_bytes());
        blob.extend_from_slice(part);
    }
    format!("ssh-rsa {}", base64::prelude::BASE64_STANDARD.encode(blob))
}

#[test]
fn rsa_integers_at_the_edges() {
    let modulus = [&[0][..], &[0xff; 256]].concat();
    let large = [&[0][..], &[0xff; 513]].concat();
    for (exponent, modulus) in [
        (&b""[..], &b""[..]),
        (b"\0", b"\0"), // age 0.12 panics on this one
        (b"\x03", b"\0\0"),
        (b"\0\0", &modulus),
        (b"\x01", &modulus),
        (b"\x02", &modulus),
        (b"\xff", &modulus),
        (b"\x03", b"\x05"),
        (b"\x03", &large),
        (&[0x7f; 40], &modulus),
    ] {
        let line = rsa_line(&[exponent, modulus]);
        let error = Recipients::new(Arc::new(NoPrompt)).add(&line);
        assert!(error.is_err(), "{exponent:x?} {}", modulus.len());
    }
    let fine = rsa_line(&[&[1, 0, 1], &modulus]);
    Recipients::new(Arc::new(NoPrompt)).add(&fine).unwrap();
}

/// Points with which every secret gives the same result: age 0.12 panics on the first, and encrypts
/// for anyone with the second.
#[test]
fn recipients_of_low_order() {
    use base64::Engine;
    let mut blob = [&b"\0\0\0\x0bssh-ed25519\0\0\0\x20\x01"[..], &[0; 31]].concat();
    let line = |blob: &[u8]| {
        let text = base64::prelude::BASE64_STANDARD.encode(blob);
        format!("ssh-ed25519 {text}")
    };
    for text in [
        "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq5cu47z",
        &line(&blob),
    ] {
        let error = Recipients::new(Arc::new(NoPrompt)).add(text).unwrap_err();
        assert!(error.to_string().contains("low order"), "{text}: {error}");
    }
    // The base point.
    blob.truncate(19);
    blob.extend([0x58]);
    blob.extend([0x66; 31]);
    Recipients::new(Arc::new(NoPrompt))
        .add(&line(&blob))
        .unwrap();
}

/// Parsers and `unwrap` on mutations of every good input: none may panic.
#[test]
fn mutations_never_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let opener = identity("age_identity", Arc::new(NoPrompt));
    let armored = to_armor(&data("wrapped_by_age_recipients.age")).into_bytes();
    let corpus: Vec<Vec<u8>> = [
        "age_identity",
        "age_identity_encrypted.age",
        "ssh_ed25519",
        "ssh_ed25519_encrypted",
        "ssh_rsa",
        "ssh_rsa_encrypted",
        "ssh_rsa_pem",
        "pkcs8_rsa",
        "pkcs8_ed25519",
        "ssh_rsa_pem_encrypted",
        "ssh_ed25519.pub",
        "ssh_rsa.pub",
        "wrapped_by_age_recipients.age",
        "wrapped_by_age_passphrase.age",
    ]
    .iter()
    .map(|name| data(name))
    .chain([armored])
    .collect();
    for round in 0..300 {
        for good in &corpus {
            let mut bytes = good.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                match random.below(5) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => bytes[at] ^= 1 << random.below(8),
                    2 => bytes.truncate(at + 1),
                    3 => drop(bytes.splice(at..at, good[at.min(good.len() - 1)..].to_vec())),
                    // 'A' is zero in Base64: lengths and integers of zero.
                    _ => bytes[at..].iter_mut().take(9).for_each(|byte| *byte = b'A'),
                }
            }
            let _ = unwrap(&bytes, &opener);
            let _ = inspect_wrapped(&bytes);
            let _ = parse_key(&bytes);
            let _ = Recipients::new(Arc::new(NoPrompt)).add_list("x", &bytes);
            let mut identities = Identities::new(Arc::new(NoPrompt));
            if identities.add("x", &bytes).is_ok() {
                let _ = identities.recipients();
                let _ = unwrap(&data("wrapped_by_age_recipients.age"), &identities);
            }
            if let Ok(text) = std::str::from_utf8(&bytes) {
                let _ = from_armor(text);
                let _ = Recipients::new(Arc::new(NoPrompt)).add(text);
            }
        }
        assert!(!corpus[round % corpus.len()].is_empty());
    }
}
