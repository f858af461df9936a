//! A listing and lookups say the same about entries.

use std::ffi::OsString;

use crate::common::{FOLDER, Short, new_vault, open};
use warplock_vault::fs::{Entry, Errno, FileSystem, Node, ROOT};
use warplock_vault::{OpenDir, Settings, Storage, Vault};

/// Each entry's name, and the node that is found under it as the mount finds it.
fn listed<S: Storage>(
    vault: &Vault<S>,
    dir: &OpenDir<S>,
    between: impl Fn(),
) -> Vec<(OsString, Result<Node, Errno>)> {
    let mut found = Vec::new();
    let mut add = |entry: Entry<'_>| {
        if entry.name != "." && entry.name != ".." {
            between();
            let node = vault.lookup_listed(dir, ROOT, &entry);
            found.push((entry.name.to_owned(), node.map(|found| found.node)));
        }
        true
    };
    vault.list(dir, 0, &mut add).unwrap();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn entries_are_what_a_lookup_finds() {
    let (mem, key) = new_vault(&Settings::default());
    let vault = open(mem, &key);
    let long = "long ".repeat(50);
    for (name, data) in [("a", "first"), ("b", "second"), (&long, "third")] {
        vault.put(name, data.as_bytes());
    }
    vault.make(ROOT, "c".as_ref(), FOLDER, 0).unwrap();
    let dir = vault.open_dir(ROOT).unwrap();
    let found = listed(&vault, &dir, || {});
    assert_eq!(found.len(), 4);
    for (name, node) in &found {
        let name = name.to_str().unwrap();
        assert_eq!(*node, Ok(vault.node(name).unwrap().node), "{name}");
    }
    for (name, data) in [("a", "first"), ("b", "second"), (&long, "third")] {
        assert_eq!(vault.get(name).unwrap(), data.as_bytes());
    }

    // Each entry is looked up when it is shown, not when the folder was read.
    let remove = || {
        let _ = vault.unlink(ROOT, "b".as_ref());
    };
    let found = listed(&vault, &dir, remove);
    assert_eq!(found.len(), 4);
    let of = |name: &str| found.iter().find(|found| found.0 == name).unwrap().1;
    assert_eq!(of("b"), Err(Errno::NOENT));
    assert_eq!(of("a"), Ok(vault.node("a").unwrap().node));
    assert_eq!(of(&long), Ok(vault.node(&long).unwrap().node));
}
