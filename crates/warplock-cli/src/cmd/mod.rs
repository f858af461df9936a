//! One file for each command.

mod bench;
mod calibrate;
mod decrypt;
mod devices;
mod encrypt;
mod generate;
mod inspect;
mod keygen;
mod raw;
mod vault;
mod verify;

use std::fmt::Display;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::CommandFactory;
use serde_json::json;
use warplock::Engine;
use warplock_container::{Runner, Sizes};
use warplock_keyring::{Exposed, shown_name};

use crate::args::{Cli, Command, Common, Unlock};
use crate::closed::was_closed;
use crate::exit::Exit;
use crate::failure::{Failure, Result, escaped};
use crate::input::{Input, is_dash};
use crate::output::Output;
use crate::progress::Progress;

/// Runs the command and reports what failed.
pub(crate) fn run(cli: Cli) -> Exit {
    let Cli { command, common } = cli;
    let common = &common;
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
    outcome.unwrap_or_else(|failure| report(&failure))
}

/// Prints a failure as one line; gives its exit code.
pub(crate) fn report(failure: &Failure) -> Exit {
    if !failure.is_silent() {
        say(format_args!("warplock: {failure}"));
    }
    failure.exit()
}

/// Prints a line on stderr. If that is closed, nobody is left to tell.
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
    fn runner(&self) -> Result<Runner> {
        let engine = Common {
            threads: Some(NonZeroUsize::MIN),
            ..self.clone()
        }
        .engine()?;
        let mut sizes = Sizes::default();
        sizes.workers = self.threads.unwrap_or(sizes.workers);
        Ok(Runner::with_engine(engine).with_sizes(sizes))
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
}

/// What an engine's GPUs did, in words; empty if nothing.
fn gpu_shares(engine: &Engine) -> String {
    let shares = engine.shares().into_iter();
    let each = shares.map(|share| format!("{} bytes on {}", share.bytes, share.backend));
    let each: Vec<_> = each.collect();
    match each.is_empty() {
        true => String::new(),
        false => format!("; {}, the rest on the CPU", each.join(", ")),
    }
}

/// Does `work` for each input; one that fails is reported and does not keep the others from being
/// done. Gives the worst exit code.
fn each(inputs: &[PathBuf], mut work: impl FnMut(&Path) -> Result<()>) -> Exit {
    let outcomes = inputs.iter().map(|input| match work(input) {
        Ok(()) => Exit::Done,
        Err(failure) => report(&failure),
    });
    outcomes.max().unwrap_or(Exit::Done)
}

/// Ciphertext on a screen helps nobody.
fn refuse_terminal() -> Failure {
    Failure::usage(
        "refusing to write ciphertext to a terminal; name a file with -o (-o - writes it anyway)",
    )
}

/// Where the results of a command's inputs go.
struct Outputs<'a, N> {
    /// As given with `-o`.
    given: Option<&'a Path>,
    /// Makes the output's name from the input's.
    name: N,
}

/// Refuses `-o` for several inputs, and standard input among others, which has no name.
fn outputs<'a, N: Fn(&Path) -> Result<PathBuf>>(
    inputs: &[PathBuf],
    given: Option<&'a Path>,
    name: N,
) -> Result<Outputs<'a, N>> {
    if inputs.len() > 1 && given.is_some() {
        return Err(Failure::usage(
            "-o names one output, but there are several inputs; leave it out",
        ));
    }
    if inputs.len() > 1 && inputs.iter().any(|input| is_dash(input)) {
        return Err(Failure::usage(
            "stdin cannot be one of several inputs: its output has no name",
        ));
    }
    Ok(Outputs { given, name })
}

impl<N: Fn(&Path) -> Result<PathBuf>> Outputs<'_, N> {
    fn of(&self, input: &Path) -> Result<PathBuf> {
        match self.given {
            Some(output) => Ok(output.to_owned()),
            None if is_dash(input) => Ok(input.to_owned()),
            None => (self.name)(input).map_err(|failure| failure.about(shown_name(input))),
        }
    }
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

/// Shows progress while a file is worked on, and at its end what was done.
struct Summary<'a> {
    verb: &'static str,
    input: String,
    common: &'a Common,
    progress: Progress,
    runner: &'a Runner,
    /// The runner's count at the start.
    before: u64,
    started: Instant,
}

impl<'a> Summary<'a> {
    fn start(
        verb: &'static str,
        input: &Input,
        output: &Output,
        runner: &'a Runner,
        common: &'a Common,
    ) -> Self {
        let (monitor, before) = (runner.monitor().clone(), runner.monitor().done());
        let wanted = !common.quiet && !output.is_terminal();
        let done = move || monitor.done() - before;
        let progress = Progress::start(&input.name, input.len, done, wanted);
        let (input, started) = (input.name.clone(), Instant::now());
        Summary {
            verb,
            input,
            common,
            progress,
            runner,
            before,
            started,
        }
    }

    /// Bytes of input that are done.
    fn done(&self) -> u64 {
        self.runner.monitor().done() - self.before
    }

    /// Publishes the output, into which `written` bytes went.
    fn finish(self, output: Output, content: u64, written: u64) -> Result<()> {
        let to_stdout = output.is_stdout();
        let name = output.name.clone();
        output.publish()?;
        drop(self.progress);
        let seconds = self.started.elapsed().as_secs_f64();
        let Summary {
            verb,
            input,
            common,
            runner,
            ..
        } = self;
        common.note(format_args!(
            "{input}: {verb} to {name}: {content} bytes of content in {seconds:.3} s, {:.0} MB/s, \
             by {}{}",
            content as f64 / seconds / 1e6,
            runner.engine().backend(),
            gpu_shares(runner.engine())
        ));
        if !common.json {
            return Ok(());
        }
        let line = format!(
            "{}\n",
            json!({
                "input": input,
                "output": name,
                "content_bytes": content,
                "output_bytes": written,
                "seconds": seconds,
            })
        );
        if to_stdout {
            // As it is: JSON has escapes of its own.
            let _ = io::stderr().write_all(line.as_bytes());
            return Ok(());
        }
        print(&line)
    }
}

/// Prints a result on standard output.
fn print(text: &str) -> Result<()> {
    if was_closed(1) {
        return Err(Failure::error("is closed, and what belongs there is lost").about("stdout"));
    }
    let mut stdout = io::stdout().lock();
    let printed = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    printed.map_err(|error| Failure::writing(&error).about("stdout"))
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
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

fn man(dir: &Path) -> Result<Exit> {
    clap_mangen::generate_to(Cli::command(), dir)
        .map_err(|error| Failure::writing(&error).about(dir.display()))?;
    Ok(Exit::Done)
}
