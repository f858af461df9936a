//! `warplock vault unmount`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, io};

use rustix::fs::{FlockOperation, StatVfsMountFlags, flock, statvfs};
use warplock_vault::fuse::{self, mounted_at};

use crate::args::{Common, VaultUnmount};
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// What is in a store that is open, or was not closed properly.
const OPEN: &str = "warplock.journal";
/// How long the mount's process may take to write what it has.
const PATIENCE: Duration = Duration::from_secs(60);

/// Unmounts, and waits for the mount's process.
pub(super) fn run(options: &VaultUnmount, common: &Common) -> Result<Exit> {
    let point = full_path(&options.point);
    let mounted = mounted_at(&point)
        .map_err(|error| Failure::io("cannot read the table of mounts", &error))?;
    let Some(mounted) = mounted.filter(fuse::Mounted::is_ours) else {
        return Err(
            Failure::error("no vault is mounted here; `mount -t fuse.warplock` lists all")
                .about(options.point.display()),
        );
    };
    let only_read = statvfs(&point).is_ok_and(|it| it.f_flag.contains(StatVfsMountFlags::RDONLY));
    fuse::unmount(&point, options.lazy)?;
    if !options.lazy && !released(Path::new(&mounted.source)) {
        return Err(Failure::error(format_args!(
            "unmounted, but its process still writes to {}; wait for it before you copy or move \
             the vault",
            mounted.source
        ))
        .about(options.point.display()));
    }
    // It goes when all is written, in the store and to this machine's memory.
    if !options.lazy && !only_read && Path::new(&mounted.source).join(OPEN).exists() {
        return Err(Failure::error(format_args!(
            "unmounted, but {} is not closed properly: what was synced is there; the mount has told \
             why (by default in the system's log), and `warplock vault check --repair` tidies up",
            mounted.source
        ))
        .about(options.point.display()));
    }
    common.note(format_args!("{} is unmounted", point.display()));
    Ok(Exit::Done)
}

/// As the table of mounts has it. A mount whose process died cannot be looked at, only its folder.
fn full_path(point: &Path) -> PathBuf {
    let whole = fs::canonicalize(point);
    let by_folder = || -> io::Result<PathBuf> {
        let point = env::current_dir()?.join(point);
        match (point.parent(), point.file_name()) {
            (Some(folder), Some(name)) => Ok(fs::canonicalize(folder)?.join(name)),
            _ => Ok(point),
        }
    };
    whole
        .or_else(|_| by_folder())
        .unwrap_or_else(|_| point.to_owned())
}

/// Waits until nobody has the vault open for writing.
fn released(store: &Path) -> bool {
    let Ok(folder) = File::open(store) else {
        return true;
    };
    let start = Instant::now();
    while flock(&folder, FlockOperation::NonBlockingLockShared).is_err() {
        if start.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}
