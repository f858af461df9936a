//! Keys and passphrases appear neither in what is printed nor in documented examples.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::Folder;

#[test]
fn failing_commands_do_not_print_their_secrets() {
    let folder = Folder::new();
    let key = "8f3b6c1d2e4f5a6b7c8d9e0f1a2b3c4d";
    let identity = String::from_utf8(folder.read("key.txt")).unwrap();
    let identity = identity.lines().last().unwrap();
    let passphrase = "correct horse battery";
    folder.write("pass", passphrase);
    folder.write("a", "text");
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    folder.write("bad.key", &key[1..]);
    folder.write("bad.txt", &identity[..70]);
    let long_key = key.repeat(2);
    let taken = long_key.to_uppercase();
    fs::create_dir(folder.path(&taken)).unwrap();
    let passphrase_given = format!("--passphrase={passphrase}");
    let raw = ["raw", "encrypt", "--algorithm", "aes-128-ctr", "--iv", "00"];
    for args in [
        [&raw[..], &["--key", key]].concat(),
        [&raw[..], &["--key", &key[1..]]].concat(),
        [&raw[..], &["--key", "00", key]].concat(),
        [&raw[..], &["--key", &format!("x{key}")]].concat(),
        [&raw[..], &["--kye", key]].concat(),
        [&raw[..], &[&format!("--{key}")]].concat(),
        vec!["encrypt", "-r", identity, "a"],
        vec!["encrypt", "-r", &long_key, "a"],
        vec!["encrypt", "-R", "key.txt", "a"],
        // A secret where the name of its file belongs.
        vec!["encrypt", "-R", identity, "a"],
        vec!["encrypt", "-i", identity, "a"],
        vec!["encrypt", "--key-file", &long_key, "a"],
        vec!["encrypt", "--passphrase-file", &long_key, "a"],
        vec!["decrypt", "-i", identity, "-o", "b", "a.wl"],
        vec!["decrypt", "--key-file", &long_key, "-o", "b", "a.wl"],
        vec!["decrypt", "--passphrase-file", identity, "-o", "b", "a.wl"],
        vec!["keygen", "-y", identity],
        [&raw[..], &["--key", &format!("@{key}")]].concat(),
        // A secret where an input, an output, a command or something else belongs.
        vec!["encrypt", "-R", "recipient.txt", identity],
        vec!["encrypt", "-R", "recipient.txt", "-o", &taken, "a"],
        vec!["decrypt", "-i", "key.txt", identity],
        vec!["decrypt", "-i", "key.txt", "-o", "b", &long_key],
        vec!["verify", identity],
        vec!["inspect", &long_key],
        vec![identity],
        vec!["vault", identity],
        vec!["encrypt", &passphrase_given, "a"],
        vec!["encrypt", "-R", "recipient.txt", "--threads", identity, "a"],
        vec!["encrypt", "-R", "recipient.txt", "--backend", key, "a"],
        [&raw[..], &["--key", "@k.key", "--pad", key]].concat(),
        vec!["encrypt", "--key-file", "bad.key", "a"],
        vec!["encrypt", "-i", "bad.txt", "a"],
        vec!["decrypt", "-i", "bad.txt", "-o", "b", "a.wl"],
        vec!["decrypt", "-i", "pass", "-o", "b", "a.wl"],
        vec!["decrypt", "--passphrase-file", "pass", "-o", "b", "a.wl"],
        vec!["decrypt", "--key-file", "k.key", "-o", "b", "a.wl"],
    ] {
        let output = folder.command(&args).args(["-v"]).output().unwrap();
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let secrets = [&key[2..20], &identity[..20], passphrase];
        for secret in secrets
            .iter()
            .flat_map(|secret| [secret.to_string(), secret.to_uppercase()])
        {
            assert!(!said.contains(&secret), "{args:?}: {said}");
        }
    }
}

/// Every text file that documents the program.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in [root.clone(), root.join("docs")] {
        let entries = fs::read_dir(folder).into_iter().flatten();
        found.extend(entries.map(|entry| entry.unwrap().path()));
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found
}

#[test]
fn no_documented_example_has_key_material() {
    let folder = Folder::new();
    fs::create_dir(folder.path("man")).unwrap();
    folder.run(["man", "man"]).code(0);
    let pages = fs::read_dir(folder.path("man"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let pages: Vec<_> = pages.collect();
    assert!(pages.len() > 8, "{pages:?}");
    let mut texts: Vec<_> = documents()
        .into_iter()
        .chain(pages)
        .map(|path| {
            (
                path.display().to_string(),
                fs::read_to_string(path).unwrap(),
            )
        })
        .collect();
    let commands = [
        "keygen",
        "encrypt",
        "decrypt",
        "inspect",
        "verify",
        "raw",
        "devices",
        "calibrate",
    ];
    for command in commands {
        let help = folder.run([command, "--help"]).code(0);
        texts.push((
            command.to_owned(),
            String::from_utf8(help.stdout().to_vec()).unwrap(),
        ));
    }
    for (name, text) in texts {
        // Man pages write a hyphen as \-.
        let text = text.replace('\\', "");
        for option in ["--key ", "--key=", "-K "] {
            for (place, _) in text.match_indices(option) {
                let value = text[place + option.len()..]
                    .split_whitespace()
                    .next()
                    .unwrap_or("");
                let value = value.trim_matches(|c: char| "\"'`<[".contains(c));
                let digits = value.chars().take_while(char::is_ascii_hexdigit).count();
                assert!(
                    digits < 8,
                    "{name} gives a key as an argument: {option}{value}"
                );
            }
        }
        assert!(
            !text.contains("AGE-SECRET-KEY-1Q"),
            "{name} shows an identity"
        );
    }
}
