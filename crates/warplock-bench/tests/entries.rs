//! `entries` on small folders: right ones, wrong ones, incomplete ones.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use warplock_bench::suite::Entries;
use warplock_bench::{Context, Error, Generate, Plan, Report, Suite, Value};

/// Several pieces of the tool's own way, and a ragged end.
const ENTRIES: u64 = 20_001;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let generate = Generate {
        dir: folder.path().to_owned(),
        entries: ENTRIES,
        seed: Some(1),
        force: false,
        threads: NonZeroUsize::MIN,
    };
    generate.run(&|_| {}).unwrap();
    folder
}

fn run(dir: &Path, cold: bool) -> Result<Report, Error> {
    let suite = Entries {
        chunks: vec![16, 1_000, 100_000_000],
        cold,
        ..Entries::new(dir)
    };
    let context = Context {
        plan: Plan::quick(),
        threads: NonZeroUsize::new(2).unwrap(),
        ..Context::default()
    };
    suite.run(&context)
}

fn refusal(dir: &Path) -> String {
    let error = run(dir, false).unwrap_err().to_string();
    assert!(!dir.join("ciphers.out.bin").exists(), "{error}");
    error
}

#[test]
fn every_way_agrees_and_the_output_stays() {
    let folder = folder();
    for cold in [false, true] {
        let report = run(folder.path(), cold).unwrap();
        let out = fs::read(folder.path().join("ciphers.out.bin")).unwrap();
        assert!(out == fs::read(folder.path().join("ciphers.bin")).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);

        // One by one, three chunks, the tool's own way, two limits, four in memory, nine quoted.
        assert_eq!(report.rows.len(), 1 + 3 + 1 + 2 + 4 + 9);
        let column = |key: &str| report.columns.iter().position(|c| c.key == key).unwrap();
        let (rate, source) = (column("aes_per_second"), column("source"));
        for row in &report.rows {
            let is_limit = matches!(&row[0], Value::Text(name) if name.starts_with("limit"));
            assert_eq!(row[rate] == Value::None, is_limit, "{row:?}");
            let is_measured = matches!(row[rate], Value::Measured(_)) || is_limit;
            assert_eq!(row[source] == Value::None, is_measured, "{row:?}");
        }
        let table = report.table();
        assert!(
            table.contains("overlapped") && table.contains("fastAES V2"),
            "{table}"
        );
        assert!(table.contains(if cold { "cold:" } else { "warm:" }));
        assert!(table.contains("One run of each way"), "{table}");
        assert!(report.svg().unwrap().contains("simple loop"));
        let json = report.json();
        let first = &json["rows"][1];
        assert_eq!(first["chunk"], 16.0);
        // A chunk longer than the files is named for what it is.
        assert_eq!(json["rows"][3]["chunk"], (16 * ENTRIES) as f64);
        assert!(
            json["title"]
                .as_str()
                .unwrap()
                .contains(folder.path().to_str().unwrap())
        );
        assert!(!table.contains("1 threads"), "{table}");
        assert!(
            table.lines().all(|line| line.chars().count() <= 100),
            "{table}"
        );
        assert!(first["wall_seconds"]["median"].as_f64().unwrap() > 0.0);
        assert!(first["cpu_seconds"]["runs"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_wrong_ciphertext_is_found_and_named() {
    let folder = folder();
    let path = folder.path().join("ciphers.bin");
    let good = fs::read(&path).unwrap();
    // The first entry, one in the middle, the last.
    for entry in [0, 12_345, ENTRIES - 1] {
        let mut bad = good.clone();
        bad[16 * entry as usize + 15] ^= 0x80;
        fs::write(&path, &bad).unwrap();
        let error = run(folder.path(), false).unwrap_err();
        assert!(matches!(error, Error::Wrong(_)));
        let digits = error.to_string().replace(',', "");
        assert!(
            digits.contains(&format!("entry {entry} differs")),
            "{error}"
        );
        assert!(!folder.path().join("ciphers.out.bin").exists());
    }
}

#[test]
fn swapped_keys_are_found() {
    let folder = folder();
    let path = folder.path().join("keys.bin");
    let mut keys = fs::read(&path).unwrap();
    let (a, b) = keys.split_at_mut(16 * 100);
    a[..16].swap_with_slice(&mut b[..16]);
    fs::write(&path, &keys).unwrap();
    assert!(refusal(folder.path()).contains("entry 0 differs"));
}

#[test]
fn missing_uneven_empty_and_ragged_files_are_refused() {
    for name in ["keys.bin", "plains.bin", "ciphers.bin"] {
        let folder = folder();
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[16..]).unwrap();
        let error = refusal(folder.path());
        assert!(error.contains("equally many entries"), "{error}");
        fs::remove_file(&path).unwrap();
        let error = refusal(folder.path());
        assert!(
            error.contains(name) && error.contains("warplock gen"),
            "{error}"
        );
    }
    let folder = folder();
    for len in [0, 15, 17] {
        for name in ["keys.bin", "plains.bin", "ciphers.bin"] {
            fs::write(folder.path().join(name), vec![0; len]).unwrap();
        }
        let error = refusal(folder.path());
        assert!(error.contains("16 bytes each"), "{error}");
    }
    assert!(refusal(Path::new("/nonexistent")).contains("/nonexistent/keys.bin"));
}

#[test]
fn a_chunk_without_room_for_an_entry_is_refused() {
    let folder = folder();
    let suite = Entries {
        chunks: vec![15],
        ..Entries::new(folder.path())
    };
    let error = suite.run(&Context::default()).unwrap_err().to_string();
    assert!(error.contains("15 bytes holds no entry"), "{error}");
}
