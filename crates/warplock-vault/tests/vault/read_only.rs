//! A store that can only be read, from the start or from some moment on.

use std::ffi::OsStr;

use crate::common::mem::Mem;
use crate::common::{FILE, FOLDER, Short, Told, WRITE, new_vault, open, options};
use warplock_keyring::MasterKey;
use warplock_vault::fs::{Errno, FileSystem, ROOT, RenameFlags};
use warplock_vault::{CheckOptions, Class, ErrorKind, Settings, Vault, check};

/// A vault with a synced change that is in the journal only, as after a crash if `unclean`.
fn store(unclean: bool) -> (Mem, MasterKey) {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem.clone(), &key);
    vault.put("file", &[1; 10_000]);
    let file = vault.file("file").unwrap();
    vault.write(&file, 5000, &[2; 3000], false).unwrap();
    vault.fsync(&file, true).unwrap();
    if !unclean {
        drop(file);
        vault.unmounted();
    }
    (mem.fork(), key)
}

fn changed() -> Vec<u8> {
    [&[1; 5000][..], &[2; 3000], &[1; 2000]].concat()
}

/// Every way to change something is refused as on any read-only file system.
fn refuses(vault: &Vault<Mem>) {
    let (file, new) = (OsStr::new("file"), OsStr::new("new"));
    let node = vault.node("file").unwrap().node;
    let tried = [
        vault.open(node, WRITE).map(drop),
        vault.create(ROOT, new, FILE, WRITE, true).map(drop),
        vault.make(ROOT, new, FOLDER, 0).map(drop),
        vault.symlink(ROOT, new, file, FILE.caller).map(drop),
        vault.link(node, ROOT, new).map(drop),
        vault.rename((ROOT, file), (ROOT, new), RenameFlags::empty()),
        vault.unlink(ROOT, file),
    ];
    for (index, result) in tried.into_iter().enumerate() {
        assert_eq!(result, Err(Errno::ROFS), "try {index}");
    }
    assert_eq!(vault.node("new").unwrap_err(), Errno::NOENT);
}

#[test]
fn a_vault_on_a_read_only_store_is_read_and_says_so() {
    for unclean in [false, true] {
        let (mem, key) = store(unclean);
        mem.disk().fault = Some((0, Errno::ROFS));
        let before = mem.disk().log.len();
        let told = Told::default();
        let vault = Vault::open_on(mem.clone(), &key, options(&told)).unwrap();
        assert!(vault.is_read_only());
        assert_eq!(vault.get("file").unwrap(), changed());
        refuses(&vault);
        let repair = CheckOptions {
            repair: true,
            ..CheckOptions::default()
        };
        let refused = check(&vault, repair, &mut |_| {}).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Usage);
        vault.unmounted();
        assert_eq!(mem.disk().log.len(), before, "nothing was changed");
        let told = told.lock().unwrap().join("\n");
        assert!(told.contains("reading only"), "{told}");
        assert_eq!(told.contains("not closed properly"), unclean, "{told}");
        assert_eq!(told.contains("check --repair"), unclean, "{told}");

        // When it can be written, all is as it would have been.
        mem.disk().fault = None;
        let vault = open(mem, &key);
        assert_eq!(vault.get("file").unwrap(), changed());
        let report = check(&vault, repair, &mut |_| {}).unwrap();
        assert!(
            report
                .findings
                .iter()
                .all(|finding| finding.class == Class::Crash)
        );
    }
}

#[test]
fn a_store_may_become_read_only() {
    let (mem, key) = store(false);
    let vault = open(mem.clone(), &key);
    mem.disk().fault = Some((0, Errno::ROFS));
    assert_eq!(vault.get("file").unwrap(), changed());
    refuses(&vault);
    vault.unmounted();
    drop(vault);
    mem.disk().fault = None;
    let vault = open(mem, &key);
    assert_eq!(vault.get("file").unwrap(), changed());
    vault.put("new", b"data");
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
}
