//! A store, a mount, and the process that serves it.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warplock_keyring::{MasterKey, NewIdentity, NoPrompt, Recipients};
use warplock_vault::fs::FileSystem;
use warplock_vault::fuse::{self, Mount};
use warplock_vault::pass_through::PassThrough;
use warplock_vault::{Options, Settings, Vault, init};

/// What is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The adapter alone: what fails here too is not the vault's fault.
    PassThrough,
    /// A vault with blocks of this size.
    Vault(u32),
}

/// Both, the vault with small blocks.
pub(crate) const SUBJECTS: [Subject; 2] = [Subject::PassThrough, Subject::Vault(4096)];

/// A folder with a store and a mount point.
pub(crate) struct Place {
    pub(crate) store: PathBuf,
    pub(crate) point: PathBuf,
    subject: Subject,
    key: Option<MasterKey>,
    _folder: Option<TempDir>,
}

const SUBJECT: &str = "WARPLOCK_TEST_SUBJECT";
const KEY: &str = "WARPLOCK_TEST_KEY";
const STORE: &str = "WARPLOCK_TEST_STORE";
const POINT: &str = "WARPLOCK_TEST_POINT";
const READ_ONLY: &str = "WARPLOCK_TEST_READ_ONLY";

impl Place {
    /// A new store in a temporary folder; `None`, after saying why, where nothing can be mounted.
    pub(crate) fn new(subject: Subject) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let folder = TempDir::new().unwrap();
        let (store, point) = (folder.path().join("store"), folder.path().join("mount"));
        fs::create_dir(&store).unwrap();
        let mut place = Place::at(subject, store, point);
        place._folder = Some(folder);
        Some(place)
    }

    /// A new store in the empty folder `store`.
    pub(crate) fn at(subject: Subject, store: PathBuf, point: PathBuf) -> Self {
        fs::create_dir_all(&point).unwrap();
        let key = match subject {
            Subject::PassThrough => None,
            Subject::Vault(block_size) => {
                let settings = Settings {
                    block_size,
                    ..Settings::default()
                };
                let mut recipients = Recipients::new(Arc::new(NoPrompt));
                recipients
                    .add(&NewIdentity::generate().recipient())
                    .unwrap();
                Some(init(&store, &settings, "main", &recipients).unwrap())
            }
        };
        Place {
            store,
            point,
            subject,
            key,
            _folder: None,
        }
    }

    /// Mounts it.
    pub(crate) fn mount(&self) -> Standing {
        self.mount_as(false)
    }

    /// Mounts it for reading alone.
    pub(crate) fn mount_read_only(&self) -> Standing {
        self.mount_as(true)
    }

    fn mount_as(&self, read_only: bool) -> Standing {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "harness::serve", "--ignored", "--nocapture"])
            .env(STORE, &self.store)
            .env(POINT, &self.point)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        match self.subject {
            Subject::PassThrough => command.env(SUBJECT, "pass-through"),
            Subject::Vault(_) => command.env(SUBJECT, "vault"),
        };
        if let Some(key) = &self.key {
            let digits: String = key.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
            command.env(KEY, digits);
        }
        if read_only {
            command.env(READ_ONLY, "1");
        }
        let standing = Standing {
            child: command.spawn().unwrap(),
            point: self.point.clone(),
        };
        let start = Instant::now();
        while !matches!(fuse::mounted_at(&self.point), Ok(Some(_))) {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "nothing is mounted"
            );
            thread::sleep(Duration::from_millis(3));
        }
        standing
    }

    /// All paths in the store, to see what is there without the vault.
    pub(crate) fn stored(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.store.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
                found.push(entry.path());
            }
        }
        found
    }
}

/// Bytes of memory in use now, and the most ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) most: u64,
}

/// A mount that stands until this is dropped.
pub(crate) struct Standing {
    child: Child,
    point: PathBuf,
}

impl Standing {
    /// A path in the mount.
    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.point.join(name.as_ref())
    }

    /// Where it is mounted.
    pub(crate) fn root(&self) -> &Path {
        &self.point
    }

    /// Unmounts, and waits until the process has written everything and ended well.
    #[track_caller]
    pub(crate) fn end(mut self) {
        let start = Instant::now();
        while fuse::unmount(&self.point, false).is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "the mount is busy"
            );
            thread::sleep(Duration::from_millis(3));
        }
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(
            status.success(),
            "the process that serves the mount: {status}"
        );
    }

    /// Kills the process (SIGKILL).
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How much memory the serving process has.
    pub(crate) fn memory(&self) -> Memory {
        let path = format!("/proc/{}/status", self.process());
        let status = fs::read_to_string(path).unwrap();
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.unwrap().split_whitespace().next().unwrap();
            kib.parse::<u64>().unwrap() << 10
        };
        Memory {
            resident: bytes("VmRSS:"),
            most: bytes("VmHWM:"),
        }
    }

    /// The process that serves the mount.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let _ = fuse::unmount(&self.point, true);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other process: no test.
#[test]
#[ignore = "started by the tests"]
fn serve() {
    let Some(store) = std::env::var_os(STORE) else {
        return;
    };
    let store = PathBuf::from(store);
    let point = PathBuf::from(std::env::var_os(POINT).unwrap());
    match std::env::var(SUBJECT).unwrap().as_str() {
        "pass-through" => stand(Arc::new(PassThrough::open(&store).unwrap()), &point),
        _ => {
            let digits = std::env::var(KEY).unwrap();
            let mut key = [0; 32];
            for (byte, digits) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
                *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
            }
            let options = Options {
                read_only: std::env::var_os(READ_ONLY).is_some(),
                memory: Some(point.with_extension("memory")),
                trouble: Some(Arc::new(|line: &str| eprintln!("vault: {line}"))),
                ..Options::default()
            };
            let vault = Vault::open(&store, &MasterKey::from_bytes(&key), options).unwrap();
            stand(Arc::new(vault), &point);
        }
    }
}

/// Serves until it is unmounted; unmounts when the test that started this is no more.
fn stand<F: FileSystem>(fs: Arc<F>, point: &Path) {
    let options = fuse::Options {
        allow_other: true,
        read_only: std::env::var_os(READ_ONLY).is_some(),
        ..fuse::Options::default()
    };
    let mount = Mount::new(fs, point, &options).unwrap();
    let point = point.to_owned();
    thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = fuse::unmount(&point, true);
    });
    mount.wait().unwrap();
}

/// Whether this machine lets us mount; says so if not.
pub(crate) fn can_mount() -> bool {
    let why = if !Path::new("/dev/fuse").exists() {
        "no /dev/fuse"
    } else if !rustix::process::geteuid().is_root() {
        "not root"
    } else {
        return true;
    };
    // Past the capture of the test's output.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
    false
}

/// Ends the whole test program if `work` takes too long: a mount that hangs would hang the test.
pub(crate) fn limited(work: impl FnOnce()) {
    let seconds = number("WARPLOCK_TEST_SECONDS", 120);
    let (done, waits) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        let outcome = waits.recv_timeout(Duration::from_secs(seconds));
        if outcome == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a test took longer than {seconds} s");
            // The processes that serve mounts see the end of their input, and unmount.
            std::process::abort();
        }
    });
    work();
    drop(done);
}

/// A number from the environment.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}: {text}")),
        Err(_) => default,
    }
}

/// Random numbers that a seed repeats (SplitMix64).
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// With a new seed, which is printed, or that of WARPLOCK_SEED.
    pub(crate) fn seeded() -> Self {
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = number("WARPLOCK_SEED", now.as_nanos() as u64 >> 8);
        println!("WARPLOCK_SEED={seed}");
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8))
            .flat_map(|_| self.next().to_le_bytes())
            .collect();
        bytes.truncate(len);
        bytes
    }
}
