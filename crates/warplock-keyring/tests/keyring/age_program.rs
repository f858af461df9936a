//! The real `age` program opens what we wrap, and we open what it wraps.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use crate::common::*;
use warplock_keyring::{
    FileAttributes, Identities, MasterKey, NewIdentity, NoPrompt, StanzaKind, inspect_wrapped,
    unwrap, wrap_with,
};

/// Files written by age 1.1.1, so that this much is tested without the program.
#[test]
fn files_of_the_program_open() {
    let recipients = data("wrapped_by_age_recipients.age");
    assert_eq!(
        inspect_wrapped(&recipients).unwrap(),
        [
            StanzaKind::X25519,
            StanzaKind::SshEd25519,
            StanzaKind::SshRsa
        ]
    );
    for name in ["age_identity", "ssh_ed25519", "ssh_rsa", "ssh_rsa_pem"] {
        let opened = unwrap(&recipients, &identity(name, Arc::new(NoPrompt))).unwrap();
        assert_eq!(opened, known_key(), "{name}");
    }
    let passphrase = data("wrapped_by_age_passphrase.age");
    assert_eq!(
        unwrap(&passphrase, &passphrase_identity(PASSPHRASE)).unwrap(),
        known_key()
    );
}

/// Runs a program, or says that it is not there.
fn run(program: &str, args: &[&dyn AsRef<std::ffi::OsStr>]) -> Option<Vec<u8>> {
    match Command::new(program)
        .args(args.iter().map(AsRef::as_ref))
        .output()
    {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} failed: {errors}");
            Some(output.stdout)
        }
        Err(_) => {
            eprintln!("skipped: no {program} program");
            None
        }
    }
}

#[cfg(unix)]
fn private_copy(name: &str, dir: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(name);
    std::fs::write(&path, data(name)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[cfg(unix)]
#[test]
fn the_program_opens_ours() {
    let dir = tempfile::tempdir().unwrap();
    let (me, file) = (dir.path().join("me.txt"), dir.path().join("key.age"));
    let new = NewIdentity::generate();
    warplock_keyring::write_secret_file(&me, new.file_text().as_bytes(), false).unwrap();
    let key = MasterKey::generate().unwrap();
    let mut all = recipients(&[
        &new.recipient(),
        &data_text("ssh_ed25519.pub"),
        &data_text("ssh_rsa.pub"),
    ]);
    all.prepare_for_many();
    // It passes over a stanza that it does not know.
    let attributes = FileAttributes {
        mode: 0o644,
        modified: SystemTime::now(),
    };
    std::fs::write(&file, wrap_with(&key, &all, Some(&attributes)).unwrap()).unwrap();
    let (ed25519, rsa) = (
        private_copy("ssh_ed25519", dir.path()),
        private_copy("ssh_rsa", dir.path()),
    );
    for identity in [me, ed25519, rsa] {
        let Some(opened) = run("age", &[&"-d", &"-i", &identity, &file]) else {
            return;
        };
        assert_eq!(opened, key.as_bytes(), "{}", identity.display());
    }
}

#[test]
fn we_open_the_programs() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    let key = MasterKey::generate().unwrap();
    std::fs::write(&plain, key.as_bytes()).unwrap();
    let new = NewIdentity::generate();
    let (ed25519, rsa) = (data_path("ssh_ed25519.pub"), data_path("ssh_rsa.pub"));
    let Some(wrapped) = run(
        "age",
        &[
            &"-r",
            &new.recipient(),
            &"-R",
            &ed25519,
            &"-R",
            &rsa,
            &plain,
        ],
    ) else {
        return;
    };
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities.add("new", new.file_text().as_bytes()).unwrap();
    assert_eq!(unwrap(&wrapped, &identities).unwrap(), key);
    for name in ["ssh_ed25519", "ssh_rsa"] {
        assert_eq!(
            unwrap(&wrapped, &identity(name, Arc::new(NoPrompt))).unwrap(),
            key,
            "{name}"
        );
    }
}

#[test]
fn age_keygen_and_we_agree() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let new = NewIdentity::generate();
    warplock_keyring::write_secret_file(&ours, new.file_text().as_bytes(), false).unwrap();
    let Some(recipient) = run("age-keygen", &[&"-y", &ours]) else {
        return;
    };
    assert_eq!(
        String::from_utf8(recipient).unwrap().trim(),
        new.recipient()
    );
    run("age-keygen", &[&"-o", &theirs]).unwrap();
    let recipient = String::from_utf8(run("age-keygen", &[&"-y", &theirs]).unwrap()).unwrap();
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities.add_file(&theirs).unwrap();
    assert_eq!(identities.recipients().unwrap(), [recipient.trim()]);
}
