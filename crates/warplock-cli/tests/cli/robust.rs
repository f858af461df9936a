//! Signals, full disks, unreadable inputs, bounded memory: nothing is left half-done.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{Folder, Outcome, make_fifo, pattern, receive_signals, wait};
use rustix::process::{Pid, Signal, kill_process};

/// Peak memory that no run may exceed, in KiB.
const MOST_MEMORY: i64 = 200 << 10;

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn signals_leave_nothing_and_are_seen_by_the_shell() {
    receive_signals();
    let folder = Folder::new();
    make_fifo(&folder.path("fifo"));
    folder.write("key", pattern(32));
    let raw = [
        "raw",
        "encrypt",
        "--algorithm",
        "aes-256-gcm",
        "--key",
        "@key",
        "--iv",
        "00",
    ];
    let raw = [&raw[..], &["-i", "fifo", "-o", "out"]].concat();
    let encrypt = vec!["encrypt", "-R", "recipient.txt", "-o", "out", "fifo"];
    for args in [raw, encrypt] {
        for (number, kind) in [
            (2, Signal::INT),
            (15, Signal::TERM),
            (1, Signal::HUP),
            (3, Signal::QUIT),
        ] {
            let mut child = folder.command(&args).spawn().unwrap();
            // Opens when the program has; by then it waits for signals.
            let mut fifo = OpenOptions::new()
                .write(true)
                .open(folder.path("fifo"))
                .unwrap();
            fifo.write_all(&pattern(10 << 20)).unwrap();
            signal(&child, kind);
            assert_eq!(wait(&mut child).signal(), Some(number), "{args:?}");
            assert_eq!(folder.names(), ["fifo", "key"]);
        }
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let folder = Folder::new();
    make_fifo(&folder.path("fifo"));
    let mut shell = Command::new("sh");
    let script = format!(
        "trap '' HUP; exec {} encrypt -R recipient.txt -o out fifo",
        env!("CARGO_BIN_EXE_warplock")
    );
    let mut child = shell
        .args(["-c", &script])
        .current_dir(folder.root())
        .spawn()
        .unwrap();
    let mut fifo = OpenOptions::new()
        .write(true)
        .open(folder.path("fifo"))
        .unwrap();
    fifo.write_all(b"te").unwrap();
    signal(&child, Signal::HUP);
    fifo.write_all(b"xt").unwrap();
    drop(fifo);
    assert_eq!(wait(&mut child).code(), Some(0));
    let opened = folder
        .run(["decrypt", "-i", "key.txt", "-o", "-", "out"])
        .code(0);
    assert_eq!(opened.stdout(), b"text");
}

/// A small RAM disk, while it lives.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path, size: &str) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at)
            .stderr(Stdio::null());
        let mounted = mount.status().is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("skipped: only root may mount a small file system");
        }
        mounted.then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_full_disk_leaves_nothing() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    let Some(_disk) = SmallDisk::mount(&disk, "1m") else {
        return;
    };
    folder.write("a", pattern(3 << 20));
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    folder.write("key", pattern(16));
    folder.write("disk/old", "precious");
    let ctr = [
        "--algorithm",
        "aes-128-ctr",
        "--key",
        "@key",
        "--iv",
        "@key",
        "-i",
        "a",
    ];
    for args in [
        vec!["encrypt", "-R", "recipient.txt", "a"],
        vec!["decrypt", "-i", "key.txt", "a.wl"],
        [&["raw", "encrypt"], &ctr[..]].concat(),
    ] {
        for output in ["disk/new", "disk/old"] {
            let full = folder
                .run([&args[..], &["--force", "-o", output]].concat())
                .code(1);
            full.says("no space left")
                .says(&format!("warplock: {output}: "));
        }
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 1, "{args:?}");
        assert_eq!(folder.read("disk/old"), b"precious");
    }
    let full = folder
        .command(["encrypt", "-R", "recipient.txt", "-o", "/dev/full", "a"])
        .output();
    assert_eq!(full.unwrap().status.code(), Some(1));
}

#[test]
fn a_limit_on_file_sizes_is_an_error() {
    let folder = Folder::new();
    folder.write("a", pattern(1 << 20));
    folder.shell(
        "ulimit -f 100; code=0; $W encrypt -R recipient.txt a 2> said || code=$?; test $code = 1",
    );
    let said = String::from_utf8(folder.read("said")).unwrap();
    assert!(
        said.contains("a.wl: cannot write: file too large"),
        "{said}"
    );
    assert_eq!(folder.names(), ["a", "said"]);
}

/// Long files on a RAM disk are filled in place.
#[test]
fn a_full_ram_disk_leaves_nothing() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    let Some(_disk) = SmallDisk::mount(&disk, "36m") else {
        return;
    };
    let plain = pattern(35 << 20);
    folder.write("fits", &plain);
    folder.write("too long", pattern(37 << 20));
    let encrypt = ["encrypt", "-R", "recipient.txt", "--force", "-o"];
    let decrypt = ["decrypt", "-i", "key.txt", "--force", "-o"];
    for name in ["fits", "too long"] {
        let sealed = format!("{name}.wl");
        folder
            .run([&encrypt[..], &[&sealed, name]].concat())
            .code(0);
    }
    for (way, fits, too_long) in [
        (&encrypt, "fits", "too long"),
        (&decrypt, "fits.wl", "too long.wl"),
    ] {
        for output in ["disk/old", "disk/new"] {
            fs::write(folder.path("disk/old"), "precious").unwrap();
            let full = folder.run([&way[..], &[output, too_long]].concat());
            full.code(1)
                .says("no space left")
                .says(&format!("warplock: {output}: "));
            assert_eq!(fs::read_dir(&disk).unwrap().count(), 1, "{output}");
            assert_eq!(folder.read("disk/old"), b"precious");
            folder.run([&way[..], &["disk/old", fits]].concat()).code(0);
        }
    }
    assert!(folder.read("disk/old") == plain);
}

#[test]
fn a_signal_leaves_nothing_on_a_ram_disk() {
    receive_signals();
    let folder = Folder::new();
    let disk = folder.path("disk");
    let Some(_disk) = SmallDisk::mount(&disk, "2g") else {
        return;
    };
    let big = File::create(folder.path("big")).unwrap();
    big.set_len(64 << 30).unwrap();
    let used = || {
        let disk = rustix::fs::statvfs(&disk).unwrap();
        (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    };
    let args = ["encrypt", "-R", "recipient.txt", "-o", "disk/out", "big"];
    let mut child = folder.command(args).spawn().unwrap();
    // Well under way, and far from its end.
    while used() < 32 << 20 && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, Signal::INT);
    assert_eq!(wait(&mut child).signal(), Some(2));
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 0);
    assert_eq!(used(), 0);
}

#[test]
fn unreadable_inputs_and_folders() {
    let folder = Folder::new();
    folder.write("a", "text");
    let encrypt = |more: &[&str]| folder.run([&["encrypt", "-R", "recipient.txt"], more].concat());
    encrypt(&["none"])
        .code(1)
        .says("none: cannot read: no such file or directory");
    encrypt(&["."]).code(1).says(".: is a directory");
    for output in ["/", "."] {
        let says =
            format!("warplock: {output}: is a directory, so the output cannot have this name");
        encrypt(&["-o", output, "a"]).code(1).says(&says);
    }
    encrypt(&["-o", "none/a.wl", "a"])
        .code(1)
        .says("none/a.wl: cannot create");
    // Opens, but gives an error at the first read.
    encrypt(&["-o", "b", "/proc/self/mem"])
        .code(1)
        .says("/proc/self/mem: ");
    assert_eq!(folder.names(), ["a"]);
}

/// The limit on the main thread's stack is inherited.
#[test]
fn a_small_stack_is_enough() {
    let folder = Folder::new();
    folder.write("a", pattern(1_000_000));
    for command in [
        "encrypt -R recipient.txt a",
        "verify -i key.txt a.wl",
        "inspect a.wl",
        "decrypt --help",
    ] {
        folder.shell(&format!("ulimit -s 64; $W {command} > out"));
    }
}

/// No address space has room for the stack of a thread, as if the user had all that are allowed.
#[test]
fn where_no_thread_can_start_files_are_done_all_the_same() {
    let folder = Folder::new();
    let plain = pattern(3_000_000);
    folder.write("a", &plain);
    folder.write("key", pattern(16));
    let run = |args: &[&str]| {
        let mut command = folder.command(args);
        let command = command.env("RUST_MIN_STACK", (1_u64 << 50).to_string());
        Outcome::of(command)
    };
    let four = ["--threads", "4"];
    run(&[&["encrypt", "-R", "recipient.txt", "a"], &four[..]].concat()).code(0);
    run(&[&["decrypt", "-i", "key.txt", "-o", "b", "a.wl"], &four[..]].concat()).code(0);
    assert!(folder.read("b") == plain);
    let raw = ["raw", "encrypt", "--algorithm", "aes-128-ctr", "--key"];
    let raw = [&raw[..], &["@key", "--iv", "@key", "-i", "a", "-o", "c"]].concat();
    for threads in ["1", "4"] {
        run(&[&raw[..], &["--backend", "cpu", "--threads", threads]].concat())
            .code(if threads == "1" { 1 } else { 2 })
            .says("cannot start");
        assert!(!folder.path("c").exists());
    }
}

#[test]
fn more_threads_than_any_machine_has_are_refused() {
    let folder = Folder::new();
    folder.write("a", "text");
    for count in ["0", "4097", "99999999999999999999"] {
        folder
            .run(["encrypt", "-R", "recipient.txt", "a", "--threads", count])
            .code(2)
            .says("from 1 to 4096");
    }
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn devices_are_written_directly() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder
        .run(["encrypt", "-R", "recipient.txt", "-o", "/dev/null", "a"])
        .code(0);
    folder
        .run(["encrypt", "-R", "recipient.txt", "-o", "a.wl", "/dev/null"])
        .code(0);
    make_fifo(&folder.path("fifo"));
    let args = ["decrypt", "-i", "key.txt", "-o", "fifo", "a.wl"];
    let mut child = folder.command(args).spawn().unwrap();
    let mut text = Vec::new();
    File::open(folder.path("fifo"))
        .unwrap()
        .read_to_end(&mut text)
        .unwrap();
    assert_eq!((wait(&mut child).code(), &text[..]), (Some(0), &b""[..]));
    assert_eq!(folder.names(), ["a", "a.wl", "fifo"]);
}

/// Runs to the end; gives the peak of its memory in KiB.
#[allow(
    clippy::zombie_processes,
    reason = "wait4 does what wait does, and tells more"
)]
fn peak_memory(command: &mut Command) -> i64 {
    let child = command.spawn().unwrap();
    let mut status = 0;
    // SAFETY: plain integers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of the right types.
    let waited = unsafe { libc::wait4(child.id().cast_signed(), &mut status, 0, &mut usage) };
    assert_eq!(waited, child.id().cast_signed());
    assert_eq!(status, 0, "{command:?}");
    usage.ru_maxrss
}

#[test]
fn memory_is_bounded() {
    let folder = Folder::new();
    File::create(folder.path("big"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    folder.write("key", pattern(16));
    let check = |command: &mut Command| {
        let peak = peak_memory(command);
        assert!(peak < MOST_MEMORY, "{peak} KiB: {command:?}");
    };
    // A file through all of it into a pipe and back.
    let mut sealing = folder.command(["encrypt", "-R", "recipient.txt", "-o", "-", "big"]);
    let mut sealing = sealing.stdout(Stdio::piped()).spawn().unwrap();
    let sealed = sealing.stdout.take().unwrap();
    check(
        folder
            .command(["decrypt", "-i", "key.txt"])
            .stdin(sealed)
            .stdout(Stdio::null()),
    );
    assert!(sealing.wait().unwrap().success());
    check(&mut folder.command(["encrypt", "-R", "recipient.txt", "-o", "/dev/null", "big"]));
    let ctr = [
        "--algorithm",
        "aes-128-ctr",
        "--key",
        "@key",
        "--iv",
        "@key",
        "-o",
        "/dev/null",
    ];
    check(&mut folder.command([&["raw", "encrypt", "-i", "big"], &ctr[..]].concat()));
    // File to file, at a size that a small disk holds; on a RAM disk too, whose pages are mapped.
    File::create(folder.path("big"))
        .unwrap()
        .set_len(300 << 20)
        .unwrap();
    check(&mut folder.command(["encrypt", "-R", "recipient.txt", "big"]));
    check(&mut folder.command([
        "decrypt", "-i", "key.txt", "--force", "-o", "again", "big.wl",
    ]));
    let disk = folder.path("disk");
    let Some(_disk) = SmallDisk::mount(&disk, "700m") else {
        return;
    };
    let args = ["encrypt", "-R", "recipient.txt", "-o", "disk/a.wl", "big"];
    check(&mut folder.command(args));
    let args = ["decrypt", "-i", "key.txt", "-o", "disk/a", "disk/a.wl"];
    check(&mut folder.command(args));
}
