//! Folders that an ordinary user may not write to, in a store on a real file system.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::common::{FOLDER, Short, Told, engine, options, recipients};
use rustix::fs::Uid;
use rustix::io::Errno;
use rustix::process::geteuid;
use warplock_vault::fs::{Changes, FileSystem, ROOT, RenameFlags};
use warplock_vault::{Posix, Settings, Vault, init_on};

const NOBODY: u32 = 65_534;

/// Runs `action` in a thread that may do no more than an ordinary user, on a folder of his.
fn as_a_user(action: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    let root = geteuid().is_root();
    if root {
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    engine();
    let run = || {
        if root {
            // Of this thread alone; its capabilities go, too.
            let nobody = Uid::from_raw(NOBODY);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        action(dir.path());
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap());
}

#[test]
fn they_are_renamed_and_removed() {
    as_a_user(|path| {
        let store = Posix::new(path).unwrap();
        let key = init_on(&store, &Settings::default(), "test", &recipients()).unwrap();
        drop(store);
        for mode in [0o555, 0o444, 0o000] {
            let open = || Vault::open(path, &key, options(&Told::default())).unwrap();
            let vault = open();
            for name in ["kept", "removed", "replaced"] {
                let node = vault.make(ROOT, name.as_ref(), FOLDER, 0).unwrap().node;
                let changes = Changes {
                    mode: Some(mode),
                    ..Changes::default()
                };
                vault.change(node, None, &changes).unwrap();
            }
            vault.rmdir(ROOT, "removed".as_ref()).unwrap();
            let rename = |vault: &Vault<Posix>, from: &str, to: &str| {
                let (from, to) = ((ROOT, from.as_ref()), (ROOT, to.as_ref()));
                vault.rename(from, to, RenameFlags::empty()).unwrap();
            };
            rename(&vault, "kept", "replaced");
            vault.unmounted();
            drop(vault);
            // Now it has not been looked into.
            let vault = open();
            rename(&vault, "replaced", "last");
            assert_eq!(vault.node("last").unwrap().mode & 0o7777, mode);
            vault.rmdir(ROOT, "last".as_ref()).unwrap();
            vault.unmounted();
            let left = fs::read_dir(path).unwrap();
            let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
            left.sort();
            assert_eq!(
                left,
                ["warplock.dir", "warplock.lock", "warplock.vault"],
                "{mode:o}"
            );
        }
    });
}

/// Whoever may only read the store's files changes nothing of them, not even for a moment.
#[test]
fn a_vault_open_for_reading_grants_nothing() {
    as_a_user(|path| {
        let store = Posix::new(path).unwrap();
        let key = init_on(&store, &Settings::default(), "test", &recipients()).unwrap();
        drop(store);
        let open = |read_only| {
            let mut options = options(&Told::default());
            options.read_only = read_only;
            Vault::open(path, &key, options).unwrap()
        };
        let vault = open(false);
        vault.put("file", b"content");
        vault.unmounted();
        drop(vault);
        // The vault itself leaves its owner's permissions as they are.
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            if !entry.file_name().to_str().unwrap().starts_with("warplock.") {
                fs::set_permissions(entry.path(), Permissions::from_mode(0o200)).unwrap();
            }
        }

        let changed = || -> Vec<_> {
            let times = fs::read_dir(path).unwrap().map(|entry| {
                let found = entry.unwrap().metadata().unwrap();
                (found.ino(), found.ctime(), found.ctime_nsec())
            });
            times.collect()
        };
        let before = changed();
        assert_eq!(open(true).get("file").unwrap_err(), Errno::ACCESS);
        assert_eq!(changed(), before);
        assert_eq!(open(false).get("file").unwrap(), b"content");
    });
}
