//! Attacks on names, folders, targets and attributes.

use super::*;

#[test]
fn swapped_entries() {
    for (a, b, noticed) in [
        ("long", "long2", Open),
        ("long", "s2", Open),
        ("dir/inner", "dir2/inner", Open),
        ("long", "dir/inner", Open),
        ("dir", "dir2", Open),
        ("link", "link2", Read),
        ("dir/link", "dir2/link", Read),
        ("link", "long", Open),
    ] {
        let victim = Victim::new();
        victim.swap(a, b);
        let seen = victim.noticed(a);
        assert!(
            seen == noticed || (a == "link" && seen == Open),
            "{a} {b}: {seen:?}"
        );
        assert!(victim.noticed(b) <= Read, "{a} {b}");
    }
}

#[test]
fn names() {
    // To another folder, under the same ciphertext name.
    for path in ["long", "link2", "dir2"] {
        let victim = Victim::new();
        let (inode, dir, name) = victim.find(path);
        let to = victim.inode("dir");
        let mut disk = victim.mem.disk();
        disk.object(dir).entries.remove(&name);
        disk.object(to).entries.insert(name, inode);
        drop(disk);
        assert_eq!(victim.noticed(&format!("dir/{path}")), List, "{path}");
    }
    // Under a changed name.
    for path in ["long", "link", "dir2"] {
        let victim = Victim::new();
        let (inode, dir, name) = victim.find(path);
        let mut other = name.clone().into_string().unwrap().into_bytes();
        other[5] = if other[5] == b'A' { b'B' } else { b'A' };
        let mut disk = victim.mem.disk();
        disk.object(dir).entries.remove(&name);
        let other = OsString::from(String::from_utf8(other).unwrap());
        disk.object(dir).entries.insert(other, inode);
        drop(disk);
        assert_eq!(victim.noticed(path), List, "{path}");
    }
    // A copy, and a hard link, under another file's name.
    for link in [false, true] {
        let victim = Victim::new();
        let (inode, ..) = victim.find("long");
        let (other, dir, name) = victim.find("long2");
        let mut disk = victim.mem.disk();
        if link {
            disk.object(dir).entries.insert(name, inode);
        } else {
            *disk.object(other) = disk.objects[&inode].clone();
        }
        drop(disk);
        assert_eq!(victim.noticed("long2"), Open);
    }
    // A hard link, whose file is in use when the link is opened.
    let victim = Victim::new();
    let (inode, ..) = victim.find("long");
    let (_, dir, name) = victim.find("long2");
    {
        let mut disk = victim.mem.disk();
        disk.object(dir).entries.insert(name, inode);
        disk.object(inode).links += 1;
    }
    let told = Told::default();
    let vault = Vault::open_on(victim.mem.fork(), &victim.key, options(&told)).unwrap();
    let file = vault.file("long").unwrap();
    assert!(vault.get("long2") == Err(Errno::IO));
    assert!(told.lock().unwrap()[0].contains("never given to it"));
    // An open file can still be used, and the link can be removed.
    let mut data = vec![0; LONG];
    assert_eq!(vault.read(&file, 0, &mut data), Ok(LONG));
    assert!(data == text(0, LONG));
    vault.unlink(ROOT, OsStr::new("long2")).unwrap();
    assert!(vault.get("long").as_ref() == Ok(&data));
    // More hard links to a file that has several names.
    let victim = Victim::new();
    victim.legitimately(|vault| {
        let node = vault.node("long").unwrap().node;
        vault.link(node, ROOT, OsStr::new("also")).unwrap();
    });
    let inode = victim.inode("long");
    for path in ["long2", "short", "s2"] {
        let (_, dir, name) = victim.find(path);
        let mut disk = victim.mem.disk();
        disk.object(dir).entries.insert(name, inode);
        disk.object(inode).links += 1;
    }
    let vault = open(victim.mem.fork(), &victim.key);
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 3, "{report:?}");
    // A name that was given up, put back.
    let victim = Victim::new();
    let (inode, dir, old) = victim.find("long");
    victim.legitimately(|vault| {
        let (from, to) = ((ROOT, OsStr::new("long")), (ROOT, OsStr::new("new")));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
    });
    let (_, _, new) = victim.find("new");
    let mut disk = victim.mem.disk();
    disk.object(dir).entries.remove(&new);
    disk.object(dir).entries.insert(old, inode);
    drop(disk);
    assert_eq!(victim.noticed("long"), Open);
}

#[test]
fn long_names() {
    let name = "n".repeat(200);
    for attack in ["flip", "delete"] {
        let victim = Victim::new();
        victim.legitimately(|vault| vault.put(&name, b"content"));
        let (_, dir, stored) = victim.find(&name);
        let beside = stored.to_str().unwrap().replace(".long", ".name");
        let beside = OsString::from(beside);
        let mut disk = victim.mem.disk();
        if attack == "flip" {
            let inode = disk.objects[&dir].entries[&beside];
            disk.object(inode).data[20] ^= 1;
        } else {
            disk.object(dir).entries.remove(&beside);
        }
        drop(disk);
        let vault = open(victim.mem.fork(), &victim.key);
        assert_eq!(
            vault.get(&name).unwrap(),
            b"content",
            "by name it is still found"
        );
        let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
        assert!(
            report
                .findings
                .iter()
                .any(|finding| finding.class == Class::Altered)
        );
    }
}

#[test]
fn records_of_folders() {
    let record = OsStr::new("warplock.dir");
    type Attack = fn(&mut Disk, u64, u64);
    let attacks: [(&str, Attack); 4] = [
        ("delete", |disk, dir, _| {
            disk.object(dir).entries.remove(OsStr::new("warplock.dir"));
        }),
        ("flip", |disk, _, inode| disk.object(inode).data[30] ^= 1),
        ("empty", |disk, _, inode| disk.object(inode).data.clear()),
        ("extend", |disk, _, inode| disk.object(inode).data.push(0)),
    ];
    for (name, attack) in attacks {
        let victim = Victim::new();
        let dir = victim.inode("dir");
        let mut disk = victim.mem.disk();
        let inode = disk.objects[&dir].entries[record];
        attack(&mut disk, dir, inode);
        drop(disk);
        assert_eq!(victim.noticed("dir"), Open, "{name}");
    }
    // Another folder's.
    let victim = Victim::new();
    let (dir, other) = (victim.inode("dir"), victim.inode("dir2"));
    let mut disk = victim.mem.disk();
    let inode = disk.objects[&other].entries[record];
    disk.object(dir).entries.insert(record.into(), inode);
    drop(disk);
    assert_eq!(victim.noticed("dir"), Open);
    // The one from before a rename.
    let victim = Victim::new();
    let dir = victim.inode("dir");
    let old = {
        let disk = victim.mem.disk();
        disk.objects[&disk.objects[&dir].entries[record]]
            .data
            .clone()
    };
    victim.legitimately(|vault| {
        let (from, to) = ((ROOT, OsStr::new("dir")), (ROOT, OsStr::new("new")));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
    });
    let mut disk = victim.mem.disk();
    let inode = disk.objects[&dir].entries[record];
    disk.object(inode).data = old;
    drop(disk);
    assert_eq!(victim.noticed("new"), Open);
}

#[test]
fn symlinks() {
    let victim = Victim::new();
    let inode = victim.inode("link");
    let mut disk = victim.mem.disk();
    let byte = &mut disk.object(inode).target[20];
    *byte = if *byte == b'A' { b'B' } else { b'A' };
    drop(disk);
    assert_eq!(victim.noticed("link"), Read);

    // The target of one in the place of another's.
    let victim = Victim::new();
    let target = victim.copy("link2").target;
    let inode = victim.inode("link");
    victim.mem.disk().object(inode).target = target;
    assert_eq!(victim.noticed("link"), Read);

    // A target in the clear.
    let victim = Victim::new();
    let inode = victim.inode("link");
    victim.mem.disk().object(inode).target = b"/etc/passwd".to_vec();
    assert_eq!(victim.noticed("link"), Read);
}

#[test]
fn xattrs() {
    for path in ["short", "dir"] {
        let attacks: [fn(&mut Object); 2] = [
            |object| object.xattrs.values_mut().next().unwrap()[20] ^= 1,
            |object| {
                let values: Vec<_> = object.xattrs.values().rev().cloned().collect();
                for (value, other) in object.xattrs.values_mut().zip(values) {
                    *value = other;
                }
            },
        ];
        for attack in attacks {
            let victim = Victim::new();
            let inode = victim.inode(path);
            attack(victim.mem.disk().object(inode));
            assert_eq!(victim.noticed(path), Read, "{path}");
        }
    }
    // Another file's attributes under this file's names.
    let victim = Victim::new();
    let other = victim.copy("s2").xattrs;
    let inode = victim.inode("short");
    let mut disk = victim.mem.disk();
    for (value, other) in disk
        .object(inode)
        .xattrs
        .values_mut()
        .zip(other.into_values())
    {
        *value = other;
    }
    drop(disk);
    assert_eq!(victim.noticed("short"), Read);
    // What the specification says is not noticed: one that is gone.
    let victim = Victim::new();
    let inode = victim.inode("short");
    victim.mem.disk().object(inode).xattrs.pop_first();
    assert_eq!(victim.noticed("short"), Never);
}
