//! Unmounting, by the system for root and by `fusermount3` for others.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mount::UnmountFlags;

use super::error::{Error, Result};
use super::table::{Mounted, mounted_at};

/// Unmounts one mount, and no other that has taken its place.
#[derive(Clone, Debug)]
pub struct Unmounter {
    point: PathBuf,
    /// The number of its device, which no other has while it is served; `None` where the table of
    /// mounts cannot be read, or it was gone.
    device: Option<String>,
    /// Whether it is served no more. The next mount may have the same number.
    ended: Arc<AtomicBool>,
}

impl Unmounter {
    /// Of what was just mounted at `point`.
    pub(super) fn of(point: &Path) -> Self {
        Unmounter {
            point: point.to_owned(),
            device: device_at(point).ok().flatten(),
            ended: Arc::default(),
        }
    }

    /// Says that the mount is served no more.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    pub(super) fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// As [`unmount`]; nothing if the mount has ended.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is in use, also where it was detached before; [`Error::Unmount`] if the
    /// system refuses otherwise.
    pub fn unmount(&self, lazy: bool) -> Result<()> {
        let found = device_at(&self.point);
        // Asked last: what was found may be the next mount.
        if self.has_ended() {
            return Ok(());
        }
        match found {
            Ok(found) if found != self.device => Err(Error::Busy {
                point: self.point.clone(),
            }),
            _ => unmount(&self.point, lazy),
        }
    }
}

fn device_at(point: &Path) -> io::Result<Option<String>> {
    let mounted = mounted_at(point)?.filter(Mounted::is_ours);
    Ok(mounted.map(|mounted| mounted.device))
}

/// Unmounts what is mounted at `point`; `lazy`: even if it is in use, in which case it goes when
/// the last user does.
///
/// # Errors
/// [`Error::Busy`] if it is in use, [`Error::Unmount`] if the system refuses otherwise.
pub fn unmount(point: &Path, lazy: bool) -> Result<()> {
    let flags = match lazy {
        true => UnmountFlags::DETACH,
        false => UnmountFlags::empty(),
    };
    let refused = |source| Error::Unmount {
        point: point.to_owned(),
        source,
    };
    match rustix::mount::unmount(point, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::BUSY) => Err(Error::Busy {
            point: point.to_owned(),
        }),
        // Users unmount through a helper that may.
        Err(rustix::io::Errno::PERM) => by_helper(point, lazy),
        Err(error) => Err(refused(error.into())),
    }
}

fn by_helper(point: &Path, lazy: bool) -> Result<()> {
    let run = Command::new("fusermount3")
        .arg(if lazy { "-uz" } else { "-u" })
        .arg("--")
        .arg(point)
        .stdin(Stdio::null())
        .output();
    let refused = |source| Error::Unmount {
        point: point.to_owned(),
        source,
    };
    let output = run.map_err(|error| {
        refused(io::Error::new(
            error.kind(),
            format!("cannot run fusermount3 (package fuse3), which unmounts for users: {error}"),
        ))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    match said.contains("busy") {
        true => Err(Error::Busy {
            point: point.to_owned(),
        }),
        false => Err(refused(io::Error::other(said.trim().to_owned()))),
    }
}
