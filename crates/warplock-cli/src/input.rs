//! Inputs: a file, a device, a pipe, standard input.

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use warplock_container::{Source, attributes_of};
use warplock_keyring::{FileAttributes, shown_name};

use crate::failure::{Failure, Result};
use crate::system::startup::was_closed;
use crate::system::{self, Kind, Place, place};

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
    place: Option<Place>,
}

impl Input {
    /// Refuses what [`Input::open`] would refuse. Opens nothing whose opening has an effect: another
    /// process may wait for that at a pipe with a name.
    pub(crate) fn check(path: &Path) -> Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(found) if !is_dash(path) && !found.is_dir() && place(path).is_none() => Ok(None),
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
            system::stdin()
        } else {
            File::open(path)
        };
        let failed = |error: io::Error| Failure::io("cannot read", &error).about(&name);
        let mut file = opened.map_err(|error| match is_dash(path) {
            // Windows opens no folder, Unix does.
            false if cfg!(windows) && path.is_dir() => is_folder().about(&name),
            true => failed(error),
            false => Failure::io("cannot read", &error).about(shown_name(path)),
        })?;
        let len = match system::kind(&file).map_err(failed)? {
            Kind::Folder => return Err(is_folder().about(name)),
            // Files of /proc and /sys do not have the length that they claim.
            Kind::Regular { len } => Source::file(&file)
                .map_err(failed)?
                .remaining()
                .map(|_| len),
            Kind::BlockDevice => {
                let end = file.seek(io::SeekFrom::End(0)).map_err(failed)?;
                file.rewind().map_err(failed)?;
                Some(end)
            }
            Kind::Stream => None,
        };
        // A shell may hand over a file of which something else has read the beginning.
        let at_start = len.is_some() && file.stream_position().is_ok_and(|place| place == 0);
        let len = len.filter(|&len| at_start && len > 0);
        Ok(Input {
            place: system::place_of(&file),
            name,
            file,
            len,
        })
    }

    /// Whether `other` is the place of the same file or device, even under another name.
    pub(crate) fn is_same_file(&self, other: Option<Place>) -> bool {
        self.place.is_some() && self.place == other
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

fn is_folder() -> Failure {
    Failure::error("is a directory; pack it first, for example: tar c DIR | warplock ...")
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
