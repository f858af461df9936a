//! `warplock encrypt`.

use std::path::{Path, PathBuf};

use warplock_container::{Pipeline, seal};

use super::inputs::{about_one_of, each, file_object, stdin_once};
use super::outputs::Outputs;
use super::summary::Summary;
use crate::args::{Common, Encrypt};
use crate::exit::Exit;
use crate::failure::Result;
use crate::input::{Input, is_dash, or_stdin};
use crate::keys::Lock;

/// Encrypts each input to its output.
pub(super) fn run(options: &Encrypt, common: &Common) -> Result<Exit> {
    let inputs = or_stdin(&options.input);
    let (dash, optional) = (|path: &PathBuf| is_dash(path), Option::as_ref);
    stdin_once(&[
        ("the input", inputs.iter().any(dash)),
        (
            "--recipients-file",
            options.recipients_file.iter().any(dash),
        ),
        ("--identity", options.identity.iter().any(dash)),
        (
            "--passphrase-file",
            optional(&options.from.passphrase_file).is_some_and(dash),
        ),
        ("--key-file", optional(&options.key_file).is_some_and(dash)),
    ])?;
    let (given, force) = (options.output.as_deref(), options.force);
    let keys = options.recipients_file.iter().chain(&options.identity);
    let keys = keys
        .chain(&options.from.passphrase_file)
        .chain(&options.key_file);
    let keys = keys.map(PathBuf::as_path).collect();
    let outputs = Outputs::new(&inputs, given, force, keys, |input| {
        let mut name = input.as_os_str().to_owned();
        name.push(".wl");
        Ok(PathBuf::from(name))
    })?;
    let pipeline = common.pipeline()?;
    // Everything that can be refused is refused before the prompt for a passphrase.
    let (inputs, refused) = match options.passphrase || !options.identity.is_empty() {
        true => outputs.check(inputs, common),
        false => (inputs, Exit::Done),
    };
    if inputs.is_empty() {
        return Ok(refused);
    }
    let lock = Lock::new(options, common)?;
    let done = each(&inputs, common, file_object, |input| {
        let keeps = !options.no_attributes;
        encrypt(input, keeps, &outputs, &lock, &pipeline, common)
    });
    Ok(refused.max(done))
}

fn encrypt<N: Fn(&Path) -> Result<PathBuf>>(
    path: &Path,
    keeps_attributes: bool,
    outputs: &Outputs<'_, N>,
    lock: &Lock,
    pipeline: &Pipeline,
    common: &Common,
) -> Result<()> {
    let destination = outputs.of(path)?;
    let input = Input::open(path)?;
    let output = outputs.create(&destination, &input)?;
    outputs.refuse_terminal(&output)?;
    let named = |error| about_one_of(&input, &output, error);
    let attributes = input.attributes(path).filter(|_| keeps_attributes);
    let key = lock.key(attributes.as_ref());
    let (key, envelope) = key.map_err(|failure| failure.about(&input.name))?;
    let summary = Summary::start("encrypted", &input, &output, pipeline, common);

    let mut sink = output.sink()?;
    let mut written = 0;
    if let Some(envelope) = envelope {
        envelope.write(&mut sink).map_err(named)?;
        written = envelope.encoded_len();
    }
    let source = input.source()?;
    written += seal(source, sink, &key, pipeline).map_err(named)?;
    let content = summary.done();
    let name = summary.finish(output, content, written, None)?;
    outputs.note(&name, common);
    Ok(())
}
