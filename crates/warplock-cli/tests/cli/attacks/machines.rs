//! Attacks with several machines, memories and copies of a store.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::places;
use super::world::{BLOCK, Kind, START, World, plant, remove};
use crate::vault::can_mount;

const A: [&str; 2] = ["--memory", "a"];
const B: [&str; 2] = ["--memory", "b"];

fn write(world: &World, memory: &[&str], content: &str) {
    let mounted = world.mount(memory);
    fs::write(mounted.point.join("file"), content).unwrap();
    mounted.end();
}

/// A machine knows what it only read, and what another one made.
#[test]
fn a_machine_that_only_reads() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    write(&world, &B, "first");
    world.copy("store", "first");
    write(&world, &B, "second");
    for _ in 0..2 {
        let mounted = world.mount(&[&A[..], &["--read-only"]].concat());
        assert_eq!(fs::read(mounted.point.join("file")).unwrap(), b"second");
        mounted.end();
    }
    world.copy("first", "store");
    let mounted = world.mount(&A);
    let read = fs::read(mounted.point.join("file"));
    assert_eq!(read.unwrap_err().raw_os_error(), Some(5));
    assert!(
        mounted
            .end()
            .contains("/file was altered: it is an old version")
    );
    world.check(&A).only(3, "altered", "/file");
}

/// A memory that begins on a vault with files calls none of them altered, and knows all after a
/// check.
#[test]
fn a_memory_that_begins_late() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    write(&world, &B, "first");
    world.copy("store", "first");
    write(&world, &B, "second");
    let said = world.mount(&A).end();
    assert!(said.contains("does not know this vault"), "{said}");
    world.check(&A).nothing();
    world.copy("first", "store");
    assert_eq!(world.check(&A).code, 3);
}

/// Two mounts of a machine do not share a vault, and two vaults may share a folder of memories.
#[test]
fn two_mounts_of_a_vault() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mounted = world.mount(&A);
    fs::create_dir(world.0.path("second")).unwrap();
    let mount = [
        "vault", "mount", "store", "second", "-i", "key.txt", "--memory", "a",
    ];
    world.0.run(mount).code(1).says("in use");
    mounted.end();
}

/// What stands in the place of a memory is not followed, waited for or trusted.
#[test]
fn a_memory_that_others_prepared() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let check = ["vault", "check", "store", "-i", "key.txt", "--memory", "a"];
    world.0.run(check).code(0);
    let id = fs::read_dir(world.0.path("a"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let id = id
        .into_iter()
        .find(|path| !path.ends_with("paths"))
        .unwrap();
    let files = fs::read_dir(&id)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let table = files
        .into_iter()
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let victim = world.0.path("victim");
    fs::write(&victim, "another's").unwrap();
    let kept = fs::read(&table).unwrap();
    for kind in [Kind::Fifo, Kind::Folder, Kind::Socket] {
        remove(&table);
        plant(&table, kind);
        world.0.run(check).code(1).says("--no-memory");
    }
    remove(&table);
    symlink(&victim, &table).unwrap();
    world.0.run(check).code(1);
    remove(&table);
    fs::write(&table, &kept[..kept.len() / 2]).unwrap();
    assert_ne!(world.0.run(check).status().code(), Some(0));
    fs::write(&table, &kept).unwrap();
    fs::set_permissions(&id, fs::Permissions::from_mode(0o777)).unwrap();
    world.0.run(check).code(1);
    fs::set_permissions(&id, fs::Permissions::from_mode(0o700)).unwrap();
    world.0.run(check).code(0);
    assert_eq!(fs::read(victim).unwrap(), b"another's");
}

/// A machine that is resumed twice from one snapshot seals with other nonces each time.
#[test]
fn a_machine_that_is_resumed_twice() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    write(&world, &[], "0123456789");
    for name in ["store", "state"] {
        world.copy(name, &format!("{name} then"));
    }
    let sealed = [(); 2].map(|()| {
        for name in ["store", "state"] {
            world.copy(&format!("{name} then"), name);
        }
        let mut stored = None;
        world.session(|point| {
            fs::write(point.join("file"), [7; BLOCK]).unwrap();
            stored = Some(places(point, &world.store())["file"].clone());
        });
        fs::read(world.store().join(stored.unwrap())).unwrap()[START..].to_vec()
    });
    assert_ne!(sealed[0], sealed[1]);
}

/// As `rsync -a` does: a file of the same length and second is not copied again.
fn sync(from: &Path, to: &Path) {
    let _ = fs::create_dir(to);
    for entry in fs::read_dir(to).unwrap().map(Result::unwrap) {
        if from.join(entry.file_name()).symlink_metadata().is_err() {
            remove(&entry.path());
        }
    }
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        let Ok(found) = old.symlink_metadata() else {
            continue;
        };
        if found.is_dir() {
            sync(&old, &new);
            continue;
        }
        let same = |it: fs::Metadata| (it.len(), it.mtime()) == (found.len(), found.mtime());
        if found.is_file() && !new.metadata().is_ok_and(same) {
            let Ok(data) = fs::read(&old) else {
                continue;
            };
            fs::write(&new, data).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(found.mtime() as u64);
            File::options()
                .write(true)
                .open(&new)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
    }
}

/// A copy that was begun while the vault was in use, and completed after it was closed, is the vault.
#[test]
fn copies_of_a_vault_in_use() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    world.session(|point| {
        for name in ["edited", "synced", "saved"] {
            fs::write(point.join(name), "version1").unwrap();
        }
    });
    let copy = world.0.path("copy");
    sync(&world.store(), &copy);
    let mounted = world.mount(&[]);
    for name in ["edited", "synced"] {
        let file = File::options()
            .write(true)
            .open(mounted.point.join(name))
            .unwrap();
        file.write_all_at(b"VERSION2", 0).unwrap();
        if name == "synced" {
            file.sync_all().unwrap();
        }
    }
    fs::write(mounted.point.join("new"), "VERSION2").unwrap();
    fs::rename(mounted.point.join("new"), mounted.point.join("saved")).unwrap();
    fs::write(mounted.point.join("made"), "VERSION2").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    sync(&world.store(), &copy);
    mounted.end();
    sync(&world.store(), &copy);
    world.copy("copy", "store");
    for options in [&[][..], &["--no-memory"]] {
        world.check(options).nothing();
    }
    let mounted = world.mount(&[]);
    for name in ["edited", "synced", "saved", "made"] {
        assert_eq!(
            fs::read(mounted.point.join(name)).unwrap(),
            b"VERSION2",
            "{name}"
        );
    }
    mounted.end();
}
