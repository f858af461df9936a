//! Files that others change below a mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;
use warplock_keyring::{NewIdentity, NoPrompt, Recipients};
use warplock_vault::fuse::{Mount, Options};
use warplock_vault::pass_through::PassThrough;
use warplock_vault::{Settings, Vault, init};

use crate::failing::end;
use crate::harness::{can_mount, limited};

/// A kernel that must ask sees new contents whenever a file is opened, and new names without delay.
#[test]
fn a_kernel_that_asks_sees_what_others_change() {
    limited(|| {
        if !can_mount() {
            return;
        }
        let (folder, point) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let below = folder.path().join("file");
        fs::write(&below, "content").unwrap();
        let files = Arc::new(PassThrough::open(folder.path()).unwrap());
        let options = Options {
            sole: false,
            ..Options::default()
        };
        let mount = Mount::new(files, point.path(), &options).unwrap();
        assert_eq!(fs::read(point.path().join("file")).unwrap(), b"content");
        fs::write(&below, "CONTENT").unwrap();
        assert_eq!(fs::read(point.path().join("file")).unwrap(), b"CONTENT");

        assert!(!point.path().join("new").exists());
        fs::write(folder.path().join("new"), "more").unwrap();
        assert_eq!(fs::read(point.path().join("new")).unwrap(), b"more");
        end(mount);
    });
}

/// The entries of a folder of the store, without what is the vault's own.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| !path.file_name().unwrap().to_str().unwrap().contains('.'));
    paths.sort();
    paths
}

/// Folders that are exchanged below a mount are refused under each other's names; files that others
/// replace with a version of theirs are read.
#[test]
fn a_vault_sees_what_others_change_below() {
    limited(|| {
        if !can_mount() {
            return;
        }
        let (store, point) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut to = Recipients::new(Arc::new(NoPrompt));
        to.add(&NewIdentity::generate().recipient()).unwrap();
        let key = init(store.path(), &Settings::default(), "main", &to).unwrap();
        let options = warplock_vault::Options {
            trouble: Some(Arc::new(|line: &str| eprintln!("vault: {line}"))),
            ..warplock_vault::Options::default()
        };
        let vault = Vault::open(store.path(), &key, options).unwrap();
        let options = Options {
            sole: false,
            ..Options::default()
        };
        let mount = Mount::new(Arc::new(vault), point.path(), &options).unwrap();
        let path = |name: &str| point.path().join(name);
        let forgotten = || std::thread::sleep(Duration::from_millis(1300));

        for name in ["private", "published"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("x"), name).unwrap();
            assert_eq!(fs::read(path(name).join("x")).unwrap(), name.as_bytes());
        }
        let [one, other] = &entries(store.path())[..] else {
            panic!("two folders");
        };
        let exchange = || {
            let flags = RenameFlags::EXCHANGE;
            renameat_with(CWD, one, CWD, other, flags).unwrap();
            forgotten();
        };
        exchange();
        let altered = |result: std::io::Result<()>| {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(5));
        };
        for name in ["private", "published"] {
            altered(fs::read(path(name).join("x")).map(drop));
            altered(fs::write(path(name).join("secret"), "secret"));
            altered(fs::remove_file(path(name).join("x")));
            altered(fs::read_dir(path(name)).map(drop));
        }
        exchange();
        for name in ["private", "published"] {
            assert_eq!(fs::read(path(name).join("x")).unwrap(), name.as_bytes());
            assert_eq!(entries_count(&path(name)), 1);
        }

        // As a sync program puts a version in its place: a new file, renamed over it.
        for name in ["private", "published"] {
            let file = fs::File::open(path(name).join("x")).unwrap();
            file.sync_all().unwrap();
        }
        for folder in [one, other] {
            let [file] = &entries(folder)[..] else {
                panic!("one file");
            };
            let new = folder.join("new.tmp");
            fs::copy(file, &new).unwrap();
            fs::rename(&new, file).unwrap();
        }
        // As long as what was written a moment ago is not committed, two have the file's id.
        let start = Instant::now();
        let mut read = 0;
        while read < 6 {
            assert!(start.elapsed() < Duration::from_secs(60));
            for name in ["private", "published"] {
                match fs::read(path(name).join("x")) {
                    Ok(content) => assert_eq!(content, name.as_bytes()),
                    Err(_) => read = -1,
                }
                read += 1;
            }
            forgotten();
        }
        end(mount);
    });
}

fn entries_count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}
