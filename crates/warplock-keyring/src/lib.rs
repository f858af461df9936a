//! Keys of Warplock: made, stored, wrapped and derived.
//!
//! Everything Warplock encrypts depends on 32 secret bytes, a [`MasterKey`]: the input key of one
//! encrypted file, or the master key of a vault. This crate answers two questions.
//!
//! **Which secrets open the key?** The key is *wrapped*: stored as a small
//! [age](https://age-encryption.org/v1) file whose content is exactly those 32 bytes. [`wrap()`]
//! makes it for [`Recipients`] (a passphrase, `age1...` keys, SSH public keys, plugins such as
//! hardware tokens), and [`unwrap`] opens it with [`Identities`] (a passphrase, identity files, SSH
//! private keys, plugins). The `age` program opens the same bytes: key management is age's, and no
//! format here is our own.
//!
//! **Which key for which purpose?** [`derive`](derive()) makes independent sub-keys from a
//! master key with HKDF, one for each label.
//!
//! A key can also be stored bare in a key file ([`read_key_file`], [`write_key_file`]).
//!
//! ```
//! use std::sync::Arc;
//! use warplock_keyring::{Identities, MasterKey, NewIdentity, NoPrompt, Recipients, unwrap, wrap};
//!
//! # fn main() -> warplock_keyring::Result<()> {
//! let alice = NewIdentity::generate();
//! let key = MasterKey::generate()?;
//!
//! let mut recipients = Recipients::new(Arc::new(NoPrompt));
//! recipients.add(&alice.recipient())?;
//! let wrapped = wrap(&key, &recipients)?;
//!
//! let mut identities = Identities::new(Arc::new(NoPrompt));
//! identities.add("alice.txt", alice.file_text().as_bytes())?;
//! assert_eq!(unwrap(&wrapped, &identities)?, key);
//! # Ok(())
//! # }
//! ```
//!
//! Prompts go through [`AskPassphrase`], so that a terminal, a file or a test can answer.
//! Every function that reads bytes from outside is bounded in size and time and returns an
//! [`Error`], whatever the bytes are; [`Error::kind`] tells a failed authentication from
//! the rest.

mod age_error;
mod attributes;
mod derive;
mod error;
mod file;
mod header;
mod identity;
mod key;
mod keygen;
mod passphrase;
mod pkcs8;
mod recipient;
mod several;
mod ssh;
mod text;
mod work;
mod wrap;
mod x25519;

pub use age::secrecy::{ExposeSecret, SecretString};
pub use attributes::{FileAttributes, attributes};
pub use derive::derive;
pub use error::{Error, ErrorKind, Result};
pub use file::{Exposed, shown_name, write_secret_file};
pub use header::{MAX_WRAPPED_LEN, StanzaKind, inspect_wrapped};
pub use identity::Identities;
pub use key::{KEY_LEN, KeyFile, MasterKey, parse_key, read_key_file, write_key_file};
pub use keygen::NewIdentity;
pub use passphrase::{AskPassphrase, NoPrompt, PassphraseCommand, PassphraseFile, Terminal};
pub use recipient::{Recipients, SkippedKey};
pub use several::unwrap_any;
pub use work::{MAX_WORK, UNASKED_WORK};
pub use wrap::{from_armor, to_armor, unwrap, wrap, wrap_with};
