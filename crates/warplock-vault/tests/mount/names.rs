//! Names: long, strange, many, deep.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{Advice, fadvise};

use crate::harness::{Place, Random, SUBJECTS, Subject, limited, number};

const VAULT: Subject = Subject::Vault(4096);

#[test]
fn names_of_every_length_and_kind() {
    limited(|| {
        let Some(place) = Place::new(VAULT) else {
            return;
        };
        let mut names: BTreeSet<OsString> = (1..=255).map(|len| "x".repeat(len).into()).collect();
        // UTF-8 in two forms of the same letter, and bytes that are no UTF-8.
        for name in [
            "é",
            "e\u{301}",
            "日本語",
            "🔒",
            " ",
            "a\nb",
            "-rf",
            "~",
            "warplock.vault",
        ] {
            names.insert(name.into());
        }
        names.insert(OsString::from_vec(
            (1..=255).filter(|&byte| byte != b'/').collect(),
        ));
        names.insert(OsString::from_vec(vec![0xff; 255]));
        let standing = place.mount();
        for name in &names {
            fs::write(standing.path(name), name.as_bytes()).unwrap();
        }
        let long = standing.path("x".repeat(256));
        let error = File::create(long).unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(rustix::io::Errno::NAMETOOLONG.raw_os_error())
        );
        standing.end();
        let standing = place.mount();
        let listed: BTreeSet<OsString> = fs::read_dir(standing.root())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(listed, names);
        for name in &names {
            assert_eq!(fs::read(standing.path(name)).unwrap(), name.as_bytes());
            fs::remove_file(standing.path(name)).unwrap();
        }
        assert_eq!(fs::read_dir(standing.root()).unwrap().count(), 0);
        standing.end();
        for path in place.stored() {
            let stored = path.file_name().unwrap();
            assert!(
                !names.contains(stored) || stored == "warplock.vault",
                "{stored:?}"
            );
        }
    });
}

#[test]
fn many_files_in_a_folder() {
    limited(|| {
        let Some(place) = Place::new(VAULT) else {
            return;
        };
        let count = number("WARPLOCK_MANY_FILES", 10_000);
        let standing = place.mount();
        let name = |number: u64| format!("file number {number}");
        for number in 0..count {
            File::create(standing.path(name(number))).unwrap();
        }
        standing.end();
        let standing = place.mount();
        let listed: BTreeSet<OsString> = fs::read_dir(standing.root())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(
            listed,
            (0..count).map(|number| name(number).into()).collect()
        );
        // Removed while listed, as `rm -r` does.
        for entry in fs::read_dir(standing.root()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        assert_eq!(fs::read_dir(standing.root()).unwrap().count(), 0);
        standing.end();
    });
}

/// The kernel may forget what it knows of a folder while a program lists it.
#[test]
fn a_folder_that_is_forgotten_while_it_is_listed() {
    const COUNT: usize = 3000;
    limited(|| {
        for subject in SUBJECTS {
            let Some(place) = Place::new(subject) else {
                return;
            };
            let standing = place.mount();
            for number in 0..COUNT {
                File::create(standing.path(format!("file number {number}"))).unwrap();
            }
            standing.end();
            // Untouched since it was mounted: the kernel could keep what it listed.
            let standing = place.mount();
            for _ in 0..3 {
                let mut listed = 0;
                for entry in fs::read_dir(standing.root()).unwrap() {
                    entry.unwrap();
                    listed += 1;
                    if listed == 100 {
                        let folder = File::open(standing.root()).unwrap();
                        fadvise(&folder, 0, None, Advice::DontNeed).unwrap();
                    }
                }
                assert_eq!(listed, COUNT);
            }
            standing.end();
        }
    });
}

#[test]
fn a_deep_tree() {
    limited(|| {
        let Some(place) = Place::new(VAULT) else {
            return;
        };
        const DEPTH: usize = 300;
        let standing = place.mount();
        let mut path = standing.root().to_owned();
        for level in 0..DEPTH {
            path.push(format!("level{level}"));
            fs::create_dir(&path).unwrap();
        }
        fs::write(path.join("bottom"), "reached").unwrap();
        standing.end();
        let standing = place.mount();
        assert_eq!(fs::read(path.join("bottom")).unwrap(), b"reached");
        // The whole tree moves.
        fs::rename(standing.path("level0"), standing.path("moved")).unwrap();
        let tail: std::path::PathBuf = (1..DEPTH).map(|level| format!("level{level}")).collect();
        let bottom = standing.path("moved").join(tail).join("bottom");
        assert_eq!(fs::read(bottom).unwrap(), b"reached");
        fs::remove_dir_all(standing.path("moved")).unwrap();
        standing.end();
    });
}

/// Files, folders and renames at random against a model of the names.
#[test]
fn random_names_agree_with_the_model() {
    limited(|| {
        let Some(place) = Place::new(VAULT) else {
            return;
        };
        let mut random = Random::seeded();
        let mut model = std::collections::BTreeMap::<String, u64>::new();
        let mut standing = Some(place.mount());
        for step in 0..number("WARPLOCK_NAME_OPERATIONS", 3_000) {
            if step % 1_000 == 999 {
                standing.take().unwrap().end();
                standing = Some(place.mount());
            }
            let root = standing.as_ref().unwrap().root().to_owned();
            let name = |random: &mut Random| {
                let number = random.below(30);
                let long = "long".repeat(if number.is_multiple_of(5) { 50 } else { 1 });
                format!("{long} {number}")
            };
            let (one, other) = (name(&mut random), name(&mut random));
            match random.below(4) {
                0 | 1 => {
                    fs::write(root.join(&one), step.to_le_bytes()).unwrap();
                    model.insert(one, step);
                }
                2 => {
                    let done = fs::rename(root.join(&one), root.join(&other));
                    match model.remove(&one) {
                        Some(content) => {
                            done.unwrap();
                            model.insert(other, content);
                        }
                        None => assert!(done.is_err()),
                    }
                }
                _ => {
                    let done = fs::remove_file(root.join(&one));
                    assert_eq!(done.is_ok(), model.remove(&one).is_some());
                }
            }
            if step % 100 == 99 {
                let listed: BTreeSet<String> = fs::read_dir(&root)
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                    .collect();
                assert!(listed.iter().eq(model.keys()), "{listed:?}");
                for (name, content) in &model {
                    let found = fs::read(root.join(OsStr::new(name))).unwrap();
                    assert_eq!(found, content.to_le_bytes(), "step {step}: {name}");
                }
            }
        }
        standing.take().unwrap().end();
    });
}
