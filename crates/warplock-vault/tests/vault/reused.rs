//! A file system gives an inode number again as soon as it is free: what is made then, while the
//! vault is still busy with what had the number before, has nothing to do with that.

use std::sync::{Arc, Mutex};

use crate::common::mem::Mem;
use crate::common::{FILE, Short, WRITE, new_vault, open};
use warplock_vault::fs::{FileSystem, FileType, ROOT, RenameFlags};
use warplock_vault::{CheckOptions, OpenFile, Settings, Vault, check};

/// The node of a new file, and the file.
type Made = (u64, OpenFile<Mem>);

/// Does `action`, in the midst of which something loses its last name, and another thread, as it
/// were, makes a file that gets its inode number. Then uses both.
fn race(action: impl FnOnce(&Vault<Mem>)) {
    let (mem, key) = new_vault(&Settings::default());
    let vault = Arc::new(open(mem.clone(), &key));
    vault.put("file", b"content");
    vault.put("other", b"other");
    let target = "target".as_ref();
    vault
        .symlink(ROOT, "link".as_ref(), target, FILE.caller)
        .unwrap();
    // The kernel knows all of them, and the files are not in use.
    let known = ["file", "other", "link"].map(|name| vault.node(name).unwrap().node);
    FileSystem::tick(&*vault);

    let made = Arc::new(Mutex::new(None::<Made>));
    let (with, disk, to) = (Arc::clone(&vault), mem.clone(), Arc::clone(&made));
    mem.disk().on_last_name = Some(Arc::new(move |inode| {
        disk.disk().reused = Some(inode);
        let new = with.create(ROOT, "new".as_ref(), FILE, WRITE, true);
        let (found, file) = new.unwrap();
        with.write(&file, 0, &[1; 10_000], false).unwrap();
        *to.lock().unwrap() = Some((found.node, file));
    }));
    action(&vault);
    let (node, file) = made.lock().unwrap().take().expect("something was unnamed");
    assert!(!known.contains(&node));
    assert_eq!(vault.node("new").unwrap().node, node);

    let second = vault.file("new").unwrap();
    vault.write(&second, 10_000, &[2; 5000], false).unwrap();
    vault.write(&file, 15_000, &[3; 5000], false).unwrap();
    vault.fsync(&file, false).unwrap();
    drop((file, second));
    FileSystem::tick(&*vault);
    let wanted = [vec![1; 10_000], vec![2; 5000], vec![3; 5000]].concat();
    let crashed = open(mem.fork(), &key);
    for vault in [&*vault, &crashed] {
        assert!(vault.get("new").unwrap() == wanted);
        let report = check(vault, CheckOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(report.findings, []);
    }
}

#[test]
fn a_removed_file() {
    race(|vault| vault.unlink(ROOT, "file".as_ref()).unwrap());
}

#[test]
fn a_replaced_file() {
    race(|vault| {
        let (from, to) = ((ROOT, "other".as_ref()), (ROOT, "file".as_ref()));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
        assert_eq!(vault.get("file").unwrap(), b"other");
    });
}

/// A symlink that is renamed is rewritten.
#[test]
fn a_renamed_symlink() {
    race(|vault| {
        let node = vault.node("link").unwrap().node;
        let (from, to) = ((ROOT, "link".as_ref()), (ROOT, "moved".as_ref()));
        vault.rename(from, to, RenameFlags::empty()).unwrap();
        let moved = vault.node("moved").unwrap();
        assert_eq!(moved.node, node);
        let kind = FileType::from_raw_mode(moved.mode);
        assert_eq!(kind, FileType::Symlink);
        assert_eq!(vault.readlink(node).unwrap(), b"target");
    });
}
