//! The programs of this package, each in `src/bin/`. The README's Rust is compiled here.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}

use std::sync::Arc;

use warplock_keyring::{Identities, NewIdentity, NoPrompt, Recipients, Result};

/// A new identity, which files are encrypted for and opened with. Real programs keep one in a
/// file (`warplock keygen -o key.txt`) and read it with [`Identities::add_file`].
///
/// # Errors
/// None that can happen with a new identity.
pub fn new_identity() -> Result<(Recipients, Identities)> {
    let me = NewIdentity::generate();
    let mut recipients = Recipients::new(Arc::new(NoPrompt));
    recipients.add(&me.recipient())?;
    let mut identities = Identities::new(Arc::new(NoPrompt));
    identities.add("me", me.file_text().as_bytes())?;
    Ok((recipients, identities))
}
