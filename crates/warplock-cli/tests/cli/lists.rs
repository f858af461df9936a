//! Recipients, identities and inputs as people have them: lists with keys of other kinds, files from
//! other systems, files whose length lies.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::Folder;

/// A file of the keyring's tests.
fn data(name: &str) -> String {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../warplock-keyring/tests/data/"
    );
    fs::read_to_string(format!("{folder}{name}")).unwrap()
}

#[test]
fn keys_that_cannot_be_used_do_not_spoil_a_list() {
    let folder = Folder::new();
    folder.write("a", "text");
    let list = format!("{}{}", data("ssh_ecdsa.pub"), data("ssh_ed25519.pub"));
    folder.write("team", list);
    folder.write("me", data("ssh_ed25519"));
    fs::set_permissions(folder.path("me"), fs::Permissions::from_mode(0o600)).unwrap();
    folder
        .run(["encrypt", "-R", "team", "a"])
        .code(0)
        .says("warning: recipients file team, line 1: this key is left out");
    folder.run(["verify", "-i", "me", "a.wl"]).code(0);
    let quiet = folder.run(["encrypt", "-q", "--force", "-R", "team", "a"]);
    assert_eq!(quiet.code(0).stderr(), "");
    let rewrap = ["rewrap", "-i", "me", "-R", "team", "a.wl"];
    folder.run(rewrap).code(0).says("team, line 1");
    folder
        .run(["vault", "init", "store", "-R", "team"])
        .code(0)
        .says("team, line 1");
    fs::create_dir(folder.path("tree")).unwrap();
    folder.write("tree/b", "text");
    let bulk = ["bulk", "encrypt", "-R", "team", "tree", "out"];
    folder.run(bulk).code(0).says("team, line 1");
    folder.run(["verify", "-i", "me", "out/b.wl"]).code(0);
    folder.write("team", data("ssh_ecdsa.pub"));
    folder
        .run(["encrypt", "-o", "b.wl", "-R", "team", "a"])
        .code(1)
        .says("but keys that cannot be encrypted for");
    folder
        .run([
            "encrypt",
            "-o",
            "b.wl",
            "-r",
            data("ssh_ecdsa.pub").trim(),
            "a",
        ])
        .code(2)
        .says("only ssh-ed25519 and ssh-rsa");
}

#[test]
fn a_file_given_as_recipient_is_named_one() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder
        .run(["encrypt", "-r", "recipient.txt", "a"])
        .code(2)
        .says("recipient.txt is a file, not a recipient: give it with -R");
}

#[test]
fn a_file_is_read_to_its_end_whatever_length_it_claims() {
    let folder = Folder::new();
    let candidates = [
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/profiling",
    ];
    let Some(file) = candidates.into_iter().find(|file| {
        let claimed = fs::metadata(file).map_or(0, |found| found.len());
        fs::read(file).is_ok_and(|content| claimed > content.len() as u64)
    }) else {
        eprintln!("skipped: no file in /sys");
        return;
    };
    let content = fs::read(file).unwrap();
    let encrypt = ["encrypt", "-R", "recipient.txt", "-o", "a.wl", file];
    folder.run(encrypt).code(0);
    let decrypt = ["decrypt", "-i", "key.txt", "-o", "-", "a.wl"];
    assert_eq!(folder.run(decrypt).code(0).stdout(), content);
    folder.shell(&format!("$W encrypt -R recipient.txt < {file} > b.wl"));
    let decrypt = ["decrypt", "-i", "key.txt", "-o", "-", "b.wl"];
    assert_eq!(folder.run(decrypt).code(0).stdout(), content);
}

#[test]
fn what_became_of_a_file_in_transfer_is_named() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    let good = folder.read("a.wl");
    let crlf: Vec<u8> = good
        .iter()
        .flat_map(|&byte| match byte {
            b'\n' => vec![b'\r', b'\n'],
            byte => vec![byte],
        })
        .collect();
    for (bytes, says) in [
        (crlf, "its line ends were changed"),
        ([b"\xef\xbb\xbf", &good[..]].concat(), "byte order mark"),
        (b"<!DOCTYPE html><html>".to_vec(), "a web page"),
    ] {
        folder.write("b.wl", bytes);
        let refused = folder.run(["verify", "-i", "key.txt", "b.wl"]).code(1);
        assert!(!refused.stderr().contains("newer"), "{}", refused.stderr());
        refused.says(says);
    }
}

#[test]
fn a_wrong_key_and_an_altered_file_have_different_codes() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.run(["keygen", "-o", "other.txt"]).code(0);
    folder
        .run(["keygen", "--key-file", "-o", "other.key"])
        .code(0);
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    let bare = ["encrypt", "--key-file", "k.key", "-o", "bare.wl", "a"];
    folder.run(bare).code(0);
    let good = folder.read("a.wl");
    let stream = good.len() - (56 + 4 + 16);
    let verify = |key: &[&str], files: &[&str]| folder.run([&["verify"], key, files].concat());
    verify(&["-i", "other.txt"], &["a.wl"]).code(4);
    verify(&["--key-file", "other.key"], &["bare.wl"]).code(4);
    // The envelope, the header of the stream, its content.
    for (at, says) in [
        (stream - 5, "the wrapped key was altered"),
        (stream + 30, "the header after the envelope was altered"),
        (stream + 58, "the last chunk"),
    ] {
        let mut altered = good.clone();
        altered[at] ^= 1;
        folder.write("altered.wl", altered);
        let refused = verify(&["-i", "key.txt"], &["altered.wl"]);
        refused.code(3).says(says);
    }
    // Of both, the altered one counts.
    folder
        .run(["encrypt", "-i", "other.txt", "-o", "others.wl", "a"])
        .code(0);
    verify(&["-i", "key.txt"], &["others.wl"]).code(4);
    verify(&["-i", "key.txt"], &["altered.wl", "others.wl"]).code(3);
    verify(&["-i", "key.txt"], &["others.wl", "altered.wl", "a.wl"]).code(3);
}

#[test]
fn outputs_go_into_a_folder() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("one")).unwrap();
    fs::create_dir(folder.path("out")).unwrap();
    folder.write("a", "a");
    folder.write("one/a", "one");
    folder.write("one/b", "b");
    let encrypt = ["encrypt", "-R", "recipient.txt", "-o", "out/"];
    folder.run([&encrypt[..], &["a", "one/b"]].concat()).code(0);
    let decrypt = [
        "decrypt", "-i", "key.txt", "-o", "./out/", "out/a.wl", "out/b.wl",
    ];
    folder.run(decrypt).code(0);
    assert_eq!(
        (folder.read("out/a"), folder.read("out/b")),
        (b"a".into(), b"b".into())
    );
    for (args, says) in [
        (
            &["--force", "a", "one/a"][..],
            "the output of several inputs",
        ),
        (&["-"], "the output of stdin has no name"),
    ] {
        folder.run([&encrypt[..], args].concat()).code(2).says(says);
    }
    folder
        .run([&encrypt[..], &["a"]].concat())
        .code(1)
        .says("out/a.wl: exists");
    let none = ["encrypt", "-R", "recipient.txt", "-o", "none/", "a"];
    folder.run(none).code(1).says("none/a.wl: cannot create");
    let several = ["encrypt", "-R", "recipient.txt", "-o", "out", "a", "one/b"];
    folder.run(several).code(2).says("with a slash at the end");
}

#[test]
fn ranges_have_units() {
    let folder = Folder::new();
    folder.write("a", vec![7; 5000]);
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    for (range, len) in [("1KiB..2KiB", 1024), ("1k..", 4000), ("..2kB", 2000)] {
        let decrypt = [
            "decrypt", "-i", "key.txt", "-o", "-", "--range", range, "a.wl",
        ];
        assert_eq!(folder.run(decrypt).code(0).stdout().len(), len, "{range}");
    }
    folder
        .run([
            "decrypt", "-i", "key.txt", "-o", "-", "--range", "9MiB..", "a.wl",
        ])
        .code(2)
        .says("the range 9437184.. does not lie in the content, which has 5000 bytes");
}
