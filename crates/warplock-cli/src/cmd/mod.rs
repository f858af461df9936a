//! One file for each command.

mod bench;
mod calibrate;
mod decrypt;
mod devices;
mod encrypt;
mod generate;
mod inspect;
mod keygen;
mod outputs;
mod raw;
mod summary;
mod vault;
mod verify;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::CommandFactory;
use serde_json::{Value, json};
use warplock::Engine;
use warplock_container::{Concurrency, Pipeline};
use warplock_keyring::Exposed;

use crate::args::{Cli, Command, Common, Unlock};
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};
use crate::input::{Input, input_name, is_dash};
use crate::json;
use crate::output::{self, Output, is_stdout};
use crate::signals;
use crate::startup::was_closed;

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
        Command::Raw(raw) => raw::run(raw, common),
        Command::Vault(command) => vault::run(command, common),
        Command::Devices(options) => devices::run(&options, common),
        Command::Calibrate(options) => calibrate::run(&options, common),
        Command::Bench(options) => bench::run(options, common),
        Command::Gen(options) => generate::run(options, common),
        Command::Completions { shell } => completions(shell),
        Command::Man { dir } => man(&dir),
    };
    let exit = outcome.unwrap_or_else(|failure| common.fail(&failure, object));
    exit.max(close_stdout())
}

/// Whether standard output is where a command's data goes, so that JSON must go elsewhere.
fn data_on_stdout(command: &Command) -> bool {
    let goes_there = |output: &Option<PathBuf>, inputs: &[PathBuf]| match output {
        Some(path) => is_stdout(path),
        None => inputs.iter().all(|input| is_dash(input)),
    };
    match command {
        Command::Encrypt(options) => goes_there(&options.output, &options.input),
        Command::Decrypt(options) => goes_there(&options.output, &options.input),
        Command::Raw(raw) => goes_there(&raw.options().output, &[]),
        _ => false,
    }
}

/// What a failed command's JSON object begins with. Commands with any number of inputs have an
/// object for each; this is then for what refuses all of them.
fn subject(command: &Command) -> Value {
    match command {
        Command::Raw(raw) => file_object(raw.options().input.as_deref().unwrap_or(Path::new("-"))),
        Command::Vault(command) => vault::subject(command),
        _ => json!({}),
    }
}

/// What an input's JSON object begins with.
fn file_object(input: &Path) -> Value {
    json!({ "file": input_name(input) })
}

/// Where standard output is a file on a file system that writes late, errors may come only when it
/// is closed.
fn close_stdout() -> Exit {
    if was_closed(1) {
        return Exit::Done;
    }
    let copy = io::stdout().as_fd().try_clone_to_owned();
    match copy.and_then(|copy| output::close(File::from(copy))) {
        Ok(()) => Exit::Done,
        Err(error) => report(&Failure::writing(&error).about("stdout")),
    }
}

/// Prints a failure as one line; gives its exit code.
pub(crate) fn report(failure: &Failure) -> Exit {
    if !failure.is_silent() {
        signals::wait_if_ending();
        say(format_args!("warplock: {failure}"));
    }
    failure.exit()
}

/// Prints a line on stderr. If that is closed, there is no other place for it.
fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", escaped(&line.to_string()));
}

impl Common {
    /// The engine that the options ask for.
    fn engine(&self) -> Result<Engine> {
        let warn = match self.quiet {
            true => |_: &str| {},
            false => |sentence: &str| say(format_args!("warplock: warning: {sentence}")),
        };
        let mut builder = Engine::builder().warnings(warn);
        if let Some(choice) = self.backend {
            builder = builder.backend(choice);
        }
        if let Some(threads) = self.threads {
            builder = builder.threads(threads);
        }
        builder.build().map_err(Failure::usage)
    }

    /// What runs pipelines: each of its workers is a thread.
    fn pipeline(&self) -> Result<Pipeline> {
        let engine = Common {
            threads: Some(NonZeroUsize::MIN),
            ..self.clone()
        }
        .engine()?;
        let mut concurrency = Concurrency::default();
        concurrency.workers = self.threads.unwrap_or(concurrency.workers);
        Ok(Pipeline::with_engine(Arc::new(engine)).with_concurrency(concurrency))
    }

    /// Tells of something that is no error.
    fn warn(&self, sentence: impl Display) {
        if !self.quiet {
            say(format_args!("warplock: warning: {sentence}"));
        }
    }

    /// Tells of secret files that other users can read.
    pub(crate) fn warn_exposed<'a>(&self, files: impl IntoIterator<Item = &'a Exposed>) {
        files.into_iter().for_each(|file| self.warn(file));
    }

    /// Tells what was done, with `-v`.
    fn note(&self, sentence: impl Display) {
        if self.verbose {
            say(format_args!("warplock: {sentence}"));
        }
    }

    /// Prints a result as JSON.
    fn emit(&self, object: &Value) -> Result<()> {
        let line = json::line(object);
        if !self.data_on_stdout {
            return print(&line);
        }
        if was_closed(2) {
            return Err(closed().about("stderr"));
        }
        let written = io::stderr().write_all(line.as_bytes());
        written.map_err(|error| Failure::writing(&error).about("stderr"))
    }

    /// Reports a failure, with `--json` also in `object`; gives the worst exit code.
    fn fail(&self, failure: &Failure, mut object: Value) -> Exit {
        let exit = report(failure);
        let (true, false, Some(fields)) = (self.json, failure.is_silent(), object.as_object_mut())
        else {
            return exit;
        };
        failure.describe(fields);
        match self.emit(&object) {
            Ok(()) => exit,
            // That stdout is full, for example, may be what failed in the first place.
            Err(other) if other.to_string() == failure.to_string() => exit,
            Err(other) => exit.max(report(&other)),
        }
    }
}

/// What an engine's GPUs did, in words; empty if nothing.
fn gpu_shares(engine: &Engine) -> String {
    let shares = engine.gpu_bytes().into_iter();
    let each = shares.map(|share| format!("{} bytes on {}", share.bytes, share.backend));
    let each: Vec<_> = each.collect();
    match each.is_empty() {
        true => String::new(),
        false => format!("; {}, the rest on the CPU", each.join(", ")),
    }
}

/// Does `work` for each input; one that fails is reported (with `--json` also in `object`) and does
/// not keep the others from being done, unless the reader of the output has gone. Gives the worst
/// exit code.
fn each(
    inputs: &[PathBuf],
    common: &Common,
    object: impl Fn(&Path) -> Value,
    mut work: impl FnMut(&Path) -> Result<()>,
) -> Exit {
    let mut worst = Exit::Done;
    for input in inputs {
        if let Err(failure) = work(input) {
            worst = worst.max(common.fail(&failure, object(input)));
        }
        if worst == Exit::Pipe {
            break;
        }
    }
    worst
}

/// Names the file that a failure is about.
fn about_one_of(input: &Input, output: &Output, error: warplock_container::Error) -> Failure {
    let name = match error {
        warplock_container::Error::Write(_) => &output.name,
        _ => &input.name,
    };
    Failure::from(error).about(name)
}

/// Refuses to read keys and data both from standard input.
fn unlock_uses_stdin(inputs: &[PathBuf], unlock: &Unlock) -> Result<()> {
    let dash = |path: &PathBuf| is_dash(path);
    stdin_once(&[
        ("the input", inputs.iter().any(dash)),
        ("--identity", unlock.identity.iter().any(dash)),
        (
            "--passphrase-file",
            unlock.passphrase_file.as_ref().is_some_and(dash),
        ),
        ("--key-file", unlock.key_file.as_ref().is_some_and(dash)),
    ])
}

/// Prints lines on standard output. Names that are line ends in part must be escaped already.
fn print(text: &str) -> Result<()> {
    let lines: Vec<_> = text.split('\n').map(escaped).collect();
    print_with(|| io::stdout().write_all(lines.join("\n").as_bytes()))
}

/// Has something printed on standard output.
pub(crate) fn print_with(print: impl FnOnce() -> io::Result<()>) -> Result<()> {
    if was_closed(1) {
        return Err(closed().about("stdout"));
    }
    let printed = print().and_then(|()| io::stdout().flush());
    printed.map_err(|error| Failure::writing(&error).about("stdout"))
}

fn closed() -> Failure {
    Failure::error("is closed, and what belongs there is lost")
}

/// Refuses a command in which standard input is wanted for more than one thing.
fn stdin_once(uses: &[(&str, bool)]) -> Result<()> {
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

fn completions(shell: clap_complete::Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "warplock", &mut script);
    print_with(|| io::stdout().write_all(&script))?;
    Ok(Exit::Done)
}

fn man(dir: &Path) -> Result<Exit> {
    clap_mangen::generate_to(Cli::command(), dir)
        .map_err(|error| Failure::writing(&error).about(dir.display()))?;
    Ok(Exit::Done)
}
