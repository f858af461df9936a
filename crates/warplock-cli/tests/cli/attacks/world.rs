//! An owner's vault, its states, and what an attacker can do to its store.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Folder, Outcome};
use crate::vault::vault_in;

pub(super) const BLOCK: usize = 4096;
/// Where blocks begin.
pub(super) const START: usize = 4096;
/// Long enough for seals to stand in a page, which has two slots before block 16.
pub(super) const LONG: usize = 20 * BLOCK + 50;
pub(super) const SHORT: usize = 3 * BLOCK + 50;
/// Where the page of seals of a long file begins.
pub(super) const PAGE: usize = START + 16 * BLOCK;
/// A name that is too long for one name in the store.
pub(super) const LONG_NAME: &str = "a name that is so long that its encrypted form has to stand in a \
    file of its own next to the entry, because no file system takes names of more than 255 bytes, \
    and this one has two hundred and some more";

/// Whether the machine's memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    On,
    Off,
}

impl Memory {
    pub(super) fn options(self) -> &'static [&'static str] {
        match self {
            Memory::On => &[],
            Memory::Off => &["--no-memory"],
        }
    }
}

/// A vault in `store`, mounted on `plain`, and the owner's machine.
pub(super) struct World(pub(super) Folder);

impl World {
    pub(super) fn new() -> Self {
        World(vault_in(Folder::in_memory()))
    }

    pub(super) fn store(&self) -> PathBuf {
        self.0.path("store")
    }

    /// Mounts in the foreground.
    pub(super) fn mount(&self, options: &[&str]) -> Mounted<'_> {
        let said = self.0.path("said");
        let mut command = self.0.command(["vault", "mount", "-f", "store", "plain"]);
        command.args(["-i", "key.txt"]).args(options);
        command.stderr(File::create(&said).unwrap());
        command.stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let point = self.0.path("plain").canonicalize().unwrap();
        let start = Instant::now();
        while !matches!(warplock_vault::fuse::mounted_at(&point), Ok(Some(_))) {
            let ended = child.try_wait().unwrap();
            assert!(
                ended.is_none() && start.elapsed() < Duration::from_secs(20),
                "{ended:?} {}",
                fs::read_to_string(&said).unwrap()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        Mounted {
            world: self,
            child,
            point,
        }
    }

    pub(super) fn mount_with(&self, memory: Memory, options: &[&str]) -> Mounted<'_> {
        self.mount(&[memory.options(), options].concat())
    }

    /// What the owner does in a session of its own.
    pub(super) fn session(&self, work: impl FnOnce(&Path)) -> String {
        let mounted = self.mount(&[]);
        work(&mounted.point);
        mounted.end()
    }

    pub(super) fn check(&self, options: &[&str]) -> Checked {
        let arguments = ["vault", "check", "store", "-i", "key.txt", "--json"];
        let outcome = self.0.run([&arguments[..], options].concat());
        Checked::of(&outcome)
    }

    pub(super) fn check_with(&self, memory: Memory, options: &[&str]) -> Checked {
        self.check(&[memory.options(), options].concat())
    }

    /// Copies the store, or all that there is, with everything that belongs to it.
    pub(super) fn copy(&self, from: &str, to: &str) {
        let to = self.0.path(to);
        let _ = fs::remove_dir_all(&to);
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.0.path(from)).arg(to);
        assert!(copy.status().unwrap().success());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = warplock_vault::fuse::unmount(&self.0.path("plain"), true);
    }
}

/// A mount, and the process that serves it.
pub(super) struct Mounted<'a> {
    world: &'a World,
    child: Child,
    pub(super) point: PathBuf,
}

impl Mounted<'_> {
    pub(super) fn said(&self) -> String {
        fs::read_to_string(self.world.0.path("said")).unwrap()
    }

    /// Waits until this is said: the thread that says it is another one.
    #[track_caller]
    pub(super) fn says(&self, text: &str) {
        let start = Instant::now();
        while !self.said().contains(text) {
            assert!(start.elapsed() < Duration::from_secs(5), "{}", self.said());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Unmounts, and returns what was said; the vault must have been closed.
    #[track_caller]
    pub(super) fn end(mut self) -> String {
        // Programs that other tests start have our files for a moment.
        let mut tries = 0..200;
        let unmounted = loop {
            let unmounted = self.world.0.run(["vault", "unmount", "plain"]);
            if !unmounted.stderr().contains("is in use") || tries.next().is_none() {
                break unmounted;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        // On a machine with more work than it can do, closing may take longer than a command waits.
        if !unmounted.stderr().contains("its process still writes") {
            unmounted.code(0);
        }
        assert!(self.child.wait().unwrap().success());
        self.said()
    }

    /// The process that serves it.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// As a power failure ends it.
    pub(super) fn crash(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
        self.child.wait().unwrap();
        let _ = warplock_vault::fuse::unmount(&self.point, true);
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = warplock_vault::fuse::unmount(&self.point, true);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a check says.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) code: i32,
    pub(super) findings: Vec<Value>,
    pub(super) said: String,
}

impl Checked {
    fn of(outcome: &Outcome) -> Self {
        let mut findings = outcome.json();
        findings.retain(|it| it["type"] == "finding");
        findings.sort_by_key(Value::to_string);
        Checked {
            code: outcome.status().code().unwrap_or(-1),
            findings,
            said: outcome.stderr(),
        }
    }

    /// The problems of one class at this path or below it.
    pub(super) fn problems(&self, class: &str, path: &str) -> Vec<&str> {
        let below = |it: &&Value| {
            let found = it["path"].as_str().unwrap();
            let rest = found.strip_prefix(path);
            it["class"] == class
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let problems = self.findings.iter().filter(below);
        problems.map(|it| it["problem"].as_str().unwrap()).collect()
    }

    /// Whether a repair moved what was shown at this path, or a folder or name of it, out of the way.
    pub(super) fn moved(&self, path: &str) -> bool {
        let folder = path.split('/').next().unwrap();
        let moved = |it: &&Value| {
            it["action"]
                .as_str()
                .unwrap()
                .starts_with("moved in the store")
        };
        let mut moved = self.findings.iter().filter(moved);
        moved.any(|it| {
            let found = it["path"].as_str().unwrap().trim_start_matches('/');
            path.starts_with(found) || found.starts_with(folder) && found.ends_with(".long")
        })
    }

    /// That there is one finding, of this class, which says this.
    #[track_caller]
    pub(super) fn only(&self, code: i32, class: &str, says: &str) {
        let right = |it: &Value| {
            let told = format!("{} {}", it["path"], it["problem"]);
            it["class"] == class && told.contains(says)
        };
        let all = self.findings.iter().all(right) && !self.findings.is_empty();
        assert!(self.code == code && all, "{self:#?}");
    }

    #[track_caller]
    pub(super) fn nothing(&self) {
        assert!(self.code == 0 && self.findings.is_empty(), "{self:#?}");
    }
}

/// Where the objects of a vault stand in its store, by their paths.
pub(super) type Places = HashMap<String, PathBuf>;

/// Matches the mount with the store by their inode numbers; an object with two names in one folder
/// is left out.
pub(super) fn places(point: &Path, store: &Path) -> Places {
    fn entries(path: &Path) -> Vec<(String, u64, bool)> {
        let entries = fs::read_dir(path).unwrap().map(|entry| {
            let entry = entry.unwrap();
            let found = entry.path().symlink_metadata().unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, found.ino(), found.is_dir())
        });
        entries.collect()
    }
    let mut found = Places::new();
    let mut folders = vec![(String::new(), PathBuf::new())];
    while let Some((path, stored)) = folders.pop() {
        let inside = entries(&store.join(&stored));
        for (name, inode, is_folder) in entries(&point.join(&path)) {
            let mut same = inside.iter().filter(|it| it.1 == inode);
            let (Some(entry), None) = (same.next(), same.next()) else {
                continue;
            };
            let path = format!("{path}/{name}").trim_start_matches('/').to_owned();
            let stored = stored.join(&entry.0);
            found.insert(path.clone(), stored.clone());
            if is_folder {
                folders.push((path, stored));
            }
        }
    }
    found
}

/// An attacker who can do everything with the store, and has an old copy of it.
pub(super) struct Attacker<'a> {
    /// The folder of the vault that is attacked.
    pub(super) folder: &'a str,
    /// The store now, and after the owner's first session.
    pub(super) now: (PathBuf, &'a Places),
    pub(super) old: (PathBuf, &'a Places),
}

impl Attacker<'_> {
    fn path(&self, (store, places): &(PathBuf, &Places), path: &str) -> PathBuf {
        let path = format!("{}/{path}", self.folder);
        let path = path.trim_end_matches('/');
        let stored = places.get(path);
        store.join(stored.unwrap_or_else(|| panic!("{path} is nowhere in the store")))
    }

    /// Where an object is in the store; the folder that is attacked is "".
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.path(&self.now, path)
    }

    /// The same in the old copy.
    pub(super) fn old(&self, path: &str) -> PathBuf {
        self.path(&self.old, path)
    }

    /// Where an object of the old copy would stand now.
    pub(super) fn was(&self, path: &str) -> PathBuf {
        let stored = self.old(path);
        self.now.0.join(stored.strip_prefix(&self.old.0).unwrap())
    }

    pub(super) fn edit(&self, path: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        rewrite(&self.at(path), edit);
    }

    /// Edits a file with its content after the first session.
    pub(super) fn mix(&self, path: &str, edit: impl FnOnce(&mut Vec<u8>, &[u8])) {
        let old = fs::read(self.old(path)).unwrap();
        self.edit(path, |data| edit(data, &old));
    }

    /// Puts an object back as it was after the first session.
    pub(super) fn put_back(&self, path: &str) {
        let to = self.was(path);
        remove(&to);
        copy(&self.old(path), &to);
    }

    pub(super) fn exchange(&self, one: &str, other: &str) {
        let flags = RenameFlags::EXCHANGE;
        renameat_with(CWD, self.at(one), CWD, self.at(other), flags).unwrap();
    }

    /// Puts a copy of one object in the place of another.
    pub(super) fn copy_over(&self, from: &str, to: &str) {
        let to = self.at(to);
        remove(&to);
        copy(&self.at(from), &to);
    }

    /// A hard link instead of a copy.
    pub(super) fn link_over(&self, from: &str, to: &str) {
        let to = self.at(to);
        remove(&to);
        fs::hard_link(self.at(from), to).unwrap();
    }

    pub(super) fn remove(&self, path: &str) {
        remove(&self.at(path));
    }

    /// An object of another kind under this name in the store, in place of what is there.
    pub(super) fn plant(&self, at: &Path, kind: Kind) {
        remove(at);
        plant(at, kind);
    }
}

/// What can stand in a folder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    File,
    Folder,
    Symlink,
    Fifo,
    Socket,
    Device,
}

pub(super) fn plant(at: &Path, kind: Kind) {
    use rustix::fs::{FileType, Mode, makedev, mknodat};
    let node = |kind, device| {
        mknodat(CWD, at, kind, Mode::from_raw_mode(0o666), device).unwrap();
    };
    match kind {
        Kind::File => drop(File::create_new(at).unwrap()),
        Kind::Folder => fs::create_dir(at).unwrap(),
        Kind::Symlink => symlink("/etc/passwd", at).unwrap(),
        Kind::Fifo => node(FileType::Fifo, 0),
        Kind::Socket => node(FileType::Socket, 0),
        Kind::Device => node(FileType::CharacterDevice, makedev(1, 5)),
    }
}

pub(super) fn rewrite(path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
    let mut data = fs::read(path).unwrap();
    edit(&mut data);
    fs::write(path, data).unwrap();
}

pub(super) fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// With attributes, permissions and owners.
pub(super) fn copy(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    copy.args(["-a", "--no-target-directory", "--"])
        .arg(from)
        .arg(to);
    assert!(copy.status().unwrap().success());
}

/// Takes a file system out of the tree, however a test ends.
pub(super) struct Detached(pub(super) PathBuf);

impl Drop for Detached {
    fn drop(&mut self) {
        let _ = warplock_vault::fuse::unmount(&self.0, true);
    }
}
