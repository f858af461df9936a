//! A file, encrypted and decrypted: outputs appear only when they are complete and verified.

use std::fs;

use warplock_container::{Error, Pipeline, decrypt_file, encrypt_file, verify_file};

fn main() -> Result<(), Error> {
    let (recipients, identities) = warplock_examples::new_identity()?;
    let folder = tempfile::tempdir().map_err(Error::Write)?;
    let path = |name: &str| folder.path().join(name);
    fs::write(path("report.txt"), "a long story\n".repeat(100_000)).map_err(Error::Write)?;

    let pipeline = Pipeline::new()?;
    encrypt_file(
        path("report.txt"),
        path("report.txt.wl"),
        &recipients,
        &pipeline,
    )?;
    verify_file(path("report.txt.wl"), &identities, &pipeline)?;
    decrypt_file(
        path("report.txt.wl"),
        path("again.txt"),
        &identities,
        &pipeline,
    )?;
    assert_eq!(
        fs::read(path("again.txt")).ok(),
        fs::read(path("report.txt")).ok()
    );

    // A single changed byte: an error that says where, and no output.
    let mut sealed = fs::read(path("report.txt.wl")).map_err(Error::Read)?;
    sealed[500_000] ^= 1;
    fs::write(path("changed.wl"), sealed).map_err(Error::Write)?;
    let refused = decrypt_file(path("changed.wl"), path("never"), &identities, &pipeline);
    println!("{}", refused.unwrap_err());
    assert!(!path("never").exists());
    Ok(())
}
