//! `warplock encrypt`.

use std::path::{Path, PathBuf};

use warplock_container::{Runner, seal};

use super::{Summary, about_one_of, each, refuse_terminal, stdin_once};
use crate::args::{Common, Encrypt};
use crate::exit::Exit;
use crate::failure::Result;
use crate::input::{Input, is_dash, or_stdin};
use crate::keys::Lock;
use crate::output::Output;

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
            optional(&options.passphrase_file).is_some_and(dash),
        ),
        ("--key-file", optional(&options.key_file).is_some_and(dash)),
    ])?;
    let outputs = super::outputs(&inputs, options.output.as_deref(), |input| {
        let mut name = input.as_os_str().to_owned();
        name.push(".wl");
        Ok(PathBuf::from(name))
    })?;
    let lock = Lock::new(options, common)?;
    let runner = common.runner()?;
    Ok(each(&inputs, |input| {
        let output = outputs.of(input)?;
        encrypt(input, &output, &lock, &runner, options, common)
    }))
}

fn encrypt(
    input: &Path,
    output: &Path,
    lock: &Lock,
    runner: &Runner,
    options: &Encrypt,
    common: &Common,
) -> Result<()> {
    let input = Input::open(input)?;
    let output = Output::create(output, options.force, Some(&input))?;
    if output.is_terminal() && options.output.is_none() {
        return Err(refuse_terminal());
    }
    let named = |error| about_one_of(&input, &output, error);
    let (key, envelope) = lock.key().map_err(|failure| failure.about(&input.name))?;
    let summary = Summary::start("encrypted", &input, &output, runner, common);

    let mut sink = output.sink()?;
    let mut written = 0;
    if let Some(envelope) = envelope {
        envelope.write(&mut sink).map_err(named)?;
        written = envelope.encoded_len();
    }
    let source = input.source()?;
    written += seal(source, sink, &key, runner).map_err(named)?;
    let content = summary.done();
    summary.finish(output, content, written)
}
