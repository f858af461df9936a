//! `gen`: the files are what their documentation says, by another author's AES.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use warplock_bench::{Generate, Generated};

fn generate(dir: &Path, entries: u64, seed: Option<u64>, threads: usize) -> Generate {
    Generate {
        dir: dir.to_owned(),
        entries,
        seed,
        force: false,
        threads: NonZeroUsize::new(threads).unwrap(),
    }
}

fn read(dir: &Path) -> [Vec<u8>; 3] {
    ["keys.bin", "plains.bin", "ciphers.bin"].map(|name| fs::read(dir.join(name)).unwrap())
}

fn encrypt(key: &[u8], block: &[u8]) -> [u8; 16] {
    let mut block: [u8; 16] = block.try_into().unwrap();
    let key: [u8; 16] = key.try_into().unwrap();
    Aes128::new(&key.into()).encrypt_block((&mut block).into());
    block
}

/// Entry `index` of the keys (domain 0) or plaintexts (1), as documented.
fn entry(seed: u64, domain: u8, index: u64) -> [u8; 16] {
    let key = [&seed.to_le_bytes()[..], b"entries."].concat();
    let mut block = u128::from(index).to_be_bytes();
    block[0] = domain;
    encrypt(&key, &block)
}

#[test]
fn every_entry_is_right_whatever_the_pieces_and_threads() {
    let folder = tempfile::tempdir().unwrap();
    // Less than a register's blocks, a piece, a piece and a bit, several with a ragged end.
    for (entries, threads) in [
        (1, 1),
        (3, 4),
        (16 << 10, 2),
        ((16 << 10) + 1, 2),
        (50_001, 3),
    ] {
        let dir = folder.path().join(entries.to_string());
        let seed = 0xfeed_0000 + entries;
        let made = generate(&dir, entries, Some(seed), threads)
            .run(&|_| {})
            .unwrap();
        let bytes = 48 * entries;
        assert_eq!(
            made,
            Generated {
                seed,
                entries,
                bytes
            }
        );
        let [keys, plains, ciphers] = read(&dir);
        assert_eq!((keys.len() + plains.len() + ciphers.len()) as u64, bytes);
        for index in 0..entries {
            let at = 16 * index as usize..16 * (index as usize + 1);
            assert_eq!(keys[at.clone()], entry(seed, 0, index), "key {index}");
            assert_eq!(
                plains[at.clone()],
                entry(seed, 1, index),
                "plaintext {index}"
            );
            let cipher = encrypt(&keys[at.clone()], &plains[at.clone()]);
            assert_eq!(ciphers[at], cipher, "ciphertext {index}");
        }
        assert_eq!(
            fs::read_dir(&dir).unwrap().count(),
            3,
            "nothing else is left"
        );
    }
}

#[test]
fn a_seed_gives_the_same_files_and_another_one_others() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, seed, threads| {
        let dir = folder.path().join(name);
        let made = generate(&dir, 40_000, seed, threads).run(&|_| {}).unwrap();
        (made.seed, read(&dir))
    };
    let (_, first) = make("first", Some(5), 1);
    assert_eq!(make("again", Some(5), 3).1, first);
    assert_ne!(make("other", Some(6), 1).1, first);
    // A random seed is told, and makes the same files again.
    let (seed, random) = make("random", None, 2);
    assert_eq!(make("told", Some(seed), 2).1, random);
    assert_ne!(make("random again", None, 2).0, seed);
}

#[test]
fn refusals() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new/deep");
    let refused = |entries| {
        let error = generate(&dir, entries, Some(1), 1).run(&|_| {});
        error.unwrap_err().to_string()
    };
    assert!(refused(0).contains("at least 1"));
    assert!(refused(u64::MAX).contains("cannot be made"));
    let full = refused(1 << 55);
    assert!(full.contains("make room"), "{full}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    generate(&dir, 10, Some(1), 1).run(&|_| {}).unwrap();
    let before = read(&dir);
    let error = refused(10);
    assert!(
        error.contains("keys.bin exists already; --force replaces it"),
        "{error}"
    );
    assert_eq!(read(&dir), before);
    let mut forced = generate(&dir, 20, Some(1), 1);
    forced.force = true;
    forced.run(&|_| {}).unwrap();
    assert_eq!(read(&dir)[0].len(), 320);
}

#[test]
fn progress_ends_with_the_last_entry() {
    let folder = tempfile::tempdir().unwrap();
    let most = std::sync::atomic::AtomicU64::new(0);
    let note = |done| {
        most.fetch_max(done, std::sync::atomic::Ordering::Relaxed);
    };
    generate(folder.path(), 33_000, None, 2).run(&note).unwrap();
    assert_eq!(most.into_inner(), 33_000);
}
