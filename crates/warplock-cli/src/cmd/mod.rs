//! One file for each command.

#[cfg(feature = "analyze")]
mod analyze;
mod batch;
#[cfg(target_os = "linux")]
mod bench;
#[cfg(unix)]
mod bulk;
mod calibrate;
mod decrypt;
mod devices;
mod encrypt;
#[cfg(target_os = "linux")]
mod generate;
mod inputs;
mod inspect;
mod keygen;
mod man;
mod outputs;
mod parquet;
mod raw;
#[cfg(feature = "research")]
mod research;
mod rewrap;
mod salvage;
mod summary;
#[cfg(target_os = "linux")]
mod vault;
mod verify;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::inputs::file_object;
use crate::args::{self, Cli, Command, Parquet};
#[cfg(feature = "research")]
use crate::args::{PadDirection, Research};
use crate::console::{print_with, report};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::is_dash;
use crate::output::{self, is_stdout};
use crate::system::{self, startup::was_closed};

/// Runs the command and reports what failed.
pub(crate) fn run(cli: Cli) -> Exit {
    let Cli {
        command,
        mut common,
    } = cli;
    common.data_on_stdout = data_on_stdout(&command);
    let common = &common;
    let object = subject(&command);
    let outcome = match command {
        Command::Keygen(options) => keygen::run(&options, common),
        Command::Encrypt(options) => encrypt::run(&options, common),
        Command::Decrypt(options) => decrypt::run(&options, common),
        Command::Inspect(options) => inspect::run(&options, common),
        Command::Verify(options) => verify::run(&options, common),
        Command::Rewrap(options) => rewrap::run(&options, common),
        #[cfg(unix)]
        Command::Bulk(command) => bulk::run(command, common),
        Command::Parquet(command) => parquet::run(command, common),
        Command::Raw(raw) => raw::run(raw, common),
        Command::Entries(entries) => batch::entries(entries, common),
        #[cfg(target_os = "linux")]
        Command::Vault(command) => vault::run(command, common),
        Command::Devices(options) => devices::run(&options, common),
        Command::Calibrate(options) => calibrate::run(&options, common),
        #[cfg(target_os = "linux")]
        Command::Bench(options) => bench::run(options, common),
        #[cfg(feature = "analyze")]
        Command::Analyze(options) => analyze::run(&options, common),
        #[cfg(feature = "research")]
        Command::Research(command) => research::run(command, common),
        #[cfg(target_os = "linux")]
        Command::Gen(options) => generate::run(options, common),
        Command::Completions { shell } => completions(shell),
        Command::Man { dir } => man::run(&dir),
    };
    let exit = outcome.unwrap_or_else(|failure| common.fail(&failure, object));
    exit.max(close_stdout())
}

/// Whether a command's data goes to standard output, so that JSON must go elsewhere.
fn data_on_stdout(command: &Command) -> bool {
    let goes_there = |output: &Option<PathBuf>, inputs: &[PathBuf]| match output {
        Some(path) => is_stdout(path),
        None => inputs.iter().all(|input| is_dash(input)),
    };
    match command {
        Command::Encrypt(options) => goes_there(&options.output, &options.input),
        Command::Decrypt(options) => goes_there(&options.output, &options.input),
        Command::Parquet(Parquet::Decrypt { files, .. } | Parquet::Encrypt { files, .. }) => {
            is_stdout(&files.output)
        }
        #[cfg(feature = "research")]
        Command::Research(command) => match command {
            Research::Evolve(options) => goes_there(&options.output, &[]),
            Research::Pad(PadDirection::Encrypt(options) | PadDirection::Decrypt(options)) => {
                goes_there(&options.output, &[])
            }
            _ => false,
        },
        Command::Raw(raw) => goes_there(raw.output(), &[]),
        Command::Entries(entries) => goes_there(&entries.options().output, &[]),
        _ => false,
    }
}

/// The first fields of a failed command's JSON object. Commands with any number of inputs have an
/// object for each; this is then for failures of the whole command.
fn subject(command: &Command) -> Value {
    match command {
        Command::Raw(raw) => file_object(raw.input().unwrap_or(Path::new("-"))),
        Command::Entries(entries) => {
            file_object(entries.options().input.as_deref().unwrap_or(Path::new("-")))
        }
        #[cfg(target_os = "linux")]
        Command::Vault(command) => vault::subject(command),
        Command::Parquet(Parquet::Decrypt { files, .. } | Parquet::Encrypt { files, .. }) => {
            file_object(&files.input)
        }
        Command::Parquet(Parquet::Inspect { input }) => file_object(input),
        #[cfg(feature = "analyze")]
        Command::Analyze(options) => match options.files.last() {
            Some(file) => file_object(file),
            None => json!({}),
        },
        _ => json!({}),
    }
}

/// Where standard output is a file on a file system that writes late, errors may come only when it
/// is closed.
fn close_stdout() -> Exit {
    if was_closed(1) {
        return Exit::Done;
    }
    match system::stdout().and_then(output::close) {
        Ok(()) => Exit::Done,
        Err(error) => report(&Failure::writing(&error).about("stdout")),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::definition(), "warplock", &mut script);
    print_with(|| io::stdout().write_all(&script))?;
    Ok(Exit::Done)
}
