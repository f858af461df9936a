//! Reading and writing files that hold secrets.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::recipient::looks_secret;

/// A secret file that users other than its owner may read, as ssh warns about.
///
/// `Display` is the warning, with the command that mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// The file.
    pub path: PathBuf,
    /// Its permission bits.
    pub mode: u32,
}

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(
            f,
            "{path} is open to other users (mode {:04o}): chmod 600 {path}",
            self.mode
        )
    }
}

impl Exposed {
    /// The warning about an open file, if it needs one.
    #[cfg(unix)]
    pub fn of(path: &Path, file: &File) -> Option<Self> {
        use std::os::unix::fs::PermissionsExt;
        let metadata = file.metadata().ok()?;
        let mode = metadata.permissions().mode() & 0o7777;
        // Pipes and terminals are not checked.
        (metadata.is_file() && mode & 0o077 != 0).then(|| Self {
            path: path.into(),
            mode,
        })
    }

    /// The warning about an open file: none, as files have no permission bits here.
    #[cfg(not(unix))]
    pub fn of(_: &Path, _: &File) -> Option<Self> {
        None
    }
}

/// Reads all of `path` (`-`: standard input), at most `limit` bytes.
pub(crate) fn read_secret(
    path: &Path,
    limit: usize,
) -> Result<(Zeroizing<Vec<u8>>, Option<Exposed>)> {
    let (bytes, exposed) = read_secret_prefix(path, limit + 1)?;
    if bytes.len() > limit {
        return Err(Error::TooLarge {
            what: path.display().to_string(),
            limit,
        });
    }
    Ok((bytes, exposed))
}

/// Reads the first `len` bytes of `path` (`-`: standard input), or all if it is shorter.
pub(crate) fn read_secret_prefix(
    path: &Path,
    len: usize,
) -> Result<(Zeroizing<Vec<u8>>, Option<Exposed>)> {
    let failed = |error| Error::io(format!("cannot read {}", shown_name(path)))(error);
    if path == Path::new("-") {
        return Ok((read_up_to(io::stdin().lock(), len).map_err(failed)?, None));
    }
    let file = File::open(path).map_err(failed)?;
    let exposed = Exposed::of(path, &file);
    Ok((read_up_to(file, len).map_err(failed)?, exposed))
}

/// The name of a file that cannot be read or made, for the message about it: one that looks like a
/// secret, given in the wrong place, is not shown.
pub fn shown_name(path: &Path) -> String {
    let name = path.to_string_lossy();
    let name = name.trim();
    // A file may well be called age-secret-key.txt.
    let is_long_word = name.len() > 30
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_long_word && looks_secret(name) {
        "the file given (its name looks like a secret; give the name of a file that holds it)"
            .into()
    } else {
        path.display().to_string()
    }
}

/// As `read_to_end`, but a growing buffer is wiped before it is given up.
fn read_up_to(mut input: impl Read, len: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; len.min(4096)]);
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            if filled == len {
                break;
            }
            let mut larger = Zeroizing::new(vec![0; len.min(2 * filled)]);
            larger[..filled].copy_from_slice(&bytes);
            bytes = larger;
        }
        match input.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Writes a file that only its owner may read, for a key or an identity.
///
/// Without `force` the file must not exist. With it, an existing regular file is replaced
/// in one step: at no time is there half a file. The bytes are on the disk on return.
///
/// # Errors
/// [`Error::Io`], naming the file.
pub fn write_secret_file(path: impl AsRef<Path>, content: &[u8], force: bool) -> Result<()> {
    let path = path.as_ref();
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Ok(found) if force && !found.is_file() => {
            let error = io::Error::new(io::ErrorKind::AlreadyExists, "not a regular file");
            return Err(Error::io(format!("cannot replace {shown}"))(error));
        }
        Ok(_) if force => {
            let temporary = sibling(path)?;
            write_new(&temporary, content)?;
            fs::rename(&temporary, path).map_err(|error| {
                let _ = fs::remove_file(&temporary);
                Error::io(format!("cannot replace {shown}"))(error)
            })?;
        }
        _ => write_new(path, content)?,
    }
    sync_folder(path);
    Ok(())
}

fn write_new(path: &Path, content: &[u8]) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options
        .open(path)
        .map_err(Error::io(format!("cannot create {}", path.display())))?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .map_err(|error| {
            // Half a key is useless.
            let _ = fs::remove_file(path);
            Error::io(format!("cannot write {}", path.display()))(error)
        })
}

/// A new name next to `path`.
fn sibling(path: &Path) -> Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(Error::Random)?;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{:016x}", u64::from_le_bytes(random)));
    Ok(path.with_file_name(name))
}

/// Makes the new name durable too; file systems that cannot do this need no error.
fn sync_folder(path: &Path) {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_at_the_limit() {
        // Around the first buffer, its doubling, and the limit itself.
        for size in [0, 1, 4095, 4096, 4097, 8192, 9999, 10000, 10001, 20000] {
            let content: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            let read = read_up_to(&content[..], 10000).unwrap();
            assert_eq!(*read, content[..size.min(10000)], "size {size}");
        }
    }

    #[test]
    fn names_are_shown_unless_they_are_secrets() {
        for name in ["key.txt", "age-secret-key.txt", "AGE-SECRET-KEY", "0f"] {
            assert_eq!(shown_name(Path::new(name)), name);
        }
        let identity = crate::NewIdentity::generate();
        let identity = identity.file_text().lines().last().unwrap().to_owned();
        let keys = [16, 24, 32, 64].map(|len| "0F".repeat(len));
        for secret in [&identity, &identity.to_lowercase()]
            .into_iter()
            .chain(&keys)
        {
            let shown = shown_name(Path::new(secret));
            assert!(shown.starts_with("the file given"), "{shown}");
        }
    }

    #[test]
    fn the_warning_names_the_command() {
        let exposed = Exposed {
            path: "key.txt".into(),
            mode: 0o644,
        };
        let warning = exposed.to_string();
        assert!(
            warning.contains("0644") && warning.contains("chmod 600 key.txt"),
            "{warning}"
        );
    }
}
