//! The traces of a run outside its process: folders of files, mounts in them, and files before they
//! have their final name. They are removed with it, or by [`abandon`] if a signal ends it: nothing
//! else would free a RAM disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::mount::UnmountFlags;
use tempfile::{NamedTempFile, TempDir, TempPath};
use warplock_vault::fuse;

/// Everything that exists at the moment. The lock must be held to make a folder or a file.
static LEFTOVERS: Mutex<Leftovers> = Mutex::new(Leftovers {
    folders: Vec::new(),
    files: Vec::new(),
    points: Vec::new(),
    made: Vec::new(),
});

struct Leftovers {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
    /// Folders where something may be mounted.
    points: Vec<PathBuf>,
    /// Folders that are to stay if something is in them at the end.
    made: Vec<PathBuf>,
}

fn leftovers() -> MutexGuard<'static, Leftovers> {
    // Lists of paths are never in a state that a panic could spoil.
    LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often, and how far apart, removing a folder is tried to which threads and children still
/// write.
const TRIES: (usize, Duration) = (200, Duration::from_millis(10));

/// Unmounts and removes everything that the runs of this process have outside of it, and blocks
/// them forever when they would report that it is gone: for a process about to die.
pub fn abandon() {
    let list = leftovers();
    for _ in 0..TRIES.0 {
        list.points.iter().for_each(|point| tear_down(point));
        for file in &list.files {
            // A missing file already has its final name.
            let _ = fs::remove_file(file);
        }
        let is_gone = |folder: &PathBuf| match fs::remove_dir_all(folder) {
            Ok(()) => true,
            Err(error) => error.kind() == ErrorKind::NotFound && !folder.exists(),
        };
        let left = list.folders.iter().filter(|folder| !is_gone(folder));
        if left.count() == 0 {
            break;
        }
        thread::sleep(TRIES.1);
    }
    remove_empty(&list.made);
    std::mem::forget(list);
}

/// Unmounts what is mounted at a point, if anything is, even in use. Its connection is broken
/// first: if this process serves it and has written to it, its end would wait for the writes, and
/// the writes for this process.
fn tear_down(point: &Path) {
    if let Ok(Some(mounted)) = fuse::mounted_at(point)
        && let Some((_, number)) = mounted.device.split_once(':')
    {
        // Its owner may, without being root.
        let _ = fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1");
    }
    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    if rustix::mount::unmount(point, flags).is_err() {
        let _ = fuse::unmount(point, true);
    }
}

fn remove_empty(folders: &[PathBuf]) {
    for folder in folders {
        // What is in one stays.
        let _ = fs::remove_dir(folder);
    }
}

/// A folder for results, with those above it that were missing too. When dropped, those that are
/// empty are removed.
pub(crate) struct ResultFolder {
    /// From the innermost on.
    made: Vec<PathBuf>,
}

impl ResultFolder {
    /// Makes `dir` if it is not there.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let missing = dir.ancestors().take_while(is_missing);
        let made: Vec<_> = missing.map(Path::to_owned).collect();
        let mut list = leftovers();
        list.made.extend_from_slice(&made);
        let created = fs::create_dir_all(dir);
        drop(list);
        let folder = ResultFolder { made };
        created.map(|()| folder)
    }
}

impl Drop for ResultFolder {
    fn drop(&mut self) {
        remove_empty(&self.made);
        leftovers()
            .made
            .retain(|folder| !self.made.contains(folder));
    }
}

/// A folder that is removed when dropped.
pub(crate) struct WorkFolder(Option<TempDir>);

impl WorkFolder {
    /// A new one in `dir`.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let mut list = leftovers();
        let folder = tempfile::Builder::new()
            .prefix("warplock-bench-")
            .tempdir_in(dir)?;
        list.folders.push(folder.path().to_owned());
        Ok(WorkFolder(Some(folder)))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().expect("it lives as long as this").path()
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let path = self.path().to_owned();
        // Removed without the lock: that may take long, and a signal may come meanwhile.
        drop(self.0.take());
        leftovers().folders.retain(|folder| *folder != path);
    }
}

/// A file under a temporary name, which is removed when dropped.
pub(crate) struct WorkFile {
    /// Until it has its final name.
    file: Option<TempPath>,
    passing: PathBuf,
}

impl WorkFile {
    /// A new one in `dir`.
    pub(crate) fn new(dir: &Path) -> io::Result<(File, Self)> {
        let mut list = leftovers();
        let (open, file) = NamedTempFile::with_prefix_in(".warplock-", dir)?.into_parts();
        let passing = file.to_path_buf();
        list.files.push(passing.clone());
        let file = Some(file);
        Ok((open, WorkFile { file, passing }))
    }

    /// Gives it its final name. An older file of this name is replaced.
    pub(crate) fn publish(mut self, path: &Path) -> io::Result<()> {
        let file = self.file.take().expect("it is published once");
        file.persist(path).map_err(|error| error.error)
    }
}

impl Drop for WorkFile {
    fn drop(&mut self) {
        drop(self.file.take());
        leftovers().files.retain(|file| *file != self.passing);
    }
}

/// Whether [`abandon`] would remove a file in `dir`.
#[cfg(test)]
pub(crate) fn lists_file_in(dir: &Path) -> bool {
    let list = leftovers();
    list.files.iter().any(|file| file.parent() == Some(dir))
}

/// A folder where something is mounted as long as this lives.
pub(crate) struct Point(PathBuf);

impl Point {
    /// To be made before mounting.
    pub(crate) fn new(path: &Path) -> Self {
        // In the form of the system's table.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        leftovers().points.push(path.clone());
        Point(path)
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        leftovers().points.retain(|point| *point != self.0);
    }
}
