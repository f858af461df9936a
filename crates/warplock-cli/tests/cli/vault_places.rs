//! Where a vault, its mount and this machine's memory may be, and what is said of these places.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::common::Folder;
use crate::vault::{Guard, MOUNT, can_mount, vault};

/// An attacker who puts an old store back would put back the memory in it, too, unnoticed.
#[test]
fn a_memory_in_its_own_vault_is_refused() {
    let folder = Folder::new();
    let init = ["vault", "init", "store", "-R", "recipient.txt"];
    folder
        .run([&init[..], &["--memory", "store/memory"]].concat())
        .code(2)
        .says("would be in the vault's store");
    assert!(!folder.path("store").exists());
    folder.run(init).code(0);
    fs::create_dir(folder.path("plain")).unwrap();
    std::os::unix::fs::symlink("store", folder.path("link")).unwrap();
    let before = fs::read_dir(folder.path("store")).unwrap().count();
    let key = ["-i", "key.txt", "--memory"];
    for memory in ["store", "store/new/memory", "link/memory"] {
        for command in [&["mount", "store", "plain"][..], &["check", "store"]] {
            folder
                .run([&["vault"], command, &key, &[memory]].concat())
                .code(2)
                .says("would be in the vault's store");
        }
    }
    // It would disappear with the mount.
    folder
        .run([&MOUNT[..], &["--memory", "plain/memory"]].concat())
        .code(2)
        .says("would be in the mount point");
    let after = fs::read_dir(folder.path("store")).unwrap().count();
    assert_eq!(before, after);
    assert_eq!(fs::read_dir(folder.path("plain")).unwrap().count(), 0);
}

#[test]
fn a_store_need_not_have_a_name_in_utf_8() {
    let folder = Folder::new();
    let store = OsStr::from_bytes(b"st\xf6re");
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| OsStr::new(word).to_owned())
            .collect()
    };
    let mut init: Vec<_> = words(&["vault", "init", "-R", "recipient.txt"]);
    init.push(store.to_owned());
    folder.run(init).code(0);
    let mut check: Vec<_> = words(&["vault", "check", "-i", "key.txt"]);
    check.push(store.to_owned());
    folder.run(check).code(0);
}

#[test]
fn unmounting_tells_programs_what_it_did() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    let store = fs::canonicalize(folder.path("store")).unwrap();
    for (mount, unmount) in [
        (&[][..], &[][..]),
        (&["--read-only"], &[]),
        (&[], &["--lazy"]),
    ] {
        folder.run([&MOUNT[..], mount].concat()).code(0);
        let unmount = [&["vault", "unmount", "plain", "--json"][..], unmount].concat();
        let told = folder.run(unmount).code(0).json();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0]["mount_point"], "plain");
        assert_eq!(told[0]["vault"], *store.to_str().unwrap());
        // The process of one that was detached may need a moment.
        while folder
            .run(["vault", "check", "store", "-i", "key.txt"])
            .status()
            .code()
            != Some(0)
        {}
    }
}

/// Advice names options that the command has.
#[test]
fn advice_fits_the_command() {
    let folder = Folder::new();
    folder.write("pass", "open sesame\n");
    let init = ["vault", "init", "store", "--passphrase-file", "pass"];
    folder.run(init).code(0);
    let said = folder
        .run(["vault", "check", "store", "-i", "key.txt"])
        .code(4);
    let said = said.says("--passphrase-file").stderr();
    assert!(!said.contains("add -p"), "{said}");
    let export = [
        "vault",
        "export-key",
        "store",
        "--passphrase-file",
        "pass",
        "-o",
        "paper",
    ];
    folder.run(export).code(0);
    let paper = folder.read("paper");
    let said = folder.run(export).code(1).says("exists already").stderr();
    assert!(!said.contains("--force"), "{said}");
    assert_eq!(folder.read("paper"), paper);
}

/// Nothing is done, so it must not look as if it was; and nothing has crashed.
#[test]
fn a_path_that_leads_nowhere_is_not_accepted() {
    let folder = Folder::new();
    let init = ["vault", "init", "store", "-R", "recipient.txt"];
    folder.run(init).code(0);
    let accept = ["vault", "memory", "accept", "store", "-i", "key.txt"];
    let words = [&accept[..], &["/nowhere"]].concat();
    folder.run(words).code(1).says("/nowhere: there is nothing");
    let checked = folder
        .run(["vault", "check", "store", "-i", "key.txt"])
        .code(0);
    assert_eq!(checked.stderr(), "");
    for last in [&accept[..], &["vault", "memory", "forget", "store"]] {
        let told = folder.run([last, &["--json"]].concat()).code(0).json();
        assert_eq!(told, [serde_json::json!({ "vault": "store" })]);
    }
}
