//! A repair makes nothing worse: what it did not see, could not read or did not make, it keeps.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::common::mem::{Mem, Object};
use crate::common::{FILE, FOLDER, Short, Told, WRITE, new_vault, open, options};
use rustix::io::Errno;
use warplock_keyring::MasterKey;
use warplock_vault::fs::{Access, Caller, FileSystem, ROOT};
use warplock_vault::{CheckOptions, Class, Finding, LOST, Report, Settings, Vault, check};

const TOP: u64 = 1;

fn run(vault: &Vault<Mem>, repair: bool) -> Report {
    let quick = false;
    check(vault, CheckOptions { quick, repair }, &mut |_| {}).unwrap()
}

/// The inode of a path in the vault, and the folder and name in the store where it stands.
fn find(mem: &Mem, key: &MasterKey, path: &str) -> (u64, u64, OsString) {
    let inode = open(mem.fork(), key).node(path).unwrap().node;
    let disk = mem.disk();
    let mut all = disk.objects.iter();
    all.find_map(|(dir, object)| {
        let mut entries = object.entries.iter();
        let (name, _) = entries.find(|(_, entry)| **entry == inode)?;
        Some((inode, *dir, name.clone()))
    })
    .unwrap()
}

fn entry(mem: &Mem, dir: u64, name: &str) -> Option<u64> {
    let disk = mem.disk();
    disk.objects[&dir].entries.get(OsStr::new(name)).copied()
}

/// A vault after a crash: `dir/file`, whose last change is in its journal only, and which has
/// another name in the topmost folder.
fn crashed(memory: &Path) -> (Mem, MasterKey) {
    let (mem, key) = new_vault(&Settings::default());
    let vault = with_memory(&mem, &key, memory);
    let dir = vault.make(ROOT, OsStr::new("dir"), FOLDER, 0).unwrap();
    vault.put("file", &[1; 10_000]);
    let node = vault.node("file").unwrap().node;
    vault.link(node, dir.node, OsStr::new("also")).unwrap();
    let inner = vault
        .create(dir.node, OsStr::new("inner"), FILE, WRITE, true)
        .unwrap()
        .1;
    vault.write(&inner, 0, &[1; 10_000], false).unwrap();
    vault.tick().unwrap();
    vault.write(&inner, 5000, &[2; 3000], false).unwrap();
    vault.fsync(&inner, true).unwrap();
    vault.tick().unwrap();
    vault.write(&inner, 0, &[3; 3000], false).unwrap();
    vault.fsync(&inner, true).unwrap();
    (mem.fork(), key)
}

fn with_memory(mem: &Mem, key: &MasterKey, memory: &Path) -> Vault<Mem> {
    let mut options = options(&Told::default());
    options.memory = Some(memory.to_owned());
    Vault::open_on(mem.clone(), key, options).unwrap()
}

/// A folder whose record is missing for the moment, as while a sync program is at work.
#[test]
fn files_that_were_not_seen_lose_nothing() {
    let memory = tempfile::tempdir().unwrap();
    let memory = memory.path().join("memory");
    let (mem, key) = crashed(&memory);
    let (dir, top, stored) = find(&mem, &key, "dir");
    let record = OsStr::new("warplock.dir");
    let taken = mem.disk().object(dir).entries.remove(record).unwrap();
    for _ in 0..2 {
        let vault = with_memory(&mem, &key, &memory);
        let report = run(&vault, true);
        let kept = report.findings.iter().filter(|found| !found.repaired);
        assert!(kept.count() >= 2, "{report:?}");
        vault.unmounted();
    }
    // It comes back.
    {
        let lost = entry(&mem, TOP, LOST).unwrap();
        let mut disk = mem.disk();
        disk.object(lost).entries.clear();
        disk.object(top).entries.insert(stored, dir);
        disk.object(dir).entries.insert(record.into(), taken);
    }
    let vault = with_memory(&mem, &key, &memory);
    let expected = [&[3; 3000][..], &[1; 2000], &[2; 3000], &[1; 2000]].concat();
    assert_eq!(vault.get("dir/inner").unwrap(), expected);
    assert_eq!(vault.get("dir/also").unwrap(), [1; 10_000]);
    let report = run(&vault, true);
    assert!(report.findings.iter().all(|found| found.repaired));
    vault.unmounted();
    drop(vault);
    assert_eq!(entry(&mem, TOP, "warplock.journal"), None);
    let vault = with_memory(&mem, &key, &memory);
    assert_eq!(run(&vault, false).findings, []);
}

/// What a repair took away can be moved back by what it says, and intact blocks be read.
#[test]
fn what_was_altered_can_be_moved_back() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let dir = vault.make(ROOT, OsStr::new("dir"), FOLDER, 0).unwrap();
    let made = vault.create(dir.node, OsStr::new("file"), FILE, WRITE, true);
    let file = made.unwrap().1;
    vault.write(&file, 0, &[5; 20_000], false).unwrap();
    vault.unmounted();
    drop((file, vault));
    let (inode, dir, stored) = find(&mem, &key, "dir/file");
    let (_, _, stored_dir) = find(&mem, &key, "dir");
    // In the last block's text; its tag is as it was.
    let spoil = |data: &mut Vec<u8>| *data.iter_mut().nth_back(100).unwrap() ^= 1;
    spoil(&mut mem.disk().object(inode).data);

    let vault = open(mem.clone(), &key);
    let report = run(&vault, true);
    let [finding] = &report.findings[..] else {
        panic!("{report:?}");
    };
    assert!(
        finding.repaired && finding.class != Class::Crash,
        "{finding:?}"
    );
    let from = Path::new(&stored_dir).join(&stored);
    let said = format!("moved in the store from {} to {LOST}/", from.display());
    let name = finding.action.strip_prefix(&said).unwrap();
    vault.unmounted();
    drop(vault);

    let lost = entry(&mem, TOP, LOST).unwrap();
    let moved = mem.disk().object(lost).entries.remove(OsStr::new(name));
    assert_eq!(moved, Some(inode));
    mem.disk().object(dir).entries.insert(stored, inode);
    let vault = open(mem, &key);
    let node = vault.node("dir/file").unwrap().node;
    let file = vault.open(node, Access::default()).unwrap();
    let mut read = [0; 16_384];
    assert_eq!(vault.read(&file, 0, &mut read), Ok(16_384));
    assert_eq!(read, [5; 16_384]);
    assert_eq!(vault.read(&file, 16_384, &mut read), Err(Errno::IO));
}

/// What only a crash excuses is excused as long as it is there.
#[test]
fn a_vault_is_clean_only_when_all_is_repaired() {
    let damages: [fn(&mut Vec<u8>); 2] =
        [|data| data[16..2048].fill(7), |data| data.extend([0; 500])];
    for damage in damages {
        let (mem, key) = new_vault(&Settings::default());
        let vault = open(mem.clone(), &key);
        vault.put("file", b"content");
        let inode = vault.node("file").unwrap().node;
        drop(vault);
        damage(&mut mem.disk().object(inode).data);
        mem.disk().refused.insert(inode, (Errno::ACCESS, true));
        for _ in 0..2 {
            let vault = open(mem.clone(), &key);
            let report = run(&vault, true);
            let [finding] = &report.findings[..] else {
                panic!("{report:?}");
            };
            assert!(
                finding.class == Class::Crash && !finding.repaired,
                "{finding:?}"
            );
            vault.unmounted();
            drop(vault);
            assert_eq!(open(mem.clone(), &key).get("file").unwrap(), b"content");
        }
        mem.disk().refused.clear();
        let vault = open(mem.clone(), &key);
        run(&vault, true);
        vault.unmounted();
        drop(vault);
        assert_eq!(entry(&mem, TOP, "warplock.journal"), None);
        let vault = open(mem, &key);
        assert_eq!(run(&vault, false).findings, []);
        assert_eq!(vault.get("file").unwrap(), b"content");
    }
}

/// Nothing that the vault did not make is removed, whatever it is called.
#[test]
fn what_is_not_ours_is_not_removed() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let long = "n".repeat(255);
    vault.put(&long, b"content");
    vault.make(ROOT, OsStr::new("dir"), FOLDER, 0).unwrap();
    vault.unmounted();
    drop(vault);
    let (inode, _, stored) = find(&mem, &key, &long);
    let beside = stored.to_str().unwrap().replace(".long", ".name");
    let (dir, ..) = find(&mem, &key, "dir");
    let temporary = "warplock.tmp.0123456789abcdef01234567";
    let hash = "A".repeat(43);
    let foreign = [
        ("warplock.vault.bak".to_owned(), false),
        ("warplock.vault.new.lock".to_owned(), false),
        ("warplock.dir.sync-conflict".to_owned(), false),
        ("warplock.tmp.mine".to_owned(), false),
        (temporary.replace('0', "1"), false),
        (temporary.to_owned(), true),
        ("my.name".to_owned(), true),
        ("note.name".to_owned(), false),
        (format!("{hash}.name"), false),
    ];
    let mut inodes = vec![inode, dir, entry(&mem, TOP, &beside).unwrap()];
    {
        let mut disk = mem.disk();
        // Not there yet.
        disk.object(TOP).entries.remove(&stored);
        for (number, (name, folder)) in (1 << 50_u64..).step_by(2).zip(&foreign) {
            let mut object = Object::new(if *folder { 0o40_700 } else { 0o100_600 });
            if *folder {
                let mut inner = Object::new(0o100_600);
                inner.data = b"mine".to_vec();
                disk.objects.insert(number + 1, inner);
                object.entries.insert("mine".into(), number + 1);
                inodes.push(number + 1);
            } else {
                object.data = b"mine".to_vec();
            }
            disk.objects.insert(number, object);
            disk.object(TOP).entries.insert(name.into(), number);
            inodes.push(number);
        }
        // These are ours.
        for name in [
            "warplock.vault.new",
            "warplock.vault.new.0123456789abcdef",
            "warplock.dir.new",
        ] {
            let object = Object::new(0o100_600);
            let number = (1 << 51) + disk.objects.len() as u64;
            disk.objects.insert(number, object);
            disk.object(TOP).entries.insert(name.into(), number);
        }
        disk.object(dir).entries.insert("my.name".into(), 1 << 50);
    }
    let vault = open(mem.clone(), &key);
    // What no mount shows hinders no one, and stays.
    vault.rmdir(ROOT, OsStr::new("dir")).unwrap();
    inodes.retain(|inode| *inode != dir);
    assert_eq!(entry(&mem, TOP, "dir"), None);
    let report = run(&vault, true);
    let removed = report.findings.iter().filter(|it| it.action == "removed");
    assert_eq!(removed.count(), 3, "{report:?}");
    let done = |found: &Finding| found.repaired || found.class == Class::Note;
    assert!(report.findings.iter().all(done));
    vault.unmounted();
    drop(vault);

    mem.disk().object(TOP).entries.insert(stored, inode);
    let mut reached = vec![TOP];
    let mut waiting = vec![TOP];
    while let Some(dir) = waiting.pop() {
        let inner: Vec<_> = mem.disk().objects[&dir].entries.values().copied().collect();
        reached.extend(&inner);
        waiting.extend(inner);
    }
    for inode in inodes {
        assert!(reached.contains(&inode), "{inode:x}: {report:?}");
    }
    let vault = open(mem, &key);
    let findings = run(&vault, false).findings;
    assert!(findings.iter().all(|found| found.class == Class::Note));
    assert_eq!(vault.get(&long).unwrap(), b"content");
}

/// A folder that a mount shows as empty can be removed, and what sync programs put there is kept.
#[test]
fn a_folder_with_conflict_copies_can_be_removed() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let dir = vault.make(ROOT, OsStr::new("dir"), FOLDER, 0).unwrap().node;
    vault
        .symlink(
            dir,
            OsStr::new("entry"),
            OsStr::new("a"),
            Caller { uid: 0, gid: 0 },
        )
        .unwrap();
    let stored = mem.disk().objects[&dir]
        .entries
        .keys()
        .find(|it| *it != "warplock.dir")
        .cloned();
    let copy = format!("{}.sync-conflict-1", stored.unwrap().to_str().unwrap());
    let names = [copy.as_str(), ".DS_Store", &"B".repeat(40)];
    let mut planted = Vec::new();
    for name in names {
        let mut disk = mem.disk();
        let inode = disk.plant(Object::new(0o100_600));
        disk.object(dir).entries.insert(name.into(), inode);
        planted.push(inode);
    }
    let remove = || vault.rmdir(ROOT, OsStr::new("dir"));
    assert_eq!(remove(), Err(Errno::NOTEMPTY));
    assert_eq!(mem.disk().objects[&dir].entries.len(), 2 + names.len());
    vault.unlink(dir, OsStr::new("entry")).unwrap();
    remove().unwrap();
    let lost = entry(&mem, TOP, LOST).unwrap();
    let mut kept: Vec<_> = mem.disk().objects[&lost]
        .entries
        .values()
        .copied()
        .collect();
    kept.sort_unstable();
    assert_eq!(kept, planted);
    // What is lost keeps nothing of a crash from being tidied up.
    drop(vault);
    let vault = open(mem.clone(), &key);
    run(&vault, true);
    vault.unmounted();
    assert_eq!(entry(&mem, TOP, "warplock.journal"), None);
}

/// What sync programs and desktops put everywhere is noted and stays.
#[test]
fn files_of_sync_programs_stay() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("file", b"content");
    vault.make(ROOT, OsStr::new("dir"), FOLDER, 0).unwrap();
    vault.unmounted();
    drop(vault);
    let (dir, ..) = find(&mem, &key, "dir");
    let names = [
        ".stfolder",
        ".DS_Store",
        ".sync_0a1b.db-wal",
        ".Trash-1000",
        ".unison.xSws4dEb3auL.d1def299.unison.tmp",
        ".syncthing.xSws4dEb3auL.tmp",
    ];
    for (number, name) in (1 << 50..).zip(names) {
        let mut disk = mem.disk();
        disk.objects.insert(number, Object::new(0o100_600));
        disk.object(dir).entries.insert(name.into(), number);
    }
    let before = mem.disk().objects[&dir].entries.clone();
    for repair in [false, true] {
        let vault = open(mem.clone(), &key);
        let findings = run(&vault, repair).findings;
        assert_eq!(findings.len(), names.len());
        assert!(findings.iter().all(|found| found.class == Class::Note));
        vault.unmounted();
    }
    assert_eq!(mem.disk().objects[&dir].entries, before);
    assert_eq!(entry(&mem, TOP, "warplock.journal"), None);
}

/// What cannot be read is said, with its path, and everything else is checked.
#[test]
fn one_unreadable_thing_does_not_end_a_check() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let long = "n".repeat(255);
    for name in ["a", "b", &long] {
        vault.put(name, b"content");
    }
    for name in ["dir", "other", "z"] {
        vault.make(ROOT, OsStr::new(name), FOLDER, 0).unwrap();
    }
    vault.unmounted();
    drop(vault);
    let (_, _, stored) = find(&mem, &key, &long);
    let beside = stored.to_str().unwrap().replace(".long", ".name");
    let beside = entry(&mem, TOP, &beside).unwrap();
    let (a, ..) = find(&mem, &key, "a");
    let (dir, ..) = find(&mem, &key, "dir");
    let (other, ..) = find(&mem, &key, "other");
    let record = entry(&mem, other, "warplock.dir").unwrap();
    {
        let mut disk = mem.disk();
        disk.refused.insert(beside, (Errno::IO, false));
        disk.refused.insert(a, (Errno::ACCESS, false));
        disk.refused.insert(dir, (Errno::IO, false));
        disk.refused.insert(record, (Errno::IO, false));
    }
    let before = mem.disk().objects[&TOP].entries.clone();
    for repair in [false, true] {
        let vault = open(mem.clone(), &key);
        let report = run(&vault, repair);
        let mut paths: Vec<_> = report.findings.iter().map(|found| &*found.path).collect();
        paths.sort();
        let mut expected =
            ["a", "dir", "other", stored.to_str().unwrap()].map(|name| format!("/{name}"));
        expected.sort();
        assert_eq!(paths, expected.each_ref().map(Path::new));
        let told =
            |found: &warplock_vault::Finding| found.class == Class::Unread && !found.repaired;
        assert!(report.findings.iter().all(told), "{report:?}");
        assert_eq!((report.files, report.folders), (1, 2));
        vault.unmounted();
        assert_eq!(mem.disk().objects[&TOP].entries, before);
    }
}

/// What was synced is read from the journal as long as the file itself cannot be written.
#[test]
fn a_journal_of_a_file_that_cannot_be_written() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("file", &[1; 10_000]);
    let file = vault.file("file").unwrap();
    vault.write(&file, 0, &[2; 10_000], false).unwrap();
    vault.fsync(&file, true).unwrap();
    let mem = mem.fork();
    let (inode, ..) = find(&mem, &key, "file");
    mem.disk().refused.insert(inode, (Errno::ACCESS, true));
    for _ in 0..2 {
        let vault = open(mem.clone(), &key);
        assert_eq!(vault.get("file").unwrap(), [2; 10_000]);
        let report = run(&vault, true);
        let told = |found: &warplock_vault::Finding| found.class == Class::Crash && !found.repaired;
        assert!(report.findings.len() == 1 && report.findings.iter().all(told));
        vault.unmounted();
    }
    mem.disk().refused.clear();
    let vault = open(mem.clone(), &key);
    run(&vault, true);
    vault.unmounted();
    drop(vault);
    assert_eq!(entry(&mem, TOP, "warplock.journal"), None);
    assert_eq!(open(mem, &key).get("file").unwrap(), [2; 10_000]);
}

/// A journal whose header was written already, when the older header is damaged: that is written
/// again, too.
#[test]
fn an_older_header_next_to_a_journal() {
    let mut repaired = 0;
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("f", &[1; 10_000]);
    vault.tick().unwrap();
    let inode = find(&mem, &key, "f").0;
    mem.disk().log.clear();
    let before = mem.disk().clone();
    let file = vault.file("f").unwrap();
    vault.write(&file, 0, &[2; 4096], false).unwrap();
    vault.fsync(&file, false).unwrap();
    vault.tick().unwrap();
    let log = mem.disk().log.clone();
    for (cut, header) in (0..=log.len()).flat_map(|cut| [(cut, 0), (cut, 2048)]) {
        let fork = Mem::new();
        *fork.disk() = before.clone();
        log[..cut].iter().for_each(|op| fork.disk().apply(op));
        fork.disk().object(inode).data[header + 100..][..5].fill(0);
        let vault = open(fork.clone(), &key);
        let report = run(&vault, true);
        vault.close().unwrap();
        if report.findings.iter().any(|it| it.class == Class::Altered) {
            continue;
        }
        repaired += 1;
        let vault = open(fork, &key);
        assert_eq!(run(&vault, false).findings, [], "{cut}, {header}");
        vault.get("f").unwrap();
    }
    assert!(repaired > 4);
}
