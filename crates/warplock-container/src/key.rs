//! Input keys and the values that a stream's key is derived from.

use std::fmt;

use warplock::Algorithm;
use warplock_keyring::MasterKey;
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Which AEAD a stream uses. The stream does not say; its maker and reader agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-128-GCM, input keys of 16 bytes.
    Cobblestone128,
    /// AES-256-GCM, input keys of 32 bytes: what Warplock writes.
    Cobblestone256,
}

impl Suite {
    /// Its usual name.
    pub const fn name(self) -> &'static str {
        match self {
            Suite::Cobblestone128 => "Cobblestone-128",
            Suite::Cobblestone256 => "Cobblestone-256",
        }
    }

    /// Length of its input keys and AES keys, in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Suite::Cobblestone128 => 16,
            Suite::Cobblestone256 => 32,
        }
    }

    /// The AEAD's name in IANA's registry, which goes into the derivation.
    pub(crate) const fn aead(self) -> &'static str {
        match self {
            Suite::Cobblestone128 => "AEAD_AES_128_GCM",
            Suite::Cobblestone256 => "AEAD_AES_256_GCM",
        }
    }

    pub(crate) const fn algorithm(self) -> Algorithm {
        match self {
            Suite::Cobblestone128 => Algorithm::Aes128Gcm,
            Suite::Cobblestone256 => Algorithm::Aes256Gcm,
        }
    }
}

/// The secret a stream is sealed under, with its context: 16 or 32 uniformly random bytes, not a
/// password. One input key may seal any number of streams; each gets a random salt.
///
/// Wiped when dropped; `Debug` shows nothing of it.
pub struct InputKey {
    suite: Suite,
    /// On the heap, so that moving the key leaves no copies.
    bytes: Box<Zeroizing<[u8; 32]>>,
    context: Vec<u8>,
}

impl InputKey {
    /// A key from its bytes. The caller wipes its own copy.
    ///
    /// # Errors
    /// [`Error::KeyLength`] unless there are [`Suite::key_len`] bytes.
    pub fn new(suite: Suite, bytes: &[u8]) -> Result<Self> {
        if bytes.len() != suite.key_len() {
            let (expected, found) = (suite.key_len(), bytes.len());
            return Err(Error::KeyLength {
                suite,
                expected,
                found,
            });
        }
        let mut key = InputKey {
            suite,
            bytes: Box::default(),
            context: Vec::new(),
        };
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(key)
    }

    /// Binds streams to `context`, public bytes of the application (a file's name, say): they open
    /// only with the same. It is not in the envelope.
    pub fn with_context(mut self, context: &[u8]) -> Self {
        self.context = context.to_vec();
        self
    }

    /// Which AEAD the key is for.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.suite.key_len()]
    }

    pub(crate) fn context(&self) -> &[u8] {
        &self.context
    }
}

impl From<&MasterKey> for InputKey {
    /// The key of an envelope's stream: Cobblestone-256, no context.
    fn from(key: &MasterKey) -> Self {
        let mut bytes: Box<Zeroizing<[u8; 32]>> = Box::default();
        bytes.copy_from_slice(key.as_bytes());
        InputKey {
            suite: Suite::Cobblestone256,
            bytes,
            context: Vec::new(),
        }
    }
}

impl fmt::Debug for InputKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InputKey({})", self.suite.name())
    }
}
