//! Work, memory and time that an input asks for before it is authenticated.

use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::common::{Folder, Outcome, pattern};
use warplock_container::Envelope;
use warplock_keyring::{MasterKey, NoPrompt, Recipients, wrap};

/// A file whose passphrase stanza asks for this work, and was made with less.
fn asking_for(log_n: u8) -> Vec<u8> {
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    let passphrase = "correct horse".to_owned().into();
    recipients.add_passphrase(passphrase).unwrap();
    recipients.set_work_factor(1);
    let mut wrapped = wrap(&MasterKey::generate().unwrap(), &recipients).unwrap();
    let at = wrapped
        .windows(3)
        .position(|found| found == b" 1\n")
        .unwrap();
    wrapped.splice(at..at + 3, format!(" {log_n}\n").into_bytes());
    let mut file = Vec::new();
    let envelope = Envelope::new(wrapped).unwrap();
    envelope.write(&mut file).unwrap();
    file
}

#[test]
fn work_for_a_passphrase_must_be_allowed() {
    let folder = Folder::new();
    folder.write("pass", "correct horse\n");
    for (log_n, option, exit, says) in [
        (1, None, 1, "empty"),
        (2, None, 4, "wrong passphrase"),
        (2, Some("1"), 1, "--max-work 2"),
        (19, None, 1, "512 MiB of memory, about 2 seconds"),
        (22, None, 1, "--max-work 22"),
        (22, Some("21"), 1, "4 GiB"),
        (23, Some("22"), 1, "stall its reader"),
        (22, Some("23"), 2, "--max-work"),
    ] {
        folder.write("in.wl", asking_for(log_n));
        for command in ["decrypt", "verify"] {
            let mut args = vec![command, "in.wl", "--passphrase-file", "pass"];
            args.extend(option.map(|option| ["--max-work", option]).iter().flatten());
            folder.run(args).code(exit).says(says);
        }
        let expected = ["in.wl", "pass"];
        assert_eq!(folder.names(), expected);
    }
    // Identity files and the keys of vaults are files, too.
    let envelope = asking_for(20);
    let start = envelope
        .windows(4)
        .position(|found| found == b"age-")
        .unwrap();
    folder.write("identity", &envelope[start..]);
    for args in [
        &["keygen", "-y", "identity"][..],
        &["encrypt", "-i", "identity", "pass"],
        &["decrypt", "-i", "identity", "in.wl"],
    ] {
        folder.write("in.wl", {
            let mut file = Vec::new();
            let own = String::from_utf8(folder.read("recipient.txt")).unwrap();
            let mut recipients = Recipients::new(Arc::new(NoPrompt));
            recipients.add(&own).unwrap();
            let wrapped = wrap(&MasterKey::generate().unwrap(), &recipients).unwrap();
            Envelope::new(wrapped).unwrap().write(&mut file).unwrap();
            file
        });
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(env!("CARGO_BIN_EXE_warplock"));
        command.args(args).current_dir(folder.root());
        let command = command.stdin(Stdio::null());
        Outcome::of(command).code(1).says("--max-work 20");
    }
}

/// What cannot be had is an error like any other, and no abort.
#[test]
fn too_little_memory_is_one_line() {
    let folder = Folder::new();
    folder.write("pass", "correct horse\n");
    folder.write("in", pattern(20 << 20));
    folder.run(["encrypt", "-R", "recipient.txt", "in"]).code(0);
    for args in [
        &["encrypt", "--passphrase-file", "pass", "-o", "out", "in"][..],
        &["encrypt", "-R", "recipient.txt", "-o", "out", "in"],
        &["decrypt", "-i", "key.txt", "-o", "out", "in.wl"],
        &["verify", "-i", "key.txt", "in.wl"],
    ] {
        for kib in (40_000..240_000).step_by(10_000) {
            let mut shell = Command::new("sh");
            let script = format!("ulimit -v {kib} && exec \"$0\" \"$@\"");
            shell.args(["-c", &script, env!("CARGO_BIN_EXE_warplock")]);
            shell.args(args).arg("-q").current_dir(folder.root());
            let outcome = shell.stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&outcome.stderr);
            let code = outcome.status.code();
            match code {
                // A program that does not fit itself is not started.
                None | Some(127) if kib < 100_000 && !said.contains("alloc") => {}
                Some(0) => assert_eq!(said.lines().count(), 0, "{kib}: {said}"),
                _ => {
                    assert!(
                        matches!(code, Some(1 | 2)),
                        "{kib} {args:?}: {code:?} {said}"
                    );
                    assert_eq!(said.lines().count(), 1, "{kib} {args:?}: {said}");
                    assert!(said.starts_with("warplock: "), "{kib} {args:?}: {said}");
                }
            }
            if kib == 120_000 && args.contains(&"pass") {
                assert_eq!(code, Some(1));
                assert!(
                    said.contains(", perhaps for stretching a passphrase"),
                    "{said}"
                );
            }
            let _ = std::fs::remove_file(folder.path("out"));
        }
    }
}

/// Threads that help are done without; one that is needed is an error like any other.
#[test]
fn no_more_threads_are_less_speed_or_one_line() {
    let folder = Folder::new();
    // No thread gets a stack of more than the address space.
    let run = |args: &[&str]| {
        let mut command = folder.command(args);
        command.stdin(Stdio::null());
        Outcome::of(command.env("RUST_MIN_STACK", "200000000000000"))
    };
    let text = pattern(3 << 20);
    folder.write("in", &text);
    run(&["encrypt", "-R", "recipient.txt", "in"]).code(0);
    run(&["decrypt", "-i", "key.txt", "-o", "out", "in.wl"]).code(0);
    assert_eq!(folder.read("out"), text);

    std::fs::create_dir(folder.path("tree")).unwrap();
    for name in ["tree/a", "tree/b", "tree/c"] {
        folder.write(name, &text);
    }
    run(&["bulk", "encrypt", "-R", "recipient.txt", "tree", "sealed"]).code(0);
    run(&["bulk", "decrypt", "-i", "key.txt", "sealed", "opened"]).code(0);
    assert_eq!(folder.read("opened/b"), text);
    run(&["analyze", "in", "--threads", "4"]).code(0);

    let sealed = folder.read("in.wl");
    run(&[
        "rewrap",
        "--rekey",
        "-i",
        "key.txt",
        "-R",
        "recipient.txt",
        "in.wl",
    ])
    .code(1)
    .says("in.wl: cannot start a thread");
    assert_eq!(folder.read("in.wl"), sealed);
    folder.write("key16", &text[..16]);
    let ecb = ["raw", "encrypt", "--algorithm", "aes-128-ecb"];
    run(&[&ecb[..], &["--key", "@key16", "-i", "in", "-o", "raw"]].concat())
        .code(2)
        .says("cannot start");
    assert!(!folder.path("raw").exists());
}
