//! `bulk`: odd trees, jobs that are not whole, and other runs at the same time.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::common::{Folder, receive_signals, wait};

fn encrypt<'a>(from: &'a str, to: &'a str) -> [&'a str; 6] {
    ["bulk", "encrypt", "-R", "recipient.txt", from, to]
}

fn plan<'a>(operation: &'a str, job: &'a str, from: &'a str, to: &'a str) -> [&'a str; 10] {
    [
        "bulk",
        "plan",
        "--op",
        operation,
        "-R",
        "recipient.txt",
        "--job",
        job,
        from,
        to,
    ]
}

/// A list of recipients was read twice, so that one from a pipe was empty.
#[test]
fn recipients_from_a_pipe_can_open_the_files() {
    let folder = Folder::new();
    folder.write("src", "");
    fs::remove_file(folder.path("src")).unwrap();
    fs::create_dir(folder.path("src")).unwrap();
    folder.write("src/a", "text");
    folder.run(["keygen", "-o", "other.txt"]).code(0);
    folder.shell("$W keygen -y other.txt -o other.pub");
    for (to, list) in [("dash", "-"), ("device", "/dev/stdin")] {
        let call = ["bulk", "encrypt", "-R", "recipient.txt", "-R", list];
        let call = call.into_iter().chain(["src", to]);
        folder.pipe(call, folder.read("other.pub")).code(0);
        for key in ["key.txt", "other.txt"] {
            folder.run(["bulk", "verify", "-i", key, to]).code(0);
        }
    }
}

#[test]
fn a_file_and_its_result_may_lie_in_one_folder() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("src/b")).unwrap();
    folder.write("src/a", "text");
    folder.write("src/b/c", "text");
    folder.shell("$W encrypt -q -R recipient.txt src/a && cp src/a.wl src/b.wl");
    for call in [
        &["bulk", "verify", "-i", "key.txt", "src"][..],
        &[
            "bulk",
            "rewrap",
            "-i",
            "key.txt",
            "-R",
            "recipient.txt",
            "src",
        ],
    ] {
        let sum = folder.run(call.iter().chain(&["--json"])).code(0).json();
        assert_eq!([&sum[0]["done"], &sum[0]["skipped"]], [2, 2]);
    }
    // Here the folder b has the name of a result.
    let call = ["bulk", "decrypt", "--json", "-i", "key.txt", "src", "out"];
    let sum = folder.run(call).code(1).json();
    assert_eq!(sum[0]["file"], "b.wl");
    assert_eq!(folder.read("out/a"), b"text");
}

#[test]
fn a_job_without_all_units_is_refused() {
    let folder = Folder::new();
    fs::create_dir(folder.path("src")).unwrap();
    for name in ["a", "b", "c"] {
        folder.write(&format!("src/{name}"), name);
    }
    folder.run(plan("encrypt", "job", "src", "out")).code(0);
    let units = String::from_utf8(folder.read("job/units-00000.jsonl")).unwrap();
    let two: Vec<_> = units.split_inclusive('\n').take(2).collect();
    for (left, told) in [(two.concat(), "2 of 3"), (String::new(), "0 of 3")] {
        folder.write("job/units-00000.jsonl", left);
        folder.run(["bulk", "run", "job"]).code(1).says(told);
    }
    folder.write("job/units-00000.jsonl", units);
    folder.run(["bulk", "run", "job"]).code(0);
}

/// A plan that failed, of a full disk for example, is made again under the same name.
#[test]
fn a_stopped_plan_is_made_again() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("src/job")).unwrap();
    folder.write("src/a", "text");
    folder.write("src/job/units-00000.jsonl", "half a li");
    let planned = plan("encrypt", "src/job", "src", "out");
    folder.run(planned).code(0);
    folder.run(["bulk", "run", "src/job"]).code(0);
    // Neither a whole job nor a folder with other files, which would be left out of the run.
    folder.run(planned).code(2).says("name a new folder");
    for name in ["notes", "units-of-measure.jsonl"] {
        fs::remove_dir_all(folder.path("src/job")).unwrap();
        fs::create_dir(folder.path("src/job")).unwrap();
        folder.write(&format!("src/job/{name}"), "precious");
        folder.run(planned).code(2).says(name);
        assert_eq!(folder.read(&format!("src/job/{name}")), b"precious");
    }
}

#[test]
fn patterns_choose_folders_and_files() {
    let folder = Folder::new();
    for name in ["d", "x/d"] {
        fs::create_dir_all(folder.path("src").join(name)).unwrap();
    }
    for name in ["a", "d/b", "x/d/c"] {
        folder.write(&format!("src/{name}"), "text");
    }
    for (exclude, left) in [
        ("d", [true, false, false]),
        ("d/", [true, false, false]),
        ("/d", [true, false, true]),
        ("x/d", [true, true, false]),
        ("*/d/", [true, true, false]),
        ("**/d", [true, false, false]),
    ] {
        let to = format!("out{}", exclude.replace(['/', '*'], "_"));
        let call = encrypt("src", &to)
            .into_iter()
            .chain(["--exclude", exclude]);
        folder.run(call).code(0);
        let there = ["a.wl", "d/b.wl", "x/d/c.wl"].map(|name| folder.path(&to).join(name).exists());
        assert_eq!(there, left, "{exclude}");
    }
    let include = |pattern| {
        encrypt("src", "out")
            .into_iter()
            .chain(["--include", pattern])
    };
    folder.run(include("/a")).code(0);
    assert!(folder.path("out/a.wl").exists());
    folder
        .run(include("*.jpg"))
        .code(2)
        .says("matches --include");
    for pattern in ["", "/", "./a", "d//b", "../src"] {
        folder.run(include(pattern)).code(2).says("matches nothing");
    }
    let call = plan("verify", "job", "src", "out");
    folder.run(&call[..9]).code(2).says("leave out -r and -R");
}

/// As in `/proc`, where all files claim to be empty.
#[test]
#[cfg(target_os = "linux")]
fn files_that_hide_their_length_are_not_taken_for_empty_ones() {
    let folder = Folder::new();
    let call = ["--include", "status", "/proc/self/task", "out"];
    let call = ["bulk", "encrypt", "-R", "recipient.txt"]
        .into_iter()
        .chain(call);
    folder.run(call).code(1).says("/status: it has more bytes");
    assert!(!holds_a_file(&folder.path("out")));
}

fn holds_a_file(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        path.is_file() || holds_a_file(&path)
    })
}

/// Names from a listing are told as they are, even if a key could look like that.
#[test]
fn failures_name_their_files() {
    let folder = Folder::new();
    fs::create_dir(folder.path("src")).unwrap();
    let name = "a".repeat(255);
    folder.write(&format!("src/{name}"), "text");
    folder
        .run(encrypt("src", "out"))
        .code(1)
        .says(&format!("{name}: creating the output failed"));
}

#[test]
fn runs_at_the_same_time_share_the_work() {
    let folder = Folder::new();
    fs::create_dir(folder.path("src")).unwrap();
    for index in 0..300 {
        folder.write(&format!("src/{index}"), vec![7; index * 100]);
    }
    let start = || {
        let mut run = folder.command(encrypt("src", "out"));
        run.stdout(Stdio::null()).stderr(Stdio::piped());
        run.spawn().unwrap()
    };
    for run in [start(), start(), start()] {
        let done = run.wait_with_output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
    }
    folder
        .run(["bulk", "verify", "-i", "key.txt", "out"])
        .code(0);
}

#[test]
fn a_stopped_run_leaves_no_list_of_names() {
    receive_signals();
    let folder = Folder::new();
    for name in ["src", "temporary"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    for index in 0..2000 {
        folder.write(&format!("src/{index}"), vec![7; 1000]);
    }
    let mut run = folder.command(encrypt("src", "out"));
    run.env("TMPDIR", folder.path("temporary"))
        .stdout(Stdio::null());
    let mut run = run.spawn().unwrap();
    while !folder.path("out/1.wl").exists() {
        assert!(run.try_wait().unwrap().is_none(), "it ended too early");
        sleep(Duration::from_millis(1));
    }
    let id = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(wait(&mut run).signal(), Some(libc::SIGTERM));
    assert_eq!(fs::read_dir(folder.path("temporary")).unwrap().count(), 0);
}

/// Both names need an envelope of the old one's length, which is found within the time for it nearly
/// always.
#[test]
fn all_names_of_a_file_get_other_recipients_together() {
    let folder = Folder::new();
    fs::create_dir(folder.path("out")).unwrap();
    folder.write("a", vec![7; 100_000]);
    folder.shell("$W keygen -o new.txt && $W keygen -y new.txt -o new.pub");
    let call = [
        "bulk", "rewrap", "--json", "-i", "key.txt", "-R", "new.pub", "out",
    ];
    let rewrapped = (0..20).find_map(|_| {
        folder.shell(
            "rm -f out/*; $W encrypt -q -R recipient.txt -o out/a.wl a; ln out/a.wl out/b.wl",
        );
        let done = folder.run(call);
        done.status().success().then(|| done.json())
    });
    let sum = rewrapped.unwrap();
    assert_eq!([&sum[0]["done"], &sum[0]["unchanged"]], [1, 1]);
    folder
        .run(["bulk", "verify", "-i", "new.txt", "out"])
        .code(0);
    folder
        .run(["bulk", "verify", "-i", "key.txt", "out"])
        .code(3);
}

/// Another shard may have to set a folder's mode, and may run much later.
#[test]
fn a_folder_is_closed_until_its_mode_is_known() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("src/secret")).unwrap();
    for index in 0..20 {
        folder.write(&format!("src/secret/{index}"), "text");
    }
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().mode() & 0o777;
    let set = |mode| fs::set_permissions(folder.path("src/secret"), Permissions::from_mode(mode));
    set(0o750).unwrap();
    folder.run(plan("encrypt", "job", "src", "out")).code(0);
    folder.run(["bulk", "run", "--shard", "1/2", "job"]).code(0);
    assert_eq!(mode("out/secret"), 0o700);
    folder.run(["bulk", "run", "--shard", "0/2", "job"]).code(0);
    assert_eq!(mode("out/secret"), 0o750);
}
