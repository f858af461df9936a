//! The scripts of docs/recipes.md.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Folder, Outcome};

const PAGE: &str = include_str!("../../../../docs/recipes.md");

/// The code blocks in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let parts = PAGE.split("```").skip(1).step_by(2);
    parts
        .filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n'))
        .collect()
}

fn script(folder: &Folder, name: &str, text: &str) {
    folder.write(name, text);
    fs::set_permissions(folder.path(name), Permissions::from_mode(0o755)).unwrap();
}

/// Runs a program of the folder `bin`, which has `warplock` and a stand-in for `aws`.
fn run(folder: &Folder, args: &[&str]) -> std::process::Output {
    let path = format!("{}:/usr/bin:/bin", folder.path("bin").display());
    let mut command = Command::new(folder.path("bin").join(args[0]));
    command.args(&args[1..]).current_dir(folder.root());
    command.env("PATH", path).output().unwrap()
}

#[test]
fn a_backup_goes_to_s3_and_comes_back() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("bin")).unwrap();
    fs::create_dir_all(folder.path("srv/photos")).unwrap();
    fs::create_dir(folder.path("my-backups")).unwrap();
    folder.write("srv/photos/a", "text");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_warplock"), folder.path("bin/warplock"))
        .unwrap();
    // aws s3 cp --only-show-errors FROM TO, where a bucket is a folder.
    let aws = "#!/bin/sh\nfrom=${4#s3://} to=${5#s3://}\n\
               if [ \"$to\" = - ]; then cat \"$from\"; else cp \"$from\" \"$to\"; fi\n";
    script(&folder, "bin/aws", aws);
    let [backup, restore] = blocks("bash")[..] else {
        panic!("two scripts");
    };
    script(&folder, "bin/backup", backup);
    script(&folder, "bin/restore", restore);
    let uploaded = || fs::read_dir(folder.path("my-backups")).unwrap().count();

    // The line for cron, but for its folders.
    let cron = blocks("text")[0].trim();
    let words: Vec<_> = cron.split(' ').skip(5).collect();
    assert_eq!(words[0], "/usr/local/bin/backup");
    let args = ["backup", "srv/photos", "recipient.txt", words[3]];
    let done = run(&folder, &args);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(done.stdout.is_empty() && done.stderr.is_empty());
    assert_eq!(uploaded(), 1);

    // What fails uploads nothing.
    for args in [
        ["backup", "srv/nothing", "recipient.txt", "my-backups"],
        ["backup", "srv/photos", "nothing.txt", "my-backups"],
    ] {
        assert!(!run(&folder, &args).status.success(), "{args:?}");
        assert_eq!(uploaded(), 1, "{args:?}");
    }

    let name = fs::read_dir(folder.path("my-backups")).unwrap().next();
    let name = name.unwrap().unwrap().file_name().into_string().unwrap();
    assert!(
        run(&folder, &["restore", &name, "key.txt", "my-backups"])
            .status
            .success()
    );
    assert_eq!(folder.read("photos/a"), b"text");
    let path = format!("my-backups/{name}");
    let mut altered = folder.read(&path);
    *altered.last_mut().unwrap() ^= 1;
    folder.write(&path, altered);
    assert!(
        !run(&folder, &["restore", &name, "key.txt", "my-backups"])
            .status
            .success()
    );
}

#[test]
fn a_unit_finds_its_passphrase() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.write("warplock.passphrase", "open sesame\n");
    let encrypt = ["encrypt", "--passphrase-file", "warplock.passphrase", "a"];
    folder.run(encrypt).code(0);
    let unit = blocks("ini")[0];
    let value = |key: &str| {
        let lines = unit.lines();
        lines
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .next()
            .unwrap()
    };
    let (credential, _) = value("LoadCredential").split_once(':').unwrap();
    assert!(folder.path(credential).exists());
    let words: Vec<_> = value("ExecStart").split(' ').collect();
    assert_eq!(Path::new(words[0]).file_name().unwrap(), "warplock");
    let mut command = folder.command([words[1], "a.wl"]);
    Outcome::of(command.env("CREDENTIALS_DIRECTORY", folder.root())).code(0);

    // As systemd reads it.
    let unit = unit.replace(words[0], env!("CARGO_BIN_EXE_warplock"));
    folder.write("archive.service", unit);
    let mut analyze = Command::new("systemd-analyze");
    analyze
        .args(["verify", "--man=no"])
        .arg(folder.path("archive.service"));
    match analyze.output() {
        Ok(outcome) => {
            let said = String::from_utf8_lossy(&outcome.stderr);
            assert!(!said.contains("archive.service"), "{said}");
        }
        Err(_) => eprintln!("skipped: no systemd-analyze"),
    }
}
