//! `vault`: from the first command to the last, with a real mount.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::Folder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use warplock_vault::fuse;

/// Takes the mount down, however the test ends.
pub(crate) struct Guard<'a>(pub(crate) &'a Folder);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let _ = fuse::unmount(&self.0.path("plain"), true);
    }
}

pub(crate) fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
    if !can {
        let _ = writeln!(std::io::stderr(), "skipped: no /dev/fuse, or not root");
    }
    can
}

/// A vault `store` for the identity `key.txt`, and a folder `plain`.
pub(crate) fn vault() -> Folder {
    vault_in(Folder::new())
}

pub(crate) fn vault_in(folder: Folder) -> Folder {
    folder
        .run(["vault", "init", "store", "-R", "recipient.txt"])
        .code(0);
    fs::create_dir(folder.path("plain")).unwrap();
    folder
}

pub(crate) const MOUNT: [&str; 6] = ["vault", "mount", "store", "plain", "-i", "key.txt"];

#[test]
fn a_vault_is_made_mounted_filled_and_checked() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.run(MOUNT).code(0);
    folder.write("plain/secret.txt", "the content of the file");
    folder.run(MOUNT).code(1).says("unmount it");
    fs::create_dir(folder.path("plain2")).unwrap();
    folder
        .run(["vault", "mount", "store", "plain2", "-i", "key.txt"])
        .code(1)
        .says(&folder.path("plain").display().to_string());
    folder
        .run(["vault", "check", "store", "-i", "key.txt"])
        .code(1)
        .says("in use");
    folder.run(["vault", "unmount", "plain"]).code(0);
    assert!(!folder.path("plain/secret.txt").exists());
    for entry in fs::read_dir(folder.path("store")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        assert!(!path.to_string_lossy().contains("secret"));
        assert!(!bytes.windows(7).any(|part| part == b"content"), "{path:?}");
    }
    let checked = folder
        .run(["vault", "check", "store", "-i", "key.txt", "--json"])
        .code(0);
    let checked: Value = serde_json::from_slice(checked.stdout()).unwrap();
    assert_eq!(
        (&checked["files"], &checked["findings"]),
        (&1.into(), &0.into())
    );
    // Read-only, in the foreground, ended by a signal.
    let mut served = folder
        .command([&MOUNT[..], &["-f", "--read-only", "--cache", "keep"]].concat())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while fs::read(folder.path("plain/secret.txt")).is_err() {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(fs::write(folder.path("plain/new"), "x").is_err());
    kill_process(Pid::from_child(&served), Signal::TERM).unwrap();
    assert!(served.wait().unwrap().success());
    assert!(!folder.path("plain/secret.txt").exists());
}

/// However soon after the mount is seen.
#[test]
fn a_signal_unmounts() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    let point = folder.path("plain").canonicalize().unwrap();
    let mounted = || {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.contains(point.to_str().unwrap())
    };
    for _ in 0..5 {
        let mut served = folder
            .command([&MOUNT[..], &["-f"]].concat())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while !mounted() {
            assert!(start.elapsed() < Duration::from_secs(20));
        }
        kill_process(Pid::from_child(&served), Signal::TERM).unwrap();
        assert!(served.wait().unwrap().success());
        assert!(!mounted());
    }
}

#[test]
fn unmounting_says_when_the_vault_was_not_closed() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    let mut served = folder
        .command([&MOUNT[..], &["-f"]].concat())
        .spawn()
        .unwrap();
    let point = folder.path("plain").canonicalize().unwrap();
    let start = Instant::now();
    while !fs::read_to_string("/proc/self/mounts")
        .unwrap()
        .contains(point.to_str().unwrap())
    {
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    folder.write("plain/file", "content");
    kill_process(Pid::from_child(&served), Signal::KILL).unwrap();
    served.wait().unwrap();
    let unmount = ["vault", "unmount", "plain"];
    folder.run(unmount).code(1).says("had died");
}

#[test]
fn a_vault_that_was_put_back_is_noticed_and_accepted() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    fs::create_dir(folder.path("elsewhere")).unwrap();
    let store = folder.path("store");
    let copy = |from: &Path, to: &Path| {
        let _ = fs::remove_dir_all(to);
        let mut copy = Command::new("cp");
        let copied = copy.arg("-a").args([from, to]).status().unwrap();
        assert!(copied.success());
    };
    let check = ["vault", "check", "store", "-i", "key.txt"];
    for (round, content) in ["old", "new"].into_iter().enumerate() {
        // From another folder, in the background; the vault is known since it was made.
        folder.shell("cd elsewhere; $W vault mount ../store ../plain -i ../key.txt");
        folder.write("plain/file", content);
        folder.run(["vault", "unmount", "plain"]).code(0);
        folder.run(check).code(0);
        if round == 0 {
            copy(&store, &folder.path("before"));
        }
    }
    let info = folder.run(["vault", "memory", "info", "store", "--json"]);
    let info: Value = serde_json::from_slice(info.code(0).stdout()).unwrap();
    assert_eq!(
        (&info["sessions"], &info["crashes"]),
        (&3.into(), &0.into())
    );
    copy(&folder.path("before"), &store);
    let checked = folder.run(check).code(3);
    assert!(String::from_utf8_lossy(checked.stdout()).contains("an old version"));
    checked.says("the store is an older copy");
    let only = [&check[..], &["--no-memory"]].concat();
    folder
        .run(only)
        .code(0)
        .says("without this machine's memory");
    folder
        .run(["vault", "memory", "accept", "store", "-i", "key.txt"])
        .code(0);
    folder.run(check).code(0);
    folder.run(MOUNT).code(0);
    assert_eq!(fs::read(folder.path("plain/file")).unwrap(), b"old");
    folder.run(["vault", "unmount", "plain"]).code(0);
}

#[test]
fn another_vault_in_a_vaults_place_is_not_mounted() {
    let folder = vault();
    let check = ["vault", "check", "store", "-i", "key.txt"];
    let id = |folder: &Folder| {
        let info = folder.run(["vault", "info", "store", "--json"]).code(0);
        let info: Value = serde_json::from_slice(info.stdout()).unwrap();
        info["id"].as_str().unwrap().to_owned()
    };
    let ours = id(&folder);
    // An attacker makes it elsewhere, for the same public key.
    folder
        .run(["vault", "init", "evil", "-R", "recipient.txt"])
        .code(0);
    fs::rename(folder.path("store"), folder.path("ours")).unwrap();
    fs::rename(folder.path("evil"), folder.path("store")).unwrap();
    let evil = id(&folder);
    folder.run(check).code(3).says(&ours).says(&evil);
    folder.run(MOUNT).code(3).says(&ours);
    folder.run([&check[..], &["--id", &ours]].concat()).code(3);
    // On purpose.
    folder.run(["vault", "memory", "forget", "store"]).code(0);
    folder.run(check).code(0);
    folder.run([&check[..], &["--id", &evil]].concat()).code(0);
}

#[test]
fn a_memory_that_cannot_be_kept_is_told_of() {
    let folder = vault();
    let check = ["vault", "check", "store", "-i", "key.txt"];
    fs::write(folder.path("file"), "").unwrap();
    let named = [&check[..], &["--memory", "file/memory"]].concat();
    folder.run(named).code(1).says("--no-memory");
    folder
        .run(["vault", "memory", "info", "store", "--memory", "none"])
        .code(1)
        .says("nothing");
    folder
        .run([&check[..], &["--memory", "other"]].concat())
        .code(0)
        .says("does not know this vault");
    assert!(folder.path("other").exists());
}

#[test]
fn an_altered_file_is_found() {
    if !can_mount() {
        return;
    }
    let folder = vault();
    let _guard = Guard(&folder);
    folder.run(MOUNT).code(0);
    folder.write("plain/file", vec![7; 100_000]);
    folder.run(["vault", "unmount", "plain"]).code(0);
    let stored = fs::read_dir(folder.path("store")).unwrap();
    let stored = stored
        .map(|entry| entry.unwrap().path())
        .find(|path| fs::metadata(path).unwrap().len() > 100_000)
        .unwrap();
    let mut bytes = fs::read(&stored).unwrap();
    bytes[50_000] ^= 1;
    fs::write(&stored, bytes).unwrap();
    let checked = folder.run(["vault", "check", "store", "-i", "key.txt"]);
    assert!(String::from_utf8_lossy(checked.stdout()).contains("/file (altered)"));
    folder.run(MOUNT).code(0);
    assert!(fs::read(folder.path("plain/file")).is_err());
    folder.run(["vault", "unmount", "plain"]).code(0);
}

#[test]
fn keys_are_added_changed_and_removed() {
    let folder = vault();
    folder.write("pass", "correct horse\n");
    folder.write("other", "battery staple\n");
    let passwd = ["vault", "passwd", "store"];
    let with = |more: &[&'static str]| [&passwd[..], more].concat();
    folder
        .run(with(&[
            "-i",
            "key.txt",
            "--add",
            "phrase",
            "--new-passphrase-file",
            "pass",
        ]))
        .code(0);
    let info = folder.run(["vault", "info", "store", "--json"]).code(0);
    let info: Value = serde_json::from_slice(info.stdout()).unwrap();
    assert_eq!(info["keys"][0]["name"], "main");
    assert_eq!(info["keys"][1]["name"], "phrase");
    assert_eq!(info["block_size"], 4096);
    for other in ["--add", "--remove"] {
        folder
            .run(with(&["-i", "key.txt", "--name", "main", other, "phrase"]))
            .code(2)
            .says("cannot be used with");
    }
    folder
        .run(with(&["--passphrase-file", "other", "--remove", "main"]))
        .code(4);
    folder
        .run(with(&["--passphrase-file", "pass", "--remove", "main"]))
        .code(0);
    folder
        .run(with(&["-i", "key.txt", "--remove", "phrase"]))
        .says("warplock: store");
    folder
        .run(with(&["--passphrase-file", "pass", "--remove", "phrase"]))
        .code(2)
        .says("last key");
}

/// An attacker who can write to the store exchanges the names of two keys.
#[test]
fn altered_names_of_keys_are_told_and_removed() {
    let folder = vault();
    folder.write("pass", "correct horse\n");
    folder.run(["keygen", "-o", "paper.txt"]).code(0);
    folder
        .run(["keygen", "-y", "paper.txt", "-o", "paper.pub"])
        .code(0);
    let passwd = |more: &[&str]| folder.run([&["vault", "passwd", "store"], more].concat());
    let with_key = ["-i", "key.txt"];
    for (name, option, file) in [
        ("phrase", "--new-passphrase-file", "pass"),
        ("paper", "-R", "paper.pub"),
    ] {
        passwd(&[&with_key[..], &["--add", name, option, file]].concat()).code(0);
    }
    let config = folder.path("store/warplock.vault");
    let text = fs::read_to_string(&config).unwrap();
    let exchanged = text
        .replace("\"paper\"", "\"-\"")
        .replace("\"phrase\"", "\"paper\"")
        .replace("\"-\"", "\"phrase\"");
    fs::write(&config, exchanged).unwrap();
    let check = ["vault", "check", "store", "-i", "key.txt"];
    folder.shell("$W vault check store -i key.txt >checked && exit 1; test $? = 3");
    let checked = String::from_utf8(folder.read("checked")).unwrap();
    for name in ["'paper'", "'phrase'", "2 findings"] {
        assert!(checked.contains(name), "{checked}");
    }
    passwd(&["-i", "paper.txt", "--remove", "main"])
        .code(3)
        .says("key 'phrase' was renamed");
    passwd(&[&with_key[..], &["--remove", "paper"]].concat())
        .code(3)
        .says("--remove-altered");
    passwd(&[&with_key[..], &["--remove-altered"]].concat())
        .code(0)
        .says("removed the altered key 'phrase'");
    folder.run(check).code(0);
    passwd(&[&with_key[..], &["--add", "paper", "-R", "paper.pub"]].concat()).code(0);
    passwd(&[&with_key[..], &["--remove", "paper"]].concat())
        .code(0)
        .says("removed the key 'paper', which opened with an identity (X25519)");
}

/// Both names of the option for a passphrase make a vault, and an error says what the keys are.
#[test]
fn a_vault_with_several_keys_says_what_opens_it() {
    let folder = Folder::new();
    folder.write("pw", "one\n");
    folder.write("wrong", "two\n");
    let init = ["vault", "init", "store", "--passphrase-file", "pw"];
    folder.run(init).code(0);
    let check = ["vault", "check", "store", "--passphrase-file"];
    let alone = folder.run([&check[..], &["wrong"]].concat()).code(4);
    assert!(!alone.stderr().contains("opens with"), "{}", alone.stderr());
    let add = [
        "vault",
        "passwd",
        "store",
        "--passphrase-file",
        "pw",
        "--add",
    ];
    folder
        .run([&add[..], &["second", "-R", "recipient.txt"]].concat())
        .code(0);
    folder.run([&check[..], &["wrong"]].concat()).code(4).says(
        "opens with a passphrase (its key 'main'), or an identity (X25519) (its key 'second')",
    );
    folder.run([&check[..], &["pw"]].concat()).code(0);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let folder = vault();
    folder
        .run(["vault", "init", "store", "-R", "recipient.txt"])
        .code(2)
        .says("store: ");
    folder
        .run(["vault", "init", "new", "-r", "age1wrong"])
        .code(2);
    assert!(!folder.path("new").exists());
    folder
        .run([
            "vault",
            "init",
            "new",
            "-R",
            "recipient.txt",
            "--block-size",
            "5000",
        ])
        .code(2);
    assert!(!folder.path("new").exists());
    folder
        .run(["vault", "mount", "plain", "plain", "-i", "key.txt"])
        .code(2)
        .says("lie in each other");
    folder
        .run(["vault", "mount", "nowhere", "plain", "-i", "key.txt"])
        .code(1)
        .says("nowhere: ");
    // The mount point is looked at before the key.
    fs::create_dir(folder.path("full")).unwrap();
    folder.write("full/file", b"seen");
    for (point, problem) in [
        ("key.txt", "is no folder"),
        ("nowhere", "mkdir"),
        ("full", "is not empty"),
    ] {
        folder
            .run(["vault", "mount", "store", point, "-i", "no-such-key"])
            .code(1)
            .says(problem);
    }
    folder
        .run(["vault", "unmount", "plain"])
        .code(1)
        .says("no vault is mounted here");
    // Without a terminal.
    let mut init = Command::new("setsid");
    init.args(["--wait", env!("CARGO_BIN_EXE_warplock"), "vault", "init"]);
    let init = init.arg(folder.path("new")).output().unwrap();
    let said = String::from_utf8(init.stderr).unwrap();
    assert!(said.contains("use --new-passphrase-file FILE"), "{said}");
    assert!(!folder.path("new").exists());
    folder
        .run(["vault", "init", "no/such/folder", "-R", "recipient.txt"])
        .code(1)
        .says("make that first");
    let passwd = ["vault", "passwd", "store", "-i", "key.txt", "--remove"];
    folder
        .run([&passwd[..], &["mian"]].concat())
        .code(2)
        .says("called: main");
    folder
        .run(["vault", "info", "plain"])
        .code(1)
        .says("warplock.vault");
}
