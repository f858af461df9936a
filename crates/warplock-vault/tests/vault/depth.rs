//! Folders that lie deeper in each other than a stack is deep, made by users or planted in the
//! store. Tests have stacks of 2 MiB, like the threads of a mount.

use std::ffi::OsStr;

use warplock_vault::fs::{Errno, FileSystem, Node, ROOT};
use warplock_vault::storage::At;
use warplock_vault::{CheckOptions, Class, Finding, Settings, Storage, Vault, check};

use crate::common::mem::Mem;
use crate::common::{FILE, FOLDER, Short, WRITE, new_vault, open};

const DEEP: usize = 10_000;
/// More folders than a vault keeps open.
const MANY: usize = 1_100;
const TEMPORARY: &str = "warplock.tmp.000000000000000000000000";

fn folder_in(vault: &Vault<Mem>, parent: Node, name: &str) -> Node {
    let made = vault.make(parent, OsStr::new(name), FOLDER, 0);
    made.unwrap().node
}

/// Has the vault close folders that are open only to save time.
fn open_others(vault: &Vault<Mem>, round: &str) {
    for number in 0..MANY {
        let node = folder_in(vault, ROOT, &format!("{round} {number}"));
        vault.open_dir(node).unwrap();
    }
}

#[test]
fn a_deep_tree_is_used_checked_and_forgotten() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let mut chain = vec![ROOT];
    for _ in 0..DEEP {
        chain.push(folder_in(&vault, *chain.last().unwrap(), "d"));
    }
    let deepest = chain[DEEP];
    open_others(&vault, "first");
    let (_, file) = vault
        .create(deepest, "file".as_ref(), FILE, WRITE, true)
        .unwrap();
    vault.write(&file, 0, b"content", false).unwrap();
    open_others(&vault, "second");
    assert!(vault.lookup(deepest, "file".as_ref()).is_ok());
    assert_eq!(vault.lookup(deepest, "x".as_ref()), Err(Errno::NOENT));
    drop(file);
    vault.tick().unwrap();
    // The last one holds all others then.
    for node in &chain[1..] {
        vault.forget(*node, 1);
    }
    drop(vault);

    let vault = open(mem, &key);
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.class == Class::Crash)
    );
    assert_eq!(report.folders, (1 + DEEP + 2 * MANY) as u64);
    assert_eq!(report.files, 1);
}

/// Plants folders in each other, with names of what the vault leaves unfinished.
fn plant(mem: &Mem, mut dir: u64, depth: usize) {
    for _ in 0..depth {
        mem.make_dir(&dir, OsStr::new(TEMPORARY), 0o700).unwrap();
        dir = mem.open_dir(&dir, OsStr::new(TEMPORARY)).unwrap();
    }
}

#[test]
fn planted_folders_are_altered_not_unfinished() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let node = folder_in(&vault, ROOT, "folder");
    let dir = mem.attributes(At::Name(&1, stored(&mem).as_ref()));
    plant(&mem, dir.unwrap().node, 18_000);
    vault.forget(node, 1);
    plant(&mem, 1, 18_000);

    let repair = CheckOptions {
        repair: true,
        ..CheckOptions::default()
    };
    let report = check(&vault, repair, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 2);
    for finding in &report.findings {
        assert!(
            finding.class == Class::Altered && finding.repaired,
            "{finding:?}"
        );
    }
    vault.rmdir(ROOT, "folder".as_ref()).unwrap();
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    let noted = |finding: &Finding| finding.class == Class::Note;
    assert!(report.findings.iter().all(noted), "{report:?}");
}

/// The only entry in the topmost folder.
fn stored(mem: &Mem) -> String {
    let listed = mem.list(&1).unwrap().into_iter();
    let mut names = listed.map(|entry| entry.name.into_string().unwrap());
    names.find(|name| !name.contains('.')).unwrap()
}

/// What an interrupted mkdir leaves goes first, so that what a crash leaves of the removal is one
/// level deep again.
#[test]
fn a_folder_with_unfinished_ones_is_removed() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    folder_in(&vault, ROOT, "folder");
    let dir = mem.attributes(At::Name(&1, stored(&mem).as_ref()));
    let dir = dir.unwrap().node;
    plant(&mem, dir, 1);
    let inner = mem.open_dir(&dir, OsStr::new(TEMPORARY)).unwrap();
    mem.create(&inner, "warplock.dir.new".as_ref(), 0o600)
        .unwrap();
    vault.rmdir(ROOT, "folder".as_ref()).unwrap();
    assert_eq!(vault.node("folder"), Err(Errno::NOENT));
    vault.unmounted();
    let names: Vec<_> = mem.list(&1).unwrap();
    assert_eq!(names.len(), 2, "{names:?}");
}
