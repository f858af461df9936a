//! What the program asks of the operating system: a folder for each, with the same functions.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// What there is to open.
pub(crate) enum Kind {
    Regular {
        len: u64,
    },
    #[cfg_attr(
        windows,
        expect(dead_code, reason = "disks are not read as files there")
    )]
    BlockDevice,
    Folder,
    /// A pipe, a terminal, a device without places.
    Stream,
}
