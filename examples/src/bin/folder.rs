//! An encrypted folder without a mount: `warplock vault mount` shows the same files.

use warplock_vault::{Error, Options, Settings, VaultFiles, init};

fn main() -> Result<(), Error> {
    let (recipients, identities) = warplock_examples::new_identity()?;
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    std::fs::create_dir(&store)?;
    init(&store, &Settings::default(), "me", &recipients)?;

    // This machine's memory of the vault lies next to it, so that the example leaves nothing behind.
    let options = Options {
        memory: Some(folder.path().join("memory")),
        ..Options::default()
    };
    let vault = VaultFiles::open_with(&store, &identities, options)?;
    vault.create_dir_all("letters")?;
    vault.write("letters/may.txt", b"Dear ...")?;
    assert_eq!(vault.read("letters/may.txt")?, b"Dear ...");
    println!("in the vault: {:?}", vault.list("letters")?);
    vault.close()?;
    for entry in std::fs::read_dir(&store)? {
        println!("in the store: {}", entry?.file_name().display());
    }
    Ok(())
}
