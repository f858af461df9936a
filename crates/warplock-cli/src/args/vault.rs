//! `warplock vault`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::MaxWork;

/// Encrypted folders, used through a mount.
///
/// A vault is a folder of encrypted files, one for each file, which any backup or sync program can
/// copy. Mounted, it shows the files themselves. Whatever is changed in it without its key is
/// noticed.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Vault {
    Init(VaultInit),
    Mount(VaultMount),
    Unmount(VaultUnmount),
    List(VaultList),
    Passwd(VaultPasswd),
    #[command(subcommand)]
    Key(VaultKey),
    ExportKey(VaultExportKey),
    Recover(VaultRecover),
    Check(VaultCheck),
    Info(VaultInfo),
    #[command(subcommand)]
    Memory(VaultMemory),
}

const EXAMPLES: &str = "\
Examples:
  warplock vault init store                   asks for a passphrase
  mkdir plain
  warplock vault mount store plain            shows the files in the folder plain
  warplock vault unmount plain
  warplock vault key add store backup -r age1...
  warplock vault export-key store -o paper.txt";

/// Make a vault in an empty folder.
///
/// Without options it asks for a passphrase. More keys can be added with `vault key add`: a vault
/// should have two. `vault export-key` prints one for paper, in a safe place.
#[derive(Args, Debug)]
pub(crate) struct VaultInit {
    /// The folder; it is made if it does not exist.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    keys: NewKey,
    /// The same as --new-passphrase-file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["recipient", "recipients_file", "new_passphrase_file"])]
    passphrase_file: Option<PathBuf>,
    /// The key's name, by which it can be changed or removed.
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) name: String,
    /// What contents are encrypted with.
    #[arg(short, long, value_name = "NAME", default_value = "aes-256-gcm")]
    #[arg(value_parser = PossibleValuesParser::new(["aes-256-gcm", "aes-128-gcm"]))]
    pub(crate) algorithm: String,
    /// Bytes that are encrypted together: 4KiB, 16KiB, 64KiB or 1MiB. Small ones suit small
    /// changes, large ones large files. It cannot be changed later.
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    #[arg(value_parser = warplock_bench::size::parse)]
    pub(crate) block_size: u64,
    #[command(flatten)]
    pub(crate) memory: MemoryPlace,
}

impl VaultInit {
    /// The keys that shall open the vault.
    pub(crate) fn new_key(&self) -> NewKey {
        let mut keys = self.keys.clone();
        keys.new_passphrase_file = keys
            .new_passphrase_file
            .or_else(|| self.passphrase_file.clone());
        keys
    }
}

/// Where this machine stores what it knows of vaults.
#[derive(Args, Debug)]
pub(crate) struct MemoryPlace {
    /// Store this machine's memory in DIR: how new each file is and what is stored where, so that
    /// it is noticed if old files are put back or files are taken away. Use a place outside of the
    /// vault, a separate one for each machine. [default: warplock/vaults in $XDG_STATE_HOME or
    /// ~/.local/state]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) memory: Option<PathBuf>,
    /// Use no memory: then old versions of files and missing files are not noticed.
    #[arg(long, conflicts_with = "memory")]
    pub(crate) no_memory: bool,
}

/// What this machine remembers of a vault.
///
/// A vault's memory notices old, missing and exchanged files. These commands are for when this is
/// intended: the vault was restored from a backup, changed on two machines at the same time, or
/// exchanged for another.
#[derive(Debug, Subcommand)]
pub(crate) enum VaultMemory {
    Info(MemoryInfo),
    Accept(MemoryAccept),
    Forget(MemoryForget),
}

/// Show what this machine remembers of a vault; needs no key.
#[derive(Args, Debug)]
pub(crate) struct MemoryInfo {
    /// The vault, which must not be mounted for writing.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Where memories are kept.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) memory: Option<PathBuf>,
}

/// Accept a vault as it is now, whatever this machine remembers.
///
/// For a vault that was restored from a backup on purpose, for files that were changed on two
/// machines, and for a memory that was itself restored from an older copy.
#[derive(Args, Debug)]
pub(crate) struct MemoryAccept {
    /// The vault, which must not be mounted.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Paths in the vault; without any, all of it.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) unlock: VaultUnlock,
    /// Where memories are kept.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) memory: Option<PathBuf>,
}

/// Forget which vault was used at this path, and all that this machine remembers of it.
///
/// For a memory that is damaged: the next mount accepts what it finds. If the vault at the path was
/// replaced by another on purpose, only the path is forgotten.
#[derive(Args, Debug)]
pub(crate) struct MemoryForget {
    /// The vault, or the path where it was.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Where memories are kept.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) memory: Option<PathBuf>,
}

/// The keys that shall open a vault.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NewKey {
    /// For RECIPIENT (age1..., an SSH public key, a plugin's); may be repeated.
    #[arg(short, long, value_name = "RECIPIENT")]
    pub(crate) recipient: Vec<String>,
    /// For the recipients in FILE, one a line; may be repeated.
    #[arg(short = 'R', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) recipients_file: Vec<PathBuf>,
    /// Take the new passphrase from the first line of FILE (- for stdin).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["recipient", "recipients_file"])]
    pub(crate) new_passphrase_file: Option<PathBuf>,
}

/// The keys that open a vault.
#[derive(Args, Debug)]
pub(crate) struct VaultUnlock {
    /// Use the identities in FILE (an age identity file or SSH private key); may be repeated.
    /// Without this or --passphrase-file the passphrase is asked for.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    /// Take the passphrase from the first line of FILE (- for stdin).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) work: MaxWork,
}

/// Show a vault's files in a folder.
///
/// Goes to the background once the mount is ready. Permissions are checked by the kernel; setuid
/// programs and device files have no effect unless asked for. Warnings (files that were altered) go
/// to stderr in the foreground, else to the system's log, which names files by their names in the
/// store.
#[derive(Args, Debug)]
pub(crate) struct VaultMount {
    /// The vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// An empty folder, where the files will be seen.
    #[arg(value_name = "MNT", value_hint = ValueHint::DirPath)]
    pub(crate) point: PathBuf,
    #[command(flatten)]
    pub(crate) unlock: VaultUnlock,
    /// Stay in the foreground; Ctrl-C unmounts.
    #[arg(short, long)]
    pub(crate) foreground: bool,
    /// Change nothing; several may then mount the same vault. This is also the case if the vault is
    /// on a read-only file system.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// For all users, as far as the files' permissions allow; else only for the user who mounts.
    ///
    /// Permissions and owners are sealed in the vault, but access lists (ACLs) are the store's own:
    /// an attacker who can change the store can give other users of this computer the rights of a
    /// file's group.
    #[arg(long)]
    pub(crate) allow_other: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryPlace,
    /// Refuse any other vault than the one with this id, which `vault info` shows.
    #[arg(long, value_name = "HEX")]
    pub(crate) id: Option<String>,
    /// Unmount after this time without use: 90s, 30m, 8h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) idle: Option<Duration>,
    /// What the kernel caches. [default: keep; with --read-only: ask]
    #[arg(long, value_name = "HOW")]
    pub(crate) cache: Option<Cache>,
    /// Let setuid and setgid programs have their effect, and capabilities, which are the store's own.
    #[arg(long)]
    pub(crate) suid: bool,
    /// Let device files have their effect.
    #[arg(long)]
    pub(crate) dev: bool,
}

/// How long the kernel relies on earlier answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cache {
    /// Names, attributes and contents for long: the vault is changed by this mount alone.
    Keep,
    /// It asks after a second, and reads contents again whenever a file is opened: others, such as
    /// a sync program, may change the vault below the mount.
    Ask,
}

/// Unmount a vault, and wait until all is written.
///
/// Exit code 1 if not all could be written, or if the mount's process had died.
#[derive(Args, Debug)]
pub(crate) struct VaultUnmount {
    /// Where it is mounted.
    #[arg(value_name = "MNT", value_hint = ValueHint::DirPath)]
    pub(crate) point: PathBuf,
    /// Even if it is in use: it disappears immediately, and ends with its last user.
    #[arg(long)]
    pub(crate) lazy: bool,
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
    #[arg(conflicts_with_all = ["recipient", "recipients_file", "new_passphrase_file"])]
    pub(crate) remove: Option<String>,
    /// Instead, remove the keys that were renamed, changed or added without the vault's key.
    /// Nothing else can be done with such keys, because their names say nothing about them.
    #[arg(long, conflicts_with_all = ["add", "remove", "name"])]
    #[arg(conflicts_with_all = ["recipient", "recipients_file", "new_passphrase_file"])]
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

/// List the vaults that were used on this machine, and what is mounted where.
#[derive(Args, Debug)]
pub(crate) struct VaultList {
    /// Where memories are kept.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) memory: Option<PathBuf>,
}

/// Print a vault's master key, to be kept on paper.
///
/// With it, `vault recover` makes a lost or damaged warplock.vault again, and nothing else is needed to
/// read all files. It stays valid when keys are changed or removed: whoever has seen it can read the
/// vault for ever. Print it on a printer that keeps no copies, and lock it away.
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

/// Check that nothing in a vault was changed, and repair what a crash left.
///
/// The vault must not be mounted for writing. Exit code 3: something was altered, even if a repair
/// has moved it away. Exit code 1: something could not be read, or a crash left something that was
/// not repaired. Mere notes do not count.
#[derive(Args, Debug)]
pub(crate) struct VaultCheck {
    /// The vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) unlock: VaultUnlock,
    #[command(flatten)]
    pub(crate) memory: MemoryPlace,
    /// Refuse any other vault than the one with this id, which `vault info` shows.
    #[arg(long, value_name = "HEX")]
    pub(crate) id: Option<String>,
    /// Repair what can be repaired without losing anything that was synced.
    ///
    /// Altered files go to `warplock.lost` in the store. Moving a file from there back to its
    /// place, which is printed, undoes this. Nothing is removed except what is provably the vault's
    /// own and empty.
    #[arg(long)]
    pub(crate) repair: bool,
    /// Names and headers only, not all contents.
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Show what a vault says about itself; needs no key, and verifies nothing.
#[derive(Args, Debug)]
pub(crate) struct VaultInfo {
    /// The vault.
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

/// `90s`, `30m`, `8h`, `2d`; a number alone is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("write it as 90s, 30m or 8h".to_owned()),
    };
    match digits.parse::<u64>() {
        Ok(number @ 1..=1_000_000) => Ok(Duration::from_secs(number * unit)),
        _ => Err("write it as 90s, 30m or 8h, from 1 second on".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("30m"), Ok(Duration::from_secs(1800)));
        assert_eq!(duration("8h"), Ok(Duration::from_secs(28_800)));
        for wrong in ["", "0s", "m", "1.5h", "3 weeks", "-1s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
