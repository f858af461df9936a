//! Copies of the store by programs that compare length and whole seconds, made while the vault is
//! in use and completed once after it was closed: they are the vault.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::common::rng::Rng;
use crate::common::{FOLDER, Short, engine, recipients};
use warplock_vault::fs::{FileSystem, ROOT, RenameFlags};
use warplock_vault::{CheckOptions, Options, Posix, Settings, Vault, check, init};

/// As `rsync -a --delete` does: a file that has the same length and second is taken to be the same.
fn sync(from: &Path, to: &Path) {
    for entry in fs::read_dir(to).unwrap().map(Result::unwrap) {
        let there = from.join(entry.file_name()).symlink_metadata();
        let same = |there: fs::Metadata| there.file_type() == entry.file_type().unwrap();
        if !there.is_ok_and(same) {
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        let Ok(found) = old.symlink_metadata() else {
            continue;
        };
        if found.is_dir() {
            fs::create_dir_all(&new).unwrap();
            sync(&old, &new);
        } else if found.is_symlink() {
            let _ = fs::remove_file(&new);
            std::os::unix::fs::symlink(fs::read_link(&old).unwrap(), &new).unwrap();
        } else {
            let same =
                |there: fs::Metadata| (there.len(), there.mtime()) == (found.len(), found.mtime());
            if !new.metadata().is_ok_and(same) {
                let Ok(data) = fs::read(&old) else {
                    continue;
                };
                fs::write(&new, data).unwrap();
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(found.mtime() as u64);
                let file = fs::File::options().write(true).open(&new).unwrap();
                file.set_modified(time).unwrap();
            }
        }
    }
}

fn unlocked(path: &Path, key: &warplock_keyring::MasterKey) -> Vault<Posix> {
    let options = Options {
        engine: Some(engine()),
        ..Options::default()
    };
    Vault::open(path, key, options).unwrap()
}

/// All files of a vault, with their content and times.
fn all(vault: &Vault<Posix>) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(ROOT, String::new())];
    while let Some((node, path)) = folders.pop() {
        let dir = vault.open_dir(node).unwrap();
        let mut names = Vec::new();
        vault
            .list(&dir, 0, &mut |entry| {
                names.push(entry.name.to_owned());
                true
            })
            .unwrap();
        for name in names.iter().filter(|name| *name != "." && *name != "..") {
            let path = format!("{path}/{}", name.to_string_lossy());
            let shown = vault.lookup(node, name).unwrap();
            if shown.mode & 0o170_000 == 0o040_000 {
                folders.push((shown.node, path));
            } else {
                let data = vault.get(&path[1..]).unwrap();
                found.insert(path, (data, shown.modified));
            }
        }
    }
    found
}

#[test]
fn a_copy_that_is_completed_is_the_vault() {
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let (store, copy) = (folder.path().join("store"), folder.path().join("copy"));
        fs::create_dir(&store).unwrap();
        fs::create_dir(&copy).unwrap();
        let key = init(&store, &Settings::default(), "test", &recipients()).unwrap();
        for _ in 0..3 {
            let vault = unlocked(&store, &key);
            for _ in 0..60 {
                let name = format!("f{}", rng.below(6));
                let file = match vault.file(&name) {
                    Ok(file) => file,
                    Err(_) => vault.new_file(&name),
                };
                match rng.below(20) {
                    0..8 => {
                        // Often of the same length.
                        let offset = rng.below(3) * 4096 * 20;
                        let len = [8, 4096, 100_000][rng.below(3) as usize];
                        let data = rng.bytes(len);
                        vault.write(&file, offset, &data, false).unwrap();
                    }
                    8..11 => vault.fsync(&file, false).unwrap(),
                    11..14 => vault.tick().unwrap(),
                    14 => {
                        let to = format!("f{}", rng.below(6));
                        let (from, to) = (OsStr::new(&name), OsStr::new(&to));
                        vault
                            .rename((ROOT, from), (ROOT, to), RenameFlags::empty())
                            .unwrap();
                    }
                    15 => {
                        let name = format!("d{}", rng.below(3));
                        let to = format!("d{}", rng.below(3));
                        let made = vault.make(ROOT, OsStr::new(&name), FOLDER, 0);
                        if made.is_err() {
                            let (from, to) = (OsStr::new(&name), OsStr::new(&to));
                            let _ = vault.rename((ROOT, from), (ROOT, to), RenameFlags::empty());
                        }
                    }
                    16 => {
                        let node = vault.node(&name).unwrap();
                        let len = node.size / 2;
                        vault.resize(&file, node.node, len).unwrap();
                    }
                    _ => sync(&store, &copy),
                }
            }
            if rng.below(3) == 0 {
                // A crash; the next session may only read the files.
                drop(vault);
                sync(&store, &copy);
                let vault = unlocked(&store, &key);
                all(&vault);
                vault.unmounted();
            } else {
                vault.unmounted();
                drop(vault);
            }
            sync(&store, &copy);
            let (vault, copied) = (unlocked(&store, &key), unlocked(&copy, &key));
            let (right, copied_files) = (all(&vault), all(&copied));
            for (path, (data, time)) in &right {
                let (copied, copied_time) = &copied_files[path];
                assert!(data == copied, "seed {seed}: {path}");
                assert_eq!(time, copied_time, "seed {seed}: {path}");
            }
            assert_eq!(right.len(), copied_files.len(), "seed {seed}");
            // A crash may have interrupted a rename: then the copy says so, too.
            let findings = |vault| {
                let report = check(vault, CheckOptions::default(), &mut |_| {});
                report.unwrap().findings
            };
            assert_eq!(findings(&vault), findings(&copied), "seed {seed}");
        }
    }
}
