//! What a program in a mount can do to others there.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, fallocate, mkdirat, openat};

use super::world::World;
use crate::vault::can_mount;

const QUICK: Duration = Duration::from_secs(10);

/// Folders in each other, until one is refused: the mount goes on, and so does a check.
#[test]
fn folders_in_each_other() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    world.session(|point| {
        fs::write(point.join("file"), "content").unwrap();
        let mut at = openat(CWD, point, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let mut first = None;
        for depth in 0..3000 {
            if mkdirat(&at, "d", Mode::from_raw_mode(0o700)).is_err() {
                assert!(depth > 500);
                break;
            }
            let inner = openat(&at, "d", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
            first.get_or_insert_with(|| inner.try_clone().unwrap());
            at = inner;
        }
        // One far up, whose parents were closed meanwhile.
        mkdirat(first.unwrap(), "e", Mode::from_raw_mode(0o700)).unwrap();
        assert_eq!(fs::read(point.join("file")).unwrap(), b"content");
        let remove = std::process::Command::new("rm")
            .arg("-rf")
            .arg(point.join("d"))
            .status();
        assert!(remove.unwrap().success());
    });
    world.check(&[]).nothing();
}

/// Work that takes no longer than what there is to be done, whatever lengths a program asks for.
#[test]
fn lengths_without_end() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let start = Instant::now();
    world.session(|point| {
        let file = File::create(point.join("sparse")).unwrap();
        file.set_len(8 << 40).unwrap();
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, how, 4096, 7 << 40).unwrap();
        file.write_all_at(b"end", (8 << 40) - 3).unwrap();
        file.set_len(1).unwrap();
        let file = File::create(point.join("longer")).unwrap();
        file.set_len(8 << 40).unwrap();
        file.write_all_at(b"middle", 3 << 40).unwrap();
        let mut found = [0; 6];
        file.sync_all().unwrap();
        File::open(point.join("longer"))
            .unwrap()
            .read_exact_at(&mut found, 3 << 40)
            .unwrap();
        assert_eq!(&found, b"middle");
    });
    world.check(&[]).nothing();
    assert!(start.elapsed() < QUICK, "{:?}", start.elapsed());
}

/// Many handles of a long folder share its listing.
#[test]
fn many_handles_of_a_folder() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let mounted = world.mount(&[]);
    let folder = mounted.point.join("folder");
    fs::create_dir(&folder).unwrap();
    for number in 0..1000 {
        let name = format!("{number:0>100}");
        File::create(folder.join(name)).unwrap();
    }
    let resident = || {
        let status = fs::read_to_string(format!("/proc/{}/status", mounted.process())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let before = resident();
    let mut handles: Vec<_> = (0..300).map(|_| fs::read_dir(&folder).unwrap()).collect();
    for handle in &mut handles {
        handle.next().unwrap().unwrap();
    }
    let after = resident();
    assert!(
        after < before + (40 << 10),
        "{before} KiB, then {after} KiB"
    );
    drop(handles);
    mounted.end();
}

/// Names reach a terminal and the log as text only.
#[test]
fn names_with_control_characters() {
    if !can_mount() {
        return;
    }
    let world = World::new();
    let name = "a\u{9b}2J\u{1b}[2J\n\u{202e}b";
    let mut stored = None;
    world.session(|point| {
        fs::write(point.join(name), [7; 9000]).unwrap();
        stored = Some(super::places(point, &world.store())[name].clone());
    });
    super::world::rewrite(&world.store().join(stored.unwrap()), |data| data[5000] ^= 1);
    let said = world.session(|point| drop(fs::read(point.join(name))));
    let check = ["vault", "check", "store", "-i", "key.txt"];
    let text = world.0.run(check);
    let json = world.0.run([&check[..], &["--json"]].concat());
    for said in [said.as_bytes(), text.stdout(), json.stdout()] {
        let said = str::from_utf8(said).unwrap();
        assert!(said.contains("2J"), "{said}");
        let raw = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!said.contains(raw), "{said:?}");
    }
    assert_eq!(json.status().code(), Some(3));
}
