//! From age's errors to ours: one place, so that each cause has one sentence.

use std::fmt::Display;

use age::plugin::ResolveError;
use age::{DecryptError, EncryptError};

use crate::error::Error;
use crate::work::{MAX_WORK, Work};

/// Translates an error from opening the age file `what`.
///
/// A failed decryption of the file key means a wrong passphrase where scrypt is used
/// (`passphrase`), and an altered stanza elsewhere: the other kinds of stanza either name
/// their key or count as not matching.
pub(crate) fn decrypt(error: DecryptError, what: &str, passphrase: bool) -> Error {
    let what = what.to_string();
    match error {
        DecryptError::DecryptionFailed if passphrase => Error::WrongPassphrase { what },
        DecryptError::KeyDecryptionFailed => Error::WrongPassphrase { what },
        DecryptError::DecryptionFailed | DecryptError::InvalidMac => Error::Altered { what },
        DecryptError::ExcessiveWork { required, .. } => {
            Work::Scrypt { log_n: required }.excessive(&what, MAX_WORK)
        }
        DecryptError::InvalidHeader => Error::Malformed {
            what,
            why: "its header is invalid",
        },
        DecryptError::UnknownFormat => Error::NewerFormat { what },
        DecryptError::Io(source) if source.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::Malformed {
                what,
                why: "it ends too early",
            }
        }
        DecryptError::Io(source) => Error::Io { what, source },
        DecryptError::Plugin(errors) => plugin(&errors),
        DecryptError::PluginResolve(error) => resolve(error),
        DecryptError::NoMatchingKeys => Error::NoMatch {
            wanted: Vec::new(),
            had_identities: true,
            had_passphrase: false,
        },
        _ => Error::Malformed {
            what,
            why: "age refuses it",
        },
    }
}

/// Translates an error from making an age file.
pub(crate) fn encrypt(error: EncryptError) -> Error {
    match error {
        EncryptError::MissingRecipients => Error::NoRecipients,
        EncryptError::MixedRecipientAndPassphrase => Error::MixedPassphrase,
        EncryptError::IncompatibleRecipients { l_labels, r_labels } => {
            let mut labels: Vec<_> = l_labels.symmetric_difference(&r_labels).cloned().collect();
            labels.sort_unstable();
            Error::IncompatibleRecipients {
                labels: labels.join(", "),
            }
        }
        EncryptError::Plugin(errors) => plugin(&errors),
        EncryptError::PluginResolve(error) => resolve(error),
        EncryptError::EncryptedIdentities(error) => decrypt(error, "the identity file", true),
        EncryptError::Io(source) => Error::Io {
            what: "wrapping the key".into(),
            source,
        },
        // age's own texts carry invisible direction marks.
        other => Error::Plugin(without_marks(&other.to_string())),
    }
}

fn plugin(errors: &[impl Display]) -> Error {
    let texts: Vec<_> = errors
        .iter()
        .map(|error| without_marks(&error.to_string()))
        .collect();
    Error::Plugin(if texts.is_empty() {
        "a plugin failed without saying why".into()
    } else {
        texts.join("; ")
    })
}

fn resolve(error: ResolveError) -> Error {
    Error::Plugin(match error {
        ResolveError::MissingPlugin { binary_name } => {
            format!("the program {binary_name} was not found: install it, in a folder of PATH")
        }
        other => without_marks(&other.to_string()),
    })
}

fn without_marks(text: &str) -> String {
    text.chars()
        .filter(|c| !matches!(c, '\u{2066}'..='\u{2069}'))
        .collect()
}
