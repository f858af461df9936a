//! Vaults of an ordinary user, in a store on a real file system: objects that their owner may not
//! write to, and stores from where the user had another id.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{FILE, FOLDER, Short, Told, engine, options, recipients};
use rustix::fs::Uid;
use rustix::io::Errno;
use rustix::process::geteuid;
use warplock_vault::fs::{
    Caller, Changes, FileSystem, NewNode, ROOT, RenameFlags, SetTime, XattrFlags,
};
use warplock_vault::{Options, Posix, Settings, Vault, init_on};

const NOBODY: u32 = 65_534;

/// Runs `action` in a thread with no more rights than an ordinary user, on that user's folder.
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

/// A vault open for reading never changes the store's files, not even for a moment.
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

/// As on other file systems: the vault can write to a file although its owner may not.
#[test]
fn a_file_for_reading_only() {
    as_a_user(|path| {
        let store = Posix::new(path).unwrap();
        let key = init_on(&store, &Settings::default(), "test", &recipients()).unwrap();
        drop(store);
        let open = || Vault::open(path, &key, options(&Told::default())).unwrap();
        let chmod = |mode| Changes {
            mode: Some(mode),
            ..Changes::default()
        };
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let times = Changes {
            modified: Some(SetTime::To(time)),
            accessed: Some(SetTime::To(time)),
            ..Changes::default()
        };
        for mode in [0o444, 0o000] {
            let vault = open();
            vault.put("file", b"content");
            let node = vault.node("file").unwrap().node;
            vault.change(node, None, &chmod(mode)).unwrap();
            vault.change(node, None, &times).unwrap();
            vault.unmounted();
            drop(vault);
            let vault = open();
            let found = vault.node("file").unwrap();
            assert_eq!((found.mode & 0o7777, found.modified), (mode, time));
            vault.change(found.node, None, &times).unwrap();
            vault
                .set_xattr(found.node, "user.x".as_ref(), b"1", XattrFlags::empty())
                .unwrap();
            vault.link(found.node, ROOT, "link".as_ref()).unwrap();
            vault.unlink(ROOT, "link".as_ref()).unwrap();
            vault.change(found.node, None, &chmod(0o644)).unwrap();
            let file = vault.file("file").unwrap();
            vault.write(&file, 0, b"another", false).unwrap();
            drop(file);
            vault.unlink(ROOT, "file".as_ref()).unwrap();
            vault.unmounted();
        }
    });
}

/// A store that was copied from where its user had another id is the user's here, too, and what is
/// made here is the user's there.
#[test]
fn a_store_from_where_its_user_had_another_id() {
    if !geteuid().is_root() {
        return;
    }
    // Another user's: the way back is that of root, which sees ids as they are.
    let dir = tempfile::tempdir().unwrap();
    let store = Posix::new(dir.path()).unwrap();
    chown(dir.path(), Some(1234), Some(1235)).unwrap();
    let key = init_on(&store, &Settings::default(), "test", &recipients()).unwrap();
    drop(store);
    let open = || Vault::open(dir.path(), &key, options(&Told::default())).unwrap();
    let make = |vault: &Vault<Posix>, name: &str, uid, gid| {
        let new = NewNode {
            caller: Caller { uid, gid },
            ..FILE
        };
        vault.make(ROOT, name.as_ref(), new, 0).unwrap();
    };
    let owner = |vault: &Vault<Posix>, name| {
        let found = vault.node(name).unwrap();
        (found.uid, found.gid)
    };
    let vault = open();
    make(&vault, "own", 1234, 1235);
    make(&vault, "other", 77, 78);
    make(&vault, "nobody's", NOBODY, 78);
    vault.unmounted();
    drop(vault);
    let all = || {
        fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let give = |uid| {
        for path in all().chain([dir.path().to_owned()]) {
            chown(path, Some(uid), Some(uid)).unwrap();
        }
    };
    give(NOBODY);
    std::thread::scope(|scope| {
        let run = || {
            let nobody = Uid::from_raw(NOBODY);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let gid = rustix::process::getegid().as_raw();
            let vault = open();
            assert_eq!(owner(&vault, "own"), (NOBODY, gid));
            assert_eq!(owner(&vault, "other"), (77, 78));
            assert_eq!(owner(&vault, "nobody's"), (1234, 78));
            assert_eq!(vault.attributes(ROOT, None).unwrap().uid, NOBODY);
            make(&vault, "new", NOBODY, gid);
            assert_eq!(owner(&vault, "new"), (NOBODY, gid));
            vault.unmounted();
        };
        scope.spawn(run).join().unwrap();
    });
    let vault = open();
    assert_eq!(owner(&vault, "new"), (1234, 1235));
    assert_eq!(owner(&vault, "nobody's"), (NOBODY, 78));
    vault.unmounted();
    drop(vault);
    // A user who mounts it without owning the store sees ids as they are.
    give(1234);
    for path in all().chain([dir.path().to_owned()]) {
        let mode = if path.is_dir() { 0o777 } else { 0o666 };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    std::thread::scope(|scope| {
        let run = || {
            let nobody = Uid::from_raw(NOBODY);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let options = Options {
                read_only: true,
                ..options(&Told::default())
            };
            let vault = Vault::open(dir.path(), &key, options).unwrap();
            assert_eq!(owner(&vault, "own"), (1234, 1235));
            assert_eq!(owner(&vault, "nobody's"), (NOBODY, 78));
        };
        scope.spawn(run).join().unwrap();
    });
}
