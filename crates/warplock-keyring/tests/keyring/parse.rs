//! Recipient and identity texts: what is read, and what is refused with which reason.

use std::sync::Arc;

use crate::common::*;
use warplock_keyring::{Error, Identities, NewIdentity, NoPrompt, Recipients, unwrap, wrap};

fn list(content: &[u8]) -> Result<Recipients, Error> {
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    recipients
        .add_list("team.txt", content)
        .map(|()| recipients)
}

#[test]
fn a_recipients_file() {
    let alice = NewIdentity::generate();
    for end in ["\n", "\r\n"] {
        let text = format!(
            "# the team{end}{end}{}{end}  {}  {end}{}",
            alice.recipient(),
            data_text("ssh_ed25519.pub").trim(),
            data_text("ssh_rsa.pub").trim()
        );
        let wrapped = wrap(&known_key(), &list(text.as_bytes()).unwrap()).unwrap();
        for name in ["ssh_ed25519", "ssh_rsa"] {
            let identities = identity(name, Arc::new(NoPrompt));
            assert_eq!(unwrap(&wrapped, &identities).unwrap(), known_key());
        }
    }
}

#[test]
fn bad_lines_are_named_but_not_shown() {
    let alice = NewIdentity::generate().recipient();
    let cases: &[(&str, &str)] = &[
        ("", "names no recipient"),
        ("# only a comment\n", "names no recipient"),
        (&format!("{alice}\nnonsense\n"), "line 2"),
        (
            &data_text("age_identity"),
            "line 3: this is a secret identity",
        ),
        (&data_text("ssh_ecdsa.pub"), "only ssh-ed25519 and ssh-rsa"),
        ("ssh-ed25519", "type and its Base64"),
        ("ssh-ed25519 AAAA", "not a valid SSH public key"),
        ("ssh-ed25519 !!!!", "not a valid ssh-ed25519"),
        (&alice.replace("age1", "age2"), "not a recipient"),
    ];
    for (text, says) in cases {
        let error = list(text.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains(says) && error.contains("team.txt"),
            "{error}"
        );
        assert!(
            !error.contains("nonsense") && !error.contains("SECRET-KEY-1"),
            "{error}"
        );
    }
    assert!(
        list(b"\xff\xfe")
            .unwrap_err()
            .to_string()
            .contains("not text")
    );
}

#[test]
fn a_secret_given_as_recipient_is_not_repeated() {
    let secret = data_text("age_identity")
        .lines()
        .last()
        .unwrap()
        .to_string();
    for text in [
        secret.clone(),
        secret.to_lowercase(),
        secret.replace("SECRET-KEY", "PLUGIN-X"),
    ] {
        let error = Recipients::new(Arc::new(NoPrompt))
            .add(&text)
            .unwrap_err()
            .to_string();
        assert!(error.contains("secret identity"), "{error}");
        assert!(
            !error.to_lowercase().contains(&text.to_lowercase()[18..40]),
            "{error}"
        );
    }
    let error = Recipients::new(Arc::new(NoPrompt))
        .add("age1\x1b[31moops")
        .unwrap_err();
    assert!(!error.to_string().contains('\x1b'), "{error}");
}

#[test]
fn identity_files_that_cannot_be_used() {
    let alice = NewIdentity::generate().recipient();
    let for_recipient = wrap(&known_key(), &recipients(&[&alice])).unwrap();
    let cases: &[(&[u8], &str)] = &[
        (b"", "holds no identity"),
        (b"# nothing\n\n", "holds no identity"),
        (alice.as_bytes(), "line 1"),
        (b"# comment\nAGE-SECRET-KEY-1HELLO\n", "line 2"),
        (b"\xff\xfe\x00", "UTF-8"),
        (&data("ssh_ed25519.pub"), "line 1"),
        (&data("ssh_rsa_pem_encrypted"), "ssh-keygen -o -p"),
        (&data("ssh_rsa")[..900], "not a valid SSH private key"),
        (
            b"-----BEGIN CERTIFICATE-----\n",
            "not a valid SSH private key",
        ),
        (&for_recipient, "encrypted for recipients"),
        (b"age-encryption.org/v2\n", "version"),
        (b"age-encryption.org/v1\nhello\n", "damaged"),
        (b"-----BEGIN AGE ENCRYPTED FILE-----\nhello\n", "armor"),
    ];
    for (content, says) in cases {
        let mut identities = Identities::new(Arc::new(NoPrompt));
        let error = identities.add("me.txt", content).unwrap_err().to_string();
        assert!(
            error.contains(says) && error.contains("me.txt"),
            "{says}: {error}"
        );
        assert!(!error.contains("HELLO"), "{error}");
        assert!(identities.is_empty());
    }
}

#[test]
fn a_missing_plugin_is_named() {
    // A recipient and an identity of age-plugin-warpnone, made with age's own encoder.
    let identity = age::plugin::Identity::default_for_plugin("warpnone")
        .expect("a valid name")
        .to_string();
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities.add("token.txt", identity.as_bytes()).unwrap();
    let wrapped = wrap(
        &known_key(),
        &recipients(&[&NewIdentity::generate().recipient()]),
    )
    .unwrap();
    let error = unwrap(&wrapped, &identities).unwrap_err().to_string();
    assert!(
        error.contains("age-plugin-warpnone was not found"),
        "{error}"
    );
    let error = identities.recipients().unwrap_err().to_string();
    assert!(error.contains("age-plugin-warpnone"), "{error}");
}
