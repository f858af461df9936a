//! Attacks with objects that are planted in a store: in each other, by the thousand, from elsewhere.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use super::own::owned;
use super::world::{Detached, World, places};
use crate::vault::can_mount;

/// Folders in folders under the name of unfinished work end no stack, and nothing in them is lost.
#[test]
fn with_nested_folders() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mut stored = None;
    world.session(|point| {
        fs::create_dir(point.join("empty")).unwrap();
        stored = Some(places(point, &world.store())["empty"].clone());
    });
    // A disk takes minutes for that.
    let disk = "mv store disk; mkdir store; mount -t tmpfs tmpfs store; cp -a disk/. store/";
    world.0.shell(disk);
    let _disk = Detached(world.store());
    for path in [Path::new(""), &stored.unwrap()] {
        let mut at = openat(
            CWD,
            world.store().join(path),
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .unwrap();
        for _ in 0..20_000 {
            let name = "warplock.tmp.000000000000000000000000";
            mkdirat(&at, name, Mode::from_raw_mode(0o700)).unwrap();
            at = openat(&at, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        }
    }
    world.session(|point| fs::remove_dir(point.join("empty")).unwrap());
    let checked = world.check(&["--repair"]);
    assert_eq!(checked.code, 3, "{checked:#?}");
    world.check(&[]).only(0, "note", "warplock.lost");
}

/// An attacker who plants names by the thousand does not decide how much is said.
#[test]
fn with_thousands_of_names() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    for number in 0..3000 {
        let name = format!("AAAAAAAAAAAAAAAAAAAA{number:04}");
        fs::write(world.store().join(name), "").unwrap();
    }
    let said = world.session(|point| {
        for _ in 0..3 {
            assert_eq!(fs::read_dir(point).unwrap().count(), 0);
        }
    });
    let lines = said.lines().count();
    assert!((2..70).contains(&lines), "{lines} lines: {said}");
    assert!(said.contains("more sentences of the last minute"), "{said}");
}

/// Other files that are linked into the store stay as they are.
#[test]
fn with_files_from_elsewhere() {
    if !can_mount() {
        return;
    }
    let world = owned();
    let victim = world.0.path("victim");
    for name in [
        "warplock.dir.new",
        "warplock.vault.new",
        "warplock.vault.new.0123456789abcdef",
        "warplock.tmp.0123456789abcdef01234567",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.name",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        world.copy("store now", "store");
        fs::write(&victim, "another's").unwrap();
        fs::set_permissions(&victim, Permissions::from_mode(0o640)).unwrap();
        let linked = world.store().join(name);
        fs::hard_link(&victim, &linked).unwrap();
        world.session(|point| {
            let _ = fs::write(point.join("new"), "new");
            let _ = fs::read_dir(point).unwrap().count();
        });
        assert_eq!(world.check(&["--repair"]).code, 3, "{name}");
        let mode = fs::metadata(&victim).unwrap().permissions().mode();
        assert_eq!(
            (fs::read(&victim).unwrap(), mode & 0o777),
            (b"another's".to_vec(), 0o640)
        );
    }
}
