//! When files changed, as programs see it.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
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
