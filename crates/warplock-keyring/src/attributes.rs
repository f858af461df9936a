//! A file's permissions and time of modification, which travel in the header of its wrapped key.
//!
//! They are the body of a stanza that no implementation of age knows, so that all of them pass over
//! it. The header's MAC covers it, and it is encrypted: the header shows to everyone only that there
//! is one. A passphrase stanza must be the only one of its header, so a key that is wrapped for a
//! passphrase has no room for attributes.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use age_core::format::{FileKey, Stanza};
use age_core::primitives::{aead_decrypt, aead_encrypt};

use crate::derive::derive;
use crate::error::Result;
use crate::header::Header;
use crate::key::MasterKey;

/// The stanza's name.
pub(crate) const STANZA: &str = "warplock-attributes";
/// The label of the key that encrypts its body.
const LABEL: &str = "warplock/1 file attributes";
/// Mode, seconds, nanoseconds.
const PLAIN_LEN: usize = 4 + 8 + 4;
/// With the tag.
pub(crate) const BODY_LEN: usize = PLAIN_LEN + 16;
const NANOSECONDS: u32 = 1_000_000_000;

/// The permissions and the time of modification of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    /// The permission bits, 0 to 0o777.
    pub mode: u32,
    /// When the content was last modified.
    pub modified: SystemTime,
}

impl FileAttributes {
    fn to_bytes(self) -> Option<[u8; PLAIN_LEN]> {
        let (seconds, nanoseconds) = match self.modified.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => (i64::try_from(after.as_secs()).ok()?, after.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                let seconds = i64::try_from(before.as_secs()).ok()?;
                match before.subsec_nanos() {
                    0 => (-seconds, 0),
                    nanoseconds => (-seconds - 1, NANOSECONDS - nanoseconds),
                }
            }
        };
        let mut bytes = [0; PLAIN_LEN];
        bytes[..4].copy_from_slice(&(self.mode & 0o777).to_be_bytes());
        bytes[4..12].copy_from_slice(&seconds.to_be_bytes());
        bytes[12..].copy_from_slice(&nanoseconds.to_be_bytes());
        Some(bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (mode, rest) = bytes.split_first_chunk::<4>()?;
        let (seconds, rest) = rest.split_first_chunk::<8>()?;
        let nanoseconds = u32::from_be_bytes(rest.try_into().ok()?);
        let (mode, seconds) = (u32::from_be_bytes(*mode), i64::from_be_bytes(*seconds));
        if mode > 0o777 || nanoseconds >= NANOSECONDS {
            return None;
        }
        let epoch = SystemTime::UNIX_EPOCH;
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let modified = match seconds < 0 {
            true => epoch.checked_sub(whole)?,
            false => epoch.checked_add(whole)?,
        };
        let modified = modified.checked_add(Duration::from_nanos(nanoseconds.into()))?;
        Some(FileAttributes { mode, modified })
    }

    /// The stanza for a wrapped `key`; `None` for a time that does not fit.
    pub(crate) fn stanza(&self, key: &MasterKey) -> Option<Stanza> {
        // Sealed once with this key: a file's attributes stay when it is wrapped again.
        let cipher_key = derive::<32>(key, LABEL, b"");
        Some(Stanza {
            tag: STANZA.to_owned(),
            args: vec!["1".to_owned()],
            body: aead_encrypt(&cipher_key, &self.to_bytes()?),
        })
    }
}

/// The attributes in the header of `wrapped`, which [`unwrap`](crate::unwrap()) has opened to `key`;
/// `None` if there are none that this version can read.
///
/// # Errors
/// As for [`unwrap`](crate::unwrap()), where the bytes are not an age file.
pub fn attributes(wrapped: &[u8], key: &MasterKey) -> Result<Option<FileAttributes>> {
    let header = Header::read(wrapped, crate::wrap::WHAT)?;
    let Some(body) = header.attributes() else {
        return Ok(None);
    };
    let cipher_key = derive::<32>(key, LABEL, b"");
    let opened = aead_decrypt(&cipher_key, PLAIN_LEN, body).ok();
    Ok(opened.and_then(|bytes| FileAttributes::from_bytes(&bytes)))
}

/// A recipient whose stanzas are followed by another one.
pub(crate) struct Annotated<'a> {
    pub(crate) recipient: &'a dyn age::Recipient,
    pub(crate) stanza: Stanza,
}

impl age::Recipient for Annotated<'_> {
    fn wrap_file_key(
        &self,
        file_key: &FileKey,
    ) -> std::result::Result<(Vec<Stanza>, HashSet<String>), age::EncryptError> {
        // With its labels: the other recipients must agree with them.
        let (mut stanzas, labels) = self.recipient.wrap_file_key(file_key)?;
        let Stanza { tag, args, body } = &self.stanza;
        stanzas.push(Stanza {
            tag: tag.clone(),
            args: args.clone(),
            body: body.clone(),
        });
        Ok((stanzas, labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_modes_survive() {
        let epoch = SystemTime::UNIX_EPOCH;
        let nano = Duration::from_nanos(1);
        let day = Duration::from_secs(86_400);
        for modified in [
            epoch,
            epoch + nano,
            epoch - nano,
            epoch - day,
            epoch + 40_000 * day,
        ] {
            for mode in [0, 0o644, 0o777] {
                let attributes = FileAttributes { mode, modified };
                let bytes = attributes.to_bytes().unwrap();
                assert_eq!(FileAttributes::from_bytes(&bytes), Some(attributes));
            }
        }
        let mut bytes = FileAttributes {
            mode: 0o4755,
            modified: epoch,
        }
        .to_bytes()
        .unwrap();
        assert_eq!(FileAttributes::from_bytes(&bytes).unwrap().mode, 0o755);
        bytes[2] = 0xff;
        assert_eq!(FileAttributes::from_bytes(&bytes), None);
        assert_eq!(FileAttributes::from_bytes(&[0xff; PLAIN_LEN]), None);
        assert_eq!(FileAttributes::from_bytes(&bytes[1..]), None);
    }
}
