//! `warplock analyze`: what it flags, what it explains, what it refuses.

use serde_json::Value;

use crate::common::Folder;

/// The results of one object with this name, of any channel.
fn tests<'a>(object: &'a Value, change: Option<&str>, name: &str) -> Vec<&'a Value> {
    let all = object["tests"].as_array().unwrap().iter();
    let found: Vec<_> = all
        .filter(|test| test["name"] == name && test["change"].as_str() == change)
        .collect();
    assert!(!found.is_empty(), "{name} {change:?} of {object}");
    found
}

fn p(object: &Value, change: Option<&str>, name: &str) -> f64 {
    tests(object, change, name)[0]["p"].as_f64().unwrap()
}

#[test]
fn ecb_of_a_structured_picture_is_flagged_and_other_modes_are_not() {
    let folder = Folder::new();
    let arguments = ["--picture", "checkers", "--algorithm", "all", "--seed", "5"];
    let arguments = [&["analyze", "--json"], &arguments[..]].concat();
    let objects = folder.run(&arguments).code(0).json();
    assert_eq!(objects.len(), 15);
    for object in &objects {
        let name = object["algorithm"].as_str().unwrap();
        let is_ecb = name.ends_with("ecb");
        for statistic in ["histogram", "entropy", "local_entropy", "repeated_blocks"] {
            let flagged = p(object, None, statistic) < 1e-6;
            assert_eq!(flagged, is_ecb, "{name} {statistic}");
        }
        // A flipped bit stays within its byte, its block, or reaches to the end.
        let value = tests(object, Some("pixel"), "npcr")[0]["value"].as_f64();
        let changed = (value.unwrap() / 100.0 * 512.0 * 512.0).round() as u64;
        let expected = match name.rsplit('-').next().unwrap() {
            "ctr" | "gcm" => 1..=1,
            "ecb" | "xts" => 12..=16,
            _ => 129_000..=131_072,
        };
        assert!(expected.contains(&changed), "{name}: {changed}");
        if !is_ecb {
            for change in ["key", "nonce"] {
                assert!(p(object, Some(change), "npcr") > 1e-6, "{name}");
                assert!(p(object, Some(change), "uaci") > 1e-6, "{name}");
            }
        }
        let changes = object["changes"].as_array().unwrap();
        assert_eq!(changes.len(), if is_ecb { 2 } else { 3 }, "{name}");
        assert!(
            changes
                .iter()
                .all(|change| change["meaning"].as_str().unwrap().len() > 20)
        );
    }
    // The same seed gives the same.
    assert_eq!(folder.run(&arguments).code(0).json(), objects);
    // Other keys do not.
    let other = [&arguments[..arguments.len() - 1], &["6"]].concat();
    assert_ne!(folder.run(&other).code(0).json(), objects);
}

#[test]
fn trials_of_a_sound_cipher_are_flagged_as_often_as_chance_does() {
    let folder = Folder::new();
    let arguments = [
        "analyze",
        "--json",
        "--picture",
        "flat",
        "--image",
        "256x256",
        "--algorithm",
        "aes-256-gcm",
        "--change",
        "key,nonce",
        "--trials",
        "200",
        "--seed",
        "7",
    ];
    let objects = folder.run(arguments).code(0).json();
    let summaries = objects[0]["trials"].as_array().unwrap();
    assert_eq!(summaries.len(), 19);
    for summary in summaries {
        assert_eq!(summary["trials"], 200);
        // 10 are expected, with a deviation of 3.
        assert!(summary["outside"][0].as_u64().unwrap() <= 23, "{summary}");
        assert!(
            summary["p_uniform"].as_f64().unwrap_or(1.0) > 1e-4,
            "{summary}"
        );
    }
    // A file is cut into parts.
    folder.write("zeros", vec![0; 20_000]);
    let parts = folder.run(["analyze", "--json", "--trials", "10", "zeros"]);
    let objects = parts.code(0).json();
    assert_eq!(
        objects[0]["trials"][0]["outside"],
        serde_json::json!([10, 10, 10])
    );
}

#[test]
fn a_tag_after_raw_pixels_is_left_out() {
    let folder = Folder::new();
    let header = b"P6 64 32 255\n";
    let pixels: Vec<u8> = (0..64 * 32 * 3u32)
        .map(|place| (place / 96) as u8)
        .collect();
    folder.write("plain.ppm", [&header[..], &pixels].concat());
    folder.write("pixels", &pixels);
    let zeros = "00".repeat(32);
    for (iv, output) in [("00", "first"), ("01", "second")] {
        let iv = iv.repeat(12);
        let key = ["--key", &zeros, "--iv", &iv, "-i", "pixels", "-o", output];
        folder
            .run([&["raw", "encrypt", "--algorithm", "aes-256-gcm"], &key[..]].concat())
            .code(0);
    }
    assert_eq!(folder.read("first").len(), pixels.len() + 16);
    let run = folder.run([
        "analyze",
        "--json",
        "--against",
        "second",
        "--report",
        "page.html",
        "plain.ppm",
        "first",
    ]);
    let objects = run.code(0).json();
    assert_eq!(objects[0]["shape"], serde_json::json!([64, 32, 3]));
    assert_eq!(objects[0]["bytes"], pixels.len());
    assert_eq!(tests(&objects[0], None, "histogram").len(), 3);
    assert!(p(&objects[0], None, "correlation_plaintext") > 1e-4);
    for test in tests(&objects[0], Some("against"), "npcr") {
        assert!(test["p"].as_f64().unwrap() > 1e-4);
    }
    let page = String::from_utf8(folder.read("page.html")).unwrap();
    assert_eq!(page.matches("data:image/png;base64,").count(), 2);
    assert_eq!(page.matches("<svg").count(), 4);
    // An existing page stays.
    folder
        .run(["analyze", "--report", "page.html", "first"])
        .code(1);
    folder
        .run(["analyze", "--report", "page.html", "--force", "first"])
        .code(0);
}

#[test]
fn what_cannot_be_analysed_is_refused() {
    let folder = Folder::new();
    folder.write("short", [7; 100]);
    folder.write("long", [7; 3000]);
    folder.write("not.png", [7; 100]);
    for (arguments, code) in [
        (&["not.png"][..], 1),
        (&["missing"], 1),
        (&["--image", "64x64", "short"], 1),
        (&["--against", "short", "long"], 1),
        (&["/dev/null"], 1),
        (&["--algorithm", "aes-128-xts", "/dev/null"], 1),
        (&["--algorithm", "aes-128-ctr", "long", "short"], 2),
        (&["--algorithm", "des", "long"], 2),
        (&["--change", "key", "long"], 2),
        (&["--trials", "3", "long"], 2),
        (&["--trials", "0", "long"], 2),
        (&["--image", "0x5", "long"], 2),
        (&["--picture", "flat", "long"], 2),
        (&["--picture", "flat"], 2),
        (&["-", "-"], 2),
        (&[], 2),
        // Too short for statistics: no more than that no block occurs twice can be said.
        (&["short"], 0),
    ] {
        folder.run([&["analyze"], arguments].concat()).code(code);
    }
    // Of a picture that was cut, how much is there.
    folder.write("cut.pgm", "P5 40 40 255\n1234567");
    let cut = folder.run(["analyze", "cut.pgm"]).code(1);
    cut.says("cut.pgm: the image was cut short: the file ends after 20 bytes");
    // And a verdict on so little is not given.
    folder.write("tiny", [7; 5]);
    for name in ["short", "tiny"] {
        let outcome = folder.run(["analyze", name]).code(0);
        let text = String::from_utf8_lossy(outcome.stdout());
        assert!(text.contains("too short for most tests"), "{text}");
        assert_eq!(text.contains("this is not random data"), name == "short");
    }
    let outcome = folder.run(["analyze", "long"]).code(0);
    let text = String::from_utf8_lossy(outcome.stdout());
    for sentence in [
        "undefined: one side of the pairs is constant",
        "this is not random data",
        "never show security",
    ] {
        assert!(text.contains(sentence), "{text}");
    }
}

#[test]
fn what_is_left_out_is_said() {
    let folder = Folder::new();
    folder.write("plain.pgm", [&b"P5 64 64 255\n"[..], &[7; 4096]].concat());
    folder.write("cipher", vec![7; 6000]);
    folder.write("photo.jpg", vec![7; 2000]);
    let cases: [(&[&str], &str); 3] = [
        (
            &["plain.pgm", "cipher"],
            "cipher: has 6000 bytes to compare and the plaintext 4096",
        ),
        (
            &["--image", "64x64", "cipher"],
            "cipher: 1904 bytes after the raw pixels",
        ),
        (&["photo.jpg"], "photo.jpg: these are the bytes of the file"),
    ];
    for (args, says) in cases {
        folder.run([&["analyze"], args].concat()).code(0).says(says);
    }
    // A tag is no reason to say anything.
    folder.write("cipher", vec![7; 4096 + 16]);
    let quiet = folder.run(["analyze", "plain.pgm", "cipher"]).code(0);
    assert_eq!(quiet.stderr(), "");
    let failed = folder.run(["analyze", "--json", "missing"]).code(1);
    assert_eq!(failed.json()[0]["file"], "missing");
}

#[test]
fn a_gpu_gives_the_same_results() {
    let folder = Folder::new();
    folder.write("bytes", [&[7; 5000][..], &[9; 3001]].concat());
    folder.write("other", [7; 8001]);
    for arguments in [
        &[
            "--picture",
            "photograph",
            "--image",
            "130x91x3",
            "--seed",
            "5",
        ][..],
        &["--against", "other", "bytes"],
        &["--image", "40x50x4", "bytes"],
        &["--trials", "4", "bytes"],
    ] {
        let mut arguments = [&["analyze", "--json"], arguments].concat();
        if arguments.contains(&"--picture") {
            arguments.extend(["--algorithm", "aes-128-ctr"]);
        }
        let expected = folder.run(&arguments).code(0).json();
        arguments.extend(["--backend", "cuda"]);
        let output = folder.command(&arguments).output().unwrap();
        if output.status.code() == Some(2) {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains("cannot be used"), "{text}");
            println!("skipped: no GPU: {text}");
            return;
        }
        assert_eq!(folder.run(&arguments).code(0).json(), expected);
    }
}
