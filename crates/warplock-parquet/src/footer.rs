//! The end of an encrypted file: the algorithm, the AAD, and the footer itself, opened or verified.

use std::sync::Arc;

use warplock::Engine;

use crate::decrypt::Options;
use crate::error::{Error, Module, Place, Result};
use crate::fields::{ALGORITHM, SIGNING_KEY};
use crate::files::Source;
use crate::keys::{KeyRequest, KeySource, Keys, ModuleKey};
use crate::module::{Cipher, NONCE, TAG};
use crate::thrift::Struct;

/// The longest AAD prefix and file identifier together. They are repeated for each page of a column
/// chunk.
pub(crate) const AAD_LEN: usize = 4096;

/// A verified footer.
pub(crate) struct Footer<'a> {
    /// The serialized `FileMetaData`.
    pub(crate) metadata: Vec<u8>,
    pub(crate) cipher: Cipher<'a>,
    pub(crate) keys: Keys<'a>,
    pub(crate) key: Arc<ModuleKey>,
    /// Where the footer begins, and so the data end.
    pub(crate) start: u64,
}

impl<'a> Footer<'a> {
    pub(crate) fn read(
        source: &mut dyn Source,
        key_source: &'a mut dyn KeySource,
        options: &Options,
        engine: &'a Engine,
    ) -> Result<Self> {
        let (start, mut bytes, encrypted) = last_bytes(source)?;
        let malformed = |problem| Place::FOOTER.malformed(problem);
        let found = Algorithm::read(&bytes, encrypted)?;
        let len = found.len;
        let aad = aad(&found, options)?;
        let mut keys = Keys::new(key_source, found.ctr);
        let key = keys.find(KeyRequest {
            column: None,
            metadata: found.key_metadata.as_deref(),
        })?;
        let cipher = Cipher { engine, aad };
        let metadata = match encrypted {
            true => {
                let module = bytes.split_off(len);
                cipher.open_one(&key, None, &module, Module::Footer)?
            }
            false => {
                if bytes.len() != len + NONCE + TAG {
                    return Err(malformed("it has no signature of 28 bytes"));
                }
                cipher.verify_footer(&key, &bytes[..len], &bytes[len..])?;
                bytes.truncate(len);
                bytes
            }
        };
        Ok(Footer {
            metadata,
            cipher,
            keys,
            key,
            start,
        })
    }
}

/// How a file is encrypted, from its last bytes.
pub(crate) struct Algorithm {
    pub(crate) ctr: bool,
    /// If it is stored.
    pub(crate) aad_prefix: Option<Vec<u8>>,
    /// The random identifier of this file.
    file: Option<Vec<u8>>,
    /// Whether readers must give a prefix that is not stored.
    pub(crate) needs_aad_prefix: bool,
    /// Of the footer's key.
    pub(crate) key_metadata: Option<Vec<u8>>,
    /// Bytes of the structure that describes it.
    len: usize,
}

impl Algorithm {
    pub(crate) fn read(bytes: &[u8], encrypted_footer: bool) -> Result<Self> {
        let malformed = |problem| Place::FOOTER.malformed(problem);
        let (first, len) = Struct::read(bytes).map_err(malformed)?;
        let (algorithm_id, key_id) = match encrypted_footer {
            true => (1, 2),
            false => (ALGORITHM, SIGNING_KEY),
        };
        let algorithm = first.inner(algorithm_id).map_err(malformed)?;
        let Some(algorithm) = algorithm else {
            return Err(match encrypted_footer {
                true => malformed("it names no algorithm"),
                false => Error::NotEncrypted,
            });
        };
        let (settings, ctr) = match (algorithm.inner(1), algorithm.inner(2)) {
            (Ok(Some(settings)), Ok(None)) => (settings, false),
            (Ok(None), Ok(Some(settings))) => (settings, true),
            _ => return Err(malformed("its encryption algorithm is unknown")),
        };
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        Ok(Algorithm {
            ctr,
            aad_prefix: settings.binary(1).map(owned).map_err(malformed)?,
            file: settings.binary(2).map(owned).map_err(malformed)?,
            needs_aad_prefix: settings.bool(3).map_err(malformed)?,
            key_metadata: first.binary(key_id).map(owned).map_err(malformed)?,
            len,
        })
    }
}

/// Where the footer begins, its bytes, and whether it is encrypted.
pub(crate) fn last_bytes(source: &mut dyn Source) -> Result<(u64, Vec<u8>, bool)> {
    let end = source.len().map_err(Error::Read)?;
    if end < 12 {
        return Err(Error::NotParquet("it is too short"));
    }
    let mut buffer = Vec::new();
    let mut read = |start, len| {
        let part = source.part(start, len, &mut buffer);
        part.map(<[u8]>::to_vec).map_err(Error::Read)
    };
    let head = read(0, 4)?;
    let tail = read(end - 8, 8)?;
    let (len, magic) = tail.split_at(4);
    let encrypted = match magic {
        b"PARE" => true,
        b"PAR1" => false,
        _ => return Err(Error::NotParquet("it does not end with PAR1 or PARE")),
    };
    if head != magic {
        return Err(Error::NotParquet("its beginning and end do not fit"));
    }
    let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]);
    let start = (end - 8).checked_sub(u64::from(len));
    let Some(start) = start.filter(|start| *start >= 4) else {
        return Err(Error::NotParquet("its footer is longer than the file"));
    };
    let bytes = read(start, len as usize)?;
    Ok((start, bytes, encrypted))
}

/// The part of AADs that all modules of the file share.
fn aad(found: &Algorithm, options: &Options) -> Result<Vec<u8>> {
    let (stored, must_supply) = (found.aad_prefix.as_deref(), found.needs_aad_prefix);
    let given = options.aad_prefix.as_deref();
    let prefix = match (stored, given) {
        (Some(stored), Some(given)) if stored != given => {
            return Err(Error::AadPrefix(
                "the file was made with another AAD prefix than the one given: it is another file \
                 than expected",
            ));
        }
        (None, None) if must_supply => {
            return Err(Error::AadPrefix(
                "the file was made with an AAD prefix that is not stored in it: give it",
            ));
        }
        (None, Some(_)) if !must_supply => {
            return Err(Error::AadPrefix(
                "the file was made without an AAD prefix: it is another file than expected, or \
                 give none",
            ));
        }
        (stored, given) => given.or(stored),
    };
    let file = found.file.as_deref();
    let aad = [prefix.unwrap_or_default(), file.unwrap_or_default()].concat();
    match aad.len() <= AAD_LEN {
        true => Ok(aad),
        false => Err(Error::AadPrefix(
            "AAD prefix and file identifier have more than 4096 bytes together",
        )),
    }
}
