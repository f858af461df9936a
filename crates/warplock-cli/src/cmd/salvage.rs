//! `warplock decrypt --salvage`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warplock_container::{Error, Pipeline, Salvaged, WriteAt, salvage};

use super::inputs::about_one_of;
use super::outputs::Outputs;
use crate::args::{Common, Decrypt};
use crate::console::{report, say};
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::keys::Unlocker;
use crate::progress::Progress;

/// Writes what verifies of `input`, and names the rest.
pub(super) fn run<N: Fn(&Path) -> Result<PathBuf>>(
    input: &Path,
    options: &Decrypt,
    outputs: &Outputs<'_, N>,
    unlocker: &Unlocker,
    pipeline: &Pipeline,
    common: &Common,
) -> Result<()> {
    let path = outputs.of(input)?;
    let input = Input::open(input)?;
    let mut output = outputs.create(&path, &input)?;
    if output.is_direct() {
        let sentence = "is no regular file, and --salvage makes holes; name another one with -o";
        return Err(Failure::usage(sentence).about(&output.name));
    }
    let mut source = input.source()?;
    let (key, attributes) = unlocker
        .key(&input.name, &mut source)
        .map_err(|failure| failure.about(&input.name))?;
    let (monitor, before) = (pipeline.monitor().clone(), pipeline.monitor().done());
    let done = move || monitor.done() - before;
    let progress = Progress::start(&input.name, input.len, done, !common.quiet);
    let write = |at, bytes: &[u8]| output.file().write_all_at(bytes, at).map_err(Error::Write);
    let found = salvage(source, &key, pipeline, write)
        .map_err(|error| unlocker.blame(about_one_of(&input, &output, error)))?;
    drop(progress);
    output.set_len(found.len)?;
    if let Some(attributes) = attributes.filter(|_| !options.no_attributes) {
        output.restore(&attributes);
    }
    let Salvaged {
        verified,
        len,
        holes,
        has_end,
        fault,
    } = found;
    let end = holes.last().map_or(len, |hole| hole.end.max(len));
    let more = if has_end { "" } else { " or more" };
    let failure = fault.map(|fault| {
        let fault = unlocker.blame(Failure::from(fault).about(&input.name));
        match verified {
            0 => fault.advise("nothing of it verifies"),
            _ => fault.advise(format_args!("salvaged {verified} of {end} bytes{more}")),
        }
    });
    let failure = match failure {
        Some(failure) if verified == 0 => return Err(failure),
        failure => failure,
    };
    let name = output.name.clone();
    output.publish()?;
    if !common.quiet {
        for hole in &holes {
            say(format_args!(
                "warplock: {}: lost: {} bytes at offset {}",
                input.name,
                hole.end - hole.start,
                hole.start
            ));
        }
        if !has_end {
            say(format_args!(
                "warplock: {}: lost: the end, an unknown number of bytes at offset {end}",
                input.name
            ));
        }
    }
    if common.json {
        let holes = holes
            .iter()
            .map(|hole| json!({ "offset": hole.start, "length": hole.end - hole.start }));
        let mut object = json!({
            "file": input.name,
            "output": name,
            "content_bytes": verified,
            "output_bytes": len,
            "holes": holes.collect::<Vec<Value>>(),
            "has_end": has_end,
        });
        if let (Some(failure), Some(fields)) = (&failure, object.as_object_mut()) {
            failure.describe(fields);
        }
        common.emit(&object)?;
    }
    match failure {
        None => Ok(()),
        // Its JSON object is printed already.
        Some(failure) => {
            report(&failure);
            Err(Failure::reported(crate::exit::Exit::Authentication))
        }
    }
}
