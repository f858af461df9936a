//! What the program asks of a Unix.

mod descriptor;
pub(crate) mod signals;
pub(crate) mod startup;

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};

pub(crate) use self::descriptor::Descriptor;
use super::Kind;

/// No core dump shall hold keys. Where the system refuses, there is nothing better to do.
pub(crate) fn forbid_core_dumps() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    #[cfg(not(target_os = "linux"))]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        let _ = setrlimit(Resource::Core, none);
    }
}

/// Standard input, without the buffer that it has in Rust.
pub(crate) fn stdin() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Standard output, without the buffer that it has in Rust.
pub(crate) fn stdout() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Whether standard output is a file or a pipe, and not a terminal or /dev/null.
pub(crate) fn stdout_is_read() -> bool {
    let kind = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode);
    !startup::was_closed(1)
        && matches!(
            fstat(io::stdout()).map(kind),
            Ok(FileType::RegularFile | FileType::Fifo | FileType::Socket)
        )
}

/// What an open file is.
pub(crate) fn kind(file: &File) -> io::Result<Kind> {
    let metadata = file.metadata()?;
    Ok(match metadata.file_type() {
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_file() => Kind::Regular {
            len: metadata.len(),
        },
        kind if kind.is_block_device() => Kind::BlockDevice,
        _ => Kind::Stream,
    })
}

/// Whether nothing can be written to an open file.
pub(crate) fn is_read_only(file: &File) -> io::Result<bool> {
    Ok(fcntl_getfl(file)? & OFlags::RWMODE == OFlags::RDONLY)
}

/// Brings what was written to the disk; pipes, terminals and most devices have nothing to wait for.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Where bytes lie that writing would destroy.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    File {
        device: u64,
        inode: u64,
    },
    /// A device may have several nodes, whose own inodes say nothing.
    BlockDevice {
        number: u64,
    },
}

/// The place that a file's bytes have; `None` for what is not there, pipes and their like. Opens
/// nothing.
pub(crate) fn place(path: &Path) -> Option<Place> {
    place_in(&path.metadata().ok()?)
}

/// As [`place`], of an open file.
pub(crate) fn place_of(file: &File) -> Option<Place> {
    place_in(&file.metadata().ok()?)
}

fn place_in(metadata: &Metadata) -> Option<Place> {
    if metadata.is_file() {
        let (device, inode) = (metadata.dev(), metadata.ino());
        Some(Place::File { device, inode })
    } else if metadata.file_type().is_block_device() {
        let number = metadata.rdev();
        Some(Place::BlockDevice { number })
    } else {
        None
    }
}

/// The permission bits of a regular file that is open to other users.
pub(crate) fn mode_for_others(file: &File) -> io::Result<Option<u32>> {
    let found = file.metadata()?;
    let mode = found.mode() & 0o7777;
    Ok((found.is_file() && mode & 0o077 != 0).then_some(mode))
}

/// Writes to standard error, without a lock.
pub(crate) fn write_error(line: &[u8]) {
    let _ = rustix::io::write(rustix::stdio::stderr(), line);
}

/// Ends the process, and runs nothing of it before that.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: it takes a number, and does not return.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

    use super::*;

    #[test]
    fn a_device_is_the_same_under_all_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let node = |name: &str, kind, minor| {
            let path = folder.path().join(name);
            // Examined, never opened: no driver needs to exist.
            let device = makedev(7, minor);
            mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), device)?;
            Ok::<_, io::Error>(place(&path))
        };
        let Ok(disk) = node("disk", FileType::BlockDevice, 1) else {
            eprintln!("skipped: only root may make device nodes");
            return;
        };
        assert!(disk.is_some());
        for (kind, minor, same) in [
            (FileType::BlockDevice, 1, true),
            (FileType::BlockDevice, 2, false),
            // Numbers of another kind of device.
            (FileType::CharacterDevice, 1, false),
            (FileType::RegularFile, 0, false),
        ] {
            let other = node(&format!("{kind:?} {minor}"), kind, minor).unwrap();
            assert_eq!(other == disk, same, "{kind:?} {minor}");
        }
    }
}
