//! The options for passphrases that are not typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Where a passphrase comes from instead of the terminal.
#[derive(Args, Debug)]
pub(crate) struct PassphraseFrom {
    /// Take the passphrase from the first line of FILE (- for stdin).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Take the passphrase from the first line that COMMAND prints. A shell runs it; "$1" says what
    /// the passphrase is for.
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    #[arg(conflicts_with = "passphrase_file")]
    pub(crate) passphrase_command: Option<OsString>,
}

impl PassphraseFrom {
    /// Whether an option names a source.
    pub(crate) fn is_given(&self) -> bool {
        self.passphrase_file.is_some() || self.passphrase_command.is_some()
    }
}

/// Where a new passphrase comes from instead of the terminal.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NewPassphraseFrom {
    /// Take the new passphrase from the first line of FILE (- for stdin).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["recipient", "recipients_file"])]
    pub(crate) new_passphrase_file: Option<PathBuf>,
    /// Take the new passphrase from the first line that COMMAND prints. A shell runs it.
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    #[arg(conflicts_with_all = ["recipient", "recipients_file", "new_passphrase_file"])]
    pub(crate) new_passphrase_command: Option<OsString>,
}

impl NewPassphraseFrom {
    /// Whether an option names a source.
    pub(crate) fn is_given(&self) -> bool {
        self.new_passphrase_file.is_some() || self.new_passphrase_command.is_some()
    }
}
