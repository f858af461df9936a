//! When files changed, as programs see it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::XattrFlags;

use crate::harness::{Place, Subject, limited};

/// Backup programs read a file again if its ctime has moved.
#[test]
fn the_time_of_a_change_is_not_that_of_its_commit() {
    limited(|| {
        let Some(place) = Place::new(Subject::Vault(4096)) else {
            return;
        };
        let changes: [fn(&Path); 7] = [
            |path| fs::write(path, "content").unwrap(),
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap(),
            |path| fs::hard_link(path, path.with_extension("link")).unwrap(),
            |path| {
                fs::rename(path, path.with_extension("new")).unwrap();
                fs::rename(path.with_extension("new"), path).unwrap();
            },
            |path| fs::remove_file(path.with_extension("link")).unwrap(),
            |path| rustix::fs::setxattr(path, "user.a", b"1", XattrFlags::empty()).unwrap(),
            |path| {
                File::options()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .set_len(3)
                    .unwrap()
            },
        ];
        let time = |path: &Path| {
            let found = fs::metadata(path).unwrap();
            (found.ctime(), found.ctime_nsec())
        };
        for change in changes {
            let standing = place.mount();
            let path = standing.path("file");
            let before = path.exists().then(|| time(&path));
            change(&path);
            let after = time(&path);
            assert!(before.is_none_or(|before| after > before));
            // Later than what the store's clock tells apart.
            std::thread::sleep(Duration::from_millis(20));
            standing.end();
            let standing = place.mount();
            assert_eq!(time(&standing.path("file")), after);
            standing.end();
        }
    });
}

/// The kernel sends pages after it has said when they were changed, if the file is renamed meanwhile or
/// its clock has not moved on: the time at which they arrive is not that of the change.
#[test]
fn a_time_of_modification_is_not_that_of_writing_back() {
    limited(|| {
        let Some(place) = Place::new(Subject::Vault(4096)) else {
            return;
        };
        type Change = fn(&Path);
        let changes: [Change; 3] = [
            |path| {
                let mut file = File::create(path.with_extension("new")).unwrap();
                file.write_all(b"saved by rename").unwrap();
                fs::rename(path.with_extension("new"), path).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            },
            |path| {
                let mut file = File::options().append(true).open(path).unwrap();
                file.write_all(b"more").unwrap();
                fs::hard_link(path, path.with_extension("link")).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            },
            |path| {
                let file = File::options().write(true).open(path).unwrap();
                for round in 0..50 {
                    file.write_all_at(b"a database", round).unwrap();
                    file.sync_data().unwrap();
                }
            },
        ];
        for change in changes {
            let standing = place.mount();
            let path = standing.path("file");
            change(&path);
            let shown = fs::metadata(&path).unwrap().modified().unwrap();
            standing.end();
            let standing = place.mount();
            let later = fs::metadata(standing.path("file")).unwrap();
            assert_eq!(later.modified().unwrap(), shown);
            standing.end();
        }
    });
}
