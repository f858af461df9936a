//! What comes back with a file's content: permissions, time, holes; and what comes back of a damaged
//! file.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::common::{Folder, pattern};

fn mode(folder: &Folder, name: &str) -> u32 {
    let found = fs::metadata(folder.path(name)).unwrap();
    found.permissions().mode() & 0o7777
}

fn modified(folder: &Folder, name: &str) -> SystemTime {
    fs::metadata(folder.path(name)).unwrap().modified().unwrap()
}

/// An old file, readable by its owner and group.
fn file(folder: &Folder, name: &str, mode: u32) -> SystemTime {
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_000_000);
    folder.write(name, "text");
    File::options()
        .write(true)
        .open(folder.path(name))
        .unwrap()
        .set_modified(time)
        .unwrap();
    fs::set_permissions(folder.path(name), Permissions::from_mode(mode)).unwrap();
    time
}

#[test]
fn permissions_and_times_come_back() {
    let folder = Folder::new();
    for (mode_in, umask, mode_out) in [
        (0o644, "022", 0o644),
        (0o600, "022", 0o600),
        (0o755, "022", 0o755),
        (0o4777, "022", 0o755),
        (0o666, "077", 0o600),
        (0o755, "027", 0o750),
        (0o440, "022", 0o440),
    ] {
        let time = file(&folder, "a", mode_in);
        folder.shell(&format!(
            "umask {umask}; rm -f b; $W encrypt -q --force -R recipient.txt a; \
             $W decrypt -i key.txt -o b a.wl"
        ));
        assert_eq!(mode(&folder, "b"), mode_out, "{mode_in:o} {umask}");
        assert_eq!(modified(&folder, "b"), time);
        // An encrypted file has its own.
        assert_ne!(modified(&folder, "a.wl"), time);
    }
    // A replaced file stays as closed as it was.
    let time = file(&folder, "a", 0o644);
    fs::set_permissions(folder.path("b"), Permissions::from_mode(0o600)).unwrap();
    folder.shell("umask 022; $W encrypt -q --force -R recipient.txt a");
    folder.shell("umask 022; $W decrypt --force -i key.txt -o b a.wl");
    assert_eq!((mode(&folder, "b"), modified(&folder, "b")), (0o600, time));
}

#[test]
fn attributes_can_be_left_out_and_survive_new_recipients() {
    let folder = Folder::new();
    let time = file(&folder, "a", 0o600);
    let decrypted = |options: &str, file: &str| {
        folder.shell(&format!(
            "umask 022; rm -f b; $W decrypt {options} -i key.txt -o b {file}"
        ));
        (mode(&folder, "b"), modified(&folder, "b"))
    };
    folder.shell("$W encrypt -R recipient.txt a");
    let (mode, now) = decrypted("--no-attributes", "a.wl");
    assert!(mode == 0o644 && now != time);
    let (mode, now) = decrypted("--range 0..2", "a.wl");
    assert!(mode == 0o644 && now != time);
    folder.shell("$W encrypt --no-attributes -R recipient.txt -o none.wl a");
    let (mode, now) = decrypted("", "none.wl");
    assert!(mode == 0o644 && now != time);
    // Of a stream from a pipe nothing is known.
    folder.shell("$W encrypt -R recipient.txt < a > stdin.wl");
    let (mode, now) = decrypted("", "stdin.wl");
    assert!(mode == 0o644 && now != time);
    for rekey in ["", "--rekey"] {
        folder.shell(&format!(
            "$W rewrap -q {rekey} -i key.txt -R recipient.txt a.wl"
        ));
        assert_eq!(decrypted("", "a.wl"), (0o600, time));
    }
    // Without the key nothing of them shows, except that they are there.
    let inspected = folder.run(["inspect", "--json", "a.wl"]).code(0).json();
    assert_eq!(inspected[0]["opens_with"], json!(["X25519"]));
    folder.write("pass", "open sesame");
    folder.shell("$W encrypt --passphrase-file pass -o p.wl a");
    folder.shell("umask 022; rm b; $W decrypt --passphrase-file pass -o b p.wl");
    assert_eq!(
        fs::metadata(folder.path("b")).unwrap().mode() & 0o777,
        0o644
    );
}

#[test]
fn holes_come_back() {
    let folder = Folder::new();
    let sparse = File::create(folder.path("a")).unwrap();
    for at in [0, 5_000_000, 20_000_000] {
        sparse.write_all_at(b"data", at).unwrap();
    }
    sparse.set_len(30_000_001).unwrap();
    folder.shell("$W encrypt -q -R recipient.txt a");
    let blocks = |name: &str| {
        File::open(folder.path(name)).unwrap().sync_all().unwrap();
        fs::metadata(folder.path(name)).unwrap().blocks()
    };
    folder.shell("$W decrypt -i key.txt -o full a.wl; $W decrypt --sparse -i key.txt -o b a.wl");
    assert!(folder.read("a") == folder.read("b"));
    assert!(blocks("b") < 200 && blocks("full") > 10_000);
    let part = [
        "decrypt",
        "--sparse",
        "-i",
        "key.txt",
        "--range",
        "4MiB..25MiB",
    ];
    folder
        .run([&part[..], &["-o", "part", "a.wl"]].concat())
        .code(0);
    assert!(folder.read("a")[4 << 20..25 << 20] == folder.read("part"));
    assert!(blocks("part") < 200);
    folder
        .run(["decrypt", "--sparse", "-i", "key.txt", "-o", "-", "a.wl"])
        .code(2)
        .says("--sparse makes holes in a file");
}

#[test]
fn what_verifies_is_salvaged() {
    let folder = Folder::new();
    let plain = pattern(100_000);
    folder.write("a", &plain);
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    let good = folder.read("a.wl");
    let stream = good.len() - (100_000 + 56 + 7 * 16);
    let salvage =
        |more: &[&str]| folder.run([&["decrypt", "--salvage", "-i", "key.txt"], more].concat());
    // All of it.
    let whole = salvage(&["-o", "b", "a.wl"]).code(0);
    assert_eq!(whole.stderr(), "");
    assert!(folder.read("b") == plain);

    let mut damaged = good.clone();
    damaged[stream + 56 + 2 * 16400] ^= 1;
    damaged[stream + 56 + 3 * 16400 + 5] ^= 1;
    folder.write("damaged.wl", &damaged);
    let found = salvage(&["-o", "c", "damaged.wl"]).code(3);
    let says = [
        "warplock: damaged.wl: lost: 32768 bytes at offset 32768",
        "warplock: damaged.wl: chunk 2",
        "salvaged 67232 of 100000 bytes\n",
    ];
    says.iter()
        .for_each(|text| assert!(found.stderr().contains(text), "{}", found.stderr()));
    let mut expected = plain.clone();
    expected[32768..65536].fill(0);
    assert!(folder.read("c") == expected);

    folder.write("cut.wl", &good[..stream + 56 + 4 * 16400 + 1000]);
    let found = salvage(&["-o", "d", "cut.wl"]).code(3);
    let found = found.says("lost: 984 bytes at offset 65536");
    let found = found.says("salvaged 65536 of 66520 bytes or more");
    found.says("lost: the end, an unknown number of bytes at offset 66520");
    assert!(folder.read("d") == plain[..65536]);

    // It replaces nothing that it was not asked to, and needs a name.
    salvage(&["-o", "d", "cut.wl"])
        .code(1)
        .says("d: exists already");
    salvage(&["--force", "-o", "d", "cut.wl"]).code(3);
    for args in [
        &["cut.wl"][..],
        &["-o", "-", "cut.wl"],
        &["-o", "/dev/null", "cut.wl"],
    ] {
        salvage(args).code(2);
    }
    folder.write("lost.wl", &good[..stream + 60]);
    salvage(&["-o", "e", "lost.wl"])
        .code(3)
        .says("nothing of it verifies");
    folder.write("lost.wl", &good[..stream - 10]);
    salvage(&["-o", "e", "lost.wl"]).code(3);
    let piped = folder.pipe(
        ["decrypt", "--salvage", "-i", "key.txt", "-o", "e"],
        &damaged,
    );
    piped.code(2).says("not from a pipe");
    assert!(!folder.path("e").exists());

    let objects = salvage(&["--json", "-o", "f", "damaged.wl"]).code(3).json();
    let mut object = objects[0].clone();
    object.as_object_mut().unwrap().remove("message");
    let expected = json!({
        "file": "damaged.wl", "output": "f", "content_bytes": 67232, "output_bytes": 100_000,
        "holes": [{"offset": 32768, "length": 32768}], "has_end": true,
        "error": "chunk", "chunk": 2, "offset": 32768,
    });
    assert_eq!((objects.len(), object), (1, expected));
}

/// A device is longer than what was written to it.
#[test]
fn padding_takes_no_content_away() {
    let folder = Folder::new();
    let plain = pattern(100_000);
    folder.write("a", &plain);
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    let mut padded = folder.read("a.wl");
    padded.resize(1 << 20, 0);
    folder.write("padded.wl", &padded);
    let decrypt = ["decrypt", "-i", "key.txt", "-o"];
    let opened = folder
        .run([&decrypt[..], &["-", "padded.wl"]].concat())
        .code(3);
    assert!(opened.stdout() == plain);
    folder
        .run([&decrypt[..], &["b", "--salvage", "padded.wl"]].concat())
        .code(3)
        .says("data follows the end");
    assert!(folder.read("b") == plain);
}
