//! What can go wrong, in sentences.

use crate::Algorithm;

/// An error of the engine. Everything but [`Error::Authentication`] and [`Error::Backend`] is
/// reported before any output is written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No row of the algorithm table has this name.
    #[error("there is no algorithm '{name}'; `warplock devices --algorithms` lists them")]
    UnknownAlgorithm {
        /// What was asked for.
        name: String,
    },
    /// A key of the wrong length.
    #[error("{algorithm} needs a key of {expected} bytes, not {found}")]
    KeyLength {
        /// The algorithm that the key was meant for.
        algorithm: Algorithm,
        /// The length that fits, in bytes.
        expected: usize,
        /// The length that was given, in bytes.
        found: usize,
    },
    /// An XTS key whose halves are equal; [`crate::hazmat`] has a way for old data.
    #[error(
        "both halves of this {algorithm} key are equal, which weakens it and which the standards \
         forbid: take {} random bytes",
        algorithm.key_len()
    )]
    EqualHalves {
        /// The algorithm that the key was meant for.
        algorithm: Algorithm,
    },
    /// Two messages of a batch would be encrypted under the same key with the same nonce, or with a
    /// common counter block of CTR. That reveals the XOR of their texts, and with GCM allows
    /// forgeries.
    #[error(
        "messages {first} and {second} have {what} under the same key: give each its own, as \
         Ivs::Random does"
    )]
    NonceReuse {
        /// The place of one of the two in the batch, from 0.
        first: usize,
        /// The place of the other.
        second: usize,
        /// What they have in common: "the same nonce" or "overlapping counters".
        what: &'static str,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system's random generator failed")]
    Randomness,
    /// A batch whose parts do not fit together.
    #[error("{0}")]
    Batch(String),
    /// One message of a batch has something that its algorithm cannot take.
    #[error("message {index}: {problem}")]
    Message {
        /// The message's place in the batch, from 0.
        index: usize,
        /// What is wrong, and what would fit.
        problem: String,
    },
    /// The padding of a decrypted text is not PKCS#7.
    #[error(
        "the decrypted text does not end in PKCS#7 padding: wrong key or IV, or it was not padded"
    )]
    Padding,
    /// Messages whose tag did not verify; their output is all zeros, the others' is good.
    #[error("authentication failed for {} of {total} messages (first: message {})", failed.len(), failed[0])]
    Authentication {
        /// The places of the refused messages in the batch, ascending; never empty.
        failed: Vec<usize>,
        /// How many messages the batch had.
        total: usize,
    },
    /// No backend with this name, or none that can run here.
    #[error("backend '{name}' cannot be used: {reason}")]
    NoBackend {
        /// What was asked for.
        name: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A backend failed while it worked; the output is to be thrown away. Of authenticated
    /// decryption it is zeros then, in place, too: who would try again keeps the ciphertext.
    #[error("backend {backend} failed: {reason}")]
    Backend {
        /// The backend's name.
        backend: String,
        /// What it was doing and what came back.
        reason: String,
    },
}
