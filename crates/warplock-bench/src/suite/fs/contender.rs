//! A file system to measure: something that shows a folder at a mount point.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warplock_vault::fuse::{self, Mount, Options};
use warplock_vault::pass_through::PassThrough;

use crate::Error;
use crate::error::Result;
use crate::leftovers::Point;

/// A file system to measure.
pub(super) trait Contender {
    /// Its name in the report.
    fn name(&self) -> &str;

    /// Prepares the empty folder `store`.
    fn make(&self, store: &Path) -> Result<()> {
        let _ = store;
        Ok(())
    }

    /// Bytes that GPUs did so far, where that is known.
    fn on_gpus(&self) -> Option<u64> {
        None
    }

    /// Mounts `store` at the empty folder `point`.
    fn mount(&self, store: &Path, point: &Path) -> Result<Held>;
}

/// Keeps a mount up.
pub(super) enum Held {
    /// Nothing is mounted: the files are in the store itself.
    Bare,
    /// Served by this process.
    Here(Mount),
    /// Served by another process.
    Elsewhere,
}

/// A mount that ends with this value, whatever happens.
pub(super) struct Standing {
    folder: PathBuf,
    held: Option<Held>,
    // Dropped last.
    _point: Point,
}

impl Standing {
    pub(super) fn new(contender: &dyn Contender, store: &Path, point: &Path) -> Result<Self> {
        let mark = Point::new(point);
        let held = contender.mount(store, point)?;
        Ok(Standing {
            folder: match held {
                Held::Bare => store.to_owned(),
                Held::Here(_) | Held::Elsewhere => point.to_owned(),
            },
            held: Some(held),
            _point: mark,
        })
    }

    /// Where the files are to be put.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Unmounts; all is written then.
    pub(super) fn end(mut self) -> Result<()> {
        let outcome = match self.held.take() {
            Some(Held::Here(mount)) => mount.unmount(),
            Some(Held::Elsewhere) => fuse::unmount(&self.folder, false),
            Some(Held::Bare) | None => Ok(()),
        };
        outcome.map_err(failed)
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Some(Held::Elsewhere) = self.held {
            let _ = fuse::unmount(&self.folder, true);
        }
    }
}

pub(super) fn failed(error: fuse::Error) -> Error {
    Error::Input(error.to_string())
}

/// The folder itself.
pub(super) struct Bare;

impl Contender for Bare {
    fn name(&self) -> &str {
        "bare folder"
    }

    fn mount(&self, _: &Path, _: &Path) -> Result<Held> {
        Ok(Held::Bare)
    }
}

/// The vault's adapter without the vault.
pub(super) struct PassThroughMount;

impl Contender for PassThroughMount {
    fn name(&self) -> &str {
        "pass-through"
    }

    fn mount(&self, store: &Path, point: &Path) -> Result<Held> {
        let fs = PassThrough::open(store).map_err(Error::file("open", store))?;
        here(Arc::new(fs), point)
    }
}

/// Mounts in this process.
pub(super) fn here<F: warplock_vault::fs::FileSystem>(fs: Arc<F>, point: &Path) -> Result<Held> {
    let mount = Mount::new(fs, point, &Options::default()).map_err(failed)?;
    Ok(Held::Here(mount))
}

/// Writes a file that only we can read.
pub(super) fn secret(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::file("write", path))
}
