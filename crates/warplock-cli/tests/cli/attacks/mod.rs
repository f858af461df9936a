//! Attacks on vaults through real mounts: what `docs/vault-format.md` says of each is what happens.
//!
//! An [`Attack`] has a folder of the vault for itself, so that many of them share a mount. All are
//! made on a closed vault and on one that is mounted, with and without the machine's memory, and
//! whatever an attack is, no mount may show anything but what the owner made, or an error.

mod contents;
mod crashes;
mod history;
mod in_use;
mod kinds;
mod machines;
mod names;
mod own;
mod planted;
mod programs;
mod story;
mod tree;
mod world;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use story::{Story, expect_listed, run};
use tree::Moment;
use world::{Attacker, LONG, LONG_NAME, Memory, SHORT, places};

const DOCUMENT: &str = include_str!("../../../../../docs/vault-format.md");
/// The parts of the table of attacks that begin with these lines.
const WITH_MEMORY: &str = "| **with the machine's memory**";
const NOT_AT_ALL: &str = "| **not at all**";

/// What the owner does in the folder of an attack.
type Work = fn(&Path);
type Attacking = fn(&Attacker<'_>);

/// What becomes of an attack.
#[derive(Clone, Copy, Debug)]
enum Promise {
    /// Using the first of these objects fails at this moment, and using the others fails, too; both
    /// the mount and `check` say this.
    Noticed {
        moment: Moment,
        paths: &'static [&'static str],
        says: &'static str,
    },
    /// What is missing is not shown, and only `check` says something.
    Found { says: &'static str },
    /// All that is shown is right, but both listing the folder and `check` say this.
    Told { says: &'static str },
    /// Nothing changes, and nothing is said.
    Harmless,
    /// What was there after the owner's first session may be shown. The document says so in the
    /// line of its table that contains this.
    Passes(&'static str),
}

struct Attack {
    /// What it is, and the name of its folder.
    name: &'static str,
    /// What the owner does besides making [`victims`], and what in another session.
    first: Option<Work>,
    second: Option<Work>,
    /// What the attacker does between these sessions, and at the end.
    between: Option<Attacking>,
    attack: Attacking,
    with_memory: Promise,
    without: Promise,
}

fn attack(name: &'static str, attack: Attacking) -> Attack {
    Attack {
        name,
        first: None,
        second: None,
        between: None,
        attack,
        with_memory: Promise::Harmless,
        without: Promise::Harmless,
    }
}

impl Attack {
    fn first(mut self, work: Work) -> Self {
        self.first = Some(work);
        self
    }

    fn second(mut self, work: Work) -> Self {
        self.second = Some(work);
        self
    }

    fn between(mut self, attack: Attacking) -> Self {
        self.between = Some(attack);
        self
    }

    fn promise(mut self, promise: Promise) -> Self {
        (self.with_memory, self.without) = (promise, promise);
        self
    }

    fn noticed(self, moment: Moment, paths: &'static [&'static str], says: &'static str) -> Self {
        self.promise(Promise::Noticed {
            moment,
            paths,
            says,
        })
    }

    fn told(self, says: &'static str) -> Self {
        self.promise(Promise::Told { says })
    }

    fn found(self, says: &'static str) -> Self {
        self.promise(Promise::Found { says })
    }

    fn passes(self, line: &'static str) -> Self {
        self.promise(Promise::Passes(line))
    }

    /// Without the machine's memory it passes.
    fn but_alone_passes(mut self, line: &'static str) -> Self {
        self.without = Promise::Passes(line);
        self
    }

    /// Without the machine's memory, this is said.
    fn but_alone(mut self, promise: Promise) -> Self {
        self.without = promise;
        self
    }

    fn promised(&self, memory: Memory) -> Promise {
        match memory {
            Memory::On => self.with_memory,
            Memory::Off => self.without,
        }
    }
}

fn bytes(seed: &str, len: usize) -> Vec<u8> {
    let mut state = seed.bytes().fold(len as u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn put(path: &Path, len: usize) {
    fs::write(path, bytes(path.to_str().unwrap(), len)).unwrap();
}

/// What there is to attack in each folder.
fn victims(folder: &Path) {
    use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
    use std::os::unix::fs::symlink;
    for (name, len) in [
        ("long", LONG),
        ("long2", LONG),
        ("short", SHORT),
        ("s2", 99),
        (LONG_NAME, 10),
    ] {
        put(&folder.join(name), len);
    }
    let sparse = File::create(folder.join("sparse")).unwrap();
    let (start, end) = (bytes("start", SHORT), bytes("end", 5000));
    sparse.write_all_at(&start, 0).unwrap();
    sparse.write_all_at(&end, LONG as u64 + 50_000).unwrap();
    for name in ["dir", "dir2"] {
        let path = folder.join(name);
        fs::create_dir(&path).unwrap();
        put(&path.join("inner"), 500);
        symlink(format!("to {name}"), path.join("link")).unwrap();
    }
    for name in ["link", "link2"] {
        symlink(format!("target of {name}"), folder.join(name)).unwrap();
    }
    let fifo = folder.join("fifo");
    mknodat(CWD, fifo, FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    for name in ["short", "s2", "dir"] {
        for attribute in ["user.a", "user.b"] {
            let value = format!("{attribute} of {name}");
            let path = folder.join(name);
            setxattr(path, attribute, value.as_bytes(), XattrFlags::empty()).unwrap();
        }
    }
}

/// What is in a store: the files that hold something, by their inode numbers, and the values of
/// attributes.
#[derive(Default)]
struct Kept {
    files: BTreeMap<u64, (String, Vec<u8>)>,
    values: Vec<Vec<u8>>,
}

impl Kept {
    fn of(store: &Path) -> Self {
        let mut kept = Kept::default();
        let mut folders = vec![store.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let status = path.symlink_metadata().unwrap();
                if status.is_symlink() {
                    continue;
                }
                let values = attributes(&path).into_iter().map(|(_, value)| value);
                kept.values.extend(values);
                let name = path.display().to_string();
                let own = ["warplock.lock", "warplock.machine"];
                if status.is_dir() {
                    folders.push(path);
                } else if status.is_file()
                    && status.len() > 0
                    && !own.iter().any(|own| name.contains(own))
                {
                    kept.files
                        .insert(status.ino(), (name, fs::read(path).unwrap()));
                }
            }
        }
        kept
    }

    /// What is not in the store any more, nor among its lost things.
    fn lost(&self, store: &Path) -> Option<String> {
        let now = Kept::of(store);
        let here = |inode, object: &(String, Vec<u8>)| {
            now.files.get(inode).is_some_and(|it| it.1 == object.1)
        };
        let file = self.files.iter().find(|(inode, it)| !here(inode, it));
        let evidence = |value: &Vec<u8>| {
            let mut lost = now.files.values().filter(|it| it.0.ends_with(".xattr"));
            now.values.contains(value) || lost.any(|it| it.1.ends_with(value))
        };
        let value = self.values.iter().find(|value| !evidence(value));
        file.map(|it| it.1.0.clone())
            .or(value.map(|_| "the value of an attribute".to_owned()))
    }
}

/// The attributes of a file or folder that the vault writes, in their order.
fn attributes(path: &Path) -> Vec<(String, Vec<u8>)> {
    let (mut names, mut value) = ([0; 4096], [0; 4096]);
    let Ok(len) = rustix::fs::llistxattr(path, &mut names[..]) else {
        return Vec::new();
    };
    let names = names[..len].split(|byte| *byte == 0);
    let names = names.map(|name| String::from_utf8(name.to_vec()).unwrap());
    let own = names.filter(|it| it.starts_with("user.") || it.starts_with("trusted."));
    let mut found: Vec<_> = own
        .map(|name| {
            let len = rustix::fs::lgetxattr(path, &*name, &mut value[..]).unwrap();
            (name, value[..len].to_vec())
        })
        .collect();
    found.sort();
    found
}
