//! `--max-work`.

use clap::Args;
use warplock_keyring::MAX_WORK;

/// The accepted work for a passphrase.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct MaxWork {
    /// Open what takes up to 2^N of scrypt work for its passphrase, without a question. The maker
    /// of a file or an identity chose that work. By default 2^18 (a second, 256 MiB) is accepted,
    /// more is asked about at the terminal, and more than 2^22 (4 GiB) is always refused.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_WORK)))]
    pub(crate) max_work: Option<u8>,
}
