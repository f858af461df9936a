//! `warplock vault export-key` and `warplock vault recover`: the master key on paper.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::json;
use zeroize::Zeroizing;

use super::keys::{given_recipients, recipients};
use super::{first_passphrase, master_key};
use crate::args::{Common, VaultExportKey, VaultRecover};
use crate::cmd::inputs::stdin_once;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::is_dash;
use crate::output::{Access, Output};

/// More than the lines take, with text around them.
const MOST: u64 = 64 << 10;

/// Prints the master key.
pub(super) fn export(options: &VaultExportKey, common: &Common) -> Result<Exit> {
    let path = options.output.as_deref().unwrap_or(Path::new("-"));
    if common.json && is_dash(path) {
        return Err(Failure::usage(
            "with --json, name a file for the key: -o FILE",
        ));
    }
    // It replaces nothing, not even if told to.
    if !is_dash(path) && fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return Err(Failure::error("exists already; name a new file")
            .coded("exists")
            .about(path.display()));
    }
    let output = Output::with_access(path, false, None, Access::Owner)?;
    if options.output.is_none() && !output.is_terminal() {
        return Err(Failure::usage(
            "the master key would not go to a terminal; name a file with -o FILE, or -o - if that is \
             intended",
        ));
    }
    let master = master_key(&options.dir, &options.unlock, common)?;
    let lines = warplock_vault::export_key(&options.dir, &master)
        .map_err(|error| Failure::from(error).about(options.dir.display()))?;
    drop(master);
    let failed = |error: io::Error| Failure::writing(&error).about(&output.name);
    let head = format!(
        "Recovery key of the Warplock vault {}\n\
         These lines are enough to read and change it. If {} is lost:\n\
         warplock vault recover DIR FILE\n\n",
        options.dir.display(),
        warplock_vault::CONFIG
    );
    let mut file = output.file();
    file.write_all(head.as_bytes()).map_err(failed)?;
    file.write_all(lines.as_bytes()).map_err(failed)?;
    let name = output.name.clone();
    output.publish()?;
    if common.json {
        common.emit(&json!({ "vault": options.dir.display().to_string(), "output": name }))?;
    }
    Ok(Exit::Done)
}

/// Makes `warplock.vault` again.
pub(super) fn recover(options: &VaultRecover, common: &Common) -> Result<Exit> {
    let dash = |path: &Option<_>| path.as_deref().is_some_and(is_dash);
    stdin_once(&[
        ("FILE", is_dash(&options.file)),
        (
            "--new-passphrase-file",
            dash(&options.keys.new_from.new_passphrase_file),
        ),
    ])?;
    let lines = read(&options.file)?;
    let given = given_recipients(&options.keys, common)?;
    let to = recipients(given, &first_passphrase(&options.keys.new_from), common)?;
    warplock_vault::recover(&options.dir, &lines, &options.name, &to)
        .map_err(|error| Failure::from(error).about(options.dir.display()))?;
    common.note(format_args!(
        "{} opens again, with its key '{}'",
        options.dir.display(),
        options.name
    ));
    if common.json {
        let vault = options.dir.display().to_string();
        common.emit(&json!({ "vault": vault, "key": options.name }))?;
    }
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<Zeroizing<String>> {
    // As much as may come, so that no copy is left by a growing buffer.
    let mut text = Zeroizing::new(String::with_capacity(MOST as usize));
    let read = match is_dash(path) {
        true => io::stdin().lock().take(MOST).read_to_string(&mut text),
        false => File::open(path).and_then(|file| file.take(MOST).read_to_string(&mut text)),
    };
    read.map_err(|error| {
        Failure::io("cannot read the recovery key", &error).about(path.display())
    })?;
    Ok(text)
}
