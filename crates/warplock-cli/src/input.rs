//! Inputs: a file, a device, a pipe, standard input.

use std::fs::{File, Metadata};
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use warplock_container::{Source, attributes_of};
use warplock_keyring::{FileAttributes, shown_name};

use crate::failure::{Failure, Result};
use crate::startup::was_closed;

/// The name that stands for standard input or output.
const DASH: &str = "-";

/// Whether a path on the command line means standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path == Path::new(DASH)
}

/// An opened input.
#[derive(Debug)]
pub(crate) struct Input {
    /// Its name in messages.
    pub(crate) name: String,
    /// The open file.
    pub(crate) file: File,
    /// Its length in bytes, if it is one that can be read at any place (a regular file or a block
    /// device, from its start on).
    pub(crate) len: Option<u64>,
    metadata: Metadata,
}

impl Input {
    /// Refuses what [`Input::open`] would refuse. Opens nothing whose opening has an effect: another
    /// process may wait for that at a pipe with a name.
    pub(crate) fn check(path: &Path) -> Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(found) if !is_dash(path) && !found.is_dir() && place(&found).is_none() => Ok(None),
            _ => Input::open(path).map(Some),
        }
    }

    /// Opens `path`, or standard input for `-`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = if is_dash(path) {
            "stdin".to_owned()
        } else {
            path.display().to_string()
        };
        let opened = if is_dash(path) {
            if was_closed(0) {
                return Err(
                    Failure::error("is closed; name a file, or send it something").about(name),
                );
            }
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(path)
        };
        let failed = |error: io::Error| Failure::io("cannot read", &error).about(&name);
        let mut file = opened.map_err(|error| match is_dash(path) {
            true => failed(error),
            false => Failure::io("cannot read", &error).about(shown_name(path)),
        })?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            let what = "is a directory; pack it first, for example: tar c DIR | warplock ...";
            return Err(Failure::error(what).about(name));
        }
        let len = if metadata.is_file() {
            // Files of /proc and /sys do not have the length that they claim.
            Source::file(&file)
                .map_err(failed)?
                .remaining()
                .map(|_| metadata.len())
        } else if metadata.file_type().is_block_device() {
            let end = file.seek(io::SeekFrom::End(0)).map_err(failed)?;
            file.rewind().map_err(failed)?;
            Some(end)
        } else {
            None
        };
        // A shell may hand over a file of which something else has read the beginning.
        let at_start = len.is_some() && file.stream_position().is_ok_and(|place| place == 0);
        let len = len.filter(|&len| at_start && len > 0);
        Ok(Input {
            name,
            file,
            len,
            metadata,
        })
    }

    /// Whether `other` is the same file or device, even under another name.
    pub(crate) fn is_same_file(&self, other: &Metadata) -> bool {
        let own = place(&self.metadata);
        own.is_some() && own == place(other)
    }

    /// The permissions and time of a file that was named.
    pub(crate) fn attributes(&self, path: &Path) -> Option<FileAttributes> {
        attributes_of(&self.file).filter(|_| !is_dash(path))
    }

    /// The input for a pipeline, from the file's current position on.
    pub(crate) fn source(&self) -> Result<Source<'_>> {
        match self.len {
            Some(len) => Ok(Source::positioned(&self.file, 0..len)),
            None => Source::file(&self.file)
                .map_err(|error| Failure::io("cannot read", &error).about(&self.name)),
        }
    }
}

/// Where bytes lie that writing would destroy.
#[derive(PartialEq, Eq, Hash)]
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

/// The place that a file's bytes have; `None` for pipes and their like.
pub(crate) fn place(metadata: &Metadata) -> Option<Place> {
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

/// The name of an input in messages.
pub(crate) fn input_name(path: &Path) -> String {
    match is_dash(path) {
        true => "stdin".to_owned(),
        false => shown_name(path),
    }
}

/// The inputs of a command: those given, or standard input.
pub(crate) fn or_stdin(inputs: &[PathBuf]) -> Vec<PathBuf> {
    if inputs.is_empty() {
        vec![PathBuf::from(DASH)]
    } else {
        inputs.to_vec()
    }
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
            std::fs::metadata(path)
        };
        let Ok(disk) = node("disk", FileType::BlockDevice, 1) else {
            eprintln!("skipped: only root may make device nodes");
            return;
        };
        let input = Input {
            name: "disk".to_owned(),
            file: tempfile::tempfile().unwrap(),
            len: None,
            metadata: disk,
        };
        for (kind, minor, same) in [
            (FileType::BlockDevice, 1, true),
            (FileType::BlockDevice, 2, false),
            // Numbers of another kind of device.
            (FileType::CharacterDevice, 1, false),
            (FileType::RegularFile, 0, false),
        ] {
            let other = node(&format!("{kind:?} {minor}"), kind, minor).unwrap();
            assert_eq!(input.is_same_file(&other), same, "{kind:?} {minor}");
        }
    }
}
