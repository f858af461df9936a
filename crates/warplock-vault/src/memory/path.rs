//! Where memories are: a folder for each vault, for its owner alone, and which vault was last used
//! at which path.

use std::env;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fstat, fsync, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::core::hex;
use crate::error::{Error, Result};
use crate::format::keys::{Id, random};

/// The database, in the vault's folder.
pub(super) const DATABASE: &str = "memory.redb";
/// The folder that tells which vault was last used at which path.
const PATHS: &str = "paths";
/// More than two ids and a path.
const MAX_BINDING: u64 = 8192;

/// Where this user's memories are unless told otherwise: `warplock/vaults` in `$XDG_STATE_HOME`, or
/// in `~/.local/state`.
///
/// # Errors
/// [`Error::Usage`] if neither that nor `$HOME` is an absolute path.
pub fn default_memory_dir() -> Result<PathBuf> {
    let absolute = |name| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .ok_or_else(|| {
            Error::Usage(
                "there is no place for this machine's memory of vaults: neither XDG_STATE_HOME \
                 nor HOME is set; use --memory DIR or --no-memory"
                    .into(),
            )
        })?;
    Ok(state.join("warplock/vaults"))
}

/// Whether the memories in `dir`, which need not exist, lie in the folder `folder`: in a vault's
/// store, an old memory would be put back together with an old store, and in a mount it would disappear
/// with the mount.
///
/// # Errors
/// The system's, if a folder cannot be looked at.
pub fn memory_lies_in(dir: &Path, folder: &Path) -> std::io::Result<bool> {
    let folder = folder.canonicalize()?;
    let dir = std::path::absolute(dir)?;
    // What does not exist is made below what does.
    for above in dir.ancestors() {
        match above.canonicalize() {
            Ok(there) => {
                let missing = dir.strip_prefix(above).unwrap_or(Path::new(""));
                return Ok(there.join(missing).starts_with(&folder));
            }
            // Opening it says what is wrong with it.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// An open folder, for its owner alone.
pub(super) struct Folder {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
}

impl Folder {
    /// Opens `name` in `dir`, and makes both if they do not exist and `make` says so; `None` if it
    /// is not there.
    pub(super) fn open(dir: &Path, name: &str, make: bool) -> Result<Option<Self>> {
        let path = dir.join(name);
        let failed = |error: std::io::Error| Error::memory(&path, "cannot be opened", error);
        if make {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(dir).map_err(failed)?;
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let above = match rustix::fs::open(dir, flags, Mode::empty()) {
            Err(Errno::NOENT) if !make => return Ok(None),
            other => other.map_err(|errno| failed(errno.into()))?,
        };
        let found = fstat(&above).map_err(|errno| failed(errno.into()))?;
        if found.st_mode & 0o022 != 0 && found.st_mode & 0o1000 == 0 {
            return Err(refused(dir, "other users may write to it"));
        }
        if make {
            match mkdirat(&above, name, Mode::RWXU) {
                Err(Errno::EXIST) => {}
                made => made
                    .and_then(|()| fsync(&above))
                    .map_err(|errno| failed(errno.into()))?,
            }
        }
        let fd = match openat(&above, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOENT) if !make => return Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(refused(&path, "it is no folder")),
            other => other.map_err(|errno| failed(errno.into()))?,
        };
        let found = fstat(&fd).map_err(|errno| failed(errno.into()))?;
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return Err(refused(&path, "it belongs to another user"));
        }
        if found.st_mode & 0o077 != 0 {
            return Err(refused(&path, "other users may enter it (chmod 700)"));
        }
        Ok(Some(Folder { fd, path }))
    }

    /// Opens a file in it for reading and writing, made if it is not there and `make` says so.
    /// Nothing but a regular file of this user, and no link to another, is opened or waited for.
    pub(super) fn file(&self, name: &str, make: bool) -> Result<Option<File>> {
        let path = self.path.join(name);
        let failed = |errno: Errno| Error::memory(&path, "cannot be opened", errno.into());
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = match openat(&self.fd, name, flags, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                let flags = flags | OFlags::CREATE | OFlags::EXCL;
                let made = openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR);
                made.and_then(|file| fsync(&self.fd).map(|()| file))
            }
            Err(Errno::NOENT) => return Ok(None),
            other => other,
        };
        let file = match opened {
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => {
                return Err(refused(&path, "it is no regular file"));
            }
            other => other.map_err(failed)?,
        };
        let found = fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink != 1 {
            return Err(refused(&path, "it is no regular file with one name"));
        }
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return Err(refused(&path, "it belongs to another user"));
        }
        Ok(Some(file.into()))
    }

    /// Puts a whole file in the place of what has this name.
    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        let new = format!("new.{}", hex(&random::<8>()?));
        let replaced = (|| {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
            let file = openat(&self.fd, &*new, flags, Mode::RUSR | Mode::WUSR)?;
            let mut file = File::from(file);
            file.write_all(content)?;
            file.sync_all()?;
            renameat(&self.fd, &*new, &self.fd, name)?;
            fsync(&self.fd)?;
            std::io::Result::Ok(())
        })();
        replaced.map_err(|error| {
            let _ = unlinkat(&self.fd, &*new, AtFlags::empty());
            Error::memory(&path, "cannot be written", error)
        })
    }

    /// Removes a file, if it exists; returns whether it did.
    pub(super) fn remove(&self, name: &str) -> Result<bool> {
        match unlinkat(&self.fd, name, AtFlags::empty()).and_then(|()| fsync(&self.fd)) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => {
                let path = self.path.join(name);
                Err(Error::memory(&path, "cannot be removed", errno.into()))
            }
        }
    }
}

fn refused(path: &Path, why: &str) -> Error {
    let source = std::io::Error::other(why);
    Error::memory(path, "is not used", source)
}

/// Which vault was last used at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// In hexadecimal.
    pub(crate) id: String,
    /// Of the master key, so that another vault with the same id shows.
    pub(crate) fingerprint: String,
}

/// The name of the file that tells which vault was last used at `store`.
fn binding_name(store: &Path) -> String {
    hex(&Sha256::digest(store.as_os_str().as_bytes())[..16])
}

/// The vault that was last used at the path `store`, which is absolute and without symlinks.
pub(crate) fn bound(dir: &Path, store: &Path) -> Result<Option<Binding>> {
    let name = binding_name(store);
    let Some(folder) = Folder::open(dir, PATHS, false)? else {
        return Ok(None);
    };
    let Some(file) = folder.file(&name, false)? else {
        return Ok(None);
    };
    let path = folder.path.join(&name);
    let mut text = Vec::new();
    file.take(MAX_BINDING)
        .read_to_end(&mut text)
        .map_err(|error| Error::memory(&path, "cannot be read", error))?;
    // The path after these is bytes, as the system's paths are.
    let mut lines = text.splitn(3, |byte| *byte == b'\n').map(str::from_utf8);
    match (lines.next(), lines.next()) {
        (Some(Ok(id)), Some(Ok(fingerprint))) => Ok(Some(Binding {
            id: id.into(),
            fingerprint: fingerprint.into(),
        })),
        _ => Err(refused(&path, "it is damaged; remove it")),
    }
}

/// Remembers which vault is used at the path `store`.
pub(crate) fn bind(dir: &Path, store: &Path, binding: &Binding) -> Result<()> {
    let folder = Folder::open(dir, PATHS, true)?.expect("it was made");
    let mut text = format!("{}\n{}\n", binding.id, binding.fingerprint).into_bytes();
    text.extend_from_slice(store.as_os_str().as_bytes());
    text.push(b'\n');
    folder.replace(&binding_name(store), &text)
}

/// The paths at which vaults were used with the memories in `dir`, in order. What cannot be read is left
/// out.
///
/// # Errors
/// [`Error::Memory`] if the folder cannot be read.
pub fn known_vaults(dir: &Path) -> Result<Vec<PathBuf>> {
    let Some(folder) = Folder::open(dir, PATHS, false)? else {
        return Ok(Vec::new());
    };
    let failed = |error: Errno| Error::memory(&folder.path, "cannot be read", error.into());
    let mut paths = Vec::new();
    for entry in rustix::fs::Dir::read_from(&folder.fd).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_owned();
        let file = name.to_str().ok().map(|name| folder.file(name, false));
        let Some(Ok(Some(file))) = file else { continue };
        let mut text = Vec::new();
        if file.take(MAX_BINDING).read_to_end(&mut text).is_err() {
            continue;
        }
        // Two lines, and the path with the end of a line.
        let path = text.splitn(3, |byte| *byte == b'\n').nth(2);
        if let Some(path) = path.and_then(|path| path.strip_suffix(b"\n")) {
            paths.push(PathBuf::from(OsStr::from_bytes(path)));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Forgets which vault was used at the path `store`; whether one was known.
pub(crate) fn unbind(dir: &Path, store: &Path) -> Result<bool> {
    match Folder::open(dir, PATHS, false)? {
        Some(folder) => folder.remove(&binding_name(store)),
        None => Ok(false),
    }
}

/// Removes all that is remembered of a vault; whether anything was.
pub(crate) fn remove(dir: &Path, id: &Id) -> Result<bool> {
    let name = hex(id);
    let Some(folder) = Folder::open(dir, &name, false)? else {
        return Ok(false);
    };
    let removed = folder.remove(DATABASE)?;
    // If there are foreign files in it, it stays.
    let _ = std::fs::remove_dir(dir.join(OsStr::new(&name)));
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn folders_and_files_are_for_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("a/b");
        assert!(Folder::open(&base, "v", false).unwrap().is_none());
        let folder = Folder::open(&base, "v", true).unwrap().unwrap();
        assert!(folder.file("f", false).unwrap().is_none());
        folder.file("f", true).unwrap().unwrap();
        let mode = |name: &str| fs::metadata(base.join(name)).unwrap().mode() & 0o777;
        assert_eq!((mode("v"), mode("v/f")), (0o700, 0o600));
        fs::set_permissions(base.join("v"), fs::Permissions::from_mode(0o750)).unwrap();
        assert!(Folder::open(&base, "v", true).is_err());
        fs::set_permissions(base.join("v"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Folder::open(&base, "v", true).is_err());
    }

    #[test]
    fn nothing_is_followed_and_nothing_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let folder = Folder::open(dir.path(), "v", true).unwrap().unwrap();
        let at = |name: &str| dir.path().join("v").join(name);
        symlink(&victim, at("link")).unwrap();
        symlink(dir.path().join("nowhere"), at("dangling")).unwrap();
        fs::hard_link(&victim, at("hard")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, Mode::RWXU, 0).unwrap();
        fs::create_dir(at("dir")).unwrap();
        for name in ["link", "dangling", "hard", "fifo", "dir"] {
            assert!(folder.file(name, true).is_err(), "{name}");
        }
        symlink(dir.path().join("v"), dir.path().join("w")).unwrap();
        assert!(Folder::open(dir.path(), "w", true).is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        assert!(!dir.path().join("nowhere").exists());
    }

    #[test]
    fn a_path_remembers_its_vault() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("state");
        let (here, there) = (Path::new("/a/store"), Path::new("/b/store"));
        assert_eq!(bound(&dir, here).unwrap(), None);
        assert!(!unbind(&dir, here).unwrap());
        let one = Binding {
            id: "aa".into(),
            fingerprint: "bb".into(),
        };
        bind(&dir, here, &one).unwrap();
        assert_eq!(bound(&dir, here).unwrap(), Some(one.clone()));
        assert_eq!(bound(&dir, there).unwrap(), None);
        assert_eq!(known_vaults(&dir).unwrap(), [here]);
        assert!(unbind(&dir, here).unwrap());
        assert_eq!(bound(&dir, here).unwrap(), None);
    }

    #[test]
    fn paths_need_not_be_text() {
        let dir = tempfile::tempdir().unwrap();
        let store = Path::new(OsStr::from_bytes(b"/a/st\xf6re\n"));
        let binding = Binding {
            id: "aa".into(),
            fingerprint: "bb".into(),
        };
        bind(dir.path(), store, &binding).unwrap();
        assert_eq!(bound(dir.path(), store).unwrap(), Some(binding));
        assert_eq!(known_vaults(dir.path()).unwrap(), [store]);
    }

    #[test]
    fn a_memory_may_not_lie_in_its_vault() {
        let dir = tempfile::tempdir().unwrap();
        let (store, beside) = (dir.path().join("store"), dir.path().join("store2"));
        fs::create_dir(&store).unwrap();
        fs::create_dir(&beside).unwrap();
        symlink(&store, dir.path().join("link")).unwrap();
        for inside in [
            "store",
            "store/a/b",
            "link/a",
            "store2/../store/a",
            "store/a/../../b",
        ] {
            let there = memory_lies_in(&dir.path().join(inside), &store);
            assert!(there.unwrap(), "{inside}");
        }
        fs::write(dir.path().join("file"), "").unwrap();
        for outside in ["store2", "stor", "none/store", "file/memory"] {
            let there = memory_lies_in(&dir.path().join(outside), &store);
            assert!(!there.unwrap(), "{outside}");
        }
    }
}
