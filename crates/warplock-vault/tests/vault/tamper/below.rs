//! Attacks on the store while the vault is open.

use super::*;

/// A vault that was just opened, its store, and what it told.
struct Live {
    victim: Victim,
    vault: Vault<Mem>,
    told: Told,
}

impl Live {
    fn new(victim: Victim) -> Self {
        let told = Told::default();
        let vault = Vault::open_on(victim.mem.clone(), &victim.key, options(&told)).unwrap();
        Live {
            victim,
            vault,
            told,
        }
    }

    fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }

    /// Puts what stands at `from` under the name of `to`, too.
    fn also(&self, from: &str, to: (u64, OsString)) {
        let inode = self.victim.inode(from);
        self.victim
            .mem
            .disk()
            .object(to.0)
            .entries
            .insert(to.1, inode);
    }
}

fn name(name: &str) -> &OsStr {
    OsStr::new(name)
}

/// Two folders change places while both are in use: neither may be used under the other's name.
#[test]
fn folders_that_are_exchanged() {
    let live = Live::new(Victim::new());
    let vault = &live.vault;
    for path in ["dir", "dir2"] {
        let read = vault.get(&format!("{path}/inner")).unwrap();
        assert_eq!(read, path.as_bytes());
    }
    let nodes = ["dir", "dir2"].map(|path| vault.node(path).unwrap().node);
    live.victim.swap("dir", "dir2");
    // The kernel asks again, or goes on with nodes that it knows.
    for path in ["dir", "dir2"] {
        assert_eq!(vault.node(path).err(), Some(Errno::IO));
    }
    for (path, node) in ["dir", "dir2"].into_iter().zip(nodes) {
        assert_eq!(vault.lookup(node, name("inner")).err(), Some(Errno::IO));
        assert_eq!(vault.open_dir(node).err(), Some(Errno::IO));
        let made = vault.create(node, name("secret"), FILE, WRITE, true);
        assert_eq!(made.err(), Some(Errno::IO));
        assert_eq!(vault.unlink(node, name("inner")), Err(Errno::IO));
        assert_eq!(vault.list_xattrs(node), Err(Errno::IO));
        assert_eq!(vault.rmdir(ROOT, name(path)), Err(Errno::IO));
    }
    let from = (ROOT, name("dir"));
    let to = (ROOT, name("dir3"));
    let renamed = vault.rename(from, to, RenameFlags::empty());
    assert_eq!(renamed, Err(Errno::IO));
    assert!(live.told().contains("never given"), "{}", live.told());
    // They are put back: the wrong names are forgotten.
    live.victim.swap("dir", "dir2");
    for path in ["dir", "dir2"] {
        let read = vault.get(&format!("{path}/inner")).unwrap();
        assert_eq!(read, path.as_bytes());
    }
}

/// A folder under a name that was removed, and under one that was given up.
#[test]
fn a_folder_under_a_name_from_before() {
    for give_up in [false, true] {
        let live = Live::new(Victim::new());
        let vault = &live.vault;
        let (_, dir, stored) = live.victim.find("dir2");
        vault.node("dir2/inner").unwrap();
        let from = if give_up {
            let (from, to) = ((ROOT, name("dir2")), (ROOT, name("new")));
            vault.rename(from, to, RenameFlags::empty()).unwrap();
            "new"
        } else {
            let node = vault.node("dir2").unwrap().node;
            for inner in ["inner", "link"] {
                vault.unlink(node, name(inner)).unwrap();
            }
            vault.rmdir(ROOT, name("dir2")).unwrap();
            "dir"
        };
        vault.node(&format!("{from}/inner")).unwrap();
        live.also(from, (dir, stored));
        assert_eq!(vault.node("dir2").err(), Some(Errno::IO));
        assert!(live.told().contains("never given"), "{}", live.told());
    }
}

/// An empty folder that is replaced by another.
#[test]
fn an_empty_folder_of_another_name() {
    let live = Live::new(Victim::new());
    let vault = &live.vault;
    for path in ["old", "new"] {
        vault.make(ROOT, name(path), FOLDER, 0).unwrap();
    }
    live.victim.swap("old", "new");
    assert_eq!(vault.rmdir(ROOT, name("old")), Err(Errno::IO));
    let to = (ROOT, name("old"));
    let renamed = vault.rename((ROOT, name("dir")), to, RenameFlags::empty());
    assert_eq!(renamed, Err(Errno::IO));
    live.victim.swap("old", "new");
    assert_eq!(vault.rmdir(ROOT, name("old")), Ok(()));
}

/// One symlink hard-linked over another: neither may be read through the other's name.
#[test]
fn a_symlink_linked_over_another() {
    for first in ["link", "link2"] {
        let live = Live::new(Victim::new());
        let vault = &live.vault;
        let (_, dir, stored) = live.victim.find("link");
        live.also("link2", (dir, stored));
        let second = if first == "link" { "link2" } else { "link" };
        let node = vault.node(first).unwrap().node;
        assert_eq!(vault.node(second).err(), Some(Errno::IO));
        assert_eq!(vault.readlink(node), Err(Errno::IO));
        assert!(live.told().contains("never given"), "{}", live.told());
    }
}

/// What the store has no more under a name is looked up again, and other names still lead there.
#[test]
fn names_that_the_store_no_longer_has() {
    let victim = Victim::new();
    let (inode, dir, one) = victim.find("short");
    victim.legitimately(|vault| {
        let node = vault.node("short").unwrap().node;
        vault.link(node, ROOT, name("also")).unwrap();
    });
    let live = Live::new(victim);
    let vault = &live.vault;
    let also = vault.node("also").unwrap().node;
    assert_eq!(vault.node("short").unwrap().node, also);
    live.victim.mem.disk().object(dir).entries.remove(&one);
    // Under the name that was looked up last it is gone; the kernel asks again.
    let opened = vault.open(also, Access::default());
    assert_eq!(opened.err(), Some(Errno::STALE));
    assert_eq!(vault.get("also").unwrap(), text(2, SHORT));
    let entries = &mut live.victim.mem.disk().object(dir).entries.clone();
    entries.retain(|_, entry| *entry != inode);
    live.victim.mem.disk().object(dir).entries = entries.clone();
    assert_eq!(vault.get("also"), Err(Errno::NOENT));
}

/// Two folders that are moved into each other, so that the names that are known lead in a circle.
#[test]
fn folders_in_a_circle() {
    let victim = Victim::new();
    // Each has been in the other once.
    let mut inside = Vec::new();
    for (moved, into) in [("dir", "dir2"), ("dir2", "dir")] {
        let to = format!("{into}/{moved}");
        victim.legitimately(|vault| {
            let into = vault.node(into).unwrap().node;
            let (from, to) = ((ROOT, name(moved)), (into, name(moved)));
            vault.rename(from, to, RenameFlags::empty()).unwrap();
        });
        inside.push(victim.find(&to));
        victim.legitimately(|vault| {
            let into = vault.node(into).unwrap().node;
            let (from, to) = ((into, name(moved)), (ROOT, name(moved)));
            vault.rename(from, to, RenameFlags::empty()).unwrap();
        });
    }
    let live = Live::new(victim);
    let vault = &live.vault;
    for path in ["dir/inner", "dir2/inner"] {
        vault.node(path).unwrap();
    }
    for (inode, dir, stored) in &inside {
        let mut disk = live.victim.mem.disk();
        disk.object(*dir).entries.insert(stored.clone(), *inode);
    }
    for path in ["dir/dir2", "dir2/dir"] {
        let _ = vault.node(path);
    }
    for (_, dir, stored) in &inside {
        live.victim.mem.disk().object(*dir).entries.remove(stored);
    }
    for path in ["dir", "dir2"] {
        let read = vault.get(&format!("{path}/inner")).unwrap();
        assert_eq!(read, path.as_bytes());
    }
    for (inode, dir, stored) in &inside {
        let mut disk = live.victim.mem.disk();
        disk.object(*dir).entries.insert(stored.clone(), *inode);
    }
    for path in ["dir/dir2", "dir2/dir", "dir/dir2"] {
        let _ = vault.node(path);
    }
    for path in ["dir2/inner", "dir/dir2/inner"] {
        assert_eq!(vault.get(path), Err(Errno::IO), "{path}");
    }
    assert_eq!(vault.get("dir/inner").unwrap(), b"dir");
}

/// A rename or an exchange of files in use that is undone in the store.
#[test]
fn what_was_renamed_is_put_back() {
    for exchange in [false, true] {
        let victim = Victim::new();
        let old = victim.find("short");
        let live = Live::new(victim);
        let vault = &live.vault;
        let files = ["short", "s2"].map(|path| vault.file(path).unwrap());
        let (to, flags) = match exchange {
            true => ("s2", RenameFlags::EXCHANGE),
            false => ("new", RenameFlags::empty()),
        };
        vault
            .rename((ROOT, name("short")), (ROOT, name(to)), flags)
            .unwrap();
        {
            let mut disk = live.victim.mem.disk();
            let entries = &mut disk.object(old.1).entries;
            let new = entries
                .iter()
                .find(|(it, inode)| **inode == old.0 && **it != old.2);
            let new = new.unwrap().0.clone();
            let other = entries.insert(old.2.clone(), old.0);
            match other {
                Some(other) => entries.insert(new, other),
                None => entries.remove(&new),
            };
        }
        let names: &[&str] = if exchange {
            &["short", "s2"]
        } else {
            &["short"]
        };
        for path in names {
            assert_eq!(vault.get(path), Err(Errno::IO), "{path}");
        }
        assert!(live.told().contains("put back"), "{}", live.told());
        drop(files);
    }
}

/// The kernel does nothing when it is to rename a node over itself: it does not get one for two
/// names unless both were given to it.
#[test]
fn a_planted_link_is_no_second_name() {
    for (path, over) in [("short", "s2"), ("link", "link2")] {
        let victim = Victim::new();
        let (_, dir, stored) = victim.find(over);
        let live = Live::new(victim);
        live.vault.node(path).unwrap();
        live.also(path, (dir, stored));
        assert_eq!(live.vault.node(over).err(), Some(Errno::IO), "{over}");
        assert!(live.told().contains("never given"), "{}", live.told());
    }
}

/// A planted hard link where its own file is to be put.
#[test]
fn a_rename_onto_a_planted_link() {
    for (from, over) in [("short", "s2"), ("short", "free"), ("link", "link2")] {
        for flags in [RenameFlags::empty(), RenameFlags::EXCHANGE] {
            let victim = Victim::new();
            if over == "free" {
                victim.legitimately(|vault| vault.put(over, b"1"));
            }
            let (_, dir, stored) = victim.find(over);
            victim.legitimately(|vault| {
                if over == "free" {
                    vault.unlink(ROOT, name(over)).unwrap();
                }
            });
            let live = Live::new(victim);
            live.also(from, (dir, stored));
            let renamed = live
                .vault
                .rename((ROOT, name(from)), (ROOT, name(over)), flags);
            assert_eq!(renamed, Err(Errno::IO), "{over}");
            assert!(live.told().contains("never given"), "{}", live.told());
        }
    }
    // Of names that its owner gave it, POSIX says that nothing happens.
    let live = Live::new(Victim::new());
    let vault = &live.vault;
    let node = vault.node("short").unwrap().node;
    vault.link(node, ROOT, name("also")).unwrap();
    for flags in [RenameFlags::empty(), RenameFlags::EXCHANGE] {
        vault
            .rename((ROOT, name("short")), (ROOT, name("also")), flags)
            .unwrap();
    }
    for path in ["short", "also"] {
        assert_eq!(vault.get(path).unwrap(), text(2, SHORT));
    }
}
