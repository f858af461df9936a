//! `research`: a cipher that is not secure, for study.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use crate::value::Value;

/// NOT SECURE, FOR STUDY: a pad cipher with an evolved generator, and the attack that breaks it.
///
/// Papers on image encryption optimise a generator until its output passes their statistics, and XOR
/// pictures with it. Here is such a cipher: it passes them, and sixteen known bytes give its key.
/// `evolve` and `pad` work on a GPU with --backend cuda; the results are the same.
#[derive(Debug, Subcommand)]
pub(crate) enum Research {
    /// Optimise a generator with a genetic algorithm; the same seed gives the same generator
    Evolve(Evolve),
    /// Encrypt or decrypt with a generator's pad
    #[command(subcommand)]
    Pad(PadDirection),
    /// Recover the key from a ciphertext and 16 or more known bytes of its plaintext, and decrypt
    Attack(Attack),
    /// Show that a generator passes the statistics, and that the attack finds its key
    Demo(Demo),
}

#[derive(Args, Debug)]
pub(crate) struct Evolve {
    /// Where the evolution starts.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many generations of 48 generators.
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) generations: u32,
    /// Write the generator, as JSON, to FILE instead of stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing output.
    #[arg(long)]
    pub(crate) force: bool,
}

/// The two directions.
#[derive(Debug, Subcommand)]
pub(crate) enum PadDirection {
    /// Encrypt: a random IV of 16 bytes, then the text XOR the pad
    Encrypt(PadOptions),
    /// Decrypt
    Decrypt(PadOptions),
}

#[derive(Args, Debug)]
pub(crate) struct PadOptions {
    /// What `warplock research evolve` wrote.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) generator: PathBuf,
    /// The key of 16 bytes, as hex digits or as @FILE with raw bytes.
    #[arg(short, long, value_name = "HEX|@FILE")]
    pub(crate) key: Value,
    /// Read FILE instead of stdin.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: Option<PathBuf>,
    /// Write to FILE instead of stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing output.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Attack {
    /// What `warplock research evolve` wrote.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) generator: PathBuf,
    /// A file with the known bytes. Any single block gives a key; further bytes confirm it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) known: PathBuf,
    /// Where in the plaintext they are.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: usize,
    /// The ciphertext.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) cipher: PathBuf,
    /// Write the plaintext to FILE.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing output.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// What `warplock research evolve` wrote. [default: one is evolved]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) generator: Option<PathBuf>,
    /// Other keys for the demonstration.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
}
