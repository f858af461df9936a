//! `warplock verify`.

use std::path::Path;

use serde_json::json;
use warplock_container::Pipeline;

use super::inputs::{each, file_object, unlock_uses_stdin};
use crate::args::{Common, Verify};
use crate::console::print;
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};
use crate::input::{Input, or_stdin};
use crate::keys::Unlocker;
use crate::progress::Progress;

/// Verifies each input.
pub(super) fn run(options: &Verify, common: &Common) -> Result<Exit> {
    let inputs = or_stdin(&options.input);
    unlock_uses_stdin(&inputs, &options.unlock)?;
    let unlocker = Unlocker::new(&options.unlock, common)?;
    let pipeline = common.pipeline()?;
    let object = |input: &Path| {
        let mut object = file_object(input);
        object["verified"] = false.into();
        object
    };
    Ok(each(&inputs, common, object, |input| {
        verify(input, &unlocker, &pipeline, common)
    }))
}

fn verify(input: &Path, unlocker: &Unlocker, pipeline: &Pipeline, common: &Common) -> Result<()> {
    let input = Input::open(input)?;
    let named = |failure: Failure| failure.about(&input.name);
    let mut source = input.source()?;
    let (key, _) = unlocker.key(&input.name, &mut source).map_err(named)?;
    let (monitor, before) = (pipeline.monitor().clone(), pipeline.monitor().done());
    let progress = Progress::start(
        &input.name,
        input.len,
        move || monitor.done() - before,
        !common.quiet,
    );
    let verified = warplock_container::verify(source, &key, pipeline);
    drop(progress);
    let len = verified.map_err(|error| named(unlocker.blame(error.into())))?;
    if common.json {
        common.emit(&json!({"file": input.name, "verified": true, "content_bytes": len}))
    } else if common.quiet {
        Ok(())
    } else {
        let name = escaped(&input.name);
        print(&format!("{name}: verified, {len} bytes\n"))
    }
}
