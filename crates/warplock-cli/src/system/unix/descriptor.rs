//! Paths that stand for descriptors of this process.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;

use rustix::io::{FdFlags, fcntl_getfd};

use super::startup::was_closed;
use crate::failure::{Failure, Result};

/// The number of an open descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor(RawFd);

impl Descriptor {
    /// The one that `path` stands for.
    ///
    /// Linux would open its file again: without the position, without appending.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let folders = ["/dev/fd", "/proc/self/fd"];
        let name = match path.to_str()? {
            "/dev/stdout" => "1",
            "/dev/stderr" => "2",
            _ => folders
                .iter()
                .find_map(|folder| path.strip_prefix(folder).ok())?
                .to_str()?,
        };
        let number = name.parse().ok().filter(|&number| number >= 0);
        number.map(Descriptor)
    }

    pub(crate) fn is_stdout(self) -> bool {
        self.0 == 1
    }

    /// Its file, which was opened for this purpose.
    pub(crate) fn file(self) -> Result<File> {
        let Descriptor(number) = self;
        let not_open = "is not open; let the shell open it, as in: 3> FILE";
        let is_open = || Path::new("/dev/fd").join(number.to_string()).exists();
        if was_closed(number) || !is_open() {
            return Err(Failure::error(not_open));
        }
        // SAFETY: it is open, and no code here closes it: this program's own are refused below.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        // Our own are closed on exec; none that was inherited can be.
        match fcntl_getfd(descriptor) {
            Ok(flags) if !flags.contains(FdFlags::CLOEXEC) => {
                let copy = descriptor.try_clone_to_owned();
                let failed = |error: io::Error| Failure::io("cannot write", &error);
                copy.map(File::from).map_err(failed)
            }
            _ => Err(Failure::error(not_open)),
        }
    }
}
