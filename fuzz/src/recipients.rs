//! Arbitrary bytes as a recipients file, and as one recipient.

use std::sync::Arc;

use warplock_keyring::{MasterKey, NoPrompt, Recipients, wrap};

/// Whether the input was a recipients file.
pub(crate) fn check(data: &[u8]) -> bool {
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    let _ = recipients.add(&String::from_utf8_lossy(data));
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    if recipients.add_list("list", data).is_err() {
        return false;
    }
    // What was accepted must be usable, or say why not: no point at infinity panics.
    let _ = wrap(&MasterKey::from_bytes(&[7; 32]), &recipients);
    true
}
