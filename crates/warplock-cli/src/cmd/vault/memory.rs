//! `warplock vault memory`, and the place of memories.

use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use warplock_keyring::MasterKey;
use warplock_vault::{
    Options, Vault, accept, default_memory_dir, forget_memory, memory_info, memory_lies_in,
};

use super::{in_use, master_key};
use crate::args::{Common, MemoryAccept, MemoryForget, MemoryInfo, MemoryPlace, VaultMemory};
use crate::console::{print, say};
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};

/// The folder of memories; `None`, and a sentence, if there is to be none.
pub(super) fn place(options: &MemoryPlace, common: &Common) -> Result<Option<PathBuf>> {
    if options.no_memory {
        if !common.quiet {
            say(format_args!(
                "warplock: without this machine's memory, old and missing files are not noticed"
            ));
        }
        return Ok(None);
    }
    named_or_default(options.memory.as_deref()).map(Some)
}

/// Refuses a memory in a folder with which it would go back or disappear.
pub(super) fn refuse_in(memory: Option<&Path>, folder: &Path, what: &str) -> Result<()> {
    let Some(memory) = memory else { return Ok(()) };
    match memory_lies_in(memory, folder) {
        Ok(true) => Err(Failure::usage(format_args!(
            "this machine's memory would be in {what}, {}; choose another place with --memory DIR",
            memory.display()
        ))),
        // What else is wrong with it is said where it is opened.
        _ => Ok(()),
    }
}

pub(super) fn named_or_default(dir: Option<&Path>) -> Result<PathBuf> {
    match dir {
        // A mount in the background works in another folder.
        Some(dir) => path::absolute(dir)
            .map_err(|error| Failure::io("cannot find the memory", &error).about(dir.display())),
        None => Ok(default_memory_dir()?),
    }
}

/// Makes a new vault known.
pub(super) fn begin(
    dir: &Path,
    master: &MasterKey,
    memory: Option<PathBuf>,
    common: &Common,
) -> Result<()> {
    if memory.is_some() {
        let id = warplock_vault::info(dir)?.id;
        let options = Options {
            engine: Some(Arc::new(common.engine()?)),
            memory,
            id: Some(id),
            ..Options::default()
        };
        Vault::open(dir, master, options)?.close()?;
    }
    Ok(())
}

pub(super) fn run(command: VaultMemory, common: &Common) -> Result<Exit> {
    match command {
        VaultMemory::Info(options) => info(&options, common),
        VaultMemory::Accept(options) => take(&options, common),
        VaultMemory::Forget(options) => forget(&options, common),
    }
}

fn info(options: &MemoryInfo, common: &Common) -> Result<Exit> {
    let dir = named_or_default(options.memory.as_deref())?;
    let named = |error: warplock_vault::Error| Failure::from(error).about(options.dir.display());
    let Some(info) = memory_info(&dir, &options.dir).map_err(named)? else {
        return Err(
            Failure::error("this machine remembers nothing of this vault")
                .about(options.dir.display()),
        );
    };
    let path = info.path.display().to_string();
    if common.json {
        common.emit(&json!({
            "vault": options.dir.display().to_string(),
            "memory": path,
            "machine": format!("{:016x}", info.machine),
            "sessions": info.sessions,
            "crashes": info.crashes,
            "objects": info.objects,
            "names": info.names,
            "others": info.others,
        }))?;
        return Ok(Exit::Done);
    }
    print(&format!(
        "{}\n  memory      {}\n  machine     {:016x}{}\n  sessions    {} for writing, {} of them not closed\n  \
         remembers   {} objects, {} names\n",
        escaped(&options.dir.to_string_lossy()),
        escaped(&path),
        info.machine,
        if info.others { ", one of several" } else { "" },
        info.sessions,
        info.crashes,
        info.objects,
        info.names
    ))?;
    Ok(Exit::Done)
}

fn take(options: &MemoryAccept, common: &Common) -> Result<Exit> {
    let dir = named_or_default(options.memory.as_deref())?;
    let named = |error: warplock_vault::Error| Failure::from(error).about(options.dir.display());
    let master = master_key(&options.dir, &options.unlock, common)?;
    let open = Options {
        engine: Some(Arc::new(common.engine()?)),
        memory: Some(dir),
        accept: true,
        ..Options::default()
    };
    let vault = Vault::open(&options.dir, &master, open)
        .map_err(|error| in_use(&options.dir, error).about(options.dir.display()))?;
    drop(master);
    let accepted = accept(&vault, &options.paths);
    // Whatever became of it: nothing has crashed.
    let closed = vault.close();
    let refused = accepted.map_err(named)?;
    closed.map_err(named)?;
    if refused > 0 {
        return Err(Failure::authentication(format_args!(
            "accepted, but for what could not be read or does not verify ({refused} in all): \
             `warplock vault check` tells what it is"
        ))
        .about(options.dir.display()));
    }
    common.note("accepted");
    done(&options.dir, common)
}

fn forget(options: &MemoryForget, common: &Common) -> Result<Exit> {
    let dir = named_or_default(options.memory.as_deref())?;
    let forgot = forget_memory(&dir, &options.dir)
        .map_err(|error| Failure::from(error).about(options.dir.display()))?;
    if !forgot && !common.quiet {
        say(format_args!(
            "warplock: {}: this machine remembered nothing of it",
            options.dir.display()
        ));
    }
    done(&options.dir, common)
}

fn done(dir: &Path, common: &Common) -> Result<Exit> {
    if common.json {
        common.emit(&json!({ "vault": dir.display().to_string() }))?;
    }
    Ok(Exit::Done)
}
