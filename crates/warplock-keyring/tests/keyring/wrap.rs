//! Wrapping and unwrapping with every kind of recipient, and every way to fail.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::*;
use warplock_keyring::{
    Error, ErrorKind, ExposeSecret, FileAttributes, Identities, MAX_WRAPPED_LEN, MasterKey,
    NewIdentity, NoPrompt, Recipients, StanzaKind, from_armor, inspect_wrapped, to_armor, unwrap,
    wrap, wrap_with,
};

#[test]
fn every_kind_opens_its_own() {
    let key = MasterKey::generate().unwrap();
    let prompt = Answer::new(PASSPHRASE);
    let all = recipients(&[
        identity("age_identity", prompt.clone())
            .recipients()
            .unwrap()[0]
            .as_str(),
        &data_text("ssh_ed25519.pub"),
        &data_text("ssh_rsa.pub"),
    ]);
    let wrapped = wrap(&key, &all).unwrap();
    assert_eq!(
        inspect_wrapped(&wrapped).unwrap(),
        [
            StanzaKind::X25519,
            StanzaKind::SshEd25519,
            StanzaKind::SshRsa
        ]
    );
    for (name, passphrases) in [
        ("age_identity", 0),
        ("ssh_ed25519", 0),
        ("ssh_rsa", 0),
        ("ssh_rsa_pem", 0),
        ("pkcs8_rsa", 0),
        ("pkcs8_ed25519", 0),
        ("age_identity_encrypted.age", 1),
        ("ssh_ed25519_encrypted", 1),
        ("ssh_rsa_encrypted", 1),
    ] {
        let prompt = Answer::new(PASSPHRASE);
        let identities = identity(name, prompt.clone());
        assert_eq!(
            prompt.asked(),
            0,
            "{name}: reading an identity asks nothing"
        );
        assert_eq!(unwrap(&wrapped, &identities).unwrap(), key, "{name}");
        assert_eq!(
            unwrap(&wrapped, &identities).unwrap(),
            key,
            "{name}, second time"
        );
        assert_eq!(prompt.asked(), passphrases, "{name}: asked once at most");
    }
}

#[test]
fn a_passphrase_opens_its_own() {
    let key = MasterKey::generate().unwrap();
    let wrapped = wrap(&key, &passphrase_recipient("correct horse")).unwrap();
    assert_eq!(
        inspect_wrapped(&wrapped).unwrap(),
        [StanzaKind::Scrypt { log_n: Some(QUICK) }]
    );
    assert_eq!(
        unwrap(&wrapped, &passphrase_identity("correct horse")).unwrap(),
        key
    );

    let error = unwrap(&wrapped, &passphrase_identity("correct house")).unwrap_err();
    assert!(matches!(error, Error::WrongPassphrase { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Authentication);
    assert!(!error.to_string().contains("house"));
}

/// Keyboards and systems differ in how they write an accented letter.
#[test]
fn a_passphrase_opens_in_every_unicode_form() {
    const FORMS: [&str; 3] = [
        "d\u{e9}j\u{e0} vu",
        "de\u{301}ja\u{300} vu",
        "de\u{301}j\u{e0} vu",
    ];
    for made in FORMS {
        let wrapped = wrap(&known_key(), &passphrase_recipient(made)).unwrap();
        for typed in FORMS {
            let opened = unwrap(&wrapped, &passphrase_identity(typed));
            assert_eq!(opened.unwrap(), known_key(), "{made:?} {typed:?}");
        }
    }
    // The age program takes what is typed, whatever its form.
    for (made, opens) in FORMS.into_iter().zip([&FORMS[..], &FORMS[..], &FORMS[2..]]) {
        let mut recipient = age::scrypt::Recipient::new(made.to_owned().into());
        recipient.set_work_factor(QUICK);
        let recipients = std::iter::once(&recipient as &dyn age::Recipient);
        let mut wrapped = Vec::new();
        let mut writer = age::Encryptor::with_recipients(recipients)
            .unwrap()
            .wrap_output(&mut wrapped)
            .unwrap();
        writer.write_all(known_key().as_bytes()).unwrap();
        writer.finish().unwrap();
        for typed in opens {
            let opened = unwrap(&wrapped, &passphrase_identity(typed));
            assert_eq!(opened.unwrap(), known_key(), "{made:?} {typed:?}");
        }
    }
}

#[test]
fn the_default_work_takes_128_mib() {
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    recipients.add_passphrase("x".to_string().into()).unwrap();
    let wrapped = wrap(&known_key(), &recipients).unwrap();
    assert_eq!(
        inspect_wrapped(&wrapped).unwrap(),
        [StanzaKind::Scrypt { log_n: Some(17) }]
    );
}

#[test]
fn no_match_says_what_is_needed() {
    let key = known_key();
    let stranger = NewIdentity::generate();
    let for_stranger = wrap(&key, &recipients(&[&stranger.recipient()])).unwrap();
    let for_passphrase = wrap(&key, &passphrase_recipient("p")).unwrap();
    let nothing = Identities::new(Arc::new(NoPrompt));

    for (wrapped, identities, says) in [
        (
            &for_stranger,
            identity("age_identity", Arc::new(NoPrompt)),
            "it is for: X25519",
        ),
        (
            &for_stranger,
            identity("ssh_rsa", Arc::new(NoPrompt)),
            "it is for: X25519",
        ),
        (
            &for_stranger,
            passphrase_identity("p"),
            "a passphrase does not open",
        ),
        (
            &for_passphrase,
            identity("age_identity", Arc::new(NoPrompt)),
            "needs a passphrase",
        ),
        (
            &for_passphrase,
            Identities::new(Arc::new(NoPrompt)),
            "needs a passphrase",
        ),
        (&for_stranger, nothing, "needs an identity"),
    ] {
        let error = unwrap(wrapped, &identities).unwrap_err();
        assert!(matches!(error, Error::NoMatch { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Authentication);
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn no_passphrase_is_asked_for_in_vain() {
    let key = known_key();
    let for_rsa = wrap(&key, &recipients(&[&data_text("ssh_rsa.pub")])).unwrap();
    let for_passphrase = wrap(&key, &passphrase_recipient(PASSPHRASE)).unwrap();

    // The header shows that this SSH key is not meant.
    let prompt = Answer::new(PASSPHRASE);
    let other = identity("ssh_ed25519_encrypted", prompt.clone());
    assert!(matches!(
        unwrap(&for_rsa, &other),
        Err(Error::NoMatch { .. })
    ));
    // Nor is the passphrase of an identity file that of the key.
    let encrypted = identity("age_identity_encrypted.age", prompt.clone());
    assert!(matches!(
        unwrap(&for_passphrase, &encrypted),
        Err(Error::NoMatch { .. })
    ));
    // Nor is a passphrase any use for a key wrapped for recipients.
    let mut identities = Identities::new(prompt.clone());
    identities.add_passphrase();
    assert!(matches!(
        unwrap(&for_rsa, &identities),
        Err(Error::NoMatch { .. })
    ));
    assert_eq!(prompt.asked(), 0);
}

#[test]
fn a_wrong_passphrase_of_an_identity_names_its_file() {
    let key = known_key();
    let all = recipients(&[
        identity("age_identity", Arc::new(NoPrompt))
            .recipients()
            .unwrap()[0]
            .as_str(),
        &data_text("ssh_ed25519.pub"),
        &data_text("ssh_rsa.pub"),
    ]);
    let wrapped = wrap(&key, &all).unwrap();
    for name in [
        "age_identity_encrypted.age",
        "ssh_ed25519_encrypted",
        "ssh_rsa_encrypted",
    ] {
        let error = unwrap(&wrapped, &identity(name, Answer::new("wrong"))).unwrap_err();
        assert!(
            matches!(&error, Error::WrongPassphrase { what } if what == name),
            "{error}"
        );
        let error = unwrap(&wrapped, &identity(name, Arc::new(NoPrompt))).unwrap_err();
        assert!(matches!(&error, Error::NoPassphrase { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn the_first_identity_that_fits_is_used() {
    let (alice, bob) = (NewIdentity::generate(), NewIdentity::generate());
    let wrapped = wrap(&known_key(), &recipients(&[&bob.recipient()])).unwrap();
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities
        .add("alice", alice.file_text().as_bytes())
        .unwrap();
    identities.add("ssh", &data("ssh_rsa")).unwrap();
    identities.add("bob", bob.file_text().as_bytes()).unwrap();
    assert_eq!(unwrap(&wrapped, &identities).unwrap(), known_key());
    // Several in one file serve as well.
    let both = [
        alice.file_text().as_bytes(),
        b"\n",
        bob.file_text().as_bytes(),
    ]
    .concat();
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities.add("both", &both).unwrap();
    assert_eq!(unwrap(&wrapped, &identities).unwrap(), known_key());
    assert_eq!(
        identities.recipients().unwrap(),
        [alice.recipient(), bob.recipient()]
    );
}

#[test]
fn a_passphrase_stands_alone() {
    let mut mixed = recipients(&[&NewIdentity::generate().recipient()]);
    mixed.add_passphrase("p".to_string().into()).unwrap();
    let error = wrap(&known_key(), &mixed).unwrap_err();
    assert!(matches!(error, Error::MixedPassphrase), "{error}");
    assert_eq!(error.kind(), ErrorKind::Usage);
    let twice = mixed.add_passphrase("q".to_string().into());
    assert!(matches!(twice, Err(Error::MixedPassphrase)));
    let nobody = Recipients::new(Arc::new(NoPrompt));
    assert!(nobody.is_empty());
    assert!(matches!(
        wrap(&known_key(), &nobody),
        Err(Error::NoRecipients)
    ));
}

#[test]
fn only_32_bytes_are_a_key() {
    let alice: age::x25519::Identity = {
        let text = data_text("age_identity");
        text.lines().last().unwrap().parse().unwrap()
    };
    let identities = identity("age_identity", Arc::new(NoPrompt));
    for len in [0, 1, 31, 33, 64, 65536, 65537] {
        let file = age::encrypt(&alice.to_public(), &vec![7; len]).unwrap();
        let error = unwrap(&file, &identities).unwrap_err();
        assert!(matches!(error, Error::PayloadLength), "{len}: {error}");
    }
    let file = age::encrypt(&alice.to_public(), &[7; 32]).unwrap();
    assert_eq!(unwrap(&file, &identities).unwrap().as_bytes(), &[7; 32]);
}

#[test]
fn recipients_of_an_identity() {
    let prompt = Answer::new(PASSPHRASE);
    let mut identities = Identities::new(prompt.clone());
    for name in [
        "age_identity_encrypted.age",
        "ssh_ed25519_encrypted",
        "ssh_rsa_pem",
    ] {
        identities.add(name, &data(name)).unwrap();
    }
    let without_comment = |name| {
        data_text(name)
            .trim()
            .trim_end_matches(" test only")
            .to_string()
    };
    let age_recipient = data_text("age_identity").lines().nth(1).unwrap()[14..].to_string();
    assert_eq!(
        identities.recipients().unwrap(),
        [
            age_recipient,
            without_comment("ssh_ed25519.pub"),
            without_comment("ssh_rsa.pub")
        ]
    );
    assert_eq!(prompt.asked(), 1, "public SSH keys need no passphrase");

    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    recipients.add_identities(&identities).unwrap();
    let wrapped = wrap(&known_key(), &recipients).unwrap();
    for name in ["age_identity", "ssh_ed25519", "ssh_rsa"] {
        let opened = unwrap(&wrapped, &identity(name, Arc::new(NoPrompt))).unwrap();
        assert_eq!(opened, known_key(), "{name}");
    }
}

#[test]
fn armor_round_trip() {
    let wrapped = wrap(&known_key(), &passphrase_recipient("p")).unwrap();
    let text = to_armor(&wrapped);
    assert!(text.starts_with("-----BEGIN AGE ENCRYPTED FILE-----\n"));
    assert_eq!(from_armor(&text).unwrap(), wrapped);
    assert!(from_armor("hello").is_err());
    assert!(from_armor(&text[..text.len() - 40]).is_err());
    // Armor is a form of its own: the binary form is the only one that unwraps.
    let error = unwrap(text.as_bytes(), &passphrase_identity("p")).unwrap_err();
    assert!(matches!(error, Error::NotAgeFile { .. }), "{error}");
}

#[test]
fn too_many_recipients_are_noticed_when_wrapping() {
    let alice = NewIdentity::generate().recipient();
    // Their stanzas are the longest.
    let rsa = rsa_recipient(4096);
    let many = vec![&*rsa; MAX_WRAPPED_LEN / 700];
    let error = wrap(&known_key(), &recipients(&many)).unwrap_err();
    assert!(matches!(error, Error::TooManyRecipients { .. }), "{error}");

    let thousand: Vec<_> = std::iter::repeat_n(alice.as_str(), 1000).collect();
    let wrapped = wrap(&known_key(), &recipients(&thousand)).unwrap();
    assert_eq!(inspect_wrapped(&wrapped).unwrap().len(), 1000);
}

#[test]
fn identities_and_keys_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Identities>();
    shared::<MasterKey>();
    sent::<Recipients>();
    assert!(Identities::new(Arc::new(NoPrompt)).is_empty());
}

#[test]
fn debug_of_secrets_is_silent() {
    let identities = identity("age_identity", Arc::new(NoPrompt));
    assert!(!format!("{identities:?}").contains("SECRET"));
    let recipients = passphrase_recipient("hush");
    assert!(!format!("{recipients:?}").contains("hush"));
    let secret: warplock_keyring::SecretString = "hush".to_string().into();
    assert!(!format!("{secret:?}").contains(secret.expose_secret()));
}

/// A file's attributes travel in its header, and nothing else changes.
#[test]
fn attributes_travel_with_a_key() {
    let attributes = FileAttributes {
        mode: 0o640,
        modified: SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789),
    };
    let key = MasterKey::generate().unwrap();
    let recipients = recipients(&[
        &data_text("ssh_ed25519.pub"),
        &NewIdentity::generate().recipient(),
    ]);
    let wrapped = wrap_with(&key, &recipients, Some(&attributes)).unwrap();
    assert_eq!(
        inspect_wrapped(&wrapped).unwrap(),
        [StanzaKind::SshEd25519, StanzaKind::X25519]
    );
    let identities = identity("ssh_ed25519", Arc::new(NoPrompt));
    assert_eq!(unwrap(&wrapped, &identities).unwrap(), key);
    // Made by Python's `cryptography` from the description in docs/format.md.
    let known = wrap_with(&known_key(), &recipients, Some(&attributes)).unwrap();
    let body = "kEnH62UnDZy+TWLBrtpvgPjBCrkq/2dgrd3kjm5lS+U";
    assert!(
        String::from_utf8_lossy(&known).contains(&format!("-> warplock-attributes 1\n{body}\n"))
    );
    let read = |wrapped: &[u8]| warplock_keyring::attributes(wrapped, &key).unwrap();
    assert_eq!(read(&wrapped), Some(attributes));
    // What others cannot see without the key.
    assert_eq!(
        warplock_keyring::attributes(&wrapped, &known_key()).unwrap(),
        None
    );
    // The header's MAC covers them.
    let start = wrapped
        .windows(20)
        .position(|found| found == b"-> warplock-attribut")
        .unwrap();
    for at in start + 3..start + 30 {
        let mut altered = wrapped.clone();
        altered[at] ^= 1;
        unwrap(&altered, &identities).unwrap_err();
    }
    // A passphrase stands alone in its header.
    let passphrase = passphrase_recipient("correct horse");
    let wrapped = wrap_with(&key, &passphrase, Some(&attributes)).unwrap();
    assert_eq!(read(&wrapped), None);
    assert_eq!(read(&wrap(&key, &recipients).unwrap()), None);
    let none = recipients_of_nothing();
    assert!(matches!(
        wrap_with(&key, &none, Some(&attributes)),
        Err(Error::NoRecipients)
    ));
}

fn recipients_of_nothing() -> Recipients {
    Recipients::new(Arc::new(NoPrompt))
}
