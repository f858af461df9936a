//! `--force` is for older results, and never for what a command reads or also writes.

use std::fs;

use crate::common::{Folder, Outcome, pattern};

/// Runs with `--force`; it must be refused, and every file stay as it is.
#[track_caller]
fn refused(folder: &Folder, args: &str, says: &str) {
    let files = || {
        let mut names = folder.names();
        names.extend(["key.txt", "recipient.txt", "k.key"].map(str::to_owned));
        let read = |name: String| folder.path(&name).is_file().then(|| folder.read(&name));
        names.into_iter().map(read).collect::<Vec<_>>()
    };
    let before = files();
    let args: Vec<_> = args.split(' ').chain(["--force"]).collect();
    let outcome = folder.run(&args);
    assert!(files() == before, "{args:?} changed a file");
    outcome.code(1).says(says);
}

const READ: &str = "is read as well";

#[test]
fn keys_recipients_and_passphrases_are_no_outputs() {
    let folder = Folder::new();
    folder.write("text", pattern(100));
    folder.write("pass", "correct horse battery");
    folder
        .run(["encrypt", "-R", "recipient.txt", "text"])
        .code(0);
    fs::copy(folder.path("text.wl"), folder.path("key.txt.wl")).unwrap();
    fs::hard_link(folder.path("key.txt"), folder.path("link")).unwrap();
    for args in [
        "encrypt -R recipient.txt -o recipient.txt text",
        "encrypt -i key.txt -o ./key.txt text",
        "encrypt --key-file k.key -o k.key text",
        "encrypt --passphrase-file pass -o pass text",
        "decrypt -i key.txt -o key.txt text.wl",
        "decrypt -i key.txt -o link text.wl",
        "decrypt -i key.txt key.txt.wl",
        "decrypt --salvage -i key.txt -o key.txt text.wl",
        "keygen -y key.txt --passphrase-file pass -o pass",
        "raw encrypt -a aes-256-gcm --key @k.key --iv @text -i pass -o k.key",
        "raw encrypt -a aes-256-gcm --key @k.key --iv @text -i pass -o text",
        "raw decrypt -a aes-256-gcm --key @k.key --iv @text --aad @pass -i text -o pass",
    ] {
        refused(&folder, args, READ);
    }
}

#[test]
fn keys_that_come_through_stdin_are_no_outputs() {
    let folder = Folder::new();
    folder.write("text", pattern(100));
    folder.write("pass", "correct horse battery");
    folder
        .run(["encrypt", "-R", "recipient.txt", "text"])
        .code(0);
    for (args, file) in [
        ("encrypt -R - -o recipient.txt text", "recipient.txt"),
        ("encrypt --key-file - -o k.key text", "k.key"),
        ("encrypt --passphrase-file - -o pass text", "pass"),
        ("decrypt -i - -o key.txt text.wl", "key.txt"),
    ] {
        let before = folder.read(file);
        let mut command = folder.command(args.split(' ').chain(["--force"]));
        command.stdin(fs::File::open(folder.path(file)).unwrap());
        Outcome::of(&mut command).code(1).says(READ);
        assert!(folder.read(file) == before, "{args:?} replaced {file}");
    }
    // Another file, or a pipe, does no harm.
    folder
        .pipe(
            ["decrypt", "-i", "-", "-o", "text", "--force", "text.wl"],
            folder.read("key.txt"),
        )
        .code(0);
    assert!(folder.read("text") == pattern(100));
}

#[test]
fn keys_of_tables_are_no_outputs() {
    let folder = Folder::new();
    folder.write("key", pattern(16));
    folder.write("column", pattern(24));
    folder.write("table", "PAR1PAR1");
    for args in [
        "parquet encrypt -k key -o key table",
        "parquet decrypt -k key --column-key a=column -o column table",
    ] {
        refused(&folder, args, READ);
    }
}

#[test]
fn parts_of_a_batch_are_no_outputs_and_its_outputs_are_two_files() {
    let folder = Folder::new();
    folder.write("key", pattern(16));
    folder.write("ivs", pattern(12 * 4));
    folder.write("aad", pattern(4));
    folder.write("in", pattern(64));
    folder.write("old", "old");
    let batch = "raw batch encrypt -a aes-128-gcm --key @key --ivs ivs --len 16 -i in";
    for (more, says) in [
        ("-o key --tags t", READ),
        ("-o ivs --tags t", READ),
        ("-o aad --aad aad --aad-len 1 --tags t", READ),
        ("-o c --tags key", READ),
        ("-o c --tags ivs", READ),
        ("-o c --tags in", READ),
        ("-o c --tags c", "two outputs"),
        ("-o c --tags ./c", "two outputs"),
        ("-o old --tags old", "two outputs"),
        ("-o - --tags -", "two outputs"),
        ("--tags -", "two outputs"),
    ] {
        refused(&folder, &format!("{batch} {more}"), says);
    }
    let open = batch.replace("encrypt", "decrypt");
    folder.write("tags", pattern(64));
    refused(&folder, &format!("{open} -o tags --tags tags"), READ);
    refused(&folder, "entries encrypt --keys in -i in -o in", READ);
    // A place for both that keeps nothing.
    let null = format!("{batch} -o /dev/null --tags /dev/null");
    folder.run(null.split(' ')).code(0);
}

#[test]
fn what_is_measured_is_no_output() {
    let folder = Folder::new();
    folder.write("plain.pgm", [&b"P5 64 64 255\n"[..], &[7; 4096]].concat());
    folder.write("cipher", pattern(4096));
    folder.run(["gen", "-n", "10", "d"]).code(0);
    let keys = folder.read("d/keys.bin");
    for (args, says) in [
        ("analyze plain.pgm cipher --report plain.pgm", READ),
        (
            "analyze cipher --against plain.pgm --report plain.pgm",
            READ,
        ),
        ("bench entries d -o d/keys.bin", READ),
        ("bench entries d -o r --plot r", "two outputs"),
        ("bench report cipher -o cipher", READ),
    ] {
        refused(&folder, args, says);
    }
    assert!(folder.read("d/keys.bin") == keys);
}

#[test]
fn a_tree_is_not_decrypted_over_the_identity_that_opens_it() {
    let folder = Folder::new();
    for name in ["tree", "home"] {
        fs::create_dir(folder.path(name)).unwrap();
        fs::copy(folder.path("key.txt"), folder.path(name).join("key.txt")).unwrap();
    }
    folder
        .run("bulk encrypt -R recipient.txt tree sealed".split(' '))
        .code(0);
    let inside = "bulk decrypt -i home/key.txt sealed home";
    refused(&folder, inside, "is in the destination");
    folder.run(inside.split(' ')).code(1);
    let mut through_stdin = folder.command("bulk decrypt -i - sealed home --force".split(' '));
    through_stdin.stdin(fs::File::open(folder.path("home/key.txt")).unwrap());
    Outcome::of(&mut through_stdin)
        .code(1)
        .says("is in the destination");
    folder
        .run("bulk decrypt -i key.txt sealed home --force".split(' '))
        .code(0);
}
