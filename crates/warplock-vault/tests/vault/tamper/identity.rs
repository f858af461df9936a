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

/// A rename that a crash interrupted, completed by somebody who puts the old name back beside the
/// new one: at most one of them is a name.
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
        let nodes = ["new", "link"].map(|path| vault.node(path).unwrap().node);
        assert_eq!(
            nodes.map(|node| vault.readlink(node)),
            [Err(Errno::IO), Err(Errno::IO)]
        );
        assert_eq!(victim.altered().len(), 1, "{faults}");
        both += usize::from(renamed.is_err());
    }
    assert!(both > 1);
}
