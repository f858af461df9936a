//! `--json`: an object for each input, whatever becomes of it.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::common::{Folder, objects, pattern};

/// A folder with `good.wl`, `altered.wl` (in chunk 1), `cut.wl` (at a chunk's end), `foreign.wl`,
/// and no `missing.wl`.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("good", pattern(40_000));
    folder
        .run(["encrypt", "-R", "recipient.txt", "good"])
        .code(0);
    let good = folder.read("good.wl");
    // The envelope, 56 bytes of header, two whole chunks and one of 7232 bytes.
    let body = good.len() - (2 * 16_400 + 7232 + 16);
    let mut altered = good.clone();
    altered[body + 16_400] ^= 1;
    folder.write("altered.wl", altered);
    folder.write("cut.wl", &good[..body + 2 * 16_400]);
    folder.write("foreign.wl", "%PDF-1.7 and so on");
    folder
}

const ALL: [&str; 5] = [
    "altered.wl",
    "good.wl",
    "missing.wl",
    "cut.wl",
    "foreign.wl",
];

/// The fields that programs rely on, of each object.
fn fields(objects: &[Value], names: &[&str]) -> Vec<Value> {
    let pick = |object: &Value| {
        let present = names.iter().filter(|name| object.get(name).is_some());
        let picked = present.map(|name| (name.to_string(), object[name].clone()));
        Value::Object(picked.collect())
    };
    objects.iter().map(pick).collect()
}

#[test]
fn verify_tells_of_each_input() {
    let folder = folder();
    let verified = folder.run([&["verify", "--json", "-i", "key.txt"], &ALL[..]].concat());
    let objects = verified.code(3).json();
    assert_eq!(
        fields(
            &objects,
            &[
                "file",
                "verified",
                "content_bytes",
                "error",
                "chunk",
                "offset"
            ]
        ),
        [
            json!({"file": "altered.wl", "verified": false, "error": "chunk", "chunk": 1,
                "offset": 16384}),
            json!({"file": "good.wl", "verified": true, "content_bytes": 40_000}),
            json!({"file": "missing.wl", "verified": false, "error": "io"}),
            json!({"file": "cut.wl", "verified": false, "error": "last_chunk_missing", "chunk": 2,
                "offset": 32768}),
            json!({"file": "foreign.wl", "verified": false, "error": "not_warplock"}),
        ]
    );
    let message = objects[0]["message"].as_str().unwrap();
    assert!(message.starts_with("altered.wl: chunk 1 "), "{message}");
    // A wrong key, and from standard input.
    folder.run(["keygen", "-o", "other.txt"]).code(0);
    let wrong = folder.pipe(
        ["verify", "--json", "-i", "other.txt"],
        folder.read("good.wl"),
    );
    let wrong = wrong.code(4).json();
    assert_eq!(
        fields(&wrong, &["file", "verified", "error"]),
        [json!({"file": "stdin", "verified": false, "error": "no_key"})]
    );
    let no_key = folder.run(["verify", "--json", "-i", "nothing.txt", "good.wl"]);
    let no_key = no_key.code(1).json();
    assert_eq!(
        fields(&no_key, &["file", "error"]),
        [json!({"error": "io"})]
    );
}

#[test]
fn inspect_tells_of_each_input() {
    let folder = folder();
    let objects = folder.run([&["inspect", "--json"], &ALL[..]].concat());
    let objects = objects.code(3).json();
    let picked = fields(
        &objects,
        &["file", "format", "content_bytes", "length", "error"],
    );
    let whole = |file: &str| {
        json!({"file": file, "format": "warplock/1", "content_bytes": 40_000,
            "length": "plausible"})
    };
    assert_eq!(
        picked,
        [
            whole("altered.wl"),
            whole("good.wl"),
            json!({"file": "missing.wl", "error": "io"}),
            json!({"file": "cut.wl", "format": "warplock/1", "content_bytes": 32768,
                "length": "last_chunk_missing", "error": "last_chunk_missing"}),
            json!({"file": "foreign.wl", "error": "not_warplock"}),
        ]
    );
    let good = folder.read("good.wl");
    for (cut, length) in [
        (7232 + 16 + 2 * 16_400 + 1, "header_cut"),
        (7232 + 1, "tag_cut"),
        (100, "plausible"),
    ] {
        folder.write("cut.wl", &good[..good.len() - cut]);
        let object = &folder.run(["inspect", "--json", "cut.wl"]).json()[0];
        assert_eq!(object["length"], length);
        assert_eq!(object.get("error").is_some(), length != "plausible");
    }
}

#[test]
fn encrypt_and_decrypt_tell_of_each_input() {
    let folder = folder();
    folder.write("there", "new");
    folder.write("there.wl", "old");
    let made = folder.run([
        "encrypt",
        "--json",
        "-R",
        "recipient.txt",
        "there",
        "missing",
        "key.txt",
    ]);
    let made = made.code(1).json();
    let names = ["file", "output", "content_bytes", "output_bytes", "error"];
    let mut picked = fields(&made, &names);
    picked.sort_by_key(|object| object["file"].as_str().unwrap().to_owned());
    let written = folder.read("key.txt.wl").len();
    assert_eq!(
        picked,
        [
            json!({"file": "key.txt", "output": "key.txt.wl",
                "content_bytes": folder.read("key.txt").len(), "output_bytes": written}),
            json!({"file": "missing", "error": "io"}),
            json!({"file": "there", "error": "exists"}),
        ]
    );
    fs::remove_file(folder.path("good")).unwrap();
    let args = [&["decrypt", "--json", "-i", "key.txt"], &ALL[..]].concat();
    let opened = folder.run(args).code(3).json();
    assert_eq!(
        fields(&opened, &["file", "output", "content_bytes", "error"]),
        [
            json!({"file": "altered.wl", "error": "chunk"}),
            json!({"file": "good.wl", "output": "good", "content_bytes": 40_000}),
            json!({"file": "missing.wl", "error": "io"}),
            json!({"file": "cut.wl", "error": "last_chunk_missing"}),
            json!({"file": "foreign.wl", "error": "not_warplock"}),
        ]
    );
}

#[test]
fn objects_go_to_stderr_where_stdout_gets_the_data() {
    let folder = folder();
    let decrypt = ["decrypt", "--json", "-i", "key.txt", "-o", "-"];
    for (file, error) in [("good.wl", None), ("altered.wl", Some("chunk"))] {
        let mut command = folder.command([&decrypt[..], &[file]].concat());
        let output = command.stdout(Stdio::piped()).output().unwrap();
        assert!(folder.read("good").starts_with(&output.stdout));
        let lines = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<_> = lines.lines().filter(|line| line.starts_with('{')).collect();
        let object = &objects(lines.join("\n").as_bytes())[..];
        assert_eq!(object.len(), 1);
        assert_eq!(object[0]["file"], file);
        assert_eq!(object[0].get("error").and_then(Value::as_str), error);
    }
    folder.write("key", pattern(16));
    let raw = [
        "raw",
        "encrypt",
        "--json",
        "--algorithm",
        "aes-128-ctr",
        "--key",
        "@key",
        "--iv",
    ];
    let to_file = folder.run([&raw[..], &["@key", "-i", "good", "-o", "out"]].concat());
    let expected = [json!({"file": "good", "output": "out", "input_bytes": 40_000})];
    assert_eq!(to_file.code(0).json(), expected);
    let refused = folder.run([&raw[..], &["@key", "-i", "missing", "-o", "out2"]].concat());
    let refused = refused.code(1).json();
    assert_eq!(
        fields(&refused, &["file", "error"]),
        [json!({"file": "missing", "error": "io"})]
    );
}

#[test]
fn ranges_tell_of_a_cut_file() {
    let folder = folder();
    let decrypt = |range: &str, file: &str| {
        let args = [
            "decrypt", "-i", "key.txt", "--force", "--json", "-o", "part", "--range",
        ];
        folder.run([&args[..], &[range, file]].concat())
    };
    for (file, length) in [("good.wl", "plausible"), ("cut.wl", "last_chunk_missing")] {
        let part = decrypt("16380..16390", file).code(0);
        assert_eq!(folder.read("part"), &pattern(40_000)[16380..16390]);
        let object = &part.json()[0];
        assert_eq!(object["length"], length);
        assert_eq!(object["content_bytes"], 10);
        let warned = part
            .stderr()
            .contains("the file is incomplete: its last chunk is missing");
        assert_eq!(warned, file == "cut.wl", "{}", part.stderr());
    }
    // Beyond the cut, and up to an end that is not there.
    for range in ["32760..32769", "39990..", ".."] {
        let object = decrypt(range, "cut.wl")
            .code(3)
            .says("last chunk is missing")
            .json();
        assert_eq!(object[0]["error"], "last_chunk_missing");
    }
    let object = decrypt("40000..40001", "good.wl").code(2).json();
    assert_eq!(object[0]["error"], "out_of_range");
}

#[test]
fn vaults_have_typed_objects() {
    let folder = folder();
    let init = ["vault", "init", "store", "-R", "recipient.txt", "--json"];
    let made = folder.run(init).code(0).json();
    assert_eq!(
        made,
        [json!({"vault": "store", "algorithm": "aes-256-gcm", "block_size": 4096})]
    );
    let again = folder.run(init).code(2).json();
    assert_eq!(
        fields(&again, &["vault", "error"]),
        [json!({"vault": "store", "error": "usage"})]
    );
    fs::write(folder.path("store/intruder"), "x").unwrap();
    let checked = folder.run(["vault", "check", "store", "-i", "key.txt", "--json"]);
    let types = fields(&checked.json(), &["type", "vault"]);
    assert_eq!(
        types,
        [
            json!({"type": "finding"}),
            json!({"type": "summary", "vault": "store"})
        ]
    );
    let wrong = folder.run(["vault", "check", "nowhere", "-i", "key.txt", "--json"]);
    assert_eq!(
        fields(&wrong.code(1).json(), &["type", "vault"]),
        [json!({"type": "error", "vault": "nowhere"})]
    );
    let unmounted = folder
        .run(["vault", "unmount", "nowhere", "--json"])
        .code(1)
        .json();
    assert_eq!(
        fields(&unmounted, &["mount_point", "error"]),
        [json!({"mount_point": "nowhere", "error": "failed"})]
    );
    let add = [
        "vault", "passwd", "store", "-i", "key.txt", "--add", "two", "--json",
    ];
    let added = folder
        .run([&add[..], &["-R", "recipient.txt"]].concat())
        .code(0)
        .json();
    assert_eq!(
        added,
        [json!({"vault": "store", "key": "two", "change": "added"})]
    );
    let info = folder
        .run(["vault", "info", "nowhere", "--json"])
        .code(1)
        .json();
    assert_eq!(info[0]["vault"], "nowhere");
}

#[test]
fn keys_in_files_are_told_of() {
    let folder = Folder::new();
    let made = |args: &[&str]| {
        folder
            .run([&["keygen", "--json"], args].concat())
            .code(0)
            .json()
    };
    let new = &made(&["-o", "new.txt"])[0];
    assert_eq!(new["output"], "new.txt");
    let recipient = folder.run(["keygen", "-y", "new.txt"]).code(0);
    let recipient = String::from_utf8(recipient.stdout().to_vec()).unwrap();
    assert_eq!(new["recipient"], recipient.trim());
    assert_eq!(
        made(&["--raw-key", "-o", "new.key"]),
        [json!({"output": "new.key"})]
    );
    let converted = made(&["-y", "new.txt", "-o", "new.pub"]);
    assert_eq!(
        converted,
        [json!({"recipient": recipient.trim(), "output": "new.pub"})]
    );
    assert_eq!(folder.read("new.pub"), recipient.as_bytes());
}

#[test]
fn names_in_objects_cannot_alter_a_terminal() {
    let folder = Folder::new();
    let name = "a\u{202e}\u{9b}31m\u{1b}\u{7f}.wl";
    let refused = folder
        .run(["verify", "--json", "-i", "key.txt", name])
        .code(1);
    let line = String::from_utf8(refused.stdout().to_vec()).unwrap();
    assert_eq!(refused.json()[0]["file"], name);
    assert!(line.contains(r"a\u202e\u009b31m\u001b\u007f.wl"), "{line}");
    assert!(
        line.trim_end().chars().all(|c| (' '..='~').contains(&c)),
        "{line}"
    );
}

/// In docs/json.md, in backticks.
#[test]
fn fields_and_errors_are_documented() {
    let folder = folder();
    folder
        .run(["vault", "init", "store", "-R", "recipient.txt"])
        .code(0);
    fs::write(folder.path("store/intruder"), "x").unwrap();
    folder.write("key", pattern(16));
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let docs = fs::read_to_string(docs).unwrap();
    let raw = "raw encrypt --algorithm aes-128-ctr --key @key --iv @key -i good -o out";
    for line in [
        "encrypt -R recipient.txt --force good missing",
        "decrypt -i key.txt --force good.wl altered.wl",
        "decrypt -i key.txt --range 0..5 -o part cut.wl",
        "verify -i key.txt good.wl altered.wl cut.wl foreign.wl",
        "inspect good.wl cut.wl",
        raw,
        "keygen",
        "keygen --raw-key",
        "keygen -y key.txt",
        "keygen -o new.txt",
        "vault init new -R recipient.txt",
        "vault passwd store -i key.txt --add two -R recipient.txt",
        "vault check store -i key.txt",
        "vault info store",
        "vault info nowhere",
        "vault memory info store",
        "devices",
        "devices --algorithms",
        "gen -n 16 data",
        "bench file-sizes --size 1028",
    ] {
        let objects = folder.run(line.split(' ').chain(["--json"])).json();
        assert!(!objects.is_empty(), "{line}");
        for object in objects {
            for (field, value) in object.as_object().unwrap() {
                assert!(docs.contains(&format!("`{field}`")), "{line}: {field}");
                if field == "error" {
                    let error = value.as_str().unwrap();
                    assert!(docs.contains(&format!("`{error}`")), "{line}: {error}");
                }
            }
        }
    }
}
