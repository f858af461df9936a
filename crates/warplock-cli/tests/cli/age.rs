//! Each row of docs/age.md: the behaviour that age's manual pages describe, and where this program
//! differs.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::common::{Folder, Outcome};

const TABLE: &str = include_str!("../../../../docs/age.md");

/// A row's name, and what tries it.
type Row = (&'static str, fn(&Folder));

const ROWS: [Row; 27] = [
    ("input", input),
    ("output", output),
    ("overwrite", overwrite),
    ("partial", partial),
    ("terminal", terminal),
    ("recipient", recipient),
    ("recipients-file", recipients_file),
    ("unsupported-ssh", unsupported_ssh),
    ("rsa-size", rsa_size),
    ("passphrase", passphrase),
    ("passphrase-auto", passphrase_auto),
    ("passphrase-source", passphrase_source),
    ("passphrase-form", passphrase_form),
    ("passphrase-work", passphrase_work),
    ("encrypt-identity", encrypt_identity),
    ("decrypt-passphrase", decrypt_passphrase),
    ("decrypt-both", decrypt_both),
    ("identity-files", identity_files),
    ("identity-order", identity_order),
    ("ssh-passphrase", ssh_passphrase),
    ("plugin", plugin),
    ("plugin-name", plugin_name),
    ("armor", armor),
    ("age-files", age_files),
    ("exit", exit),
    ("keygen", keygen),
    ("keygen-y", keygen_y),
];

#[test]
fn every_row_of_the_table_is_true() {
    let rows = TABLE.lines().filter_map(|line| line.strip_prefix("| "));
    let names = rows.filter_map(|row| row.split(" | ").next());
    let names: BTreeSet<_> = names.filter(|name| *name != "row").collect();
    assert_eq!(names, ROWS.iter().map(|(name, _)| *name).collect());
    for (name, test) in ROWS {
        println!("{name}");
        let folder = Folder::new();
        folder.write("a", "text");
        folder.write("pass", "open sesame\n");
        test(&folder);
    }
}

/// The test data of the keyring.
fn data(folder: &Folder, name: &str) {
    let path = format!(
        "{}/../warplock-keyring/tests/data/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    fs::copy(path, folder.path(name)).unwrap();
    fs::set_permissions(folder.path(name), Permissions::from_mode(0o600)).unwrap();
}

fn encrypted(folder: &Folder, options: &[&str]) {
    folder
        .run([&["encrypt", "-q", "--force", "a"], options].concat())
        .code(0);
}

fn opens(folder: &Folder, options: &[&str]) -> Outcome {
    folder.run([&["verify", "-q", "a.wl"], options].concat())
}

/// Runs without a terminal.
fn alone(folder: &Folder, args: &[&str]) -> Outcome {
    let mut command = Command::new("setsid");
    command.args(["--wait", env!("CARGO_BIN_EXE_warplock")]);
    Outcome::of(
        command
            .args(args)
            .current_dir(folder.root())
            .stdin(Stdio::null()),
    )
}

fn input(folder: &Folder) {
    folder.write("b", "more");
    folder
        .run(["encrypt", "-R", "recipient.txt", "a", "b"])
        .code(0);
    let sealed = folder
        .pipe(["encrypt", "-R", "recipient.txt"], "piped")
        .code(0);
    let opened = folder.pipe(["decrypt", "-i", "key.txt"], sealed.stdout());
    assert_eq!(opened.code(0).stdout(), b"piped");
}

fn output(folder: &Folder) {
    let sealed = folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    // And says where the result is.
    assert_eq!(sealed.stdout(), b"");
    sealed.says("the result is in a.wl");
    fs::remove_file(folder.path("a")).unwrap();
    folder.run(["decrypt", "-i", "key.txt", "a.wl"]).code(0);
    assert_eq!(folder.read("a"), b"text");
    let opened = folder.run(["decrypt", "-i", "key.txt", "-o", "-", "a.wl"]);
    assert_eq!(opened.code(0).stdout(), b"text");
}

fn overwrite(folder: &Folder) {
    encrypted(folder, &["-R", "recipient.txt"]);
    let decrypt = ["decrypt", "-i", "key.txt", "-o", "pass", "a.wl"];
    folder
        .run(decrypt)
        .code(1)
        .says("exists already; --force replaces it");
    folder.run([&decrypt[..], &["--force"]].concat()).code(0);
}

fn partial(folder: &Folder) {
    folder.write("a", vec![1; 100_000]);
    encrypted(folder, &["-R", "recipient.txt"]);
    let mut bytes = folder.read("a.wl");
    *bytes.last_mut().unwrap() ^= 1;
    folder.write("a.wl", bytes);
    folder
        .run(["decrypt", "-i", "key.txt", "-o", "b", "a.wl"])
        .code(3);
    assert!(!folder.path("b").exists());
    let opened = folder
        .run(["decrypt", "-i", "key.txt", "-o", "-", "a.wl"])
        .code(3);
    assert_eq!(opened.stdout(), vec![1; 6 * 16384]);
}

fn terminal(folder: &Folder) {
    let on_terminal = |options: &str| {
        let line = format!(
            "{} encrypt -R recipient.txt {options} < a",
            env!("CARGO_BIN_EXE_warplock")
        );
        let mut script = Command::new("script");
        script
            .args(["-qec", &line, "/dev/null"])
            .current_dir(folder.root());
        script.stdin(Stdio::null()).output()
    };
    let Ok(refused) = on_terminal("") else {
        eprintln!("skipped: no program `script`");
        return;
    };
    let shown = String::from_utf8_lossy(&refused.stdout);
    assert!(
        shown.contains("refusing to write ciphertext to a terminal"),
        "{shown}"
    );
    assert!(
        on_terminal("-o -")
            .unwrap()
            .stdout
            .starts_with(b"warplock/1")
    );
}

fn recipient(folder: &Folder) {
    data(folder, "ssh_ed25519");
    data(folder, "ssh_ed25519.pub");
    folder.run(["keygen", "-o", "third.txt"]).code(0);
    let own = String::from_utf8(folder.read("recipient.txt")).unwrap();
    let all = ["-r", own.trim(), "-R", "ssh_ed25519.pub", "-i", "third.txt"];
    encrypted(folder, &all);
    for identity in ["key.txt", "ssh_ed25519", "third.txt"] {
        opens(folder, &["-i", identity]).code(0);
    }
}

fn recipients_file(folder: &Folder) {
    let own = String::from_utf8(folder.read("recipient.txt")).unwrap();
    let list = format!("# me\n\n{own}");
    folder.write("list", &list);
    encrypted(folder, &["-R", "list"]);
    let from_stdin = ["encrypt", "-R", "-", "-o", "b.wl", "a"];
    folder.pipe(from_stdin, &list).code(0);
    folder
        .run(["verify", "-i", "key.txt", "a.wl", "b.wl"])
        .code(0);
    folder
        .pipe(["encrypt", "-R", "-"], &list)
        .code(2)
        .says("stdin can be read once only");
}

fn unsupported_ssh(folder: &Folder) {
    ["ssh_ecdsa.pub", "ssh_ed25519.pub", "ssh_ed25519"]
        .iter()
        .for_each(|name| data(folder, name));
    let mut list = folder.read("ssh_ecdsa.pub");
    list.extend(folder.read("ssh_ed25519.pub"));
    folder.write("authorized_keys", list);
    folder
        .run(["encrypt", "-R", "authorized_keys", "a"])
        .code(0)
        .says("authorized_keys, line 1: this key is left out");
    opens(folder, &["-i", "ssh_ed25519"]).code(0);
    let key = String::from_utf8(folder.read("ssh_ecdsa.pub")).unwrap();
    folder
        .run(["encrypt", "-r", key.trim(), "-o", "b", "a"])
        .code(2);
    folder
        .run(["encrypt", "-R", "ssh_ecdsa.pub", "-o", "b", "a"])
        .code(1);
}

fn rsa_size(folder: &Folder) {
    data(folder, "ssh_rsa_1024.pub");
    let key = String::from_utf8(folder.read("ssh_rsa_1024.pub")).unwrap();
    let encrypt = ["encrypt", "-o", "b", "a", "-r", key.trim()];
    folder.run(encrypt).code(2).says("under 2048 bits");
}

fn passphrase(folder: &Folder) {
    folder
        .run(["encrypt", "-p", "-R", "recipient.txt", "a"])
        .code(2);
    folder.run(["encrypt", "-p", "-i", "key.txt", "a"]).code(2);
}

fn passphrase_auto(folder: &Folder) {
    let mut script = Command::new("script");
    let line = format!("{} encrypt -p a", env!("CARGO_BIN_EXE_warplock"));
    script
        .args(["-qec", &line, "/dev/null"])
        .current_dir(folder.root());
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = script.spawn() else {
        eprintln!("skipped: no program `script`");
        return;
    };
    let mut keyboard = child.stdin.take().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    std::io::Write::write_all(&mut keyboard, b"\n").unwrap();
    let shown = child.wait_with_output().unwrap().stdout;
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("it is empty"), "{shown}");
    assert!(!folder.path("a.wl").exists());
}

fn passphrase_source(folder: &Folder) {
    encrypted(folder, &["--passphrase-file", "pass"]);
    opens(folder, &["--passphrase-command", "cat pass"]).code(0);
    let mut command = folder.command(["verify", "-q", "a.wl"]);
    Outcome::of(command.env("WARPLOCK_PASSPHRASE", "open sesame")).code(0);
}

fn passphrase_form(folder: &Folder) {
    folder.write("nfd", "cafe\u{301}");
    folder.write("nfc", "caf\u{e9}");
    encrypted(folder, &["--passphrase-file", "nfd"]);
    opens(folder, &["--passphrase-file", "nfc"]).code(0);
}

fn passphrase_work(folder: &Folder) {
    // 20 in the place of 17: more than was done, so the passphrase is wrong once that is allowed.
    encrypted(folder, &["--passphrase-file", "pass"]);
    let bytes = folder.read("a.wl");
    let at = bytes
        .windows(4)
        .position(|found| found == b" 17\n")
        .unwrap();
    let mut changed = bytes;
    changed[at + 1..at + 3].copy_from_slice(b"19");
    folder.write("a.wl", changed);
    let verify = ["verify", "a.wl", "--passphrase-file", "pass"];
    alone(folder, &verify).code(1).says("--max-work 19");
    alone(folder, &[&verify[..], &["--max-work", "19"]].concat()).code(4);
}

fn encrypt_identity(folder: &Folder) {
    encrypted(folder, &["-i", "key.txt"]);
    opens(folder, &["-i", "key.txt"]).code(0);
}

fn decrypt_passphrase(folder: &Folder) {
    encrypted(folder, &["--passphrase-file", "pass"]);
    alone(folder, &["verify", "a.wl"])
        .code(1)
        .says("no passphrase for a.wl");
}

fn decrypt_both(folder: &Folder) {
    encrypted(folder, &["--passphrase-file", "pass"]);
    opens(folder, &["-i", "key.txt"])
        .code(4)
        .says("only identities were given");
}

fn identity_files(folder: &Folder) {
    for (identity, recipient) in [
        ("age_identity", None),
        ("age_identity_encrypted.age", None),
        ("ssh_rsa_pem", Some("ssh_rsa.pub")),
        ("pkcs8_rsa", Some("ssh_rsa.pub")),
        ("pkcs8_ed25519", Some("ssh_ed25519.pub")),
        ("ssh_rsa", Some("ssh_rsa.pub")),
        ("ssh_ed25519", Some("ssh_ed25519.pub")),
    ] {
        data(folder, identity);
        match recipient {
            None => encrypted(folder, &["-i", "age_identity"]),
            Some(recipient) => {
                data(folder, recipient);
                encrypted(folder, &["-R", recipient]);
            }
        }
        opens(folder, &["-i", identity, "--passphrase-file", "pass"]).code(0);
        let from_stdin = ["verify", "-i", "-", "--passphrase-file", "pass", "a.wl"];
        folder.pipe(from_stdin, folder.read(identity)).code(0);
    }
}

fn identity_order(folder: &Folder) {
    folder.run(["keygen", "-o", "other.txt"]).code(0);
    encrypted(folder, &["-R", "recipient.txt"]);
    opens(folder, &["-i", "other.txt", "-i", "key.txt"]).code(0);
}

fn ssh_passphrase(folder: &Folder) {
    ["ssh_ed25519_encrypted", "ssh_ed25519.pub"]
        .iter()
        .for_each(|name| data(folder, name));
    encrypted(folder, &["-R", "recipient.txt"]);
    let both = [
        "verify",
        "-i",
        "ssh_ed25519_encrypted",
        "-i",
        "key.txt",
        "a.wl",
    ];
    alone(folder, &both).code(0);
    encrypted(folder, &["-R", "ssh_ed25519.pub"]);
    alone(folder, &both)
        .code(1)
        .says("no passphrase for ssh_ed25519_encrypted");
}

/// What it does with a plugin is tested in the keyring.
fn plugin(folder: &Folder) {
    let plugin = "AGE-PLUGIN-NONE-10Q5D5V";
    folder.write("plugin.txt", plugin);
    encrypted(folder, &["-R", "recipient.txt"]);
    let refused = opens(folder, &["-i", "plugin.txt"]);
    assert_ne!(refused.status().code(), Some(0));
}

fn plugin_name(folder: &Folder) {
    folder
        .run(["encrypt", "-j", "name", "a"])
        .code(2)
        .says("no option -j");
}

fn armor(folder: &Folder) {
    folder
        .run(["encrypt", "-a", "-R", "recipient.txt", "a"])
        .code(2)
        .says("no option -a");
}

fn age_files(folder: &Folder) {
    data(folder, "wrapped_by_age_recipients.age");
    for (file, content) in [
        ("binary", folder.read("wrapped_by_age_recipients.age")),
        ("text", b"-----BEGIN AGE ENCRYPTED FILE-----\nYWdl".to_vec()),
    ] {
        folder.write(file, content);
        folder
            .run(["verify", "-i", "key.txt", file])
            .code(1)
            .says("open it with age -d");
    }
}

fn exit(folder: &Folder) {
    folder.run(["keygen", "-o", "other.txt"]).code(0);
    encrypted(folder, &["-R", "recipient.txt"]);
    opens(folder, &["-i", "key.txt"]).code(0);
    opens(folder, &["-i", "none.txt"]).code(1);
    opens(folder, &["--nonsense"]).code(2);
    opens(folder, &["-i", "other.txt"]).code(4);
    let mut bytes = folder.read("a.wl");
    *bytes.last_mut().unwrap() ^= 1;
    folder.write("a.wl", bytes);
    opens(folder, &["-i", "key.txt"]).code(3);
}

fn keygen(folder: &Folder) {
    let made = folder.run(["keygen"]).code(0);
    assert!(String::from_utf8_lossy(made.stdout()).contains("AGE-SECRET-KEY-1"));
    made.says("Public key: age1");
    folder
        .run(["keygen", "-o", "new.txt"])
        .code(0)
        .says("Public key: age1");
    folder
        .run(["keygen", "-o", "new.txt"])
        .code(1)
        .says("exists already");
}

fn keygen_y(folder: &Folder) {
    let expected = folder.read("recipient.txt");
    assert_eq!(
        folder.run(["keygen", "-y", "key.txt"]).code(0).stdout(),
        expected
    );
    let piped = folder.pipe(["keygen", "-y"], folder.read("key.txt"));
    assert_eq!(piped.code(0).stdout(), expected);
}
