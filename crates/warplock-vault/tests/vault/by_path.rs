//! A vault used by paths, without a mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use warplock_keyring::{Identities, NewIdentity, NoPrompt, Recipients};
use warplock_vault::{Error, Left, Options, Settings, VaultFiles, init, left};

struct Owner {
    folder: tempfile::TempDir,
    identities: Identities,
}

impl Owner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let me = NewIdentity::generate();
        let mut recipients = Recipients::new(Arc::new(NoPrompt));
        recipients.add(&me.recipient()).unwrap();
        let store = folder.path().join("store");
        fs::create_dir(&store).unwrap();
        init(&store, &Settings::default(), "me", &recipients).unwrap();
        let mut identities = Identities::new(Arc::new(NoPrompt));
        identities.add("me", me.file_text().as_bytes()).unwrap();
        Owner { folder, identities }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn open(&self) -> VaultFiles {
        let options = Options {
            memory: Some(self.folder.path().join("memory")),
            ..Options::default()
        };
        VaultFiles::open_with(self.store(), &self.identities, options).unwrap()
    }
}

fn errno<T>(result: Result<T, Error>) -> Errno {
    match result {
        Err(Error::Path { errno, .. }) => errno,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it went well"),
    }
}

#[test]
fn files_are_used_by_their_paths() {
    let owner = Owner::new();
    let content = vec![7; 100_000];
    {
        let vault = owner.open();
        vault.create_dir_all("a/b/c").unwrap();
        vault.create_dir_all("a/b").unwrap();
        vault.write("a/b/x", &content).unwrap();
        vault.write("/a/y", b"").unwrap();
        vault.write("a/y", b"short").unwrap();
        vault.write("a/y", b"s").unwrap();
        // Closed when dropped.
    }
    assert!(matches!(left(&owner.store()).unwrap(), Left::Closed));
    let vault = owner.open();
    assert_eq!(vault.read("a/b/x").unwrap(), content);
    assert_eq!(vault.read("a/./y").unwrap(), b"s");
    assert_eq!(vault.list("a").unwrap(), ["b", "y"]);
    assert_eq!(vault.list("").unwrap(), ["a"]);

    assert_eq!(errno(vault.read("a/z")), Errno::NOENT);
    assert_eq!(errno(vault.read("a/y/z")), Errno::NOTDIR);
    assert_eq!(errno(vault.read("a/../a/y")), Errno::INVAL);
    assert_eq!(errno(vault.read("a")), Errno::ISDIR);
    assert_eq!(errno(vault.write("none/x", b"")), Errno::NOENT);
    assert_eq!(errno(vault.write("", b"")), Errno::INVAL);
    assert_eq!(errno(vault.create_dir_all("a/y/z")), Errno::NOTDIR);
    assert_eq!(errno(vault.remove("a/b")), Errno::NOTEMPTY);

    vault.remove("a/b/x").unwrap();
    vault.remove("a/b/c").unwrap();
    vault.remove("a/b").unwrap();
    assert_eq!(vault.list("a").unwrap(), ["y"]);
    vault.close().unwrap();
}

fn largest(folder: &Path) -> PathBuf {
    let (mut folders, mut found) = (vec![folder.to_owned()], (0, PathBuf::new()));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match fs::symlink_metadata(&path).unwrap() {
                kind if kind.is_dir() => folders.push(path),
                kind => found = found.max((kind.len(), path)),
            }
        }
    }
    found.1
}

#[test]
fn what_was_altered_is_told_with_its_path() {
    let owner = Owner::new();
    let vault = owner.open();
    vault.create_dir_all("a").unwrap();
    vault.write("a/x", &[7; 1 << 20]).unwrap();
    vault.close().unwrap();

    let stored = largest(&owner.store());
    let mut bytes = fs::read(&stored).unwrap();
    bytes[500_000] ^= 1;
    fs::write(&stored, bytes).unwrap();
    let vault = owner.open();
    let refused = vault.read("a/x").unwrap_err();
    assert!(matches!(
        refused,
        Error::Path {
            errno: Errno::IO,
            ..
        }
    ));
    let sentence = refused.to_string();
    assert!(
        sentence.starts_with("a/x: ") && sentence.contains("altered"),
        "{sentence}"
    );
}
