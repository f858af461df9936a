//! `warplock research`: says what it is, works, and is broken.

use crate::common::{Folder, pattern};

const KEY: &str = "000102030405060708090a0b0c0d0e0f";
const WARNING: &str = "not secure: for study";

#[test]
fn the_pad_cipher_works_and_sixteen_known_bytes_break_it() {
    let folder = Folder::new();
    for (file, threads) in [("one.json", "1"), ("two.json", "2")] {
        let sizes = ["--generations", "3", "--seed", "5", "-o", file];
        let arguments = [&["research", "evolve", "--threads", threads], &sizes[..]].concat();
        folder.run(arguments).code(0).says(WARNING);
    }
    assert_eq!(folder.read("one.json"), folder.read("two.json"));
    folder.write("plain", pattern(50_000));
    let pad = |direction: &str, input: &str, output: &str| {
        let generator = [
            "--generator",
            "one.json",
            "--key",
            KEY,
            "-i",
            input,
            "-o",
            output,
        ];
        let arguments = [&["research", "pad", direction], &generator[..]].concat();
        folder.run(arguments).code(0).says(WARNING);
    };
    pad("encrypt", "plain", "cipher");
    pad("decrypt", "cipher", "opened");
    assert_eq!(folder.read("opened"), pattern(50_000));
    assert_eq!(folder.read("cipher").len(), 50_016);
    // A fresh IV each time.
    pad("encrypt", "plain", "again");
    assert_ne!(folder.read("again"), folder.read("cipher"));

    folder.write("known", &pattern(50_000)[4096..4120]);
    let attack = [
        "research",
        "attack",
        "--json",
        "--generator",
        "one.json",
        "--known",
        "known",
    ];
    let found = [&attack[..], &["--offset", "4096", "-o", "stolen", "cipher"]].concat();
    let objects = folder.run(found).code(0).says(WARNING).json();
    assert_eq!(objects[0]["key"], KEY);
    assert_eq!(folder.read("stolen"), pattern(50_000));
    // Bytes of another place.
    let wrong = [&attack[..], &["--offset", "4112", "cipher"]].concat();
    let status = folder.command(wrong).output().unwrap();
    assert_eq!(status.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&status.stderr).contains("no key fits"));
    folder.write("generator.json", "{}");
    let pad = [
        "pad",
        "encrypt",
        "--generator",
        "generator.json",
        "--key",
        KEY,
    ];
    let status = folder
        .command([&["research"], &pad[..]].concat())
        .output()
        .unwrap();
    assert_eq!(status.status.code(), Some(1));
}

#[test]
fn the_demonstration_passes_the_statistics_and_finds_the_key() {
    let folder = Folder::new();
    let shown = folder.run(["research", "demo"]).code(0).says(WARNING);
    let text = String::from_utf8_lossy(shown.stdout());
    assert!(
        text.contains("the attack found the key and the whole picture"),
        "{text}"
    );
    assert!(!text.contains("a flaw"), "{text}");
}

#[test]
fn a_gpu_gives_the_same_generator_and_pad() {
    let folder = Folder::new();
    let evolve = |file: &'static str| {
        let sizes = ["--generations", "2", "--seed", "5", "-o", file];
        [&["research", "evolve"], &sizes[..]].concat()
    };
    folder.run(evolve("cpu.json")).code(0);
    let on_gpu = [&evolve("gpu.json")[..], &["--backend", "cuda"]].concat();
    let output = folder.command(on_gpu).output().unwrap();
    if output.status.code() == Some(2) {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("cannot be used"), "{text}");
        println!("skipped: no GPU: {text}");
        return;
    }
    assert_eq!(folder.read("gpu.json"), folder.read("cpu.json"));
    folder.write("plain", pattern(50_000));
    // Each opens what the other has sealed.
    for (one, other) in [("cpu", "cuda"), ("cuda", "cpu")] {
        for (direction, input, output, backend) in [
            ("encrypt", "plain", "cipher", one),
            ("decrypt", "cipher", "opened", other),
        ] {
            let pad = ["research", "pad", direction, "--generator", "cpu.json"];
            let files = ["--key", KEY, "-i", input, "-o", output, "--force"];
            let backend = ["--backend", backend];
            folder.run([&pad[..], &files, &backend].concat()).code(0);
        }
        assert_eq!(folder.read("opened"), pattern(50_000));
    }
}
