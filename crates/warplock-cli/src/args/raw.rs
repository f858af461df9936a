//! `raw`: bare ciphers.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use warplock::Algorithm;

use crate::value::Value;

/// Bare ciphers, byte for byte as in the standards and in `openssl enc`.
///
/// For interoperability and tests. Only gcm and acorn-128 notice changes; ecb and cbc are here for
/// other programs' data and for benchmarks only, acorn-128 (ACORN v3) for small devices' data and
/// for research. To keep your own files safe, use `warplock encrypt`.
#[derive(Debug, Subcommand)]
pub(crate) enum Raw {
    /// Encrypt with a bare cipher
    ///
    /// Only gcm and acorn-128 notice changes; ecb and cbc are here for other programs' data and for
    /// benchmarks only, acorn-128 for small devices' data and for research.
    #[command(after_help = RAW_EXAMPLES)]
    Encrypt(RawOptions),
    /// Decrypt with a bare cipher
    ///
    /// Only gcm and acorn-128 notice changes; ecb and cbc are here for other programs' data and for
    /// benchmarks only, acorn-128 for small devices' data and for research.
    #[command(after_help = RAW_EXAMPLES)]
    Decrypt(RawDecrypt),
    /// Many messages of one length from packed files
    #[command(subcommand)]
    Batch(RawBatch),
}

impl Raw {
    /// The file that is read; none: stdin.
    pub(crate) fn input(&self) -> Option<&Path> {
        match self {
            Raw::Encrypt(options) => options.input.as_deref(),
            Raw::Decrypt(decrypt) => decrypt.options.input.as_deref(),
            Raw::Batch(batch) => batch.options().input.as_deref(),
        }
    }

    /// The file that is written; none: stdout.
    pub(crate) fn output(&self) -> &Option<PathBuf> {
        match self {
            Raw::Encrypt(options) => &options.output,
            Raw::Decrypt(decrypt) => &decrypt.options.output,
            Raw::Batch(batch) => &batch.options().output,
        }
    }
}

/// Many messages of one length, one after the other in a file; keys, IVs, associated data and tags
/// in files of their own, in the same order.
#[derive(Debug, Subcommand)]
pub(crate) enum RawBatch {
    /// Encrypt or seal each message
    #[command(after_help = BATCH_EXAMPLES)]
    Encrypt(RawBatchOptions),
    /// Decrypt or open each message
    #[command(after_help = BATCH_EXAMPLES)]
    Decrypt(RawBatchOptions),
}

impl RawBatch {
    /// The options of both directions.
    pub(crate) fn options(&self) -> &RawBatchOptions {
        match self {
            RawBatch::Encrypt(options) | RawBatch::Decrypt(options) => options,
        }
    }
}

const BATCH_EXAMPLES: &str = "\
Examples, 65,536 messages of 4 KiB with a key, nonce and 32 bytes of associated data each:
  warplock raw batch encrypt -a acorn-128 --keys keys --ivs nonces --aad ad --aad-len 32 \\
      --len 4KiB -i texts -o ciphertexts --tags tags
  warplock raw batch decrypt -a acorn-128 --keys keys --ivs nonces --aad ad --aad-len 32 \\
      --len 4KiB -i ciphertexts --tags tags -o texts

Under one key, no two messages may have the same IV. Only repeats among some thousand messages that
are worked on together are refused.
A message that is not authentic ends the command, which names the first one; no output file appears.
To a pipe, only messages before that part of the batch were written.";

#[derive(Args, Debug)]
pub(crate) struct RawBatchOptions {
    /// Cipher and mode; `warplock devices --algorithms` tells more.
    #[arg(short, long, value_name = "NAME")]
    #[arg(ignore_case = true, hide_possible_values = true, value_parser = algorithm_parser())]
    pub(crate) algorithm: Algorithm,
    /// The key of all messages, as hex digits or as @FILE with raw bytes (@- for stdin).
    #[arg(short, long, value_name = "HEX|@FILE")]
    #[arg(conflicts_with = "keys", required_unless_present = "keys")]
    pub(crate) key: Option<Value>,
    /// A key for each message.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) keys: Option<PathBuf>,
    /// An IV, nonce, counter or tweak for each message: 12 bytes for gcm, otherwise 16; none for ecb.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ivs: Option<PathBuf>,
    /// Associated data of each message, of --aad-len bytes.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "aad_len")]
    pub(crate) aad: Option<PathBuf>,
    /// Bytes of associated data of each message.
    #[arg(long, value_name = "N", requires = "aad", value_parser = at_least_1)]
    pub(crate) aad_len: Option<usize>,
    /// Bytes of each message.
    #[arg(long, value_name = "SIZE", value_parser = length)]
    pub(crate) len: usize,
    /// Tags of 16 bytes, for gcm and acorn-128: written when encrypting, read when decrypting.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tags: Option<PathBuf>,
    /// Read the messages from FILE instead of stdin.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: Option<PathBuf>,
    /// Write to FILE instead of stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Replace existing outputs.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Longer messages have commands of their own.
const LONGEST: u64 = 1 << 30;

fn length(text: &str) -> Result<usize, String> {
    match crate::size::parse(text)? {
        len @ 1..=LONGEST => Ok(len as usize),
        _ => Err("give 1 byte to 1GiB".to_owned()),
    }
}

fn at_least_1(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(len @ 1..=0xffff_ffff) => Ok(len),
        _ => Err("give at least 1 byte".to_owned()),
    }
}

#[derive(Args, Debug)]
pub(crate) struct RawDecrypt {
    #[command(flatten)]
    pub(crate) options: RawOptions,
    /// For xts: accept a key whose two halves are equal, to read old data of other programs.
    #[arg(long)]
    pub(crate) equal_halves: bool,
}

const RAW_EXAMPLES: &str = "\
Examples:
  head -c 32 /dev/urandom > key; head -c 16 /dev/urandom > iv
  warplock raw encrypt --algorithm aes-256-ctr --key @key --iv @iv -i data -o data.ctr
  warplock raw decrypt --algorithm aes-256-ctr --key @key --iv @iv -i data.ctr -o data

Other users of the machine can see hex digits given as arguments: for secrets take @FILE.
Authenticated algorithms: the output is the ciphertext and then the tag. Decrypting gives out
nothing before the tag was verified; where the output cannot be withdrawn (stdout, a pipe), the
plaintext waits in an unnamed temporary file in TMPDIR.";

#[derive(Args, Debug)]
pub(crate) struct RawOptions {
    /// Cipher and mode; `warplock devices --algorithms` tells more.
    #[arg(
        short,
        long,
        value_name = "NAME",
        ignore_case = true,
        hide_possible_values = true
    )]
    #[arg(value_parser = algorithm_parser())]
    pub(crate) algorithm: Algorithm,
    /// The key, as hex digits or as @FILE with raw bytes (@- for stdin). For xts the data key and
    /// then the tweak key.
    #[arg(short, long, value_name = "HEX|@FILE")]
    pub(crate) key: Value,
    /// The IV, nonce, start counter (ctr: all 16 bytes, wraps at 2^128) or tweak (xts).
    #[arg(long, value_name = "HEX|@FILE")]
    pub(crate) iv: Option<Value>,
    /// Associated data: authenticated, not encrypted.
    #[arg(long, value_name = "HEX|@FILE")]
    pub(crate) aad: Option<Value>,
    /// Padding, for cbc and ecb. [default: pkcs7, as openssl has it]
    #[arg(long)]
    pub(crate) pad: Option<Pad>,
    /// For xts: units of N bytes, each with its own tweak, counted up (little-endian) from --iv,
    /// or from 0 without one. Otherwise the whole input is one unit.
    #[arg(long, value_name = "N")]
    pub(crate) sector: Option<usize>,
    /// Bytes of the tag: for gcm 12 to 16, to decrypt also 4 or 8; for acorn-128 only 16.
    /// [default: 16]
    #[arg(long, value_name = "N")]
    pub(crate) tag_len: Option<usize>,
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

pub(super) fn algorithm_parser() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::all().map(Algorithm::name)).map(|name| {
        name.parse()
            .expect("the parser lets only names of the table through")
    })
}

/// How the last block is filled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pad {
    /// 1 to 16 bytes, each holding their count (RFC 5652).
    Pkcs7,
    /// Not at all: the input must be whole blocks.
    None,
}
