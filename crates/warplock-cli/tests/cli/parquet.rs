//! `parquet`: files of Parquet's own encryption, made by Apache's writers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::Folder;

const FOOTER: &[u8] = b"0123456789012345";

/// Their keys: one as bytes, the others as hex digits.
fn keys() -> Folder {
    let folder = Folder::new();
    folder.write("footer.key", FOOTER);
    folder.write("double.key", "31323334353637383930313233343530\n");
    folder.write("float.key", "31323334353637383930313233343531");
    for key in ["footer.key", "double.key", "float.key"] {
        mode(&folder, key, 0o600);
    }
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/parquet");
    for entry in fs::read_dir(vectors).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "parquet") {
            fs::copy(&path, folder.root().join(path.file_name().unwrap())).unwrap();
        }
    }
    folder
}

fn mode(folder: &Folder, name: &str, mode: u32) {
    fs::set_permissions(folder.root().join(name), Permissions::from_mode(mode)).unwrap();
}

const COLUMNS: [&str; 6] = [
    "-k",
    "footer.key",
    "--column-key",
    "double_field=double.key",
    "--column-key",
    "float_field=float.key",
];

fn call<'a>(verb: &'a str, output: &'a str, input: &'a str) -> Vec<&'a str> {
    [&["parquet", verb][..], &COLUMNS, &["-o", output, input]].concat()
}

#[test]
fn apaches_files_become_plain_and_encrypted_again() {
    let folder = keys();
    for name in [
        "encrypt_columns_and_footer.parquet",
        "encrypt_columns_and_footer_aad.parquet",
        "encrypt_columns_and_footer_ctr.parquet",
        "encrypt_columns_and_footer_bloom_filter.parquet",
        "encrypt_columns_plaintext_footer.parquet",
        "uniform_encryption.parquet",
    ] {
        folder
            .run([&call("decrypt", "plain", name)[..], &["--force"]].concat())
            .code(0);
        let told = folder
            .run(["parquet", "inspect", "--json", "plain"])
            .code(0);
        assert_eq!(told.json()[0]["encrypted"], false);
        let round = || {
            let again = [&call("encrypt", "again", "plain")[..], &["--force"]].concat();
            folder.run(again).code(0);
            let plain = [&call("decrypt", "plain", "again")[..], &["--force"]].concat();
            folder.run(plain).code(0);
            folder.read("plain")
        };
        // The first one may put bloom filters elsewhere.
        let plain = round();
        assert!(plain.starts_with(b"PAR1") && plain.ends_with(b"PAR1"));
        assert!(round() == plain);
    }
}

#[test]
fn a_file_says_how_it_is_encrypted() {
    let folder = keys();
    let inspect = |name| {
        let told = folder.run(["parquet", "inspect", "--json", name]).code(0);
        told.json()[0].clone()
    };
    let told = inspect("encrypt_columns_and_footer_ctr.parquet");
    assert_eq!(told["algorithm"], "AES_GCM_CTR_V1");
    assert_eq!(told["encrypted_footer"], true);
    assert_eq!(told["key_metadata"], "kf");
    let told = inspect("encrypt_columns_plaintext_footer.parquet");
    assert_eq!(told["encrypted_footer"], false);
    assert_eq!(
        inspect("encrypt_columns_and_footer_aad.parquet")["aad_prefix"],
        "tester"
    );
    let told = inspect("encrypt_columns_and_footer_disable_aad_storage.parquet");
    assert_eq!(
        (&told["needs_aad_prefix"], &told["aad_prefix"]),
        (&true.into(), &().into())
    );
    let told = folder.run([
        "parquet",
        "inspect",
        "encrypt_columns_and_footer_aad.parquet",
    ]);
    let text = String::from_utf8_lossy(told.stdout()).into_owned();
    assert!(text.contains("AAD prefix: tester\n"), "{text}");
}

#[test]
fn what_is_wrong_is_said_and_leaves_nothing() {
    let folder = keys();
    let name = "encrypt_columns_and_footer_disable_aad_storage.parquet";
    let refused = |more: &[&str], code: i32, says: &str| {
        let arguments = [&call("decrypt", "out", name)[..], more].concat();
        folder.run(arguments).code(code).says(says);
        assert!(!folder.path("out").exists());
    };
    refused(&[], 4, "AAD prefix that is not stored");
    refused(&["--aad-prefix", "another"], 4, "does not verify");
    let only = [
        "parquet",
        "decrypt",
        "-k",
        "footer.key",
        "--aad-prefix",
        "tester",
    ];
    let only = [&only[..], &["-o", "out", name]].concat();
    folder
        .run(only)
        .code(4)
        .says("there is no key for column '");
    folder
        .run(call("decrypt", "/dev/full", "uniform_encryption.parquet"))
        .code(1)
        .says("/dev/full: cannot write");
    refused(
        &["--column-key", "float_field=double.key"],
        2,
        "column 'float_field' has two keys",
    );
    folder.write("short.key", "0123");
    let short = ["parquet", "decrypt", "-k", "short.key", "-o", "out", name];
    folder
        .run(short)
        .code(1)
        .says("short.key: is no Parquet key");

    let mut changed = folder.read("uniform_encryption.parquet");
    changed[200] ^= 1;
    folder.write("changed", &changed);
    folder.run(call("decrypt", "out", "changed")).code(3);
    assert!(!folder.path("out").exists());
    folder.write("text", "not a table at all");
    folder
        .run(call("decrypt", "out", "text"))
        .code(1)
        .says("text: this is no Parquet file");
    folder
        .run(call("decrypt", "text", name))
        .code(1)
        .says("text");
}

#[test]
fn keys_that_others_can_read_are_told() {
    let folder = keys();
    let decrypt = call("decrypt", "plain", "encrypt_columns_and_footer.parquet");
    let quiet = folder.run(&decrypt).code(0);
    assert!(!quiet.stderr().contains("other users"));
    mode(&folder, "double.key", 0o644);
    fs::remove_file(folder.root().join("plain")).unwrap();
    let told = folder.run(&decrypt).code(0);
    assert!(told.stderr().contains("double.key is open to other users"));
    assert!(!told.stderr().contains("footer.key is open"));
}

#[test]
fn a_key_may_come_from_stdin_once() {
    let folder = keys();
    let name = "uniform_encryption.parquet";
    let with = |more: &[&'static str]| {
        let call = ["parquet", "decrypt", "-k", "-"];
        [&call[..], more, &["-o", "out", name]].concat()
    };
    let twice = with(&["--column-key", "double_field=-"]);
    let refused = folder.pipe(twice, FOOTER).code(2);
    refused.says("not for --key-file and --column-key");
    assert!(!folder.path("out").exists());
    folder.pipe(with(&[]), FOOTER).code(0);
    assert!(folder.read("out").starts_with(b"PAR1"));
}
