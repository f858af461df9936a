//! A failure: the exit code and the one line that is printed for it.

use std::fmt::{self, Display};
use std::io;

use serde_json::{Map, Value};
use warplock_container::CHUNK_LEN;

use crate::advice;
use crate::exit::Exit;
use crate::system::startup::ignores_sigpipe;

/// The result of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a command did not do what was asked. `Display` is one line, without the program's name.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    /// Its class for programs; docs/json.md lists them.
    code: &'static str,
    /// The chunk at fault.
    chunk: Option<u64>,
    /// The file it is about.
    file: Option<String>,
    /// `None`: nothing more to say, as when the reader closed the pipe.
    sentence: Option<String>,
}

impl Failure {
    fn new(exit: Exit, code: &'static str, sentence: impl Display) -> Self {
        Failure {
            exit,
            code,
            chunk: None,
            file: None,
            // Other programs' messages may have several lines.
            sentence: Some(without_numbers(sentence.to_string()).replace('\n', "; ")),
        }
    }

    /// Something failed.
    pub(crate) fn error(sentence: impl Display) -> Self {
        Failure::new(Exit::Error, "failed", sentence)
    }

    /// The command line asks for something impossible.
    pub(crate) fn usage(sentence: impl Display) -> Self {
        Failure::new(Exit::Usage, "usage", sentence)
    }

    /// Changed data.
    pub(crate) fn authentication(sentence: impl Display) -> Self {
        Failure::new(Exit::Authentication, "authentication", sentence)
    }

    /// Another one's key, identity or passphrase.
    pub(crate) fn wrong_key(sentence: impl Display) -> Self {
        Failure::new(Exit::WrongKey, "wrong_key", sentence)
    }

    /// An error while reading or in general; `doing` is "cannot read" or the like.
    pub(crate) fn io(doing: &str, error: &io::Error) -> Self {
        Failure::error(format_args!("{doing}: {}", reason(error))).coded("io")
    }

    /// The system started no thread.
    pub(crate) fn no_thread(error: &io::Error) -> Self {
        Failure::io("cannot start a thread", error)
    }

    /// An error while writing. If the reader closed the pipe, this process is to die by SIGPIPE,
    /// unless its parent had that signal ignored.
    pub(crate) fn writing(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe && !ignores_sigpipe() {
            return Failure::reported(Exit::Pipe);
        }
        Failure::io("cannot write", error)
    }

    /// Something that needs no message, or was already reported.
    pub(crate) fn reported(exit: Exit) -> Self {
        Failure {
            exit,
            code: "",
            chunk: None,
            file: None,
            sentence: None,
        }
    }

    /// A more precise class than the exit code's.
    pub(crate) fn coded(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Adds what to do about it.
    pub(crate) fn advise(mut self, what: impl Display) -> Self {
        if let Some(sentence) = &mut self.sentence {
            *sentence = format!("{sentence}; {what}");
        }
        self
    }

    /// Adds the fields for programs to a JSON object.
    pub(crate) fn describe(&self, object: &mut Map<String, Value>) {
        let mut add = |name: &str, value: Value| object.insert(name.to_owned(), value);
        add("error", self.code.into());
        add("message", self.to_string().into());
        if let Some(chunk) = self.chunk {
            add("chunk", chunk.into());
            add("offset", chunk.saturating_mul(CHUNK_LEN as u64).into());
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

    /// The failure, if it is known that the key is the right one.
    pub(crate) fn with_right_key(mut self) -> Self {
        if self.code == "wrong_key" {
            (self.exit, self.code) = (Exit::Authentication, "header_altered");
            let sentence = "the key is the right one, but the header after the envelope was \
                            altered, or is another file's; restore the file from a copy";
            self.sentence = Some(sentence.to_owned());
        }
        self
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

/// A text as part of a line for people: names may hold line ends, to forge lines, escape sequences
/// for a terminal, and marks that change the order in which text is shown.
pub(crate) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match is_invisible(c) {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

/// Whether a character is not shown but has an effect: control characters, line and paragraph
/// separators, and format characters (categories Cc, Zl, Zp and Cf of Unicode 16).
pub(crate) fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Removes what Rust appends to the system's reasons: "(os error 2)".
pub(crate) fn without_numbers(mut text: String) -> String {
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
            // The engine's sentence names what programs call.
            warplock::Error::NonceReuse {
                first,
                second,
                what,
            } => Failure::error(format_args!(
                "messages {first} and {second} have {what} under the same key: give each its own"
            ))
            .coded("engine"),
            other => {
                Failure::error(format_args!("{other}{}", advice::engine(&other))).coded("engine")
            }
        }
    }
}

impl From<warplock_keyring::Error> for Failure {
    fn from(error: warplock_keyring::Error) -> Self {
        let advice = advice::keyring(&error);
        Failure::of_keyring(error, &advice)
    }
}

impl Failure {
    /// The failure for an error of the keyring, with what to do.
    pub(crate) fn of_keyring(error: warplock_keyring::Error, advice: &str) -> Self {
        use warplock_keyring::{Error, ErrorKind};
        let code = match &error {
            Error::NoMatch { .. } => Some("no_key"),
            Error::WrongPassphrase { .. } => Some("wrong_passphrase"),
            Error::NoPassphrase { .. } | Error::NoTerminal { .. } => Some("no_passphrase"),
            Error::Altered { .. } => Some("envelope_altered"),
            Error::Io { .. } => Some("io"),
            _ => None,
        };
        let sentence = format!("{error}{advice}");
        let failure = match (&error, error.kind()) {
            // Nothing was tried.
            (
                Error::NoMatch {
                    had_identities: false,
                    had_passphrase: false,
                    ..
                },
                _,
            ) => Failure::usage(sentence),
            (Error::Altered { .. }, _) => Failure::authentication(sentence),
            (_, ErrorKind::Authentication) => Failure::wrong_key(sentence),
            (_, ErrorKind::Usage) => Failure::usage(sentence),
            (_, ErrorKind::Failure) => Failure::error(sentence),
        };
        match code {
            Some(code) => failure.coded(code),
            None => failure,
        }
    }
}

impl From<warplock_container::Error> for Failure {
    fn from(error: warplock_container::Error) -> Self {
        use warplock_container::{Error, ErrorKind};
        let chunk = error.chunk();
        let code = match &error {
            Error::Empty => "empty",
            Error::NotWarplock { .. } => "not_warplock",
            Error::NewerVersion { .. } => "newer_version",
            Error::BadEnvelope(_) => "bad_envelope",
            Error::EnvelopeCut => "envelope_cut",
            Error::HeaderCut { .. } => "header_cut",
            Error::WrongKey => "wrong_key",
            Error::LastChunkMissing { .. } => "last_chunk_missing",
            Error::LastChunk { .. } => "last_chunk",
            Error::Chunk { .. } => "chunk",
            Error::Misplaced { .. } => "misplaced",
            Error::TrailingData { .. } => "trailing_data",
            Error::InputShrank { .. } => "input_shrank",
            Error::OutOfRange { .. } => "out_of_range",
            Error::NotSeekable => "not_seekable",
            _ => "failed",
        };
        let mut failure = match (error.kind(), error) {
            (_, Error::Read(source)) => return Failure::io("cannot read", &source),
            (_, Error::Write(source)) => return Failure::writing(&source),
            (_, Error::Create(source)) => return Failure::io("cannot create", &source),
            (_, Error::OutputExists) => {
                return Failure::error("exists already; --force replaces it").coded("exists");
            }
            (_, Error::OutputUnusable(why)) => return Failure::error(why),
            (_, Error::NotRewrappable(why)) => {
                return Failure::error(format_args!("cannot be rewrapped: {why}"));
            }
            (_, Error::Engine(error)) => return error.into(),
            (_, Error::Keyring(error)) => return error.into(),
            (_, error @ Error::WrongKey) => Failure::wrong_key(error),
            (ErrorKind::Authentication, error) => Failure::authentication(error),
            (ErrorKind::Usage, error) => Failure::usage(error),
            (_, error) => Failure::error(format_args!("{error}{}", advice::container(&error))),
        };
        failure.chunk = chunk;
        failure.coded(code)
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

    #[test]
    fn marks_that_are_not_shown_are_escaped() {
        for (raw, shown) in [
            ("a\u{202e}gpj.wl", "a\\u{202e}gpj.wl"),
            ("a\u{9b}31m\u{7f}\n", "a\\u{9b}31m\\u{7f}\\n"),
            ("\u{2066}\u{200e}\u{feff}", "\\u{2066}\\u{200e}\\u{feff}"),
            ("\u{2028}\u{e0041}", "\\u{2028}\\u{e0041}"),
            (
                "e\u{301}\u{3000}Ж漢\u{1f512}\\",
                "e\u{301}\u{3000}Ж漢\u{1f512}\\",
            ),
        ] {
            assert_eq!(escaped(raw), shown);
        }
    }
}
