//! Files that others change below a mount.

use std::fs;
use std::sync::Arc;

use tempfile::TempDir;
use warplock_vault::fuse::{Mount, Options};
use warplock_vault::pass_through::PassThrough;

use crate::failing::end;
use crate::harness::{can_mount, limited};

/// A kernel that is to ask sees new contents whenever a file is opened, and new names at once.
#[test]
fn a_kernel_that_asks_sees_what_others_change() {
    limited(|| {
        if !can_mount() {
            return;
        }
        let (folder, point) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let below = folder.path().join("file");
        fs::write(&below, "content").unwrap();
        let files = Arc::new(PassThrough::open(folder.path()).unwrap());
        let options = Options {
            sole: false,
            ..Options::default()
        };
        let mount = Mount::new(files, point.path(), &options).unwrap();
        assert_eq!(fs::read(point.path().join("file")).unwrap(), b"content");
        fs::write(&below, "CONTENT").unwrap();
        assert_eq!(fs::read(point.path().join("file")).unwrap(), b"CONTENT");

        assert!(!point.path().join("new").exists());
        fs::write(folder.path().join("new"), "more").unwrap();
        assert_eq!(fs::read(point.path().join("new")).unwrap(), b"more");
        end(mount);
    });
}
