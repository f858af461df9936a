//! Every way to replace an envelope, and what a crash leaves at each of its steps.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;

use tempfile::TempDir;
use warplock_keyring::{NewIdentity, NoPrompt};

use super::*;
use crate::error::ErrorKind;
use crate::{decrypt_file, encrypt_file, verify_file};

struct Person {
    recipients: Recipients,
    identities: Identities,
}

impl Person {
    fn new() -> Self {
        let new = NewIdentity::generate();
        let mut recipients = Recipients::new(Arc::new(NoPrompt));
        recipients.add(&new.recipient()).unwrap();
        let mut identities = Identities::new(Arc::new(NoPrompt));
        identities.add("me", new.file_text().as_bytes()).unwrap();
        Person {
            recipients,
            identities,
        }
    }

    fn opens(&self, path: &Path) -> bool {
        match verify_file(path, &self.identities, &Pipeline::new().unwrap()) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Authentication, "{error}");
                false
            }
        }
    }
}

/// A file `a.wl` with content of this length, for `old`.
struct Case {
    folder: TempDir,
    old: Person,
    new: Person,
}

impl Case {
    fn new(len: usize) -> Self {
        // For a file system with clones.
        let folder = match std::env::var_os("WARPLOCK_TEST_FOLDER") {
            Some(place) => tempfile::tempdir_in(place),
            None => tempfile::tempdir(),
        };
        let (folder, old, new) = (folder.unwrap(), Person::new(), Person::new());
        let case = Case { folder, old, new };
        fs::write(case.path("a"), vec![7; len]).unwrap();
        let pipeline = Pipeline::new().unwrap();
        let (from, to) = (case.path("a"), case.path("a.wl"));
        loop {
            encrypt_file(&from, &to, &case.old.recipients, &pipeline).unwrap();
            let envelope = Envelope::read(&mut File::open(&to).unwrap()).unwrap();
            // Rare lengths of the filler are not always found again.
            if (300..380).contains(&envelope.encoded_len()) {
                break;
            }
            fs::remove_file(&to).unwrap();
        }
        fs::remove_file(case.path("a")).unwrap();
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn rewrap(&self) -> Result<Rewrapped> {
        rewrap_file(
            self.path("a.wl"),
            &self.old.identities,
            &self.new.recipients,
        )
    }

    /// The file is whole, for `new` alone, and alone in its folder.
    #[track_caller]
    fn check_new(&self) {
        assert!(self.new.opens(&self.path("a.wl")));
        assert!(!self.old.opens(&self.path("a.wl")));
        assert_eq!(self.names(), ["a.wl"]);
    }
}

const LARGE: usize = 2 << 20;

#[test]
fn the_envelope_is_replaced_in_small_and_large_files() {
    for len in [0, 1, 100_000, LARGE] {
        let case = Case::new(len);
        let mode = |mode| fs::Permissions::from_mode(mode);
        fs::set_permissions(case.path("a.wl"), mode(0o640)).unwrap();
        let way = case.rewrap().unwrap();
        assert_eq!(way == Rewrapped::Copied, len < LARGE, "{len}: {way:?}");
        case.check_new();
        let found = fs::metadata(case.path("a.wl")).unwrap();
        assert_eq!(found.mode() & 0o777, 0o640);
        let pipeline = Pipeline::new().unwrap();
        let new = &case.new.identities;
        decrypt_file(case.path("a.wl"), case.path("a"), new, &pipeline).unwrap();
        assert_eq!(fs::read(case.path("a")).unwrap(), vec![7; len]);
    }
}

#[test]
fn an_envelope_of_another_length_makes_a_new_file() {
    let mut case = Case::new(LARGE);
    for _ in 0..5 {
        let more = NewIdentity::generate().recipient();
        case.new.recipients.add(&more).unwrap();
    }
    assert_eq!(case.rewrap().unwrap(), Rewrapped::Copied);
    case.check_new();
}

#[test]
fn wrong_keys_and_bare_streams_are_refused_and_nothing_changes() {
    let case = Case::new(LARGE);
    let before = fs::read(case.path("a.wl")).unwrap();
    let (stranger, new) = (Person::new(), &case.new.recipients);
    let refused = rewrap_file(case.path("a.wl"), &stranger.identities, new).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Authentication);
    let nobody = Recipients::new(Arc::new(NoPrompt));
    rewrap_file(case.path("a.wl"), &case.old.identities, &nobody).unwrap_err();
    assert_eq!(fs::read(case.path("a.wl")).unwrap(), before);

    // Another file's envelope before this stream.
    let other = Case::new(10);
    let mut swapped = before.clone();
    let key = MasterKey::generate().unwrap();
    let target = Target::open(&case.path("a.wl")).unwrap();
    let len = target.find_key(&case.old.identities).unwrap();
    let len = len.envelope.encoded_len();
    drop(target);
    let wrapped = envelope(&key, &case.old.recipients, None, Some((len, 0))).unwrap();
    let mut bytes = Vec::new();
    wrapped.write(&mut bytes).unwrap();
    swapped.splice(..len as usize, bytes);
    fs::write(case.path("a.wl"), &swapped).unwrap();
    assert!(matches!(case.rewrap(), Err(Error::WrongKey)));

    fs::write(other.path("a.wl"), &before[len as usize..]).unwrap();
    let bare = other.rewrap().unwrap_err();
    assert!(bare.to_string().contains("no envelope"), "{bare}");
    for refused in [other.folder.path(), Path::new("/dev/null")] {
        let refused = rewrap_file(refused, &other.old.identities, &other.new.recipients);
        assert!(matches!(refused, Err(Error::NotRewrappable(_))));
    }
}

#[test]
fn links_stay() {
    let case = Case::new(LARGE);
    fs::rename(case.path("a.wl"), case.path("real")).unwrap();
    symlink("real", case.path("a.wl")).unwrap();
    case.rewrap().unwrap();
    assert_eq!(fs::read_link(case.path("a.wl")).unwrap(), Path::new("real"));
    assert!(case.new.opens(&case.path("real")));

    for len in [10, LARGE] {
        let mut case = Case::new(len);
        fs::hard_link(case.path("a.wl"), case.path("b.wl")).unwrap();
        assert_eq!(case.rewrap().unwrap(), Rewrapped::InPlace);
        assert!(case.new.opens(&case.path("b.wl")));
        for _ in 0..5 {
            let more = NewIdentity::generate().recipient();
            case.old.recipients.add(&more).unwrap();
        }
        let (new, old) = (&case.new.identities, &case.old.recipients);
        let refused = rewrap_file(case.path("a.wl"), new, old).unwrap_err();
        assert!(refused.to_string().contains("hard links"), "{refused}");
        let pipeline = Pipeline::new().unwrap();
        let refused = rekey_file(case.path("a.wl"), new, old, &pipeline);
        assert!(matches!(refused, Err(Error::NotRewrappable(_))));
        assert!(case.new.opens(&case.path("a.wl")));
    }
}

#[test]
fn one_process_at_a_time() {
    let case = Case::new(LARGE);
    let first = Target::open(&case.path("a.wl")).unwrap();
    let second = case.rewrap().unwrap_err();
    assert!(second.to_string().contains("another process"), "{second}");
    drop(first);
    case.rewrap().unwrap();
}

/// Overwriting in place up to a step, and half of it: the next run with the old keys repairs it, or
/// finds that nothing needs repair.
#[test]
fn a_crash_at_any_step_loses_nothing() {
    let torn = [0, 1, 15, 16, 200, 300, 400, usize::MAX];
    for (steps, cut) in [(0, 0), (1, 0)].into_iter().chain(torn.map(|cut| (2, cut))) {
        let case = Case::new(LARGE);
        let path = case.path("a.wl");
        let target = Target::open(&path).unwrap();
        let found = target.find_key(&case.old.identities).unwrap();
        let len = found.envelope.encoded_len();
        let new = loop {
            let new = envelope(&found.key, &case.new.recipients, None, Some((len, 0))).unwrap();
            if new.encoded_len() == len {
                break new;
            }
        };
        if steps >= 1 {
            target.save(&found).unwrap();
        }
        if steps >= 2 {
            let mut bytes = Vec::new();
            new.write(&mut bytes).unwrap();
            bytes.truncate(cut);
            target.file.write_all_at(&bytes, 0).unwrap();
        }
        drop(target);
        assert_eq!(interrupted_rewrap(&path).is_some(), steps >= 1);
        case.rewrap().unwrap();
        case.check_new();
    }
}

#[test]
fn what_an_interrupted_run_has_saved_is_not_followed_as_a_link() {
    let case = Case::new(LARGE);
    fs::write(case.path("victim"), "text").unwrap();
    symlink("victim", case.path(".a.wl.rewrap")).unwrap();
    assert_eq!(interrupted_rewrap(case.path("a.wl")), None);
    let target = Target::open(&case.path("a.wl")).unwrap();
    let found = target.find_key(&case.old.identities).unwrap();
    target.save(&found).unwrap();
    assert_eq!(fs::read(case.path("victim")).unwrap(), b"text");
    assert!(interrupted_rewrap(case.path("a.wl")).is_some());
}

#[test]
fn a_new_key_for_the_content_leaves_nothing_of_the_old() {
    for len in [0, 100_000, LARGE] {
        let case = Case::new(len);
        let before = fs::read(case.path("a.wl")).unwrap();
        let (path, pipeline) = (case.path("a.wl"), Pipeline::new().unwrap());
        let new = &case.new.recipients;
        let done = rekey_file(&path, &case.old.identities, new, &pipeline).unwrap();
        assert_eq!(done, len as u64);
        case.check_new();
        let after = fs::read(&path).unwrap();
        let salts = |bytes: &[u8]| {
            let envelope = Envelope::read(&mut &bytes[..]).unwrap();
            let start = envelope.encoded_len() as usize;
            bytes[start..start + 24].to_vec()
        };
        assert_ne!(salts(&before), salts(&after));

        // An altered file stays as it is.
        let mut altered = before;
        *altered.last_mut().unwrap() ^= 1;
        fs::write(&path, &altered).unwrap();
        let refused = rekey_file(&path, &case.old.identities, new, &pipeline).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Authentication);
        assert_eq!(fs::read(&path).unwrap(), altered);
        assert_eq!(case.names(), ["a.wl"]);
    }
}
