//! `entries` and `raw batch`: many messages of one length from files and pipes.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{Folder, pattern};

/// `gen` makes keys, plaintexts and what portable code makes of them.
fn generated(entries: &str) -> Folder {
    let folder = Folder::new();
    folder
        .run(["gen", "-n", entries, "--seed", "7", "d"])
        .code(0);
    folder
}

const ENCRYPT: [&str; 6] = [
    "entries",
    "encrypt",
    "--keys",
    "d/keys.bin",
    "-i",
    "d/plains.bin",
];

#[test]
fn entries_are_encrypted_and_decrypted_from_files_and_pipes() {
    // Several pieces of workers, and a ragged end.
    let folder = generated("100001");
    let (plains, ciphers) = (folder.read("d/plains.bin"), folder.read("d/ciphers.bin"));
    folder.run([&ENCRYPT[..], &["-o", "out"]].concat()).code(0);
    assert!(folder.read("out") == ciphers);
    let verbose = [
        &ENCRYPT[..],
        &["-o", "out", "--force", "-v", "--threads", "3"],
    ]
    .concat();
    folder
        .run(verbose)
        .code(0)
        .says("100001 messages, 1600016 bytes in ");
    assert!(folder.read("out") == ciphers);
    folder.run(ENCRYPT).code(0);
    assert!(folder.run(ENCRYPT).stdout() == ciphers);
    // From pipes, either of them.
    folder.shell("cat d/plains.bin | $W entries encrypt --keys d/keys.bin > piped");
    assert!(folder.read("piped") == ciphers);
    folder.shell("cat d/keys.bin | $W entries decrypt --keys - -i piped -o back");
    assert!(folder.read("back") == plains);
}

#[test]
fn longer_keys_are_taken_in_their_order() {
    let folder = Folder::new();
    let plain = pattern(16 * 5);
    folder.write("plain", &plain);
    for (name, len) in [("aes-192", 24), ("aes-256", 32)] {
        let keys = pattern(len * 5 + 3)[3..].to_vec();
        folder.write("keys", &keys);
        let entries = [
            "entries", "encrypt", "-a", name, "--keys", "keys", "-i", "plain",
        ];
        let together = folder.run(entries).code(0).stdout().to_vec();
        for number in 0..5 {
            folder.write("key", &keys[number * len..][..len]);
            folder.write("block", &plain[16 * number..][..16]);
            let ecb = format!("{name}-ecb");
            let alone = [
                "raw", "encrypt", "-a", &ecb, "--key", "@key", "--pad", "none", "-i", "block",
            ];
            let alone = folder.run(alone).code(0).stdout().to_vec();
            assert_eq!(together[16 * number..][..16], alone, "{name} {number}");
        }
        folder.write("cipher", &together);
        let back = [
            "entries", "decrypt", "-a", name, "--keys", "keys", "-i", "cipher",
        ];
        assert_eq!(folder.run(back).code(0).stdout(), plain);
    }
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let folder = generated("100");
    folder.write("short", &folder.read("d/keys.bin")[..1584]);
    folder.write("odd", &folder.read("d/plains.bin")[..1590]);
    let run = |keys: &str, input: &str| {
        folder.run([
            "entries", "encrypt", "--keys", keys, "-i", input, "-o", "out",
        ])
    };
    run("short", "d/plains.bin")
        .code(1)
        .says("99 keys for 100 items");
    run("d/keys.bin", "odd")
        .code(1)
        .says("blocks have 16 bytes each");
    run("missing", "odd").code(1).says("missing");
    folder.shell("! cat short | $W entries encrypt --keys - -i d/plains.bin -o out 2> said");
    assert!(
        String::from_utf8(folder.read("said"))
            .unwrap()
            .contains("99 keys for 100")
    );
    run("-", "-").code(2).says("once only");
    let onto_keys = [
        "entries", "encrypt", "--keys", "short", "-i", "short", "-o", "short",
    ];
    folder
        .run([&onto_keys[..], &["--force"]].concat())
        .code(1)
        .says("short");
    assert!(!folder.path("out").exists());
}

#[test]
fn memory_does_not_grow_with_the_files() {
    let folder = generated("8M");
    for way in ["-o out", "> out"] {
        // 256 MB are read and 128 MB written. With one arena: glibc would reserve 64 MB of addresses
        // for each thread, and the limit count those instead of what the program takes.
        let script = format!(
            "ulimit -v 250000; MALLOC_ARENA_MAX=1 exec \"$0\" entries encrypt --keys d/keys.bin \
             -i d/plains.bin --threads 2 {way}"
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_warplock")]);
        let outcome = shell
            .current_dir(folder.root())
            .stdin(Stdio::null())
            .output();
        let outcome = outcome.unwrap();
        assert!(outcome.status.success(), "{way}: {outcome:?}");
        // Not read here: what this process holds counts for those that other tests start.
        folder.shell("cmp out d/ciphers.bin; rm out");
    }
}

/// 300 messages of 100 bytes with everything that an authenticated one has.
fn messages(folder: &Folder) {
    for (name, len) in [("keys", 16), ("nonces", 16), ("ad", 7), ("texts", 100)] {
        let bytes = pattern(300 * len + name.len());
        folder.write(name, &bytes[name.len()..]);
    }
}

fn seal<'a>(way: &'a str, algorithm: &'a str) -> Vec<&'a str> {
    let parts = [
        "--keys",
        "keys",
        "--ivs",
        "nonces",
        "--aad",
        "ad",
        "--aad-len",
        "7",
        "--len",
        "100",
    ];
    [
        &["raw", "batch", way, "-a", algorithm, "--tags", "tags"],
        &parts[..],
    ]
    .concat()
}

#[test]
fn a_batch_seals_each_message_as_raw_does_alone() {
    let folder = Folder::new();
    messages(&folder);
    let sealed = [
        &seal("encrypt", "acorn-128")[..],
        &["-i", "texts", "-o", "sealed"],
    ]
    .concat();
    folder.run(sealed).code(0);
    let (ciphers, tags) = (folder.read("sealed"), folder.read("tags"));
    assert_eq!((ciphers.len(), tags.len()), (30_000, 4_800));
    for number in [0, 299] {
        for (name, len) in [("keys", 16), ("nonces", 16), ("ad", 7), ("texts", 100)] {
            folder.write(
                &format!("one {name}"),
                &folder.read(name)[len * number..][..len],
            );
        }
        let alone = [
            "raw",
            "encrypt",
            "-a",
            "acorn-128",
            "--key",
            "@one keys",
            "--iv",
            "@one nonces",
        ];
        let rest = ["--aad", "@one ad", "-i", "one texts"];
        let alone = folder
            .run([&alone[..], &rest].concat())
            .code(0)
            .stdout()
            .to_vec();
        assert_eq!(alone[..100], ciphers[100 * number..][..100]);
        assert_eq!(alone[100..], tags[16 * number..][..16]);
    }
    let opened = [
        &seal("decrypt", "acorn-128")[..],
        &["-i", "sealed", "-o", "opened"],
    ]
    .concat();
    folder.run(&opened).code(0);
    assert!(folder.read("opened") == folder.read("texts"));
    // Through a pipe as well.
    let args = seal("decrypt", "acorn-128").join(" ");
    folder.shell(&format!("cat sealed | $W {args} > piped"));
    assert!(folder.read("piped") == folder.read("texts"));

    let mut changed = ciphers;
    changed[100 * 123 + 5] ^= 1;
    changed[100 * 200] ^= 1;
    folder.write("sealed", &changed);
    fs::remove_file(folder.path("opened")).unwrap();
    let refused = folder.run(&opened).code(3);
    refused.says("for 2 of messages 0 to 299 (the first is message 123)");
    assert!(!folder.path("opened").exists());
}

#[test]
fn a_batch_takes_one_key_and_modes_without_tags() {
    let folder = Folder::new();
    messages(&folder);
    let key = "000102030405060708090a0b0c0d0e0f";
    let run = |way: &str, input: &str, output: &str| {
        let args = [
            "raw",
            "batch",
            way,
            "-a",
            "aes-128-cbc",
            "--key",
            key,
            "--ivs",
            "nonces",
        ];
        let rest = ["--len", "96", "-i", input, "-o", output];
        folder.run([&args[..], &rest].concat())
    };
    folder.write("texts", &folder.read("texts")[..96 * 300]);
    run("encrypt", "texts", "out").code(0);
    run("decrypt", "out", "back").code(0);
    assert!(folder.read("back") == folder.read("texts"));
    let usage = |args: &[&str], says: &str| {
        let start = [
            "raw", "batch", "encrypt", "--key", key, "-i", "texts", "-o", "no",
        ];
        folder.run([&start[..], args].concat()).code(2).says(says);
    };
    usage(
        &["-a", "aes-128-cbc", "--len", "100", "--ivs", "nonces"],
        "aes-128-cbc: takes a multiple of 16",
    );
    usage(&["-a", "aes-128-ctr", "--len", "100"], "needs --ivs");
    usage(
        &["-a", "aes-128-ecb", "--len", "16", "--ivs", "nonces"],
        "takes no --ivs",
    );
    usage(
        &["-a", "aes-128-gcm", "--len", "16", "--ivs", "nonces"],
        "needs --tags",
    );
    usage(
        &["-a", "aes-128-ctr", "--len", "0", "--ivs", "nonces"],
        "--len",
    );
    usage(
        &["-a", "aes-256-ctr", "--len", "16", "--ivs", "nonces"],
        "32 bytes",
    );
    assert!(!folder.path("no").exists());
}

#[test]
fn raw_tells_bytes_seconds_and_speed() {
    let folder = Folder::new();
    folder.write("in", pattern(100_000));
    let key = "000102030405060708090a0b0c0d0e0f";
    let args = [
        "raw",
        "encrypt",
        "-v",
        "-a",
        "aes-128-ctr",
        "--key",
        key,
        "--iv",
        key,
    ];
    let told = folder
        .run([&args[..], &["-i", "in", "-o", "out"]].concat())
        .code(0);
    let told = told.says("in: to out: 100000 bytes in ").says(" s, ");
    told.says(" MB/s, by ");
}
