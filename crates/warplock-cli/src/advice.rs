//! The options that mend a library's errors. The libraries do not know the command line.

use warplock_container::Foreign;
use warplock_keyring::StanzaKind;

/// What to add to the engine's sentence.
pub(crate) fn engine(error: &warplock::Error) -> &'static str {
    match error {
        warplock::Error::NoBackend { name, .. } if name.starts_with("cuda") => {
            ", or see `warplock devices`"
        }
        _ => "",
    }
}

/// What to add to the keyring's sentence.
pub(crate) fn keyring(error: &warplock_keyring::Error) -> String {
    use warplock_keyring::Error;
    match error {
        Error::UnconfirmedWork { log_n, .. } => format!(" (--max-work {log_n})"),
        Error::NoRecipients => ": give -r, -R or -i for recipients, or -p".to_owned(),
        Error::NoMatch {
            wanted,
            had_identities,
            ..
        } => {
            let scrypt = |kind: &StanzaKind| matches!(kind, StanzaKind::Scrypt { .. });
            let advice = match (wanted.iter().any(scrypt), had_identities) {
                (true, true) => ": leave out -i or add -p",
                (true, false) => ": add -p",
                (false, true) => "",
                (false, false) => ": give -i IDENTITY",
            };
            advice.to_owned()
        }
        _ => String::new(),
    }
}

/// The same where a vault is opened, which only Linux can: without identities, the passphrase is
/// used in any case.
#[cfg(target_os = "linux")]
pub(crate) fn vault_keyring(error: &warplock_keyring::Error) -> String {
    use warplock_keyring::Error;
    match error {
        Error::NoMatch {
            wanted,
            had_identities: true,
            ..
        } if wanted
            .iter()
            .any(|kind| matches!(kind, StanzaKind::Scrypt { .. })) =>
        {
            ": leave out -i, or add --passphrase-file FILE".to_owned()
        }
        error => keyring(error),
    }
}

/// Ends the container's sentence.
pub(crate) fn container(error: &warplock_container::Error) -> &'static str {
    use warplock_container::Error;
    match error {
        Error::NotWarplock { looks_like: None } => " (for a bare stream give its key: --key-file)",
        Error::NotWarplock {
            looks_like: Some(Foreign::Envelope),
        } => ": leave out --key-file",
        _ => "",
    }
}
