//! `gen` and `bench`: options, outputs and exit codes; what is measured has its own tests.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Folder, receive_signals, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn generate(folder: &Folder) {
    let made = folder
        .run(["gen", "-n", "3k", "--seed", "5", "data"])
        .code(0);
    let line = String::from_utf8_lossy(made.stdout()).into_owned();
    assert_eq!(
        line,
        "3000 entries in data, 144000 bytes; --seed 5 makes the same again\n"
    );
}

#[test]
fn every_reader_of_json_keeps_a_drawn_seed() {
    let folder = Folder::new();
    for _ in 0..8 {
        let made = folder.run(["gen", "-n", "1", "--force", "--json", "data"]);
        let made: Value = serde_json::from_slice(made.code(0).stdout()).unwrap();
        assert!(made["seed"].as_u64().unwrap() < 1 << 53, "{made}");
    }
}

#[test]
fn entries_are_measured_and_reported_in_every_form() {
    let folder = Folder::new();
    generate(&folder);
    let entries = ["bench", "entries", "data", "--chunk", "1kB,10kB"];
    let outputs = ["-o", "report.json", "--plot", "plot.svg"];
    let table = folder
        .run([&entries[..], &outputs, &["--threads", "1"]].concat())
        .code(0);
    assert!(String::from_utf8_lossy(table.stdout()).contains("3,000 entries"));
    assert_eq!(
        folder.names(),
        ["data", "plot.svg", "report.json"],
        "nothing else is left"
    );
    assert_eq!(
        folder.read("data/ciphers.out.bin"),
        folder.read("data/ciphers.bin")
    );
    assert!(folder.read("plot.svg").starts_with(b"<svg"));
    let report: Value = serde_json::from_slice(&folder.read("report.json")).unwrap();
    assert_eq!(report["suite"], "entries");
    assert_eq!(report["machine"]["threads"], 1);
    let printed = folder.run([&entries[..], &["--json"]].concat()).code(0);
    let printed: Value = serde_json::from_slice(printed.stdout()).unwrap();
    assert_eq!(printed["rows"][1]["chunk"], 1000.0);
    assert_eq!(printed["stopped"], false);

    // An existing output is refused before anything is measured.
    folder
        .run([&entries[..], &outputs].concat())
        .code(1)
        .says("report.json: exists already");
}

#[test]
fn files_are_written_even_if_the_table_is_not_read() {
    let folder = Folder::new();
    let args = ["bench", "file-sizes", "--size", "1028"];
    let outputs = ["-o", "report.json", "--plot", "plot.svg"];
    let mut child = folder
        .command([&args[..], &outputs].concat())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(wait(&mut child).signal(), Some(libc::SIGPIPE));
    assert_eq!(folder.names(), ["plot.svg", "report.json"]);
}

#[test]
fn a_wrong_result_is_an_error_and_leaves_no_report() {
    let folder = Folder::new();
    generate(&folder);
    let mut ciphers = folder.read("data/ciphers.bin");
    ciphers[16 * 2_999] ^= 1;
    folder.write("data/ciphers.bin", &ciphers);
    folder
        .run(["bench", "entries", "data", "-o", "report.json"])
        .code(1)
        .says("entry 2,999 differs");
    assert_eq!(folder.names(), ["data"]);
    folder
        .run(["bench", "entries", "nowhere"])
        .code(1)
        .says("warplock gen");
}

#[test]
fn wrong_usage() {
    let folder = Folder::new();
    folder.run(["gen", "data"]).code(2).says("--entries");
    folder
        .run(["gen", "-n", "ten", "data"])
        .code(2)
        .says("'ten' is no size");
    folder
        .run(["gen", "-n", "0", "data"])
        .code(1)
        .says("at least 1");
    folder
        .run(["gen", "-n", "300000000000000000", "data"])
        .code(1)
        .says("bytes, but only");
    assert!(!folder.path("data").exists());
    folder
        .run(["bench", "entries", "data", "--chunk", "5 miles"])
        .code(2);
    generate(&folder);
    folder
        .run(["gen", "-n", "1", "data"])
        .code(1)
        .says("keys.bin exists already");
    // What no memory and no disk holds.
    for size in ["100TB", "18446744073709551615"] {
        for suite in [
            &["file-sizes"][..],
            &["file-sizes", "--algorithm", "aes-128-cbc"],
            &["files", "--dir", "."],
            &["host"],
        ] {
            let said = folder.run([&["bench"], suite, &["--size", size]].concat());
            let said = said.code(1).stderr();
            assert!(
                said.contains("bytes") && said.contains("but only"),
                "{said}"
            );
        }
    }
    folder
        .run([
            "bench",
            "aead-batch",
            "--messages",
            "1048576",
            "--text",
            "1048576",
        ])
        .code(1)
        .says("bytes of memory, but only");
    if !cfg!(feature = "peers") {
        folder
            .run(["bench", "peers"])
            .code(2)
            .says("--features peers");
    }
}

#[test]
fn the_variable_names_a_backend_as_the_option_does() {
    let folder = Folder::new();
    let run = |backend: &str| {
        let sizes = ["bench", "file-sizes", "--size", "1028", "--json"];
        let output = folder
            .command(sizes)
            .env("WARPLOCK_BACKEND", backend)
            .output();
        output.unwrap()
    };
    for (variable, backend) in [("cpu:portable", "cpu:portable"), ("auto", "cpu:")] {
        let report: Value = serde_json::from_slice(&run(variable).stdout).unwrap();
        let of = report["machine"]["backend"].as_str().unwrap();
        assert!(of.starts_with(backend) && !of.contains('+'), "{of}");
        let column = report["columns"].as_array().unwrap().iter();
        let best = column
            .clone()
            .find(|column| column["key"] == "best_1_total");
        let title = best.unwrap()["title"].as_str().unwrap();
        assert!(title.starts_with(of), "{title}");
    }
    let refused = run("abacus");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("abacus"));
}

#[test]
fn suites_about_gpus_say_where_there_is_none_and_leave_no_file() {
    let folder = Folder::new();
    let suites = [
        &["bench", "kernels", "--size", "4MiB"][..],
        &["bench", "cbc-batch", "--messages", "1,4"],
    ];
    for suite in suites {
        let run = folder
            .run([suite, &["-o", "report.json", "--force"]].concat())
            .code(0);
        let text = String::from_utf8_lossy(run.stdout()).into_owned();
        if text.starts_with("skipped: no GPU") {
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(folder.names().is_empty());
        } else {
            let report: Value = serde_json::from_slice(&folder.read("report.json")).unwrap();
            assert_eq!(report["suite"], suite[1]);
        }
    }
    folder
        .run(["bench", "kernels", "--backend", "cuda:77"])
        .code(1)
        .says("cuda:77");
}

/// Starts a suite in the folder `d`, ends it by `signal` once `begun` says so of its work folder,
/// and sees that nothing is left.
fn a_signal_leaves_nothing(suite: &[&str], signal: Signal, begun: fn(&Path) -> bool) {
    receive_signals();
    let folder = Folder::new();
    let dir = folder.path("d");
    fs::create_dir(&dir).unwrap();
    let args = [&["bench"][..], suite, &["--dir", "d"]].concat();
    let mut command = folder.command(args);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    loop {
        let mut work = fs::read_dir(&dir).unwrap();
        if work.next().is_some_and(|work| begun(&work.unwrap().path())) {
            break;
        }
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    assert_eq!(wait(&mut child).signal(), Some(signal.as_raw()));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(dir.to_str().unwrap()), "{mounts}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

/// The first row is there soon, and a signal leaves table, JSON and plot of the rows so far.
#[test]
fn a_stopped_run_leaves_what_it_has() {
    receive_signals();
    let suites = [
        (Signal::INT, &["sizes", "--quick"][..]),
        (Signal::TERM, &["file-sizes"]),
        (Signal::TERM, &["aead-batch", "--messages", "8192"]),
        (Signal::HUP, &["cbc-batch"]),
    ];
    for (signal, suite) in suites {
        let folder = Folder::new();
        let options = ["-v", "--backend", "cpu", "-o", "r.json", "--plot", "r.svg"];
        let args = [&["bench"][..], suite, &options].concat();
        let mut command = folder.command(args);
        let started = Instant::now();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // With -v, steps are told as well, by the program's name; two rows have passed.
        let mut row = || lines.find(|line| !line.as_ref().unwrap().starts_with("warplock:"));
        let (first, second) = (row().unwrap().unwrap(), row());
        assert!(started.elapsed() < Duration::from_secs(30), "{first}");
        assert!(first.contains("; ") && second.is_some(), "{first}");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut table = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut table).unwrap();
        assert_eq!(wait(&mut child).signal(), Some(signal.as_raw()));
        assert!(table.contains("\nStopped before its end"), "{table}");
        assert!(
            table.lines().all(|line| line.chars().count() <= 100),
            "{table}"
        );
        assert_eq!(folder.names(), ["r.json", "r.svg"]);
        let json: Value = serde_json::from_slice(&folder.read("r.json")).unwrap();
        assert_eq!(json["stopped"], true);
        assert!(json["rows"].as_array().unwrap().len() >= 2);
        let svg = String::from_utf8(folder.read("r.svg")).unwrap();
        assert!(svg.contains("stopped before its end"), "{svg}");
    }
}

#[test]
fn a_run_that_is_stopped_before_its_first_row_leaves_nothing() {
    receive_signals();
    let folder = Folder::new();
    let args = [
        "bench", "files", "--dir", ".", "-o", "r.json", "--plot", "r.svg",
    ];
    let mut command = folder.command(args);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(50));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(wait(&mut child).signal(), Some(Signal::TERM.as_raw()));
    assert!(folder.names().is_empty());
}

/// Recorded results become a page, and a page that is stopped has what was measured.
#[test]
fn a_report_is_one_page() {
    receive_signals();
    let folder = Folder::new();
    let suite = [
        "bench",
        "file-sizes",
        "--size",
        "1028,10280",
        "--backend",
        "cpu",
        "-o",
        "one.json",
    ];
    folder.run(suite).code(0);
    folder.write("bad.json", "{}");
    let page = |results: &[&str]| {
        folder.run([&["bench", "report"], results, &["-o", "page.html"]].concat())
    };
    page(&["one.json", "one.json"]).code(0);
    let html = String::from_utf8(folder.read("page.html")).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    assert_eq!(html.matches("<svg").count(), 2);
    page(&["one.json"])
        .code(1)
        .says("page.html: exists already");
    folder
        .run(["bench", "report"])
        .code(2)
        .says("-o report.html");
    let bad = folder.run(["bench", "report", "bad.json", "-o", "other.html"]);
    bad.code(1).says("bad.json").says("no report");

    let args = [
        "bench",
        "report",
        "-v",
        "--backend",
        "cpu",
        "--force",
        "-o",
        "page.html",
    ];
    let mut command = folder.command(args);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("; ")), "a row");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(wait(&mut child).signal(), Some(Signal::INT.as_raw()));
    let html = String::from_utf8(folder.read("page.html")).unwrap();
    assert!(html.contains("Stopped before its end") && html.ends_with("</html>\n"));
}

#[test]
fn signals_leave_no_files_in_work() {
    let suite = ["files", "--size", "64MiB"];
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        a_signal_leaves_nothing(&suite, signal, |work| work.join("plain").exists());
    }
}

#[test]
fn signals_leave_no_mounts() {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        println!("skipped: no /dev/fuse, or not root");
        return;
    }
    let suite = ["fs", "--size", "64MiB", "--files", "100"];
    a_signal_leaves_nothing(&suite, Signal::TERM, |work| {
        let point = work.join("place/mount");
        warplock_vault::fuse::mounted_at(&point).unwrap().is_some()
    });
}

#[test]
fn a_signal_leaves_no_empty_folder_of_generated_files() {
    receive_signals();
    let folder = Folder::new();
    fs::create_dir(folder.path("old")).unwrap();
    // The new folder, and what is left after the signal.
    for (dir, left) in [("new/er", &["old"][..]), ("old", &["old"])] {
        let mut command = folder.command(["gen", "-n", "10M", "-q", dir]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        while !folder.path(dir).exists() {
            assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
            thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(wait(&mut child).signal(), Some(Signal::INT.as_raw()));
        assert_eq!(folder.names(), left, "{dir}");
        assert_eq!(fs::read_dir(folder.path("old")).unwrap().count(), 0);
    }
}
