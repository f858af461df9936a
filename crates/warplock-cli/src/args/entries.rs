//! `entries`: a key for each block.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use warplock::Algorithm;

/// AES with a key of its own for each block of 16 bytes.
///
/// Entry N of the input is encrypted under key N of the keys. As bare as `warplock raw`: nothing
/// notices changes, and equal blocks under equal keys give equal results. For data that other
/// programs have in this form.
#[derive(Debug, Subcommand)]
pub(crate) enum Entries {
    /// Encrypt each block under its own key
    #[command(after_help = EXAMPLES)]
    Encrypt(EntriesOptions),
    /// Decrypt each block with its own key
    #[command(after_help = EXAMPLES)]
    Decrypt(EntriesOptions),
}

const EXAMPLES: &str = "\
Examples:
  warplock entries encrypt --keys keys.bin --input plains.bin -o ciphers.bin
  warplock entries decrypt --keys keys.bin < ciphers.bin | sha256sum

Memory does not grow with the files. `warplock bench entries` measures this work.";

#[derive(Args, Debug)]
pub(crate) struct EntriesOptions {
    /// The cipher: its keys have 16, 24 or 32 bytes, one after the other.
    #[arg(short, long, value_name = "NAME", default_value = "aes-128")]
    pub(crate) algorithm: BlockCipher,
    /// The keys, as many as the input has blocks (- for stdin).
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) keys: PathBuf,
    /// The blocks, instead of stdin.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: Option<PathBuf>,
    /// Write to FILE instead of stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing output.
    #[arg(long)]
    pub(crate) force: bool,
}

impl Entries {
    /// The options of both directions.
    pub(crate) fn options(&self) -> &EntriesOptions {
        match self {
            Entries::Encrypt(options) | Entries::Decrypt(options) => options,
        }
    }
}

/// A cipher of single blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "kebab-case")]
pub(crate) enum BlockCipher {
    #[value(name = "aes-128")]
    Aes128,
    #[value(name = "aes-192")]
    Aes192,
    #[value(name = "aes-256")]
    Aes256,
}

impl From<BlockCipher> for Algorithm {
    fn from(cipher: BlockCipher) -> Self {
        match cipher {
            BlockCipher::Aes128 => Algorithm::Aes128Ecb,
            BlockCipher::Aes192 => Algorithm::Aes192Ecb,
            BlockCipher::Aes256 => Algorithm::Aes256Ecb,
        }
    }
}
