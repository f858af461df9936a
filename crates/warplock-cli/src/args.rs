//! The command line: one definition from which help, completions and man pages come.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use warplock::{BackendChoice, MOST_THREADS};

use crate::console::{print_with, report};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::range::Range;

#[cfg(feature = "analyze")]
mod analyze;
mod bench;
mod bulk;
mod entries;
mod examples;
mod parquet;
mod passphrase;
mod raw;
#[cfg(feature = "research")]
mod research;
mod vault;
mod work;

#[cfg(feature = "analyze")]
pub(crate) use analyze::{Analyze, Change, Choice};
pub(crate) use bench::{Bench, BenchDirection, BenchSuite};
pub(crate) use bulk::{Bulk, ForRecipients, Operation, Selection, WithIdentities};
pub(crate) use entries::Entries;
pub(crate) use parquet::{Files as ParquetFiles, Keys as ParquetKeys, Parquet};
pub(crate) use passphrase::{NewPassphraseFrom, PassphraseFrom};
pub(crate) use raw::{Pad, Raw, RawBatch, RawOptions};
#[cfg(feature = "research")]
pub(crate) use research::{Attack, Demo, Evolve, PadDirection, PadOptions, Research};
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
#[command(name = "warplock", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  warplock keygen -o key.txt                  a new identity; prints the recipient age1...
  warplock encrypt -r age1... data.bin        writes data.bin.wl
  warplock decrypt -i key.txt -o new data.bin.wl    without -o it writes data.bin
  tar c photos | warplock encrypt -p > photos.tar.wl
  warplock decrypt -o - photos.tar.wl | tar x
  warplock vault init store; mkdir plain; warplock vault mount store plain

Exit codes: 0 done: all verified, all written; 1 error; 2 wrong usage; 3 changed or cut data;
4 another one's key, identity or passphrase. If the reader of a pipe ends early, the command dies
by SIGPIPE (a shell shows 141): in scripts, use `set -o pipefail`.

The variable WARPLOCK_PASSPHRASE, or else the file warplock.passphrase in $CREDENTIALS_DIRECTORY
(systemd's LoadCredential=), is used where a passphrase would be asked for. For a new one that
replaces another it is WARPLOCK_NEW_PASSPHRASE or warplock.new-passphrase.";

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
    #[command(subcommand)]
    Bulk(Bulk),
    #[command(subcommand)]
    Parquet(Parquet),
    #[command(subcommand)]
    Raw(Raw),
    #[command(subcommand)]
    Entries(Entries),
    #[command(subcommand)]
    Vault(Vault),
    Devices(Devices),
    Calibrate(Calibrate),
    Bench(Bench),
    #[cfg(feature = "analyze")]
    Analyze(Analyze),
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

/// Make a new identity (key pair), or a key file.
///
/// An identity is an age X25519 key as age-keygen writes it: keep it secret. Its recipient
/// (age1...) is what others encrypt for.
#[derive(Args, Debug)]
#[command(after_help = examples::KEYGEN)]
pub(crate) struct Keygen {
    /// Write to FILE, readable by its owner alone, instead of stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Instead, read an identity file (without a name: stdin) and write its recipients.
    #[arg(short = 'y', long = "recipients-of", value_name = "IDENTITY")]
    #[arg(num_args = 0..=1, default_missing_value = "-")]
    #[arg(value_hint = ValueHint::FilePath, conflicts_with = "raw_key")]
    pub(crate) recipients_of: Option<PathBuf>,
    /// Make a key for --key-file instead: 32 random bytes as 64 hex digits.
    #[arg(long)]
    pub(crate) raw_key: bool,
    /// The same as --raw-key, named as the option that takes the key.
    #[arg(long, conflicts_with = "recipients_of")]
    pub(crate) key_file: bool,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    #[command(flatten)]
    pub(crate) work: MaxWork,
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Encrypt files or a stream.
///
/// Without INPUT, or for -, standard input is encrypted to standard output. Each other INPUT is
/// written to INPUT.wl, wherever stdout goes; -o - sends it there. An output file appears only when
/// it is complete.
#[derive(Args, Debug)]
#[command(after_help = examples::ENCRYPT)]
pub(crate) struct Encrypt {
    /// What to encrypt (- for stdin).
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
    /// Write to FILE (- for stdout, /dev/fd/N for a descriptor), or, if it ends with a slash, into
    /// this folder.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Encrypt for RECIPIENT (age1..., an SSH public key, a plugin's); may be repeated.
    #[arg(short, long, value_name = "RECIPIENT")]
    #[arg(conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) recipient: Vec<String>,
    /// Encrypt for the recipients in FILE (- for stdin), one a line; may be repeated. SSH keys that
    /// cannot be encrypted for are left out with a warning.
    #[arg(short = 'R', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) recipients_file: Vec<PathBuf>,
    /// Encrypt for the recipients of an identity file; may be repeated. If the file has a passphrase,
    /// --passphrase-file and the like are for that.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    /// Encrypt with a passphrase, and ask for it.
    #[arg(short, long, conflicts_with_all = ["recipient", "recipients_file", "identity"])]
    #[arg(conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) passphrase: bool,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    /// Encrypt with the key in FILE: 32 bytes or 64 hex digits (- for stdin). The output is then
    /// the bare stream, without the age file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all =
        ["recipient", "recipients_file", "identity", "passphrase", "passphrase_file",
         "passphrase_command"])]
    pub(crate) key_file: Option<PathBuf>,
    /// Do not store the permissions and the time of modification of a file, which `decrypt` restores.
    /// Where they are stored, they are encrypted. With a passphrase or --key-file there is no place
    /// for them.
    #[arg(long)]
    pub(crate) no_attributes: bool,
    #[command(flatten)]
    pub(crate) work: MaxWork,
    /// Replace existing outputs.
    #[arg(long)]
    pub(crate) force: bool,
}

/// The keys that open an encrypted file.
#[derive(Args, Debug)]
pub(crate) struct Unlock {
    /// Use the identities in FILE (an age identity file or SSH private key; - for stdin); may be
    /// repeated.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    /// Ask for a passphrase; without any key option this happens for each file that needs one.
    #[arg(short, long, conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) passphrase: bool,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    /// Use the key in FILE, for bare streams: 32 bytes or 64 hex digits (- for stdin).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all =
        ["identity", "passphrase", "passphrase_file", "passphrase_command"])]
    pub(crate) key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) work: MaxWork,
}

/// Decrypt and verify files or a stream.
///
/// Without INPUT, or for -, standard input is decrypted to standard output. Each other INPUT, named
/// NAME.wl, is written to NAME, wherever stdout goes; -o - sends it there. A file appears only when
/// all of it was verified. Standard output gets only verified data, but if the command fails, it is
/// incomplete.
#[derive(Args, Debug)]
#[command(after_help = examples::DECRYPT)]
pub(crate) struct Decrypt {
    /// What to decrypt (- for stdin).
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
    /// Write to FILE (- for stdout, /dev/fd/N for a descriptor), or, if it ends with a slash, into
    /// this folder.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) unlock: Unlock,
    /// Decrypt only the bytes from A up to but not including B of the plaintext (0..1000,
    /// 1MiB..2MiB); either may be left out. The input must be a file, and the output be named with -o. Only this part is
    /// verified: of a file that was cut, parts before the cut can be read (exit code 0, with a
    /// warning if the length tells); anything after the cut is an error (exit code 3).
    #[arg(long, value_name = "A..B")]
    pub(crate) range: Option<Range>,
    /// Of a damaged file, write what verifies. The rest is named on stderr, by its place and length,
    /// and is a hole of the output. The exit code is 3 if anything is missing. The input must be a
    /// file or device, and the output a file, named with -o.
    #[arg(long, conflicts_with_all = ["range", "sparse"])]
    pub(crate) salvage: bool,
    /// Make holes of runs of zeros (4 KiB and more), which take no space on the disk. The output must
    /// be a file.
    #[arg(long)]
    pub(crate) sparse: bool,
    /// Do not restore the permissions and the time of modification of the encrypted file. They are
    /// never looser than the umask allows, or a replaced file's.
    #[arg(long)]
    pub(crate) no_attributes: bool,
    /// Replace existing outputs.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Show what an encrypted file says about itself; needs no key, and verifies nothing.
#[derive(Args, Debug)]
#[command(after_help = examples::INSPECT)]
pub(crate) struct Inspect {
    /// What to look at (- for stdin).
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
}

/// Check that encrypted files are whole and unchanged; writes nothing.
#[derive(Args, Debug)]
#[command(after_help = examples::VERIFY)]
pub(crate) struct Verify {
    /// What to check (- for stdin).
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) unlock: Unlock,
}

/// Give encrypted files other recipients or another passphrase.
///
/// Only the envelope in front of the content is written again, so this is quick whatever the size. The
/// key of the content stays the same: a former recipient that kept it, or an older copy of the file,
/// can still decrypt the content. --rekey encrypts the content again under a fresh key. The stored
/// permissions and time of the file stay, except with a passphrase, which leaves no place for them.
///
/// The old file is valid until the new one is on the disk. Where the file system cannot share blocks
/// between files, a large file is overwritten in place, and its old envelope waits as .NAME.rewrap
/// next to it until this is done; after a crash, rewrap with the old keys repairs the file.
#[derive(Args, Debug)]
#[command(after_help = REWRAP_EXAMPLES)]
pub(crate) struct Rewrap {
    /// What to rewrap.
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) unlock: UnlockEnvelope,
    /// From now on for RECIPIENT (age1..., an SSH public key, a plugin's); may be repeated.
    #[arg(short, long, value_name = "RECIPIENT")]
    pub(crate) recipient: Vec<String>,
    /// From now on for the recipients in FILE, one a line; may be repeated.
    #[arg(short = 'R', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) recipients_file: Vec<PathBuf>,
    /// Ask for a new passphrase.
    #[arg(long, conflicts_with_all = ["recipient", "recipients_file"])]
    #[arg(conflicts_with_all = ["new_passphrase_file", "new_passphrase_command"])]
    pub(crate) new_passphrase: bool,
    #[command(flatten)]
    pub(crate) new_from: NewPassphraseFrom,
    /// Encrypt the content again under a fresh key. Takes as long as decrypting and encrypting, and
    /// the space of a second file; no plaintext is written.
    #[arg(long)]
    pub(crate) rekey: bool,
}

const REWRAP_EXAMPLES: &str = "\
Examples:
  warplock rewrap -i key.txt -r age1alice... -r age1bob... data.wl
  warplock rewrap -p --new-passphrase data.wl
  warplock rewrap --rekey -i key.txt -R team.txt data.wl";

/// The keys that open an envelope now.
#[derive(Args, Debug)]
pub(crate) struct UnlockEnvelope {
    /// Open with the identities in FILE (an age identity file or SSH private key; - for stdin); may be
    /// repeated.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    /// Ask for the present passphrase; without any key option this happens if a file needs one.
    #[arg(short, long, conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) passphrase: bool,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    #[command(flatten)]
    pub(crate) work: MaxWork,
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

/// Fill a folder with keys.bin, plains.bin and ciphers.bin: 16 bytes an entry, a key each.
///
/// For `warplock bench entries`. The keys follow from the seed and protect nothing.
#[derive(Args, Debug)]
pub(crate) struct Gen {
    /// How many entries (10M: ten million).
    #[arg(short = 'n', long, value_name = "N", value_parser = warplock_bench::size::parse)]
    pub(crate) entries: u64,
    /// The same seed gives the same files. [default: a random one, which is printed]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Replace existing files.
    #[arg(long)]
    pub(crate) force: bool,
    /// The folder; it is made if it does not exist.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

/// As many as the engine accepts: a larger number is a typing error.
fn threads(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse() {
        Ok(count @ 1..=MOST_THREADS) => Ok(NonZeroUsize::new(count).expect("it is at least 1")),
        _ => Err(format!("give a number from 1 to {MOST_THREADS}")),
    }
}

/// Commands that compute nothing; those under one of them with a slash.
const IDLE: [&str; 9] = [
    "keygen",
    "inspect",
    "completions",
    "man",
    "bulk/plan",
    "bulk/report",
    "vault/unmount",
    "vault/info",
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

/// clap's paragraphs in one line, and without arguments that might be secrets.
fn one_line(error: &clap::Error) -> String {
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(given)) => Some(given.as_str()),
        _ => None,
    };
    match (error.kind(), given(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(argument)) => return unknown(argument),
        (ErrorKind::TooManyValues, Some(option)) if option.starts_with('-') => {
            return without_value(option);
        }
        (ErrorKind::TooManyValues, Some(files)) => {
            return format!("there are too many arguments for {files}; --help tells more");
        }
        _ => {}
    }
    let mut text = error.render().to_string();
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidSubcommand] {
        if let Some(value) = given(kind).filter(|value| value.len() > MAX_SHOWN) {
            text = text.replace(&format!("'{value}'"), NOT_SHOWN);
            text = text.replace(value, NOT_SHOWN);
        }
    }
    let mut paragraphs = text.split("\n\n").map(|paragraph| {
        paragraph
            .lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" ")
    });
    let first = paragraphs.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(&first);
    let tip = paragraphs.find(|paragraph| paragraph.starts_with("tip: "));
    let tip = tip
        .map(|tip| format!("; {}", &tip["tip: ".len()..]))
        .unwrap_or_default();
    format!("{first}{tip}; --help tells more")
}

fn unknown(argument: &str) -> String {
    // A key that contains a space would end up here.
    let name = argument.split('=').next().unwrap_or_default();
    if name.starts_with('-') && name.len() <= MAX_SHOWN {
        format!("there is no option {name} here; --help lists all")
    } else {
        format!("an argument {NOT_SHOWN} belongs to no option; --help lists all")
    }
}

/// Whatever its length: after `--passphrase=` it is a secret.
fn without_value(option: &str) -> String {
    let asks = match option.ends_with("passphrase") {
        true => " and asks",
        false => "",
    };
    format!("{option} takes no value{asks}; the one given {NOT_SHOWN} is not used")
}

/// Anything longer is not a mistyped option or value.
const MAX_SHOWN: usize = 20;
const NOT_SHOWN: &str = "(not shown, it may be a secret)";

#[cfg(test)]
mod tests;
