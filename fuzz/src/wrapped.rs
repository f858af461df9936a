//! Arbitrary bytes as a wrapped key, armored or not, and as a key file.

use std::sync::{Arc, OnceLock};

use warplock_keyring::{
    Identities, NoPrompt, from_armor, inspect_wrapped, parse_key, to_armor, unwrap,
};

/// One identity of each kind, which open the seeds; without RSA's, which takes as long as a hundred
/// inputs, or with it.
fn identities(rsa: bool) -> &'static Identities {
    static IDENTITIES: [OnceLock<Identities>; 2] = [const { OnceLock::new() }; 2];
    IDENTITIES[usize::from(rsa)].get_or_init(|| {
        let mut identities = Identities::new(Arc::new(NoPrompt));
        let files: [&[u8]; 3] = [
            include_bytes!("../../crates/warplock-keyring/tests/data/age_identity"),
            include_bytes!("../../crates/warplock-keyring/tests/data/ssh_ed25519"),
            include_bytes!("../../crates/warplock-keyring/tests/data/ssh_rsa"),
        ];
        for file in &files[..if rsa { 3 } else { 2 }] {
            identities.add("file", file).expect("a test's identity");
        }
        // Nobody answers, so no time is spent on scrypt.
        identities.add_passphrase();
        identities
    })
}

fn try_unwrap(wrapped: &[u8]) -> bool {
    let rsa = wrapped.len().is_multiple_of(64);
    if let Ok(key) = unwrap(wrapped, identities(rsa)) {
        let known: [u8; 32] = std::array::from_fn(|i| (i * 7 + 3) as u8);
        assert_eq!(*key.as_bytes(), known, "a key wrapped by nobody unwrapped");
    }
    inspect_wrapped(wrapped).is_ok()
}

/// Whether any of the parsers took the input.
pub(crate) fn check(data: &[u8]) -> bool {
    let mut taken = try_unwrap(data) | parse_key(data).is_ok();
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(binary) = from_armor(text)
    {
        let again = from_armor(&to_armor(&binary));
        assert_eq!(again.expect("our own armor"), binary);
        try_unwrap(&binary);
        taken = true;
    }
    taken
}
