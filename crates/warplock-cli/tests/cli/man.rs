//! The man pages, and that their examples are commands.

use std::fs;
use std::process::Command;

use crate::common::Folder;

/// The pages by name.
fn pages(folder: &Folder) -> Vec<(String, String)> {
    fs::create_dir(folder.path("man1")).unwrap();
    folder.run(["man", "man1"]).code(0);
    let entries = fs::read_dir(folder.path("man1")).unwrap();
    let page = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(page).collect()
}

/// The lines of a section, as they are to be read.
fn section(page: &str, name: &str) -> Option<Vec<String>> {
    let start = page.find(&format!(".SH \"{name}\"\n"))?;
    let lines = page[start..].lines().skip(1);
    let lines = lines.take_while(|line| !line.starts_with(".SH"));
    Some(lines.map(|line| line.replace("\\-", "-")).collect())
}

#[test]
fn pages_have_the_usual_sections() {
    let folder = Folder::new();
    let pages = pages(&folder);
    assert!(pages.len() > 30);
    for (name, page) in &pages {
        for wanted in ["EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"] {
            assert!(section(page, wanted).is_some(), "{name}: no {wanted}");
        }
        assert!(!page.contains("EXTRA"), "{name}");
        assert!(page.contains("warplock "), "{name}");
        // The others that it names are there.
        let others = section(page, "SEE ALSO").unwrap().concat();
        for other in others.split(", ").filter(|other| *other != "age(1)") {
            let file = other.replace("(1)", ".1");
            assert!(
                pages.iter().any(|(name, _)| *name == file),
                "{name}: {other}"
            );
        }
    }
    let page = |name: &str| &pages.iter().find(|(found, _)| found == name).unwrap().1;
    for name in [
        "warplock.1",
        "warplock-decrypt.1",
        "warplock-rewrap.1",
        "warplock-vault-mount.1",
    ] {
        let environment = section(page(name), "ENVIRONMENT").unwrap().concat();
        assert!(environment.contains("WARPLOCK_PASSPHRASE"), "{name}");
    }
    let environment = section(page("warplock-devices.1"), "ENVIRONMENT")
        .unwrap()
        .concat();
    assert!(!environment.contains("PASSPHRASE"));
}

#[test]
fn options_are_shown_where_they_act() {
    let folder = Folder::new();
    for (command, shows) in [
        (&["encrypt"][..], true),
        (&["verify"], true),
        (&["devices"], true),
        (&["bulk", "run"], true),
        (&["keygen"], false),
        (&["inspect"], false),
        (&["man"], false),
        (&["vault", "info"], false),
    ] {
        let help = folder.run([command, &["--help"]].concat()).code(0);
        let help = String::from_utf8_lossy(help.stdout()).into_owned();
        assert_eq!(help.contains("--threads"), shows, "{command:?}");
        assert_eq!(help.contains("--backend"), shows, "{command:?}");
        assert!(help.contains("--json"), "{command:?}");
    }
}

#[test]
fn examples_are_commands() {
    let folder = Folder::new();
    let mut tried = 0;
    for (name, page) in pages(&folder) {
        let Some(lines) = section(&page, "EXAMPLES") else {
            continue;
        };
        for line in &lines {
            let Some((_, command)) = line.split_once("warplock ") else {
                continue;
            };
            // Up to the explanation, or the next command of a pipe.
            let command = command.split("   ").next().unwrap();
            let command = command.split([';', '|', '>', '&']).next().unwrap();
            let words: Vec<_> = command.split_whitespace().collect();
            let subcommand: Vec<_> = words
                .iter()
                .take_while(|word| !word.starts_with('-'))
                .collect();
            // The deepest command that there is.
            let help = (1..=subcommand.len().min(3)).rev().find_map(|count| {
                let args = subcommand[..count].iter().map(|word| **word);
                let help = folder.command(args.chain(["--help"])).output().unwrap();
                (help.status.success()).then(|| String::from_utf8(help.stdout).unwrap())
            });
            let help = help.unwrap_or_else(|| panic!("{name}: {line}"));
            for option in words
                .iter()
                .filter(|word| word.len() > 1 && word.starts_with('-'))
            {
                let option = option.split('=').next().unwrap();
                let is_listed = help
                    .split_whitespace()
                    .any(|word| word.trim_end_matches(',') == option);
                assert!(is_listed, "{name}: {line}: {option}");
            }
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
}

#[test]
fn pages_are_shown_without_a_warning() {
    let folder = Folder::new();
    for (name, _) in pages(&folder) {
        let mut groff = Command::new("groff");
        groff
            .args(["-man", "-Tutf8", "-ww", "-z"])
            .arg(folder.path("man1").join(&name));
        let Ok(shown) = groff.output() else {
            eprintln!("skipped: no groff");
            return;
        };
        let said = String::from_utf8_lossy(&shown.stderr);
        assert!(said.is_empty(), "{name}: {said}");
    }
}
