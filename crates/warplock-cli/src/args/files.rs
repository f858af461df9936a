//! The commands of encrypted files and their keys.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::examples;
use super::{MaxWork, NewPassphraseFrom, PassphraseFrom};
use crate::range::Range;

/// Make a new identity (key pair), or a key file.
///
/// An identity is an age X25519 key as age-keygen writes it: keep it secret. Its recipient
/// (age1...) is what others encrypt for.
#[derive(Args, Debug)]
#[command(after_help = examples::KEYGEN)]
pub(crate) struct Keygen {
    /// Write to FILE, readable by its owner alone, instead of stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Instead, read an identity file (without a name: stdin) and write its recipients.
    #[arg(short = 'y', long = "recipients-of", value_name = "IDENTITY")]
    #[arg(num_args = 0..=1, default_missing_value = "-")]
    #[arg(value_hint = ValueHint::FilePath, conflicts_with = "raw_key")]
    pub(crate) recipients_of: Option<PathBuf>,
    /// Make a key for --key-file instead: 32 random bytes as 64 hex digits.
    #[arg(long)]
    pub(crate) raw_key: bool,
    /// The same as --raw-key, named as the option that takes the key.
    #[arg(long, conflicts_with = "recipients_of")]
    pub(crate) key_file: bool,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    #[command(flatten)]
    pub(crate) work: MaxWork,
    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Encrypt files or a stream.
///
/// Without INPUT, or for -, standard input is encrypted to standard output. Each other INPUT is
/// written to INPUT.wl, wherever stdout goes; -o - sends it there. An output file appears only when
/// it is complete.
#[derive(Args, Debug)]
#[command(after_help = examples::ENCRYPT)]
pub(crate) struct Encrypt {
    /// What to encrypt (- for stdin).
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
    /// Write to FILE (- for stdout, /dev/fd/N for a descriptor), or, if it ends with a slash, into
    /// this folder.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Encrypt for RECIPIENT (age1..., an SSH public key, a plugin's); may be repeated.
    #[arg(short, long, value_name = "RECIPIENT")]
    #[arg(conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) recipient: Vec<String>,
    /// Encrypt for the recipients in FILE (- for stdin), one a line; may be repeated. SSH keys that
    /// cannot be encrypted for are left out with a warning.
    #[arg(short = 'R', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) recipients_file: Vec<PathBuf>,
    /// Encrypt for the recipients of an identity file; may be repeated. If the file has a passphrase,
    /// --passphrase-file and the like are for that.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    /// Encrypt with a passphrase, and ask for it.
    #[arg(short, long, conflicts_with_all = ["recipient", "recipients_file", "identity"])]
    #[arg(conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) passphrase: bool,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    /// Encrypt with the key in FILE: 32 bytes or 64 hex digits (- for stdin). The output is then
    /// the bare stream, without the age file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all =
        ["recipient", "recipients_file", "identity", "passphrase", "passphrase_file",
         "passphrase_command"])]
    pub(crate) key_file: Option<PathBuf>,
    /// Do not store the permissions and the time of modification of a file, which `decrypt` restores.
    /// Where they are stored, they are encrypted. With a passphrase or --key-file there is no place
    /// for them.
    #[arg(long)]
    pub(crate) no_attributes: bool,
    #[command(flatten)]
    pub(crate) work: MaxWork,
    /// Replace existing outputs.
    #[arg(long)]
    pub(crate) force: bool,
}

/// The keys that open an encrypted file.
#[derive(Args, Debug)]
pub(crate) struct Unlock {
    /// Use the identities in FILE (an age identity file or SSH private key; - for stdin); may be
    /// repeated.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    /// Ask for a passphrase; without any key option this happens for each file that needs one.
    #[arg(short, long, conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) passphrase: bool,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    /// Use the key in FILE, for bare streams: 32 bytes or 64 hex digits (- for stdin).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all =
        ["identity", "passphrase", "passphrase_file", "passphrase_command"])]
    pub(crate) key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) work: MaxWork,
}

/// Decrypt and verify files or a stream.
///
/// Without INPUT, or for -, standard input is decrypted to standard output. Each other INPUT, named
/// NAME.wl, is written to NAME, wherever stdout goes; -o - sends it there. A file appears only when
/// all of it was verified. Standard output gets only verified data, but if the command fails, it is
/// incomplete.
#[derive(Args, Debug)]
#[command(after_help = examples::DECRYPT)]
pub(crate) struct Decrypt {
    /// What to decrypt (- for stdin).
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
    /// Write to FILE (- for stdout, /dev/fd/N for a descriptor), or, if it ends with a slash, into
    /// this folder.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) unlock: Unlock,
    /// Decrypt only the bytes from A up to but not including B of the plaintext (0..1000,
    /// 1MiB..2MiB); either may be left out. The input must be a file, and the output be named with -o. Only this part is
    /// verified: of a file that was cut, parts before the cut can be read (exit code 0, with a
    /// warning if the length tells); anything after the cut is an error (exit code 3).
    #[arg(long, value_name = "A..B")]
    pub(crate) range: Option<Range>,
    /// Of a damaged file, write what verifies. The rest is named on stderr, by its place and length,
    /// and is a hole of the output. The exit code is 3 if anything is missing. The input must be a
    /// file or device, and the output a file, named with -o.
    #[arg(long, conflicts_with_all = ["range", "sparse"])]
    pub(crate) salvage: bool,
    /// Make holes of runs of zeros (4 KiB and more), which take no space on the disk. The output must
    /// be a file.
    #[arg(long)]
    pub(crate) sparse: bool,
    /// Do not restore the permissions and the time of modification of the encrypted file. They are
    /// never looser than the umask allows, or a replaced file's.
    #[arg(long)]
    pub(crate) no_attributes: bool,
    /// Replace existing outputs.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Show what an encrypted file says about itself; needs no key, and verifies nothing.
#[derive(Args, Debug)]
#[command(after_help = examples::INSPECT)]
pub(crate) struct Inspect {
    /// What to look at (- for stdin).
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
}

/// Check that encrypted files are whole and unchanged; writes nothing.
#[derive(Args, Debug)]
#[command(after_help = examples::VERIFY)]
pub(crate) struct Verify {
    /// What to check (- for stdin).
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) unlock: Unlock,
}

/// Give encrypted files other recipients or another passphrase.
///
/// Only the envelope in front of the content is written again, so this is quick whatever the size. The
/// key of the content stays the same: a former recipient that kept it, or an older copy of the file,
/// can still decrypt the content. --rekey encrypts the content again under a fresh key. The stored
/// permissions and time of the file stay, except with a passphrase, which leaves no place for them.
///
/// The old file is valid until the new one is on the disk. Where the file system cannot share blocks
/// between files, a large file is overwritten in place, and its old envelope waits as .NAME.rewrap
/// next to it until this is done; after a crash, rewrap with the old keys repairs the file.
#[derive(Args, Debug)]
#[command(after_help = examples::REWRAP)]
pub(crate) struct Rewrap {
    /// What to rewrap.
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub(crate) input: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) unlock: UnlockEnvelope,
    /// From now on for RECIPIENT (age1..., an SSH public key, a plugin's); may be repeated.
    #[arg(short, long, value_name = "RECIPIENT")]
    pub(crate) recipient: Vec<String>,
    /// From now on for the recipients in FILE, one a line; may be repeated.
    #[arg(short = 'R', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) recipients_file: Vec<PathBuf>,
    /// Ask for a new passphrase.
    #[arg(long, conflicts_with_all = ["recipient", "recipients_file"])]
    #[arg(conflicts_with_all = ["new_passphrase_file", "new_passphrase_command"])]
    pub(crate) new_passphrase: bool,
    #[command(flatten)]
    pub(crate) new_from: NewPassphraseFrom,
    /// Encrypt the content again under a fresh key. Takes as long as decrypting and encrypting, and
    /// the space of a second file; no plaintext is written.
    #[arg(long)]
    pub(crate) rekey: bool,
}

/// The keys that open an envelope now.
#[derive(Args, Debug)]
pub(crate) struct UnlockEnvelope {
    /// Open with the identities in FILE (an age identity file or SSH private key; - for stdin); may be
    /// repeated.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) identity: Vec<PathBuf>,
    /// Ask for the present passphrase; without any key option this happens if a file needs one.
    #[arg(short, long, conflicts_with_all = ["passphrase_file", "passphrase_command"])]
    pub(crate) passphrase: bool,
    #[command(flatten)]
    pub(crate) from: PassphraseFrom,
    #[command(flatten)]
    pub(crate) work: MaxWork,
}
