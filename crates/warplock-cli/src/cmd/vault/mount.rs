//! `warplock vault mount`.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use signal_hook::consts::{SIGXCPU, SIGXFSZ};
use signal_hook::flag;
use warplock_vault::fs::FileSystem;
use warplock_vault::fuse::{self, Mount, Shown, Unmounter};
use warplock_vault::{Options, Vault, raise_inherited_limits};

use super::background::{self, Ready};
use super::log::Log;
use super::notices::Notices;
use super::{in_use, master_key, memory, notify, refuse_used};
use crate::args::{Cache, Common, VaultMount};
use crate::console::say;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::system::signals;

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
    if (options.suid || options.dev) && !rustix::process::geteuid().is_root() {
        return Err(Failure::usage(
            "--suid and --dev are for root: in other users' mounts, the system ignores such programs \
             and files",
        ));
    }
    ignore_inherited_limits(common)?;
    // Everything that can be refused is refused before the prompt for a passphrase.
    fuse::free_point(&options.point)?;
    if !Path::new("/dev/fuse").exists() {
        let (point, source) = (options.point.clone(), io::ErrorKind::NotFound.into());
        return Err(fuse::Error::Mount { point, source }.into());
    }
    let memory = memory::place(&options.memory, common)?;
    memory::refuse_in(memory.as_deref(), &options.point, "the mount point")?;
    memory::refuse_in(memory.as_deref(), &store, "the vault's store")?;
    let engine = Arc::new(common.engine()?);
    refuse_used(&options.dir, options.read_only)?;
    let master = master_key(&options.dir, &options.unlock, common)?;
    let notices = Notices::start(Log::system());
    let notices = notices.map_err(|error| Failure::io("cannot start a thread", &error))?;
    let notices = Arc::new(notices);
    let (shown, logged) = (Arc::clone(&notices), Arc::clone(&notices));
    let vault = Vault::open(
        &store,
        &master,
        Options {
            engine: Some(engine),
            read_only: options.read_only,
            memory,
            id: options.id.clone(),
            accept: false,
            tidy: true,
            trouble: Some(Arc::new(move |sentence: &str| shown.show(sentence))),
            log: Some(Arc::new(move |sentence: &str| logged.log(sentence))),
        },
    )
    .map_err(|error| named(in_use(&store, error)))?;
    drop(master);
    let read_only = vault.is_read_only();
    let vault = Arc::new(vault);
    let unmounter = unmount_on_signals(&vault);
    // A signal waits until it is known what there is to unmount.
    let mut mounted = unmounter.lock().unwrap_or_else(PoisonError::into_inner);
    let mount = Mount::new(
        vault.clone(),
        &options.point,
        &fuse::Options {
            name: store.clone().into_os_string(),
            read_only,
            allow_other: options.allow_other,
            suid: options.suid,
            dev: options.dev,
            shown: Shown {
                uid: options.uid,
                gid: options.gid,
                umask: options.umask,
            },
            threads: None::<NonZeroUsize>,
            sole: match options.cache {
                Some(cache) => cache == Cache::Keep,
                None => !read_only,
            },
            idle: options.idle,
        },
    )?;
    *mounted = Some(mount.unmounter());
    drop(mounted);
    common.note(format_args!(
        "{} is mounted at {}",
        store.display(),
        mount.point().display()
    ));
    if common.json {
        // If the mount cannot be reported, it is removed.
        common.emit(&json!({
            "vault": options.dir.display().to_string(),
            "mount_point": mount.point().display().to_string(),
            "read_only": read_only,
        }))?;
    }
    notify::ready(mount.point());
    if let Some(ready) = ready {
        notices.leave_terminal();
        ready.detach();
    }
    let point = mount.point().to_owned();
    let served = mount.wait();
    // `served` does not say whether it was closed when it was unmounted.
    let closed = vault.close();
    notices.flush();
    served.map_err(|error| Failure::io("the mount broke", &error).about(point.display()))?;
    closed.map_err(|error| {
        let said = format!("the vault could not be closed: {error}");
        Failure::error(said).about(store.display())
    })?;
    Ok(Exit::Done)
}

/// Beyond the limit of file lengths a write fails, which affects one program; the signal would end the
/// mount for all.
fn ignore_inherited_limits(common: &Common) -> Result<()> {
    for limit in raise_inherited_limits() {
        if !common.quiet {
            say(format_args!(
                "warplock: the mount ends if it needs more than {limit}; raise that limit first"
            ));
        }
    }
    for signal in [SIGXFSZ, SIGXCPU] {
        flag::register(signal, Arc::default())
            .map_err(|error| Failure::io("cannot catch a signal", &error))?;
    }
    Ok(())
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
        // Whether it exists at all is checked next.
        _ => Ok(()),
    }
}

/// SIGTERM and Ctrl-C unmount what the result holds by then. If files are open, the mount
/// disappears and ends with its last user; a second signal ends it immediately, with everything
/// committed that has arrived by then, which includes all that programs have synced. Before
/// anything is mounted, the first signal ends it.
fn unmount_on_signals<F: FileSystem>(fs: &Arc<F>) -> Arc<Mutex<Option<Unmounter>>> {
    let mounted = Arc::new(Mutex::new(None::<Unmounter>));
    let (fs, unmounter) = (Arc::downgrade(fs), Arc::clone(&mounted));
    signals::instead(Box::new(move || {
        let taken = unmounter
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(unmounter) = taken else {
            if let Some(fs) = fs.upgrade() {
                fs.unmounted();
            }
            return false;
        };
        if unmounter.unmount(false).is_err() {
            say(format_args!(
                "warplock: {}: is in use; it ends with its last user, or at the next signal",
                unmounter.point().display()
            ));
            let _ = unmounter.unmount(true);
        }
        true
    }));
    mounted
}
