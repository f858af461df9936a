//! `warplock vault list`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;
use warplock_vault::fuse::{Mounted, all_mounted};
use warplock_vault::{CONFIG, known_vaults};

use super::memory::named_or_default;
use crate::args::{Common, VaultList};
use crate::console::print;
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};

/// Lists the vaults that the memory knows, and those that are mounted.
pub(super) fn run(options: &VaultList, common: &Common) -> Result<Exit> {
    let mut vaults: BTreeMap<PathBuf, Vec<Mounted>> = BTreeMap::new();
    // Without a place for memories, there are mounts all the same.
    match named_or_default(options.memory.as_deref()) {
        Ok(dir) => vaults.extend(
            known_vaults(&dir)?
                .into_iter()
                .map(|path| (path, Vec::new())),
        ),
        Err(_) if options.memory.is_none() => {}
        Err(error) => return Err(error),
    }
    let mounted =
        all_mounted().map_err(|error| Failure::io("cannot read the table of mounts", &error))?;
    for mount in mounted {
        vaults
            .entry((&mount.source).into())
            .or_default()
            .push(mount);
    }
    for (path, mounts) in &vaults {
        let there = is_there(path);
        let vault = path.display().to_string();
        let points = mounts.iter().map(|it| it.point.display().to_string());
        if common.json {
            let mounts: Vec<_> = mounts
                .iter()
                .zip(points)
                .map(|(it, point)| json!({ "mount_point": point, "read_only": it.read_only }))
                .collect();
            common.emit(&json!({ "vault": vault, "present": there, "mounts": mounts }))?;
            continue;
        }
        let mut text = escaped(&vault);
        if !there {
            text.push_str("  (not there now)");
        }
        for (it, point) in mounts.iter().zip(points) {
            let how = if it.read_only {
                ", for reading only"
            } else {
                ""
            };
            text.push_str(&format!("\n  mounted at {}{how}", escaped(&point)));
        }
        print(&format!("{text}\n"))?;
    }
    if vaults.is_empty() {
        common.note("no vault is known here");
    }
    Ok(Exit::Done)
}

fn is_there(store: &Path) -> bool {
    store.join(CONFIG).symlink_metadata().is_ok()
}
