//! A process that may not have many files open: a program of its own, as the limit is its.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{FILE, FOLDER, Short, Told, WRITE, options, recipients};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use warplock_vault::fs::{FileSystem, ROOT, RenameFlags};
use warplock_vault::{CheckOptions, Posix, Settings, Vault, check, init, raise_descriptor_limit};

const FEW: u64 = 48;
const FOLDERS: u64 = 60;

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn limit(current: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(current);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

/// More folders than can be open, each with a new file that has a long name.
fn fill(vault: &Vault<Posix>, round: u64) {
    let long = OsStr::new(
        "a name that is so long that it takes a file of its own next to the entry, \
         because encrypted and in letters and digits it is longer than names in the store may be, \
         which are limited to 255 bytes just as this one is",
    );
    let empty = RenameFlags::empty();
    for number in 0..FOLDERS {
        let name = format!("folder {round} {number}");
        let folder = vault.make(ROOT, OsStr::new(&name), FOLDER, 0).unwrap().node;
        let made = vault.create(folder, OsStr::new("file"), FILE, WRITE, true);
        let file = made.unwrap().1;
        vault.write(&file, 0, name.as_bytes(), false).unwrap();
        // Every other one is overwritten, in its journal.
        if number % 2 == 0 {
            vault.fsync(&file, false).unwrap();
            vault.write(&file, 0, b"F", false).unwrap();
        }
        drop(file);
        vault
            .rename((folder, OsStr::new("file")), (folder, long), empty)
            .unwrap();
        let dir = vault.open_dir(folder).unwrap();
        let mut listed = 0;
        vault
            .list(&dir, 0, &mut |_| {
                listed += 1;
                true
            })
            .unwrap();
        assert_eq!(listed, 3, "{name}");
    }
    for number in 0..FOLDERS {
        let name = format!("folder {round} {number}");
        let folder = vault.node(&name).unwrap().node;
        let moved = format!("moved {round} {number}");
        let to = (ROOT, OsStr::new(&moved));
        vault.rename((ROOT, OsStr::new(&name)), to, empty).unwrap();
        let node = vault.lookup(folder, long).unwrap();
        let file = vault.open(node.node, Default::default()).unwrap();
        let mut data = vec![0; 100];
        let len = vault.read(&file, 0, &mut data).unwrap();
        assert_eq!(data[1..len], name.as_bytes()[1..]);
        drop(file);
        vault.unlink(folder, long).unwrap();
        if number % 3 > 0 {
            let made = vault.create(folder, OsStr::new("file"), FILE, WRITE, true);
            drop(made.unwrap());
        } else {
            vault.rmdir(ROOT, OsStr::new(&moved)).unwrap();
        }
    }
    for number in (0..FOLDERS).filter(|number| number % 3 > 0) {
        let moved = format!("moved {round} {number}");
        let folder = vault.node(&moved).unwrap().node;
        let made = vault.create(folder, OsStr::new("new"), FILE, WRITE, true);
        vault.write(&made.unwrap().1, 0, b"new", false).unwrap();
        assert_eq!(vault.get(&format!("{moved}/file")).unwrap(), b"");
    }
}

#[test]
fn few_descriptors_are_enough() {
    let _alone = alone();
    raise_descriptor_limit();
    let all = getrlimit(Resource::Nofile);
    assert_eq!(all.current, all.maximum);
    let folder = TempDir::new().unwrap();
    let store = folder.path();
    let key = init(store, &Settings::default(), "test", &recipients()).unwrap();
    let told = Told::default();
    // The limit may be low from the start, or others may have taken what there was.
    for (round, low_from_the_start) in [true, false].into_iter().enumerate() {
        if low_from_the_start {
            limit(FEW);
        }
        let vault = Vault::open(store, &key, options(&told)).unwrap();
        limit(FEW);
        fill(&vault, round as u64);
        vault.unmounted();
        drop(vault);
        raise_descriptor_limit();
    }
    let vault = Vault::open(store, &key, options(&told)).unwrap();
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(report.files, 2 * 2 * FOLDERS * 2 / 3);
    assert_eq!(*told.lock().unwrap(), [""; 0]);
}

/// A check of more files with several names than a process may have open.
#[test]
fn files_with_several_names_are_not_all_open_at_the_same_time() {
    const OPEN: u64 = 100;
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let key = init(dir.path(), &Settings::default(), "test", &recipients()).unwrap();
    let open = || Vault::open(dir.path(), &key, options(&Told::default())).unwrap();
    let vault = open();
    let folder = vault.make(ROOT, OsStr::new("folder"), FOLDER, 0).unwrap();
    for number in 0..OPEN + 50 {
        drop(vault.new_file(&number.to_string()));
        let node = vault.node(&number.to_string()).unwrap().node;
        let name = format!("also {number}");
        vault.link(node, folder.node, OsStr::new(&name)).unwrap();
    }
    vault.unmounted();
    drop(vault);

    limit(OPEN);
    let vault = open();
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((report.files, &report.findings[..]), (OPEN + 50, &[][..]));
    drop(vault);

    // As after a crash while each is given its second name.
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.metadata().unwrap().nlink() == 2 && entry.path().is_file() {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let repair = CheckOptions {
        repair: true,
        ..CheckOptions::default()
    };
    let vault = open();
    let report = check(&vault, repair, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len() as u64, OPEN + 50);
    assert!(report.findings.iter().all(|finding| finding.repaired));
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
}
