//! The options of `warplock parquet`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Decrypt, encrypt and inspect Parquet files (Parquet Modular Encryption).
///
/// `decrypt` makes a plain Parquet file of an encrypted one, which any program reads; `encrypt` does
/// the reverse. Keys are those that Spark, pyarrow or Java encrypt with.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Parquet {
    /// Make a plain Parquet file of an encrypted one
    Decrypt {
        #[command(flatten)]
        files: Files,
        #[command(flatten)]
        keys: Keys,
    },
    /// Make an encrypted Parquet file of a plain one
    Encrypt {
        #[command(flatten)]
        files: Files,
        #[command(flatten)]
        keys: Keys,
        /// Use AES_GCM_CTR_V1, which does not authenticate pages, instead of AES_GCM_V1.
        #[arg(long)]
        ctr: bool,
        /// Leave the schema and the sizes of columns readable; the footer is signed.
        #[arg(long)]
        plaintext_footer: bool,
        /// Do not store the AAD prefix in the file: readers must give it.
        #[arg(long, requires = "aad_prefix")]
        omit_aad_prefix: bool,
    },
    /// Say how a Parquet file is encrypted, without any key
    Inspect {
        /// The file.
        #[arg(value_hint = ValueHint::FilePath)]
        input: PathBuf,
    },
}

const EXAMPLES: &str = "\
Examples:
  warplock parquet inspect table.parquet
  warplock parquet decrypt -k footer.key -o plain.parquet table.parquet
  warplock parquet decrypt -k footer.key --column-key card.number=card.key -o plain.parquet t.parquet
  warplock parquet encrypt -k footer.key --aad-prefix table-7 -o sealed.parquet plain.parquet

A key file holds 16, 24 or 32 bytes, as they are or as hex digits: 32 hex digits are a key of 16 bytes.";

/// What is read and written.
#[derive(Args, Debug)]
pub(crate) struct Files {
    /// The file; it must be one that can be read at any place.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,
    /// Write to FILE (- for stdout).
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Keys, and what belongs to them.
#[derive(Args, Debug)]
pub(crate) struct Keys {
    /// The key of the footer, and of columns without one of their own (- for stdin).
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) key_file: Option<PathBuf>,
    /// The key of a column, which is named by its path with dots; may be repeated.
    #[arg(long, value_name = "COLUMN=FILE", value_parser = named)]
    pub(crate) column_key: Vec<(String, PathBuf)>,
    /// The AAD prefix: the name of this file among those with the same keys. If it is given, another
    /// file is refused.
    #[arg(long, value_name = "TEXT")]
    pub(crate) aad_prefix: Option<String>,
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err("give COLUMN=FILE, such as card.number=card.key".to_owned()),
    }
}
