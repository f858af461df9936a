//! A check of more files with several names than a process may have open.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;

use common::{FOLDER, Short, Told, options, recipients};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use warplock_vault::fs::{FileSystem, ROOT};
use warplock_vault::{CheckOptions, Settings, Vault, check, init};

const OPEN: u64 = 100;

#[test]
fn they_are_not_all_open_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let key = init(dir.path(), &Settings::default(), "test", &recipients()).unwrap();
    let open = || Vault::open(dir.path(), &key, options(&Told::default())).unwrap();
    let vault = open();
    let folder = vault.make(ROOT, OsStr::new("folder"), FOLDER, 0).unwrap();
    for number in 0..OPEN + 50 {
        drop(vault.new_file(&number.to_string()));
        let node = vault.node(&number.to_string()).unwrap().node;
        let name = format!("also {number}");
        vault.link(node, folder.node, OsStr::new(&name)).unwrap();
    }
    vault.unmounted();
    drop(vault);

    let limit = Rlimit {
        current: Some(OPEN),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let vault = open();
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((report.files, &report.findings[..]), (OPEN + 50, &[][..]));
    drop(vault);

    // As after a crash while each is given its second name.
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.metadata().unwrap().nlink() == 2 && entry.path().is_file() {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let repair = CheckOptions {
        repair: true,
        ..CheckOptions::default()
    };
    let vault = open();
    let report = check(&vault, repair, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len() as u64, OPEN + 50);
    assert!(report.findings.iter().all(|finding| finding.repaired));
    let report = check(&vault, CheckOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, []);
}
