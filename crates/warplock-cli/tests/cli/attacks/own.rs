//! Attacks on a vault as a whole: its settings and keys, its own files and folders, all of it.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::world::{Kind, Memory, World, plant, remove, rewrite};
use super::{DOCUMENT, Kept, Promise, expect_listed};
use crate::vault::can_mount;

/// What becomes of an attack: the exit codes, and what is said.
struct Outcome {
    /// `check`'s code, and words of a finding or of an error.
    check: (i32, &'static str),
    /// The same of a mount. If it stands, the owner's file is there, and nothing else.
    mount: (i32, &'static str),
}

struct Attack {
    name: &'static str,
    attack: fn(&World),
    with_memory: Outcome,
    /// If it is another one.
    without: Option<Outcome>,
}

fn told(code: i32, says: &'static str) -> Outcome {
    Outcome {
        check: (code, says),
        mount: (code, says),
    }
}

fn attack(
    name: &'static str,
    attack: fn(&World),
    check: (i32, &'static str),
    mount: (i32, &'static str),
) -> Attack {
    Attack {
        name,
        attack,
        with_memory: Outcome { check, mount },
        without: None,
    }
}

impl Attack {
    /// Whether it becomes of the attack what is promised.
    fn judge(&self, world: &World, memory: Memory) -> Result<(), String> {
        (self.attack)(world);
        let outcome = match (&self.without, memory) {
            (Some(without), Memory::Off) => without,
            _ => &self.with_memory,
        };
        let checked = world.check_with(memory, &[]);
        let (code, says) = outcome.check;
        let told = format!("{} {:?}", checked.said, checked.findings);
        if checked.code != code || !told.contains(says) {
            return Err(format!("check: {}: {told}", checked.code));
        }
        let (code, says) = outcome.mount;
        if code != 0 {
            let mount = ["vault", "mount", "store", "plain", "-i", "key.txt"];
            let mounted = world.0.run([&mount[..], memory.options()].concat());
            let right = mounted.status().code() == Some(code) && mounted.stderr().contains(says);
            return match right {
                true => Ok(()),
                false => Err(format!("mount: {}", mounted.stderr())),
            };
        }
        let mounted = world.mount_with(memory, &[]);
        let read = fs::read(mounted.point.join("file"));
        let said = mounted.end();
        let right = match (self.without.is_some(), memory) {
            (true, Memory::On) => read.is_err(),
            (true, Memory::Off) => true,
            _ => read.is_ok_and(|read| read == b"content"),
        };
        if !right || !said.contains(says) {
            return Err(format!("mount: {right} {said}"));
        }
        let before = Kept::of(&world.store());
        world.check_with(memory, &["--repair"]);
        match before.lost(&world.store()) {
            None => Ok(()),
            Some(lost) => Err(format!("{lost} is lost")),
        }
    }
}

/// A vault with a file, three keys, and an older state in `before`.
pub(super) fn owned() -> World {
    let world = World::new();
    for key in ["paper", "bob"] {
        let public = format!("{key}.pub");
        let secret = format!("{key}.txt");
        world.0.run(["keygen", "-o", &secret]).code(0);
        world
            .0
            .run(["keygen", "-y", &secret, "-o", &public])
            .code(0);
    }
    world.session(|point| fs::write(point.join("file"), "old").unwrap());
    world.copy("store", "before");
    world.session(|point| {
        fs::write(point.join("file"), "content").unwrap();
        fs::create_dir(point.join("dir")).unwrap();
    });
    for key in ["paper", "bob"] {
        let public = format!("{key}.pub");
        let add = [
            "vault", "key", "add", "store", key, "-i", "key.txt", "-R", &public,
        ];
        world.0.run(add).code(0);
    }
    world
        .0
        .run(["vault", "init", "evil", "-R", "recipient.txt"])
        .code(0);
    world.copy("store", "store now");
    world.copy("state", "state now");
    world
}

fn config(world: &World) -> PathBuf {
    world.store().join("warplock.vault")
}

fn replace(world: &World, from: &str, to: &str) {
    rewrite(&config(world), |data| {
        let text = String::from_utf8(data.clone()).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        *data = text.replace(from, to).into_bytes();
    });
}

/// The wrapped keys of a vault, each with its heading.
fn keys(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let keys = text.split("[[key]]").skip(1);
    keys.map(|key| format!("[[key]]{key}")).collect()
}

fn exchange_names(world: &World) {
    for (from, to) in [
        ("\"paper\"", "\"-\""),
        ("\"bob\"", "\"paper\""),
        ("\"-\"", "\"bob\""),
    ] {
        replace(world, from, to);
    }
}

const NOT_OWN: &str = "none of the vault's";

#[test]
fn on_a_closed_vault() {
    if !can_mount() {
        return;
    }
    let attacks = [
        attack(
            "other settings",
            |world| replace(world, "block_size = 4096", "block_size = 16384"),
            (3, "settings"),
            (3, "settings"),
        ),
        attack(
            "the settings of another vault",
            |world| {
                fs::copy(world.0.path("evil/warplock.vault"), config(world)).unwrap();
            },
            (3, "was altered"),
            (3, "was altered"),
        ),
        attack(
            "names of keys are exchanged",
            exchange_names,
            (3, "'bob'"),
            (0, "'bob'"),
        ),
        attack(
            "a key is dropped",
            |world| {
                let key = keys(&config(world)).remove(1);
                replace(world, &key, "");
            },
            (3, "list"),
            (0, "list"),
        ),
        attack(
            "keys are reordered",
            |world| {
                let keys = keys(&config(world));
                replace(world, &keys[1], "");
                replace(world, &keys[0], &format!("{}{}", keys[1], keys[0]));
            },
            (3, "list"),
            (0, "list"),
        ),
        attack(
            "another vault's key in front",
            |world| {
                let theirs = keys(&world.0.path("evil/warplock.vault")).remove(0);
                let first = keys(&config(world)).remove(0);
                replace(world, &first, &format!("{theirs}\n{first}"));
            },
            (3, "key"),
            (0, "key"),
        ),
        attack(
            "a fifo for the settings",
            |world| {
                remove(&config(world));
                plant(&config(world), Kind::Fifo);
            },
            (1, "not a regular file"),
            (1, "not a regular file"),
        ),
        attack(
            "a symlink for the settings",
            |world| {
                remove(&config(world));
                symlink("/etc/passwd", config(world)).unwrap();
            },
            (1, "not a regular file"),
            (1, "not a regular file"),
        ),
        attack(
            "settings without end",
            |world| {
                File::options()
                    .write(true)
                    .open(config(world))
                    .unwrap()
                    .set_len(1 << 40)
                    .unwrap()
            },
            (1, "bytes"),
            (1, "bytes"),
        ),
        attack(
            "the record of the topmost folder of another vault",
            |world| {
                let record = "warplock.dir";
                let theirs = world.0.path("evil").join(record);
                fs::copy(theirs, world.store().join(record)).unwrap();
            },
            (3, "warplock.dir"),
            (3, "warplock.dir"),
        ),
        attack(
            "a stray among lost things",
            |world| {
                fs::create_dir(world.store().join("warplock.lost")).unwrap();
                fs::write(world.store().join("warplock.lost/x"), "").unwrap();
            },
            (3, "no repair put this there"),
            (0, ""),
        ),
        attack(
            "a stray among journals",
            |world| {
                fs::create_dir(world.store().join("warplock.journal")).unwrap();
                fs::write(world.store().join("warplock.journal/x"), "").unwrap();
            },
            (3, ""),
            (0, "not closed properly"),
        ),
        attack(
            "a name that is half a journal's",
            |world| {
                fs::create_dir(world.store().join("warplock.journal")).unwrap();
                let name = "warplock.journal/+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a";
                fs::write(world.store().join(name), "").unwrap();
            },
            (3, ""),
            (0, "not closed properly"),
        ),
        attack(
            "a file for the folder of journals",
            |world| plant(&world.store().join("warplock.journal"), Kind::File),
            (3, "warplock.journal"),
            (3, "warplock.journal"),
        ),
        attack(
            "lost things are a symlink to elsewhere",
            |world| symlink(world.0.root(), world.store().join("warplock.lost")).unwrap(),
            (3, "warplock.lost"),
            (0, ""),
        ),
        attack(
            "a file under the name of new settings",
            |world| {
                fs::write(
                    world.store().join("warplock.vault.new.0123456789abcdef"),
                    "x",
                )
                .unwrap()
            },
            (3, NOT_OWN),
            (0, ""),
        ),
        attack(
            "a crash is pretended",
            |world| fs::create_dir(world.store().join("warplock.journal")).unwrap(),
            (0, ""),
            (0, "not closed properly"),
        ),
        Attack {
            name: "a crash is pretended, and a file is gone",
            attack: |world| {
                fs::create_dir(world.store().join("warplock.journal")).unwrap();
                let entries = fs::read_dir(world.store())
                    .unwrap()
                    .map(|it| it.unwrap().path());
                let file = entries
                    .filter(|it| it.is_file())
                    .find(|it| it.extension().is_none());
                remove(&file.unwrap());
            },
            with_memory: Outcome {
                check: (3, "/file was altered: it is missing"),
                mount: (0, "not closed properly"),
            },
            without: Some(Outcome {
                check: (0, ""),
                mount: (0, "unless the store was changed since"),
            }),
        },
        attack(
            "control characters in the name of a key",
            |world| replace(world, "\"bob\"", "\"b\u{9b}2J\""),
            (1, "one of its keys has no proper name"),
            (1, "one of its keys has no proper name"),
        ),
        Attack {
            name: "the whole vault as it was",
            attack: |world| world.copy("before", "store"),
            with_memory: Outcome {
                check: (3, "an old version"),
                mount: (0, "older copy"),
            },
            without: Some(told(0, "")),
        },
        Attack {
            name: "another vault in its place",
            attack: |world| world.copy("evil", "store"),
            with_memory: told(
                3,
                "is not the one that this machine used at this path before",
            ),
            without: Some(told(0, "")),
        },
    ];
    let world = owned();
    let mut problems = Vec::new();
    for attack in &attacks {
        for memory in [Memory::On, Memory::Off] {
            for state in ["store", "state"] {
                world.copy(&format!("{state} now"), state);
            }
            let start = Instant::now();
            if let Err(problem) = attack.judge(&world, memory) {
                problems.push(format!("{memory:?}: {}: {problem}", attack.name));
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{}", attack.name);
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let memory = Promise::Harmless;
    expect_listed("put all of the vault back as it was", memory).unwrap();
    expect_listed("put another vault in this one's place", memory).unwrap();
}

/// The name of a key decides which one is removed or changed.
#[test]
fn on_names_of_keys() {
    let world = owned();
    let key = |arguments: &[&str]| {
        let all = [&["vault", "key"], arguments, &["-i", "key.txt"]].concat();
        world.0.run(all)
    };
    exchange_names(&world);
    key(&["remove", "store", "bob"]).code(3);
    key(&["change", "store", "bob", "-R", "recipient.txt"]).code(3);
    for secret in ["key.txt", "paper.txt", "bob.txt"] {
        let check = ["vault", "check", "store", "-i", secret];
        assert_eq!(world.0.run(check).status().code(), Some(3), "{secret}");
    }
    // A key that was removed comes back with all of the old file: the document says so.
    world.copy("store now", "store");
    fs::copy(config(&world), world.0.path("removed")).unwrap();
    key(&["remove", "store", "bob"]).code(0);
    let bob = ["vault", "check", "store", "-i", "bob.txt"];
    world.0.run(bob).code(4);
    fs::copy(world.0.path("removed"), config(&world)).unwrap();
    world.0.run(bob).code(0);
    expect_listed("bring a removed wrapped key back", Promise::Passes("")).unwrap();
    assert!(DOCUMENT.contains("or an old `warplock.vault`, which remains valid"));
}

/// Readers of the settings do not keep their owner from changing keys, and learn no more than before.
#[test]
fn by_readers_of_the_settings() {
    let world = owned();
    fs::set_permissions(config(&world), Permissions::from_mode(0o600)).unwrap();
    let held = File::open(config(&world)).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockShared).unwrap();
    let start = Instant::now();
    let remove = ["vault", "key", "remove", "store", "bob", "-i", "key.txt"];
    world.0.run(remove).code(0);
    assert!(start.elapsed() < Duration::from_secs(10));
    let mode = fs::metadata(config(&world)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
