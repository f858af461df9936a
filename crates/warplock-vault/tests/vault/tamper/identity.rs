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
