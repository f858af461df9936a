//! Passphrases that are not typed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{Folder, Outcome};

/// Runs without a terminal and with these variables.
fn run(folder: &Folder, variables: &[(&str, &str)], args: &[&str]) -> Outcome {
    let mut command = Command::new("setsid");
    command.args(["--wait", env!("CARGO_BIN_EXE_warplock")]);
    command.args(args).current_dir(folder.root());
    command.env("XDG_STATE_HOME", folder.path("state"));
    command.envs(variables.iter().copied());
    Outcome::of(&mut command)
}

const PASSPHRASE: &str = "WARPLOCK_PASSPHRASE";
const NEW: &str = "WARPLOCK_NEW_PASSPHRASE";

#[test]
fn a_variable_a_command_and_a_credential_are_as_good_as_a_file() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.write("pass", "open sesame\n");
    fs::create_dir(folder.path("credentials")).unwrap();
    folder.write("credentials/warplock.passphrase", "open sesame\n");
    let credentials = folder.path("credentials");
    let credentials = credentials.to_str().unwrap();
    let sources = [
        (&[][..], &["--passphrase-file", "pass"][..]),
        (&[], &["--passphrase-command", "printf 'open sesame'"]),
        (&[(PASSPHRASE, "open sesame")], &["-p"]),
        (&[("CREDENTIALS_DIRECTORY", credentials)], &["-p"]),
        // An option comes before the environment, and the variable before the credential.
        (&[(PASSPHRASE, "other")], &["--passphrase-file", "pass"]),
        (
            &[
                (PASSPHRASE, "open sesame"),
                ("CREDENTIALS_DIRECTORY", "/nonexistent"),
            ],
            &["-p"],
        ),
    ];
    for (number, (variables, options)) in sources.iter().enumerate() {
        run(
            &folder,
            variables,
            &[&["encrypt", "a", "-q"][..], options].concat(),
        )
        .code(0);
        let (variables, options) = sources[(number + 1) % sources.len()];
        let verify = [&["verify", "-q", "a.wl"][..], options].concat();
        run(&folder, variables, &verify).code(0);
        fs::remove_file(folder.path("a.wl")).unwrap();
    }
    // Without any option, where a passphrase would be asked for.
    let variable = [(PASSPHRASE, "open sesame")];
    run(&folder, &variable, &["encrypt", "a"])
        .code(2)
        .says("-p for a passphrase");
    run(&folder, &variable, &["encrypt", "-p", "a"]).code(0);
    run(&folder, &variable, &["decrypt", "-o", "b", "a.wl"]).code(0);
    assert_eq!(folder.read("b"), b"text");
    let wrong = run(&folder, &[(PASSPHRASE, "open barley")], &["verify", "a.wl"]);
    wrong.code(4).says("wrong passphrase");
    for empty in [&[][..], &[(PASSPHRASE, "")]] {
        run(&folder, empty, &["verify", "a.wl"])
            .code(1)
            .says("the terminal cannot be asked")
            .says("--passphrase-command COMMAND");
    }
    for (command, says) in [
        ("echo open sesame; exit 2", "failed (exit status: 2)"),
        (":", "printed none"),
    ] {
        let refused = run(
            &folder,
            &[],
            &["verify", "a.wl", "--passphrase-command", command],
        );
        assert!(!refused.stderr().contains("sesame"));
        refused.code(1).says(says);
    }
    // What it is for.
    let asks = [
        "verify",
        "a.wl",
        "--passphrase-command",
        "echo \"$1\" >&2; cat pass",
    ];
    run(&folder, &[], &asks).code(0).says("passphrase for a.wl");
    let both = [
        "verify",
        "a.wl",
        "--passphrase-command",
        "x",
        "--passphrase-file",
        "pass",
    ];
    run(&folder, &[], &both).code(2);
}

#[test]
fn a_new_passphrase_has_sources_of_its_own() {
    let folder = Folder::new();
    folder.write("a", "text");
    let old = (PASSPHRASE, "old");
    run(&folder, &[old], &["encrypt", "-p", "a"]).code(0);
    let rewrap = ["rewrap", "a.wl", "--new-passphrase"];
    run(&folder, &[old], &rewrap).code(1).says(NEW);
    run(&folder, &[old, (NEW, "new")], &rewrap).code(0);
    run(&folder, &[(PASSPHRASE, "new")], &["verify", "a.wl"]).code(0);
    let command = ["rewrap", "a.wl", "--new-passphrase-command", "echo newer"];
    run(&folder, &[(PASSPHRASE, "new")], &command).code(0);
    run(&folder, &[(PASSPHRASE, "newer")], &["verify", "a.wl"]).code(0);
    // A vault's first passphrase is its only one.
    let vault =
        |variables: &[_], args: &[&str]| run(&folder, variables, &[&["vault"], args].concat());
    vault(&[old], &["init", "store"]).code(0);
    vault(&[old], &["check", "store"]).code(0);
    vault(&[old], &["passwd", "store"]).code(1).says(NEW);
    vault(&[old, (NEW, "new")], &["passwd", "store"]).code(0);
    vault(&[old], &["check", "store"]).code(4);
    vault(&[], &["check", "store", "--passphrase-command", "echo new"]).code(0);
}

#[test]
fn protected_identities_take_the_same_options() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.write("pass", "open sesame\n");
    let data = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../warplock-keyring/tests/data/age_identity_encrypted.age"
    );
    fs::copy(data, folder.path("me.age")).unwrap();
    let own = folder.path("me.age");
    fs::set_permissions(own, fs::Permissions::from_mode(0o600)).unwrap();
    let file = ["--passphrase-file", "pass"];
    let variable = [(PASSPHRASE, "open sesame")];
    for (variables, options) in [(&[][..], &file[..]), (&variable, &[])] {
        let recipient = run(
            &folder,
            variables,
            &[&["keygen", "-y", "me.age"], options].concat(),
        );
        assert!(recipient.code(0).stdout().starts_with(b"age1"));
        let encrypt = [&["encrypt", "-i", "me.age", "a"], options].concat();
        run(&folder, variables, &encrypt).code(0);
        let verify = [&["verify", "-i", "me.age", "a.wl"], options].concat();
        run(&folder, variables, &verify).code(0);
        fs::remove_file(folder.path("a.wl")).unwrap();
    }
    // The advice is one that can be followed.
    run(&folder, &[], &["encrypt", "-i", "me.age", "a"])
        .code(1)
        .says("no passphrase for me.age")
        .says("--passphrase-file FILE");
    // A passphrase for nothing may be meant for the file.
    run(
        &folder,
        &[],
        &[&["encrypt", "-i", "key.txt", "a"][..], &file].concat(),
    )
    .code(2)
    .says("the identity files have no passphrase");
    assert!(!folder.path("a.wl").exists());
}

#[test]
fn without_a_key_the_message_names_the_key_that_is_missing() {
    let folder = Folder::new();
    folder.write("f", "text");
    folder.run(["encrypt", "-R", "recipient.txt", "f"]).code(0);
    let refused = folder.run(["decrypt", "-o", "out", "f.wl"]).code(2);
    let told = refused
        .says("needs an identity (it is for: ")
        .says("-i IDENTITY")
        .stderr();
    assert!(!told.contains("passphrase"), "{told}");
    // A public key in place of the secret one.
    folder.write("ssh.pub", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI me@here\n");
    for public in ["recipient.txt", "ssh.pub"] {
        let refused = folder.run(["decrypt", "-i", public, "-o", "out", "f.wl"]);
        refused
            .code(1)
            .says("line 1 is a recipient, which is a public key and opens")
            .says(public);
    }
    assert!(!folder.path("out").exists());
}

/// Secrets of clusters often end in a line feed, which no terminal and no file gives.
#[test]
fn a_variable_is_its_first_line() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.write("pass", "open sesame\n");
    for value in ["open sesame\n", "open sesame\r\n", "open sesame\nand more"] {
        run(
            &folder,
            &[(PASSPHRASE, value)],
            &["encrypt", "-p", "a", "--force"],
        )
        .code(0);
        let decrypt = ["decrypt", "--passphrase-file", "pass", "-o", "-", "a.wl"];
        assert_eq!(run(&folder, &[], &decrypt).code(0).stdout(), b"text");
    }
    run(
        &folder,
        &[(PASSPHRASE, "\n")],
        &["encrypt", "-p", "a", "--force"],
    )
    .code(1)
    .says("its first line is empty");
}
