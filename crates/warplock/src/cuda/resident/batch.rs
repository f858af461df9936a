//! The input of a plan: the same as a [`crate::Batch`], but in GPU memory.

use super::counter::NonceCounter;
use crate::{Algorithm, Direction, Key, Keys, Spans};

/// A run of bytes in GPU memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    address: u64,
    len: usize,
}

impl Region {
    /// `len` bytes at a device address: a `CUdeviceptr`, such as PyTorch's `tensor.data_ptr()` or
    /// CuPy's `array.data.ptr`. Any alignment will do; multiples of 16 are fastest. Kernels read
    /// the whole line of 16 bytes in which a text's first or last byte lies, which is harmless, but
    /// which compute-sanitizer reports if an allocation ends inside that line.
    ///
    /// # Safety
    /// The address is one of the device that the region will be used with, in its primary context
    /// (the one of the CUDA runtime), and all `len` bytes belong to the caller.
    pub const unsafe fn new(address: u64, len: usize) -> Self {
        Region { address, len }
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it.
    ///
    /// # Panics
    /// If that lies outside.
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Region {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "a part lies inside its region"
        );
        Region {
            address: self.address + offset as u64,
            len,
        }
    }

    /// Whether the two share a byte.
    pub(super) fn overlaps(&self, other: &Region) -> bool {
        let end = |region: &Region| u128::from(region.address) + region.len as u128;
        !self.is_empty()
            && !other.is_empty()
            && u128::from(self.address) < end(other)
            && u128::from(other.address) < end(self)
    }
}

/// The buffers of a batch's texts, in GPU memory.
#[derive(Clone, Copy, Debug)]
pub enum DeviceText<'a> {
    /// Each message is replaced by its result.
    InPlace {
        /// Input, then output.
        buffer: Region,
        /// Where the texts lie in it.
        spans: Spans<'a>,
    },
    /// Results go to another buffer, which must not overlap the first.
    Apart {
        /// Only read.
        input: Region,
        /// Where the texts lie in `input`; they may overlap each other.
        input_spans: Spans<'a>,
        /// Only the messages' spans (and appended tags) are written.
        output: Region,
        /// Where the results go in `output`: the same lengths as `input_spans`, no overlap.
        output_spans: Spans<'a>,
    },
}

impl DeviceText<'_> {
    /// One message that fills `buffer`, in place.
    pub const fn in_place(buffer: Region) -> Self {
        let spans = Spans::one(buffer.len);
        DeviceText::InPlace { buffer, spans }
    }

    /// One message that fills `input`; its result fills the start of `output`.
    pub const fn apart(input: Region, output: Region) -> Self {
        let spans = Spans::one(input.len);
        DeviceText::Apart {
            input,
            input_spans: spans,
            output,
            output_spans: spans,
        }
    }
}

/// The keys of a batch in GPU memory.
#[derive(Clone, Copy)]
pub enum DeviceKeys<'a> {
    /// Keys in host memory: expanded and uploaded when the plan is made, wiped when it is dropped.
    Host(Keys<'a>),
    /// A key for each message in GPU memory, `algorithm.key_len()` bytes each, one after the
    /// other; read at every launch. The caller wipes them. The halves of XTS keys must differ:
    /// the engine cannot check that here.
    Each {
        /// What the keys are for.
        algorithm: Algorithm,
        /// The secret bytes of all keys.
        bytes: Region,
    },
}

impl<'a> From<Keys<'a>> for DeviceKeys<'a> {
    fn from(keys: Keys<'a>) -> Self {
        DeviceKeys::Host(keys)
    }
}

impl<'a> From<&'a Key> for DeviceKeys<'a> {
    fn from(key: &'a Key) -> Self {
        DeviceKeys::Host(Keys::One(key))
    }
}

/// The IVs, nonces, start counters or tweaks of a batch. Those in GPU memory are read at every
/// launch; the engine cannot check there that no nonce is used twice under one key. To seal, use
/// [`DeviceIvs::Counter`].
#[derive(Clone, Copy, Debug)]
pub enum DeviceIvs<'a> {
    /// None: for ECB.
    None,
    /// One after the other, [`crate::AlgorithmInfo::iv_len`] bytes per message (12 for GCM).
    Each(Region),
    /// Anywhere in a buffer, and for GCM of any length.
    Ragged {
        /// The buffer that the spans point into.
        bytes: Region,
        /// One span for each message.
        spans: Spans<'a>,
    },
    /// Message `i` has the tweak `first + i`, as 16 bytes little-endian: sectors of a disk (XTS).
    /// The plan contains them.
    Sectors {
        /// The number of the first sector.
        first: u128,
    },
    /// New nonces at every launch, also of a graph: to seal.
    Counter {
        /// Where they come from. It lives as long as the batch's regions.
        counter: &'a NonceCounter,
        /// Where they are written, one after the other, [`crate::AlgorithmInfo::iv_len`] bytes per
        /// message: they are needed to open.
        nonces: Region,
    },
    /// Message `i` has the nonce `base` XOR `first + i`, this number big-endian in its last eight
    /// bytes: TLS, and the chunks of encrypted files. Of authenticated algorithms, and no plan that
    /// seals: it would seal with the same nonces again.
    Xor {
        /// [`crate::AlgorithmInfo::iv_len`] bytes.
        base: &'a [u8],
        /// The number of the first message.
        first: u64,
    },
    /// Message `i` has the nonce `base + first + i`, added big-endian to its last four bytes,
    /// modulo 2^32. As [`DeviceIvs::Xor`] otherwise.
    Add32 {
        /// [`crate::AlgorithmInfo::iv_len`] bytes.
        base: &'a [u8],
        /// The number of the first message.
        first: u32,
    },
}

/// The associated data of a batch in GPU memory; read at every launch.
#[derive(Clone, Copy, Debug)]
pub enum DeviceAad<'a> {
    /// No message has any.
    None,
    /// Every message has the same.
    Shared(Region),
    /// Each message has its own.
    Each {
        /// The buffer that the spans point into.
        bytes: Region,
        /// One span for each message.
        spans: Spans<'a>,
    },
}

/// Where the tags of an authenticated batch are.
#[derive(Clone, Copy, Debug)]
pub enum DeviceTags {
    /// Directly after each message's ciphertext, in the same buffer.
    Appended,
    /// In an array of their own, one after the other: read when opening, written when sealing.
    Apart(Region),
}

/// Many messages in GPU memory; the device's [`crate::Batch`].
#[derive(Clone, Copy)]
#[must_use = "a batch does nothing until a plan is made of it"]
pub struct DeviceBatch<'a> {
    pub(super) direction: Direction,
    pub(super) keys: DeviceKeys<'a>,
    pub(super) text: DeviceText<'a>,
    pub(super) ivs: DeviceIvs<'a>,
    pub(super) aad: DeviceAad<'a>,
    pub(super) tags: DeviceTags,
    pub(super) tag_len: usize,
}

impl<'a> DeviceBatch<'a> {
    /// A batch in the given direction. Without further calls it has no IVs, no associated data,
    /// and for authenticated algorithms 16-byte tags appended to each ciphertext.
    pub fn new(
        direction: Direction,
        keys: impl Into<DeviceKeys<'a>>,
        text: DeviceText<'a>,
    ) -> Self {
        DeviceBatch {
            direction,
            keys: keys.into(),
            text,
            ivs: DeviceIvs::None,
            aad: DeviceAad::None,
            tags: DeviceTags::Appended,
            tag_len: 16,
        }
    }

    /// A batch to encrypt; for authenticated algorithms, to seal.
    pub fn encrypt(keys: impl Into<DeviceKeys<'a>>, text: DeviceText<'a>) -> Self {
        DeviceBatch::new(Direction::Encrypt, keys, text)
    }

    /// A batch to decrypt; for authenticated algorithms, to open: a message whose tag is wrong
    /// comes out as zeros.
    pub fn decrypt(keys: impl Into<DeviceKeys<'a>>, text: DeviceText<'a>) -> Self {
        DeviceBatch::new(Direction::Decrypt, keys, text)
    }

    /// The IVs, nonces, start counters or tweaks. A nonce must never be used twice with one key:
    /// a plan that seals needs new ones in this place before each launch.
    pub fn ivs(mut self, ivs: DeviceIvs<'a>) -> Self {
        self.ivs = ivs;
        self
    }

    /// The associated data.
    pub fn aad(mut self, aad: DeviceAad<'a>) -> Self {
        self.aad = aad;
        self
    }

    /// Where the tags are.
    pub fn tags(mut self, tags: DeviceTags) -> Self {
        self.tags = tags;
        self
    }

    /// The tags' length in bytes: 12 to 16 to seal, 4, 8 or 12 to 16 to open.
    pub fn tag_len(mut self, len: usize) -> Self {
        self.tag_len = len;
        self
    }
}
