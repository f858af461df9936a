//! The lines of Python in `docs/vault-format.md` read what we write, and refuse it when it was
//! damaged.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::rng::Rng;
use crate::common::{FILE, FOLDER, Short, WRITE, engine, recipients};
use warplock_vault::fs::{FileSystem, ROOT, RenameFlags};
use warplock_vault::{Options, Settings, Vault, init};

fn script() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vault-format.md");
    let document = fs::read_to_string(path).unwrap();
    let rest = document.split("```python\n").nth(1).unwrap();
    rest.split("```").next().unwrap().to_owned()
}

/// A Python with the package that the document names.
fn python() -> Option<String> {
    let python = std::env::var("WARPLOCK_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python)
        .args([
            "-c",
            "import tomllib; from cryptography.hazmat.primitives.ciphers.aead import AESSIV",
        ])
        .output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    eprintln!("skipped: {python} with the package cryptography was not found");
    None
}

fn run(python: &str, key: &Path, store: &Path) -> Output {
    let mut command = Command::new(python);
    command.args(["-c", &script()]).args([key, store]);
    command.output().unwrap()
}

/// The largest regular file below a folder.
fn largest(dir: &Path) -> PathBuf {
    let mut all = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match fs::symlink_metadata(&path).unwrap() {
                found if found.is_dir() => waiting.push(path),
                found if found.is_file() => all.push((found.len(), path)),
                _ => {}
            }
        }
    }
    all.into_iter().max().unwrap().1
}

#[test]
fn the_documents_python_reads_a_store() {
    let Some(python) = python() else { return };
    for (algorithm, block_size) in [
        (warplock::Algorithm::Aes256Gcm, 4096),
        (warplock::Algorithm::Aes128Gcm, 65536),
    ] {
        let work = tempfile::tempdir().unwrap();
        let (store, key_file) = (work.path().join("store"), work.path().join("key"));
        fs::create_dir(&store).unwrap();
        let settings = Settings {
            algorithm,
            block_size,
        };
        let key = init(&store, &settings, "me", &recipients()).unwrap();
        fs::write(&key_file, key.as_bytes()).unwrap();
        let options = Options {
            engine: Some(engine()),
            ..Options::default()
        };
        let vault = Vault::open(&store, &key, options).unwrap();
        let data = Rng::new(1).bytes(200_000);
        vault.put("plain", &data);
        vault.put("empty", b"");
        let file = vault.file("plain").unwrap();
        vault.write(&file, 5000, b"changed", false).unwrap();
        let dir = vault.make(ROOT, OsStr::new("dir"), FOLDER, 0).unwrap().node;
        let long = "n".repeat(250);
        let sparse = vault
            .create(dir, OsStr::new(&long), FILE, WRITE, true)
            .unwrap()
            .1;
        // More than 2,048 blocks need two levels of pages.
        vault.write(&sparse, 9_000_000, b"end", false).unwrap();
        let target = OsStr::new("../plain");
        vault
            .symlink(ROOT, OsStr::new("link"), target, FILE.caller)
            .unwrap();
        let (from, to) = ((ROOT, OsStr::new("link")), (dir, OsStr::new("link")));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
        drop((file, sparse));
        vault.unmounted();
        drop(vault);

        let output = run(&python, &key_file, &store);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let mut data = data;
        data[5000..5007].copy_from_slice(b"changed");
        let mut hole = vec![0; 9_000_000];
        hole.extend_from_slice(b"end");
        let all = [
            (format!("/dir/{long}"), hole),
            ("/dir/link".into(), b"../plain".to_vec()),
            ("/empty".into(), Vec::new()),
            ("/plain".into(), data),
        ];
        let entry =
            |(path, content): &(String, Vec<u8>)| [path.as_bytes(), b"\0", content].concat();
        for expected in &all {
            let expected = entry(expected);
            assert!(
                output
                    .stdout
                    .windows(expected.len())
                    .any(|found| found == expected)
            );
        }
        let total: usize = all.iter().map(|expected| entry(expected).len()).sum();
        assert_eq!(output.stdout.len(), total);

        let victim = largest(&store);
        let mut bytes = fs::read(&victim).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&victim, bytes).unwrap();
        assert!(!run(&python, &key_file, &store).status.success());
    }
}
