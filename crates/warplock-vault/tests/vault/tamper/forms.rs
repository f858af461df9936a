//! Attacks with a second form of a name.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};

use super::*;

/// An entry under the long form of a name that is short: it would be listed, but not found.
#[test]
fn the_long_form_of_a_short_name() {
    for path in ["short", "dir", "link"] {
        let victim = Victim::new();
        let (inode, dir, stored) = victim.find(path);
        let sealed = BASE64.decode(stored.to_str().unwrap()).unwrap();
        let hash = BASE64.encode(Sha256::digest(&sealed));
        {
            let mut beside = Object::new(0o100_600);
            beside.data = sealed;
            let mut disk = victim.mem.disk();
            disk.objects.insert(1 << 50, beside);
            let entries = &mut disk.object(dir).entries;
            entries.remove(&stored);
            entries.insert(format!("{hash}.long").into(), inode);
            entries.insert(format!("{hash}.name").into(), 1 << 50);
        }
        let (names, told) = victim.listed();
        assert!(!names.contains(&path.into()), "{path}");
        assert!(told.contains("never given that name"), "{path}: {told}");
        assert_eq!(victim.altered().len(), 1, "{path}");
        // One repair is enough.
        let (repaired, _) = victim.repaired();
        assert_eq!(repaired.altered(), [], "{path}");
        assert!(repaired.is_reachable(inode) && repaired.is_reachable(1 << 50));
    }
}

/// Names that only look like the vault's long ones are foreign.
#[test]
fn names_that_end_like_long_ones() {
    let victim = Victim::new();
    for (number, name) in (1 << 50..).zip(["x.long", "x.name", "A.long", "=.name"]) {
        let mut disk = victim.mem.disk();
        disk.objects.insert(number, Object::new(0o100_600));
        disk.object(1).entries.insert(name.into(), number);
    }
    assert_eq!(victim.altered().len(), 4);
    assert_eq!(victim.listed().1, "");
}

/// An entry that is listed while it is removed was not altered.
#[test]
fn a_long_name_that_is_just_removed() {
    let victim = Victim::new();
    let name = "n".repeat(220);
    victim.legitimately(|vault| vault.put(&name, b"content"));
    let (_, dir, stored) = victim.find(&name);
    let beside = stored.to_str().unwrap().replace(".long", ".name");
    let entries = &mut victim.mem.disk().object(dir).entries.clone();
    entries.remove(OsStr::new(&beside));
    // The entry alone is there, and then its file is missing.
    victim.mem.disk().object(dir).entries = entries.clone();
    assert!(victim.listed().1.contains("is missing"));
    entries.remove(&stored);
    victim.mem.disk().object(dir).entries = entries.clone();
    assert_eq!(victim.listed().1, "");
}

/// An attribute of one name space under the stored name of the other.
#[test]
fn an_attribute_in_the_other_name_space() {
    for path in ["short", "dir"] {
        let victim = Victim::new();
        let inode = victim.inode(path);
        {
            let mut disk = victim.mem.disk();
            let attributes = &mut disk.object(inode).xattrs;
            let (stored, value) = attributes.pop_first().unwrap();
            let other = stored.to_str().unwrap().replace("user.", "trusted.");
            attributes.insert(other.into(), value);
        }
        assert_eq!(victim.altered().len(), 1, "{path}");
        let vault = open(victim.mem.fork(), &victim.key);
        let node = vault.node(path).unwrap().node;
        assert_eq!(vault.list_xattrs(node), Err(Errno::IO), "{path}");
    }
}
