//! Exit code 0 means: everything was verified, and everything was written.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::common::{Folder, Outcome, broken_pipe, make_fifo, pattern, wait};

/// A folder with files in every form that the commands below read.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("a", pattern(3 << 20));
    folder.write("key", pattern(16));
    folder.run(["encrypt", "-R", "recipient.txt", "a"]).code(0);
    folder
        .run(["vault", "init", "store", "-R", "recipient.txt"])
        .code(0);
    folder
        .run([&["raw", "encrypt", "-o", "a.gcm"], &GCM[..], &["a"]].concat())
        .code(0);
    folder
}

const CTR: [&str; 7] = [
    "--algorithm",
    "aes-128-ctr",
    "--key",
    "@key",
    "--iv",
    "@key",
    "-i",
];
const GCM: [&str; 7] = [
    "--algorithm",
    "aes-128-gcm",
    "--key",
    "@key",
    "--iv",
    "@key",
    "-i",
];

/// Every command that writes to standard output, one way or another.
fn printing() -> Vec<Vec<&'static str>> {
    let unlock = ["-i", "key.txt"];
    let check = ["vault", "check", "store", "-i", "key.txt"];
    vec![
        vec!["encrypt", "-R", "recipient.txt", "-o", "-", "a"],
        vec!["encrypt", "-R", "recipient.txt", "-o", "/dev/stdout", "a"],
        vec!["encrypt", "-R", "recipient.txt", "-o", "/dev/fd/1", "a"],
        vec!["encrypt", "--force", "-R", "recipient.txt", "--json", "a"],
        [&["decrypt", "-o", "-", "a.wl"], &unlock[..]].concat(),
        [
            &["decrypt", "-o", "-", "--range", "5..99999", "a.wl"],
            &unlock[..],
        ]
        .concat(),
        [
            &["decrypt", "-o", "b", "--force", "--json", "a.wl"],
            &unlock[..],
        ]
        .concat(),
        [&["raw", "encrypt"], &CTR[..], &["a"]].concat(),
        [&["raw", "decrypt"], &CTR[..], &["a"]].concat(),
        [&["raw", "encrypt"], &GCM[..], &["a"]].concat(),
        [&["raw", "decrypt"], &GCM[..], &["a.gcm"]].concat(),
        [&["verify", "a.wl"], &unlock[..]].concat(),
        [&["verify", "--json", "a.wl", "a.wl"], &unlock[..]].concat(),
        vec!["inspect", "a.wl"],
        vec!["inspect", "--json", "a.wl"],
        vec!["keygen"],
        vec!["keygen", "--json"],
        vec!["keygen", "--raw-key"],
        vec!["keygen", "-y", "key.txt"],
        vec!["keygen", "-y", "key.txt", "--json"],
        vec!["vault", "info", "store"],
        vec!["vault", "info", "store", "--json"],
        check.to_vec(),
        [&check[..], &["--json"]].concat(),
        vec!["devices"],
        vec!["devices", "--json"],
        vec!["devices", "--algorithms"],
        vec!["bench", "file-sizes", "--size", "1028"],
        vec!["completions", "bash"],
        vec!["--help"],
        vec!["-h"],
        vec!["vault", "--help"],
        vec!["help", "encrypt"],
        vec!["--version"],
    ]
}

#[test]
fn a_reader_that_leaves_ends_the_command_by_sigpipe() {
    let folder = folder();
    for args in printing() {
        let mut command = folder.command(&args);
        let outcome = Outcome::of(command.stdout(broken_pipe()).stderr(Stdio::piped()));
        assert_eq!(outcome.status().signal(), Some(libc::SIGPIPE), "{args:?}");
        assert_eq!(outcome.stderr(), "", "{args:?}");
    }
    // Where stdout gets the data, the object is a result too.
    let args = ["decrypt", "--json", "-i", "key.txt", "-o", "-", "a.wl"];
    let mut command = folder.command(args);
    let outcome = command.stdout(Stdio::null()).stderr(broken_pipe()).status();
    assert_eq!(outcome.unwrap().signal(), Some(libc::SIGPIPE));
    assert!(folder.names().iter().all(|name| !name.starts_with('.')));
}

#[test]
fn a_full_or_closed_output_is_an_error() {
    let folder = folder();
    for args in printing() {
        let full = File::create("/dev/full").unwrap();
        let mut command = folder.command(&args);
        Outcome::of(command.stdout(full).stderr(Stdio::piped()))
            .code(1)
            .says("warplock: stdout: cannot write: no space left");
        let quoted: Vec<_> = args.iter().map(|arg| format!("'{arg}'")).collect();
        folder.shell(&format!(
            "code=0; $W {} >&- 2> said || code=$?; test $code = 1",
            quoted.join(" ")
        ));
        let said = String::from_utf8(folder.read("said")).unwrap();
        let says = ["stdout: is closed", "stdout: is not open"];
        assert!(
            says.iter().any(|says| said.contains(says)),
            "{args:?}: {said}"
        );
    }
    let data = ["decrypt", "--json", "-i", "key.txt", "-o", "-", "a.wl"];
    let mut command = folder.command(data);
    let full = File::create("/dev/full").unwrap();
    let outcome = command.stdout(Stdio::null()).stderr(full).status();
    assert_eq!(outcome.unwrap().code(), Some(1));
}

/// As `decrypt | head -c 10` and `decrypt | true`.
#[test]
fn a_forged_file_is_never_a_success() {
    let folder = Folder::new();
    for len in [10, 16_384, 16_385, 100_000, 1_000_000, 9_000_000] {
        folder.write("a", pattern(len));
        folder
            .run(["encrypt", "-R", "recipient.txt", "--force", "a"])
            .code(0);
        let mut forged = folder.read("a.wl");
        *forged.last_mut().unwrap() ^= 1;
        folder.write("a.wl", forged);
        for read in [0, 1, 10, 70_000] {
            let mut child = folder
                .command(["decrypt", "-i", "key.txt", "-o", "-", "a.wl"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut first = vec![0; read];
            let _ = child.stdout.take().unwrap().read(&mut first).unwrap();
            let status = wait(&mut child);
            let (code, signal) = (status.code(), status.signal());
            let is_refused = code == Some(3) || signal == Some(libc::SIGPIPE);
            assert!(is_refused, "{len} bytes, {read} read: {status}");
        }
    }
}

/// As `encrypt | false` and `encrypt | head -c 1000`.
#[test]
fn a_cut_stream_is_never_a_success() {
    let folder = folder();
    for read in [0, 1000] {
        let mut child = folder
            .command(["encrypt", "-R", "recipient.txt", "-o", "-", "a"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = vec![0; read];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        assert_eq!(wait(&mut child).signal(), Some(libc::SIGPIPE));
    }
}

#[test]
fn a_reader_that_leaves_a_named_pipe_is_the_same() {
    let folder = folder();
    make_fifo(&folder.path("fifo"));
    for args in [
        vec!["encrypt", "-R", "recipient.txt", "-o", "fifo", "a"],
        vec!["decrypt", "-i", "key.txt", "-o", "fifo", "a.wl"],
        [&["raw", "decrypt", "-o", "fifo"], &GCM[..], &["a.gcm"]].concat(),
        [&["raw", "encrypt", "-o", "fifo"], &CTR[..], &["a"]].concat(),
    ] {
        let mut child = folder.command(&args).spawn().unwrap();
        let mut fifo = File::open(folder.path("fifo")).unwrap();
        fifo.read_exact(&mut [0; 10]).unwrap();
        drop(fifo);
        assert_eq!(wait(&mut child).signal(), Some(libc::SIGPIPE), "{args:?}");
    }
    assert!(folder.names().iter().all(|name| !name.starts_with('.')));
}

/// As under systemd, unless a unit says IgnoreSIGPIPE=no.
#[test]
fn where_sigpipe_is_ignored_a_reader_that_leaves_is_an_error() {
    let folder = folder();
    for args in ["decrypt -i key.txt -o - a.wl", "verify -i key.txt a.wl"] {
        let mut shell = Command::new("sh");
        let script = format!(
            "trap '' PIPE; exec {} {args}",
            env!("CARGO_BIN_EXE_warplock")
        );
        shell.args(["-c", &script]).current_dir(folder.root());
        Outcome::of(shell.stdout(broken_pipe()).stderr(Stdio::piped()))
            .code(1)
            .says("warplock: stdout: cannot write: broken pipe");
    }
}

#[test]
fn results_in_files_are_told_where_stdout_leads_to_a_reader() {
    let folder = Folder::new();
    folder.write("a", "text");
    folder.write("c", "text");
    let encrypt = |more: &[&str]| {
        let mut args = vec!["encrypt", "--force", "-R", "recipient.txt"];
        args.extend(more);
        folder.run(args).code(0).stderr()
    };
    let told = "warplock: the result is in a.wl; stdout gets it only with -o -\n";
    assert_eq!(encrypt(&["a"]), told);
    let told = encrypt(&["a", "c"]);
    assert!(
        told.contains("such as a.wl") && told.lines().count() == 1,
        "{told}"
    );
    assert_eq!(encrypt(&["-q", "a"]), "");
    assert_eq!(encrypt(&["-o", "b.wl", "a"]), "");
    assert_eq!(encrypt(&["-o", "-", "a"]), "");
    assert_eq!(encrypt(&["--json", "a"]), "");
    let decrypted = folder.run(["decrypt", "--force", "-i", "key.txt", "a.wl"]);
    let told = "warplock: the result is in a; stdout gets it only with -o -\n";
    assert_eq!(decrypted.code(0).stderr(), told);
    folder.shell(
        "$W encrypt --force -R recipient.txt a > /dev/null 2> said; test ! -s said
         $W encrypt --force -R recipient.txt a > out 2> said; test -s said; test ! -s out
         $W encrypt --force -R recipient.txt a >&- 2> said; test ! -s said",
    );
}
