//! Names: AES-SIV (RFC 5297) under the id of the folder they stand in.
//!
//! The same name in the same folder always gives the same ciphertext, so that a name is found
//! without a search; in another folder it gives another, and does not decrypt.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Mutex;

use aes_siv::KeyInit;
use aes_siv::siv::Aes256Siv;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::core::lock;
use crate::error::Result;
use crate::format::keys::{Id, VaultKeys};

/// The longest name, in bytes.
pub(crate) const MAX_NAME: usize = 255;

/// A folder and a name in it, as 16 bytes that tell nothing: the synthetic IV of the name.
pub(crate) type Place = [u8; 16];

/// The place of the topmost folder.
pub(crate) const ROOT_PLACE: Place = [0; 16];

/// What ends the name of an entry whose ciphertext name would be longer than 255 bytes...
const LONG: &str = ".long";
/// ... and the name of the file next to it that holds the ciphertext name.
const BESIDE: &str = ".name";

/// An encrypted name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// The name in the store.
    pub(crate) stored: OsString,
    /// For long names, the file next to it and what that holds.
    pub(crate) beside: Option<(OsString, Vec<u8>)>,
    /// Folder and name in short.
    pub(crate) place: Place,
}

/// What a name in the store stands for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An entry with its ciphertext name.
    Short(Vec<u8>),
    /// An entry whose ciphertext name is in the file of this name.
    Long(OsString),
    /// An internal object of the vault, or a foreign one.
    Other,
}

/// AES-SIV under one key.
pub(crate) struct NameCipher {
    /// Two keys of 32 bytes.
    key: Zeroizing<[u8; 64]>,
    /// Ciphers that are not in use: making one takes as long as a short name.
    idle: Mutex<Vec<Aes256Siv>>,
}

impl NameCipher {
    pub(crate) fn new(key: Zeroizing<[u8; 64]>) -> Self {
        let idle = Mutex::default();
        NameCipher { key, idle }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Aes256Siv) -> T) -> T {
        let idle = lock(&self.idle).pop();
        let mut cipher = idle.unwrap_or_else(|| Aes256Siv::new(self.key[..].into()));
        let done = work(&mut cipher);
        lock(&self.idle).push(cipher);
        done
    }

    /// The synthetic IV and the ciphertext.
    pub(crate) fn seal(&self, headers: &[&[u8]], name: &[u8]) -> Vec<u8> {
        self.with(|cipher| cipher.encrypt(headers, name))
            .expect("headers are fewer than 127")
    }

    /// `None` if it was not sealed under these headers.
    fn open(&self, headers: &[&[u8]], sealed: &[u8]) -> Option<Vec<u8>> {
        self.with(|cipher| cipher.decrypt(headers, sealed)).ok()
    }
}

/// Encrypts `name` in `folder`.
///
/// # Errors
/// `ENAMETOOLONG`; `EINVAL` for anything but a name.
pub(crate) fn seal(keys: &VaultKeys, folder: &Id, name: &OsStr) -> Result<Sealed> {
    let name = name.as_bytes();
    if name.len() > MAX_NAME {
        return Err(Errno::NAMETOOLONG.into());
    }
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return Err(Errno::INVAL.into());
    }
    let sealed = keys.names.seal(&[folder], name);
    let place = *sealed.first_chunk().expect("the IV comes first");
    let (stored, beside) = stored_name(&sealed);
    let beside = beside.map(|beside| (beside, sealed));
    Ok(Sealed {
        stored,
        beside,
        place,
    })
}

/// The only name that an entry with the ciphertext name `sealed` has in the store and, for a long
/// one, that of the file next to it.
fn stored_name(sealed: &[u8]) -> (OsString, Option<OsString>) {
    let text = BASE64.encode(sealed);
    if text.len() <= MAX_NAME {
        return (text.into(), None);
    }
    let short = BASE64.encode(Sha256::digest(sealed));
    let beside = format!("{short}{BESIDE}").into();
    (format!("{short}{LONG}").into(), Some(beside))
}

/// Whether `stored` is the name in the store of the entry with the ciphertext name `sealed`. A name
/// has one form: under another, an entry would be listed that no lookup finds.
pub(crate) fn fits(stored: &OsStr, sealed: &[u8]) -> bool {
    stored_name(sealed).0 == stored
}

/// The name and the place of the entry `stored` in `folder`, whose ciphertext name is `sealed`;
/// `None` if it does not belong there.
pub(crate) fn open(
    keys: &VaultKeys,
    folder: &Id,
    stored: &OsStr,
    sealed: &[u8],
) -> Option<(OsString, Place)> {
    if !fits(stored, sealed) {
        return None;
    }
    let place = *sealed.first_chunk()?;
    // A name that decrypts also encrypts to `sealed`: the IV is computed from the name.
    let name = keys.names.open(&[folder], sealed)?;
    Some((OsString::from_vec(name), place))
}

/// Tells entries from other things by their name in the store.
pub(crate) fn kind(stored: &OsStr) -> Kind {
    if let Some(beside) = with_other_end(stored, LONG, BESIDE) {
        return Kind::Long(beside);
    }
    match BASE64.decode(stored.as_bytes()) {
        Ok(sealed) if sealed.len() > 16 => Kind::Short(sealed),
        _ => Kind::Other,
    }
}

/// If `stored` has the form of the name of a file next to an entry with a long name, that entry's
/// name.
pub(crate) fn entry_beside(stored: &OsStr) -> Option<OsString> {
    with_other_end(stored, BESIDE, LONG)
}

/// A hash in base64url that ends in `from`, with `to` instead.
fn with_other_end(stored: &OsStr, from: &str, to: &str) -> Option<OsString> {
    let hash = stored.to_str()?.strip_suffix(from)?;
    let decoded = BASE64.decode(hash).ok()?;
    (decoded.len() == 32).then(|| format!("{hash}{to}").into())
}
