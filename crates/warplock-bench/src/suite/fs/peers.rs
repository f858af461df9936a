//! Other encrypted file systems, where they are installed.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use warplock_vault::fuse::mounted_at;

use super::contender::{Contender, Held, secret};
use crate::Error;
use crate::error::Result;

/// A program that mounts an encrypted folder, in its default settings except for what the name
/// says.
pub(super) struct Peer {
    pub(super) name: &'static str,
    program: &'static str,
    /// Makes the store; `{store}`, `{point}` and `{pass}` (a file) are filled in.
    make: &'static [&'static str],
    /// Mounts it.
    mount: &'static [&'static str],
    /// The passphrase comes from standard input.
    asks: bool,
}

pub(super) const ALL: [Peer; 4] = [
    Peer {
        name: "gocryptfs",
        program: "gocryptfs",
        make: MAKE_GOCRYPTFS,
        mount: &["-q", "-passfile", "{pass}", "{store}", "{point}"],
        asks: false,
    },
    // Access lists mean that the kernel checks permissions, as it does for a vault.
    Peer {
        name: "gocryptfs-acl",
        program: "gocryptfs",
        make: MAKE_GOCRYPTFS,
        mount: &["-q", "-acl", "-passfile", "{pass}", "{store}", "{point}"],
        asks: false,
    },
    Peer {
        name: "securefs",
        program: "securefs",
        make: &["create", "--pass", PASSPHRASE, "--rounds", "1", "{store}"],
        mount: &[
            "mount",
            "--background",
            "--pass",
            PASSPHRASE,
            "{store}",
            "{point}",
        ],
        asks: false,
    },
    Peer {
        name: "encfs",
        program: "encfs",
        make: &[],
        mount: &["--standard", "--stdinpass", "{store}", "{point}"],
        asks: true,
    },
];

/// A cheap passphrase: the time to open is not measured.
const MAKE_GOCRYPTFS: &[&str] = &[
    "-init",
    "-q",
    "-scryptn",
    "10",
    "-passfile",
    "{pass}",
    "{store}",
];

/// It only protects random bytes for some seconds.
const PASSPHRASE: &str = "benchmark";

/// How long a program may take to mount.
const PATIENCE: Duration = Duration::from_secs(20);

impl Peer {
    pub(super) fn is_installed(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(self.program).is_file())
    }

    fn run(&self, arguments: &[&str], store: &Path, point: &Path) -> Result<()> {
        let pass = store.with_extension("pass");
        secret(&pass, &format!("{PASSPHRASE}\n"))?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let arguments = arguments.iter().map(|argument| match *argument {
            "{store}" => text(store),
            "{point}" => text(point),
            "{pass}" => text(&pass),
            other => other.to_owned(),
        });
        let input = match self.asks {
            true => Stdio::from(File::open(&pass).map_err(Error::file("read", &pass))?),
            false => Stdio::null(),
        };
        let log = store.with_extension("log");
        let file = File::create(&log).map_err(Error::file("write", &log))?;
        let failed = Error::file("run", Path::new(self.program));
        // Its output goes to a file: a daemon would keep a pipe open.
        let both = file.try_clone().map_err(Error::file("write", &log))?;
        let status = Command::new(self.program)
            .args(arguments)
            .stdin(input)
            .stdout(both)
            .stderr(file)
            .status()
            .map_err(failed)?;
        if status.success() {
            return Ok(());
        }
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        Err(Error::Input(format!(
            "{} failed ({status}): {}; leave it out with --peers",
            self.program,
            said.trim().replace('\n', "; ")
        )))
    }
}

impl Contender for &Peer {
    fn name(&self) -> &str {
        self.name
    }

    fn make(&self, store: &Path) -> Result<()> {
        match self.make {
            [] => Ok(()),
            make => self.run(make, store, store),
        }
    }

    fn mount(&self, store: &Path, point: &Path) -> Result<Held> {
        self.run(self.mount, store, point)?;
        let start = Instant::now();
        while !mounted_at(point).is_ok_and(|row| row.is_some()) {
            if start.elapsed() > PATIENCE {
                return Err(Error::Input(format!(
                    "{} has mounted nothing; leave it out with --peers",
                    self.program
                )));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Held::Elsewhere)
    }
}
