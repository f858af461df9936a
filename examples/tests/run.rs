//! Every example runs, and says what it did.

use std::process::Command;

#[test]
fn examples_run() {
    for (program, says) in [
        (
            env!("CARGO_BIN_EXE_records"),
            "records [5] of 100000 were changed",
        ),
        (env!("CARGO_BIN_EXE_files"), "failed authentication"),
        (env!("CARGO_BIN_EXE_range"), "bytes fetched"),
        (env!("CARGO_BIN_EXE_folder"), "in the vault: [\"may.txt\"]"),
        (env!("CARGO_BIN_EXE_gpu_batch"), ""),
    ] {
        let output = Command::new(program).output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{program}: {stdout}{stderr}");
        assert!(stdout.contains(says), "{program}: {stdout}");
        print!("{stdout}");
    }
}
