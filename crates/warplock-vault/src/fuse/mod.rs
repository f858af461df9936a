//! Mounting: serves a [`FileSystem`] through `/dev/fuse`.
//!
//! Several threads take requests, each from a descriptor of its own. The kernel checks
//! permissions, gathers writes in its page cache, reads ahead, and sends up to 1 MiB at a time.
//!
//! ```no_run
//! use std::sync::Arc;
//! use warplock_vault::fuse::{Mount, Options};
//! use warplock_vault::pass_through::PassThrough;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let files = PassThrough::open("/srv/files")?;
//! let mount = Mount::new(Arc::new(files), "/mnt".as_ref(), &Options::default())?;
//! // ... until it is unmounted:
//! mount.wait()?;
//! # Ok(())
//! # }
//! ```

mod activity;
mod adapter;
mod convert;
mod device;
mod dispatch;
mod error;
mod handles;
mod listing;
mod request;
mod seek;
mod table;
mod tune;
mod umask;
mod unmount;
mod writers;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, io};

use fuser::{Config, Session, SessionACL};

use self::activity::Activity;
use self::adapter::Adapter;
pub use self::error::{Error, Result};
pub use self::table::{Mounted, all_mounted, mounted_at, mounted_from};
pub use self::unmount::{Unmounter, unmount};
use self::writers::Writers;
use crate::fs::FileSystem;

/// What `mount` and `/proc/mounts` show as the type of our mounts, after `fuse.`.
pub const SUBTYPE: &str = "warplock";

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is mounted. `mount` shows it as the source, with some characters in hexadecimal.
    pub name: OsString,
    /// Nothing can be changed.
    pub read_only: bool,
    /// All users may use it, as far as permissions allow; otherwise only the user who mounts it.
    pub allow_other: bool,
    /// Setuid and setgid programs have their effect.
    pub suid: bool,
    /// Device files have their effect.
    pub dev: bool,
    /// How owners and permissions are shown.
    pub shown: Shown,
    /// Loop threads. `None`: as many as suit this machine.
    pub threads: Option<NonZeroUsize>,
    /// Only this mount changes the store, so that the kernel may cache names, attributes and
    /// contents for long; otherwise it asks again after a second.
    pub sole: bool,
    /// Unmount when nothing was open or asked for this long.
    pub idle: Option<Duration>,
}

/// What all files are shown with, in place of what the file system says of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Permissions: all that this leaves; without those to execute for files that no user may
    /// execute.
    pub umask: Option<u32>,
}

impl Default for Options {
    /// For the mounting user alone, writable, without setuid and devices, never idle.
    fn default() -> Self {
        Options {
            name: SUBTYPE.into(),
            read_only: false,
            allow_other: false,
            suid: false,
            dev: false,
            shown: Shown::default(),
            threads: None,
            sole: true,
            idle: None,
        }
    }
}

/// How often [`FileSystem::tick`] is called.
const TICK: Duration = Duration::from_secs(5);
/// How long the kernel believes what it was told about files that only we change.
const SOLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The same for files that others may change.
const SHARED_TIMEOUT: Duration = Duration::from_secs(1);

/// A mount that stands. Dropping it unmounts, even if files are open (those stay usable until
/// they are closed or the process ends).
#[derive(Debug)]
pub struct Mount {
    here: Unmounter,
    session: Option<JoinHandle<io::Result<()>>>,
}

impl Mount {
    /// Mounts `fs` at the folder `point`. When this returns, the mount answers, or another program
    /// has unmounted it already. Where it fails, `fs` is told that it is unmounted.
    ///
    /// # Errors
    /// [`Error`] says what stands in the way and what to do.
    pub fn new<F: FileSystem>(fs: Arc<F>, point: &Path, options: &Options) -> Result<Self> {
        let point = free_point(point).inspect_err(|_| fs.unmounted())?;
        let failed = |source| Error::Mount {
            point: point.clone(),
            source,
        };
        let device = device::mount(&point, options).map_err(|source| {
            fs.unmounted();
            failed(source)
        })?;
        let here = Unmounter::of(&point);
        let kept = Arc::downgrade(&fs);
        let activity = Arc::new(Activity::new());
        let writers = Arc::new(Writers::default());
        let timeout = match options.sole {
            true => SOLE_TIMEOUT,
            false => SHARED_TIMEOUT,
        };
        let adapter = Adapter::new(fs, activity.clone(), writers.clone(), timeout, options);
        let config = config(options);
        // Where this fails, dropping the adapter has told `fs` that it is unmounted.
        let session = match Session::from_fd(adapter, device, config.acl, config) {
            Ok(session) => session,
            // Unmounted before it answered the kernel's first question.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                here.end();
                let session = None;
                return Ok(Mount { here, session });
            }
            Err(error) => {
                let _ = here.unmount(true);
                return Err(failed(error));
            }
        };
        writers.connect(session.notifier());
        // Session::run waits for the loop threads, and reports when the last has ended.
        let place = here.clone();
        let serve = move || {
            let served = ended(session.run());
            if served.is_err() {
                let _ = place.unmount(true);
            }
            place.end();
            served
        };
        let session = thread::Builder::new()
            .name("fuse".to_owned())
            .spawn(serve)
            .map_err(|source| {
                let _ = here.unmount(true);
                failed(source)
            })?;
        let mount = Mount {
            here,
            session: Some(session),
        };
        tune::kernel(mount.here.device());
        mount.keep_house(kept, activity, options.idle)?;
        Ok(mount)
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        self.here.point()
    }

    /// What unmounts it while another thread waits.
    pub fn unmounter(&self) -> Unmounter {
        self.here.clone()
    }

    /// Waits until it is unmounted and all is written.
    ///
    /// # Errors
    /// If the kernel's connection broke.
    pub fn wait(mut self) -> io::Result<()> {
        match self.session.take() {
            Some(session) => session
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of the mount panicked"))),
            None => Ok(()),
        }
    }

    /// Unmounts, and waits until all is written.
    ///
    /// # Errors
    /// [`Error::Busy`] if files are open below it: then it still stands. [`Error::Unmount`] if
    /// the system refuses for another reason, or if the connection broke.
    pub fn unmount(mut self) -> Result<()> {
        if let Err(error) = self.here.unmount(false) {
            // It shall stay, as the error says.
            self.session = None;
            return Err(error);
        }
        let point = self.point().to_owned();
        self.wait()
            .map_err(|source| Error::Unmount { point, source })
    }

    /// Lets the file system do what is due from time to time, and unmounts when nothing was asked
    /// for during `idle`.
    fn keep_house<F: FileSystem>(
        &self,
        fs: Weak<F>,
        activity: Arc<Activity>,
        idle: Option<Duration>,
    ) -> Result<()> {
        let here = self.unmounter();
        let pause = idle.unwrap_or(TICK).min(TICK);
        let work = move || {
            loop {
                thread::sleep(pause);
                match fs.upgrade() {
                    Some(fs) if !here.has_ended() => fs.tick(),
                    _ => return,
                }
                if idle.is_some_and(|idle| activity.idle() >= idle) {
                    // If a process's working folder keeps it busy: later.
                    let _ = here.unmount(false);
                }
            }
        };
        match thread::Builder::new()
            .name("housekeeper".to_owned())
            .spawn(work)
        {
            Ok(_) => Ok(()),
            Err(source) => Err(Error::Mount {
                point: self.point().to_owned(),
                source,
            }),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        match self.here.unmount(false) {
            Ok(()) => {
                let _ = session.join();
            }
            Err(_) => {
                let _ = self.here.unmount(true);
            }
        }
    }
}

/// The full path of the folder `point`, if something can be mounted there. [`Mount::new`] checks
/// the same: this is for a caller that wants to know before doing any work.
///
/// # Errors
/// [`Error::Point`], [`Error::NoFolder`], [`Error::Taken`], [`Error::NotEmpty`].
pub fn free_point(point: &Path) -> Result<PathBuf> {
    let folder = fs::metadata(point).map_err(|source| Error::Point {
        point: point.to_owned(),
        source,
    })?;
    if !folder.is_dir() {
        return Err(Error::NoFolder(point.to_owned()));
    }
    let point = fs::canonicalize(point).map_err(|source| Error::Point {
        point: point.to_owned(),
        source,
    })?;
    match mounted_at(&point) {
        Ok(Some(mounted)) if mounted.is_ours() => Err(Error::Taken {
            point,
            by: mounted.source.to_string_lossy().into_owned(),
        }),
        _ => match fs::read_dir(&point).map(|mut entries| entries.next().is_some()) {
            Ok(false) => Ok(point),
            Ok(true) => Err(Error::NotEmpty(point)),
            Err(source) => Err(Error::Point { point, source }),
        },
    }
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.acl = match options.allow_other {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    let threads = options.threads.map(NonZeroUsize::get);
    config.n_threads = Some(threads.unwrap_or_else(default_threads));
    config.clone_fd = true;
    config
}

/// A thread that was about to take a request when the mount went is told that the connection was
/// aborted, the others that there is none any more. Both are ends as they should be.
fn ended(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
        other => other,
    }
}

/// Two for each core, as a request spends part of its time in the system's own files; few are
/// enough to keep many cores busy with large requests.
fn default_threads() -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    (2 * cores).clamp(4, 16)
}
