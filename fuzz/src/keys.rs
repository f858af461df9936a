//! Everything that the keyring reads: wrapped keys, key files, recipients, identities.

use std::sync::Arc;

use warplock_keyring::{
    Identities, MasterKey, NewIdentity, NoPrompt, Recipients, from_armor, inspect_wrapped,
    parse_key, unwrap, wrap,
};

/// Whether any parser took the input, or a change of a real wrapped key was tried.
pub(crate) fn check(data: &[u8]) -> bool {
    let Some((&choice, rest)) = data.split_first() else {
        return false;
    };
    let prompt = Arc::new(NoPrompt);
    let own = NewIdentity::generate();
    let mut identities = Identities::new(prompt.clone());
    identities
        .add("own", own.file_text().as_bytes())
        .expect("our own identity file");
    if choice % 2 == 0 {
        assert!(
            unwrap(rest, &identities).is_err(),
            "a key wrapped by nobody unwrapped"
        );
        let listed = Recipients::new(prompt.clone())
            .add_list("list", rest)
            .is_ok();
        let identified = Identities::new(prompt).add("identity", rest).is_ok();
        let text = String::from_utf8_lossy(rest);
        return inspect_wrapped(rest).is_ok()
            | parse_key(rest).is_ok()
            | from_armor(&text).is_ok()
            | listed
            | identified;
    }
    let mut recipients = Recipients::new(prompt);
    recipients.add(&own.recipient()).expect("our own recipient");
    let key = MasterKey::from_bytes(&[choice; 32]);
    let good = wrap(&key, &recipients).expect("a key can be wrapped");
    let mut changed = good.clone();
    for change in rest.chunks_exact(3).take(4) {
        let place = usize::from(change[0]) % changed.len();
        match change[1] % 3 {
            0 => changed[place] ^= change[2],
            1 => changed.truncate(place.max(1)),
            _ => changed.insert(place, change[2]),
        }
    }
    match unwrap(&changed, &identities) {
        Ok(unwrapped) => assert!(
            changed == good && unwrapped == key,
            "a changed key unwrapped"
        ),
        Err(_) => assert_ne!(changed, good, "an unchanged key did not unwrap"),
    }
    true
}
