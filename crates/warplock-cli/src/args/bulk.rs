//! The options of `warplock bulk`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use warplock_bulk::Shard;

use super::{MaxWork, PassphraseFrom};

/// Encrypt, decrypt, verify or rewrap whole trees of files.
///
/// Each file has a result of its own, NAME.wl, with a fresh key, which appears only when it is
/// complete. Folders, symbolic links (not followed), modes and times are kept; names are not
/// encrypted. What was stopped goes on when it is started again: results that are there, with their
/// source's time and length, are not made again. docs/bulk.md has all rules.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Bulk {
    /// Encrypt the files in a folder into another folder
    Encrypt {
        /// The tree.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
        /// Where the results go; it is made.
        #[arg(value_hint = ValueHint::DirPath)]
        out: PathBuf,
        #[command(flatten)]
        keys: ForRecipients,
        #[command(flatten)]
        selection: Selection,
        /// Replace other files that have the results' names.
        #[arg(long)]
        force: bool,
    },
    /// Decrypt the .wl files in a folder into another folder
    Decrypt {
        /// The tree.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
        /// Where the results go; it is made.
        #[arg(value_hint = ValueHint::DirPath)]
        out: PathBuf,
        #[command(flatten)]
        keys: WithIdentities,
        #[command(flatten)]
        selection: Selection,
        /// Replace other files that have the results' names.
        #[arg(long)]
        force: bool,
    },
    /// Give the .wl files in a folder other recipients, in place
    ///
    /// Only envelopes are written again (see `warplock rewrap`); what a former recipient kept stays
    /// readable to it.
    Rewrap {
        /// The tree.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
        #[command(flatten)]
        recipients: ForRecipients,
        #[command(flatten)]
        keys: WithIdentities,
        #[command(flatten)]
        selection: Selection,
    },
    /// Verify the .wl files in a folder
    Verify {
        /// The tree.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
        #[command(flatten)]
        keys: WithIdentities,
        #[command(flatten)]
        selection: Selection,
    },
    Plan(BulkPlan),
    Run(BulkRun),
    Report(BulkReport),
}

const EXAMPLES: &str = "\
Examples:
  warplock bulk encrypt -r age1... photos vault/photos
  warplock bulk decrypt -i key.txt vault/photos photos
  warplock bulk rewrap -i key.txt -R new-team.txt vault/photos
  warplock bulk plan --op encrypt -r age1... --job job /data /backup
  warplock bulk run --shard 1/4 job       on four machines, with 0/4 to 3/4
  warplock bulk report job

Exit codes: 0 all done; 1 something failed; 3 something failed authentication. The other files are
done all the same.";

/// For whom files are encrypted.
#[derive(Args, Debug)]
pub(crate) struct ForRecipients {
    /// Encrypt for RECIPIENT (age1..., an SSH public key, a plugin's); may be repeated.
    #[arg(short, long, value_name = "RECIPIENT")]
    pub(crate) recipient: Vec<String>,
    /// Encrypt for the recipients in FILE, one a line; may be repeated.
    #[arg(short = 'R', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) recipients_file: Vec<PathBuf>,
}

/// The keys that open files.
#[derive(Args, Debug)]
pub(crate) struct WithIdentities {
    /// Use the identities in FILE (an age identity file or SSH private key); may be repeated.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    #[command(flatten)]
    pub(crate) work: MaxWork,
}

/// Which files of a tree.
#[derive(Args, Debug)]
pub(crate) struct Selection {
    /// Only files that PATTERN matches ("*.jpg", "2024/**"); may be repeated. Without a slash it is
    /// matched with names, otherwise with paths in the tree.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// No files or folders that PATTERN matches; may be repeated.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
}

/// What is done to each file.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Operation {
    /// NAME becomes NAME.wl.
    Encrypt,
    /// NAME.wl becomes NAME.
    Decrypt,
    /// NAME.wl is verified.
    Verify,
    /// NAME.wl gets other recipients.
    Rewrap,
}

/// List a tree into a job, which any number of processes can run.
///
/// The job holds names, lengths and recipients, but no secret.
#[derive(Args, Debug)]
pub(crate) struct BulkPlan {
    /// What to do with each file.
    #[arg(long)]
    pub(crate) op: Operation,
    /// The job's folder; it is made.
    #[arg(long, value_name = "JOB", value_hint = ValueHint::DirPath)]
    pub(crate) job: PathBuf,
    /// The tree.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) source: PathBuf,
    /// Where the results go; it is made. None to verify or rewrap.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) destination: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) keys: ForRecipients,
    #[command(flatten)]
    pub(crate) selection: Selection,
}

/// Run a job, or go on with one that was stopped.
#[derive(Args, Debug)]
pub(crate) struct BulkRun {
    /// The job.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) job: PathBuf,
    /// Only part I of N, from 0; each has about the same bytes. Each runs in a process of its own, on
    /// any machine that sees the same folders.
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub(crate) shard: Option<Shard>,
    #[command(flatten)]
    pub(crate) keys: WithIdentities,
    /// Replace other files that have the results' names.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Add up what the runs of a job did.
#[derive(Args, Debug)]
pub(crate) struct BulkReport {
    /// The job.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) job: PathBuf,
}

fn shard(text: &str) -> Result<Shard, String> {
    let parse = || {
        let (index, count) = text.split_once('/')?;
        let (index, count) = (index.parse().ok()?, count.parse().ok()?);
        (index < count).then_some(Shard { index, count })
    };
    parse().ok_or_else(|| "give I/N with I from 0 to N - 1".to_owned())
}
