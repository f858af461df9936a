//! `rewrap`: other keys for a file.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::thread::sleep;
use std::time::Duration;

use crate::common::{Folder, Outcome, pattern};

const LARGE: usize = 3 << 20;

/// A folder with `a.wl` for `key.txt`, and another identity `new.txt`.
fn folder(len: usize) -> Folder {
    let folder = Folder::new();
    folder.run(["keygen", "-o", "new.txt"]).code(0);
    folder
        .run(["keygen", "-y", "new.txt", "-o", "new.rcp"])
        .code(0);
    folder.write("a", pattern(len));
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    folder
}

const REWRAP: [&str; 5] = ["rewrap", "-i", "key.txt", "-R", "new.rcp"];

#[test]
fn others_open_the_file_from_then_on() {
    for len in [10, LARGE] {
        let folder = folder(len);
        folder.run(REWRAP.iter().chain(&["a.wl"])).code(0);
        folder
            .run(["verify", "-i", "key.txt", "a.wl"])
            .code(4)
            .says("a.wl: ");
        let opened = folder.run(["decrypt", "-i", "new.txt", "-o", "-", "a.wl"]);
        assert_eq!(opened.code(0).stdout(), pattern(len));
        let again = ["rewrap", "--rekey", "-i", "new.txt", "-R", "recipient.txt"];
        let done = folder.run(again.iter().chain(&["--json", "a.wl"])).code(0);
        assert_eq!(done.json()[0]["content_bytes"], len);
        folder.run(["verify", "-i", "key.txt", "a.wl"]).code(0);
        assert_eq!(folder.names(), ["a", "a.wl", "new.rcp", "new.txt"]);
    }
}

#[test]
fn passphrases_change() {
    let folder = folder(LARGE);
    folder.write("one", "open sesame\n");
    folder.write("two", "open barley\n");
    let to = ["rewrap", "-i", "key.txt", "--new-passphrase-file", "one"];
    folder.run(to.iter().chain(&["a.wl"])).code(0);
    let change = ["--passphrase-file", "one", "--new-passphrase-file", "two"];
    let all = [&["rewrap", "-v", "a.wl"][..], &change].concat();
    folder.run(&all).code(0).says("a.wl: rewrapped in ");
    folder.run(&all).code(4).says("wrong passphrase");
    let opened = folder.run(["decrypt", "--passphrase-file", "two", "-o", "-", "a.wl"]);
    assert_eq!(opened.code(0).stdout(), pattern(LARGE));
}

#[test]
fn what_cannot_be_rewrapped_is_refused() {
    let folder = folder(10);
    folder
        .run(["encrypt", "--key-file", "k.key", "-o", "bare", "a"])
        .code(0);
    let before = folder.read("a.wl");
    folder
        .run(REWRAP.iter().chain(&["bare"]))
        .code(1)
        .says("bare: cannot be rewrapped: it has no envelope: it is no encrypted file, or");
    folder.run(REWRAP.iter().chain(&["a"])).code(1);
    folder
        .run(REWRAP.iter().chain(&["missing"]))
        .code(1)
        .says("missing: ");
    folder
        .run(["rewrap", "-i", "key.txt", "a.wl"])
        .code(2)
        .says("name the keys");
    folder.run(REWRAP.iter().chain(&["-"])).code(2);
    folder
        .run(["rewrap", "-i", "new.txt", "-R", "new.rcp", "a.wl"])
        .code(4);
    assert_eq!(folder.read("a.wl"), before);
}

#[test]
fn a_read_only_file_stays() {
    let folder = folder(10);
    let before = folder.read("a.wl");
    fs::set_permissions(folder.path("a.wl"), Permissions::from_mode(0o444)).unwrap();
    let mut command = folder.command(REWRAP.iter().chain(&["a.wl"]));
    if rustix::process::geteuid().is_root() {
        const NOBODY: u32 = 65534;
        for name in ["", "a.wl", "key.txt", "new.rcp"] {
            chown(folder.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    Outcome::of(&mut command).code(1).says("a.wl: cannot write");
    assert_eq!(folder.read("a.wl"), before);
}

/// Whenever it is killed, the old or the new key opens the file, if need be after another run.
#[test]
fn killed_at_any_time() {
    let folder = folder(LARGE);
    let keys = [("key.txt", "new.rcp"), ("new.txt", "recipient.txt")];
    let mut turn = 0;
    for round in 0..40 {
        let (old, new) = keys[turn];
        let args = ["rewrap", "-q", "-i", old, "-R", new, "a.wl"];
        let mut child = folder.command(args).spawn().unwrap();
        sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let opens = |key: &str| {
            let verified = folder.run(["verify", "-q", "-i", key, "a.wl"]);
            verified.status().code() == Some(0)
        };
        if opens(keys[1 - turn].0) {
            turn = 1 - turn;
        } else if !opens(old) {
            folder.run(args).code(0);
            turn = 1 - turn;
            assert!(opens(keys[turn].0), "round {round}");
        }
    }
}

#[test]
fn an_interrupted_rewrap_is_named_and_repaired() {
    let folder = folder(LARGE);
    let mut torn = folder.read("a.wl");
    fs::write(
        folder.path(".a.wl.rewrap"),
        &torn[..torn.len() - {
            // The stream's length: 56 bytes, 192 whole chunks and an empty one.
            56 + LARGE + 193 * 16
        }],
    )
    .unwrap();
    torn[60..200].fill(b'x');
    folder.write("a.wl", &torn);
    for command in ["decrypt", "verify"] {
        let args = [command, "-i", "key.txt", "a.wl"];
        let outcome = folder.run(args);
        assert_ne!(outcome.status().code(), Some(0));
        outcome.says("a rewrap of this file was interrupted");
    }
    folder.run(REWRAP.iter().chain(&["a.wl"])).code(0);
    folder.run(["verify", "-i", "new.txt", "a.wl"]).code(0);
    assert!(!folder.path(".a.wl.rewrap").exists());
}
