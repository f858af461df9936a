//! A real wrapped key with arbitrary changes: only the unchanged one unwraps.

use std::sync::{Arc, OnceLock};

use warplock_keyring::{
    Identities, MasterKey, NewIdentity, NoPrompt, Recipients, from_armor, to_armor, unwrap, wrap,
};

use super::changes::change;

/// An identity, and a key that was wrapped for it.
fn fixed() -> &'static (Identities, MasterKey, Vec<u8>) {
    static FIXED: OnceLock<(Identities, MasterKey, Vec<u8>)> = OnceLock::new();
    FIXED.get_or_init(|| {
        let own = NewIdentity::generate();
        let mut identities = Identities::new(Arc::new(NoPrompt));
        let added = identities.add("own", own.file_text().as_bytes());
        added.expect("our own identity file");
        let mut recipients = Recipients::new(Arc::new(NoPrompt));
        recipients.add(&own.recipient()).expect("our own recipient");
        let key = MasterKey::from_bytes(&[7; 32]);
        let good = wrap(&key, &recipients).expect("a key can be wrapped");
        (identities, key, good)
    })
}

/// Whether the changed key was still an age file.
pub(crate) fn check(data: &[u8]) -> bool {
    let (identities, key, good) = fixed();
    let Some((&choice, rest)) = data.split_first() else {
        return false;
    };
    let mut changed = good.clone();
    if choice % 4 == 0 {
        // Whatever the changes leave readable of the armor is the same file, or none.
        let mut armored = to_armor(good).into_bytes();
        change(&mut armored, rest, 3);
        let Ok(binary) = from_armor(&String::from_utf8_lossy(&armored)) else {
            return false;
        };
        changed = binary;
    } else {
        change(&mut changed, rest, 3);
    }
    match unwrap(&changed, identities) {
        Ok(unwrapped) => assert!(
            changed == *good && unwrapped == *key,
            "a changed key unwrapped"
        ),
        Err(_) => assert_ne!(changed, *good, "an unchanged key did not unwrap"),
    }
    true
}
