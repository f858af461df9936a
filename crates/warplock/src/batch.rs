//! Batches: many messages submitted together, as a structure of arrays.
//!
//! A [`Batch`] says where each message's text lies, and which key, IV, associated data and tag
//! belong to it. [`crate::Engine::run`] checks all of it before it writes anything.

use crate::{Algorithm, Key};

/// Which way a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Plaintext to ciphertext; for authenticated algorithms: seal.
    Encrypt,
    /// Ciphertext to plaintext; for authenticated algorithms: open.
    Decrypt,
}

impl Direction {
    pub(crate) const BOTH: [Direction; 2] = [Direction::Encrypt, Direction::Decrypt];

    /// As commands and tables say it: `encrypt` or `decrypt`.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Encrypt => "encrypt",
            Direction::Decrypt => "decrypt",
        }
    }
}

/// A run of bytes in one of the batch's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Span {
    /// First byte, counted from the buffer's start.
    pub offset: usize,
    /// Length in bytes.
    pub len: usize,
}

/// Where the messages of a batch lie in a buffer. Lengths count text only, never tags.
#[derive(Clone, Copy, Debug)]
pub enum Spans<'a> {
    /// `count` messages of `len` bytes, whose starts lie `stride` bytes apart.
    Even {
        /// How many messages.
        count: usize,
        /// Text bytes of each.
        len: usize,
        /// From one message's start to the next one's, in bytes.
        stride: usize,
    },
    /// One span for each message, in any order.
    Ragged(&'a [Span]),
}

impl Spans<'_> {
    /// One message of `len` bytes at the buffer's start.
    pub const fn one(len: usize) -> Self {
        Spans::Even {
            count: 1,
            len,
            stride: len,
        }
    }

    /// How many messages.
    pub fn count(&self) -> usize {
        match self {
            Spans::Even { count, .. } => *count,
            Spans::Ragged(spans) => spans.len(),
        }
    }

    /// Where message `index` lies.
    ///
    /// # Panics
    /// For a ragged batch, if there is no such message.
    pub fn get(&self, index: usize) -> Span {
        match self {
            Spans::Even { len, stride, .. } => Span {
                offset: index.saturating_mul(*stride),
                len: *len,
            },
            Spans::Ragged(spans) => spans[index],
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Spans::Even { count, len, .. } => *count as u64 * *len as u64,
            Spans::Ragged(spans) => spans.iter().map(|span| span.len as u64).sum(),
        }
    }

    pub(crate) fn is_even(&self) -> bool {
        matches!(self, Spans::Even { .. })
    }

    /// Whether the messages are single blocks without gaps.
    pub(crate) fn are_blocks(&self) -> bool {
        matches!(
            self,
            Spans::Even {
                len: 16,
                stride: 16,
                ..
            }
        )
    }
}

/// The buffers of a batch's texts, in host memory.
#[derive(Debug)]
pub enum Text<'a> {
    /// Each message is replaced by its result.
    InPlace {
        /// Input, then output.
        buffer: &'a mut [u8],
        /// Where the texts lie in it.
        spans: Spans<'a>,
    },
    /// Results go to another buffer.
    Apart {
        /// Only read.
        input: &'a [u8],
        /// Where the texts lie in `input`; they may overlap each other.
        input_spans: Spans<'a>,
        /// Only the messages' spans (and appended tags) are written.
        output: &'a mut [u8],
        /// Where the results go in `output`: the same lengths as `input_spans`, no overlap.
        output_spans: Spans<'a>,
    },
}

impl<'a> Text<'a> {
    /// One message that fills `buffer`, in place: there is no room for a tag in it, so an
    /// authenticated algorithm needs [`Tags::Apart`] or [`Tags::Given`]. ([`Key::seal`] allocates.)
    pub fn in_place(buffer: &'a mut [u8]) -> Self {
        let spans = Spans::one(buffer.len());
        Text::InPlace { buffer, spans }
    }

    /// One message that fills `input`; its result fills the start of `output`, an appended tag
    /// comes after it. To open with an appended tag, use [`Text::Apart`] with a span that leaves it
    /// out.
    pub fn apart(input: &'a [u8], output: &'a mut [u8]) -> Self {
        let spans = Spans::one(input.len());
        Text::Apart {
            input,
            input_spans: spans,
            output,
            output_spans: spans,
        }
    }
}

/// The keys of a batch.
#[derive(Clone, Copy)]
pub enum Keys<'a> {
    /// The same key for every message.
    One(&'a Key),
    /// A key for each message: `algorithm.key_len()` bytes each, one after the other. They are
    /// assumed to be distinct, so their messages' nonces are not compared. XTS keys with equal
    /// halves are refused for encryption and accepted for decryption.
    Each {
        /// What the keys are for.
        algorithm: Algorithm,
        /// The secret bytes of all keys.
        bytes: &'a [u8],
    },
    /// A few keys, shared: message `i` uses `keys[index[i]]`. The keys are assumed to be distinct.
    Indexed {
        /// The keys, all for the same algorithm.
        keys: &'a [Key],
        /// For each message, the place of its key in `keys`.
        index: &'a [u32],
    },
}

/// The IVs, nonces, start counters or tweaks of a batch.
///
/// To encrypt, use [`Ivs::Random`] unless a protocol prescribes the IVs. A batch that would encrypt
/// two messages under the same key with the same nonce (GCM, ACORN), or with a common counter block
/// (CTR), is refused with [`crate::Error::NonceReuse`]; the engine does not remember earlier
/// batches. Repeated IVs of CBC are allowed: they only reveal which messages begin alike. So are
/// repeated tweaks of XTS.
#[derive(Debug)]
pub enum Ivs<'a> {
    /// None: for ECB.
    None,
    /// For encryption: the engine draws an IV for each message and writes it to this array,
    /// [`crate::AlgorithmInfo::iv_len`] bytes per message (12 for GCM). Store it with the message:
    /// decryption needs it, and it is not secret.
    ///
    /// With GCM, encrypt at most 2^32 messages under one key (NIST SP 800-38D, 8.3): beyond that,
    /// the chance that two of them drew the same nonce is no longer negligible.
    Random(&'a mut [u8]),
    /// Given by the caller, one after the other, [`crate::AlgorithmInfo::iv_len`] bytes per message (12 for
    /// GCM).
    Each(&'a [u8]),
    /// Given by the caller, anywhere in a buffer, and for GCM of any length.
    Ragged {
        /// The buffer that the spans point into.
        bytes: &'a [u8],
        /// One span for each message.
        spans: Spans<'a>,
    },
    /// Message `i` has the tweak `first + i`, as 16 bytes little-endian: sectors of a disk (XTS).
    Sectors {
        /// The number of the first sector.
        first: u128,
    },
}

/// The associated data (AD) of a batch: authenticated, not encrypted.
#[derive(Clone, Copy, Debug)]
pub enum Aad<'a> {
    /// No message has any.
    None,
    /// Every message has the same.
    Shared(&'a [u8]),
    /// Each message has its own.
    Each {
        /// The buffer that the spans point into.
        bytes: &'a [u8],
        /// One span for each message.
        spans: Spans<'a>,
    },
}

/// Where the tags of an authenticated batch are.
#[derive(Debug)]
pub enum Tags<'a> {
    /// Directly after each message's ciphertext, in the same buffer.
    Appended,
    /// In an array of their own, one after the other: read when opening, written when sealing.
    Apart(&'a mut [u8]),
    /// In an array of their own that is only read: for opening.
    Given(&'a [u8]),
}

/// Many messages submitted together; a single buffer is a batch of one.
///
/// ```
/// use warplock::{Aad, Algorithm, Batch, Engine, Ivs, Key, Keys, Spans, Tags, Text};
///
/// // Seal four records of 100 bytes in place, each followed by room for its 16-byte tag.
/// let key = Key::generate(Algorithm::Aes256Gcm)?;
/// let mut records = vec![7; 4 * 116];
/// let spans = Spans::Even { count: 4, len: 100, stride: 116 };
/// let mut nonces = [0; 4 * 12]; // keep them with the records
///
/// let engine = Engine::new()?;
/// let text = Text::InPlace { buffer: &mut records, spans };
/// let seal = Batch::seal(Keys::One(&key), text);
/// engine.run(seal.ivs(Ivs::Random(&mut nonces)).aad(Aad::Shared(b"v1")))?;
///
/// records[300] ^= 1; // in record 2
/// let text = Text::InPlace { buffer: &mut records, spans };
/// let refused = engine
///     .run(Batch::open(Keys::One(&key), text).ivs(Ivs::Each(&nonces)).aad(Aad::Shared(b"v1")))
///     .unwrap_err();
/// assert!(matches!(refused, warplock::Error::Authentication { failed, .. } if failed == [2]));
/// assert_eq!(records[..100], [7; 100]);
/// assert_eq!(records[232..332], [0; 100]); // nothing unverified is given out
/// # Ok::<(), warplock::Error>(())
/// ```
#[must_use = "a batch does nothing until an engine runs it"]
pub struct Batch<'a> {
    pub(crate) direction: Direction,
    pub(crate) keys: Keys<'a>,
    pub(crate) text: Text<'a>,
    pub(crate) ivs: Ivs<'a>,
    pub(crate) aad: Aad<'a>,
    pub(crate) tags: Tags<'a>,
    pub(crate) tag_len: usize,
    /// Made by [`Batch::seal`] or [`Batch::open`].
    pub(crate) must_authenticate: bool,
}

impl<'a> Batch<'a> {
    /// A batch in the given direction. Without further calls it has no IVs, no associated data,
    /// and for authenticated algorithms 16-byte tags appended to each ciphertext.
    pub fn new(direction: Direction, keys: Keys<'a>, text: Text<'a>) -> Self {
        Batch {
            direction,
            keys,
            text,
            ivs: Ivs::None,
            aad: Aad::None,
            tags: Tags::Appended,
            tag_len: 16,
            must_authenticate: false,
        }
    }

    /// A batch to encrypt. For authenticated algorithms the same as [`Batch::seal`].
    pub fn encrypt(keys: Keys<'a>, text: Text<'a>) -> Self {
        Batch::new(Direction::Encrypt, keys, text)
    }

    /// A batch to decrypt. For authenticated algorithms the same as [`Batch::open`].
    pub fn decrypt(keys: Keys<'a>, text: Text<'a>) -> Self {
        Batch::new(Direction::Decrypt, keys, text)
    }

    /// Authenticated encryption of a batch. Algorithms that do not authenticate are refused with
    /// [`crate::Error::Batch`] when the batch runs.
    pub fn seal(keys: Keys<'a>, text: Text<'a>) -> Self {
        Batch {
            must_authenticate: true,
            ..Batch::new(Direction::Encrypt, keys, text)
        }
    }

    /// Verified decryption of a batch: a message whose tag is wrong comes out as zeros. Algorithms
    /// that do not authenticate are refused with [`crate::Error::Batch`] when the batch runs.
    pub fn open(keys: Keys<'a>, text: Text<'a>) -> Self {
        Batch {
            must_authenticate: true,
            ..Batch::new(Direction::Decrypt, keys, text)
        }
    }

    /// The IVs, nonces, start counters or tweaks. A nonce must never be used twice under one
    /// key: [`Ivs::Random`] draws fresh ones.
    pub fn ivs(mut self, ivs: Ivs<'a>) -> Self {
        self.ivs = ivs;
        self
    }

    /// The associated data.
    pub fn aad(mut self, aad: Aad<'a>) -> Self {
        self.aad = aad;
        self
    }

    /// Where the tags are.
    pub fn tags(mut self, tags: Tags<'a>) -> Self {
        self.tags = tags;
        self
    }

    /// The tags' length in bytes; see [`crate::AlgorithmInfo::accepts_tag_len`].
    pub fn tag_len(mut self, len: usize) -> Self {
        self.tag_len = len;
        self
    }
}

impl Keys<'_> {
    /// The algorithm of the keys; `None` for an empty table.
    pub fn algorithm(&self) -> Option<Algorithm> {
        match self {
            Keys::One(key) => Some(key.algorithm()),
            Keys::Each { algorithm, .. } => Some(*algorithm),
            Keys::Indexed { keys, .. } => keys.first().map(Key::algorithm),
        }
    }
}
