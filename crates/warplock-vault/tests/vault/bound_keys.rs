//! The names of wrapped keys: changed, exchanged, planted, dropped and brought back without the
//! master key; and the file that holds them: its permissions, its lock, its kind.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use warplock_keyring::{
    Identities, MasterKey, NewIdentity, NoPrompt, Recipients, SecretString, StanzaKind, to_armor,
    wrap,
};
use warplock_vault::{
    CONFIG, Error, ErrorKind, Settings, add_key, info, init, remove_altered_keys, remove_key,
    replace_key, unlock,
};

/// An X25519 key that opens a vault.
struct Person {
    to: Recipients,
    from: Identities,
}

impl Person {
    fn new() -> Self {
        let identity = NewIdentity::generate();
        let mut to = Recipients::new(Arc::new(NoPrompt));
        to.add(&identity.recipient()).unwrap();
        let mut from = Identities::new(Arc::new(NoPrompt));
        from.add("me", identity.file_text().as_bytes()).unwrap();
        Person { to, from }
    }
}

fn passphrase(text: &'static str) -> Person {
    let mut to = Recipients::new(Arc::new(NoPrompt));
    to.add_passphrase(SecretString::from(text)).unwrap();
    to.set_work_factor(2);
    let mut from = Identities::new(Arc::new(move |_: &str| Ok(SecretString::from(text))));
    from.add_passphrase();
    Person { to, from }
}

/// A vault with keys for alice, bob and a passphrase, in this order.
struct Shared {
    dir: tempfile::TempDir,
    master: MasterKey,
    alice: Person,
    bob: Person,
    paper: Person,
}

impl Shared {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (alice, bob, paper) = (Person::new(), Person::new(), passphrase("paper"));
        let master = init(dir.path(), &Settings::default(), "alice", &alice.to).unwrap();
        add_key(dir.path(), &master, "bob", &bob.to).unwrap();
        add_key(dir.path(), &master, "paper", &paper.to).unwrap();
        Shared {
            dir,
            master,
            alice,
            bob,
            paper,
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn config(&self) -> PathBuf {
        self.path().join(CONFIG)
    }

    /// The text up to the first key, and the text of each key.
    fn parts(&self) -> (String, Vec<String>) {
        let text = fs::read_to_string(self.config()).unwrap();
        let mut parts = text.split("\n[[key]]").map(str::to_owned);
        let head = parts.next().unwrap();
        (head, parts.collect())
    }

    fn write(&self, head: &str, keys: &[String]) {
        let mut text = head.to_owned();
        for key in keys {
            text.push_str("\n[[key]]");
            text.push_str(key);
        }
        fs::write(self.config(), text).unwrap();
    }

    fn altered(&self, person: &Person) -> Vec<String> {
        let unlocked = unlock(self.path(), &person.from).unwrap();
        assert!(unlocked.master == self.master);
        unlocked.altered
    }

    fn names(&self) -> Vec<String> {
        let keys = info(self.path()).unwrap().keys;
        keys.into_iter().map(|(name, _)| name).collect()
    }
}

/// A `[[key]]` that opens to `master`, with an invalid MAC.
fn planted(name: &str, master: &MasterKey, to: &Recipients) -> String {
    let (mac, age) = ("0".repeat(64), to_armor(&wrap(master, to).unwrap()));
    format!("\nname = \"{name}\"\nmac = \"{mac}\"\nage = \"\"\"\n{age}\"\"\"\n")
}

fn says(found: &[String], names: &[&str]) {
    assert_eq!(found.len(), names.len(), "{found:?}");
    for (sentence, name) in found.iter().zip(names) {
        assert!(sentence.contains(name), "{sentence} ({name})");
    }
}

#[test]
fn nothing_is_said_of_an_untouched_file() {
    let vault = Shared::new();
    for person in [&vault.alice, &vault.bob, &vault.paper] {
        assert!(vault.altered(person).is_empty());
    }
    let unlocked = unlock(vault.path(), &vault.bob.from).unwrap();
    assert_eq!(unlocked.key, "bob");
}

#[test]
fn exchanged_names_decide_nothing() {
    let vault = Shared::new();
    let (head, mut keys) = vault.parts();
    keys[0] = keys[0].replace("\"alice\"", "\"-\"");
    keys[1] = keys[1].replace("\"bob\"", "\"alice\"");
    keys[0] = keys[0].replace("\"-\"", "\"bob\"");
    vault.write(&head, &keys);
    says(&vault.altered(&vault.paper), &["'bob'", "'alice'"]);
    // Their own keys are no longer known to be theirs.
    for person in [&vault.alice, &vault.bob] {
        let refused = unlock(vault.path(), &person.from).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Authentication);
        assert!(refused.to_string().contains("renamed"), "{refused}");
    }
    let before = fs::read(vault.config()).unwrap();
    for name in ["alice", "bob"] {
        let removed = remove_key(vault.path(), &vault.master, name).unwrap_err();
        assert!(matches!(removed, Error::Altered { .. }), "{removed}");
        let replaced = replace_key(vault.path(), &vault.master, name, &vault.paper.to);
        assert_eq!(replaced.unwrap_err().kind(), ErrorKind::Authentication);
    }
    assert_eq!(fs::read(vault.config()).unwrap(), before);
    let removed = remove_altered_keys(vault.path(), &vault.master).unwrap();
    assert_eq!(removed, ["bob", "alice"]);
    assert_eq!(vault.names(), ["paper"]);
    assert!(vault.altered(&vault.paper).is_empty());
}

#[test]
fn a_name_and_a_key_are_bound_as_they_stand() {
    let vault = Shared::new();
    let (head, keys) = vault.parts();
    let other = Shared::new();
    let line = |text: &str, start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        line.unwrap().to_owned()
    };
    let (mac, others) = (line(&keys[0], "mac = "), line(&keys[1], "mac = "));
    for (what, changed) in [
        ("name", keys[0].replace("\"alice\"", "\"alicf\"")),
        ("longer name", keys[0].replace("\"alice\"", "\"alice \"")),
        ("mac", keys[0].replace(&mac, &others)),
        ("no mac", keys[0].replace(&mac, "mac = \"\"")),
        // The same person, the same name, another vault.
        ("vault", other.parts().1[0].clone()),
        (
            "wrapped again",
            planted("alice", &vault.master, &vault.alice.to).replace(&"0".repeat(64), &mac[7..71]),
        ),
    ] {
        let mut keys = keys.clone();
        keys[0] = changed;
        vault.write(&head, &keys);
        let found = vault.altered(&vault.bob);
        assert!(found[0].contains("'alic"), "{what}: {found:?}");
        let refused = unlock(vault.path(), &vault.alice.from);
        assert!(refused.is_err(), "{what}");
    }
}

#[test]
fn a_planted_key_keeps_no_user_out() {
    let vault = Shared::new();
    let (head, keys) = vault.parts();
    let foreign = MasterKey::generate().unwrap();
    let eve = Person::new();
    let plant = [
        // What alice and the passphrase open as well, to another vault.
        planted("alice2", &foreign, &vault.alice.to),
        planted("paper2", &foreign, &vault.paper.to),
        // A key for a foreign recipient.
        planted("eve", &foreign, &eve.to),
        "\nname = \"junk\"\nmac = \"\"\nage = \"\"\"\nAAAA\n\"\"\"\n".to_owned(),
        // A name twice.
        planted("alice", &foreign, &eve.to),
    ];
    vault.write(&head, &[&plant[..], &keys].concat());
    for person in [&vault.alice, &vault.bob, &vault.paper] {
        let found = vault.altered(person);
        says(
            &found,
            &["'alice2'", "'paper2'", "'eve'", "'junk'", "'alice'", "list"],
        );
    }
    assert_eq!(vault.names().len(), 8);
    assert_eq!(info(vault.path()).unwrap().keys[3].1, []);
    let refused = unlock(vault.path(), &eve.from).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Authentication);
    // Which of the two?
    let refused = remove_key(vault.path(), &vault.master, "alice").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Authentication);
    remove_altered_keys(vault.path(), &vault.master).unwrap();
    assert_eq!(vault.names(), ["alice", "bob", "paper"]);
    assert!(vault.altered(&vault.alice).is_empty());
}

#[test]
fn only_planted_keys_are_an_error_that_says_so() {
    let vault = Shared::new();
    let (head, _) = vault.parts();
    let foreign = MasterKey::generate().unwrap();
    vault.write(&head, &[planted("alice", &foreign, &vault.alice.to)]);
    let refused = unlock(vault.path(), &vault.alice.from).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Authentication);
    assert!(refused.to_string().contains("another vault's"), "{refused}");
    vault.write(&head, &[]);
    let refused = unlock(vault.path(), &vault.alice.from).unwrap_err();
    assert!(refused.to_string().contains("no key"), "{refused}");
}

#[test]
fn the_list_is_bound_too() {
    let vault = Shared::new();
    let (head, keys) = vault.parts();
    for (what, changed) in [
        ("dropped", vec![keys[0].clone(), keys[2].clone()]),
        (
            "moved",
            vec![keys[1].clone(), keys[0].clone(), keys[2].clone()],
        ),
        (
            "twice",
            vec![
                keys[0].clone(),
                keys[1].clone(),
                keys[2].clone(),
                keys[1].clone(),
            ],
        ),
    ] {
        vault.write(&head, &changed);
        let found = vault.altered(&vault.alice);
        assert_eq!(found.len(), 1, "{what}");
        assert!(found[0].contains("list"), "{what}: {found:?}");
    }
    // Removed, and brought back from an old copy.
    vault.write(&head, &keys);
    remove_key(vault.path(), &vault.master, "bob").unwrap();
    assert!(vault.altered(&vault.alice).is_empty());
    let (head, _) = vault.parts();
    let planted = planted("eve", &MasterKey::generate().unwrap(), &vault.bob.to);
    vault.write(
        &head,
        &[keys[0].clone(), keys[1].clone(), keys[2].clone(), planted],
    );
    says(&vault.altered(&vault.alice), &["'eve'", "list"]);
    // A change by the owner accepts the list, but no planted key.
    add_key(vault.path(), &vault.master, "carol", &vault.bob.to).unwrap();
    says(&vault.altered(&vault.alice), &["'eve'"]);
}

#[test]
fn what_opened_a_removed_key_is_told() {
    let vault = Shared::new();
    let scrypt = StanzaKind::Scrypt { log_n: Some(2) };
    let replaced = replace_key(vault.path(), &vault.master, "paper", &vault.bob.to).unwrap();
    assert_eq!(replaced, [scrypt]);
    let removed = remove_key(vault.path(), &vault.master, "paper").unwrap();
    assert_eq!(removed, [StanzaKind::X25519]);
}

/// The only key that is left must be one that opens the vault.
#[test]
fn a_planted_key_is_no_other_key() {
    let vault = Shared::new();
    let (head, keys) = vault.parts();
    let foreign = MasterKey::generate().unwrap();
    let planted = planted("eve", &foreign, &vault.bob.to);
    vault.write(&head, &[keys[0].clone(), planted]);
    let refused = remove_key(vault.path(), &vault.master, "alice").unwrap_err();
    assert!(refused.to_string().contains("last key"), "{refused}");
    vault.write(&head, &[keys[0].replace("\"alice\"", "\"bob\"")]);
    let refused = remove_altered_keys(vault.path(), &vault.master).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
}

#[test]
fn permissions_stay_as_they_are() {
    let vault = Shared::new();
    let mode = || fs::metadata(vault.config()).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(), 0o600, "of a new vault");
    for wanted in [0o600, 0o640, 0o644, 0o400] {
        fs::set_permissions(vault.config(), PermissionsExt::from_mode(wanted)).unwrap();
        replace_key(vault.path(), &vault.master, "paper", &vault.paper.to).unwrap();
        assert_eq!(mode(), wanted);
    }
    if rustix::process::geteuid().is_root() {
        let owner = || {
            use std::os::unix::fs::MetadataExt;
            let found = fs::metadata(vault.config()).unwrap();
            (found.uid(), found.gid())
        };
        std::os::unix::fs::chown(vault.config(), Some(1234), Some(2345)).unwrap();
        replace_key(vault.path(), &vault.master, "paper", &vault.paper.to).unwrap();
        assert_eq!(owner(), (1234, 2345));
    }
    let names: Vec<_> = fs::read_dir(vault.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 3, "no draft and no lock stay: {names:?}");
}

/// A reader of the file can lock it, and must not be able to keep a key in it.
#[test]
fn a_readers_lock_keeps_no_key_from_being_removed() {
    let vault = Shared::new();
    let reader = fs::File::open(vault.config()).unwrap();
    flock(&reader, FlockOperation::LockShared).unwrap();
    let folder = fs::File::open(vault.path()).unwrap();
    flock(&folder, FlockOperation::LockShared).unwrap();
    remove_key(vault.path(), &vault.master, "bob").unwrap();
    assert_eq!(vault.names(), ["alice", "paper"]);
}

/// A change that was interrupted, and one that does not end.
#[test]
fn another_change_is_waited_for_but_not_for_ever() {
    let vault = Shared::new();
    let lock = vault.path().join("warplock.vault.new.lock");
    fs::write(&lock, "").unwrap();
    add_key(
        vault.path(),
        &vault.master,
        "left by a crash",
        &vault.bob.to,
    )
    .unwrap();
    assert!(!lock.exists());
    let mut options = OpenOptions::new();
    let held = options
        .create(true)
        .truncate(true)
        .write(true)
        .open(&lock)
        .unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let refused = remove_key(vault.path(), &vault.master, "bob").unwrap_err();
    let pid = std::process::id().to_string();
    let text = refused.to_string();
    assert!(
        text.contains(&pid) && text.contains("warplock.vault.new.lock"),
        "{text}"
    );
    fs::remove_file(&lock).unwrap();
    for kind in [FileType::Fifo, FileType::Directory] {
        match kind {
            FileType::Directory => fs::create_dir(&lock).unwrap(),
            kind => mknodat(CWD, &lock, kind, Mode::from_raw_mode(0o600), 0).unwrap(),
        }
        let _ = remove_key(vault.path(), &vault.master, "bob");
        let _ = fs::remove_dir(&lock);
    }
}

#[test]
fn something_else_in_the_files_place_is_an_error_without_delay() {
    let vault = Shared::new();
    let config = vault.config();
    let (aside, good) = (vault.path().join("aside"), fs::read(&config).unwrap());
    let listener = |path: &Path| drop(UnixListener::bind(path).unwrap());
    let sparse = |path: &Path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    let node = |kind, device| {
        move |path: &Path| mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device).unwrap()
    };
    type Make = Box<dyn Fn(&Path)>;
    let mut kinds: Vec<(&str, &str, Make)> = vec![
        (
            "fifo",
            "not a regular file",
            Box::new(node(FileType::Fifo, 0)),
        ),
        ("socket", "not a regular file", Box::new(listener)),
        (
            "folder",
            "not a regular file",
            Box::new(|path| fs::create_dir(path).unwrap()),
        ),
        (
            "symlink",
            "not a regular file",
            Box::new(|path| symlink("aside", path).unwrap()),
        ),
        (
            "dangling",
            "not a regular file",
            Box::new(|path| symlink("x", path).unwrap()),
        ),
        ("sparse", "1048576 bytes", Box::new(sparse)),
        (
            "empty",
            "'format' is missing",
            Box::new(|path| fs::write(path, "").unwrap()),
        ),
    ];
    if rustix::process::geteuid().is_root() {
        // /dev/zero
        let zero = rustix::fs::makedev(1, 5);
        let device = node(FileType::CharacterDevice, zero);
        kinds.push(("device", "not a regular file", Box::new(device)));
    }
    fs::rename(&config, &aside).unwrap();
    for (kind, reason, make) in kinds {
        make(&config);
        for error in [
            info(vault.path()).unwrap_err(),
            unlock(vault.path(), &vault.alice.from).unwrap_err(),
            remove_key(vault.path(), &vault.master, "bob").unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(
                text.contains(reason) && text.contains(CONFIG),
                "{kind}: {text}"
            );
        }
        let _ = fs::remove_dir(&config).or_else(|_| fs::remove_file(&config));
    }
    assert_eq!(fs::read(&aside).unwrap(), good);
}
