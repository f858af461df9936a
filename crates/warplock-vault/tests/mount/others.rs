//! One program must not end or stop a mount for the others.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{Mode, OFlags};

use crate::harness::{Place, SUBJECTS, limited};
use crate::limits::on_disk;

/// Folders in each other, more than a recursion could pass.
#[test]
fn a_deep_tree() {
    const DEEP: usize = 10_000;
    limited(|| {
        let Some((_folder, _disk, place)) = on_disk("300m") else {
            return;
        };
        let standing = place.mount();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o755);
        let mut deepest = rustix::fs::open(standing.root(), flags, mode).unwrap();
        for _ in 0..DEEP {
            rustix::fs::mkdirat(&deepest, "d", mode).unwrap();
            deepest = rustix::fs::openat(&deepest, "d", flags, mode).unwrap();
        }
        // More than the vault keeps open, so that it has to find the deepest again.
        for number in 0..1100 {
            let other = standing.path(format!("other {number}"));
            fs::create_dir(&other).unwrap();
            assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
        }
        let file = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&deepest, "file", file, mode).unwrap();
        rustix::io::write(&file, b"content").unwrap();
        drop((file, deepest));
        fs::write(standing.path("file"), "content").unwrap();
        // Has the kernel forget the tree.
        rustix::fs::sync();
        let _ = fs::write("/proc/sys/vm/drop_caches", "2");
        assert_eq!(fs::read(standing.path("file")).unwrap(), b"content");
        standing.end();
    });
}

#[test]
fn open_folders_take_little_memory() {
    const NAMES: usize = 2000;
    const HANDLES: usize = 300;
    limited(|| {
        let Some((_folder, _disk, place)) = on_disk("300m") else {
            return;
        };
        let standing = place.mount();
        let many = standing.path("many");
        fs::create_dir(&many).unwrap();
        for number in 0..NAMES {
            File::create(many.join(format!("{number:0170}"))).unwrap();
        }
        let before = standing.memory().resident;
        let mut open = Vec::new();
        for _ in 0..HANDLES {
            let mut listing = fs::read_dir(&many).unwrap();
            listing.next().unwrap().unwrap();
            open.push(listing);
        }
        let grown = standing.memory().resident.saturating_sub(before);
        println!("{HANDLES} open folders: {} KiB more", grown >> 10);
        assert!(grown < 60 << 20, "{grown}");
        // Each goes on where it was, and shows each name once.
        let mut names: Vec<_> = open
            .pop()
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), NAMES - 1);
        // Different folders take no descriptor each, or else no file could be opened.
        open.clear();
        for number in 0..2000 {
            let path = standing.path(format!("folder {number}"));
            fs::create_dir(&path).unwrap();
            open.push(fs::read_dir(&path).unwrap());
        }
        let descriptors = format!("/proc/{}/fd", standing.process());
        let descriptors = fs::read_dir(descriptors).unwrap().count();
        assert!(descriptors < 1200, "{descriptors}");
        drop(open);
        standing.end();
    });
}

/// The kernel writes times of files when it syncs, also of such as have no name any more.
#[test]
fn what_was_removed_can_be_synced() {
    limited(|| {
        for subject in SUBJECTS {
            let Some(place) = Place::new(subject) else {
                return;
            };
            let standing = place.mount();
            let path = standing.path("file");
            fs::write(&path, "content").unwrap();
            let held = File::options()
                .read(true)
                .custom_flags(OFlags::PATH.bits().cast_signed())
                .open(&path)
                .unwrap();
            fs::remove_file(&path).unwrap();
            let root = File::open(standing.root()).unwrap();
            rustix::fs::syncfs(&root).unwrap();
            assert_eq!(held.metadata().unwrap().nlink(), 0, "{subject:?}");
            drop((held, root));
            standing.end();
        }
    });
}

/// Content that another user has changed must not run as the owner.
#[test]
fn writing_takes_setuid_off() {
    limited(|| {
        for subject in SUBJECTS {
            let Some(place) = Place::new(subject) else {
                return;
            };
            let folder = place.point.parent().unwrap();
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
            let standing = place.mount();
            fs::set_permissions(standing.root(), Permissions::from_mode(0o777)).unwrap();
            let path = standing.path("program");
            fs::write(&path, [7; 5000]).unwrap();
            for change in [
                "printf x >> program",
                "printf x | dd of=program conv=notrunc status=none",
                "dd if=/dev/zero of=program bs=4096 count=1 conv=notrunc oflag=direct status=none",
                "fallocate -l 9000 program",
                "fallocate -p -l 4096 program",
                "truncate -s 3000 program",
                ": > program",
            ] {
                let shown = || fs::metadata(&path).unwrap().mode() & 0o7777;
                fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
                assert_eq!(shown(), 0o6777);
                let mut shell = Command::new("sh");
                shell.args(["-c", change]).current_dir(standing.root());
                assert!(shell.uid(65_534).gid(65_534).status().unwrap().success());
                assert_eq!(shown(), 0o777, "{subject:?}: {change}: what is shown");
                let stored = place
                    .stored()
                    .into_iter()
                    .map(|path| path.metadata().unwrap());
                let mut stored = stored.filter(|found| found.is_file());
                assert!(stored.all(|found| found.mode() & 0o6000 == 0), "{change}");
            }
            standing.end();
        }
    });
}
