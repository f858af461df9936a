//! The mark of a result that is up to date: its source's modification time.
//!
//! A result that gets other recipients has a new time, which programs that copy need. The source's
//! is then noted in an extended attribute, together with the time that the file has since: a later
//! change of the file invalidates the note.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, XattrFlags, fgetxattr, fsetxattr, futimens};

/// Seconds and nanoseconds.
pub(crate) type Time = (i64, u32);

const NOTE: &str = "user.warplock.source-time";

/// Marks a result.
pub(crate) fn set(result: &File, time: Time) -> io::Result<()> {
    let omit = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_OMIT,
    };
    let times = Timestamps {
        last_access: omit,
        last_modification: Timespec {
            tv_sec: time.0,
            tv_nsec: i64::from(time.1),
        },
    };
    Ok(futimens(result, &times)?)
}

/// The source's time that a result is marked with.
pub(crate) fn get(result: &File) -> io::Result<Time> {
    let now = modified(&result.metadata()?);
    Ok(match noted(result) {
        Some((time, since)) if since == now => time,
        _ => now,
    })
}

/// Marks a result that was changed on purpose. File systems without such attributes lose the mark.
pub(crate) fn note(result: &Path, time: Time) -> io::Result<()> {
    let result = File::open(result)?;
    let since = modified(&result.metadata()?);
    let text = format!("{} {} {} {}", time.0, time.1, since.0, since.1);
    match fsetxattr(&result, NOTE, text.as_bytes(), XattrFlags::empty()) {
        Err(rustix::io::Errno::NOTSUP) => Ok(()),
        done => Ok(done?),
    }
}

pub(crate) fn modified(metadata: &Metadata) -> Time {
    (metadata.mtime(), metadata.mtime_nsec() as u32)
}

fn noted(file: &File) -> Option<(Time, Time)> {
    let mut value = [0; 80];
    let len = fgetxattr(file, NOTE, &mut value[..]).ok()?;
    let text = std::str::from_utf8(value.get(..len)?).ok()?;
    let mut numbers = text.split(' ').map(str::parse::<i64>);
    let mut next = || numbers.next()?.ok();
    let mut time = || Some((next()?, u32::try_from(next()?).ok()?));
    Some((time()?, time()?))
}
