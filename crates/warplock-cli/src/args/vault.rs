//! `warplock vault`.

mod keys;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum, ValueHint};

pub(crate) use self::keys::{
    NewKey, VaultExportKey, VaultKey, VaultPasswd, VaultRecover, VaultUnlock,
};

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
    #[arg(conflicts_with_all = ["recipient", "recipients_file", "new_passphrase_file", "new_passphrase_command"])]
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
    #[arg(value_parser = crate::size::parse)]
    pub(crate) block_size: u64,
    #[command(flatten)]
    pub(crate) memory: MemoryPlace,
}

impl VaultInit {
    /// The keys that shall open the vault.
    pub(crate) fn new_key(&self) -> NewKey {
        let mut keys = self.keys.clone();
        if let Some(file) = &self.passphrase_file {
            keys.new_from.new_passphrase_file = Some(file.clone());
        }
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
    /// Paths in the vault, folders with all that is in them; without any, all of the vault.
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
    /// Show all files as this user's, by number; what the vault says of them stays.
    #[arg(long, value_name = "N")]
    pub(crate) uid: Option<u32>,
    /// Show all files as this group's, by number.
    #[arg(long, value_name = "N")]
    pub(crate) gid: Option<u32>,
    /// Show all files with the permissions that this leaves: 077 for the owner alone.
    #[arg(long, value_name = "OCTAL", value_parser = umask)]
    pub(crate) umask: Option<u32>,
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

/// List the vaults that were used on this machine, and what is mounted where.
#[derive(Args, Debug)]
pub(crate) struct VaultList {
    /// Where memories are kept.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) memory: Option<PathBuf>,
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

fn umask(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mask| *mask <= 0o777)
        .ok_or_else(|| "write it in octal digits, up to 777".to_owned())
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
