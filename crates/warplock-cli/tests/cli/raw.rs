//! `raw` against the engine's one-shot calls: the pieces of a stream must not show. That the
//! engine is right is shown by its own tests and by `openssl.rs`.

use crate::common::{Folder, pattern};
use warplock::{Aad, Algorithm, Batch, Engine, Ivs, Key, Keys, Mode, Spans, Tags, Text, pkcs7};

/// What `raw` reads at a time, and what it holds back.
const PIECE: usize = 4 << 20;
const TAIL: usize = 64;

const AAD: &[u8] = b"not encrypted";

/// What `raw encrypt` should make of `text`.
fn expected(algorithm: Algorithm, key: &[u8], iv: &[u8], text: &[u8]) -> Vec<u8> {
    let (engine, key) = (Engine::new().unwrap(), Key::new(algorithm, key).unwrap());
    let mut text = text.to_vec();
    if matches!(algorithm.info().mode, Mode::Cbc | Mode::Ecb) {
        pkcs7::pad(&mut text);
    }
    let mut tag = [0; 16];
    let batch = Batch::encrypt(Keys::One(&key), Text::in_place(&mut text));
    let batch = if iv.is_empty() {
        batch
    } else {
        batch.ivs(Ivs::Each(iv))
    };
    if algorithm.is_aead() {
        engine
            .run(batch.aad(Aad::Shared(AAD)).tags(Tags::Apart(&mut tag)))
            .unwrap();
        text.extend(tag);
    } else {
        engine.run(batch).unwrap();
    }
    text
}

#[test]
fn every_algorithm_at_every_seam() {
    let folder = Folder::new();
    folder.write("aad", AAD);
    let ends = [0, 1, 15, 16, 17, TAIL - 1, TAIL, TAIL + 1, TAIL + 15];
    let lens = ends
        .into_iter()
        .flat_map(|end| [end, PIECE + end])
        .chain([2 * PIECE + TAIL + 1]);
    for len in lens {
        let text = pattern(len);
        folder.write("text", &text);
        // All algorithms where it is cheap, one of each mode where it is not.
        let cheap = len < PIECE;
        for algorithm in Algorithm::all().filter(|a| cheap || a.name().contains("128")) {
            if !algorithm.info().accepts_text_len(len as u64)
                && !matches!(algorithm.info().mode, Mode::Cbc | Mode::Ecb)
            {
                continue;
            }
            let key = pattern(algorithm.key_len());
            let iv = match algorithm.info().mode {
                Mode::Ecb => vec![],
                Mode::Gcm => vec![7; 12],
                // A counter about to wrap.
                _ => [[0xFF; 15].as_slice(), &[0xFE]].concat(),
            };
            folder.write("key", &key);
            folder.write("iv", &iv);
            let mut options = vec!["--algorithm", algorithm.name(), "--key", "@key", "--force"];
            if !iv.is_empty() {
                options.extend(["--iv", "@iv"]);
            }
            if algorithm.is_aead() {
                options.extend(["--aad", "@aad"]);
            }
            let with = |verb, input, output| {
                let mut all = vec!["raw", verb, "-i", input, "-o", output];
                all.extend(&options);
                all
            };
            folder.run(with("encrypt", "text", "sealed")).code(0);
            let sealed = expected(algorithm, &key, &iv, &text);
            assert!(folder.read("sealed") == sealed, "{algorithm}, {len} bytes");
            folder.run(with("decrypt", "sealed", "opened")).code(0);
            assert!(folder.read("opened") == text, "{algorithm}, {len} bytes");
            // Through pipes; for gcm this is another path.
            let opened = folder.pipe(with("decrypt", "-", "-"), &sealed).code(0);
            assert!(opened.stdout() == text, "{algorithm}, {len} bytes, pipes");
        }
    }
}

#[test]
fn sectors_have_tweaks_of_their_own() {
    let folder = Folder::new();
    let (engine, key_bytes) = (Engine::new().unwrap(), pattern(64));
    let key = Key::new(Algorithm::Aes256Xts, &key_bytes).unwrap();
    folder.write("key", &key_bytes);
    let first = u128::MAX - 3; // wraps in the second call below
    folder.write("iv", first.to_le_bytes());
    // Whole sectors, a shorter last one that is stolen, and more than one piece of an odd length.
    for (sector, len) in [
        (512, 5120),
        (512, 5120 + 16),
        (512, 5120 + 511),
        (520, PIECE + 9000),
    ] {
        let text = pattern(len);
        folder.write("text", &text);
        let mut sealed = text.clone();
        for (index, unit) in sealed.chunks_mut(sector).enumerate() {
            let tweak = first.wrapping_add(index as u128).to_le_bytes();
            let text = Text::InPlace {
                spans: Spans::one(unit.len()),
                buffer: unit,
            };
            let batch = Batch::encrypt(Keys::One(&key), text);
            engine.run(batch.ivs(Ivs::Each(&tweak))).unwrap();
        }
        let size = sector.to_string();
        let options = [
            "--algorithm",
            "aes-256-xts",
            "--key",
            "@key",
            "--iv",
            "@iv",
            "--sector",
        ];
        let with = |verb, input, output| {
            let mut all = vec!["raw", verb, "--force", "-i", input, "-o", output];
            all.extend(options);
            all.push(&size);
            all
        };
        folder.run(with("encrypt", "text", "sealed")).code(0);
        assert!(folder.read("sealed") == sealed, "{sector}, {len}");
        folder.run(with("decrypt", "sealed", "opened")).code(0);
        assert!(folder.read("opened") == text, "{sector}, {len}");
    }
    folder.write("text", pattern(512 + 15));
    let short = [
        "raw",
        "encrypt",
        "--algorithm",
        "aes-256-xts",
        "--key",
        "@key",
    ];
    let short = [&short[..], &["--sector", "512", "-i", "text", "-o", "no"]].concat();
    folder
        .run(short)
        .code(1)
        .says("the last may be shorter, down to 16");
    assert!(!folder.path("no").exists());
}

#[test]
fn a_forgery_gives_out_nothing() {
    let folder = Folder::new();
    folder.write("key", pattern(32));
    folder.write("iv", pattern(12));
    let options = ["--algorithm", "aes-256-gcm", "--key", "@key", "--iv", "@iv"];
    for len in [0, 1, 1000, 3 * PIECE] {
        let text = pattern(len);
        let args = [&["raw", "encrypt"], &options[..]].concat();
        let sealed = folder.pipe(args, &text).code(0).stdout().to_vec();
        let places = [0, len / 2, len, len + 15];
        let flips = places.into_iter().map(|place| {
            let mut bytes = sealed.clone();
            bytes[place] ^= 0x10;
            bytes
        });
        let cuts = [sealed.len() - 1, sealed.len().min(10), 0].map(|len| sealed[..len].to_vec());
        for forged in flips.chain(cuts) {
            let args = [&["raw", "decrypt"], &options[..]].concat();
            let refused = folder.pipe(args.clone(), &forged).code(3);
            assert_eq!(refused.stdout(), b"");
            folder.write("forged", &forged);
            folder
                .run([&args[..], &["-i", "forged", "-o", "out"]].concat())
                .code(3);
            assert_eq!(folder.names(), ["forged", "iv", "key"]);
        }
    }
}

#[test]
fn short_tags() {
    let folder = Folder::new();
    folder.write("key", pattern(16));
    let options = [
        "--algorithm",
        "aes-128-gcm",
        "--key",
        "@key",
        "--iv",
        "0102",
    ];
    let with = |verb, len| {
        let mut args = vec!["raw", verb, "--tag-len", len];
        args.extend(options);
        args
    };
    let whole = folder
        .pipe(with("encrypt", "16"), b"text")
        .code(0)
        .stdout()
        .to_vec();
    let short = folder
        .pipe(with("encrypt", "12"), b"text")
        .code(0)
        .stdout()
        .to_vec();
    assert_eq!(short, whole[..4 + 12]);
    for (len, code) in [("4", 0), ("8", 0), ("12", 0), ("5", 2), ("17", 2), ("0", 2)] {
        let end = 4 + len.parse::<usize>().unwrap().min(16);
        folder.pipe(with("decrypt", len), &whole[..end]).code(code);
    }
    folder
        .pipe(with("encrypt", "4"), b"text")
        .code(2)
        .says("--tag-len");
}

/// The fourth vector of the specification; the tag has its one length.
#[test]
fn acorn_of_the_specification() {
    let folder = Folder::new();
    let with = |verb| {
        vec![
            "raw",
            verb,
            "--algorithm",
            "acorn-128",
            "--key",
            "000102030405060708090a0b0c0d0e0f",
            "--iv",
            "000306090c0f1215181b1e2124272a2d",
            "--aad",
            "01010101010101010101010101010101",
        ]
    };
    let sealed: Vec<u8> = 0x8680_1FA8_9E33_D992_35DD_4D1A_72CE_001A_u128
        .to_be_bytes()
        .into_iter()
        .chain(0xD9C6_6B4A_DB3C_DE07_3E63_50CC_7E23_7E01_u128.to_be_bytes())
        .collect();
    let found = folder.pipe(with("encrypt"), [1; 16]).code(0);
    assert_eq!(found.stdout(), sealed);
    let opened = folder.pipe(with("decrypt"), &sealed).code(0);
    assert_eq!(opened.stdout(), [1; 16]);
    let mut short = with("encrypt");
    short.extend(["--tag-len", "12"]);
    folder.pipe(short, b"text").code(2).says("--tag-len");
}

#[test]
fn wrong_values_say_what_would_fit() {
    let folder = Folder::new();
    folder.write("key", pattern(16));
    folder.write("hex", "00112233445566778899aabbccddeeff\n");
    for (algorithm, more, code, says) in [
        (
            "aes-128-ctr",
            &["--key", "@key"][..],
            2,
            "needs a start counter of 16 bytes",
        ),
        (
            "aes-128-ctr",
            &["--key", "@key", "--iv", "00"],
            2,
            "not 1 bytes",
        ),
        (
            "aes-128-ctr",
            &["--key", "@hex", "--iv", "00"],
            2,
            "seems to hold hex digits",
        ),
        ("aes-128-ctr", &["--key", "abc"], 2, "one is missing"),
        (
            "aes-128-ctr",
            &["--key", "xyz"],
            2,
            "character 1 is not a hex digit",
        ),
        (
            "aes-128-ctr",
            &["--key", "@none"],
            1,
            "--key @none: cannot read",
        ),
        (
            "aes-128-ecb",
            &["--key", "@key", "--iv", "00"],
            2,
            "needs no IV",
        ),
        (
            "aes-128-ecb",
            &["--key", "@key", "--aad", "00"],
            2,
            "--aad is for authenticated",
        ),
        (
            "aes-128-ecb",
            &["--key", "@key", "--sector", "512"],
            2,
            "--sector is for xts",
        ),
        (
            "aes-256-gcm",
            &["--key", "@key"],
            2,
            "needs a key of 32 bytes, not 16",
        ),
        (
            "aes-128-gcm",
            &["--key", "@-"],
            2,
            "stdin can be read once only",
        ),
        (
            "aes-128-gcm",
            &["--key", "@key", "--iv", "00", "--pad", "pkcs7"],
            2,
            "for cbc and ecb",
        ),
        ("aes-512-ecb", &["--key", "@key"], 2, "--algorithm"),
    ] {
        let args = [&["raw", "encrypt", "--algorithm", algorithm], more].concat();
        folder.run(args).code(code).says(says);
    }
    let cbc = [
        "raw",
        "decrypt",
        "--algorithm",
        "AES-128-CBC",
        "--key",
        "@key",
        "--iv",
        "@key",
    ];
    folder.pipe(cbc, [0; 15]).code(1).says("multiple of 16");
    folder.pipe(cbc, []).code(1).says("at least one block");
    folder.pipe(cbc, [0; 16]).code(1).says("PKCS#7");
}

/// Refused, unless old data is to be read.
#[test]
fn xts_keys_with_equal_halves() {
    let folder = Folder::new();
    folder.write("twice", [0; 32]);
    let with = |verb, more: &[&'static str]| {
        let mut args = vec!["raw", verb, "--algorithm", "aes-128-xts", "--key", "@twice"];
        args.extend(["--iv", "00000000000000000000000000000000"]);
        args.extend(more);
        args
    };
    // The first vector of IEEE 1619.
    let sealed = [
        0x917c_f69e_bd68_b2ec_9b9f_e9a3_eadd_a692_u128,
        0xcd43_d2f5_9598_ed85_8c02_c265_2fbf_922e,
    ];
    let sealed = sealed.map(u128::to_be_bytes).concat();
    let refused = folder
        .pipe(with("encrypt", &[]), [0; 32])
        .code(2)
        .says("both halves of this aes-128-xts key are equal");
    assert_eq!(refused.stdout(), b"");
    folder
        .pipe(with("decrypt", &[]), &sealed)
        .code(2)
        .says("add --equal-halves");
    let decrypted = folder.pipe(with("decrypt", &["--equal-halves"]), &sealed);
    assert_eq!(decrypted.code(0).stdout(), [0; 32]);
    folder
        .pipe(with("encrypt", &["--equal-halves"]), [0; 32])
        .code(2)
        .says("--equal-halves");
    let mut gcm = with("decrypt", &["--equal-halves"]);
    gcm[3] = "aes-256-gcm";
    folder
        .pipe(gcm, &sealed)
        .code(2)
        .says("--equal-halves is for xts");
}
