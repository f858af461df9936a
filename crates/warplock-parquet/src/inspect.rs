//! Reads what an encrypted file reveals without any key.

use std::io::{Read, Seek};

use crate::error::Result;
use crate::files::Stream;
use crate::footer::{Algorithm, last_bytes};

/// What [`inspect`] finds. Nothing of it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// `AES_GCM_V1` or `AES_GCM_CTR_V1`.
    pub algorithm: &'static str,
    /// Whether the footer is encrypted; otherwise it is signed.
    pub encrypted_footer: bool,
    /// The AAD prefix that is stored.
    pub aad_prefix: Option<Vec<u8>>,
    /// Whether readers must give an AAD prefix that is not stored.
    pub needs_aad_prefix: bool,
    /// What the writer stored to find the footer's key again.
    pub key_metadata: Option<Vec<u8>>,
}

/// Reads how a Parquet file is encrypted.
///
/// # Errors
/// [`NotParquet`], [`NotEncrypted`], [`Malformed`], [`Read`](crate::Error::Read).
///
/// [`NotParquet`]: crate::Error::NotParquet
/// [`NotEncrypted`]: crate::Error::NotEncrypted
/// [`Malformed`]: crate::Error::Malformed
pub fn inspect(source: impl Read + Seek) -> Result<Inspection> {
    let (_, bytes, encrypted_footer) = last_bytes(&mut Stream(source))?;
    let found = Algorithm::read(&bytes, encrypted_footer)?;
    Ok(Inspection {
        algorithm: match found.ctr {
            true => "AES_GCM_CTR_V1",
            false => "AES_GCM_V1",
        },
        encrypted_footer,
        needs_aad_prefix: found.aad_prefix.is_none() && found.needs_aad_prefix,
        aad_prefix: found.aad_prefix,
        key_metadata: found.key_metadata,
    })
}
