//! Mounts a folder at another place, unchanged: `passthrough FOLDER MOUNTPOINT [--allow-other]`.
//!
//! The difference to a vault's mount is the cost of its encryption.

use std::env;
use std::path::Path;
use std::sync::Arc;

use warplock_vault::fuse::{Mount, Options};
use warplock_vault::pass_through::PassThrough;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let (folder, point, allow_other) = match &arguments[..] {
        [folder, point] => (folder, point, false),
        [folder, point, option] if option == "--allow-other" => (folder, point, true),
        _ => return Err("usage: passthrough FOLDER MOUNTPOINT [--allow-other]".into()),
    };
    let options = Options {
        name: folder.into(),
        allow_other,
        ..Options::default()
    };
    let files = PassThrough::open(folder)?;
    let mount = Mount::new(Arc::new(files), Path::new(point), &options)?;
    mount.wait()?;
    Ok(())
}
