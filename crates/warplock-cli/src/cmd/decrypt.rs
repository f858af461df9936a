//! `warplock decrypt`.

use std::ops::Bound;
use std::path::{Path, PathBuf};

use warplock_container::{Length, Pipeline, Sink, SparseFile, open, open_range};

use super::inputs::{about_one_of, each, file_object, unlock_uses_stdin};
use super::outputs::Outputs;
use super::summary::Summary;
use super::{inspect, salvage};
use crate::args::{Common, Decrypt};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, is_dash, or_stdin};
use crate::keys::Unlocker;
use crate::output::is_stdout;

/// Decrypts each input to its output.
pub(super) fn run(options: &Decrypt, common: &Common) -> Result<Exit> {
    let inputs = or_stdin(&options.input);
    unlock_uses_stdin(&inputs, &options.unlock)?;
    check_output(options, &inputs)?;
    let (given, force) = (options.output.as_deref(), options.force);
    let unlock = &options.unlock;
    let keys = unlock.identity.iter().chain(&unlock.from.passphrase_file);
    let keys = keys.chain(&unlock.key_file).map(PathBuf::as_path).collect();
    let outputs = Outputs::new(&inputs, given, force, keys, |input| {
        match (input.extension(), input.file_stem()) {
            (Some(extension), Some(_)) if extension == "wl" => Ok(input.with_extension("")),
            _ => Err(Failure::usage(
                "the name does not end in .wl; name the output with -o FILE",
            )),
        }
    })?;
    let unlocker = Unlocker::new(&options.unlock, common)?;
    let pipeline = common.pipeline()?;
    Ok(each(&inputs, common, file_object, |input| {
        if options.salvage {
            return salvage::run(input, options, &outputs, &unlocker, &pipeline, common);
        }
        decrypt(input, options, &outputs, &unlocker, &pipeline, common)
    }))
}

/// Refuses what needs an output of another kind.
fn check_output(options: &Decrypt, inputs: &[PathBuf]) -> Result<()> {
    let has_name = options.output.is_none() && !inputs.iter().all(|input| is_dash(input));
    if options.range.is_some() && has_name {
        // By default it would have the name of the whole, and --force would replace that.
        return Err(Failure::usage(
            "name an output for a part: -o FILE, or -o - for stdout",
        ));
    }
    let to_stdout = match &options.output {
        Some(path) => is_stdout(path),
        None => inputs.iter().any(|input| is_dash(input)),
    };
    if options.salvage && (options.output.is_none() || to_stdout) {
        return Err(Failure::usage(
            "name a file for what --salvage finds: -o FILE, or -o DIR/",
        ));
    }
    if options.sparse && to_stdout {
        return Err(Failure::usage(
            "--sparse makes holes in a file, not in stdout: name one with -o FILE",
        ));
    }
    Ok(())
}

fn decrypt<N: Fn(&Path) -> Result<PathBuf>>(
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
    let mut source = input.source()?;
    let (key, attributes) = unlocker
        .key(&input.name, &mut source)
        .map_err(|failure| failure.about(&input.name))?;
    let summary = Summary::start("decrypted", &input, &output, pipeline, common);
    let sparse = options.sparse && !output.is_direct();
    let sink = match sparse {
        true => Sink::positioned(SparseFile(output.file()), 0),
        false => output.sink()?,
    };
    let range = options.range;
    // For a part, the rest of the stream is not verified.
    let length = range.and_then(|_| source.remaining()).map(Length::of);
    let opened = match range {
        None => open(source, sink, &key, pipeline),
        Some(range) => {
            let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
            let range = (Bound::Included(range.start), end);
            open_range(source, sink, &key, range, pipeline)
        }
    };
    let content = opened.map_err(|error| unlocker.blame(about_one_of(&input, &output, error)))?;
    if sparse {
        output.set_len(content)?;
    }
    let whole = attributes.filter(|_| range.is_none() && !options.no_attributes);
    if let Some(attributes) = whole {
        output.restore(&attributes);
    }
    let name = summary.finish(output, content, content, length.map(inspect::length_name))?;
    if let Some(how) = length.and_then(inspect::cut) {
        common.warn(format_args!(
            "{}: this part was verified, but the file is incomplete: {how}",
            input.name
        ));
    }
    outputs.note(&name, common);
    Ok(())
}
