//! The keys of vaults.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};

use crate::args::{MaxWork, NewPassphraseFrom, PassphraseFrom};

/// The keys that shall open a vault.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NewKey {
    /// For RECIPIENT (age1..., an SSH public key, a plugin's); may be repeated.
    #[arg(short, long, value_name = "RECIPIENT")]
    pub(crate) recipient: Vec<String>,
    /// For the recipients in FILE, one a line; may be repeated.
    #[arg(short = 'R', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) recipients_file: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) new_from: NewPassphraseFrom,
}

/// The keys that open a vault.
#[derive(Args, Debug)]
pub(crate) struct VaultUnlock {
    /// Use the identities in FILE (an age identity file or SSH private key); may be repeated.
    /// Without this or --passphrase-file the passphrase is asked for.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    #[command(flatten)]
    pub(crate) work: MaxWork,
}

/// Change a vault's passphrase, or add and remove keys.
///
/// Only the wrapped master key is written again, no file. An old passphrase still opens an old copy
/// of warplock.vault: to lock its owner out, move the files to a new vault.
#[derive(Args, Debug)]
pub(crate) struct VaultPasswd {
    /// The vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) unlock: VaultUnlock,
    #[command(flatten)]
    pub(crate) keys: NewKey,
    /// Which key to change.
    #[arg(long, value_name = "NAME", default_value = "main")]
    #[arg(conflicts_with_all = ["add", "remove"])]
    pub(crate) name: String,
    /// Add a key called NAME instead.
    #[arg(long, value_name = "NAME")]
    pub(crate) add: Option<String>,
    /// Remove the key called NAME instead.
    #[arg(long, value_name = "NAME", conflicts_with = "add")]
    #[arg(conflicts_with_all = ["recipient", "recipients_file", "new_passphrase_file", "new_passphrase_command"])]
    pub(crate) remove: Option<String>,
    /// Instead, remove the keys that were renamed, changed or added without the vault's key.
    /// Nothing else can be done with such keys, because their names say nothing about them.
    #[arg(long, conflicts_with_all = ["add", "remove", "name"])]
    #[arg(conflicts_with_all = ["recipient", "recipients_file", "new_passphrase_file", "new_passphrase_command"])]
    pub(crate) remove_altered: bool,
}

/// Add, change and remove keys of a vault.
#[derive(Debug, Subcommand)]
pub(crate) enum VaultKey {
    Add(KeyAdd),
    Change(KeyChange),
    Remove(KeyRemove),
}

/// Add a key: a passphrase, or recipients. Any of a vault's keys opens it.
#[derive(Args, Debug)]
pub(crate) struct KeyAdd {
    /// The vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// What the key is to be called.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) unlock: VaultUnlock,
    #[command(flatten)]
    pub(crate) keys: NewKey,
}

/// Replace a key by another: a new passphrase, for example.
///
/// An old passphrase still opens an old copy of warplock.vault.
#[derive(Args, Debug)]
pub(crate) struct KeyChange {
    /// The vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Which key.
    #[arg(default_value = "main")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) unlock: VaultUnlock,
    #[command(flatten)]
    pub(crate) keys: NewKey,
}

/// Remove a key.
///
/// It still opens an old copy of warplock.vault: to lock its owner out, move the files to a new vault.
#[derive(Args, Debug)]
pub(crate) struct KeyRemove {
    /// The vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Which key.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) unlock: VaultUnlock,
}

impl VaultKey {
    /// The vault.
    pub(crate) fn dir(&self) -> &Path {
        match self {
            VaultKey::Add(options) => &options.dir,
            VaultKey::Change(options) => &options.dir,
            VaultKey::Remove(options) => &options.dir,
        }
    }
}

impl From<VaultKey> for VaultPasswd {
    fn from(command: VaultKey) -> Self {
        let (dir, unlock, keys, name, add, remove) = match command {
            VaultKey::Add(it) => (
                it.dir,
                it.unlock,
                it.keys,
                String::new(),
                Some(it.name),
                None,
            ),
            VaultKey::Change(it) => (it.dir, it.unlock, it.keys, it.name, None, None),
            VaultKey::Remove(it) => {
                let keys = NewKey::default();
                (it.dir, it.unlock, keys, String::new(), None, Some(it.name))
            }
        };
        VaultPasswd {
            dir,
            unlock,
            keys,
            name,
            add,
            remove,
            remove_altered: false,
        }
    }
}

/// Print a vault's master key, to be kept on paper.
///
/// With it, `vault recover` makes a lost or damaged warplock.vault again, and nothing else is needed to
/// read all files. It stays valid when keys are changed or removed: a person that has seen it can read
/// the vault for ever. Print it on a printer that keeps no copies, and lock it away.
#[derive(Args, Debug)]
pub(crate) struct VaultExportKey {
    /// The vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) unlock: VaultUnlock,
    /// Write it to FILE, which must not exist and only you can read; - for stdout, also if that is no
    /// terminal.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Make a vault's lost warplock.vault again, from what `vault export-key` printed.
///
/// The vault then opens with the passphrase or the recipients given here. That the files are the newest
/// only this machine's memory can tell.
#[derive(Args, Debug)]
pub(crate) struct VaultRecover {
    /// The vault, which has no warplock.vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// The file with the printed lines; - for stdin, where they can be typed.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) keys: NewKey,
    /// The new key's name.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) name: String,
}
