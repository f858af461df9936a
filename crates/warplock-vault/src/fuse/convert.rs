//! Conversions between the types of [`crate::fs`] and those of the FUSE crate.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo, TimeOrNow};
use rustix::fs::FileType;

use crate::fs::{Attributes, Errno, SetTime};

pub(super) fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

pub(super) fn file_type(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::RegularFile | FileType::Unknown => fuser::FileType::RegularFile,
    }
}

pub(super) fn attributes(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.node),
        size: attributes.size,
        blocks: attributes.blocks,
        atime: attributes.accessed,
        mtime: attributes.modified,
        ctime: attributes.changed,
        crtime: UNIX_EPOCH,
        kind: file_type(FileType::from_raw_mode(attributes.mode)),
        perm: (attributes.mode & 0o7777) as u16,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        // Linux's 32-bit form agrees with the low half of its 64-bit form.
        rdev: attributes.device as u32,
        blksize: attributes.block_size,
        flags: 0,
    }
}

pub(super) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(repaired(time)),
    }
}

/// fuser takes a time before 1970, whole seconds (negative) and nanoseconds (positive), for their
/// difference; it is their sum.
fn repaired(time: SystemTime) -> SystemTime {
    match UNIX_EPOCH.duration_since(time) {
        Ok(before) => {
            UNIX_EPOCH - Duration::from_secs(before.as_secs())
                + Duration::from_nanos(before.subsec_nanos().into())
        }
        Err(_) => time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_repaired() {
        // -2 s + 0.25 s, as fuser passes it.
        let given = UNIX_EPOCH - Duration::new(2, 250_000_000);
        let meant = UNIX_EPOCH - Duration::new(1, 750_000_000);
        assert_eq!(repaired(given), meant);
        let later = UNIX_EPOCH + Duration::new(2, 250_000_000);
        assert_eq!(repaired(later), later);
    }
}
