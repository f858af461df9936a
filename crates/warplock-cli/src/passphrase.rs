//! Where passphrases come from: options, the environment, systemd's credentials, the terminal.

use std::env;
use std::path::PathBuf;

use warplock_keyring::{
    AskPassphrase, Error, PassphraseCommand, PassphraseFile, Result, SecretString, Terminal,
};
use zeroize::Zeroizing;

use crate::args::{NewPassphraseFrom, PassphraseFrom};

/// The variable with a passphrase.
pub(crate) const VARIABLE: &str = "WARPLOCK_PASSPHRASE";
/// The variable with a new one, where there may be both.
pub(crate) const NEW_VARIABLE: &str = "WARPLOCK_NEW_PASSPHRASE";
/// The names of systemd's credentials (`LoadCredential=` in a unit).
const CREDENTIAL: &str = "warplock.passphrase";
const NEW_CREDENTIAL: &str = "warplock.new-passphrase";

/// The source of one kind of passphrase.
pub(crate) enum PassphraseSource {
    File(PassphraseFile),
    Command(PassphraseCommand),
    /// The variable of this name.
    Variable(&'static str),
    /// The terminal; with what to do if there is none.
    Terminal(&'static str),
}

impl PassphraseSource {
    /// For a passphrase of which there is only one: that of a file that is opened, or encrypted.
    pub(crate) fn of(options: &PassphraseFrom) -> Self {
        if let Some(file) = &options.passphrase_file {
            return PassphraseSource::File(PassphraseFile::new(file));
        }
        if let Some(command) = &options.passphrase_command {
            return PassphraseSource::Command(PassphraseCommand::new(command));
        }
        PassphraseSource::ambient(
            VARIABLE,
            CREDENTIAL,
            "use --passphrase-file FILE, --passphrase-command COMMAND or the variable \
             WARPLOCK_PASSPHRASE",
        )
    }

    /// For a passphrase that replaces another one.
    pub(crate) fn of_new(options: &NewPassphraseFrom) -> Self {
        if let Some(file) = &options.new_passphrase_file {
            return PassphraseSource::File(PassphraseFile::new(file));
        }
        if let Some(command) = &options.new_passphrase_command {
            return PassphraseSource::Command(PassphraseCommand::new(command));
        }
        PassphraseSource::ambient(
            NEW_VARIABLE,
            NEW_CREDENTIAL,
            "use --new-passphrase-file FILE, --new-passphrase-command COMMAND or the variable \
             WARPLOCK_NEW_PASSPHRASE",
        )
    }

    /// Without an option.
    fn ambient(variable: &'static str, credential: &str, otherwise: &'static str) -> Self {
        if env::var_os(variable).is_some_and(|value| !value.is_empty()) {
            return PassphraseSource::Variable(variable);
        }
        let folder = env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        match folder.map(|folder| folder.join(credential)) {
            Some(file) if file.exists() => PassphraseSource::File(PassphraseFile::new(file)),
            _ => PassphraseSource::Terminal(otherwise),
        }
    }

    /// A passphrase, typed twice where it is typed.
    pub(crate) fn ask_new(&self, what: &str) -> Result<SecretString> {
        match self {
            PassphraseSource::Terminal(otherwise) => no_terminal(Terminal.ask_new(what), otherwise),
            source => source.ask(what),
        }
    }
}

/// Adds what to do.
fn no_terminal(answer: Result<SecretString>, otherwise: &str) -> Result<SecretString> {
    answer.map_err(|error| match error {
        Error::NoTerminal { wanted, source } => Error::NoPassphrase {
            wanted,
            why: format!("the terminal cannot be asked ({source}); {otherwise}"),
        },
        error => error,
    })
}

fn variable(name: &str) -> Result<SecretString> {
    match env::var_os(name).unwrap_or_default().into_string() {
        // The environment keeps its own copy until the process ends.
        Ok(value) => {
            let value = Zeroizing::new(value);
            // As of a file: a line end cannot be typed.
            match value
                .split('\n')
                .next()
                .map(|line| line.trim_end_matches('\r'))
            {
                Some(line) if !line.is_empty() => Ok(SecretString::from(Box::<str>::from(line))),
                _ => Err(Error::NoPassphrase {
                    wanted: format!("passphrase in {name}"),
                    why: "its first line is empty".to_owned(),
                }),
            }
        }
        Err(value) => {
            drop(Zeroizing::new(value.into_encoded_bytes()));
            Err(Error::NoPassphrase {
                wanted: format!("passphrase in {name}"),
                why: "it is not UTF-8 text".to_owned(),
            })
        }
    }
}

impl AskPassphrase for PassphraseSource {
    fn ask(&self, what: &str) -> Result<SecretString> {
        match self {
            PassphraseSource::File(file) => file.ask(what),
            PassphraseSource::Command(command) => command.ask(what),
            // What a plugin asks for, such as a PIN, is no passphrase of ours.
            PassphraseSource::Variable(name) if what.starts_with("passphrase") => variable(name),
            PassphraseSource::Variable(_) => Terminal.ask(what),
            PassphraseSource::Terminal(otherwise) => no_terminal(Terminal.ask(what), otherwise),
        }
    }

    fn ask_new(&self, what: &str) -> Result<SecretString> {
        PassphraseSource::ask_new(self, what)
    }

    fn show(&self, message: &str) {
        Terminal.show(message);
    }

    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        match self {
            PassphraseSource::Variable(_) | PassphraseSource::Terminal(_) => {
                Terminal.confirm(message, yes, no)
            }
            // There may be no user to answer.
            PassphraseSource::File(_) | PassphraseSource::Command(_) => None,
        }
    }

    fn ask_public(&self, message: &str) -> Option<String> {
        match self {
            PassphraseSource::Variable(_) | PassphraseSource::Terminal(_) => {
                Terminal.ask_public(message)
            }
            PassphraseSource::File(_) | PassphraseSource::Command(_) => None,
        }
    }
}
