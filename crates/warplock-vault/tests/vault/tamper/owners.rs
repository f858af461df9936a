//! Attacks with types, permissions and owners.

use super::*;

const FIFO: u32 = 0o010_600;

impl Victim {
    /// A victim that has a fifo and a device, too.
    fn with_specials() -> Self {
        let victim = Victim::new();
        victim.legitimately(|vault| {
            for (name, kind) in [("fifo", FIFO), ("device", 0o060_600)] {
                let new = warplock_vault::fs::NewNode { mode: kind, ..FILE };
                vault.make(ROOT, OsStr::new(name), new, 0x801).unwrap();
            }
        });
        victim
    }
}

/// Nothing in the store makes a file run as another user, gives it away or opens it to others.
#[test]
fn permissions_and_owners_of_the_store() {
    let victim = Victim::with_specials();
    let paths = ["short", "dir", "dir/inner", "fifo", "device"];
    let shown = |victim: &Victim| {
        let vault = open(victim.mem.fork(), &victim.key);
        paths.map(|path| {
            let found = vault.node(path).unwrap();
            (found.mode, found.uid, found.gid, found.device)
        })
    };
    let before = shown(&victim);
    for path in paths {
        let inode = victim.inode(path);
        let mut disk = victim.mem.disk();
        let object = disk.object(inode);
        object.mode |= 0o6777;
        (object.uid, object.gid) = (65_534, 65_534);
    }
    assert_eq!(shown(&victim), before);
    for path in paths.into_iter().filter(|path| path.len() > 4) {
        assert!(path == "device" || victim.noticed(path) == Never);
    }
    assert_eq!(victim.altered(), []);
}

/// One kind in the place of another: of objects that the vault made, and of others.
#[test]
fn kinds_are_exchanged() {
    for (one, other) in [
        ("short", "fifo"),
        ("short", "device"),
        ("fifo", "device"),
        ("short", "dir"),
        ("fifo", "dir"),
        ("short", "link"),
        ("fifo", "link"),
        ("dir", "link"),
    ] {
        let victim = Victim::with_specials();
        victim.swap(one, other);
        for path in [one, other] {
            let told = Told::default();
            let vault = Vault::open_on(victim.mem.fork(), &victim.key, options(&told)).unwrap();
            let used = vault
                .node(path)
                .and_then(|found| match found.mode & 0o170_000 {
                    0o100_000 => vault.open(found.node, Access::default()).map(drop),
                    0o040_000 => vault.open_dir(found.node).map(drop),
                    0o120_000 => vault.readlink(found.node).map(drop),
                    // The kernel would open it.
                    kind => panic!("{path} is shown as {kind:o}"),
                });
            assert_eq!(used, Err(Errno::IO), "{one} {other}: {path}");
            assert!(!told.lock().unwrap().is_empty());
        }
        assert_eq!(victim.altered().len(), 2, "{one} {other}");
    }
}

/// Fifos, sockets and devices in the store are none of the vault's.
#[test]
fn other_kinds_in_the_store() {
    for mode in [0o010_666, 0o140_666, 0o020_666, 0o060_666] {
        for path in ["short", "dir", "link", "fifo", "dir/inner"] {
            let victim = Victim::with_specials();
            let (_, dir, stored) = victim.find(path);
            let planted = victim.plant(dir, stored.to_str().unwrap(), Object::new(mode));
            let vault = open(victim.mem.fork(), &victim.key);
            assert_eq!(vault.node(path).err(), Some(Errno::IO), "{mode:o} {path}");
            drop(vault);
            let (repaired, findings) = victim.repaired();
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].class, Class::Altered);
            assert!(findings[0].problem.contains("a fifo, socket or device"));
            assert!(repaired.is_reachable(planted));
            assert_eq!(repaired.altered(), []);
        }
    }
}

/// Below a mount: a fifo that is known gets the name of a file.
#[test]
fn kinds_are_exchanged_below_a_mount() {
    let victim = Victim::with_specials();
    let (fifo, _, _) = victim.find("fifo");
    let (_, dir, stored) = victim.find("short");
    let vault = open(victim.mem.clone(), &victim.key);
    assert_eq!(vault.node("fifo").unwrap().mode, FIFO);
    {
        let mut disk = victim.mem.disk();
        disk.object(dir).entries.insert(stored, fifo);
        disk.object(fifo).links += 1;
    }
    assert_eq!(vault.node("short").err(), Some(Errno::IO));
}

/// A header or record from before permissions were taken away: with content of today it does not
/// open, and alone it says so little as any old state.
#[test]
fn a_state_from_before_permissions_were_taken_away() {
    let victim = Victim::new();
    let (old, inode) = (victim.copy("short").data, victim.inode("short"));
    victim.legitimately(|vault| {
        let node = vault.node("short").unwrap().node;
        let file = vault.open(node, WRITE).unwrap();
        let changes = warplock_vault::fs::Changes {
            mode: Some(0o600),
            ..Default::default()
        };
        vault.change(node, Some(&file), &changes).unwrap();
        vault.write(&file, 0, &[1; SHORT], false).unwrap();
    });
    {
        let mut disk = victim.mem.disk();
        disk.object(inode).data[..2 * HEADER].copy_from_slice(&old[..2 * HEADER]);
    }
    assert_eq!(victim.noticed("short"), Read);
}
