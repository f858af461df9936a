//! `warplock vault mount`.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warplock_vault::fs::FileSystem;
use warplock_vault::fuse::{self, Mount};
use warplock_vault::{Options, Trouble, Vault};

use super::background::{self, Ready};
use super::{in_use, is_missing, log, master_key, no_witness};
use crate::args::{Cache, Common, VaultMount};
use crate::cmd::say;
use crate::exit::Exit;
use crate::failure::{Failure, Result, one_line};
use crate::signals;

/// Mounts, and serves the mount until it is unmounted.
pub(super) fn run(options: &VaultMount, common: &Common) -> Result<Exit> {
    let ready = match options.foreground {
        true => None,
        false => match Ready::inherited() {
            Some(ready) => Some(ready),
            // This process waits until the one in the background serves the mount.
            None => return background::start(),
        },
    };
    serve(options, ready, common)
}

fn serve(options: &VaultMount, ready: Option<Ready>, common: &Common) -> Result<Exit> {
    let named = |failure: Failure| failure.about(options.dir.display());
    let store = fs::canonicalize(&options.dir)
        .map_err(|error| named(Failure::io("cannot open the vault", &error)))?;
    refuse_inside(&store, options)?;
    // Before anybody is asked for a passphrase.
    fuse::free_point(&options.point)?;
    // Written from the background, too, which works in another folder.
    let witness = options.witness.as_deref().map(path::absolute).transpose();
    let witness = witness.map_err(|error| Failure::io("cannot find the witness", &error))?;
    let new_witness = options.witness.as_deref().filter(|path| is_missing(path));
    let master = master_key(&options.dir, &options.unlock, common)?;
    let in_background = Arc::new(AtomicBool::new(false));
    let vault = Vault::open(
        &store,
        &master,
        Options {
            engine: Some(Arc::new(common.engine()?)),
            read_only: options.read_only,
            witness,
            trouble: Some(trouble(in_background.clone())),
        },
    )
    .map_err(|error| named(in_use(&store, error)))?;
    drop(master);
    let read_only = vault.is_read_only();
    if let (Some(path), true) = (new_witness, read_only) {
        // Nothing would be written to it, and nothing ever noticed.
        return Err(no_witness(path));
    }
    let vault = Arc::new(vault);
    let point = unmount_on_signals(&vault);
    // A signal waits until it is known what there is to unmount.
    let mut mounted = point.lock().unwrap_or_else(PoisonError::into_inner);
    let mount = Mount::new(
        vault.clone(),
        &options.point,
        &fuse::Options {
            name: store.display().to_string(),
            read_only,
            allow_other: options.allow_other,
            suid: options.suid,
            dev: options.dev,
            threads: None::<NonZeroUsize>,
            sole: match options.cache {
                Some(cache) => cache == Cache::Keep,
                None => !read_only,
            },
            idle: options.idle,
        },
    )?;
    *mounted = Some(mount.point().to_owned());
    drop(mounted);
    drop(vault);
    common.note(format_args!(
        "{} is mounted at {}",
        store.display(),
        mount.point().display()
    ));
    if let (Some(path), false) = (new_witness, common.quiet) {
        say(format_args!(
            "warplock: {}: a new witness begins here: it notices what is put back from now on",
            path.display()
        ));
    }
    if let Some(ready) = ready {
        in_background.store(true, Ordering::Relaxed);
        ready.detach();
    }
    let point = mount.point().to_owned();
    let served = mount.wait();
    served.map_err(|error| Failure::io("the mount broke", &error).about(point.display()))?;
    Ok(Exit::Done)
}

/// The mount would hide or serve itself.
fn refuse_inside(store: &Path, options: &VaultMount) -> Result<()> {
    match fs::canonicalize(&options.point) {
        Ok(point) if point.starts_with(store) || store.starts_with(&point) => {
            Err(Failure::usage(format_args!(
                "the mount point {} and the vault {} lie in each other; take another folder",
                options.point.display(),
                options.dir.display()
            )))
        }
        // Whether it is there at all is the next question.
        _ => Ok(()),
    }
}

/// Where sentences about altered files go.
fn trouble(in_background: Arc<AtomicBool>) -> Arc<Trouble> {
    Arc::new(move |sentence: &str| {
        let line = one_line(sentence);
        match in_background.load(Ordering::Relaxed) {
            true => log::error(&line),
            false => say(format_args!("warplock: {line}")),
        }
    })
}

/// SIGTERM and Ctrl-C unmount what is mounted at the path that is given. If files are open, the
/// mount goes out of sight and ends with its last user; a second signal ends it at once, with all
/// committed that has come here by then, and that is all that programs have synced. Before
/// anything is mounted, the first one ends it.
fn unmount_on_signals<F: FileSystem>(fs: &Arc<F>) -> Arc<Mutex<Option<PathBuf>>> {
    let mounted = Arc::new(Mutex::new(None::<PathBuf>));
    let (fs, point) = (Arc::downgrade(fs), Arc::clone(&mounted));
    signals::instead(Box::new(move || {
        let point = point.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(point) = point else {
            if let Some(fs) = fs.upgrade() {
                fs.unmounted();
            }
            return false;
        };
        if fuse::unmount(&point, false).is_err() {
            say(format_args!(
                "warplock: {}: is in use; it ends with its last user, or at the next signal",
                point.display()
            ));
            let _ = fuse::unmount(&point, true);
        }
        true
    }));
    mounted
}
