//! `warplock.vault` made to cost much: it is read before anything is authenticated.

use std::fs;

use crate::bounded;
use crate::common::recipients;
use crate::common::rng::Rng;
use warplock_keyring::{Identities, NoPrompt};
use warplock_vault::{CONFIG, Settings, info, init, unlock};

/// The most that is read.
const LEN: usize = 1 << 20;

fn bombs(good: &str) -> Vec<(&'static str, Vec<u8>)> {
    let (head, key) = good.split_at(good.find("[[key]]").unwrap());
    let keys = |unit: &str| [head, &unit.repeat((LEN - head.len()) / unit.len())].concat();
    let repeat = |unit: &str| unit.repeat(LEN / unit.len());
    let armor = format!(
        "[[key]]\nname = \"x\"\nmac = \"\"\nage = \"\"\"\n{}\"\"\"\n",
        "A\n".repeat(8000)
    );
    let stanzas = {
        let stanza = "-> X25519 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n\n".repeat(190);
        let age = warplock_keyring::to_armor(
            format!("age-encryption.org/v1\n{stanza}--- {}\n", "A".repeat(43)).as_bytes(),
        );
        format!("[[key]]\nname = \"x\"\nmac = \"\"\nage = \"\"\"\n{age}\"\"\"\n")
    };
    [
        ("arrays", format!("x = {}", "[".repeat(LEN - 100))),
        (
            "closed arrays",
            format!("x = {}{}", "[".repeat(LEN / 3), "]".repeat(LEN / 3)),
        ),
        ("tables", format!("x = {}", "{a=".repeat(LEN / 4))),
        ("dotted table", format!("[{}a]", "a.".repeat(LEN / 3))),
        ("dotted key", format!("{}a = 1", "a.".repeat(LEN / 3))),
        (
            "dotted format",
            format!("format{} = 1", ".a".repeat(LEN / 3)),
        ),
        ("many tables", repeat("[[a]]\n")),
        ("many keys", repeat("[[key]]\n")),
        ("complete keys", keys(key)),
        ("short lines of armor", [head, &armor.repeat(63)].concat()),
        ("stanzas", [head, &stanzas.repeat(64)].concat()),
        ("comments", repeat("#\n")),
        ("empty lines", repeat("\n")),
        ("formats", repeat("format = 2\n")),
        ("not quite formats", repeat("format\n")),
        (
            "one string",
            format!("format = \"{}\"", "x".repeat(LEN - 100)),
        ),
        ("escapes", format!("id = \"{}\"", "\\\\".repeat(LEN / 3))),
        ("digits", format!("format = {}", "1".repeat(LEN - 100))),
        ("quotes", repeat("\"")),
        (
            "open text",
            format!("id = \"\"\"\n{}", "x\n".repeat(LEN / 3)),
        ),
        ("equal signs", repeat("=")),
        ("NULs", repeat("\0")),
        ("byte-order marks", repeat("\u{feff}")),
        ("white space", repeat(" \u{2003}")),
        (
            "a long name",
            head.replace("format", &"x".repeat(LEN - 2000)),
        ),
    ]
    .map(|(name, text)| (name, text.into_bytes()))
    .into()
}

#[test]
fn structured_and_random() {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path(), &Settings::default(), "me", &recipients()).unwrap();
    let config = dir.path().join(CONFIG);
    let good = fs::read_to_string(&config).unwrap();
    let nobody = Identities::new(std::sync::Arc::new(NoPrompt));
    let feed = |bytes: &[u8]| {
        assert!(bytes.len() <= LEN);
        fs::write(&config, bytes).unwrap();
        let _ = info(dir.path());
        assert!(unlock(dir.path(), &nobody).is_err());
    };
    bounded::run("bombs::structured_and_random", |meter| {
        for (name, bytes) in bombs(&good) {
            meter.input(name, || feed(&bytes));
        }
        let mut rng = Rng::new(7);
        let bombs = bombs(&good);
        for number in 0..200 {
            let mut bytes = match number % 4 {
                0 => (0..64 << 10).map(|_| rng.below(256) as u8).collect(),
                1 => bombs[rng.below(bombs.len() as u64) as usize].1.clone(),
                _ => good.clone().into_bytes(),
            };
            for _ in 0..=rng.below(10) {
                let at = rng.below(bytes.len() as u64) as usize;
                let to = (at + rng.below(100) as usize).min(bytes.len());
                match rng.below(3) {
                    0 => bytes[at] = b"\"\\\n[]=# \0\xff"[rng.below(10) as usize],
                    1 => drop(bytes.drain(at..to)),
                    _ => bytes[at..to].reverse(),
                }
            }
            meter.input(&number.to_string(), || feed(&bytes));
        }
    });
}
