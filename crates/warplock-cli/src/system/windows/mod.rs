//! What the program asks of Windows.

pub(crate) mod signals;
pub(crate) mod startup;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle};
use std::path::Path;

use winapi_util::file::{information, typ};
use windows_sys::Win32::System::Diagnostics::Debug::{SEM_NOGPFAULTERRORBOX, SetErrorMode};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess};

use super::Kind;
use crate::failure::Result;

/// No dump shall hold keys: a crash is not reported to the system, which could keep one.
pub(crate) fn forbid_core_dumps() {
    // SAFETY: it takes a number, and is called before other threads start.
    unsafe { SetErrorMode(SEM_NOGPFAULTERRORBOX) };
}

/// Standard input, without the buffer that it has in Rust.
pub(crate) fn stdin() -> io::Result<File> {
    Ok(io::stdin().as_handle().try_clone_to_owned()?.into())
}

/// Standard output, without the buffer that it has in Rust.
pub(crate) fn stdout() -> io::Result<File> {
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}

/// Whether standard output is a file or a pipe, and not a console or NUL.
pub(crate) fn stdout_is_read() -> bool {
    !startup::was_closed(1) && typ(io::stdout()).is_ok_and(|kind| kind.is_disk() || kind.is_pipe())
}

/// What an open file is.
pub(crate) fn kind(file: &File) -> io::Result<Kind> {
    // Of other things there is no metadata.
    if !typ(file)?.is_disk() {
        return Ok(Kind::Stream);
    }
    let metadata = file.metadata()?;
    Ok(match metadata.is_dir() {
        true => Kind::Folder,
        false => Kind::Regular {
            len: metadata.len(),
        },
    })
}

/// Whether nothing can be written to an open file: only the first write tells.
pub(crate) fn is_read_only(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Brings what was written to the disk; pipes and consoles have nothing to wait for.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    match typ(file)?.is_disk() {
        true => file.sync_all(),
        false => Ok(()),
    }
}

/// Where bytes lie that writing would destroy.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    volume: u64,
    index: u64,
}

/// The place that a file's bytes have; `None` for what is not there, pipes and their like.
pub(crate) fn place(path: &Path) -> Option<Place> {
    // To look at it needs no access.
    place_of(&OpenOptions::new().access_mode(0).open(path).ok()?)
}

/// As [`place`], of an open file.
pub(crate) fn place_of(file: &File) -> Option<Place> {
    let is_disk = typ(file).is_ok_and(|kind| kind.is_disk());
    let found = information(file).ok().filter(|_| is_disk)?;
    Some(Place {
        volume: found.volume_serial_number(),
        index: found.file_index(),
    })
}

/// Paths that stand for descriptors of this process: there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {}

impl Descriptor {
    pub(crate) fn of(_: &Path) -> Option<Self> {
        None
    }

    pub(crate) fn is_stdout(self) -> bool {
        match self {}
    }

    pub(crate) fn file(self) -> Result<File> {
        match self {}
    }
}

/// The permission bits of a file that is open to other users. There are none here: what a shell
/// made has its folder's access list, and files of keys (`-o`) are their owner's alone.
pub(crate) fn mode_for_others(_: &File) -> io::Result<Option<u32>> {
    Ok(None)
}

/// Writes to standard error, without a lock.
pub(crate) fn write_error(line: &[u8]) {
    // SAFETY: it is open, or null, which is an error; and it is not closed here.
    let file = unsafe { File::from_raw_handle(io::stderr().as_raw_handle()) };
    let _ = (&*ManuallyDrop::new(file)).write_all(line);
}

/// Ends the process, and runs nothing of it before that.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: the handle stands for this process, and nothing of it runs after that.
    unsafe { TerminateProcess(GetCurrentProcess(), code as u32) };
    std::process::abort()
}
