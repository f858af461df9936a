//! Into GPU memory. Where there is no GPU, these tests say so.

use std::path::{Path, PathBuf};

use warplock::Engine;
use warplock::cuda::Device;
use warplock_parquet::gpu::GpuDecryption;
use warplock_parquet::{
    Encryption, Error, GivenKeys, Options, WriteKey, decrypt_slice, encrypt_slice,
};

fn device() -> Option<Device> {
    let found = Device::open(0);
    if let Err(error) = &found {
        println!("skipped: no GPU: {error}");
    }
    found.ok()
}

fn engine() -> Engine {
    let engine = Engine::builder().backend("cpu".parse().unwrap());
    engine.build().unwrap()
}

fn keys() -> GivenKeys {
    let key = |text: &str| text.as_bytes().to_vec().into();
    GivenKeys {
        footer: Some(key("0123456789012345")),
        columns: [
            ("double_field".to_owned(), key("1234567890123450")),
            ("float_field".to_owned(), key("1234567890123451")),
        ]
        .into(),
    }
}

fn files() -> Vec<(PathBuf, Options)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/parquet");
    let paths = std::fs::read_dir(folder).unwrap();
    let paths = paths.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "parquet"))
        .map(|path| {
            let needs_prefix = path.to_string_lossy().contains("disable_aad_storage");
            let aad_prefix = needs_prefix.then(|| b"tester".to_vec());
            (path, Options { aad_prefix })
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found.len(), 7);
    found
}

#[test]
fn the_same_file_as_on_the_host() {
    let Some(device) = device() else { return };
    let (engine, mut gpu) = (engine(), GpuDecryption::new(&device));
    for (path, options) in files() {
        let source = std::fs::read(&path).unwrap();
        let mut wanted = Vec::new();
        decrypt_slice(&source, &mut wanted, &mut keys(), &options, &engine).unwrap();
        let found = gpu
            .decrypt(&source, None, &mut keys(), &options, &engine)
            .unwrap();
        let mut bytes = vec![0xcc; found.len()];
        found.read(0, &mut bytes).unwrap();
        assert!(bytes == wanted, "{}", path.display());
        let file = std::fs::File::open(&path).unwrap();
        let found = gpu.decrypt(&source, Some(&file), &mut keys(), &options, &engine);
        found.unwrap().read(0, &mut bytes).unwrap();
        assert!(bytes == wanted, "{}", path.display());
    }
}

#[test]
fn all_key_lengths_and_both_modes() {
    let Some(device) = device() else { return };
    let (engine, mut gpu) = (engine(), GpuDecryption::new(&device));
    let (path, options) = &files()[0];
    let source = std::fs::read(path).unwrap();
    let mut plain = Vec::new();
    decrypt_slice(&source, &mut plain, &mut keys(), options, &engine).unwrap();
    for len in [16, 24, 32] {
        for ctr in [false, true] {
            let bytes: Vec<u8> = (0..len).collect();
            let how = Encryption {
                footer: WriteKey {
                    bytes: bytes.clone().into(),
                    metadata: None,
                },
                ctr,
                plaintext_footer: len == 24,
                ..Encryption::default()
            };
            let mut sealed = Vec::new();
            encrypt_slice(&plain, &mut sealed, &how, &engine).unwrap();
            let mut keys = GivenKeys {
                footer: Some(bytes.into()),
                ..GivenKeys::default()
            };
            let mut wanted = Vec::new();
            decrypt_slice(
                &sealed,
                &mut wanted,
                &mut keys,
                &Options::default(),
                &engine,
            )
            .unwrap();
            let found = gpu.decrypt(&sealed, None, &mut keys, &Options::default(), &engine);
            let found = found.unwrap();
            let mut bytes = vec![0xcc; found.len()];
            found.read(0, &mut bytes).unwrap();
            assert!(bytes == wanted, "{len} {ctr}");
        }
    }
}

#[test]
fn a_changed_page_is_named() {
    let Some(device) = device() else { return };
    let (engine, mut gpu) = (engine(), GpuDecryption::new(&device));
    // All of its columns are encrypted.
    let (path, options) = &files()[6];
    assert!(path.ends_with("uniform_encryption.parquet"));
    let mut source = std::fs::read(path).unwrap();
    let mut refused = 0;
    for at in (100..source.len()).step_by(source.len() / 40) {
        source[at] ^= 1;
        let mut out = Vec::new();
        let host = decrypt_slice(&source, &mut out, &mut keys(), options, &engine);
        let found = gpu
            .decrypt(&source, None, &mut keys(), options, &engine)
            .map(drop);
        match (host, found) {
            (Err(Error::Changed(host)), Err(Error::Changed(found))) => {
                assert_eq!(host, found);
                refused += 1;
            }
            (Err(host), Err(found)) => assert_eq!(host.to_string(), found.to_string()),
            (host, found) => assert_eq!(host.is_ok(), found.is_ok()),
        }
        source[at] ^= 1;
    }
    assert!(refused > 20);
}
