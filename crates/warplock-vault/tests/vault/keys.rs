//! Wrapped keys: several, changed, removed, recovered; on a real folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Barrier};

use warplock_keyring::{Identities, MasterKey, NewIdentity, NoPrompt, Recipients, SecretString};
use warplock_vault::{
    CheckOptions, Class, Error, ErrorKind, Options, Settings, Vault, add_key, check, info, init,
    remove_key, replace_key, unlock,
};

fn passphrase(text: &'static str) -> (Recipients, Identities) {
    let mut to = Recipients::new(Arc::new(NoPrompt));
    to.add_passphrase(SecretString::from(text)).unwrap();
    to.set_work_factor(2);
    let prompt = move |_: &str| Ok(SecretString::from(text));
    let mut from = Identities::new(Arc::new(prompt));
    from.add_passphrase();
    (to, from)
}

fn printed() -> (Recipients, Identities) {
    let identity = NewIdentity::generate();
    let mut to = Recipients::new(Arc::new(NoPrompt));
    to.add(&identity.recipient()).unwrap();
    let mut from = Identities::new(Arc::new(NoPrompt));
    from.add("paper", identity.file_text().as_bytes()).unwrap();
    (to, from)
}

fn opened(path: &Path, identities: &Identities) -> MasterKey {
    let unlocked = unlock(path, identities).unwrap();
    assert_eq!(unlocked.altered, [""; 0]);
    unlocked.master
}

fn refused(path: &Path, identities: &Identities) -> ErrorKind {
    unlock(path, identities).unwrap_err().kind()
}

/// Programs that copy the store by lengths and whole seconds see each change of a key.
#[test]
fn settings_are_never_as_old_as_those_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let shown = || {
        let found = path.join("warplock.vault").metadata().unwrap();
        (found.len(), found.mtime())
    };
    let (to, _) = passphrase("first");
    let key = init(path, &Settings::default(), "me", &to).unwrap();
    for _ in 0..3 {
        let (len, second) = shown();
        replace_key(path, &key, "me", &to).unwrap();
        assert_eq!(shown().0, len);
        assert!(shown().1 > second);
    }
}

#[test]
fn several_changed_removed_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let (first_to, first) = passphrase("first");
    let (second_to, second) = passphrase("second");
    let (paper_to, paper) = printed();
    let key = init(path, &Settings::default(), "me", &first_to).unwrap();
    assert!(opened(path, &first) == key);
    assert_eq!(refused(path, &second), ErrorKind::Authentication);
    assert_eq!(refused(path, &paper), ErrorKind::Authentication);

    add_key(path, &key, "paper", &paper_to).unwrap();
    add_key(path, &key, "you", &second_to).unwrap();
    for identities in [&first, &second, &paper] {
        assert!(opened(path, identities) == key);
    }
    let names: Vec<_> = info(path)
        .unwrap()
        .keys
        .into_iter()
        .map(|key| key.0)
        .collect();
    assert_eq!(names, ["me", "paper", "you"]);

    let (third_to, third) = passphrase("third");
    replace_key(path, &key, "me", &third_to).unwrap();
    remove_key(path, &key, "you").unwrap();
    assert_eq!(refused(path, &first), ErrorKind::Authentication);
    assert_eq!(refused(path, &second), ErrorKind::Authentication);
    for identities in [&third, &paper] {
        assert!(opened(path, identities) == key);
    }

    let again = add_key(path, &key, "paper", &second_to).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Usage);
    remove_key(path, &key, "me").unwrap();
    let last = remove_key(path, &key, "paper").unwrap_err();
    assert!(last.to_string().contains("last key"));
    let other = MasterKey::generate().unwrap();
    let foreign = add_key(path, &other, "x", &second_to).unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::Authentication);
}

#[test]
fn one_writer_or_readers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let (to, _) = printed();
    let key = init(path, &Settings::default(), "me", &to).unwrap();
    let reading = || Options {
        read_only: true,
        ..Options::default()
    };
    let writer = Vault::open(path, &key, Options::default()).unwrap();
    for options in [Options::default(), reading()] {
        let locked = Vault::open(path, &key, options).err().unwrap();
        assert!(matches!(locked, Error::Locked { .. }), "{locked}");
        assert!(
            locked.to_string().contains(&std::process::id().to_string()),
            "{locked}"
        );
    }
    drop(writer);
    let _one = Vault::open(path, &key, reading()).unwrap();
    let _two = Vault::open(path, &key, reading()).unwrap();
    assert!(Vault::open(path, &key, Options::default()).is_err());
}

#[test]
fn a_vault_needs_an_empty_folder_and_known_settings() {
    let dir = tempfile::tempdir().unwrap();
    let (to, _) = printed();
    let strange = Settings {
        block_size: 5000,
        ..Settings::default()
    };
    let refused = init(dir.path(), &strange, "me", &to).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
    std::fs::write(dir.path().join("file"), "").unwrap();
    let refused = init(dir.path(), &Settings::default(), "me", &to).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
}

/// No change is lost, and the remains of an interrupted one are tidied up.
#[test]
fn several_at_the_same_time() {
    const COUNT: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let (to, from) = printed();
    let key = init(path, &Settings::default(), "me", &to).unwrap();
    let start = Barrier::new(COUNT);
    std::thread::scope(|scope| {
        for number in 0..COUNT {
            let (key, start) = (&key, &start);
            let (to, _) = printed();
            scope.spawn(move || {
                start.wait();
                for round in 0..4 {
                    add_key(path, key, &format!("{number} {round}"), &to).unwrap();
                }
                remove_key(path, key, &format!("{number} 0")).unwrap();
            });
        }
    });
    assert_eq!(info(path).unwrap().keys.len(), 1 + 3 * COUNT);
    assert!(opened(path, &from) == key);

    let left = path.join("warplock.vault.new.0123456789abcdef");
    // Of no meaning: the next change locks and removes it.
    std::fs::write(path.join("warplock.vault.new.lock"), "").unwrap();
    std::fs::write(&left, "# A Warplock vault: the").unwrap();
    let vault = Vault::open(path, &key, Options::default()).unwrap();
    let options = CheckOptions {
        quick: false,
        repair: true,
    };
    let report = check(&vault, options, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 1, "of others there is nothing left");
    assert!(report.findings[0].class == Class::Crash && report.findings[0].repaired);
    assert!(!left.exists());
}
