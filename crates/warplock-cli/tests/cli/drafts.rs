//! Unfinished outputs: their readers, and what is left of them. On a file system without unnamed
//! files, for which a mounted vault stands, they have names.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{XattrFlags, setxattr};
use rustix::process::{Pid, Signal, kill_process};
use warplock_vault::fuse;

use crate::common::{Folder, make_fifo, pattern, receive_signals, wait};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A folder `mnt` in which no file can be made without a name.
struct NamedOnly(Folder);

impl NamedOnly {
    fn mount() -> Option<Self> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            let _ = writeln!(std::io::stderr(), "skipped: no /dev/fuse, or not root");
            return None;
        }
        let folder = Folder::new();
        folder
            .run(["vault", "init", "store", "-R", "recipient.txt"])
            .code(0);
        fs::create_dir(folder.path("mnt")).unwrap();
        let mounted = NamedOnly(folder);
        mounted
            .0
            .run(["vault", "mount", "store", "mnt", "-i", "key.txt"])
            .code(0);
        Some(mounted)
    }

    /// The only file with a temporary name, once there is one with `least` bytes.
    fn draft(&self, least: u64) -> std::path::PathBuf {
        let start = Instant::now();
        loop {
            let entries = fs::read_dir(self.0.path("mnt")).unwrap();
            let mut paths = entries.map(|entry| entry.unwrap().path());
            let is_hidden = |path: &std::path::PathBuf| {
                path.file_name().unwrap().to_string_lossy().starts_with('.')
                    && fs::metadata(path).is_ok_and(|found| found.len() >= least)
            };
            if let Some(found) = paths.find(is_hidden) {
                return found;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no draft");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path("mnt")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

impl Drop for NamedOnly {
    fn drop(&mut self) {
        let _ = fuse::unmount(&self.0.path("mnt"), true);
    }
}

/// Starts a command that reads `input` through the pipe `fifo`, of which it gets the first part.
fn half_fed(folder: &Folder, args: &[&str], input: &[u8]) -> (Child, fs::File) {
    // A new one each time: a process that another test is just starting may still hold the last one,
    // and with it what was not read.
    let _ = fs::remove_file(folder.path("fifo"));
    make_fifo(&folder.path("fifo"));
    let mut child = folder.command(args).stdout(Stdio::null()).spawn().unwrap();
    let fifo = fs::OpenOptions::new().write(true).open(folder.path("fifo"));
    let mut fifo = fifo.unwrap();
    if let Err(error) = fifo.write_all(&input[..input.len() / 2]) {
        panic!("{error}: {:?}", wait(&mut child));
    }
    (child, fifo)
}

#[test]
fn only_the_owner_may_read_what_is_not_finished() {
    receive_signals();
    let Some(mounted) = NamedOnly::mount() else {
        return;
    };
    let folder = &mounted.0;
    folder.write("a", pattern(20 << 20));
    folder.write("key", pattern(16));
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    let raw = ["raw", "encrypt", "--algorithm", "aes-128-gcm"];
    let key = ["--key", "@key", "--iv", "@key"];
    folder
        .run([&raw[..], &key[..], &["-i", "a", "-o", "a.gcm"]].concat())
        .code(0);
    let raw = ["raw", "decrypt", "--algorithm", "aes-128-gcm"];
    let raw = [
        &raw[..],
        &key[..],
        &["--force", "-i", "fifo", "-o", "mnt/secret"],
    ]
    .concat();
    let decrypt = [
        "decrypt",
        "-i",
        "key.txt",
        "--force",
        "-o",
        "mnt/secret",
        "fifo",
    ];
    for (args, input) in [(&decrypt[..], "a.wl"), (&raw, "a.gcm")] {
        let input = folder.read(input);
        for replaced in [Some(0o600), Some(0o644), None] {
            let secret = folder.path("mnt/secret");
            let prepare = || {
                let _ = fs::remove_file(&secret);
                if let Some(replaced) = replaced {
                    fs::write(&secret, "precious").unwrap();
                    set_mode(&secret, replaced);
                }
            };
            let before = replaced.map(|_| "secret".to_owned());
            prepare();
            // A signal that can be caught leaves nothing.
            let (mut child, fifo) = half_fed(folder, args, &input);
            assert_eq!(
                mode(&mounted.draft(1 << 20)),
                0o600,
                "{args:?} {replaced:?}"
            );
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            assert_eq!(wait(&mut child).signal(), Some(libc::SIGTERM));
            drop(fifo);
            assert_eq!(mounted.names(), Vec::from_iter(before.clone()));
            // One that cannot leaves what only the owner can read.
            let (mut child, fifo) = half_fed(folder, args, &input);
            let draft = mounted.draft(1 << 20);
            child.kill().unwrap();
            wait(&mut child);
            drop(fifo);
            assert_eq!(mode(&draft), 0o600);
            fs::remove_file(draft).unwrap();
            assert_eq!(mounted.names(), Vec::from_iter(before));
            // The finished file has the mode of the one that it replaces, or the usual one.
            let (mut child, mut fifo) = half_fed(folder, args, &input);
            fifo.write_all(&input[input.len() / 2..]).unwrap();
            drop(fifo);
            assert!(wait(&mut child).success());
            assert_eq!(mounted.names(), ["secret"]);
            fs::write(folder.path("mnt/usual"), "").unwrap();
            let usual = mode(&folder.path("mnt/usual"));
            fs::remove_file(folder.path("mnt/usual")).unwrap();
            assert_eq!(mode(&secret), replaced.unwrap_or(usual));
            assert!(fs::read(&secret).unwrap() == folder.read("a"));
        }
    }
    // Parts and keys.
    let args = [
        "decrypt", "-i", "key.txt", "--range", "5..10", "-o", "mnt/part", "a.wl",
    ];
    folder.run(args).code(0);
    assert_eq!(folder.read("mnt/part"), pattern(10)[5..]);
    folder.run(["keygen", "-o", "mnt/key"]).code(0);
    assert_eq!(mode(&folder.path("mnt/key")), 0o600);
    set_mode(&folder.path("mnt/key"), 0o644);
    folder.run(["keygen", "-o", "mnt/key", "--force"]).code(0);
    assert_eq!(mode(&folder.path("mnt/key")), 0o600);
    assert_eq!(mounted.names(), ["key", "part", "secret"]);
}

#[test]
fn a_folder_may_choose_the_readers_of_new_files() {
    let folder = Folder::new();
    folder.write("a", "text");
    fs::create_dir(folder.path("shared")).unwrap();
    // acl(5) as the kernel has it: version 2, then tag, permissions and id of owner, group, others.
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions) in [(0x01_u16, 7_u16), (0x04, 6), (0x20, 0)] {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend([0xFF; 4]);
    }
    let name = "system.posix_acl_default";
    if let Err(error) = setxattr(folder.path("shared"), name, &acl, XattrFlags::empty()) {
        let _ = writeln!(std::io::stderr(), "skipped: no access lists here ({error})");
        return;
    }
    folder
        .run(["encrypt", "-R", "recipient.txt", "-o", "shared/a.wl", "a"])
        .code(0);
    assert_eq!(mode(&folder.path("shared/a.wl")), 0o660);
}

#[test]
fn the_umask_counts() {
    let folder = Folder::new();
    folder.write("a", "text");
    for (umask, expected) in [("022", 0o644), ("077", 0o600), ("002", 0o664)] {
        folder.shell(&format!(
            "umask {umask}; $W encrypt -R recipient.txt --force -o {umask}.wl a"
        ));
        assert_eq!(mode(&folder.path(&format!("{umask}.wl"))), expected);
    }
}

#[test]
fn a_secret_key_for_all_to_read_is_warned_of() {
    let folder = Folder::new();
    for args in [
        "keygen > out",
        "keygen --json > out",
        "keygen --raw-key > out",
        "keygen -o /dev/fd/3 3> out",
    ] {
        for (mode, warned) in [(0o644, true), (0o640, true), (0o600, false)] {
            folder.write("out", "");
            set_mode(&folder.path("out"), mode);
            folder.shell(&format!("$W {args} 2> said"));
            let said = String::from_utf8(folder.read("said")).unwrap();
            let says = "a secret key goes to a file that is open to other users";
            assert_eq!(said.contains(says), warned, "{args} {mode:o}: {said}");
            assert!(!folder.read("out").is_empty());
        }
    }
    folder.shell(
        "$W keygen -y key.txt > out 2> said; test ! -s said
         $W keygen --json | cat > out 2> said; test ! -s said",
    );
}
