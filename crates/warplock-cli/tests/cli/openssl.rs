//! `raw` against `openssl enc`, both ways.

use std::process::Command;

use crate::common::{Folder, pattern};

#[test]
fn openssl_makes_and_reads_the_same_bytes() {
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: no openssl");
        return;
    }
    let folder = Folder::new();
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl")
            .current_dir(folder.root())
            .args(args)
            .output();
        let output = output.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    // Around a block, and around what is read at a time.
    for len in [
        0,
        1,
        15,
        16,
        17,
        255,
        4096,
        (4 << 20) - 1,
        4 << 20,
        (4 << 20) + 65,
        9_000_000,
    ] {
        let text = pattern(len);
        folder.write("text", &text);
        for (bits, mode) in [128, 192, 256].into_iter().flat_map(|bits| {
            ["ecb", "cbc", "ctr"]
                .into_iter()
                .map(move |mode| (bits, mode))
        }) {
            if len > 5000 && bits == 192 {
                continue;
            }
            let (key, iv) = (pattern(bits / 8), [[0xFF; 8], [0xFE; 8]].concat());
            folder.write("key", &key);
            folder.write("iv", &iv);
            let (key_hex, iv_hex) = (hex(&key), hex(&iv));
            let cipher = format!("-aes-{bits}-{mode}");
            let mut theirs = vec!["enc", &cipher, "-K", &key_hex];
            let algorithm = &cipher[1..];
            let mut ours = vec!["--algorithm", algorithm, "--key", "@key", "--force"];
            if mode != "ecb" {
                theirs.extend(["-iv", &iv_hex]);
                ours.extend(["--iv", "@iv"]);
            }
            openssl(&[&theirs[..], &["-in", "text", "-out", "theirs"]].concat());
            let encrypt = ["raw", "encrypt", "-i", "text", "-o", "ours"];
            folder.run([&encrypt[..], &ours].concat()).code(0);
            assert!(
                folder.read("ours") == folder.read("theirs"),
                "{algorithm}, {len} bytes"
            );
            openssl(&[&theirs[..], &["-d", "-in", "ours", "-out", "opened"]].concat());
            assert!(
                folder.read("opened") == text,
                "{algorithm}, {len} bytes, openssl -d"
            );
            let decrypt = ["raw", "decrypt", "-i", "theirs", "-o", "opened"];
            folder.run([&decrypt[..], &ours].concat()).code(0);
            assert!(
                folder.read("opened") == text,
                "{algorithm}, {len} bytes, decrypt"
            );
            if len % 16 == 0 && mode != "ctr" {
                openssl(&[&theirs[..], &["-nopad", "-in", "text", "-out", "theirs"]].concat());
                folder
                    .run([&encrypt[..], &["--pad", "none"], &ours].concat())
                    .code(0);
                assert!(
                    folder.read("ours") == folder.read("theirs"),
                    "{algorithm}, no padding"
                );
            }
        }
    }
}
