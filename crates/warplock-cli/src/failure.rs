//! A failure: the exit code and the one line that is printed for it.

use std::fmt::{self, Display};
use std::io;

use crate::exit::Exit;

/// The result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a command did not do what was asked. `Display` is one line, without the program's name.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    /// The file it is about.
    file: Option<String>,
    /// `None`: nothing more to say, as when the reader closed the pipe.
    sentence: Option<String>,
}

impl Failure {
    fn new(exit: Exit, sentence: impl Display) -> Self {
        Failure {
            exit,
            file: None,
            // Other programs' messages may have several lines.
            sentence: Some(without_numbers(sentence.to_string()).replace('\n', "; ")),
        }
    }

    /// Something failed.
    pub(crate) fn error(sentence: impl Display) -> Self {
        Failure::new(Exit::Error, sentence)
    }

    /// The command line asks for something that cannot be.
    pub(crate) fn usage(sentence: impl Display) -> Self {
        Failure::new(Exit::Usage, sentence)
    }

    /// Wrong key, or changed data.
    pub(crate) fn authentication(sentence: impl Display) -> Self {
        Failure::new(Exit::Authentication, sentence)
    }

    /// An error while reading or in general; `doing` is "cannot read" or the like.
    pub(crate) fn io(doing: &str, error: &io::Error) -> Self {
        Failure::error(format_args!("{doing}: {}", reason(error)))
    }

    /// An error while writing: a closed pipe ends the program quietly.
    pub(crate) fn writing(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure {
                exit: Exit::Done,
                file: None,
                sentence: None,
            };
        }
        Failure::io("cannot write", error)
    }

    /// Something that another process has reported already.
    pub(crate) fn reported(exit: Exit) -> Self {
        Failure {
            exit,
            file: None,
            sentence: None,
        }
    }

    /// Names the file, if none is named yet.
    pub(crate) fn about(mut self, file: impl Display) -> Self {
        self.file.get_or_insert_with(|| file.to_string());
        self
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether there is anything to say.
    pub(crate) fn is_silent(&self) -> bool {
        self.sentence.is_none()
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.sentence) {
            (_, None) => Ok(()),
            (None, Some(sentence)) => f.write_str(&escaped(sentence)),
            (Some(file), Some(sentence)) => write!(f, "{}: {}", escaped(file), escaped(sentence)),
        }
    }
}

/// The system's reason.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => without_numbers(error.to_string()).to_lowercase(),
        None => error.to_string(),
    }
}

/// A text as part of a line for people: names may hold line ends, to forge lines, and escape
/// sequences for their terminal.
pub(crate) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// A sentence of the system or a library as one line for people.
pub(crate) fn one_line(sentence: &str) -> String {
    escaped(&without_numbers(sentence.to_owned()))
}

/// Takes out what Rust puts behind the system's reasons: "(os error 2)".
fn without_numbers(mut text: String) -> String {
    while let Some(start) = text.find(" (os error ") {
        let Some(len) = text[start..].find(')') else {
            break;
        };
        text.replace_range(start..=start + len, "");
    }
    text
}

impl From<warplock::Error> for Failure {
    fn from(error: warplock::Error) -> Self {
        match error {
            warplock::Error::Authentication { .. } => Failure::authentication(
                "authentication failed: wrong key, IV or associated data, or the data was changed",
            ),
            other => Failure::error(other),
        }
    }
}

impl From<warplock_bench::Error> for Failure {
    fn from(error: warplock_bench::Error) -> Self {
        match error {
            warplock_bench::Error::Engine(error) => Failure::from(error),
            error => Failure::error(error),
        }
    }
}

impl From<warplock_keyring::Error> for Failure {
    fn from(error: warplock_keyring::Error) -> Self {
        use warplock_keyring::{Error, ErrorKind};
        match (&error, error.kind()) {
            // Nothing was tried.
            (
                Error::NoMatch {
                    had_identities: false,
                    had_passphrase: false,
                    ..
                },
                _,
            ) => Failure::usage(error),
            (_, ErrorKind::Authentication) => Failure::authentication(error),
            (_, ErrorKind::Usage) => Failure::usage(error),
            (_, ErrorKind::Failure) => Failure::error(error),
        }
    }
}

impl From<warplock_vault::Error> for Failure {
    fn from(error: warplock_vault::Error) -> Self {
        use warplock_vault::{Error, ErrorKind};
        match (error.kind(), error) {
            (_, Error::Engine(error)) => error.into(),
            (_, Error::Keyring(error)) => error.into(),
            (ErrorKind::Authentication, error) => Failure::authentication(error),
            (ErrorKind::Usage, error) => Failure::usage(error),
            (ErrorKind::Failure, error) => Failure::error(error),
        }
    }
}

impl From<warplock_vault::fuse::Error> for Failure {
    fn from(error: warplock_vault::fuse::Error) -> Self {
        Failure::error(error)
    }
}

impl From<warplock_container::Error> for Failure {
    fn from(error: warplock_container::Error) -> Self {
        use warplock_container::{Error, ErrorKind};
        match (error.kind(), error) {
            (_, Error::Read(source)) => Failure::io("cannot read", &source),
            (_, Error::Write(source)) => Failure::writing(&source),
            (_, Error::Engine(error)) => error.into(),
            (_, Error::Keyring(error)) => error.into(),
            (ErrorKind::Authentication, error) => Failure::authentication(error),
            (ErrorKind::Usage, error) => Failure::usage(error),
            (_, error) => Failure::error(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_for_programs() {
        for (text, plain) in [
            ("no", "no"),
            ("not found (os error 2)", "not found"),
            ("a (b (os error 6)); c (os error 7)", "a (b); c"),
            ("cut (os error 2", "cut (os error 2"),
        ] {
            assert_eq!(without_numbers(text.to_owned()), plain);
        }
    }
}
