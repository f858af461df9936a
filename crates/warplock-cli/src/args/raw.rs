//! `raw`: bare ciphers.

use std::path::PathBuf;

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
}

impl Raw {
    /// The options of both directions.
    pub(crate) fn options(&self) -> &RawOptions {
        match self {
            Raw::Encrypt(options) => options,
            Raw::Decrypt(decrypt) => &decrypt.options,
        }
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
