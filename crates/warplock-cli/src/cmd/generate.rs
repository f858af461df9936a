//! `warplock gen`: files for `warplock bench entries`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use warplock_bench::{Context, Generate};

use crate::args::{Common, Gen};
use crate::console::print;
use crate::exit::Exit;
use crate::failure::{Result, escaped};
use crate::progress::Progress;

/// Bytes of an entry in all three files.
const ENTRY: u64 = 48;

/// Makes the files and prints the seed.
pub(super) fn run(options: Gen, common: &Common) -> Result<Exit> {
    let Gen {
        entries,
        seed,
        force,
        dir,
    } = options;
    let name = dir.display().to_string();
    let generate = Generate {
        dir,
        entries,
        seed,
        force,
        threads: common.threads.unwrap_or(Context::default().threads),
    };
    let done = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&done);
    let bar = Progress::start(
        &name,
        entries.checked_mul(ENTRY),
        move || ENTRY * shown.load(Ordering::Relaxed),
        !common.quiet && !common.json,
    );
    let made = generate.run(&|entries| {
        done.fetch_max(entries, Ordering::Relaxed);
    });
    drop(bar);
    let made = made?;
    if common.json {
        let object = json!({"seed": made.seed, "entries": made.entries, "bytes": made.bytes});
        common.emit(&object)?;
        return Ok(Exit::Done);
    }
    print(&format!(
        "{} entries in {}, {} bytes; --seed {} makes the same again\n",
        made.entries,
        escaped(&name),
        made.bytes,
        made.seed
    ))?;
    Ok(Exit::Done)
}
