//! Limits of the work, memory and time that an input can demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::common::*;
use warplock_keyring::{
    AskPassphrase, Error, Identities, MasterKey, NewIdentity, NoPrompt, Recipients, Result,
    SecretString, unwrap, unwrap_any, wrap,
};

/// Answers questions about work, and counts them and the passphrases that were asked for.
#[derive(Default)]
struct Person {
    agrees: bool,
    questions: AtomicUsize,
    passphrases: AtomicUsize,
}

impl AskPassphrase for Person {
    fn ask(&self, _: &str) -> Result<SecretString> {
        self.passphrases.fetch_add(1, Ordering::Relaxed);
        // No work is done without a passphrase.
        Err(Error::NoPassphrase {
            wanted: "passphrase".into(),
            why: "this is a test".into(),
        })
    }

    fn confirm(&self, message: &str, _: &str, _: Option<&str>) -> Option<bool> {
        assert!(message.contains("asks for"), "{message}");
        self.questions.fetch_add(1, Ordering::Relaxed);
        Some(self.agrees)
    }
}

impl Person {
    fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        (count(&self.questions), count(&self.passphrases))
    }
}

/// An age file whose passphrase stanza asks for other work than it was made with.
fn asking_for(log_n: u8) -> Vec<u8> {
    let wrapped = wrap(&known_key(), &passphrase_recipient("p")).unwrap();
    let text = format!(" {QUICK}\n");
    let at = wrapped
        .windows(3)
        .position(|found| found == text.as_bytes())
        .unwrap();
    [
        &wrapped[..at],
        format!(" {log_n}\n").as_bytes(),
        &wrapped[at + 3..],
    ]
    .concat()
}

/// An SSH key file that asks for this many rounds of bcrypt.
fn with_rounds(rounds: u32) -> Vec<u8> {
    let text = data_text("ssh_ed25519_encrypted");
    let (begin, rest) = text.split_once('\n').unwrap();
    let (body, end) = rest.trim_end().rsplit_once('\n').unwrap();
    let mut blob = BASE64_STANDARD.decode(body.replace('\n', "")).unwrap();
    let kdf = blob
        .windows(6)
        .position(|found| found == b"bcrypt")
        .unwrap();
    // Lengths of the options and the salt, 16 bytes of salt.
    let at = kdf + 6 + 4 + 4 + 16;
    blob[at..at + 4].copy_from_slice(&rounds.to_be_bytes());
    format!("{begin}\n{}\n{end}\n", BASE64_STANDARD.encode(blob)).into_bytes()
}

#[test]
fn much_scrypt_work_is_asked_about() {
    for (log_n, asked) in [(18, 0), (19, 1), (22, 1), (23, 0), (64, 0), (255, 0)] {
        let person = Arc::new(Person::default());
        let mut identities = Identities::new(person.clone());
        identities.add_passphrase();
        let error = unwrap(&asking_for(log_n), &identities).unwrap_err();
        let passphrases = usize::from(log_n == 18);
        assert_eq!(person.counts(), (asked, passphrases), "{log_n}: {error}");
        let text = error.to_string();
        match log_n {
            18 => assert!(matches!(error, Error::NoPassphrase { .. }), "{text}"),
            19..=22 => {
                let wanted =
                    matches!(error, Error::UnconfirmedWork { log_n: work, .. } if work == log_n);
                assert!(wanted, "{text}");
                assert!(text.contains("GiB") || text.contains("512 MiB"), "{text}");
            }
            _ => assert!(
                matches!(error, Error::ExcessiveWork { max: 22, .. }),
                "{text}"
            ),
        }
        // Where there is no one to answer.
        let nobody = passphrase_identity("p");
        if log_n > 18 {
            assert!(unwrap(&asking_for(log_n), &nobody).is_err());
        }
    }
}

#[test]
fn work_that_was_agreed_to_is_done() {
    let person = Arc::new(Person {
        agrees: true,
        ..Person::default()
    });
    let mut identities = Identities::new(person.clone());
    identities.add_passphrase();
    assert!(unwrap(&asking_for(20), &identities).is_err());
    assert_eq!(person.counts(), (1, 1));
    identities.accept_work(20);
    assert!(unwrap(&asking_for(20), &identities).is_err());
    assert_eq!(person.counts(), (1, 2));
    // What is accepted can be less, too.
    identities.accept_work(3);
    assert!(unwrap(&asking_for(4), &identities).is_err());
    assert_eq!(person.counts(), (2, 3));
}

#[test]
fn an_encrypted_identity_file_asks_as_well() {
    let person = Arc::new(Person::default());
    let mut identities = Identities::new(person.clone());
    identities.add("me.txt", &asking_for(20)).unwrap();
    let error = identities.recipients().unwrap_err();
    assert!(
        matches!(error, Error::UnconfirmedWork { log_n: 20, .. }),
        "{error}"
    );
    let other = wrap(
        &known_key(),
        &recipients(&[&NewIdentity::generate().recipient()]),
    )
    .unwrap();
    let error = unwrap(&other, &identities).unwrap_err();
    assert!(error.to_string().starts_with("me.txt asks for"), "{error}");
    assert_eq!(person.counts(), (2, 0));
}

#[test]
fn much_bcrypt_work_is_asked_about() {
    let wrapped = wrap(&known_key(), &recipients(&[&data_text("ssh_ed25519.pub")])).unwrap();
    for (rounds, questions) in [(128, 0), (129, 1), (2048, 1), (2049, 0), (u32::MAX, 0)] {
        let person = Arc::new(Person::default());
        let mut identities = Identities::new(person.clone());
        identities.add("id", &with_rounds(rounds)).unwrap();
        let error = unwrap(&wrapped, &identities).unwrap_err();
        let passphrases = usize::from(rounds == 128);
        assert_eq!(
            person.counts(),
            (questions, passphrases),
            "{rounds}: {error}"
        );
        match rounds {
            128 => assert!(matches!(error, Error::NoPassphrase { .. }), "{error}"),
            129..=2048 => assert!(matches!(error, Error::UnconfirmedWork { .. }), "{error}"),
            _ => assert!(matches!(error, Error::ExcessiveWork { .. }), "{error}"),
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_is_an_error() {
    crate::bounded::run("limits::too_little_memory_is_an_error", |meter| {
        meter.input("unwrap", || {
            let identities = passphrase_identity("p");
            let error = unwrap(&asking_for(17), &identities).unwrap_err();
            assert!(matches!(error, Error::NoMemory { mib: 132, .. }), "{error}");
            let error = unwrap_any(&[asking_for(17)], &identities, |_, _| Some(()));
            assert!(matches!(error, Err(Error::NoMemory { .. })), "{error:?}");
        });
        meter.input("wrap", || {
            let mut recipients = Recipients::new(Arc::new(NoPrompt));
            recipients.add_passphrase("p".to_string().into()).unwrap();
            let error = wrap(&known_key(), &recipients).unwrap_err();
            assert!(matches!(error, Error::NoMemory { .. }), "{error}");
        });
    });
}

#[test]
fn what_needs_no_passphrase_is_tried_first() {
    let person = Arc::new(Person::default());
    let mut identities = Identities::new(person.clone());
    for name in [
        "age_identity_encrypted.age",
        "ssh_ed25519_encrypted",
        "ssh_rsa",
    ] {
        identities.add(name, &data(name)).unwrap();
    }
    let to = recipients(&[&data_text("ssh_ed25519.pub"), &data_text("ssh_rsa.pub")]);
    let wrapped = wrap(&known_key(), &to).unwrap();
    assert_eq!(unwrap(&wrapped, &identities).unwrap(), known_key());
    assert_eq!(person.counts(), (0, 0));
}

/// `count` identities, of which the last one is given, too.
fn many(count: usize) -> (Vec<String>, Identities) {
    let mut identities = Identities::new(Arc::new(NoPrompt));
    let mut recipients = Vec::new();
    for _ in 0..count {
        let new = NewIdentity::generate();
        identities.add("me", new.file_text().as_bytes()).unwrap();
        recipients.push(new.recipient());
    }
    (recipients, identities)
}

#[test]
fn recipients_times_identities_are_limited() {
    let filler = NewIdentity::generate().recipient();
    let (own, identities) = many(10);
    let wrapped_for = |others: usize| {
        let mut to = vec![&*filler; others];
        to.push(&own[9]);
        wrap(&known_key(), &recipients(&to)).unwrap()
    };
    assert_eq!(unwrap(&wrapped_for(499), &identities).unwrap(), known_key());
    let wrapped = wrapped_for(1000);
    let error = unwrap(&wrapped, &identities).unwrap_err();
    assert!(
        matches!(error, Error::TooManyAttempts { stanzas: 1001, .. }),
        "{error}"
    );
    // Few recipients are tried with any number of identities.
    let (_, strangers) = many(500);
    let error = unwrap(&wrapped_for(15), &strangers).unwrap_err();
    assert!(matches!(error, Error::NoMatch { .. }), "{error}");
    let error = unwrap(&wrapped_for(16), &strangers).unwrap_err();
    assert!(
        matches!(error, Error::TooManyAttempts { stanzas: 17, .. }),
        "{error}"
    );
}

#[test]
fn as_many_recipients_as_can_be_read_are_written() {
    let own = NewIdentity::generate();
    let recipient = own.recipient();
    // age adds a stanza that opens nothing.
    let most = vec![&*recipient; 2047];
    let wrapped = wrap(&known_key(), &recipients(&most)).unwrap();
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities.add("me", own.file_text().as_bytes()).unwrap();
    assert_eq!(unwrap(&wrapped, &identities).unwrap(), known_key());
    for count in [2048, 2049] {
        let error = wrap(&known_key(), &recipients(&vec![&*recipient; count])).unwrap_err();
        assert!(matches!(error, Error::TooManyStanzas), "{error}");
    }
}

fn key(number: u8) -> MasterKey {
    MasterKey::from_bytes(&[number; 32])
}

#[test]
fn of_several_keys_the_right_one_opens() {
    let (own, mut identities) = many(1);
    identities = {
        let mut with_passphrase = Identities::new(Answer::new("p"));
        with_passphrase.add_passphrase();
        drop(identities);
        with_passphrase
    };
    let stranger = NewIdentity::generate().recipient();
    let list = vec![
        b"no age file".to_vec(),
        wrap(&key(1), &passphrase_recipient("p")).unwrap(),
        wrap(&key(2), &passphrase_recipient("q")).unwrap(),
        wrap(&key(3), &recipients(&[&own[0]])).unwrap(),
        wrap(&key(4), &passphrase_recipient("p")).unwrap(),
        wrap(&key(5), &recipients(&[&stranger])).unwrap(),
    ];
    let mut offered = Vec::new();
    let taken = unwrap_any(&list, &identities, |number, opened| {
        offered.push(number);
        (opened == key(4)).then_some(number)
    });
    assert_eq!(taken.unwrap(), 4);
    assert_eq!(
        offered,
        [1, 4],
        "one that is not accepted does not end the search"
    );
    let refused = unwrap_any(&list, &identities, |_, _| None::<()>).unwrap_err();
    assert!(
        matches!(refused, Error::WrongPassphrase { .. }),
        "{refused}"
    );
    let unmatched = unwrap_any(&[], &identities, |_, _| None::<()>).unwrap_err();
    assert!(matches!(unmatched, Error::NoMatch { .. }), "{unmatched}");
    let damaged = unwrap_any(&list[..1], &identities, |_, _| None::<()>).unwrap_err();
    assert!(matches!(damaged, Error::NotAgeFile { .. }), "{damaged}");
}

#[test]
fn of_several_keys_cheap_ones_are_tried_first() {
    let prompt = Answer::new("p");
    let own = NewIdentity::generate();
    let recipient = own.recipient();
    let mut identities = Identities::new(prompt.clone());
    identities.add_passphrase();
    identities.add("me", own.file_text().as_bytes()).unwrap();
    let filler = NewIdentity::generate().recipient();
    let crowd = [&*filler; 20]
        .into_iter()
        .chain([&*recipient])
        .collect::<Vec<_>>();
    let mut more_work = passphrase_recipient("p");
    more_work.set_work_factor(QUICK + 1);
    let list = [
        asking_for(21), // more than is done for one of several
        wrap(&key(1), &more_work).unwrap(),
        wrap(&key(2), &passphrase_recipient("p")).unwrap(),
        wrap(&key(3), &recipients(&crowd)).unwrap(),
        wrap(&key(4), &recipients(&[&recipient])).unwrap(),
    ];
    let mut offered = Vec::new();
    let error = unwrap_any(&list, &identities, |number, _| {
        offered.push((number, prompt.asked()));
        None::<()>
    });
    assert_eq!(offered, [(4, 0), (3, 0), (2, 1), (1, 2)]);
    assert!(
        matches!(error, Err(Error::ExcessiveWork { max: 20, .. })),
        "{error:?}"
    );
}
