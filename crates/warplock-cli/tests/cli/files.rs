//! `keygen`, `encrypt`, `decrypt`, `inspect`, `verify` on files and pipes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::common::{Folder, pattern};

const CHUNK: usize = 16 * 1024;

fn encrypt<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["encrypt", "-R", "recipient.txt"], more].concat()
}

fn decrypt<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["decrypt", "-i", "key.txt"], more].concat()
}

#[test]
fn files_round_trip_next_to_each_other() {
    let folder = Folder::new();
    // Nothing, a part of a chunk, around one and two chunks, several segments.
    for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 1_000_000] {
        let content = pattern(len);
        folder.write("a.bin", &content);
        folder.run(encrypt(&["--force", "a.bin"])).code(0);
        fs::rename(folder.path("a.bin"), folder.path("original")).unwrap();
        folder.run(decrypt(&["a.bin.wl"])).code(0);
        assert_eq!(folder.read("a.bin"), content, "length {len}");
    }
    assert_eq!(folder.names(), ["a.bin", "a.bin.wl", "original"]);
}

#[test]
fn pipes_and_files_hold_the_same() {
    let folder = Folder::new();
    let content = pattern(700_000);
    folder.write("a", &content);
    let sealed = folder.pipe(encrypt(&[]), &content).code(0);
    assert_eq!(
        folder.pipe(decrypt(&[]), sealed.stdout()).code(0).stdout(),
        content
    );
    folder.write("a.wl", sealed.stdout());
    assert_eq!(
        folder.run(decrypt(&["-o", "-", "a.wl"])).code(0).stdout(),
        content
    );
    folder.run(encrypt(&["-o", "b.wl", "-"])).code(0); // stdin is empty
    assert_eq!(
        folder
            .run(decrypt(&["-o", "/dev/stdout", "b.wl"]))
            .code(0)
            .stdout(),
        b""
    );
}

#[test]
fn key_files_make_bare_streams() {
    let folder = Folder::new();
    folder.write("a", pattern(40_000));
    folder
        .run(["encrypt", "--key-file", "k.key", "-o", "a.bare", "a"])
        .code(0);
    // 56 bytes of header, three chunks with a tag each.
    assert_eq!(folder.read("a.bare").len(), 56 + 40_000 + 3 * 16);
    let bytes = folder
        .run(["decrypt", "--key-file", "k.key", "-o", "-", "a.bare"])
        .code(0);
    assert_eq!(bytes.stdout(), pattern(40_000));
    // The same key as 32 raw bytes, through a pipe.
    let hex = folder.read("k.key");
    let raw: Vec<u8> = hex.trim_ascii_end().chunks(2).map(from_hex).collect();
    let opened = folder.pipe(["decrypt", "--key-file", "-", "-o", "b", "a.bare"], &raw);
    opened.code(0);
    assert_eq!(folder.read("b"), pattern(40_000));
    folder
        .run(["keygen", "--raw-key", "-o", "other.key"])
        .code(0);
    let wrong = ["decrypt", "--key-file", "other.key", "-o", "c", "a.bare"];
    folder
        .run(wrong)
        .code(4)
        .says("a.bare: this key does not open");
    assert!(!folder.path("c").exists());
}

fn from_hex(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
}

#[test]
fn passphrase_files() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.write("right", "open sesame\nsecond line\n");
    folder.write("wrong", "open barley\n");
    folder
        .run(["encrypt", "--passphrase-file", "right", "a"])
        .code(0);
    let opened = folder.pipe(
        ["decrypt", "--passphrase-file", "-", "-o", "-", "a.wl"],
        "open sesame",
    );
    assert_eq!(opened.code(0).stdout(), b"text");
    // What follows the first line is the next program's.
    folder.shell("($W decrypt --passphrase-file - -o - a.wl; cat) < right > seen");
    assert_eq!(folder.read("seen"), b"textsecond line\n");
    let refused = folder.run(["decrypt", "--passphrase-file", "wrong", "-o", "b", "a.wl"]);
    refused.code(4).says("a.wl: wrong passphrase");
    folder
        .run(decrypt(&["-o", "b", "a.wl"]))
        .code(4)
        .says("needs a passphrase");
    folder
        .run(["verify", "--passphrase-file", "/dev/null", "a.wl"])
        .code(1)
        .says("is empty");
    let twice = folder.run(["decrypt", "--passphrase-file", "-"]);
    twice.code(2).says("stdin can be read once only");
    assert!(!folder.path("b").exists());
}

#[test]
fn names_forge_no_lines_and_carry_no_escape_sequences() {
    let folder = Folder::new();
    let name = "a\u{1b}[31m\nforged.wl: verified, 4 bytes\n\u{9b}b\u{202e}\u{2066}\u{200f}";
    let sealed = format!("{name}.wl");
    folder.write(name, "text");
    let args = ["encrypt", "-v", "-R", "recipient.txt", name];
    let mut said = folder.run(args).code(0).stderr();
    for args in [
        &["verify", "-v", "-i", "key.txt", &sealed][..],
        &["inspect", &sealed],
        &["decrypt", "-v", "-i", "key.txt", "--force", &sealed],
    ] {
        let outcome = folder.run(args).code(0);
        said += &String::from_utf8_lossy(outcome.stdout());
        said += &outcome.stderr();
    }
    folder.write(&sealed, "warplock/1, but no more");
    let args = ["verify", "-i", "key.txt", &sealed];
    said += &folder.run(args).code(1).stderr();
    assert!(
        said.contains("forged") && !said.contains("\nforged"),
        "{said}"
    );
    let effects = ['\u{1b}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}'];
    assert!(!said.contains(effects), "{said}");
}

#[test]
fn ranges() {
    let folder = Folder::new();
    let content = pattern(3 * CHUNK + 100);
    let len = content.len();
    folder.write("a", &content);
    folder.run(encrypt(&["a"])).code(0);
    for (range, bytes) in [
        ("0..1", &content[..1]),
        ("..", &content[..]),
        ("16383..16385", &content[CHUNK - 1..CHUNK + 1]),
        ("40000..", &content[40_000..]),
        ("..20000", &content[..20_000]),
        ("5..5", &[]),
    ] {
        let opened = folder
            .run(decrypt(&["--range", range, "-o", "-", "a.wl"]))
            .code(0);
        assert!(opened.stdout() == bytes, "{range}");
    }
    let beyond = format!("0..{}", len + 1);
    folder
        .run(decrypt(&["--range", &beyond, "-o", "b", "a.wl"]))
        .code(2)
        .says("range");
    folder
        .run(decrypt(&["--range", "9..5", "a.wl"]))
        .code(2)
        .says("B not below A");
    // A part has no name by default, least of all the name of the whole.
    for force in [
        &["--range", "0..10", "a.wl"][..],
        &["--force", "--range", "0..10", "a.wl"],
    ] {
        folder
            .run(decrypt(force))
            .code(2)
            .says("name an output for a part: -o FILE, or -o -");
        assert_eq!(folder.read("a"), content);
    }
    folder.shell("$W decrypt -i key.txt --range 5..9 < a.wl > part");
    assert_eq!(folder.read("part"), &content[5..9]);
    let sealed = folder.read("a.wl");
    folder
        .pipe(decrypt(&["--range", "0..5", "-o", "b"]), &sealed)
        .code(2)
        .says("regular file");
    // Only the chunks asked for are looked at.
    let mut damaged = sealed;
    *damaged.last_mut().unwrap() ^= 1;
    folder.write("a.wl", &damaged);
    folder
        .run(decrypt(&["--range", "0..5", "-o", "-", "a.wl"]))
        .code(0);
    folder
        .run(decrypt(&["--range", "49200..49210", "-o", "b", "a.wl"]))
        .code(3);
    assert!(!folder.path("b").exists());
}

#[test]
fn several_inputs_are_done_one_after_the_other() {
    let folder = Folder::new();
    folder.write("a", "1");
    folder.write("c", "3");
    folder
        .run(encrypt(&["a", "b", "c"]))
        .code(1)
        .says("b: cannot read: no such file");
    assert_eq!(folder.names(), ["a", "a.wl", "c", "c.wl"]);
    let mut changed = folder.read("a.wl");
    *changed.last_mut().unwrap() ^= 1;
    folder.write("a.wl", changed);
    let both = folder
        .run(["verify", "-i", "key.txt", "a.wl", "nothing", "c.wl"])
        .code(3);
    assert_eq!(both.stdout(), b"c.wl: verified, 1 bytes\n");
    folder
        .run(encrypt(&["-o", "x", "a", "c"]))
        .code(2)
        .says("-o names one output");
    folder
        .run(encrypt(&["a", "-"]))
        .code(2)
        .says("stdin cannot be one of several");
}

#[test]
fn outputs_that_exist_are_kept() {
    let folder = Folder::new();
    folder.write("a", "new");
    folder.write("a.wl", "precious");
    let mode = |mode| fs::set_permissions(folder.path("a.wl"), fs::Permissions::from_mode(mode));
    mode(0o640).unwrap();
    folder
        .run(encrypt(&["a"]))
        .code(1)
        .says("a.wl: exists already; --force");
    assert_eq!(folder.read("a.wl"), b"precious");
    // A link stays a link, and permissions stay.
    symlink("a.wl", folder.path("link")).unwrap();
    folder.run(encrypt(&["--force", "-o", "link", "a"])).code(0);
    assert!(
        fs::symlink_metadata(folder.path("link"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(
        fs::metadata(folder.path("a.wl"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o640
    );
    assert_eq!(
        folder.run(decrypt(&["-o", "-", "a.wl"])).code(0).stdout(),
        b"new"
    );
    symlink("nowhere", folder.path("dangling")).unwrap();
    folder
        .run(encrypt(&["--force", "-o", "dangling", "a"]))
        .code(1)
        .says("link to nothing");
    assert_eq!(folder.names(), ["a", "a.wl", "dangling", "link"]);
}

#[test]
fn force_replaces_no_other_input() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.run(encrypt(&["a"])).code(0);
    folder.run(encrypt(&["a.wl"])).code(0);
    let (once, twice) = (folder.read("a.wl"), folder.read("a.wl.wl"));
    for args in [
        encrypt(&["--force", "a", "a.wl"]),
        encrypt(&["--force", "./a.wl", "a"]),
        decrypt(&["--force", "a.wl.wl", "a.wl"]),
    ] {
        folder
            .run(args)
            .code(2)
            .says("a.wl: is an input, and --force");
        assert!(folder.read("a.wl") == once && folder.read("a.wl.wl") == twice);
    }
    folder.write("b", "text");
    folder.run(encrypt(&["--force", "a", "b"])).code(0);
    assert!(folder.read("a.wl") != once);
}

#[test]
fn an_input_is_never_its_own_output() {
    let folder = Folder::new();
    folder.write("a", "text");
    fs::hard_link(folder.path("a"), folder.path("b")).unwrap();
    for output in ["a", "./a", "b"] {
        let refused = folder.run(encrypt(&["--force", "-o", output, "a"]));
        refused.code(1).says("input and output are the same file");
    }
    assert_eq!(folder.read("a"), b"text");
    // An identity is secret and often the only copy; its recipients are neither.
    let identity = folder.read("key.txt");
    for args in [["key.txt"], ["-"]] {
        let mut command = folder.command(["keygen", "--force", "-o", "key.txt", "-y"]);
        command.stdin(fs::File::open(folder.path("key.txt")).unwrap());
        let refused = command.args(args).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{args:?}");
        assert_eq!(folder.read("key.txt"), identity);
    }
}

#[test]
fn refusals_leave_nothing() {
    let folder = Folder::new();
    let content = pattern(100_000);
    folder.write("a", &content);
    folder.run(encrypt(&["a"])).code(0);
    let good = folder.read("a.wl");
    fs::remove_file(folder.path("a")).unwrap();
    let envelope = good.len() - (56 + 100_000 + 7 * 16);
    let body = envelope + 56;
    let swapped = [
        &good[..body],
        &good[body + 16_400..body + 32_800],
        &good[body..body + 16_400],
        &good[body + 32_800..],
    ]
    .concat();
    let flipped = |place: usize| {
        let mut bytes = good.clone();
        bytes[place] ^= 1;
        bytes
    };
    for (what, bytes, code, says) in [
        ("empty", vec![], 1, "the input is empty"),
        (
            "foreign",
            b"%PDF-1.7 and so on and on".to_vec(),
            1,
            "not an encrypted Warplock file",
        ),
        ("no header", good[..envelope + 20].to_vec(), 3, "cut short"),
        ("no chunk", good[..body].to_vec(), 3, "cut short"),
        (
            "cut between chunks",
            good[..body + 16_400].to_vec(),
            3,
            "last chunk is missing",
        ),
        (
            "cut in a chunk",
            good[..good.len() - 5000].to_vec(),
            3,
            "cut short or altered",
        ),
        ("moved", swapped, 3, "holds what belongs at chunk"),
        ("flipped chunk", flipped(body + 20_000), 3, "chunk 1"),
        ("flipped salt", flipped(envelope + 3), 3, "key"),
        ("flipped wrapped key", flipped(envelope - 1), 3, "altered"),
        (
            "longer",
            [&good[..], b"x"].concat(),
            3,
            "data follows the end",
        ),
    ] {
        folder.write("a.wl", &bytes);
        folder
            .run(decrypt(&["a.wl"]))
            .code(code)
            .says("warplock: a.wl: ")
            .says(says);
        assert_eq!(folder.names(), ["a.wl"], "{what}");
        folder.run(["verify", "-i", "key.txt", "a.wl"]).code(code);
        // To a pipe goes verified content only.
        let piped = folder.pipe(decrypt(&[]), &bytes).code(code);
        assert!(
            content.starts_with(piped.stdout()) && piped.stdout().len() < 100_000,
            "{what}"
        );
    }
    folder.write("a.wl", &good);
    folder.run(["keygen", "-o", "other.txt"]).code(0);
    folder
        .run(["decrypt", "-i", "other.txt", "a.wl"])
        .code(4)
        .says("none of the identities");
    folder
        .run(["decrypt", "a.wl"])
        .code(2)
        .says("give -i IDENTITY");
    folder
        .run(["decrypt", "-i", "key.txt", "other.txt"])
        .code(2)
        .says("-o FILE");
    assert_eq!(folder.names(), ["a.wl", "other.txt"]);
}

#[test]
fn inspect_needs_no_key() {
    let folder = Folder::new();
    folder.write("a", pattern(20_000));
    folder.run(encrypt(&["a"])).code(0);
    let text = folder.run(["inspect", "a.wl"]).code(0);
    let text = String::from_utf8(text.stdout().to_vec()).unwrap();
    assert!(
        text.contains("X25519")
            && text.contains("20000 bytes in 2 chunks, judged by its length alone"),
        "{text}"
    );
    let json = folder
        .pipe(["inspect", "--json"], folder.read("a.wl"))
        .code(0);
    let json: serde_json::Value = serde_json::from_slice(json.stdout()).unwrap();
    assert_eq!(json["opens_with"][0], "X25519");
    assert_eq!(json["content_bytes"], 20_000);
    assert_eq!(json["length"], "plausible");
    folder
        .run(["inspect", "k.key"])
        .code(1)
        .says("not an encrypted Warplock file");
    let sealed = folder.read("a.wl");
    folder.write("a.wl", &sealed[..sealed.len() - 3632]);
    folder
        .run(["inspect", "a.wl"])
        .code(3)
        .says("last chunk is missing");
}

#[test]
fn json_and_notes_do_not_mix_with_data() {
    let folder = Folder::new();
    folder.write("a", "text");
    let line = folder.run(encrypt(&["--json", "a"])).code(0);
    let line: serde_json::Value = serde_json::from_slice(line.stdout()).unwrap();
    assert_eq!(
        (&line["output"], &line["content_bytes"]),
        (&"a.wl".into(), &4.into())
    );
    let data = folder
        .run(decrypt(&["--json", "-v", "-o", "-", "a.wl"]))
        .code(0);
    assert_eq!(data.stdout(), b"text");
    assert!(data.stderr().contains("\"content_bytes\":4") && data.stderr().contains("MB/s"));
    let verified = folder
        .run(["verify", "--json", "-i", "key.txt", "a.wl"])
        .code(0);
    let verified: serde_json::Value = serde_json::from_slice(verified.stdout()).unwrap();
    assert_eq!(verified["verified"], true);
}

#[test]
fn keys_are_for_their_owner_alone() {
    let folder = Folder::new();
    for name in ["key.txt", "k.key"] {
        let mode = fs::metadata(folder.path(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let identity = String::from_utf8(folder.read("key.txt")).unwrap();
    let recipient = String::from_utf8(folder.read("recipient.txt")).unwrap();
    assert!(identity.contains(&format!("# public key: {}", recipient.trim())));
    folder
        .run(["keygen", "-o", "key.txt"])
        .code(1)
        .says("key.txt: exists already; --force replaces it");
    assert_eq!(folder.read("key.txt"), identity.as_bytes());
    let read = folder.pipe(["keygen", "-y"], &identity).code(0);
    assert_eq!(read.stdout(), recipient.as_bytes());
    // Identities encrypt for themselves, as with age.
    folder.write("a", "text");
    folder.run(["encrypt", "-i", "key.txt", "a"]).code(0);
    assert_eq!(
        folder.run(decrypt(&["-o", "-", "a.wl"])).code(0).stdout(),
        b"text"
    );
}

#[test]
fn keys_are_printed_as_json() {
    let folder = Folder::new();
    let made = |args: &[&str]| {
        let made = folder.run([&["keygen", "--json"], args].concat()).code(0);
        assert_eq!(made.stderr(), "");
        serde_json::from_slice::<serde_json::Value>(made.stdout()).unwrap()
    };
    let pair = made(&[]);
    folder.write("new.txt", pair["identity"].as_str().unwrap());
    let read = folder.run(["keygen", "-y", "new.txt"]).stdout().to_vec();
    let recipient = String::from_utf8(read).unwrap();
    assert_eq!(pair["recipient"], recipient.trim());
    let key = made(&["--raw-key"]);
    folder.write("new.key", key["key"].as_str().unwrap());
    folder.write("a", "text");
    folder
        .run(["encrypt", "--key-file", "new.key", "a"])
        .code(0);
}
