//! Arbitrary bytes as an identity file: age's own, encrypted ones, SSH private keys.

use std::sync::{Arc, OnceLock};

use warplock_keyring::{Identities, MasterKey, NewIdentity, NoPrompt, Recipients, unwrap, wrap};

/// A key that was wrapped for somebody else.
fn wrapped() -> &'static [u8] {
    static WRAPPED: OnceLock<Vec<u8>> = OnceLock::new();
    WRAPPED.get_or_init(|| {
        let mut recipients = Recipients::new(Arc::new(NoPrompt));
        let other = NewIdentity::generate().recipient();
        recipients.add(&other).expect("a fresh recipient");
        wrap(&MasterKey::from_bytes(&[7; 32]), &recipients).expect("a key can be wrapped")
    })
}

/// Whether the input was an identity file.
pub(crate) fn check(data: &[u8]) -> bool {
    let mut identities = Identities::new(Arc::new(NoPrompt));
    if identities.add("file", data).is_err() {
        return false;
    }
    // Who has an identity that shows its recipient can be encrypted for.
    if let Ok(recipients) = identities.recipients() {
        for recipient in recipients {
            let mut all = Recipients::new(Arc::new(NoPrompt));
            all.add(&recipient).expect("a recipient that was shown");
        }
    }
    assert!(
        unwrap(wrapped(), &identities).is_err(),
        "an identity of nobody opened a key"
    );
    true
}
