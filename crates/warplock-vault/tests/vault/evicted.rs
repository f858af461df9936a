//! A kernel short of memory forgets files whose writes are not committed yet: none of their content
//! is lost, and nothing is left over.

use crate::common::{FILE, FOLDER, Short, WRITE, new_vault, open};
use rustix::io::Errno;
use warplock_vault::fs::{FileSystem, ROOT, RenameFlags};
use warplock_vault::{CheckOptions, Settings, Storage, Vault, check};

/// Takes all references to a node back.
fn evict<S: Storage>(vault: &Vault<S>, name: &str) -> u64 {
    let node = vault.node(name).unwrap().node;
    vault.forget(node, u64::MAX);
    node
}

/// The second writer must not start from the state before the first one, nor throw away the
/// journal that makes the first one's durable.
#[test]
fn what_was_synced_outlives_the_node() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let mut wanted = vec![b'A'; 1_000_000];
    vault.put("file", &wanted);
    FileSystem::tick(&vault);
    for (offset, byte) in [(0, b'C'), (16_384, b'D')] {
        let file = vault.file("file").unwrap();
        vault.write(&file, offset, &[byte; 8192], false).unwrap();
        vault.fsync(&file, false).unwrap();
        drop(file);
        wanted[offset as usize..][..8192].fill(byte);
        evict(&vault, "file");
        assert!(vault.get("file").unwrap() == wanted);
        evict(&vault, "file");
    }
    // As a power failure leaves it, and as closing does.
    let crashed = open(mem.fork(), &key);
    assert!(crashed.get("file").unwrap() == wanted);
    vault.unmounted();
    drop(vault);
    let vault = open(mem, &key);
    assert!(vault.get("file").unwrap() == wanted);
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
}

/// Its header in the store does not yet cover what was written.
#[test]
fn a_new_file_can_be_opened_again() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem, &key);
    let file = vault.new_file("file");
    vault.write(&file, 0, &[1; 10_000], false).unwrap();
    drop(file);
    evict(&vault, "file");
    assert_eq!(vault.node("file").unwrap().size, 10_000);
    assert_eq!(vault.get("file").unwrap(), [1; 10_000]);
}

#[test]
fn nodes_go_once_their_files_are_committed() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    let file = vault.new_file("file");
    vault.write(&file, 0, b"content", false).unwrap();
    drop(file);
    let node = evict(&vault, "file");
    assert_eq!(vault.attributes(node, None).unwrap().size, 7);
    // One whose header has no room yet stays.
    mem.disk().fault = Some((1, Errno::NOSPC));
    FileSystem::tick(&vault);
    mem.disk().fault = None;
    assert_eq!(vault.attributes(node, None).unwrap().size, 7);
    // One that is known again stays, too, until it is forgotten again.
    vault.node("file").unwrap();
    FileSystem::tick(&vault);
    assert!(vault.attributes(node, None).is_ok());
    evict(&vault, "file");
    assert_eq!(vault.attributes(node, None), Err(Errno::STALE));

    let file = vault.file("file").unwrap();
    let node = evict(&vault, "file");
    FileSystem::tick(&vault);
    assert!(vault.attributes(node, Some(&file)).is_ok());
    drop(file);
    FileSystem::tick(&vault);
    assert_eq!(vault.attributes(node, None), Err(Errno::STALE));
    assert_eq!(vault.get("file").unwrap(), b"content");
}

/// Folders are forgotten, too, and renamed when they are known again.
#[test]
fn a_file_is_found_in_a_folder_that_was_renamed() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem, &key);
    let folder = vault.make(ROOT, "old".as_ref(), FOLDER, 0).unwrap().node;
    let new = vault.create(folder, "file".as_ref(), FILE, WRITE, true);
    let file = new.unwrap().1;
    vault.write(&file, 0, b"content", false).unwrap();
    drop(file);
    evict(&vault, "old/file");
    evict(&vault, "old");
    let node = vault.node("old/file").unwrap().node;
    vault
        .rename(
            (ROOT, "old".as_ref()),
            (ROOT, "new".as_ref()),
            RenameFlags::empty(),
        )
        .unwrap();
    FileSystem::tick(&vault);
    assert!(vault.open(node, WRITE).is_ok());
    assert_eq!(vault.get("new/file").unwrap(), b"content");
}
