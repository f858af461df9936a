//! Steps with inputs that several commands share.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warplock::Engine;
use warplock_container::interrupted_rewrap;

use crate::args::{Common, Unlock};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Input, input_name, is_dash};
use crate::output::Output;

/// The first fields of an input's JSON object.
pub(super) fn file_object(input: &Path) -> Value {
    json!({ "file": input_name(input) })
}

/// The work of an engine's GPUs, in words; empty if there was none.
pub(super) fn gpu_shares(engine: &Engine) -> String {
    let shares = engine.gpu_bytes().into_iter();
    let each = shares.map(|share| format!("{} bytes on {}", share.bytes, share.backend));
    let each: Vec<_> = each.collect();
    match each.is_empty() {
        true => String::new(),
        false => format!("; {}, the rest on the CPU", each.join(", ")),
    }
}

/// Does `work` for each input and returns the worst exit code. An input that fails is reported (with
/// `--json` also in `object`), and the others are still done, unless the output's reader is gone.
pub(super) fn each(
    inputs: &[PathBuf],
    common: &Common,
    object: impl Fn(&Path) -> Value,
    mut work: impl FnMut(&Path) -> Result<()>,
) -> Exit {
    let mut worst = Exit::Done;
    for input in inputs {
        if let Err(mut failure) = work(input) {
            if let Some(saved) = interrupted_rewrap(input) {
                failure = failure.advise(format_args!(
                    "a rewrap of this file was interrupted, which rewrapping it again with the old \
                     keys repairs: its old envelope is {}",
                    saved.display()
                ));
            }
            worst = worst.max(common.fail(&failure, object(input)));
        }
        if worst == Exit::Pipe {
            break;
        }
    }
    worst
}

/// Names the file that a failure is about.
pub(super) fn about_one_of(
    input: &Input,
    output: &Output,
    error: warplock_container::Error,
) -> Failure {
    let name = match error {
        warplock_container::Error::Write(_) => &output.name,
        _ => &input.name,
    };
    Failure::from(error).about(name)
}

/// Refuses to read keys and data both from standard input.
pub(super) fn unlock_uses_stdin(inputs: &[PathBuf], unlock: &Unlock) -> Result<()> {
    let dash = |path: &PathBuf| is_dash(path);
    stdin_once(&[
        ("the input", inputs.iter().any(dash)),
        ("--identity", unlock.identity.iter().any(dash)),
        (
            "--passphrase-file",
            unlock.from.passphrase_file.as_ref().is_some_and(dash),
        ),
        ("--key-file", unlock.key_file.as_ref().is_some_and(dash)),
    ])
}

/// Refuses a command in which standard input is wanted for more than one thing.
pub(super) fn stdin_once(uses: &[(&str, bool)]) -> Result<()> {
    let uses: Vec<_> = uses
        .iter()
        .filter(|(_, used)| *used)
        .map(|(what, _)| *what)
        .collect();
    if uses.len() > 1 {
        return Err(Failure::usage(format_args!(
            "stdin can be read once only, not for {}; put one into a file",
            uses.join(" and ")
        )));
    }
    Ok(())
}
