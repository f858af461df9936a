//! `bulk`: whole trees.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use crate::common::{Folder, make_fifo, pattern};

/// A tree `src` with files of all kinds, a link, a pipe, an empty folder and a name that is not
/// UTF-8.
fn tree() -> Folder {
    let folder = Folder::new();
    for name in ["src/a/b", "src/empty"] {
        fs::create_dir_all(folder.path(name)).unwrap();
    }
    for (index, len) in [0, 1, 16_384, 70_000, 1 << 20, (1 << 20) + 1, 3_000_000]
        .into_iter()
        .enumerate()
    {
        folder.write(&format!("src/a/b/{index}.dat"), pattern(len));
    }
    for index in 0..50 {
        folder.write(&format!("src/a/{index}"), pattern(index));
    }
    let odd = folder.path("src").join(OsStr::from_bytes(b"odd\xff\n"));
    fs::write(odd, "odd").unwrap();
    symlink("a/1", folder.path("src/link")).unwrap();
    make_fifo(&folder.path("src/pipe"));
    let file = File::open(folder.path("src/a/7")).unwrap();
    file.set_permissions(Permissions::from_mode(0o640)).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789);
    file.set_modified(then).unwrap();
    folder
}

/// What a tree holds: content, mode and time of files, the text of links.
fn content(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, i128)> {
    fn add(root: &Path, path: &Path, found: &mut BTreeMap<PathBuf, (Vec<u8>, u32, i128)>) {
        for entry in fs::read_dir(root.join(path)).unwrap() {
            let path = path.join(entry.unwrap().file_name());
            let full = root.join(&path);
            let metadata = fs::symlink_metadata(&full).unwrap();
            let time =
                i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
            let mode = metadata.mode() & 0o7777;
            if metadata.is_dir() {
                found.insert(path.clone(), (vec![], mode, 0));
                add(root, &path, found);
            } else if metadata.is_symlink() {
                let text = fs::read_link(&full).unwrap();
                found.insert(path, (text.as_os_str().as_bytes().to_vec(), 0, 0));
            } else if metadata.is_file() {
                found.insert(path, (fs::read(&full).unwrap(), mode, time));
            }
        }
    }
    let mut found = BTreeMap::new();
    add(root, Path::new(""), &mut found);
    found
}

const ENCRYPT: [&str; 6] = ["bulk", "encrypt", "-R", "recipient.txt", "src", "out"];
const DECRYPT: [&str; 6] = ["bulk", "decrypt", "-i", "key.txt", "out", "back"];

#[test]
fn a_tree_comes_back_as_it_was() {
    let folder = tree();
    let done = folder.run(ENCRYPT.iter().chain(&["--json"])).code(0);
    let report = &done.json()[0];
    // 58 files, 3 folders and a link; the pipe is skipped.
    assert_eq!(report["done"], 62);
    assert_eq!(report["skipped"], 1);
    folder
        .run(["bulk", "verify", "-i", "key.txt", "out"])
        .code(0);
    folder.run(DECRYPT).code(0);
    assert_eq!(content(&folder.path("src")), content(&folder.path("back")));

    // Again: nothing is done twice, and what changed is done with --force only.
    let sealed = folder.read("out/a/7.wl");
    let again = folder.run(ENCRYPT.iter().chain(&["--json"])).code(0);
    assert_eq!(again.json()[0]["done"], 0);
    assert_eq!(again.json()[0]["unchanged"], 62);
    folder.write("src/a/7", "another text");
    folder.run(ENCRYPT).code(1).says("a/7: ");
    assert_eq!(folder.read("out/a/7.wl"), sealed);
    let forced = folder
        .run(ENCRYPT.iter().chain(&["--json", "--force"]))
        .code(0);
    assert_eq!(forced.json()[0]["done"], 1);
    folder.run(DECRYPT.iter().chain(&["--force"])).code(0);
    assert_eq!(folder.read("back/a/7"), b"another text");
}

#[test]
fn a_destination_in_the_tree_is_left_out_and_told() {
    let folder = tree();
    let into = ["bulk", "encrypt", "-R", "recipient.txt", "src", "src/a/b"];
    folder
        .run(into)
        .code(0)
        .says("a/b: skipped: it is the destination");
    // Found there before, and not taken for results.
    assert!(!folder.path("src/a/b/a/b/0.dat.wl").exists());
    assert!(folder.path("src/a/b/a/7.wl").exists());
}

#[test]
fn what_has_no_encrypted_copy_is_told() {
    let folder = tree();
    fs::create_dir(folder.path("src/closed")).unwrap();
    let closed = |mode| {
        fs::set_permissions(folder.path("src/closed"), Permissions::from_mode(mode)).unwrap();
    };
    closed(0);
    // Nothing is closed to root.
    let is_root = fs::read_dir(folder.path("src/closed")).is_ok();
    let run = folder.run(ENCRYPT);
    closed(0o755);
    let run = run.says("pipe: skipped: it is a pipe");
    match is_root {
        true => run.code(0),
        false => run.code(1).says("closed: its content cannot be listed"),
    };
}

#[test]
fn what_fails_is_a_row_and_not_the_end() {
    let folder = tree();
    folder.run(ENCRYPT).code(0);
    let mut altered = folder.read("out/a/b/6.dat.wl");
    *altered.last_mut().unwrap() ^= 1;
    folder.write("out/a/b/6.dat.wl", &altered);
    folder.write("out/a/9.wl", "no such file");
    folder.write("out/plain", "text");
    let failed = folder.run(DECRYPT.iter().chain(&["--json"])).code(3);
    let objects = failed.json();
    let report = objects.last().unwrap();
    assert_eq!([&report["authentication"], &report["failed"]], [1, 1]);
    assert_eq!(report["skipped"], 1);
    assert!(!folder.path("back/a/b/6.dat").exists());
    assert!(!folder.path("back/a/9").exists());
    assert_eq!(folder.read("back/a/b/5.dat"), folder.read("src/a/b/5.dat"));
    folder
        .run(["bulk", "verify", "-i", "key.txt", "out"])
        .code(3)
        .says("6.dat.wl: ");
}

#[test]
fn a_tree_gets_other_recipients() {
    let folder = tree();
    folder.run(ENCRYPT).code(0);
    folder.run(["keygen", "-o", "new.txt"]).code(0);
    let rewrap = |more: &[&str]| {
        let call = ["bulk", "rewrap", "-i", "key.txt", "--json", "-r"];
        let new = folder
            .run(["keygen", "--recipients-of", "new.txt"])
            .code(0)
            .stdout()
            .to_vec();
        let new = String::from_utf8(new).unwrap();
        folder.run(
            call.iter()
                .copied()
                .chain([new.trim(), "out"])
                .chain(more.iter().copied()),
        )
    };
    let report = rewrap(&[]).code(0).json();
    assert_eq!(report[0]["done"], 58);
    folder
        .run(["bulk", "verify", "-i", "key.txt", "out"])
        .code(3);
    folder
        .run(["bulk", "decrypt", "-i", "new.txt", "out", "back"])
        .code(0);
    let (src, back) = (content(&folder.path("src")), content(&folder.path("back")));
    assert!(src.keys().eq(back.keys()));
    assert!(src.iter().all(|(path, found)| back[path].0 == found.0));

    // They are still the results of their sources, until something else changes them.
    let again = folder.run(ENCRYPT.iter().chain(&["--json"])).code(0);
    assert_eq!(again.json()[0]["unchanged"], 62);
    let file = File::options().write(true).open(folder.path("out/a/7.wl"));
    file.unwrap().set_modified(SystemTime::now()).unwrap();
    folder.run(ENCRYPT).code(1).says("a/7: ");

    // The old key opens none now; the files were changed before this plan.
    let refused = rewrap(&[]).code(3).json();
    assert_eq!(refused.last().unwrap()["authentication"], 58);
}

#[test]
fn a_rewrap_goes_on() {
    let folder = tree();
    folder.run(ENCRYPT).code(0);
    let plan = [
        "bulk",
        "plan",
        "--op",
        "rewrap",
        "-R",
        "recipient.txt",
        "--job",
        "job",
        "out",
    ];
    folder.run(plan).code(0);
    let run = ["bulk", "run", "--json", "-i", "key.txt", "job"];
    assert_eq!(folder.run(run).code(0).json()[0]["done"], 58);
    assert_eq!(folder.run(run).code(0).json()[0]["unchanged"], 58);
    folder.run(["bulk", "run", "job"]).code(2).says("-i FILE");
}

#[test]
fn buckets_are_named_where_they_are_served() {
    let folder = tree();
    let call = [
        "bulk",
        "encrypt",
        "-R",
        "recipient.txt",
        "s3://bucket/data",
        "out",
    ];
    folder.run(call).code(2).says("python -m warplock.bulk");
    fs::create_dir(folder.path("job")).unwrap();
    folder.write("job/job.json", r#"{"version": 2, "source": "s3://bucket"}"#);
    let run = ["bulk", "run", "job"];
    folder.run(run).code(2).says("python -m warplock.bulk");
}

#[test]
fn shards_do_each_unit_once() {
    let folder = tree();
    folder
        .run([
            "bulk",
            "plan",
            "--op",
            "encrypt",
            "-R",
            "recipient.txt",
            "--job",
            "job",
            "src",
            "out",
        ])
        .code(0);
    folder.run(["bulk", "report", "job"]).status();
    let mut done = 0;
    for index in ["0/3", "1/3", "2/3"] {
        let run = folder.run(["bulk", "run", "--json", "--shard", index, "job"]);
        done += run.code(0).json()[0]["done"].as_u64().unwrap();
    }
    assert_eq!(done, 62);
    let report = folder.run(["bulk", "report", "--json", "job"]).code(0);
    let report = &report.json()[0];
    assert_eq!([&report["done"], &report["pending"]], [62, 0]);
    folder.run(DECRYPT).code(0);
    assert_eq!(content(&folder.path("src")), content(&folder.path("back")));
    folder.run(["bulk", "run", "--shard", "3/3", "job"]).code(2);

    // A source that changed since it was planned is not taken, unless the log lists it as done.
    let plan = ["bulk", "plan", "--op", "encrypt", "-R", "recipient.txt"];
    let plan = [&plan[..], &["--job", "later", "src", "elsewhere"]].concat();
    folder.run(plan).code(0);
    folder.write("src/a/8", "changed");
    folder.run(["bulk", "run", "job"]).code(0);
    folder
        .run(["bulk", "run", "later"])
        .code(1)
        .says("a/8: it was changed since");
}

#[test]
fn only_what_is_asked_for_is_taken() {
    let folder = tree();
    let some = ["--include", "*.dat", "--exclude", "a/b/6*"];
    folder.run(ENCRYPT.iter().chain(&some)).code(0);
    let names: Vec<_> = content(&folder.path("out")).into_keys().collect();
    assert_eq!(names.len(), 3 + 6, "{names:?}");
    for wrong in [
        &["bulk", "encrypt", "src", "out"][..],
        &["bulk", "encrypt", "-R", "recipient.txt", "src", "src"],
        &["bulk", "decrypt", "out", "back"],
        &[
            "bulk",
            "encrypt",
            "-R",
            "recipient.txt",
            "--include",
            "[",
            "src",
            "out",
        ],
        &["bulk", "encrypt", "-R", "recipient.txt", "src/a/1", "out"],
    ] {
        folder.run(wrong).code(2);
    }
}

/// A tree that is not trusted cannot lead a later one out of the destination.
#[test]
fn links_in_the_destination_are_not_followed() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("src/d")).unwrap();
    fs::create_dir(folder.path("elsewhere")).unwrap();
    fs::create_dir(folder.path("out")).unwrap();
    folder.write("src/d/a", "text");
    folder.write("src/b", "text");
    symlink("../elsewhere", folder.path("out/d")).unwrap();
    symlink("../elsewhere/b", folder.path("out/b.wl")).unwrap();
    folder
        .run(ENCRYPT.iter().chain(&["--force"]))
        .code(1)
        .says("symbolic link");
    assert_eq!(fs::read_dir(folder.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn killed_at_any_time_and_resumed() {
    let folder = tree();
    folder
        .run([
            "bulk",
            "plan",
            "--op",
            "encrypt",
            "-R",
            "recipient.txt",
            "--job",
            "job",
            "src",
            "out",
        ])
        .code(0);
    for round in 0..50 {
        let mut child = folder
            .command(["bulk", "run", "-q", "job"])
            .spawn()
            .unwrap();
        sleep(Duration::from_millis(3 + round % 17));
        child.kill().unwrap();
        child.wait().unwrap();
        // Nothing incomplete has a name.
        for path in content(&folder.path("out")).into_keys() {
            let hidden = path.file_name().unwrap().as_bytes().starts_with(b".");
            assert!(!hidden, "{}", path.display());
        }
        if round % 10 == 9 {
            fs::remove_dir_all(folder.path("out")).unwrap();
            fs::create_dir(folder.path("out")).unwrap();
        }
    }
    folder.run(["bulk", "run", "job"]).code(0);
    folder.run(["bulk", "report", "job"]).code(0);
    folder.run(DECRYPT).code(0);
    assert_eq!(content(&folder.path("src")), content(&folder.path("back")));
}

#[test]
fn nothing_verified_is_no_success() {
    let folder = tree();
    fs::create_dir(folder.path("empty")).unwrap();
    let identity = ["-i", "key.txt"];
    for dir in ["empty", "src"] {
        let verify = [&["bulk", "verify"], &identity[..], &[dir]].concat();
        let says = format!("{dir}: no file there was chosen whose name ends in .wl");
        folder.run(verify).code(1).says(&says);
        let to = ["-R", "recipient.txt", dir];
        let rewrap = [&["bulk", "rewrap"], &identity[..], &to].concat();
        folder.run(rewrap).code(1).says("nothing was rewrapped");
    }
    // A tree without files has a result: its folders.
    let encrypt = ["bulk", "encrypt", "-R", "recipient.txt", "empty", "out"];
    folder.run(encrypt).code(0);
}
