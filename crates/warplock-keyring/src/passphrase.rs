//! Sources of passphrases: a terminal, a file, a command, or a test.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use age::secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::file;
use crate::text::utf8;

/// The longest passphrase read from a file, in bytes.
const MAX_PASSPHRASE: usize = 64 * 1024;

/// Answers requests for passphrases, and the questions of age plugins.
///
/// A closure `Fn(&str) -> Result<SecretString>` is one too.
pub trait AskPassphrase: Send + Sync {
    /// The existing passphrase for `what`, such as `"passphrase for key.txt"`; plugins also
    /// ask for their PINs here.
    ///
    /// # Errors
    /// [`Error::NoPassphrase`] if there is no one to answer, or reading fails.
    fn ask(&self, what: &str) -> Result<SecretString>;

    /// A new passphrase for `what`. A person is asked twice, so that a typing mistake does not lock
    /// the data away; by default this is [`ask`](Self::ask).
    ///
    /// # Errors
    /// As [`ask`](Self::ask), and where the passphrase is empty or the two differ.
    fn ask_new(&self, what: &str) -> Result<SecretString> {
        self.ask(what)
    }

    /// Shows a message of a plugin ("touch your key").
    fn show(&self, message: &str) {
        let _ = message;
    }

    /// A question with two answers, of a plugin, or whether to do more work for a passphrase than
    /// usual; `None` if there is no one to answer.
    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        let _ = (message, yes, no);
        None
    }

    /// A plugin's question with an answer that is not secret; `None` if there is no one to answer.
    fn ask_public(&self, message: &str) -> Option<String> {
        let _ = message;
        None
    }
}

impl<F: Fn(&str) -> Result<SecretString> + Send + Sync> AskPassphrase for F {
    fn ask(&self, what: &str) -> Result<SecretString> {
        self(what)
    }
}

/// Answers nothing: for uses that need no passphrase.
#[derive(Clone, Copy, Debug)]
pub struct NoPrompt;

impl AskPassphrase for NoPrompt {
    fn ask(&self, what: &str) -> Result<SecretString> {
        Err(no_passphrase(what, "there is no prompt to ask"))
    }
}

/// Answers every request with the first line of a file, without its line end.
///
/// The file is read at the first request and only once, so that a pipe can be used, too
/// (`/dev/fd/3`); `-` is standard input, which is not read past the first line.
pub struct PassphraseFile {
    path: PathBuf,
    read: Mutex<Option<SecretString>>,
}

impl PassphraseFile {
    /// The source that reads `path` when first asked.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            read: Mutex::new(None),
        }
    }

    fn read(&self) -> Result<SecretString> {
        let shown = file::shown_name(&self.path);
        let file = if self.path == Path::new("-") {
            stdin()
        } else {
            File::open(&self.path)
        };
        // Unbuffered, because the bytes after the first line belong to another reader.
        let line = file.and_then(|file| first_line(&mut ByteReader { file, byte: None }));
        let line = line.map_err(Error::io(format!(
            "cannot read the passphrase from {shown}"
        )))?;
        passphrase_in(&line).map_err(|why| no_passphrase(&format!("passphrase in {shown}"), why))
    }
}

impl AskPassphrase for PassphraseFile {
    fn ask(&self, _what: &str) -> Result<SecretString> {
        let mut read = self
            .read
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if read.is_none() {
            *read = Some(self.read()?);
        }
        Ok(read.clone().expect("it was read above"))
    }
}

/// Answers every request with the first line that a command prints, without its line end.
///
/// The system's shell runs the command (`sh -c`), which gets a description of what is asked for as
/// its first argument: `ssh-askpass "$1"`. It has no standard input; its messages go to standard
/// error.
pub struct PassphraseCommand {
    command: OsString,
}

impl PassphraseCommand {
    /// The source that runs `command` whenever it is asked.
    pub fn new(command: impl Into<OsString>) -> Self {
        Self {
            command: command.into(),
        }
    }

    fn start(&self, what: &str) -> io::Result<Child> {
        let mut shell = if cfg!(windows) {
            Command::new("cmd")
        } else {
            Command::new("/bin/sh")
        };
        match cfg!(windows) {
            true => shell.arg("/C").arg(&self.command),
            false => shell.arg("-c").arg(&self.command).args(["sh", what]),
        };
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
    }
}

impl AskPassphrase for PassphraseCommand {
    fn ask(&self, what: &str) -> Result<SecretString> {
        let failed = |why: &str| no_passphrase(what, &format!("the passphrase command {why}"));
        let cannot_run = |error| failed(&format!("cannot be run ({error})"));
        let mut child = self.start(what).map_err(cannot_run)?;
        let output = child.stdout.take().expect("it was asked for");
        #[cfg(unix)]
        let file = File::from(std::os::fd::OwnedFd::from(output));
        #[cfg(windows)]
        let file = File::from(std::os::windows::io::OwnedHandle::from(output));
        let mut reader = ByteReader { file, byte: None };
        let line = first_line(&mut reader);
        // The rest is read too: a command fails if its output is not read.
        let rest = io::copy(&mut reader.file, &mut io::sink());
        let status = child.wait().map_err(cannot_run)?;
        let line = rest.and(line).map_err(cannot_run)?;
        if !status.success() {
            return Err(failed(&format!("failed ({status})")));
        }
        passphrase_in(&line).map_err(|why| failed(&format!("printed none: {why}")))
    }
}

/// The passphrase in a line, or why there is none.
fn passphrase_in(line: &[u8]) -> std::result::Result<SecretString, &'static str> {
    if line.len() > MAX_PASSPHRASE {
        return Err("its first line is longer than 65536 bytes");
    }
    let text = utf8(line)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    match text.is_empty() {
        true => Err("its first line is empty"),
        false => Ok(secret(text)),
    }
}

/// Standard input without the buffer that it has in Rust.
fn stdin() -> io::Result<File> {
    #[cfg(unix)]
    let stdin = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned();
    #[cfg(windows)]
    let stdin = std::os::windows::io::AsHandle::as_handle(&io::stdin()).try_clone_to_owned();
    stdin.map(File::from)
}

/// The first line with its end; one byte more than allowed if it is too long.
fn first_line(input: &mut impl BufRead) -> io::Result<Zeroizing<Vec<u8>>> {
    // The capacity for all of it, so that no copies are left behind by a growing buffer.
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_PASSPHRASE + 1));
    input
        .take(MAX_PASSPHRASE as u64 + 1)
        .read_until(b'\n', &mut line)?;
    Ok(line)
}

/// Reads a file byte by byte: `BufRead` that takes nothing in advance.
struct ByteReader {
    file: File,
    byte: Option<[u8; 1]>,
}

impl Read for ByteReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl BufRead for ByteReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.byte.is_none() {
            let mut byte = [0];
            if self.file.read(&mut byte)? == 0 {
                return Ok(&[]);
            }
            self.byte = Some(byte);
        }
        Ok(self.byte.as_ref().map_or(&[], |byte| &byte[..]))
    }

    fn consume(&mut self, count: usize) {
        if count > 0 {
            self.byte = None;
        }
    }
}

/// Asks the person at the terminal (`/dev/tty`, not standard input) without echo.
#[derive(Clone, Copy, Debug)]
pub struct Terminal;

impl Terminal {
    fn prompt(what: &str, text: &str) -> Result<SecretString> {
        let typed = rpassword::prompt_password(text).map(Zeroizing::new);
        let typed = typed.map_err(|source| Error::NoTerminal {
            wanted: what.to_owned(),
            source,
        })?;
        Ok(secret(&typed))
    }

    /// A line typed with echo.
    fn line(text: &str) -> Option<String> {
        let tty = File::open(if cfg!(windows) { "CONIN$" } else { "/dev/tty" }).ok()?;
        eprint!("{text}");
        io::stderr().flush().ok()?;
        let mut line = String::new();
        io::BufReader::new(tty)
            .take(4096)
            .read_line(&mut line)
            .ok()?;
        Some(line.trim().to_string()).filter(|line| !line.is_empty())
    }
}

impl AskPassphrase for Terminal {
    fn ask(&self, what: &str) -> Result<SecretString> {
        Self::prompt(what, &format!("Enter {what}: "))
    }

    fn ask_new(&self, what: &str) -> Result<SecretString> {
        let first = Self::prompt(what, &format!("Enter new {what}: "))?;
        if first.expose_secret().is_empty() {
            return Err(no_passphrase(
                what,
                "it is empty; type at least one character",
            ));
        }
        let second = Self::prompt(what, "Enter it once more: ")?;
        let (first_bytes, second_bytes) = (
            first.expose_secret().as_bytes(),
            second.expose_secret().as_bytes(),
        );
        if !bool::from(first_bytes.ct_eq(second_bytes)) {
            return Err(no_passphrase(what, "the two that were typed do not match"));
        }
        Ok(first)
    }

    fn show(&self, message: &str) {
        eprintln!("{message}");
    }

    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        let no = no.unwrap_or("no");
        let answer = Self::line(&format!("{message} (y = {yes}, n = {no}): "))?;
        match answer.to_lowercase().as_str() {
            "y" | "yes" => Some(true),
            "n" | "no" => Some(false),
            _ => None,
        }
    }

    fn ask_public(&self, message: &str) -> Option<String> {
        Self::line(&format!("{message}: "))
    }
}

fn no_passphrase(wanted: &str, why: &str) -> Error {
    Error::NoPassphrase {
        wanted: wanted.into(),
        why: why.into(),
    }
}

/// A secret holding `text`; allocated to size, so that no shrinking leaves a copy.
pub(crate) fn secret(text: &str) -> SecretString {
    SecretString::from(Box::<str>::from(text))
}

/// age's view of an [`AskPassphrase`], for plugins.
#[derive(Clone)]
pub(crate) struct PluginPrompts(pub(crate) std::sync::Arc<dyn AskPassphrase>);

impl age::Callbacks for PluginPrompts {
    fn display_message(&self, message: &str) {
        self.0.show(message);
    }

    fn confirm(&self, message: &str, yes: &str, no: Option<&str>) -> Option<bool> {
        self.0.confirm(message, yes, no)
    }

    fn request_public_string(&self, message: &str) -> Option<String> {
        self.0.ask_public(message)
    }

    fn request_passphrase(&self, message: &str) -> Option<SecretString> {
        self.0.ask(message).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_file(content: &[u8]) -> Result<SecretString> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passphrase");
        std::fs::write(&path, content).unwrap();
        PassphraseFile::new(path).ask("passphrase")
    }

    #[test]
    fn the_first_line_counts() {
        for (content, passphrase) in [
            (&b"secret"[..], "secret"),
            (b"secret\n", "secret"),
            (b"secret\r\n", "secret"),
            (b"secret\nnot this\n", "secret"),
            (b" with spaces \n", " with spaces "),
            ("d\u{e9}j\u{e0} vu\n".as_bytes(), "d\u{e9}j\u{e0} vu"),
        ] {
            assert_eq!(from_file(content).unwrap().expose_secret(), passphrase);
        }
    }

    #[test]
    fn unusable_files_are_errors_without_their_content() {
        let long = vec![b'x'; MAX_PASSPHRASE + 1];
        for (content, says) in [
            (&b""[..], "empty"),
            (b"\nsecret\n", "empty"),
            (b"secr\xffet\n", "UTF-8"),
            (b"\xff\xfes\0e\0c\0r\0\n\0", "UTF-16"),
            (&long, "longer"),
        ] {
            let error = from_file(content).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secr"), "{error}");
        }
        let missing = PassphraseFile::new("/nonexistent/passphrase")
            .ask("x")
            .unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/passphrase"));
    }

    #[cfg(unix)]
    #[test]
    fn a_commands_first_line_counts() {
        let asked = |command: &str| PassphraseCommand::new(command).ask("passphrase for \"x\" $y");
        for (command, passphrase) in [
            ("echo secret", "secret"),
            (
                "printf 'secret\\r\\nmore\\n'; yes | head -c 200000",
                "secret",
            ),
            ("printf secret; cat", "secret"),
            ("echo \"$1\"", "passphrase for \"x\" $y"),
        ] {
            assert_eq!(asked(command).unwrap().expose_secret(), passphrase);
        }
        for (command, says) in [
            ("echo secret; exit 3", "failed (exit status: 3)"),
            ("true", "printed none: its first line is empty"),
            ("yes secret | tr -d '\\n' | head -c 70000", "longer"),
        ] {
            let error = asked(command).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_read_once_and_no_further() {
        use std::os::fd::AsRawFd;
        let (mut reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"secret\nrest").unwrap();
        drop(writer);
        let source = PassphraseFile::new(format!("/dev/fd/{}", reader.as_raw_fd()));
        assert_eq!(source.ask("a").unwrap().expose_secret(), "secret");
        assert_eq!(source.ask_new("b").unwrap().expose_secret(), "secret");
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "rest");
    }
}
