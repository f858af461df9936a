//! Attacks with objects that pass for each other: inode numbers, ids, hard links.

use super::*;

/// Objects of two volumes have the same inode number: a store with mounts or subvolumes in it.
#[test]
fn inode_numbers_of_two_volumes() {
    for (one, other, inner) in [("dir", "dir2", "/inner"), ("short", "s2", "")] {
        let victim = Victim::new();
        let expected = {
            let vault = open(victim.mem.fork(), &victim.key);
            [one, other].map(|path| vault.get(&format!("{path}{inner}")).unwrap())
        };
        for (volume, path) in [(1, one), (2, other)] {
            let inode = victim.inode(path);
            victim.mem.disk().object(inode).appears_as = Some((volume, 77));
        }
        let vault = open(victim.mem.clone(), &victim.key);
        let read = [one, other].map(|path| vault.get(&format!("{path}{inner}")).unwrap());
        assert_eq!(read, expected);
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(report.findings, []);
    }
}

/// A rename that a crash interrupted, completed by an attacker who puts the old name back next to
/// the new one: at most one of them is valid.
#[test]
fn both_names_of_an_interrupted_rename() {
    let mut both = 0;
    for faults in 0..20 {
        let victim = Victim::new();
        let (_, dir, stored) = victim.find("link");
        let vault = open(victim.mem.clone(), &victim.key);
        victim.mem.disk().fault = Some((faults, Errno::IO));
        let (from, to) = (OsStr::new("link"), OsStr::new("new"));
        let renamed = vault.rename((ROOT, from), (ROOT, to), RenameFlags::empty());
        victim.mem.disk().fault = None;
        let victim = Victim {
            mem: victim.mem.fork(),
            key: victim.key,
        };
        let fork = open(victim.mem.fork(), &victim.key);
        if fork.node("link").is_ok() || fork.node("new").is_err() {
            continue;
        }
        let inode = victim.inode("new");
        {
            let mut disk = victim.mem.disk();
            disk.object(dir).entries.insert(stored, inode);
            disk.object(inode).links += 1;
        }
        let vault = open(victim.mem.fork(), &victim.key);
        let node = vault.node("new").unwrap().node;
        assert_eq!(vault.node("link").err(), Some(Errno::IO));
        assert_eq!(vault.readlink(node), Err(Errno::IO));
        assert_eq!(victim.altered().len(), 1, "{faults}");
        both += usize::from(renamed.is_err());
    }
    assert!(both > 1);
}

/// The same with a file. Whichever name is used first stays, and only that one.
#[test]
fn both_names_of_an_interrupted_rename_of_a_file() {
    for (first, other) in [("short", "new"), ("new", "short")] {
        let mut both = 0;
        for (faults, linked) in (0..30).flat_map(|faults| [(faults, false), (faults, true)]) {
            let victim = Victim::new();
            let (_, dir, stored) = victim.find("short");
            let vault = open(victim.mem.clone(), &victim.key);
            let os = OsStr::new;
            if linked {
                let node = vault.node("short").unwrap().node;
                vault.link(node, ROOT, os("also")).unwrap();
                vault.tick().unwrap();
            }
            victim.mem.disk().fault = Some((faults, Errno::IO));
            let (from, to) = ((ROOT, os("short")), (ROOT, os("new")));
            let _ = vault.rename(from, to, RenameFlags::empty());
            // It is not committed any more.
            let victim = Victim {
                mem: victim.mem.fork(),
                key: victim.key,
            };
            drop(vault);
            victim.mem.disk().fault = None;
            let fork = open(victim.mem.fork(), &victim.key);
            if fork.node("short").is_ok() || fork.get("new").is_err() {
                continue;
            }
            drop(fork);
            both += 1;
            let inode = victim.inode("new");
            {
                let mut disk = victim.mem.disk();
                disk.object(dir).entries.insert(stored, inode);
                disk.object(inode).links += 1;
                if linked {
                    // The rule is not about how many names there are.
                    disk.object(inode).links -= 1;
                }
            }
            assert_eq!(victim.altered().len(), 1, "{faults}");
            let used = |vault: &Vault<Mem>| [first, other].map(|name| vault.get(name).is_ok());
            let told = Told::default();
            let vault = Vault::open_on(victim.mem.clone(), &victim.key, options(&told)).unwrap();
            // The kernel knows both names.
            assert!(vault.get(first).is_ok(), "{faults}");
            assert_eq!(vault.get(other), Err(Errno::IO), "{faults}");
            assert!(told.lock().unwrap().join("").contains("by a rename"));
            vault.close().unwrap();
            drop(vault);
            for _ in 0..2 {
                let vault = open(victim.mem.clone(), &victim.key);
                assert_eq!(used(&vault), [true, false], "{faults}");
                vault.close().unwrap();
            }
            assert_eq!(victim.altered().len(), 1, "{faults}");
        }
        assert!(both > 1);
    }
}

/// A copy of an object under a new number.
fn copied(disk: &mut Disk, inode: u64) -> u64 {
    let new = disk.objects.keys().max().unwrap() + (1 << 40);
    let object = disk.objects[&inode].clone();
    disk.objects.insert(new, object);
    new
}

/// A folder under its new name, and again with its old record under its old one, with some of its
/// files here and some there.
#[test]
fn a_folder_twice() {
    let victim = Victim::new();
    let (inode, top, old) = victim.find("dir");
    let record = OsStr::new("warplock.dir");
    let (file, _, stored) = victim.find("dir/inner");
    let old_record = {
        let mut disk = victim.mem.disk();
        let record = disk.objects[&inode].entries[record];
        copied(&mut disk, record)
    };
    victim.legitimately(|vault| {
        let (from, to) = ((ROOT, OsStr::new("dir")), (ROOT, OsStr::new("new")));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
    });
    {
        let mut disk = victim.mem.disk();
        let copy = copied(&mut disk, inode);
        let entries = &mut disk.object(copy).entries;
        entries.clear();
        entries.insert(record.into(), old_record);
        entries.insert(stored.clone(), file);
        disk.object(inode).entries.remove(&stored);
        disk.object(top).entries.insert(old, copy);
    }
    assert_eq!(victim.altered().len(), 1);
    for first in ["dir", "new"] {
        let told = Told::default();
        let vault = Vault::open_on(victim.mem.fork(), &victim.key, options(&told)).unwrap();
        vault.open_dir(vault.node(first).unwrap().node).unwrap();
        let other = if first == "dir" { "new" } else { "dir" };
        let node = vault.node(other).unwrap().node;
        assert_eq!(vault.open_dir(node).err(), Some(Errno::IO));
        for path in ["dir", "new"] {
            let node = vault.node(path).unwrap().node;
            assert_eq!(vault.open_dir(node).err(), Some(Errno::IO), "{path}");
            let inner = vault.lookup(node, OsStr::new("inner"));
            assert_eq!(inner.err(), Some(Errno::IO), "{path}");
        }
        assert!(told.lock().unwrap().join("\n").contains("is a copy of it"));
    }
}

/// One of two hard links becomes a file of its own: both would write to one journal.
#[test]
fn severed_hard_links() {
    let victim = Victim::new();
    let (inode, dir, stored) = victim.find("short");
    victim.legitimately(|vault| {
        let node = vault.node("short").unwrap().node;
        vault.link(node, ROOT, OsStr::new("also")).unwrap();
    });
    let vault = open(victim.mem.clone(), &victim.key);
    let file = vault.file("also").unwrap();
    vault.write(&file, 0, &[7; 5000], false).unwrap();
    let copy = {
        let mut disk = victim.mem.disk();
        let copy = copied(&mut disk, inode);
        disk.object(dir).entries.insert(stored.clone(), copy);
        copy
    };
    // Neither can be opened while both are there; what is open goes on.
    assert_eq!(vault.file("short").err(), Some(Errno::IO));
    assert_eq!(vault.file("also").err(), Some(Errno::IO));
    vault.write(&file, 5000, &[8; 5000], false).unwrap();
    vault.fsync(&file, false).unwrap();
    drop(file);
    vault.tick().unwrap();
    assert_eq!(vault.file("also").err(), Some(Errno::IO));
    // The copy is removed.
    {
        let mut disk = victim.mem.disk();
        disk.object(dir).entries.insert(stored, inode);
        disk.objects.remove(&copy);
    }
    for path in ["short", "also"] {
        let data = vault.get(path).unwrap();
        assert_eq!(data[..10_000], [[7; 5000], [8; 5000]].concat());
    }
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
}
