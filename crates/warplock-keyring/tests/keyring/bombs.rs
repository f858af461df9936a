//! Inputs made to cost much: each is answered within little time and memory.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::bounded;
use crate::common::*;
use warplock_keyring::{
    Identities, MAX_WRAPPED_LEN, NewIdentity, NoPrompt, Recipients, from_armor, inspect_wrapped,
    parse_key, to_armor, unwrap, wrap,
};

/// What every file that names keys may be fed.
const LEN: usize = 64 << 10;

/// Every parser of the keyring, and what can be done next without a passphrase.
fn feed(bytes: &[u8]) {
    let opener = identity("age_identity", Arc::new(NoPrompt));
    let _ = unwrap(bytes, &opener);
    let _ = inspect_wrapped(bytes);
    let _ = parse_key(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = from_armor(text);
        let _ = Recipients::new(Arc::new(NoPrompt)).add(text);
    }
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    if recipients.add_list("list", bytes).is_ok() {
        let _ = wrap(&known_key(), &recipients);
    }
    let mut identities = Identities::new(Arc::new(NoPrompt));

    if identities.add("identity", bytes).is_ok() {
        let _ = identities.recipients();
        let _ = unwrap(&data("wrapped_by_age_recipients.age"), &identities);
    }
}

fn repeated(head: &str, unit: &str, tail: &str, len: usize) -> Vec<u8> {
    let count = (len - head.len() - tail.len()) / unit.len();
    [head, &unit.repeat(count), tail].concat().into_bytes()
}

/// The same Base64 in lines of `width`.
fn pem(kind: &str, blob: &[u8], width: usize) -> Vec<u8> {
    let body = BASE64_STANDARD.encode(blob);
    let lines: Vec<_> = body.as_bytes().chunks(width).collect();
    let (begin, end) = (
        format!("-----BEGIN {kind}-----\n"),
        format!("\n-----END {kind}-----\n"),
    );
    [begin.as_bytes(), &lines.join(&b'\n'), end.as_bytes()].concat()
}

/// A number with these bits set, big-endian.
fn bits(set: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let mut little = Vec::new();
    for bit in set {
        little.resize(little.len().max(bit / 8 + 1), 0u8);
        little[bit / 8] |= 1 << (bit % 8);
    }
    little.reverse();
    if little.first().is_some_and(|&byte| byte > 127) {
        little.insert(0, 0);
    }
    little
}

/// n, e, d, p, q of an RSA key that passes every check but primality: p = 2^a + 1, q = 2^b + 1,
/// e = 3, d = 1/3 modulo 2^b.
fn rsa(a: usize, b: usize) -> [Vec<u8>; 5] {
    let inverse = (1..b).step_by(2).chain([0]);
    [
        bits([0, a, b, a + b]),
        vec![3],
        bits(inverse),
        bits([0, a]),
        bits([0, b]),
    ]
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = (content.len() as u32).to_be_bytes();
    [&[tag, 0x84][..], &len, content].concat()
}

/// DER with the shortest lengths, as `RSAPrivateKey` needs them.
fn strict_der(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let header = match len {
        0..128 => vec![tag, len as u8],
        128..256 => vec![tag, 0x81, len as u8],
        _ => vec![tag, 0x82, (len >> 8) as u8, len as u8],
    };
    [header, content.to_vec()].concat()
}

fn pkcs1(a: usize, b: usize) -> Vec<u8> {
    let [n, e, d, p, q] = rsa(a, b);
    let one = vec![1];
    let fields = [&vec![0], &n, &e, &d, &p, &q, &one, &one, &one].map(|n| strict_der(2, n));
    strict_der(0x30, &fields.concat())
}

/// An OpenSSH private key file's content.
fn openssh(cipher: &str, kdf: &str, options: &[u8], public: &[u8], private: &[u8]) -> Vec<u8> {
    [
        b"openssh-key-v1\0".to_vec(),
        ssh_string(cipher.as_bytes()),
        ssh_string(kdf.as_bytes()),
        ssh_string(options),
        vec![0, 0, 0, 1],
        ssh_string(public),
        ssh_string(private),
    ]
    .concat()
}

fn openssh_rsa(a: usize, b: usize) -> Vec<u8> {
    let [n, e, d, p, q] = rsa(a, b).map(|integer| ssh_string(&integer));
    let kind = ssh_string(b"ssh-rsa");
    let public = [&kind[..], &e, &n].concat();
    let private = [
        &[7; 8][..],
        &kind,
        &n,
        &e,
        &d,
        &ssh_string(&[1]),
        &p,
        &q,
        &ssh_string(b""),
    ]
    .concat();
    openssh("none", "none", b"", &public, &private)
}

fn ssh_rsa_line(modulus: usize) -> String {
    rsa_recipient(modulus) + "\n"
}

fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    const OPENSSH: &str = "OPENSSH PRIVATE KEY";
    const RSA: &str = "RSA PRIVATE KEY";
    const AGE: &str = "-----BEGIN AGE ENCRYPTED FILE-----\n";
    let own = NewIdentity::generate();
    let secret = own.file_text().lines().last().unwrap().to_owned() + "\n";
    let recipient = own.recipient() + "\n";
    let plugin = age::plugin::Identity::default_for_plugin("warpnone").unwrap();
    let plugin = format!("{plugin}\n");
    let repeat = |unit: &str| repeated("", unit, "", LEN);
    let stanza = |unit: &str| repeated("age-encryption.org/v1\n", unit, "--- ", LEN);
    let nested = {
        let mut inner = vec![5, 0];
        while inner.len() < 10_000 {
            inner = der(0x30, &inner);
        }
        inner
    };
    let wrapped = wrap(&known_key(), &passphrase_recipient("p")).unwrap();
    let mut armored = to_armor(&wrapped).into_bytes();
    while 4 * armored.len() / 3 < LEN - 2000 {
        armored = to_armor(&armored).into_bytes();
    }
    let bcrypt = [ssh_string(&[1; 16]), u32::MAX.to_be_bytes().to_vec()].concat();
    let salt = [ssh_string(&[1; 11_000]), 1u32.to_be_bytes().to_vec()].concat();
    let ed25519 = [ssh_string(b"ssh-ed25519"), ssh_string(&[1; 32])].concat();
    vec![
        ("identities", repeat(&secret)),
        ("recipients", repeat(&recipient)),
        ("plugin identities", repeat(&plugin)),
        ("comments", repeat("#\n")),
        ("empty lines", repeat("\n")),
        ("carriage returns", repeat("\r")),
        ("one line", repeat("A")),
        ("long recipient", repeated("age1", "q", "\n", LEN)),
        (
            "long identity",
            repeated("AGE-SECRET-KEY-1", "Q", "\n", LEN),
        ),
        ("long plugin", repeated("AGE-PLUGIN-", "Q", "-1", LEN)),
        ("NULs", repeat("\0")),
        ("byte-order marks", repeat("\u{feff}")),
        ("UTF-16", repeated("", "\u{1}\0", "", LEN)),
        ("white space", repeat(" ")),
        ("wide white space", repeat("\u{2003}")),
        ("dashes", repeat("-")),
        ("ssh-rsa", repeat(&ssh_rsa_line(4096))),
        ("ssh-rsa, large", repeat(&ssh_rsa_line(16_384))),
        ("ssh-rsa, huge", ssh_rsa_line(380_000).into_bytes()),
        ("ssh-ed25519", repeat(&data_text("ssh_ed25519.pub"))),
        ("ssh-ed25519 alone", repeat("ssh-ed25519 ")),
        ("begins", repeat("-----BEGIN OPENSSH PRIVATE KEY-----\n")),
        ("RSA begins", repeat("-----BEGIN RSA PRIVATE KEY-----\n")),
        (
            "short lines",
            pem(OPENSSH, &openssh("none", "none", b"", &[], &[0; 5000]), 1),
        ),
        ("short RSA lines", pem(RSA, &[0x30; 5900], 1)),
        (
            "short RSA lines, no end",
            repeated("-----BEGIN RSA PRIVATE KEY-----\n", "A\n", "", 16_000),
        ),
        ("huge RSA key", pem(RSA, &pkcs1(17_000, 17_008), 64)),
        ("very huge RSA key", pem(RSA, &pkcs1(70_000, 70_008), 64)),
        ("uneven RSA key", pem(RSA, &pkcs1(64, 30_000), 64)),
        (
            "huge OpenSSH RSA key",
            pem(OPENSSH, &openssh_rsa(13_000, 13_008), 70),
        ),
        (
            "uneven OpenSSH RSA key",
            pem(OPENSSH, &openssh_rsa(64, 20_000), 70),
        ),
        ("nested DER", pem(RSA, &nested, 64)),
        ("nested PKCS#8", pem("PRIVATE KEY", &nested, 64)),
        (
            "encrypted PKCS#8",
            pem("ENCRYPTED PRIVATE KEY", &nested, 64),
        ),
        (
            "endless DER",
            pem(RSA, &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff].repeat(1900), 64),
        ),
        (
            "rounds",
            pem(
                OPENSSH,
                &openssh("aes256-ctr", "bcrypt", &bcrypt, &ed25519, &[0; 160]),
                70,
            ),
        ),
        (
            "long salt",
            pem(
                OPENSSH,
                &openssh("aes256-ctr", "bcrypt", &salt, &ed25519, &[0; 160]),
                70,
            ),
        ),
        (
            "lengths",
            pem(
                OPENSSH,
                &[b"openssh-key-v1\0".to_vec(), vec![0xff; 9000]].concat(),
                70,
            ),
        ),
        ("stanzas", stanza("-> a\n\n")),
        ("stanzas without bodies", stanza("-> a\n")),
        (
            "X25519 stanzas",
            stanza(&format!("-> X25519 {0}\n{0}\n", "A".repeat(43))),
        ),
        (
            "arguments",
            repeated("age-encryption.org/v1\n->", " a", "\n\n--- ", LEN),
        ),
        ("body", stanza(&format!("{}\n", "A".repeat(64)))),
        ("armor in armor", armored),
        (
            "short armor lines",
            repeated(AGE, "A\n", "-----END AGE ENCRYPTED FILE-----\n", LEN),
        ),
        ("armor begins", repeat(AGE)),
        (
            "armored nothing",
            to_armor(&vec![0; LEN * 3 / 4 - 1000]).into_bytes(),
        ),
    ]
}

#[test]
fn structured_bombs() {
    bounded::run("bombs::structured_bombs", |meter| {
        for (name, bytes) in bombs() {
            assert!(bytes.len() <= LEN, "{name}: {}", bytes.len());
            meter.input(name, || feed(&bytes));
        }
    });
}

/// Headers as long as a wrapped key may be.
#[test]
fn long_wrapped_keys() {
    let stanza = format!("-> X25519 {0}\n{0}\n", "A".repeat(43));
    let arguments = format!("->{}\n\n", " a".repeat(30_000));
    bounded::run("bombs::long_wrapped_keys", |meter| {
        for unit in ["-> a\n\n", "-> a\n", &stanza, &arguments, "\n", "-> a", "-"] {
            for tail in [
                "",
                "--- ",
                &format!("--- {}\n0123456789abcdef", "A".repeat(43)),
            ] {
                let head = "age-encryption.org/v1\n";
                let bytes = repeated(head, unit, tail, MAX_WRAPPED_LEN);
                meter.input(&format!("{unit:.12?} {tail:.5?}"), || feed(&bytes));
            }
        }
        // As many as are accepted, each with a valid share, so that all are tried.
        let share = format!("CQ{}", "A".repeat(41));
        let stanzas = format!("-> X25519 {share}\n{}\n", "A".repeat(43)).repeat(2048);
        let bytes = format!(
            "age-encryption.org/v1\n{stanzas}--- {}\n{:16}",
            "A".repeat(43),
            0
        );
        meter.input("2048 stanzas", || feed(bytes.as_bytes()));
    });
}

/// Random bytes, and files of keys with random changes.
#[test]
fn random_inputs() {
    bounded::run("bombs::random_inputs", |meter| {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let bombs = bombs();
        for number in 0..200 {
            let mut bytes: Vec<u8> = match number % 4 {
                0 => (0..LEN).map(|_| random.below(256) as u8).collect(),
                1 => (0..LEN).map(|_| random.below(95) as u8 + 32).collect(),
                _ => bombs[random.below(bombs.len())].1.clone(),
            };
            for _ in 0..random.below(20) {
                let (at, len) = (random.below(bytes.len()), random.below(100));
                let to = (at + len).min(bytes.len());
                match random.below(3) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => drop(bytes.drain(at..to)),
                    _ => bytes[at..to].reverse(),
                }
            }
            meter.input(&format!("{number}"), || feed(&bytes));
        }
    });
}
