//! Conflict copies of sync programs.

use std::ffi::{OsStr, OsString};

use warplock_keyring::MasterKey;
use warplock_vault::fs::{FileSystem, ROOT};
use warplock_vault::{CheckOptions, Class, Report, Settings, Vault, check};

use crate::common::mem::{Mem, Object};
use crate::common::{Short, Told, new_vault, open, options};

const TOP: u64 = 1;

fn run(vault: &Vault<Mem>, repair: bool) -> Report {
    let quick = false;
    check(vault, CheckOptions { quick, repair }, &mut |_| {}).unwrap()
}

/// The name in the store of a file in the topmost folder.
fn stored_name(mem: &Mem, key: &MasterKey, name: &str) -> OsString {
    let inode = open(mem.fork(), key).node(name).unwrap().node;
    let disk = mem.disk();
    let mut entries = disk.objects[&TOP].entries.iter();
    entries
        .find(|(_, entry)| **entry == inode)
        .unwrap()
        .0
        .clone()
}

/// A sync program's conflict copy is another version of a file: it is noted with a way to read it, stays,
/// and changes nothing. What only looks like one is none of the vault's.
#[test]
fn conflict_copies_are_noted_and_can_be_read() {
    let long = "n".repeat(250);
    for (name, added) in [
        ("file", ".sync-conflict-20261129-101112-ABCDEFG"),
        ("file", " (conflicted copy)"),
        ("file", "-Conflict-1"),
        (&long, " (conflicted copy)"),
    ] {
        let (mem, key) = new_vault(&Settings::default());
        let vault = open(mem.clone(), &key);
        vault.put(name, b"one machine's");
        vault.put("other", b"other");
        vault.unmounted();
        drop(vault);
        let stored = stored_name(&mem, &key, name);
        let other = stored_name(&mem, &key, "other");
        // What the other machine made of it.
        let there = mem.fork();
        let vault = open(there.clone(), &key);
        let file = vault.file(name).unwrap();
        vault.write(&file, 0, b"the other one", false).unwrap();
        drop(file);
        vault.unmounted();
        drop(vault);
        let object = |mem: &Mem, stored: &OsStr| {
            let disk = mem.disk();
            disk.objects[&disk.objects[&TOP].entries[stored]].clone()
        };
        let text = stored.to_str().unwrap();
        let copy = match text.strip_suffix(".long") {
            Some(hash) => format!("{hash}{added}.long"),
            None => format!("{text}{added}"),
        };
        let put = |mem: &Mem, name: &str, object: Object| {
            let mut disk = mem.disk();
            let inode = disk.plant(object);
            disk.object(TOP).entries.insert(name.into(), inode);
        };
        put(&mem, &copy, object(&there, &stored));
        let told = Told::default();
        for repair in [false, true] {
            let vault = Vault::open_on(mem.clone(), &key, options(&told)).unwrap();
            let dir = vault.open_dir(ROOT).unwrap();
            let mut names = Vec::new();
            vault
                .list(&dir, 0, &mut |entry| {
                    names.push(entry.name.to_owned());
                    true
                })
                .unwrap();
            assert_eq!(names.len(), 4, "{names:?}");
            let findings = run(&vault, repair).findings;
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].class, Class::Note, "{findings:?}");
            assert!(findings[0].problem.contains(&copy), "{findings:?}");
            assert!(findings[0].action.contains(text), "{findings:?}");
            assert_eq!(vault.get(name).unwrap(), b"one machine's");
            vault.unmounted();
        }
        assert!(told.lock().unwrap().iter().any(|it| it.contains(&copy)));
        // As the sentence says: in a copy of the store, under its name.
        let elsewhere = mem.fork();
        put(&elsewhere, text, object(&mem, OsStr::new(&copy)));
        elsewhere
            .disk()
            .object(TOP)
            .entries
            .remove(OsStr::new(&copy));
        let mut read_only = options(&Told::default());
        read_only.read_only = true;
        let vault = Vault::open_on(elsewhere, &key, read_only).unwrap();
        assert_eq!(vault.get(name).unwrap(), b"the other one");
        // Another file, something that is no file of the vault, and one whose original is gone.
        let altered = |mem: &Mem| {
            let vault = open(mem.clone(), &key);
            let findings = run(&vault, false).findings;
            vault.unmounted();
            findings.iter().any(|it| it.class == Class::Altered)
        };
        let mut wrong = mem.fork();
        put(&wrong, &copy, object(&mem, &other));
        assert!(altered(&wrong), "{copy}");
        wrong = mem.fork();
        put(&wrong, &copy, Object::new(0o100_600));
        assert!(altered(&wrong), "{copy}");
        wrong = mem.fork();
        wrong.disk().object(TOP).entries.remove(&stored);
        assert!(altered(&wrong), "{copy}");
    }
}
