//! Errors of mounting and unmounting.

use std::io;
use std::path::PathBuf;

/// The result of mounting or unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The mount point cannot be inspected.
    #[error("{}: cannot be used as a mount point: {}", point.display(), point_reason(source))]
    Point {
        /// Where.
        point: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The mount point is a file.
    #[error("{}: is no folder, so nothing can be mounted there; make one with mkdir", .0.display())]
    NoFolder(PathBuf),
    /// The mount point has files.
    #[error(
        "{}: is not empty, and its files would be out of sight; take an empty folder",
        .0.display()
    )]
    NotEmpty(PathBuf),
    /// Something of ours is mounted there.
    #[error(
        "{}: {by} is mounted there already; unmount it first, or take another folder",
        point.display()
    )]
    Taken {
        /// Where.
        point: PathBuf,
        /// What.
        by: String,
    },
    /// Mounting failed.
    #[error("{}: cannot mount: {}", point.display(), mount_reason(source))]
    Mount {
        /// Where.
        point: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Files are open.
    #[error(
        "{}: is in use; close the files and leave the folders below it (`fuser -vm` lists the \
         processes), or detach it with --lazy",
        point.display()
    )]
    Busy {
        /// Where.
        point: PathBuf,
    },
    /// Unmounting failed.
    #[error("{}: cannot unmount: {source}", point.display())]
    Unmount {
        /// Where.
        point: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A mount whose process died fails with "not connected".
fn point_reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NOTCONN.raw_os_error() => {
            "the process of a former mount has died; clean up with `warplock vault unmount` first"
                .to_owned()
        }
        _ if error.kind() == io::ErrorKind::NotFound => {
            "it does not exist; make it with mkdir".to_owned()
        }
        _ => error.to_string(),
    }
}

fn mount_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no /dev/fuse here; load the kernel's module (modprobe \
                                    fuse), or give the container the device"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied if error.to_string().contains("user_allow_other") => {
            "--allow-other is for root alone unless /etc/fuse.conf says user_allow_other".to_owned()
        }
        _ => error.to_string(),
    }
}
