//! What a mount shows: each path with all that a program can see of it, or when it failed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

/// When the use of an object fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moment {
    /// Its name is not found, and listing its folder says why.
    List,
    Lookup,
    Open,
    Read,
    /// One of these, depending on which name is known first.
    Use,
}

/// All that a program can see of an object, but for times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Type, permissions, owner, group, device.
    status: [u64; 4],
    /// Content, or target.
    pub(super) bytes: Vec<u8>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Shown {
    pub(super) fn emptied(&self) -> Self {
        Shown {
            bytes: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether this is the same, perhaps without some attributes.
    pub(super) fn is_rest_of(&self, other: &Shown) -> bool {
        let has = |it: (&Vec<u8>, &Vec<u8>)| other.attributes.get(it.0) == Some(it.1);
        (&self.status, &self.bytes) == (&other.status, &other.bytes)
            && self.attributes.iter().all(has)
    }
}

/// The error number of an object that is not shown, and when that was.
pub(super) type Seen = Result<Shown, (Moment, i32)>;

/// By path, from the topmost folder of the mount.
pub(super) type Tree = BTreeMap<String, Seen>;

/// Everything that is listed below `top`, and these paths, too.
pub(super) fn shown<'a>(top: &Path, also: impl IntoIterator<Item = &'a String>) -> Tree {
    let mut paths: BTreeSet<String> = also.into_iter().cloned().collect();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(top.join(&folder)) else {
            continue;
        };
        for entry in entries.map_while(Result::ok) {
            let name = entry.file_name().into_string().unwrap();
            let path = match folder.as_str() {
                "" => name,
                _ => format!("{folder}/{name}"),
            };
            let kind = entry.path().symlink_metadata();
            if kind.is_ok_and(|found| found.is_dir()) {
                folders.push(path.clone());
            }
            paths.insert(path);
        }
    }
    let seen = paths.into_iter().map(|path| {
        let seen = look(&top.join(&path));
        (path, seen)
    });
    seen.collect()
}

fn look(path: &Path) -> Seen {
    fn at<T>(moment: Moment, result: io::Result<T>) -> Result<T, (Moment, i32)> {
        result.map_err(|error| (moment, error.raw_os_error().unwrap_or(0)))
    }
    let found = path.symlink_metadata().map_err(|error| {
        let moment = match error.kind() {
            io::ErrorKind::NotFound => Moment::List,
            _ => Moment::Lookup,
        };
        (moment, error.raw_os_error().unwrap_or(0))
    })?;
    let kind = found.file_type();
    let mut bytes = Vec::new();
    if kind.is_dir() {
        at(Moment::Open, fs::read_dir(path))?;
    } else if kind.is_symlink() {
        bytes = at(Moment::Read, fs::read_link(path))?
            .into_os_string()
            .into_encoded_bytes();
    } else if kind.is_file() {
        let mut file = at(Moment::Open, File::open(path))?;
        at(Moment::Read, file.read_to_end(&mut bytes))?;
        copied_sparsely(&file, &bytes);
    } else if kind.is_fifo() {
        // A writer would wait for a reader, and the other way round: nothing is to be verified.
    }
    let mut attributes = BTreeMap::new();
    if !kind.is_symlink() {
        let mut names = vec![0; 4096];
        let listed = rustix::fs::llistxattr(path, &mut names[..]);
        let len = at(Moment::Read, listed.map_err(io::Error::from))?;
        for name in names[..len].split(|byte| *byte == 0) {
            if !name.starts_with(b"user.") && !name.starts_with(b"trusted.") {
                continue;
            }
            let mut value = vec![0; 4096];
            let name = str::from_utf8(name).unwrap();
            let len = rustix::fs::lgetxattr(path, name, &mut value[..]);
            let len = at(Moment::Read, len.map_err(io::Error::from))?;
            value.truncate(len);
            attributes.insert(name.as_bytes().to_vec(), value);
        }
    }
    let (uid, gid) = (u64::from(found.uid()), u64::from(found.gid()));
    Ok(Shown {
        status: [u64::from(found.mode()), uid, gid, found.rdev()],
        bytes,
        attributes,
    })
}

/// What a program that looks for holes reads is what it reads without.
fn copied_sparsely(file: &File, bytes: &[u8]) {
    use rustix::fs::SeekFrom;
    let mut copy = vec![0; bytes.len()];
    let mut at = 0;
    while let Ok(start) = rustix::fs::seek(file, SeekFrom::Data(at)) {
        let end = rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap();
        let part = &mut copy[start as usize..end as usize];
        if file.read_exact_at(part, start).is_err() {
            return;
        }
        at = end;
    }
    assert!(copy == bytes, "holes are not where zeros are read");
}
