//! What the tests of the command line share: a folder, the program, and what came of it.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

/// The program under test, without a terminal to ask at and untouched by the environment.
pub(crate) fn warplock() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warplock"));
    command.env_remove("WARPLOCK_BACKEND").stdin(Stdio::null());
    command
}

/// A folder with an identity `key.txt`, its recipient in `recipient.txt` and a key file `k.key`.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder::with_keys(TempDir::new().unwrap())
    }

    /// One in memory, where there is a file system for that which has extended attributes.
    pub(crate) fn in_memory() -> Self {
        let folder = TempDir::new_in("/dev/shm").ok().filter(|folder| {
            let none = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(folder.path(), "user.test", b"", none).is_ok()
        });
        Folder::with_keys(folder.unwrap_or_else(|| TempDir::new().unwrap()))
    }

    fn with_keys(folder: TempDir) -> Self {
        let folder = Folder(folder);
        folder.run(["keygen", "-o", "key.txt"]).code(0);
        folder
            .run(["keygen", "-y", "key.txt", "-o", "recipient.txt"])
            .code(0);
        folder.run(["keygen", "--raw-key", "-o", "k.key"]).code(0);
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names of all files in it, hidden ones too, but for the keys.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.retain(|name| !["key.txt", "recipient.txt", "k.key"].contains(&name.as_str()));
        names.sort();
        names
    }

    /// The program, to be started in this folder.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = warplock();
        command.current_dir(self.0.path()).args(args);
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Outcome {
        Outcome::of(&mut self.command(args))
    }

    /// Runs a shell script in this folder, in which `$W` is the program; it must end well.
    #[track_caller]
    pub(crate) fn shell(&self, script: &str) {
        let mut shell = Command::new("sh");
        shell
            .args(["-e", "-c", script])
            .env("W", env!("CARGO_BIN_EXE_warplock"))
            .env_remove("WARPLOCK_BACKEND")
            .env("XDG_STATE_HOME", self.path("state"))
            .current_dir(self.0.path());
        assert!(shell.status().unwrap().success(), "{script}");
    }

    /// Runs with `input` in a pipe to standard input.
    pub(crate) fn pipe<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: impl AsRef<[u8]>,
    ) -> Outcome {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.as_ref();
        thread::scope(|scope| {
            scope.spawn(move || {
                // A program that refuses early does not read its input.
                let _ = stdin.write_all(input);
            });
            Outcome(child.wait_with_output().unwrap())
        })
    }
}

/// How a run ended.
pub(crate) struct Outcome(Output);

impl Outcome {
    /// Runs a command that is like [`Folder::command`]'s.
    pub(crate) fn of(command: &mut Command) -> Self {
        Outcome(command.output().unwrap())
    }

    /// Checks the exit code, and that errors are one line from this program.
    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        let stderr = self.stderr();
        assert_eq!(self.0.status.code(), Some(code), "{stderr}");
        if code != 0 {
            for line in stderr.lines() {
                assert!(line.starts_with("warplock: "), "{stderr}");
            }
            assert!(!stderr.is_empty());
        }
        self
    }

    /// The exit code, or the signal.
    pub(crate) fn status(&self) -> ExitStatus {
        self.0.status
    }

    /// The objects in the lines of standard output.
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        objects(self.stdout())
    }

    /// Checks that the error says this.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        let stderr = self.stderr();
        assert!(stderr.contains(text), "{text:?} is not in {stderr:?}");
        self
    }

    pub(crate) fn stdout(&self) -> &[u8] {
        &self.0.stdout
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }
}

/// A JSON object for each line.
pub(crate) fn objects(lines: &[u8]) -> Vec<serde_json::Value> {
    let lines = str::from_utf8(lines).unwrap().lines();
    let object = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    lines.map(object).collect()
}

pub(crate) fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// The end for writing of a pipe whose reader has gone.
pub(crate) fn broken_pipe() -> Stdio {
    let (_reader, writer) = rustix::pipe::pipe().unwrap();
    Stdio::from(writer)
}

/// Waits, but not for ever.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Children start with what this process has: in a background job of a shell, SIGINT is ignored.
pub(crate) fn receive_signals() {
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: the default action, which needs no handler.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

/// Bytes with a period that no block, sector or chunk length shares, so that swapped ones show.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}
