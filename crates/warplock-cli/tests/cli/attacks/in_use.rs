//! Attacks on what a program is using through a mount, and on the mount itself.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::world::{Detached, World, copy, remove};
use super::{Kept, places};
use crate::vault::can_mount;

fn refused<T>(result: io::Result<T>) {
    assert_eq!(result.err().and_then(|error| error.raw_os_error()), Some(5));
}

/// Two folders change places below the mount: nothing is read from, written to or removed from the
/// wrong one.
#[test]
fn folders_are_exchanged() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    for (cache, asks) in [("ask", true), ("keep", false)] {
        let mounted = world.mount(&["--cache", cache]);
        let path = |name: &str| mounted.point.join(name);
        let folders = ["private", "published"];
        for name in folders {
            let _ = fs::create_dir(path(name));
            fs::write(path(name).join("x"), name).unwrap();
            assert_eq!(fs::read(path(name).join("x")).unwrap(), name.as_bytes());
        }
        let stored = places(&mounted.point, &world.store());
        let [one, other] = folders.map(|name| world.store().join(&stored[name]));
        let exchange = || {
            renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            if asks {
                std::thread::sleep(Duration::from_millis(1200));
            }
        };
        exchange();
        for name in folders {
            let at = path(name);
            if asks {
                refused(fs::read(at.join("x")));
                refused(fs::write(at.join("secret"), "secret"));
                refused(fs::create_dir(at.join("folder")));
                refused(fs::remove_file(at.join("x")));
                refused(fs::rename(&at, path("elsewhere")));
                refused(fs::read_dir(&at));
            } else {
                // The kernel goes on with the folder that it knows.
                let _ = fs::write(at.join("secret"), format!("secret of {name}"));
            }
        }
        exchange();
        for name in folders {
            assert_eq!(fs::read(path(name).join("x")).unwrap(), name.as_bytes());
            let secret = fs::read(path(name).join("secret"));
            let right = format!("secret of {name}");
            assert!(secret.is_err() || secret.unwrap() == right.as_bytes());
        }
        let said = mounted.end();
        assert!(!asks || said.contains("/private was altered"), "{said}");
        world.check(&[]).nothing();
    }
}

/// What a program saves over is not made again if it was spoilt, and its other names are not parted.
#[test]
fn a_spoilt_file_is_saved_over() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mut stored = None;
    world.session(|point| {
        for name in ["emptied", "zeroed", "linked"] {
            fs::write(point.join(name), [7; 9000]).unwrap();
        }
        stored = Some(places(point, &world.store()));
    });
    let stored = stored.unwrap();
    let at = |name: &str| world.store().join(&stored[name]);
    File::create(at("emptied")).unwrap();
    let zeros = File::options().write(true).open(at("zeroed")).unwrap();
    zeros.write_all_at(&[0; 4096], 0).unwrap();
    // Of a file from elsewhere nothing is overwritten, either.
    let outside = world.0.path("outside");
    fs::write(&outside, "another's").unwrap();
    remove(&at("linked"));
    fs::hard_link(&outside, at("linked")).unwrap();
    let before = Kept::of(&world.store());
    let mounted = world.mount(&[]);
    for name in ["emptied", "zeroed", "linked"] {
        refused(fs::write(mounted.point.join(name), "new"));
        mounted.says(&format!("/{name} was altered"));
    }
    mounted.end();
    assert_eq!(before.lost(&world.store()), None);
}

/// A link that was planted where its own file is to be put: a rename does not say that it was done.
#[test]
fn a_rename_onto_a_planted_link() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mut before = None;
    world.session(|point| {
        for name in ["file", "free", "taken"] {
            fs::write(point.join(name), name).unwrap();
        }
        before = Some(places(point, &world.store()));
    });
    world.session(|point| fs::remove_file(point.join("free")).unwrap());
    let stored = before.unwrap();
    let at = |name: &str| world.store().join(&stored[name]);
    for name in ["free", "taken"] {
        remove(&at(name));
        fs::hard_link(at("file"), at(name)).unwrap();
        let mounted = world.mount(&["--cache", "ask"]);
        let path = |name: &str| mounted.point.join(name);
        refused(fs::rename(path("file"), path(name)));
        mounted.says("was altered");
        mounted.end();
        remove(&at(name));
    }
}

/// A second link to a file of the store, wherever it is, is no reason for an alarm when the file is
/// removed.
#[test]
fn a_file_is_removed_that_has_another_link() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mut stored = None;
    world.session(|point| {
        fs::write(point.join("file"), "content").unwrap();
        stored = Some(places(point, &world.store()));
    });
    let entry = world.store().join(&stored.unwrap()["file"]);
    fs::hard_link(entry, world.0.path("snapshot")).unwrap();
    let said = world.session(|point| fs::remove_file(point.join("file")).unwrap());
    assert_eq!(said, "");
    world.check(&[]).nothing();
}

/// The store's journals are taken away while a program syncs: it hears of it, or its data is there.
#[test]
fn journals_are_exchanged() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    world.session(|point| fs::write(point.join("file"), [1; 50_000]).unwrap());
    let mounted = world.mount(&[]);
    let file = File::options()
        .write(true)
        .open(mounted.point.join("file"))
        .unwrap();
    let journals = world.store().join("warplock.journal");
    fs::rename(&journals, world.0.path("aside")).unwrap();
    fs::create_dir(&journals).unwrap();
    file.write_all_at(&[2; 8192], 4096).unwrap();
    let synced = file.sync_all().is_ok();
    drop(file);
    mounted.crash();
    let mounted = world.mount(&[]);
    let read = fs::read(mounted.point.join("file"));
    let new = read
        .as_ref()
        .is_ok_and(|read| read[4096..12288] == [2; 8192]);
    assert!(
        new || !synced || read.is_err(),
        "what was synced is gone, and nothing says so"
    );
    mounted.end();
}

/// Two objects of the store have one inode number, as on two volumes.
#[test]
fn two_volumes_in_the_store() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mut stored = None;
    world.session(|point| {
        for name in ["one", "other"] {
            fs::create_dir(point.join(name)).unwrap();
            fs::write(point.join(name).join("file"), name).unwrap();
        }
        stored = Some(places(point, &world.store()));
    });
    let stored = stored.unwrap();
    let mut volumes = Vec::new();
    for name in ["one", "other"] {
        let (at, aside) = (world.store().join(&stored[name]), world.0.path("aside"));
        remove(&aside);
        copy(&at, &aside);
        let (at, aside) = (at.display(), aside.display());
        world.0.shell(&format!(
            "mount -t tmpfs tmpfs '{at}'; cp -a '{aside}/.' '{at}/'"
        ));
        volumes.push(Detached(world.store().join(&stored[name])));
    }
    world.session(|point| {
        for name in ["one", "other"] {
            assert_eq!(
                fs::read(point.join(name).join("file")).unwrap(),
                name.as_bytes()
            );
        }
    });
    world.check(&[]).nothing();
}

/// The disk with the machine's memory is filled by another program: nothing is changed that the memory
/// could not note, and unmounting does not say that all is well.
#[test]
fn the_disk_of_the_memory_is_full() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    world
        .0
        .shell("mkdir memory; mount -t tmpfs -o size=3m tmpfs memory");
    let _disk = Detached(world.0.path("memory"));
    let memory = ["--memory", "memory"];
    let mounted = world.mount(&memory);
    fs::write(mounted.point.join("file"), "old").unwrap();
    mounted.end();
    world.copy("store", "before");
    let mounted = world.mount(&memory);
    world
        .0
        .shell("! dd if=/dev/zero of=memory/filler bs=4k status=none 2> /dev/null");
    let file = mounted.point.join("file");
    let mut wrote = true;
    let start = Instant::now();
    for round in 0..200 {
        let name = mounted.point.join(format!("file {round}"));
        wrote = fs::write(&name, [7; 5000]).is_ok()
            && File::open(&name).and_then(|file| file.sync_all()).is_ok();
        if !wrote || start.elapsed() > Duration::from_secs(10) {
            break;
        }
    }
    let wrote = wrote
        && fs::write(&file, "new").is_ok()
        && File::open(&file).and_then(|file| file.sync_all()).is_ok();
    drop(mounted);
    fs::remove_file(world.0.path("memory/filler")).unwrap();
    if wrote {
        // It found room, so it knows.
        world.copy("before", "store");
        assert_eq!(world.check(&memory).code, 3);
    } else {
        assert!(world.store().join("warplock.journal").exists());
    }
}
