//! Passphrases are asked for only when nothing else is left to refuse: here, where there is no
//! terminal to ask at, the prompt is an error of its own.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Folder, Outcome, make_fifo};

/// Runs without a terminal.
fn run(folder: &Folder, args: &[&str]) -> Outcome {
    let mut command = Command::new("setsid");
    command
        .args(["--wait", env!("CARGO_BIN_EXE_warplock")])
        .args(args)
        .current_dir(folder.root());
    Outcome::of(&mut command)
}

const ASKED: &str = "the terminal cannot be asked";

#[test]
fn inputs_and_outputs_come_before_the_passphrase() {
    let folder = Folder::new();
    fs::create_dir(folder.path("dir")).unwrap();
    folder.write("a", "text");
    folder.write("b", "text");
    folder.write("b.wl", "there");
    fs::create_dir(folder.path("c.wl")).unwrap();
    folder.write("c", "text");
    for (args, says) in [
        (&["dir"][..], "dir: is a directory"),
        (&["missing"], "missing: cannot read"),
        (&["b"], "b.wl: exists already"),
        (&["c"], "c.wl: is a directory, so the output"),
        (&["-o", "no/such/folder", "a"], "cannot create"),
        (&["-o", "/dev/fd/9", "a"], "/dev/fd/9: is not open"),
        (&["missing", "b"], "b.wl: exists already"),
    ] {
        let refused = run(&folder, &[&["encrypt", "-p"], args].concat());
        let refused = refused.code(1).says(says);
        assert!(!refused.stderr().contains(ASKED), "{args:?}");
    }
    run(&folder, &["encrypt", "-p", "a"]).code(1).says(ASKED);
    run(&folder, &["encrypt", "-p", "missing", "a"])
        .code(1)
        .says("missing: cannot read")
        .says(ASKED);
    run(
        &folder,
        &[
            "encrypt",
            "-p",
            "--threads",
            "1",
            "--backend",
            "cuda:9999",
            "a",
        ],
    )
    .code(2);
    // A pipe is not opened: its writer would take that for the reader.
    make_fifo(&folder.path("fifo"));
    run(&folder, &["encrypt", "-p", "fifo"]).code(1).says(ASKED);
    run(&folder, &["encrypt", "-p", "-o", "fifo", "a"])
        .code(1)
        .says(ASKED);
    let names = ["a", "b", "b.wl", "c", "c.wl", "dir", "fifo"];
    assert_eq!(folder.names(), names);
    run(&folder, &["keygen", "-y", "missing", "-o", "dir"])
        .code(1)
        .says("missing: cannot read");
    run(&folder, &["keygen", "-y", "key.txt", "-o", "dir"])
        .code(1)
        .says("dir: is a directory, so the output");
}

#[test]
fn a_vault_is_looked_at_before_its_passphrase() {
    let folder = Folder::new();
    folder.write("pass", "open sesame");
    let init = ["vault", "init", "store", "--new-passphrase-file", "pass"];
    folder.run(init).code(0);
    fs::create_dir_all(folder.path("full/file")).unwrap();
    fs::create_dir(folder.path("plain")).unwrap();
    for (args, code, says) in [
        (&["init", "store"][..], 2, "is not empty"),
        (&["init", "pass"], 1, "pass: cannot make a vault here"),
        (&["init", "no/such/folder"], 1, "make that first"),
        (
            &["init", "new", "--block-size", "5000"],
            2,
            "5000 bytes do not exist",
        ),
        (
            &["passwd", "store", "--add", "main"],
            2,
            "key 'main' already",
        ),
        (
            &["passwd", "store", "--remove", "other"],
            2,
            "no key 'other'",
        ),
        (&["passwd", "store", "--name", "other"], 2, "no key 'other'"),
        (&["passwd", "store", "--remove", "main"], 2, "last key"),
        (&["passwd", "store", "-r", "age1wrong"], 2, "age1wrong"),
        (&["passwd", "plain"], 1, "warplock.vault"),
        (
            &["check", "store", "--backend", "cuda:9999"],
            2,
            "cuda:9999",
        ),
        (
            &["check", "store", "--witness", "none"],
            1,
            "no such witness",
        ),
        (
            &[
                "mount",
                "store",
                "plain",
                "-f",
                "--read-only",
                "--witness",
                "none",
            ],
            1,
            "no such witness",
        ),
    ] {
        let needs_device = args[0] == "mount" && !Path::new("/dev/fuse").exists();
        if needs_device {
            continue;
        }
        let refused = run(&folder, &[&["vault"], args].concat())
            .code(code)
            .says(says);
        assert!(!refused.stderr().contains(ASKED), "{args:?}");
    }
    assert!(!folder.path("new").exists());
    run(&folder, &["vault", "init", "new"])
        .code(1)
        .says("terminal cannot be asked");
    run(&folder, &["vault", "check", "store"])
        .code(1)
        .says(ASKED);
    // In use: the lock is what a mount holds.
    let lock = fs::File::create(folder.path("store/warplock.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut commands = vec![vec!["check", "store"], vec!["check", "store", "--repair"]];
    if Path::new("/dev/fuse").exists() {
        commands.push(vec!["mount", "-f", "store", "plain"]);
        commands.push(vec!["mount", "--read-only", "store", "plain"]);
    }
    for args in commands {
        let refused = run(&folder, &[&["vault"], &args[..]].concat())
            .code(1)
            .says("in use");
        assert!(!refused.stderr().contains(ASKED), "{args:?}");
    }
}

/// Runs a shell command in a terminal of its own, in which Ctrl-C is typed after a while. Gives what
/// the terminal shows, and the exit code; `None` where there is no program for this.
fn interrupted(folder: &Folder, command: &str) -> Option<(String, i32)> {
    let mut script = Command::new("script");
    let line = command.replace("$W", env!("CARGO_BIN_EXE_warplock"));
    let mut child = script
        .args(["-qec", &line, "/dev/null"])
        .current_dir(folder.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut keyboard = child.stdin.take().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    // It may have ended already.
    let _ = keyboard.write_all(b"\x03");
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    Some((shown, output.status.code().unwrap()))
}

#[test]
fn ctrl_c_at_a_prompt_ends_it_without_a_word() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.write("pass", "open sesame");
    folder
        .run(["encrypt", "--passphrase-file", "pass", "a"])
        .code(0);
    let mut commands = vec!["$W encrypt -p -o b a", "$W decrypt -o b a.wl"];
    if Path::new("/dev/fuse").exists() {
        let init = ["vault", "init", "store", "--new-passphrase-file", "pass"];
        folder.run(init).code(0);
        fs::create_dir(folder.path("plain")).unwrap();
        commands.push("$W vault mount store plain");
    }
    for command in commands {
        let Some((shown, code)) = interrupted(&folder, command) else {
            let _ = writeln!(std::io::stderr(), "skipped: no program `script`");
            return;
        };
        assert!(shown.contains("Enter "), "{command}: {shown}");
        assert!(!shown.contains("warplock: "), "{command}: {shown}");
        assert_eq!(code, 128 + libc::SIGINT, "{command}: {shown}");
    }
    // A terminal as the output is refused before the prompt.
    let (shown, code) = interrupted(&folder, "$W encrypt -p < a").unwrap();
    assert!(shown.contains("refusing to write ciphertext") && !shown.contains("Enter "));
    assert_eq!(code, 2);
}
