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
    for (bytes, says) in [(&b"\xe9"[..], "not UTF-8"), (b"\xff\xfea\0", "UTF-16")] {
        let error = list(bytes).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// As Windows editors write it.
#[test]
fn a_byte_order_mark_is_no_part_of_the_text() {
    let marked = |text: &str| format!("\u{feff}{text}");
    let alice = NewIdentity::generate();
    let recipients = list(marked(&alice.recipient()).as_bytes()).unwrap();
    let wrapped = wrap(&known_key(), &recipients).unwrap();
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities
        .add("alice", marked(&alice.file_text()).as_bytes())
        .unwrap();
    assert_eq!(unwrap(&wrapped, &identities).unwrap(), known_key());
    let ssh = marked(&data_text("ssh_ed25519"));
    identities.add("ssh", ssh.as_bytes()).unwrap();
    let utf16: Vec<u8> = "\u{feff}AGE-SECRET"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let error = identities.add("wide", &utf16).unwrap_err().to_string();
    assert!(error.contains("UTF-16"), "{error}");
}

#[test]
fn keys_that_cannot_be_encrypted_for_are_left_out_on_request() {
    let lenient = |text: &str| {
        let mut recipients = Recipients::new(Arc::new(NoPrompt));
        recipients.skip_unusable_keys();
        recipients
            .add_list("team.txt", text.as_bytes())
            .map(|()| recipients)
    };
    let (ecdsa, good) = (data_text("ssh_ecdsa.pub"), data_text("ssh_ed25519.pub"));
    let short = data_text("ssh_rsa_1024.pub");
    let text = format!("# team\n{ecdsa}{good}{short}");
    list(text.as_bytes()).unwrap_err();
    let recipients = lenient(&text).unwrap();
    let warnings: Vec<_> = recipients
        .skipped()
        .iter()
        .map(|key| key.to_string())
        .collect();
    assert_eq!(
        warnings,
        [
            "recipients file team.txt, line 2: this key is left out: only ssh-ed25519 and ssh-rsa \
             keys can be encrypted for",
            "recipients file team.txt, line 4: this key is left out: RSA keys under 2048 bits are \
             too weak",
        ]
    );
    let wrapped = wrap(&known_key(), &recipients).unwrap();
    let identities = identity("ssh_ed25519", Arc::new(NoPrompt));
    assert_eq!(unwrap(&wrapped, &identities).unwrap(), known_key());
    // Damage is no other kind.
    for (text, says) in [
        (ecdsa.clone(), "but keys that cannot"),
        (format!("{good}ssh-ed25519 AAAA\n"), "line 2"),
        (
            format!("{good}{}", good.replace("AAAAC3Nz", "AAAAC3Nx")),
            "line 2",
        ),
        (
            format!("{good}{}", ecdsa.replace("AAAAE2Vj", "AAAAE2Vk")),
            "line 2",
        ),
        (format!("{good}nonsense"), "line 2"),
    ] {
        let error = lenient(&text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// As `openssl genpkey` and `ssh-keygen -m PKCS8` write them.
#[test]
fn ssh_keys_in_pkcs8_open() {
    for (public, private) in [("ssh_ed25519", "pkcs8_ed25519"), ("ssh_rsa", "pkcs8_rsa")] {
        let recipients = list(&data(&format!("{public}.pub"))).unwrap();
        let wrapped = wrap(&known_key(), &recipients).unwrap();
        let identities = identity(private, Arc::new(NoPrompt));
        assert_eq!(unwrap(&wrapped, &identities).unwrap(), known_key());
        let own = identities.recipients().unwrap();
        let expected = data_text(&format!("{public}.pub"));
        assert_eq!(
            own,
            [expected.split(' ').take(2).collect::<Vec<_>>().join(" ")]
        );
    }
    let mut identities = Identities::new(Arc::new(NoPrompt));
    let good = data_text("pkcs8_ed25519");
    for (text, says) in [
        (data_text("pkcs8_ecdsa"), "keys of this type"),
        (data_text("pkcs8_rsa_encrypted"), "ssh-keygen -p"),
        (good.replace("K2VwBCIE", "K2VxBCIE"), "keys of this type"),
        (good.replace("BCIEIB", "BCIEIR"), "not a valid"),
        (good.replace("-----END", "----END"), "not a valid"),
        (
            "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----".to_owned(),
            "not a valid",
        ),
    ] {
        let error = identities
            .add("key", text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
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
        (alice.as_bytes(), "line 1 is a recipient"),
        (b"# comment\nAGE-SECRET-KEY-1HELLO\n", "line 2"),
        (b"\xff\xfe\x00", "UTF-8"),
        (&data("ssh_ed25519.pub"), "line 1 is a recipient"),
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
