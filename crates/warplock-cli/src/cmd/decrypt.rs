//! `warplock decrypt`.

use std::ops::Bound;
use std::path::Path;

use warplock_container::{Runner, open, open_range};

use super::{Summary, about_one_of, each, unlock_uses_stdin};
use crate::args::{Common, Decrypt};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, or_stdin};
use crate::keys::Unlocker;
use crate::output::Output;

/// Decrypts each input to its output.
pub(super) fn run(options: &Decrypt, common: &Common) -> Result<Exit> {
    let inputs = or_stdin(&options.input);
    unlock_uses_stdin(&inputs, &options.unlock)?;
    let outputs = super::outputs(&inputs, options.output.as_deref(), |input| {
        match (input.extension(), input.file_stem()) {
            (Some(extension), Some(_)) if extension == "wl" => Ok(input.with_extension("")),
            _ => Err(Failure::usage(
                "the name does not end in .wl; name the output with -o FILE",
            )),
        }
    })?;
    let unlocker = Unlocker::new(&options.unlock, common)?;
    let runner = common.runner()?;
    Ok(each(&inputs, |input| {
        let output = outputs.of(input)?;
        decrypt(input, &output, &unlocker, &runner, options, common)
    }))
}

fn decrypt(
    input: &Path,
    output: &Path,
    unlocker: &Unlocker,
    runner: &Runner,
    options: &Decrypt,
    common: &Common,
) -> Result<()> {
    let input = Input::open(input)?;
    let output = Output::create(output, options.force, Some(&input))?;
    let mut source = input.source()?;
    let key = unlocker
        .key(&input.name, &mut source)
        .map_err(|failure| failure.about(&input.name))?;
    let summary = Summary::start("decrypted", &input, &output, runner, common);
    let sink = output.sink()?;
    let opened = match options.range {
        None => open(source, sink, &key, runner),
        Some(range) => {
            let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
            open_range(
                source,
                sink,
                &key,
                (Bound::Included(range.start), end),
                runner,
            )
        }
    };
    let content = opened.map_err(|error| about_one_of(&input, &output, error))?;
    summary.finish(output, content, content)
}
