//! Into GPU memory. Where there is no GPU, these tests say so.

#[path = "common/vectors.rs"]
mod vectors;

use warplock::Engine;
use warplock::cuda::Device;
use warplock_parquet::gpu::GpuDecryption;
use warplock_parquet::{
    Encryption, Error, GivenKeys, Options, WriteKey, decrypt_slice, encrypt_slice,
};

use crate::vectors::{files, keys};

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
