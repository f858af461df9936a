//! Errors: variants for programs, sentences for people.

use std::fmt;

use crate::Algorithm;

/// An error of the engine. Everything but [`Error::Authentication`] and [`Error::Backend`] is
/// reported before any output is written.
///
/// ```
/// use warplock::{Algorithm, Batch, BatchProblem, Engine, Error, Ivs, Key, Keys, Spans, Text};
///
/// let key = Key::generate(Algorithm::Aes128Cbc)?;
/// let text = Text::InPlace { buffer: &mut [0; 32], spans: Spans::one(31) };
/// let refused = Engine::new()?.run(Batch::encrypt(Keys::One(&key), text).ivs(Ivs::Each(&[1; 16])));
/// match refused {
///     Err(Error::Batch { message, problem: BatchProblem::TextLength { found, .. } }) => {
///         assert_eq!((message, found), (Some(0), 31));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No row of the algorithm table has this name; [`Algorithm::all`] lists them.
    #[error("there is no algorithm '{name}'")]
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
         forbid: use {} random bytes",
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
    /// A batch, one of its messages, or a piece of a stream that cannot be worked on as it is.
    #[error("{}{problem}", message.map_or_else(String::new, |index| format!("message {index}: ")))]
    Batch {
        /// The message's place in the batch, from 0, if the problem is one message's.
        message: Option<usize>,
        /// What is wrong.
        problem: BatchProblem,
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
    /// A backend failed while it worked; discard the output. Of authenticated decryption it is
    /// zeros then, even in place: keep the ciphertext to be able to try again.
    #[error("backend {backend} failed: {reason}")]
    Backend {
        /// The backend's name.
        backend: String,
        /// What it was doing and what came back.
        reason: String,
    },
}

/// What is wrong with a batch. `Display` is a sentence that says what would fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchProblem {
    /// A list has entries for another number of messages.
    #[error("the batch has {messages} messages but {found} {what}")]
    Count {
        /// What the list holds, in words.
        what: &'static str,
        /// How many messages the batch has.
        messages: usize,
        /// How many entries the list has.
        found: usize,
    },
    /// An array with an equal number of bytes for each message has another length.
    #[error(
        "the array of {what} has {found} bytes; {messages} messages with {each} bytes each need \
         {}{}",
        *messages as u128 * *each as u128,
        if *any_iv { " (nonces of another length: Ivs::Ragged)" } else { "" }
    )]
    ArrayLength {
        /// What the array holds, in words.
        what: &'static str,
        /// How many messages the batch has.
        messages: usize,
        /// Bytes for each message.
        each: usize,
        /// The array's length, in bytes.
        found: usize,
        /// Whether these are IVs of an algorithm that also takes others, with
        /// [`Ivs::Ragged`](crate::Ivs::Ragged).
        any_iv: bool,
    },
    /// The table of keys is empty.
    #[error("the batch has an empty table of keys: give it at least one")]
    NoKeys,
    /// The keys of a table are of several algorithms.
    #[error("the table mixes keys of several algorithms: one batch, one algorithm")]
    MixedKeys,
    /// The table of keys has no key with this number.
    #[error("takes key number {number}, but the table has {keys} keys")]
    KeyNumber {
        /// The number, from 0.
        number: u32,
        /// How many keys the table has.
        keys: usize,
    },
    /// An XTS key of [`Keys::Each`](crate::Keys::Each) has equal halves.
    #[error("{}", Error::EqualHalves { algorithm: *algorithm })]
    EqualHalves {
        /// The key's algorithm.
        algorithm: Algorithm,
    },
    /// A call's batch has other keys than the device key that it is queued with.
    #[error("the batch's keys are not the device key that it is queued with: give it that one")]
    OtherKey,
    /// A call's workspace is too short.
    #[error(
        "the workspace has {found} bytes, but the call needs {needed}: DeviceKey::workspace_len tells"
    )]
    Workspace {
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// A region of a call begins at a wrong address.
    #[error("{what} must begin at a multiple of {to}")]
    Alignment {
        /// Which region, in words.
        what: &'static str,
        /// The multiple.
        to: u64,
    },
    /// The algorithm does not take an IV of this length.
    #[error("{algorithm} needs {}, not {found} bytes", algorithm.info().iv_rule())]
    IvLength {
        /// The key's algorithm.
        algorithm: Algorithm,
        /// The IV's length, in bytes.
        found: usize,
    },
    /// The algorithm does not take a tag of this length.
    #[error("a tag of {found} bytes is not allowed: {}", algorithm.info().tag_rule())]
    TagLength {
        /// The key's algorithm.
        algorithm: Algorithm,
        /// The tag's length, in bytes.
        found: usize,
    },
    /// The algorithm does not take a text of this length.
    #[error("{algorithm} needs a text of {}, not {found} bytes", algorithm.info().text_rule())]
    TextLength {
        /// The key's algorithm.
        algorithm: Algorithm,
        /// The text's length so far, in bytes.
        found: u64,
    },
    /// A piece of a stream, other than the last, is not a whole number of blocks.
    #[error(
        "a piece of {found} bytes is not a whole number of 16-byte blocks: only the last may be"
    )]
    PieceLength {
        /// The piece's length, in bytes.
        found: usize,
    },
    /// The last piece of an XTS stream is a partial block without a whole one.
    #[error(
        "the last piece has {found} bytes: {algorithm} needs at least 17 there if the text does \
         not end with a whole block"
    )]
    LastPieceLength {
        /// The key's algorithm.
        algorithm: Algorithm,
        /// The piece's length, in bytes.
        found: usize,
    },
    /// A text and the room for its result have different lengths.
    #[error("has {text} bytes of text but {room} bytes of room for its result")]
    ResultLength {
        /// The text's length, in bytes.
        text: usize,
        /// The room's length, in bytes.
        room: usize,
    },
    /// A span lies outside its buffer.
    #[error(
        "{len} bytes at {offset}{} lie outside {what}, which has {buffer} bytes",
        match *tag {
            0 => String::new(),
            len => format!(" and a tag of {len} bytes (Tags::Apart puts tags elsewhere)"),
        }
    )]
    OutOfBounds {
        /// Which buffer, in words.
        what: &'static str,
        /// Where the span begins.
        offset: usize,
        /// The span's length, in bytes.
        len: usize,
        /// Bytes of the tag that follows the span.
        tag: usize,
        /// The buffer's length, in bytes.
        buffer: usize,
    },
    /// Two messages' results share bytes.
    #[error("overlaps another message's result: each needs a place of its own")]
    ResultsOverlap,
    /// Two regions of GPU memory share bytes, and one of them is written.
    #[error(
        "{first} and {second} overlap in GPU memory: each needs a place of its own (for work in \
         place take DeviceText::InPlace)"
    )]
    RegionsOverlap {
        /// One of the two, in words.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// More messages than one plan can have.
    #[error("{count} messages are too many for one plan: make several")]
    TooManyMessages {
        /// How many the batch has.
        count: usize,
    },
    /// The algorithm lacks something that the batch asks for.
    #[error("{algorithm} {lack}")]
    Unsupported {
        /// The key's algorithm.
        algorithm: Algorithm,
        /// What it lacks.
        lack: Lack,
    },
    /// Decryption with [`Ivs::Random`](crate::Ivs::Random).
    #[error(
        "Ivs::Random is for encryption: to decrypt, give the IVs of the encryption with Ivs::Each"
    )]
    RandomIvs,
    /// A prefix of counted nonces has another length.
    #[error("the prefix of a counter's nonces has {found} bytes, not {needed}")]
    NoncePrefix {
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// The base of counted nonces has another length.
    #[error("the base of counted nonces has {found} bytes, not {needed}")]
    NonceBase {
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// Counted nonces would begin again.
    #[error("the numbers of counted nonces go beyond 2^64: begin with a smaller one")]
    NonceNumbers,
    /// Opening with new nonces.
    #[error("a counter makes new nonces, to seal: to open, give those that it wrote")]
    NewNonces,
    /// A plan that would seal with the same nonces at each launch.
    #[error(
        "a plan that seals would take the same nonces at each launch: use a NonceCounter, or write \
         new ones to GPU memory before each"
    )]
    FixedNonces,
    /// Encryption with [`Tags::Given`](crate::Tags::Given).
    #[error("sealing writes tags: give it a mutable array, not tags to compare")]
    GivenTags,
}

/// What an algorithm lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// It makes no tags.
    Tags,
    /// It takes no associated data.
    AssociatedData,
    /// It does not authenticate: it can neither seal nor open.
    Authentication,
    /// Its tweaks are not numbers of sectors.
    Sectors,
    /// Its nonces are not counted, or have another length than the counter's.
    CountedNonces,
    /// Its messages' places cannot be known to the GPU alone.
    IndirectPlaces,
    /// Its keys have no halves.
    KeyHalves,
}

impl BatchProblem {
    /// The error if this is the problem of a whole batch.
    pub(crate) fn of_batch(self) -> Error {
        Error::Batch {
            message: None,
            problem: self,
        }
    }

    /// The error if this is one message's problem.
    pub(crate) fn of_message(self, index: usize) -> Error {
        Error::Batch {
            message: Some(index),
            problem: self,
        }
    }
}

impl Lack {
    /// The error for this algorithm.
    pub(crate) fn of(self, algorithm: Algorithm) -> Error {
        let lack = self;
        BatchProblem::Unsupported { algorithm, lack }.of_batch()
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lack::Tags => "makes no tags: leave them out (a stream without a tag ends with finish)",
            Lack::AssociatedData => "takes no associated data: it would not be authenticated",
            Lack::Authentication => {
                "does not authenticate, so it can neither seal nor open: use an authenticated \
                 algorithm such as aes-256-gcm, or Batch::encrypt and Batch::decrypt"
            }
            Lack::Sectors => "has no sectors: only XTS numbers them",
            Lack::CountedNonces => {
                "takes no nonces of this counter: only authenticated algorithms do, each with one of \
                 its own"
            }
            Lack::IndirectPlaces => {
                "takes no places that only the GPU knows, as its texts cannot have every length: GCM, CTR \
                 and ACORN-128 do"
            }
            Lack::KeyHalves => "has keys without halves: make them with Key::new",
        })
    }
}
