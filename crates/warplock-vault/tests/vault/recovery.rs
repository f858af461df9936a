//! `warplock.vault` made again from the master key on paper.

use std::fs;

use tempfile::TempDir;
use warplock::Algorithm;
use warplock_keyring::MasterKey;
use warplock_vault::{CONFIG, ErrorKind, Settings, Vault, export_key, info, init, recover};

use crate::common::{Short, Told, options, recipients};

fn store(settings: &Settings) -> (TempDir, MasterKey) {
    let folder = TempDir::new().unwrap();
    let key = init(folder.path(), settings, "main", &recipients()).unwrap();
    let vault = Vault::open(folder.path(), &key, options(&Told::default())).unwrap();
    vault.put("file", b"content");
    vault.close().unwrap();
    (folder, key)
}

#[test]
fn a_lost_file_of_settings_is_made_again() {
    for algorithm in [Algorithm::Aes256Gcm, Algorithm::Aes128Gcm] {
        let settings = Settings {
            algorithm,
            block_size: 65536,
        };
        let (folder, key) = store(&settings);
        let path = folder.path();
        let text = export_key(path, &key).unwrap();
        let before = info(path).unwrap();
        // Not as long as it is there.
        let error = recover(path, &text, "new", &recipients()).unwrap_err();
        assert!(error.to_string().contains("already"), "{error}");
        fs::remove_file(path.join(CONFIG)).unwrap();
        let typed = text.to_uppercase().replace(' ', "");
        recover(path, &format!("on paper\n{typed}"), "new", &recipients()).unwrap();
        let after = info(path).unwrap();
        assert_eq!(
            (after.id, after.algorithm, after.block_size),
            (before.id, algorithm, 65536)
        );
        assert_eq!(after.keys[0].0, "new");
        let vault = Vault::open(path, &key, options(&Told::default())).unwrap();
        assert_eq!(vault.get("file").unwrap(), b"content");
    }
}

#[test]
fn errors_in_typing_are_found_in_their_line() {
    let (folder, key) = store(&Settings::default());
    let text = export_key(folder.path(), &key).unwrap();
    fs::remove_file(folder.path().join(CONFIG)).unwrap();
    let refused = |text: &str, said: &str| {
        let error = recover(folder.path(), text, "new", &recipients()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(said), "{error}");
        assert!(!folder.path().join(CONFIG).exists());
    };
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_ascii_hexdigit()) {
        let line = text[..at].lines().count().max(1);
        if text[..at].ends_with('\n') || at == 0 {
            continue;
        }
        let mut other = text.to_string();
        other.replace_range(at..=at, if c == '0' { "1" } else { "0" });
        refused(&other, &format!("line {line} has a wrong digit"));
    }
    let lines: Vec<_> = text.lines().collect();
    refused(&lines[1..].join("\n"), "line 1 is missing");
    refused(&text.replacen("  ", " x", 1), "line 1 has to have 7 groups");
    refused("", "line 1 is missing");
    // Another vault's lines.
    let (other, other_key) = store(&Settings::default());
    let theirs = export_key(other.path(), &other_key).unwrap();
    let mixed: Vec<_> = lines[..3]
        .iter()
        .copied()
        .chain(theirs.lines().skip(3))
        .collect();
    refused(&mixed.join("\n"), "do not belong together");
    let error = recover(folder.path(), &theirs, "new", &recipients()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Authentication);
    // A key of another vault is not printed for this one.
    recover(folder.path(), &text, "new", &recipients()).unwrap();
    assert!(export_key(folder.path(), &other_key).is_err());
}
