//! `warplock vault unmount`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, io};

use rustix::io::Errno;
use serde_json::json;
use warplock_vault::fuse::{self, mounted_at};
use warplock_vault::{Left, left};

use crate::args::{Common, VaultUnmount};
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// How long the mount's process may take to write what it has.
const PATIENCE: Duration = Duration::from_secs(60);

/// Unmounts, waits for the mount's process, and says whether it has closed the vault.
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
    let named = |failure: Failure| failure.about(options.point.display());
    let store = Path::new(&mounted.source);
    let dead = is_dead(&point);
    fuse::unmount(&point, options.lazy)?;
    let done = |how: &str| {
        common.note(format_args!("{} is unmounted{how}", point.display()));
        if common.json {
            common.emit(&json!({
                "mount_point": options.point.display().to_string(),
                "vault": store.display().to_string(),
            }))?;
        }
        Ok(Exit::Done)
    };
    if mounted.read_only {
        return done("");
    }
    if dead {
        return Err(named(Failure::error(format_args!(
            "unmounted; the mount's process had died: what was synced is there, what was not may \
             be lost; mount the vault again, or let `warplock vault check --repair {}` tidy up",
            store.display()
        ))));
    }
    if options.lazy {
        return done(" once it is no longer in use");
    }
    match wait(store) {
        Ok(Left::Closed) => {}
        Ok(Left::InUse) => {
            return Err(named(Failure::error(format_args!(
                "unmounted, but its process still writes to {}, or the mount is also to be seen \
                 elsewhere (`mount --bind`, a container); wait for it before you copy or move the \
                 vault",
                store.display()
            ))));
        }
        Ok(Left::Open) => {
            return Err(named(Failure::error(format_args!(
                "unmounted, but the vault could not be closed: what was synced is there, what was \
                 not may be lost; the system's log says why, and `warplock vault check --repair \
                 {}` tidies up",
                store.display()
            ))));
        }
        Err(error) => {
            let failure = Failure::error(format_args!(
                "unmounted, but whether all was written to {} is not known: {error}",
                store.display()
            ));
            return Err(named(failure));
        }
    }
    done("")
}

/// Whether the process that served the mount has ended.
fn is_dead(point: &Path) -> bool {
    let looked = fs::metadata(point);
    looked.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::NOTCONN))
}

/// In the form of the table of mounts. A mount whose process died cannot be looked at, only its
/// folder.
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

/// How the vault was left; waits until it is no longer open for writing, or for a while.
fn wait(store: &Path) -> warplock_vault::Result<Left> {
    let start = Instant::now();
    loop {
        match left(store)? {
            Left::InUse if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(5)),
            other => return Ok(other),
        }
    }
}
