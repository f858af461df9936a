//! Key and identity files on disk: content, permissions, replacement.

use std::sync::Arc;

use crate::common::*;
use warplock_keyring::{
    Error, Identities, MasterKey, NewIdentity, NoPrompt, Recipients, read_key_file, write_key_file,
    write_secret_file,
};

#[cfg(unix)]
fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[cfg(unix)]
fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn key_file_round_trip_and_replacement() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let (first, second) = (
        MasterKey::generate().unwrap(),
        MasterKey::generate().unwrap(),
    );
    write_key_file(&path, &first, false).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let expected: String = first
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(text, expected + "\n");
    let read = read_key_file(&path).unwrap();
    assert_eq!(read.key, first);
    assert_eq!(read.exposed, None);

    let error = write_key_file(&path, &second, false).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().contains("key"), "{error}");
    assert_eq!(
        read_key_file(&path).unwrap().key,
        first,
        "a refusal changes nothing"
    );

    #[cfg(unix)]
    set_mode(&path, 0o644);
    write_key_file(&path, &second, true).unwrap();
    assert_eq!(read_key_file(&path).unwrap().key, second);
    #[cfg(unix)]
    assert_eq!(mode(&path), 0o600, "the old file's mode does not live on");
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "no temporary file stays"
    );

    assert!(
        write_secret_file(dir.path(), b"x", true).is_err(),
        "a folder is not replaced"
    );
    assert!(
        read_key_file(dir.path().join("none"))
            .unwrap_err()
            .to_string()
            .contains("none")
    );
}

#[test]
fn key_file_errors_name_file_and_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short.key");
    write_secret_file(&path, &[1; 31], false).unwrap();
    let error = read_key_file(&path).unwrap_err().to_string();
    assert!(
        error.contains("short.key") && error.contains("31 bytes"),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn files_open_to_others_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    write_key_file(&key, &known_key(), false).unwrap();
    assert_eq!(mode(&key), 0o600);
    for (bits, warned) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
        set_mode(&key, bits);
        let exposed = read_key_file(&key).unwrap().exposed;
        assert_eq!(
            exposed.as_ref().map(|exposed| exposed.mode),
            warned.then_some(bits)
        );
    }

    let mut identities = Identities::new(Arc::new(NoPrompt));
    for name in [
        "age_identity",
        "age_identity_encrypted.age",
        "ssh_rsa",
        "ssh_rsa_encrypted",
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, data(name)).unwrap();
        set_mode(&path, 0o644);
        identities.add_file(&path).unwrap();
    }
    // Encrypted ones are protected by their passphrase.
    let names: Vec<_> = identities
        .exposed()
        .iter()
        .map(|e| e.path.file_name().unwrap())
        .collect();
    assert_eq!(names, ["age_identity", "ssh_rsa"]);
}

#[test]
fn files_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large");
    std::fs::write(&path, vec![b'\n'; 1024 * 1024 + 1]).unwrap();
    let error = Identities::new(Arc::new(NoPrompt))
        .add_file(&path)
        .unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let error = Recipients::new(Arc::new(NoPrompt))
        .add_file(&path)
        .unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[test]
fn a_written_identity_works() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("me.txt");
    let identity = NewIdentity::generate();
    write_secret_file(&path, identity.file_text().as_bytes(), false).unwrap();
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities.add_file(&path).unwrap();
    assert_eq!(identities.recipients().unwrap(), [identity.recipient()]);
    assert!(identities.exposed().is_empty());
}
