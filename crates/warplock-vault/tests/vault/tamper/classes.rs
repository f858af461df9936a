//! Attacks that are to pass for something milder: a crash, something unreadable, a leftover.

use std::path::Path;

use super::*;

const FILE_MODE: u32 = 0o100_600;
const DIR_MODE: u32 = 0o40_700;
/// A fifo, a socket, a device, a folder, a symlink: all but a regular file.
const OTHERS: [u32; 5] = [0o10_600, 0o140_600, 0o20_600, DIR_MODE, 0o120_777];

fn classes(findings: &[Finding]) -> Vec<Class> {
    findings.iter().map(|finding| finding.class).collect()
}

/// In a vault that was closed properly nothing is a crash's, and a repair keeps it all.
#[test]
fn damage_in_a_closed_vault_is_no_crash() {
    type Edit = fn(&mut Vec<u8>);
    let edits: [Edit; 3] = [
        |data| data[..2 * HEADER].fill(0),
        Vec::clear,
        |data| data.truncate(HEADER),
    ];
    for edit in edits {
        for path in ["long", "short"] {
            let victim = Victim::new();
            victim.edit(path, edit);
            let inode = victim.inode(path);
            assert_eq!(victim.altered().len(), 1);
            let (victim, findings) = victim.repaired();
            assert_eq!(classes(&findings), [Class::Altered]);
            assert!(victim.is_reachable(inode), "{findings:?}");
        }
    }
}

/// A file under the name of a leftover: nothing that holds anything is removed.
#[test]
fn files_under_names_of_leftovers() {
    for crashed in [false, true] {
        for (path, name) in [
            ("long", "warplock.dir.new"),
            ("long", "warplock.vault.new"),
            ("long", "warplock.vault.new.0123456789abcdef"),
            ("long", "warplock.vault.new.lock"),
            ("long", "warplock.machine.0123456789abcdef"),
            ("long", "warplock.machine.0123456789abcdef.new"),
            ("long", "warplock.tmp.0123456789abcdef01234567"),
            ("long", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.name"),
            ("dir", "warplock.tmp.0123456789abcdef01234567"),
            ("dir", "warplock.dir.new"),
            ("link", "warplock.tmp.0123456789abcdef01234567"),
        ] {
            let victim = Victim::new();
            let (inode, dir, stored) = victim.find(path);
            {
                let mut disk = victim.mem.disk();
                let entries = &mut disk.object(dir).entries;
                entries.remove(&stored);
                entries.insert(name.into(), inode);
            }
            if crashed {
                victim.plant(1, "warplock.journal", Object::new(DIR_MODE));
            }
            let (victim, mut findings) = victim.repaired();
            // That not all could be checked.
            findings.retain(|finding| finding.path != Path::new("/"));
            // A symlink that is written again looks like this, but is kept all the same.
            let expected = match crashed && path == "link" {
                true => Class::Crash,
                false => Class::Altered,
            };
            assert_eq!(classes(&findings), [expected], "{name} {findings:?}");
            assert!(victim.is_reachable(inode), "{findings:?}");
        }
    }
}

/// A folder's only record under the name of one that is being written.
#[test]
fn a_record_under_the_name_of_a_new_one() {
    let victim = Victim::new();
    let dir = victim.inode("dir");
    let record = {
        let mut disk = victim.mem.disk();
        let entries = &mut disk.object(dir).entries;
        let record = entries.remove(OsStr::new("warplock.dir")).unwrap();
        entries.insert("warplock.dir.new".into(), record);
        record
    };
    let (victim, findings) = victim.repaired();
    assert_eq!(classes(&findings), [Class::Altered]);
    assert!(victim.is_reachable(record));
    // Another folder's record.
    let victim = Victim::new();
    let [dir, other] = ["dir", "dir2"].map(|path| victim.inode(path));
    let record = {
        let mut disk = victim.mem.disk();
        let record = disk.objects[&other].entries[OsStr::new("warplock.dir")];
        let entries = &mut disk.object(dir).entries;
        entries.insert("warplock.dir.new".into(), record);
        disk.object(other)
            .entries
            .remove(OsStr::new("warplock.dir"));
        record
    };
    let (victim, findings) = victim.repaired();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(victim.is_reachable(record), "{findings:?}");
}

/// What stands among the journals and the lost things is looked at.
#[test]
fn strays_among_journals_and_lost_things() {
    let names = [
        "x",
        "0123456789ABCDEF0123456789ABCDEF",
        "+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a",
        "0123456789abcdef0123456789abcde",
    ];
    for name in names {
        let victim = Victim::new();
        let journals = victim.plant(1, "warplock.journal", Object::new(DIR_MODE));
        let stray = victim.plant(journals, name, Object::new(FILE_MODE));
        assert_eq!(victim.altered().len(), 1, "{name}");
        let (victim, findings) = victim.repaired();
        assert_eq!(classes(&findings), [Class::Altered]);
        assert!(victim.is_reachable(stray));
        // It keeps nothing lenient.
        assert_eq!(victim.top("warplock.journal"), None);
    }
    let victim = Victim::new();
    let (_, dir, stored) = victim.find("short");
    victim.legitimately(|vault| {
        let node = vault.node("short").unwrap().node;
        vault.link(node, ROOT, OsStr::new("also")).unwrap();
    });
    victim.mem.disk().object(dir).entries.remove(&stored);
    let gone = victim.altered().len();
    assert_eq!(gone, 1, "a hard link was removed");
    let lost = victim.plant(1, "warplock.lost", Object::new(DIR_MODE));
    victim.plant(lost, "x", Object::new(FILE_MODE));
    assert_eq!(victim.altered().len(), 2);
    // Under the name of something that a repair took out, it is said, and no repair forgets a name.
    let victim = Victim::new();
    victim.legitimately(|vault| {
        let node = vault.node("short").unwrap().node;
        vault.link(node, ROOT, OsStr::new("also")).unwrap();
    });
    let (_, dir, stored) = victim.find("short");
    victim.mem.disk().object(dir).entries.remove(&stored);
    let lost = victim.plant(1, "warplock.lost", Object::new(DIR_MODE));
    victim.plant(lost, "0123456789abcdef", Object::new(FILE_MODE));
    let (_, findings) = victim.repaired();
    assert_eq!(classes(&findings), [Class::Note, Class::Unread]);
}

/// Where only a regular file can be, anything else is altered, and a mount says so, too.
#[test]
fn other_kinds_where_files_belong() {
    let long = "n".repeat(220);
    for mode in OTHERS {
        let victim = Victim::new();
        victim.legitimately(|vault| vault.put(&long, b"content"));
        let (_, dir, stored) = victim.find(&long);
        let beside = stored.to_str().unwrap().replace(".long", ".name");
        victim.plant(dir, &beside, Object::new(mode));
        assert!(!victim.altered().is_empty(), "{mode:o}");
        assert!(victim.listed().1.contains("no regular file"), "{mode:o}");

        let victim = Victim::new();
        let inode = victim.inode("dir");
        victim.plant(inode, "warplock.dir", Object::new(mode));
        assert_eq!(victim.noticed("dir"), Open, "{mode:o}");
        assert_eq!(victim.altered().len(), 1);

        let victim = Victim::new();
        let id: String = victim.copy("long").data[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let journals = victim.plant(1, "warplock.journal", Object::new(DIR_MODE));
        victim.plant(journals, &id, Object::new(mode));
        assert_eq!(victim.noticed("long"), Open, "{mode:o}");
        assert!(!victim.altered().is_empty(), "{mode:o}");

        for name in ["warplock.lost", "warplock.journal"] {
            let mode = if mode == DIR_MODE { FILE_MODE } else { mode };
            let victim = Victim::new();
            victim.plant(1, name, Object::new(mode));
            let told = Told::default();
            match Vault::open_on(victim.mem.fork(), &victim.key, options(&told)) {
                Ok(vault) => {
                    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
                    assert!(
                        classes(&report.findings).contains(&Class::Altered),
                        "{mode:o} {name} {report:?}"
                    );
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Authentication),
            }
        }
    }
}

/// After a crash, a file is hidden while a repair runs, and comes back: what was synced is there.
#[test]
fn a_journal_whose_file_is_hidden() {
    let victim = Victim::new();
    let (inode, dir, stored) = victim.find("long");
    let vault = open(victim.mem.clone(), &victim.key);
    let file = vault.file("long").unwrap();
    vault.write(&file, 4096, &[9; 4096], false).unwrap();
    vault.fsync(&file, false).unwrap();
    let victim = Victim {
        mem: victim.mem.fork(),
        key: victim.key,
    };
    victim.mem.disk().object(dir).entries.remove(&stored);
    let (victim, findings) = victim.repaired();
    assert_eq!(classes(&findings), [Class::Altered]);
    assert!(!findings[0].repaired);
    victim.mem.disk().object(dir).entries.insert(stored, inode);
    let (victim, findings) = victim.repaired();
    assert_eq!(classes(&findings), []);
    let vault = open(victim.mem, &victim.key);
    assert_eq!(vault.get("long").unwrap()[4096..8192], [9; 4096]);
}

/// Attributes that were exchanged are kept, and can be put back.
#[test]
fn attributes_are_evidence() {
    let victim = Victim::new();
    let [one, other] = ["short", "s2"].map(|path| victim.inode(path));
    {
        let mut disk = victim.mem.disk();
        let attributes = disk.object(one).xattrs.clone();
        disk.object(one).xattrs = disk.object(other).xattrs.clone();
        disk.object(other).xattrs = attributes;
    }
    let expected: Vec<_> = {
        let disk = victim.mem.disk();
        let all = [one, other].map(|inode| disk.objects[&inode].xattrs.clone());
        all.into_iter().flatten().collect()
    };
    let (victim, findings) = victim.repaired();
    assert_eq!(classes(&findings), [Class::Altered; 4]);
    let lost = victim.top("warplock.lost").unwrap();
    let disk = victim.mem.disk();
    let mut kept = Vec::new();
    for inode in disk.objects[&lost].entries.values() {
        let data = &disk.objects[inode].data;
        let end = data.iter().position(|byte| *byte == 0).unwrap();
        let name = String::from_utf8(data[..end].to_vec()).unwrap();
        kept.push((OsString::from(name), data[end + 1..].to_vec()));
    }
    kept.sort();
    let mut expected = expected;
    expected.sort();
    assert_eq!(kept, expected);
    drop(disk);
    assert_eq!(victim.altered(), []);
}

/// A file that was emptied or spoilt is not made again by a program that saves over it.
#[test]
fn spoilt_files_are_not_renewed() {
    type Edit = fn(&mut Vec<u8>);
    let edits: [Edit; 2] = [Vec::clear, |data| data[..2 * HEADER].fill(0)];
    for (empty, edit) in edits.into_iter().enumerate() {
        for (crashed, links) in [(false, 1), (true, 1), (true, 2)] {
            let victim = Victim::new();
            victim.edit("short", edit);
            let inode = victim.inode("short");
            if crashed {
                victim.plant(1, "warplock.journal", Object::new(DIR_MODE));
            }
            victim.mem.disk().object(inode).links = links;
            let before = victim.mem.disk().objects[&inode].data.clone();
            let told = Told::default();
            let vault = Vault::open_on(victim.mem.clone(), &victim.key, options(&told)).unwrap();
            let node = vault.node("short").unwrap().node;
            let truncate = Access {
                truncate: true,
                ..WRITE
            };
            let opened = vault.open(node, truncate);
            let may = crashed && links == 1 && empty == 0;
            assert_eq!(opened.is_ok(), may, "{empty} {crashed} {links}");
            assert!(told.lock().unwrap().join("\n").contains("/short"));
            if !may {
                assert_eq!(victim.mem.disk().objects[&inode].data, before);
            }
        }
    }
}

/// Folders in folders under names of leftovers: no stack ends, and they are kept.
#[test]
fn nested_leftovers() {
    const DEPTH: usize = 20_000;
    let name = "warplock.tmp.0123456789abcdef01234567";
    for path in ["", "dir"] {
        let victim = Victim::new();
        let mut dir = if path.is_empty() {
            1
        } else {
            let dir = victim.inode(path);
            let mut disk = victim.mem.disk();
            let entries = &mut disk.object(dir).entries;
            entries.retain(|name, _| name == "warplock.dir");
            dir
        };
        for inode in (1 << 40..).take(DEPTH) {
            let mut disk = victim.mem.disk();
            disk.objects.insert(inode, Object::new(DIR_MODE));
            disk.object(dir).entries.insert(name.into(), inode);
            dir = inode;
        }
        let (repaired, findings) = victim.repaired();
        assert_eq!(classes(&findings), [Class::Altered]);
        assert!(repaired.is_reachable(dir));
        if !path.is_empty() {
            let vault = open(victim.mem.clone(), &victim.key);
            vault.rmdir(ROOT, OsStr::new(path)).unwrap();
            assert!(victim.is_reachable(dir));
        }
    }
}

/// A record from the time of a rename, in a vault that was closed properly.
#[test]
fn a_record_from_a_rename_in_a_closed_vault() {
    let victim = Victim::new();
    let dir = victim.inode("dir");
    let vault = open(victim.mem.clone(), &victim.key);
    let mut records = Vec::new();
    for faults in 0..12 {
        let record = {
            let disk = victim.mem.disk();
            let record = disk.objects[&dir].entries[OsStr::new("warplock.dir")];
            disk.objects[&record].data.clone()
        };
        records.push(record);
        victim.mem.disk().fault = Some((faults, Errno::IO));
        let (from, to) = (OsStr::new("dir"), OsStr::new("new"));
        let _ = vault.rename((ROOT, from), (ROOT, to), RenameFlags::empty());
        victim.mem.disk().fault = None;
        let _ = vault.rename((ROOT, to), (ROOT, from), RenameFlags::empty());
    }
    drop(vault);
    let (victim, _) = victim.repaired();
    assert_eq!(victim.altered(), []);
    assert_eq!(victim.top("warplock.journal"), None);
    let record = victim.mem.disk().objects[&dir].entries[OsStr::new("warplock.dir")];
    let mut moving = 0;
    for old in records {
        victim.mem.disk().object(record).data = old;
        moving += victim.altered().len();
    }
    assert!(moving > 0);
}
