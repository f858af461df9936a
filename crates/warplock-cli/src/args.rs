//! The command line: one definition from which help, completions and man pages come.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use warplock::{BackendChoice, MOST_THREADS};

use crate::console::{print_with, report};
use crate::exit::Exit;
use crate::failure::Failure;

#[cfg(feature = "analyze")]
mod analyze;
#[cfg(target_os = "linux")]
mod bench;
#[cfg(unix)]
mod bulk;
mod entries;
mod examples;
mod files;
mod one_line;
mod parquet;
mod passphrase;
mod raw;
#[cfg(feature = "research")]
mod research;
#[cfg(target_os = "linux")]
mod vault;
mod work;

#[cfg(feature = "analyze")]
pub(crate) use analyze::{Analyze, Change, Choice};
#[cfg(target_os = "linux")]
pub(crate) use bench::{Bench, BenchDirection, BenchSuite, Gen};
#[cfg(unix)]
pub(crate) use bulk::{Bulk, ForRecipients, Operation, Selection, WithIdentities};
pub(crate) use entries::Entries;
pub(crate) use files::{Decrypt, Encrypt, Inspect, Keygen, Rewrap, Unlock, UnlockEnvelope, Verify};
use one_line::one_line;
pub(crate) use parquet::{Files as ParquetFiles, Keys as ParquetKeys, Parquet};
pub(crate) use passphrase::{NewPassphraseFrom, PassphraseFrom};
pub(crate) use raw::{Pad, Raw, RawBatch, RawOptions};
#[cfg(feature = "research")]
pub(crate) use research::{Attack, Demo, Evolve, PadDirection, PadOptions, Research};
#[cfg(target_os = "linux")]
pub(crate) use vault::{
    Cache, MemoryAccept, MemoryForget, MemoryInfo, MemoryPlace, NewKey, Vault, VaultCheck,
    VaultExportKey, VaultInfo, VaultInit, VaultKey, VaultList, VaultMemory, VaultMount,
    VaultPasswd, VaultRecover, VaultUnlock, VaultUnmount,
};
pub(crate) use work::MaxWork;

/// Encrypts files and streams at the speed of the machine.
///
/// Encrypted files (.wl) hold an age file with a random key, and the data as C2SP chunked
/// encryption (Cobblestone-256): both open without this program.
#[derive(Debug, Parser)]
#[command(name = "warplock", version, arg_required_else_help = true, after_help = examples::program())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Common {
    /// Where to compute: auto, cpu, cpu:NAME (an instruction set), cuda, cuda:N or cuda:N,M.
    /// [default: what WARPLOCK_BACKEND says, or auto]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) backend: Option<BackendChoice>,
    /// CPU threads to use, at most 4096. [default: one for each core; for encrypted files at most
    /// 32, because more would wait for each other]
    #[arg(long, global = true, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Print results as JSON, one object a line for each input, failed ones too; to stderr if the
    /// data goes to stdout. docs/json.md lists the fields.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Whether standard output is for data, and JSON goes to stderr.
    #[arg(skip)]
    pub(crate) data_on_stdout: bool,
    /// Say more on stderr: files, sizes, speed.
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Say nothing but errors.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

// Each command's help is the documentation of its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Keygen(Keygen),
    Encrypt(Encrypt),
    Decrypt(Decrypt),
    Inspect(Inspect),
    Verify(Verify),
    Rewrap(Rewrap),
    #[cfg(unix)]
    #[command(subcommand)]
    Bulk(Bulk),
    #[command(subcommand)]
    Parquet(Parquet),
    #[command(subcommand)]
    Raw(Raw),
    #[command(subcommand)]
    Entries(Entries),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Vault(Vault),
    Devices(Devices),
    Calibrate(Calibrate),
    #[cfg(target_os = "linux")]
    Bench(Bench),
    #[cfg(feature = "analyze")]
    Analyze(Analyze),
    #[cfg(target_os = "linux")]
    Gen(Gen),
    #[cfg(feature = "research")]
    #[command(subcommand)]
    Research(Research),
    /// Print a completion script for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// For which shell.
        shell: Shell,
    },
    /// Write the man pages into a folder
    #[command(after_help = examples::MAN)]
    Man {
        /// An existing folder.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
}

/// List what this machine can compute on.
#[derive(Args, Debug)]
#[command(after_help = examples::DEVICES)]
pub(crate) struct Devices {
    /// List the algorithms instead.
    #[arg(long)]
    pub(crate) algorithms: bool,
}

/// Measure this machine for --backend auto.
///
/// Takes a few seconds, and stores the result in the cache folder ($XDG_CACHE_HOME/warplock or
/// ~/.cache/warplock), where all later commands find it. It decides where work is done, never the
/// result. Repeat it when little else runs on the machine; a new GPU, driver or version of warplock
/// makes it invalid. Without it, careful guesses are used.
#[derive(Args, Debug)]
#[command(after_help = examples::CALIBRATE)]
pub(crate) struct Calibrate {
    /// Print the result, and store nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// As many as the engine accepts: a larger number is a typing error.
fn threads(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse() {
        Ok(count @ 1..=MOST_THREADS) => Ok(NonZeroUsize::new(count).expect("it is at least 1")),
        _ => Err(format!("give a number from 1 to {MOST_THREADS}")),
    }
}

/// Commands that compute nothing; those under one of them with a slash.
const IDLE: &[&str] = &[
    "keygen",
    "inspect",
    "completions",
    "man",
    #[cfg(unix)]
    "bulk/plan",
    #[cfg(unix)]
    "bulk/report",
    #[cfg(target_os = "linux")]
    "vault/unmount",
    #[cfg(target_os = "linux")]
    "vault/info",
    #[cfg(target_os = "linux")]
    "vault/memory",
];

/// The definition of the command line. `--backend` and `--threads` are shown only where they act.
pub(crate) fn definition() -> clap::Command {
    let mut root = Cli::command();
    let shown = root.get_arguments();
    let shown = shown.filter(|option| ["backend", "threads"].contains(&option.get_id().as_str()));
    // A command's own option takes the place of the one of all commands.
    let hidden: Vec<_> = shown.map(|option| option.clone().hide(true)).collect();
    let hide = |command: clap::Command| command.args(&hidden);
    for name in IDLE {
        root = match name.split_once('/') {
            None => root.mut_subcommand(name, hide),
            Some((above, name)) => {
                root.mut_subcommand(above, |above| above.mut_subcommand(name, hide))
            }
        };
    }
    root
}

/// Parses arguments. If they are wrong or ask for help, prints that, and gives the exit code.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    let matches = definition().try_get_matches_from(arguments);
    matches
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| {
            if error.use_stderr()
                && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            {
                return report(&Failure::usage(one_line(&error)));
            }
            if error.use_stderr() {
                let _ = error.print();
                return Exit::Usage;
            }
            match print_with(|| error.print()) {
                Ok(()) => Exit::Done,
                Err(failure) => report(&failure),
            }
        })
}

#[cfg(test)]
mod tests;
