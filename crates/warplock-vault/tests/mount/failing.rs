//! The store fails below a mount, or goes away.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tempfile::TempDir;
use warplock_vault::fuse::{Mount, Options, unmount};
use warplock_vault::{Settings, Vault};

use crate::common::{Told, new_vault, open, options, recipients};
use crate::harness::{Place, Subject, can_mount, limited};
use crate::limits::on_small_disk;

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap()
}

/// Unmounts. Another test's process may hold our files for the moment of its start.
pub(crate) fn end(mount: Mount) {
    let start = Instant::now();
    while unmount(mount.point(), false).is_err() {
        assert!(start.elapsed() < Duration::from_secs(10), "busy");
        thread::sleep(Duration::from_millis(3));
    }
    mount.wait().unwrap();
}

/// Every change of the store fails: programs hear of it, what is there can be read, and nothing is
/// lost once the store works again.
#[test]
fn errors_from_below_reach_programs() {
    limited(|| {
        if !can_mount() {
            return;
        }
        for wanted in [Errno::IO, Errno::DQUOT] {
            let (mem, key) = new_vault(&Settings::default());
            let point = TempDir::new().unwrap();
            let vault = Arc::new(open(mem.clone(), &key));
            let mount = Mount::new(vault, point.path(), &Options::default()).unwrap();
            let (old, new) = (point.path().join("old"), point.path().join("new"));
            let data = vec![7; 300_000];
            fs::write(&old, &data).unwrap();
            let file = File::options().read(true).write(true).open(&old).unwrap();
            file.sync_all().unwrap();

            mem.disk().fault = Some((0, wanted));
            let refused = [
                fs::create_dir(&new).unwrap_err(),
                File::create(&new).unwrap_err(),
                fs::remove_file(&old).unwrap_err(),
                fs::rename(&old, &new).unwrap_err(),
            ];
            assert!(
                refused.iter().all(|error| errno(error) == wanted),
                "{refused:?}"
            );
            // The kernel takes the write and hears later that it failed.
            file.write_all_at(&[8; 10_000], 4096).unwrap();
            assert_eq!(errno(&file.sync_all().unwrap_err()), wanted);
            mem.disk().fault = None;

            file.write_all_at(&[9; 10_000], 4096).unwrap();
            file.sync_all().unwrap();
            drop(file);
            fs::create_dir(&new).unwrap();
            end(mount);

            let vault = Arc::new(open(mem, &key));
            let mount = Mount::new(vault, point.path(), &Options::default()).unwrap();
            let mut expected = data;
            expected[4096..][..10_000].fill(9);
            assert!(fs::read(&old).unwrap() == expected);
            end(mount);
        }
    });
}

/// The store's file system is taken out of the tree: the mount goes on with what it holds, as
/// programs with open files do, and ends well.
#[test]
fn a_store_that_is_unplugged() {
    limited(|| {
        let Some((_folder, disk, place)) = on_small_disk() else {
            return;
        };
        let standing = place.mount();
        fs::write(standing.path("file"), "content").unwrap();
        disk.unplug();
        assert!(!place.store.exists());
        assert_eq!(fs::read(standing.path("file")).unwrap(), b"content");
        fs::write(standing.path("other"), "more").unwrap();
        File::open(standing.path("other"))
            .unwrap()
            .sync_all()
            .unwrap();
        standing.end();
    });
}

/// The store is removed below the mount: open files are as they were, all else is an error.
#[test]
fn a_store_that_is_removed() {
    limited(|| {
        let Some(place) = Place::new(Subject::Vault(4096)) else {
            return;
        };
        let standing = place.mount();
        fs::create_dir(standing.path("folder")).unwrap();
        fs::write(standing.path("folder/closed"), "content").unwrap();
        fs::write(standing.path("open"), "content").unwrap();
        let mut file = File::open(standing.path("open")).unwrap();
        fs::remove_dir_all(&place.store).unwrap();

        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
        drop(file);
        let error = fs::write(standing.path("new"), "content").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(fs::read(standing.path("folder/new")).is_err());
        assert!(fs::create_dir(standing.path("folder/new")).is_err());
        standing.end();
    });
}

/// Else the next mount would say that the vault was not closed.
#[test]
fn a_mount_that_fails_closes_the_vault() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let key = warplock_vault::init(&store, &Settings::default(), "test", &recipients()).unwrap();
    let vault = Vault::open(&store, &key, options(&Told::default())).unwrap();
    assert!(store.join("warplock.journal").exists());
    let missing = dir.path().join("missing");
    let mounted = Mount::new(Arc::new(vault), &missing, &Options::default());
    assert!(mounted.is_err());
    assert!(!store.join("warplock.journal").exists());
}
