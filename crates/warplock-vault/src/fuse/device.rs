//! The device through which the kernel asks, mounted by the system for root and by `fusermount3`
//! for others.
//!
//! Not by the FUSE crate: what that has mounted, it unmounts by its path when all is over, whatever
//! stands there by then (version 0.18).

use std::ffi::CString;
use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::mount::MountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{getgid, getuid};

use super::{Options, SUBTYPE, table};

/// Mounts at the folder `point`.
pub(super) fn mount(point: &Path, options: &Options) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},{}",
        device.as_raw_fd(),
        fs::metadata(point).map_err(io::Error::other)?.mode(),
        getuid().as_raw(),
        getgid().as_raw(),
        for_kernel(options)
    );
    let data = CString::new(data)?;
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, !options.suid);
    flags.set(MountFlags::NODEV, !options.dev);
    let source = table::source_of(&options.name);
    match rustix::mount::mount(source, point, "fuse", flags, Some(&*data)) {
        Ok(()) => Ok(device),
        Err(Errno::PERM) => by_helper(point, options),
        // Of another kind: callers take `NotFound` for a lack of /dev/fuse.
        Err(error) => Err(io::Error::other(io::Error::from(error))),
    }
}

fn for_kernel(options: &Options) -> String {
    let others = if options.allow_other {
        ",allow_other"
    } else {
        ""
    };
    format!("subtype={SUBTYPE},default_permissions{others}")
}

pub(super) fn for_helper(options: &Options) -> String {
    let pick = |yes, one, other| if yes { one } else { other };
    format!(
        "fsname={},{},{},{},{}",
        table::source_of(&options.name),
        for_kernel(options),
        pick(options.read_only, "ro", "rw"),
        pick(options.suid, "suid", "nosuid"),
        pick(options.dev, "dev", "nodev")
    )
}

/// The helper sends the device over its standard input.
fn by_helper(point: &Path, options: &Options) -> io::Result<OwnedFd> {
    let (ours, its) = UnixStream::pair()?;
    let helper = Command::new("fusermount3")
        .args(["-o", &for_helper(options), "--"])
        .arg(point)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(its))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            io::Error::other(format!(
                "cannot run fusermount3 (package fuse3), which mounts for users: {error}"
            ))
        })?;
    let device = receive(&ours);
    let output = helper.wait_with_output();
    if let Some(device) = device? {
        return Ok(device);
    }
    let output = output?;
    let mut said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() {
        said = format!("fusermount3 ended with {}", output.status);
    }
    let kind = match said.contains("user_allow_other") {
        true => io::ErrorKind::PermissionDenied,
        false => io::ErrorKind::Other,
    };
    Err(io::Error::new(kind, said))
}

/// The descriptor that comes through a socket; `None` if its other side is closed instead.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    retry_on_intr(|| {
        let mut bytes = [IoSliceMut::new(&mut byte)];
        recvmsg(socket, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let first = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(first)
}
