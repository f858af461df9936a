//! Mounts that others unmount.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;
use warplock_vault::fuse::{Mount, Options, unmount};
use warplock_vault::pass_through::PassThrough;
use warplock_vault::{Settings, Vault, init};

use crate::common::{Told, options, recipients};
use crate::failing::end;
use crate::harness::{can_mount, limited};

/// Even before it has answered the kernel for the first time: that is no failure, and the vault is
/// closed.
#[test]
fn however_soon() {
    limited(|| {
        if !can_mount() {
            return;
        }
        let folder = TempDir::new().unwrap();
        let (store, point) = (folder.path().join("store"), folder.path().join("point"));
        fs::create_dir(&store).unwrap();
        fs::create_dir(&point).unwrap();
        let key = init(&store, &Settings::default(), "test", &recipients()).unwrap();
        for _ in 0..20 {
            let vault = Vault::open(&store, &key, options(&Told::default())).unwrap();
            let other = thread::spawn({
                let (point, start) = (point.clone(), Instant::now());
                move || {
                    while unmount(&point, false).is_err() {
                        assert!(start.elapsed() < Duration::from_secs(30));
                    }
                }
            });
            let mount = Mount::new(Arc::new(vault), &point, &Options::default()).unwrap();
            mount.wait().unwrap();
            other.join().unwrap();
            assert!(!store.join("warplock.journal").exists());
        }
    });
}

fn files_with(name: &str) -> (TempDir, Arc<PassThrough>) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join(name), name).unwrap();
    let files = Arc::new(PassThrough::open(folder.path()).unwrap());
    (folder, files)
}

/// Of a mount that unmounts itself soon.
fn idle() -> Options {
    Options {
        idle: Some(Duration::from_millis(200)),
        ..Options::default()
    }
}

fn assert_second(point: &Path) {
    assert_eq!(fs::read(point.join("second")).unwrap(), b"second");
}

/// Mounts one, detaches it while a file of it is held, and mounts another at the same place.
fn mount_two(point: &Path, first: &Options) -> (Mount, File, Mount, [TempDir; 2]) {
    let (below, files) = files_with("first");
    let one = Mount::new(files, point, first).unwrap();
    let path = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::open(point.join("first"), path, Mode::empty()).unwrap();
    unmount(point, true).unwrap();
    let (below_other, files) = files_with("second");
    let other = Mount::new(files, point, &Options::default()).unwrap();
    (one, File::from(file), other, [below, below_other])
}

/// A mount that ends late leaves alone what is mounted in its place by then.
#[test]
fn another_mount_takes_the_place() {
    limited(|| {
        if !can_mount() {
            return;
        }
        let point = TempDir::new().unwrap();
        let (one, file, other, _below) = mount_two(point.path(), &Options::default());
        drop(file);
        one.wait().unwrap();
        assert_second(point.path());
        end(other);
    });
}

/// So does one that has been idle for long enough.
#[test]
fn another_mount_takes_the_place_of_an_idle_one() {
    limited(|| {
        if !can_mount() {
            return;
        }
        let point = TempDir::new().unwrap();
        let (one, file, other, _below) = mount_two(point.path(), &idle());
        thread::sleep(Duration::from_secs(1));
        assert_second(point.path());
        drop(file);
        one.wait().unwrap();
        assert_second(point.path());
        end(other);
    });
}

/// So does one that has ended, though its file system lives on: the next mount has the same number.
#[test]
fn another_mount_follows_an_idle_one() {
    limited(|| {
        if !can_mount() {
            return;
        }
        let point = TempDir::new().unwrap();
        let (_below, files) = files_with("first");
        let one = Mount::new(files.clone(), point.path(), &idle()).unwrap();
        let unmounter = one.unmounter();
        one.unmount().unwrap();
        let (_below_other, others) = files_with("second");
        let other = Mount::new(others, point.path(), &Options::default()).unwrap();
        thread::sleep(Duration::from_secs(1));
        unmounter.unmount(true).unwrap();
        assert_second(point.path());
        end(other);
    });
}
