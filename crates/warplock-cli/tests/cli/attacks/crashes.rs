//! Attacks after a crash: what was synced is not taken back unnoticed.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::tree::Moment::{Lookup, Open, Read};
use super::world::{Attacker, BLOCK, Kind, LONG, START, World, copy, remove, rewrite};
use super::{Story, attack, bytes};
use crate::vault::can_mount;

const TAKEN_BACK: &str = "after a crash: take back what was synced, with or without its journal";
const OLD: &str = "an old version";

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// New content for some committed blocks of a file, which is synced: it stands in a journal.
fn overwrite(folder: &Path) {
    let file = File::options()
        .write(true)
        .open(folder.join("long"))
        .unwrap();
    file.write_all_at(&bytes("synced", 3 * BLOCK), BLOCK as u64)
        .unwrap();
    file.sync_all().unwrap();
}

fn append(folder: &Path) {
    let file = File::options()
        .write(true)
        .open(folder.join("long"))
        .unwrap();
    file.write_all_at(&bytes("more", 4 * BLOCK), LONG as u64)
        .unwrap();
    file.sync_all().unwrap();
}

fn save(folder: &Path) {
    fs::write(folder.join("new"), "saved").unwrap();
    sync(&folder.join("new"));
    fs::rename(folder.join("new"), folder.join("short")).unwrap();
    sync(folder);
}

fn make(folder: &Path) {
    fs::write(folder.join("made"), bytes("made", 9000)).unwrap();
    sync(&folder.join("made"));
    sync(folder);
}

/// The journal of a file of the vault.
fn journal(a: &Attacker<'_>, path: &str) -> PathBuf {
    let data = fs::read(a.at(path)).unwrap();
    let id: String = data[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    a.now.0.join("warplock.journal").join(id)
}

#[test]
fn of_what_was_synced() {
    if !can_mount() {
        return;
    }
    let attacks = [
        attack("nothing is attacked", |_| {}).second(overwrite),
        attack("a journal is removed", |a| remove(&journal(a, "long")))
            .second(overwrite)
            .noticed(Open, &["long"], OLD)
            .but_alone_passes(TAKEN_BACK),
        attack("a journal is cut", |a| {
            let file = File::options()
                .write(true)
                .open(journal(a, "long"))
                .unwrap();
            let len = file.metadata().unwrap().len();
            file.set_len(len - 1).unwrap();
        })
        .second(overwrite)
        .noticed(Open, &["long"], OLD)
        .but_alone_passes(TAKEN_BACK),
        attack("a bit of a journal is flipped", |a| {
            rewrite(&journal(a, "long"), |data| data[100] ^= 1);
        })
        .second(overwrite)
        .noticed(Open, &["long"], OLD)
        .but_alone_passes(TAKEN_BACK),
        attack("a journal is renamed", |a| {
            let at = journal(a, "long");
            let name = at.file_name().unwrap().to_str().unwrap().to_uppercase();
            fs::rename(&at, at.with_file_name(name)).unwrap();
        })
        .second(overwrite)
        .noticed(Open, &["long"], OLD)
        .but_alone_passes(TAKEN_BACK),
        attack("a fifo for a journal", |a| {
            a.plant(&journal(a, "long"), Kind::Fifo);
        })
        .second(overwrite)
        .noticed(Open, &["long"], "no regular file"),
        attack("what was appended is taken back", |a| {
            remove(&journal(a, "long"));
            a.put_back("long");
        })
        .second(append)
        .noticed(Open, &["long"], OLD)
        .but_alone_passes(TAKEN_BACK),
        attack("what was saved is taken back", |a| a.put_back("short"))
            .second(save)
            .noticed(Open, &["short"], "")
            .but_alone_passes(TAKEN_BACK),
        attack("what was made is removed", |a| a.remove("made"))
            .second(make)
            .noticed(Lookup, &["made"], "it is missing")
            .but_alone_passes(TAKEN_BACK),
        attack("what was made is emptied", |a| {
            a.edit("made", |data| {
                data.truncate(START);
                data[2048..].fill(0);
            });
        })
        .second(make)
        .noticed(Open, &["made"], "")
        .but_alone_passes(TAKEN_BACK),
        attack("a file that was not in use goes back", |a| {
            a.put_back("short")
        })
        .first(|folder| fs::write(folder.join("short"), "first").unwrap())
        .second(|folder| {
            fs::write(folder.join("short"), "second").unwrap();
            sync(&folder.join("short"));
        })
        .noticed(Open, &["short"], OLD)
        .but_alone_passes(TAKEN_BACK),
        attack("a file that was not changed is damaged", |a| {
            a.edit("s2", |data| data[START + 5] ^= 1);
        })
        .noticed(Read, &["s2"], "not the newest version"),
        attack("a file that was not changed is removed", |a| a.remove("s2"))
            .noticed(Lookup, &["s2"], "it is missing")
            .but_alone_passes(TAKEN_BACK),
    ];
    let story = Story::crashed(&attacks);
    for memory in [super::Memory::On, super::Memory::Off] {
        story.after_crash(memory);
    }
}

/// What is in a folder of journals or in a file that a repair does not see is not destroyed by it.
#[test]
fn a_file_that_is_hidden_while_a_repair_runs() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    world.session(|point| super::put(&point.join("long"), LONG));
    let places = {
        let mounted = world.mount(&[]);
        overwrite(&mounted.point);
        let places = super::places(&mounted.point, &world.store());
        mounted.crash();
        places
    };
    let (entry, hidden) = (world.store().join(&places["long"]), world.0.path("hidden"));
    fs::rename(&entry, &hidden).unwrap();
    let repaired = world.check(&["--repair"]);
    assert_eq!(repaired.code, 3, "{repaired:#?}");
    assert!(
        !repaired.problems("altered", "").is_empty(),
        "{repaired:#?}"
    );
    fs::rename(&hidden, &entry).unwrap();
    world.session(|point| {
        let found = fs::read(point.join("long")).unwrap();
        assert!(found[BLOCK..4 * BLOCK] == bytes("synced", 3 * BLOCK));
    });
    world.check(&[]).nothing();
}

/// A state of a branch that the owner left does not replace a newer one.
#[test]
fn a_journal_of_another_branch() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    world.session(|point| super::put(&point.join("long"), LONG));
    let mounted = world.mount(&[]);
    overwrite(&mounted.point);
    mounted.crash();
    // The attacker keeps what was synced, and the owner gets a copy without it, which is refused.
    world.copy("store", "branch");
    for entry in fs::read_dir(world.0.path("store/warplock.journal")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    let said = {
        let mounted = world.mount(&[]);
        let read = fs::read(mounted.point.join("long"));
        assert_eq!(read.unwrap_err().raw_os_error(), Some(5));
        mounted.end()
    };
    assert!(
        said.contains("/long was altered: it is an old version"),
        "{said}"
    );
    // The owner accepts it, and goes on.
    let accept = ["vault", "memory", "accept", "store", "-i", "key.txt"];
    world.0.run(accept).code(0);
    world.session(|point| {
        let file = File::options()
            .write(true)
            .open(point.join("long"))
            .unwrap();
        file.write_all_at(b"third", 0).unwrap();
        file.sync_all().unwrap();
    });
    world.copy("branch", "store");
    let mounted = world.mount(&[]);
    let read = fs::read(mounted.point.join("long"));
    assert_eq!(read.unwrap_err().raw_os_error(), Some(5));
    let said = mounted.end();
    assert!(said.contains("/long was altered"), "{said}");
    assert_eq!(world.check(&[]).code, 3);
}

/// A crash within seconds of a rename leaves both names in the header: at most one of them is right.
#[test]
fn both_names_of_a_rename() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mut before = None;
    world.session(|point| {
        fs::create_dir(point.join("sites")).unwrap();
        fs::write(point.join("sites/x"), "enabled").unwrap();
        fs::create_dir(point.join("off")).unwrap();
        before = Some(super::places(point, &world.store()));
    });
    let mounted = world.mount(&[]);
    fs::rename(mounted.point.join("sites/x"), mounted.point.join("off/x")).unwrap();
    sync(&mounted.point.join("off"));
    let after = super::places(&mounted.point, &world.store());
    mounted.crash();
    let (old, new) = (&before.unwrap()["sites/x"], &after["off/x"]);
    fs::hard_link(world.store().join(new), world.store().join(old)).unwrap();
    let checked = world.check(&[]);
    assert_eq!(checked.code, 3, "{checked:#?}");
    for _ in 0..2 {
        let mounted = world.mount(&[]);
        let read = ["sites/x", "off/x"].map(|path| fs::read(mounted.point.join(path)).is_ok());
        assert!(read != [true, true], "{}", mounted.said());
        assert!(mounted.end().contains("/x was altered"));
    }
    assert_eq!(world.check(&["--repair"]).code, 3);
}

/// One of two hard links becomes a file of its own, and a crash follows: nothing is mixed.
#[test]
fn parted_hard_links_in_use() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mut places = None;
    world.session(|point| {
        for name in ["one", "other"] {
            fs::create_dir(point.join(name)).unwrap();
        }
        super::put(&point.join("one/f"), LONG);
        fs::hard_link(point.join("one/f"), point.join("other/f")).unwrap();
        places = Some(super::places(point, &world.store()));
    });
    let places = places.unwrap();
    let [one, other] = ["one/f", "other/f"].map(|path| world.store().join(&places[path]));
    fs::remove_file(&other).unwrap();
    copy(&one, &other);
    let mounted = world.mount(&["--cache", "ask"]);
    let open = |path: &str| File::options().write(true).open(mounted.point.join(path));
    let write = |file: &File, at: u64| {
        file.write_all_at(&[7; BLOCK], at * BLOCK as u64)?;
        file.sync_all()
    };
    let first = open("one/f").unwrap();
    write(&first, 10).unwrap();
    assert_eq!(open("other/f").unwrap_err().raw_os_error(), Some(5));
    mounted.says("/f was altered");
    drop(first);
    mounted.crash();
    assert_eq!(world.check(&[]).code, 3);
    fs::remove_file(&other).unwrap();
    fs::hard_link(&one, &other).unwrap();
    world.session(|point| {
        let mut right = bytes(point.join("one/f").to_str().unwrap(), LONG);
        right[10 * BLOCK..11 * BLOCK].fill(7);
        for path in ["one/f", "other/f"] {
            assert!(fs::read(point.join(path)).unwrap() == right, "{path}");
        }
    });
    world.check(&[]).nothing();
}
