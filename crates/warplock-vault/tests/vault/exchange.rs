//! Exchanges of names that fail.

use std::ffi::OsStr;

use crate::common::mem::Mem;
use crate::common::{FILE, FOLDER, Short, Told, WRITE, new_vault, open, options};
use rustix::io::Errno;
use warplock_vault::fs::{FileSystem, ROOT, RenameFlags};
use warplock_vault::{CheckOptions, Class, Settings, Vault, check};

const NAMES: [&str; 2] = ["one", "two"];

fn exchange(vault: &Vault<Mem>) -> Result<(), Errno> {
    let [one, two] = NAMES.map(|name| (ROOT, OsStr::new(name)));
    vault.rename(one, two, RenameFlags::EXCHANGE)
}

/// Files, folders with a file, and symlinks.
const KINDS: [&str; 3] = ["", "/inner", "link"];

fn fill(vault: &Vault<Mem>, kind: &str) {
    for name in NAMES {
        let os = OsStr::new(name);
        match kind {
            "" => vault.put(name, name.as_bytes()),
            "link" => drop(vault.symlink(ROOT, os, os, FILE.caller).unwrap()),
            _ => {
                let folder = vault.make(ROOT, os, FOLDER, 0).unwrap().node;
                let inner = vault.create(folder, OsStr::new("inner"), FILE, WRITE, true);
                let file = inner.unwrap().1;
                vault.write(&file, 0, name.as_bytes(), false).unwrap();
            }
        }
    }
    vault.tick().unwrap();
}

/// What is read under both names.
fn read(vault: &Vault<Mem>, kind: &str) -> [Vec<u8>; 2] {
    NAMES.map(|name| match kind {
        "link" => vault.readlink(vault.node(name).unwrap().node).unwrap(),
        _ => vault.get(&format!("{name}{kind}")).unwrap(),
    })
}

#[test]
fn what_was_not_exchanged_may_not_stand_elsewhere() {
    for kind in KINDS {
        let (mem, key) = new_vault(&Settings::default());
        let vault = open(mem.clone(), &key);
        fill(&vault, kind);
        mem.disk().no_exchange = true;
        assert_eq!(exchange(&vault), Err(Errno::INVAL));
        vault.unmounted();
        drop(vault);
        let vault = open(mem, &key);
        assert_eq!(read(&vault, kind), NAMES.map(|name| name.as_bytes()));
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(report.findings, [], "{kind}");
    }
}

#[test]
fn an_exchange_fails_at_every_point() {
    let [one, two] = NAMES.map(|name| name.as_bytes());
    for kind in KINDS {
        for after in 0.. {
            let (mem, key) = new_vault(&Settings::default());
            let vault = open(mem.clone(), &key);
            fill(&vault, kind);
            mem.disk().fault = Some((after, Errno::NOSPC));
            let result = exchange(&vault);
            mem.disk().fault = None;
            let found = read(&vault, kind);
            let swapped = found == [two, one];
            assert!(swapped || found == [one, two], "{kind} {after}: {found:?}");
            assert!(swapped || result.is_err(), "{kind} {after}");
            vault.unmounted();
            drop(vault);
            let told = Told::default();
            let vault = Vault::open_on(mem, &key, options(&told)).unwrap();
            let as_after_a_crash = !told.lock().unwrap().is_empty();
            assert_eq!(read(&vault, kind), found, "{kind} {after}");
            let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
            assert!(
                report
                    .findings
                    .iter()
                    .all(|finding| finding.class == Class::Crash)
            );
            // A file's header waits for the next commit; a folder's record was to change without
            // delay.
            if kind.is_empty() && !as_after_a_crash {
                assert_eq!(report.findings, [], "{after}");
            }
            if result.is_ok() {
                break;
            }
        }
    }
}

/// In the lower layers of overlayfs.
#[test]
fn folders_that_cannot_be_renamed_can_be_removed() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    fill(&vault, "/inner");
    mem.disk().fixed_folders = true;
    let [one, two] = NAMES.map(|name| (ROOT, OsStr::new(name)));
    let other = (ROOT, OsStr::new("other"));
    let refused = vault.rename(one, other, RenameFlags::empty());
    assert_eq!(refused, Err(Errno::XDEV));
    assert_eq!(vault.rmdir(two.0, two.1), Err(Errno::NOTEMPTY));
    let folder = vault.node("two").unwrap().node;
    vault.unlink(folder, OsStr::new("inner")).unwrap();
    // Neither is the empty one replaced.
    let refused = vault.rename(one, two, RenameFlags::empty());
    assert_eq!(refused, Err(Errno::XDEV));
    assert!(vault.node("two").is_ok());
    vault.rmdir(two.0, two.1).unwrap();
    assert_eq!(vault.node("two").err(), Some(Errno::NOENT));
    vault.unmounted();
    drop(vault);
    let vault = open(mem, &key);
    assert_eq!(vault.get("one/inner").unwrap(), b"one");
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
}
