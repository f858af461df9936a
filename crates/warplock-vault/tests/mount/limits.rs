//! Full disks, and such that can only be read.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use warplock_vault::fs::FileSystem;
use warplock_vault::{Settings, Vault, init};

use crate::common::{Short, Told, options, recipients};
use crate::harness::{Place, Random, Subject, can_mount, limited};

/// A small file system in memory, gone with this value.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(crate) fn new(path: PathBuf, size: &str) -> Self {
        fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={size}"))
            .arg("warplock-test")
            .arg(&path)
            .status()
            .unwrap();
        assert!(mounted.success());
        SmallDisk(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn remount(&self, how: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{how}")]).arg(&self.0);
        assert!(mount.status().unwrap().success(), "remount,{how}");
    }

    /// Takes it out of the tree, whoever uses it.
    pub(crate) fn unplug(&self) {
        let _ = warplock_vault::fuse::unmount(&self.0, true);
    }
}

/// A vault on a disk of 8 MiB; see [`on_disk`].
pub(crate) fn on_small_disk() -> Option<(TempDir, SmallDisk, Place)> {
    on_disk("8m")
}

/// A vault on a disk of this size, and the folder that holds both; `None` where nothing can be
/// mounted. To be dropped from the last to the first.
pub(crate) fn on_disk(size: &str) -> Option<(TempDir, SmallDisk, Place)> {
    if !can_mount() {
        return None;
    }
    let folder = TempDir::new().unwrap();
    let disk = SmallDisk::new(folder.path().join("disk"), size);
    let store = disk.path().join("store");
    fs::create_dir(&store).unwrap();
    let place = Place::at(Subject::Vault(4096), store, folder.path().join("mount"));
    Some((folder, disk, place))
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.unplug();
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_synced() {
    limited(|| {
        let Some((_folder, _disk, place)) = on_small_disk() else {
            return;
        };
        let content = Random::new(3).bytes(1 << 20);
        let standing = place.mount();
        let mut written = 0;
        // Until there is no more room.
        loop {
            let synced = File::create(standing.path(format!("file {written}")))
                .and_then(|mut file| file.write_all(&content).and_then(|()| file.sync_all()));
            match synced {
                Ok(()) => written += 1,
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
                    break;
                }
            }
            assert!(written < 20);
        }
        assert!(written >= 4, "{written}");
        standing.end();
        let standing = place.mount();
        for number in 0..written {
            let found = fs::read(standing.path(format!("file {number}"))).unwrap();
            assert!(found == content, "file {number}");
        }
        // Room again: all goes on.
        fs::remove_file(standing.path("file 0")).unwrap();
        let _ = fs::remove_file(standing.path(format!("file {written}")));
        fs::write(standing.path("small"), &content[..1000]).unwrap();
        File::open(standing.path("small"))
            .unwrap()
            .sync_all()
            .unwrap();
        standing.end();
        let standing = place.mount();
        assert_eq!(fs::read(standing.path("small")).unwrap(), &content[..1000]);
        standing.end();
    });
}

/// What was left unclean can be read there, too.
#[test]
fn a_read_only_disk_is_mounted_for_reading() {
    limited(|| {
        let Some((_folder, disk, place)) = on_small_disk() else {
            return;
        };
        let content = Random::new(4).bytes(100_000);
        let standing = place.mount();
        let mut file = File::create(standing.path("file")).unwrap();
        file.write_all(&content).unwrap();
        file.sync_all().unwrap();
        standing.kill();
        drop(file);
        let _ = warplock_vault::fuse::unmount(&place.point, true);
        let before = place.stored();

        disk.remount("ro");
        let standing = place.mount();
        assert!(fs::read(standing.path("file")).unwrap() == content);
        let errors = [
            File::create(standing.path("new")).unwrap_err(),
            fs::create_dir(standing.path("new")).unwrap_err(),
            fs::remove_file(standing.path("file")).unwrap_err(),
            fs::rename(standing.path("file"), standing.path("new")).unwrap_err(),
            fs::write(standing.path("file"), "other").unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        }
        standing.end();
        assert_eq!(place.stored(), before);

        disk.remount("rw");
        let standing = place.mount();
        assert!(fs::read(standing.path("file")).unwrap() == content);
        fs::write(standing.path("file"), "other").unwrap();
        standing.end();
    });
}

/// What was accepted before the disk was full has room for all that it needs.
#[test]
fn a_full_disk_keeps_what_it_accepted() {
    if !can_mount() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let disk = SmallDisk::new(folder.path().join("disk"), "40m");
    let key = init(disk.path(), &Settings::default(), "test", &recipients()).unwrap();
    let vault = Vault::open(disk.path(), &key, options(&Told::default())).unwrap();
    let file = vault.new_file("file");
    let data = Random::new(6).bytes(1 << 20);
    let mut written = 0;
    for piece in [1 << 20, 64 << 10, 4 << 10] {
        let error = loop {
            match vault.write(&file, written as u64, &data[..piece], false) {
                Ok(()) => written += piece,
                Err(error) => break error,
            }
        };
        assert_eq!(error, rustix::io::Errno::NOSPC);
    }
    assert!(written > 35 << 20, "{written}");
    vault.tick().unwrap();
    drop(file);
    vault.close().unwrap();
    drop(vault);
    let vault = Vault::open(disk.path(), &key, options(&Told::default())).unwrap();
    let found = vault.get("file").unwrap();
    assert_eq!(found.len(), written);
    assert!(found[..1 << 20] == data && found[written - 4096..] == data[..4096]);
}

/// Writes until there is an error, which must be that there is no room; how much was written.
#[track_caller]
fn fill(file: &mut File, most: usize) -> usize {
    let data = Random::new(5).bytes(1 << 20);
    let mut written = 0;
    loop {
        match file.write(&data) {
            Ok(len) => written += len,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
                return written;
            }
        }
        assert!(written < most, "{written} bytes are written");
    }
}

/// Programs hear that the disk is full when they write, not only those that sync.
#[test]
fn a_full_disk_is_told_at_write() {
    limited(|| {
        let Some((_folder, _disk, place)) = on_disk("80m") else {
            return;
        };
        let standing = place.mount();
        fs::write(standing.path("large"), "x").unwrap();
        for opened in [
            File::create(standing.path("large")),
            File::create_new(standing.path("new")),
            File::options()
                .read(true)
                .write(true)
                .open(standing.path("large")),
        ] {
            let mut file = opened.unwrap();
            let written = fill(&mut file, 90 << 20);
            assert!(written > 70 << 20, "{written}");
            // What is there is no less than what was accepted, and can be read.
            assert!(file.metadata().unwrap().len() >= written as u64);
            file.set_len(0).unwrap();
            let _ = file.sync_all();
            file.write_all(b"there is room again").unwrap();
        }
        fs::remove_file(standing.path("large")).unwrap();

        // It can be mapped, too.
        let file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(standing.path("mapped"))
            .unwrap();
        file.set_len(8192).unwrap();
        // SAFETY: the mapping is of the length of the file, and no other is made at its address.
        unsafe {
            use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let mapped = mmap(
                std::ptr::null_mut(),
                8192,
                protection,
                MapFlags::SHARED,
                &file,
                0,
            );
            let mapped = mapped.unwrap().cast::<u8>();
            *mapped.add(5000) = 7;
            munmap(mapped.cast(), 8192).unwrap();
        }
        file.sync_all().unwrap();
        assert_eq!(fs::read(standing.path("mapped")).unwrap()[5000], 7);
        drop(file);
        standing.end();
    });
}

/// A file that was opened while there was much room; the kernel may accept what it keeps of a mount.
#[test]
fn a_disk_that_becomes_full_is_told_at_write() {
    limited(|| {
        let Some((_folder, disk, place)) = on_disk("3g") else {
            return;
        };
        let standing = place.mount();
        let mut file = File::create(standing.path("large")).unwrap();
        file.write_all(b"x").unwrap();
        disk.remount("size=60m");
        fill(&mut file, 1 << 30);
        drop(file);
        fs::remove_file(standing.path("large")).unwrap();
        standing.end();
    });
}

/// Whatever room there is.
#[test]
fn a_write_moves_the_time_of_modification() {
    limited(|| {
        for size in ["40m", "2g"] {
            let Some((_folder, _disk, place)) = on_disk(size) else {
                return;
            };
            let standing = place.mount();
            let path = standing.path("file");
            let modified = || fs::metadata(&path).unwrap().modified().unwrap();
            let mut file = File::create(&path).unwrap();
            let mut last = modified();
            for _ in 0..3 {
                std::thread::sleep(std::time::Duration::from_millis(20));
                file.write_all(b"written").unwrap();
                let now = modified();
                assert!(now > last, "{size}: the time stays");
                last = now;
            }
            drop(file);
            assert_eq!(modified(), last, "{size}: closed");
            standing.end();
            let standing = place.mount();
            assert_eq!(modified(), last, "{size}: mounted again");
            standing.end();
        }
    });
}
