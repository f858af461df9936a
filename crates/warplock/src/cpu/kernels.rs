//! The kernels of one instruction set: each mode over whole runs of blocks, for one thread.

use super::InstructionSet;
use super::prepared::{AesKey, GhashKey, Prepared};
use crate::Direction;
use crate::job::Message;

/// Input and output of a kernel: `len` bytes at `src` become `len` bytes at `dst`. Either
/// `src == dst`, or the two do not overlap; any alignment.
#[derive(Clone, Copy)]
pub(crate) struct Io {
    pub(crate) src: *const u8,
    pub(crate) dst: *mut u8,
    pub(crate) len: usize,
    /// Whether to write the output with non-temporal stores. Only where `src != dst`. A kernel may do
    /// so, and is asked only for output that begins with a cache line; [`store_fence`] follows.
    pub(crate) non_temporal: bool,
    /// Whether the input is in no cache, so that kernels should prefetch it.
    pub(crate) cold: bool,
}

// SAFETY: a pair of borrows, one of them mutable, that nothing else uses: it may go to the thread
// that works on it.
unsafe impl Send for Io {}

impl Io {
    /// Input and output that take the usual way through the caches.
    pub(crate) fn new(src: *const u8, dst: *mut u8, len: usize) -> Io {
        Io {
            src,
            dst,
            len,
            non_temporal: false,
            cold: false,
        }
    }

    /// The same, with non-temporal stores or without.
    pub(crate) fn with_non_temporal(self, non_temporal: bool) -> Io {
        Io {
            non_temporal,
            ..self
        }
    }

    /// The same; `cold`: the input is in no cache.
    pub(crate) fn with_cold(self, cold: bool) -> Io {
        Io { cold, ..self }
    }

    /// The blocks before the output's first cache line, and the rest, which a kernel may write with
    /// non-temporal stores. The rest is empty if such stores are not wanted, or if blocks straddle
    /// cache lines.
    pub(crate) fn non_temporal_part(self) -> (Io, Io) {
        let head = (self.dst as usize).wrapping_neg() % LINE;
        let near = match self.non_temporal && head.is_multiple_of(16) {
            true => head.min(self.len),
            false => self.len,
        };
        // SAFETY: the head is no longer than the whole.
        let (head, rest) = unsafe { (self.part(0, near), self.part(near, self.len - near)) };
        (head.with_non_temporal(false), rest)
    }

    /// The part of `len` bytes at `offset`.
    ///
    /// # Safety
    /// `offset + len <= self.len`.
    pub(crate) unsafe fn part(self, offset: usize, len: usize) -> Io {
        debug_assert!(offset + len <= self.len);
        // SAFETY: inside both buffers by this function's contract.
        unsafe {
            Io {
                src: self.src.add(offset),
                dst: self.dst.add(offset),
                len,
                ..self
            }
        }
    }

    pub(crate) fn in_place(buffer: &mut [u8]) -> Io {
        Io::new(buffer.as_ptr(), buffer.as_mut_ptr(), buffer.len())
    }
}

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Orders non-temporal stores before everything that this thread does from now on.
pub(crate) fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// How many bits of a 16-byte big-endian counter count before they wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CounterBits {
    /// GCM's inc32 (SP 800-38D, 6.2).
    B32,
    /// CTR as OpenSSL and most programs have it.
    B128,
}

impl CounterBits {
    /// The counter `blocks` later.
    pub(crate) fn advance(self, counter: [u8; 16], blocks: u64) -> [u8; 16] {
        let start = u128::from_be_bytes(counter);
        let next = match self {
            CounterBits::B32 => {
                let low = (start as u32).wrapping_add(blocks as u32);
                start & !u128::from(u32::MAX) | u128::from(low)
            }
            CounterBits::B128 => start.wrapping_add(u128::from(blocks)),
        };
        next.to_be_bytes()
    }
}

/// The next counter block of a GCM message.
#[derive(Clone, Copy)]
pub(crate) struct GcmCounter {
    pub(crate) block: [u8; 16],
    /// Whether it is secret: if the IV does not have 12 bytes, the counter depends on the hash key
    /// (SP 800-38D, 7.1). Then no branch and no address may depend on it.
    pub(crate) hidden: bool,
}

/// One CBC encryption: the chain of one message.
pub(crate) struct Chain<'a> {
    pub(crate) key: &'a AesKey,
    /// The IV, then the last ciphertext block.
    pub(crate) prev: [u8; 16],
    /// A multiple of 16 bytes.
    pub(crate) io: Io,
}

/// The longest text, and the longest associated data, of a [`Short`] message.
pub(crate) const SHORT: usize = 2048;

/// The longest text of a [`Short`] message whose key is prepared, unless all have the same and
/// [`Kernels::gcm_rows`]: longer ones gain more from the powers of H that it has.
pub(crate) const SHORT_PREPARED: usize = 768;

/// A GCM message of at most [`SHORT`] bytes of text, for work on many of them together.
pub(crate) struct Short<'a> {
    /// Its index in the batch.
    pub(crate) index: usize,
    pub(crate) key: MessageKey<'a>,
    /// Has an IV of 12 bytes, and at most [`SHORT`] bytes of text and of associated data.
    pub(crate) message: Message<'a>,
    pub(crate) iv: &'a [u8; 12],
    /// Zeros; the tag, when the message is done.
    pub(crate) tag: [u8; 16],
}

impl Short<'_> {
    /// The text.
    pub(crate) fn io(&self) -> Io {
        Io::new(self.message.input, self.message.output, self.message.len)
    }
}

/// The key of a message; all messages of a batch have the same kind.
#[derive(Clone, Copy)]
pub(crate) enum MessageKey<'a> {
    /// For this message alone.
    Bytes(&'a [u8]),
    /// Shared.
    Prepared(&'a Prepared),
}

/// The primitives of one instruction set. A value of this type is proof that this machine has the
/// instructions. Lengths are multiples of 16 bytes unless a method says otherwise.
///
/// # Safety of all unsafe methods
/// The pointers of each [`Io`] are valid for its length, and nothing else uses that memory during
/// the call.
pub(crate) trait Kernels: Sync {
    fn set(&self) -> InstructionSet;

    /// Round keys from 16, 24 or 32 secret bytes (FIPS 197, 5.2), and if wanted those of the
    /// equivalent inverse cipher (5.3.5). Written in place: moving a key for each message would
    /// cost time.
    fn expand(&self, key: &[u8], inverse: bool, to: &mut AesKey);

    /// What GHASH derives from its key `h` (SP 800-38D, 6.4) for messages of up to `blocks` blocks.
    fn ghash_key(&self, h: [u8; 16], blocks: usize, to: &mut Option<GhashKey>);

    /// Each block by itself.
    unsafe fn ecb(&self, key: &AesKey, direction: Direction, io: Io);

    /// AES-128 encryption of each block under the 16 bytes at the same place of `keys`.
    unsafe fn ecb_each(&self, keys: &[u8], io: Io);

    /// XOR with the key stream from `counter` on, of which all 128 bits count; any length. `counter`
    /// ends after the last block begun.
    unsafe fn ctr(&self, key: &AesKey, counter: &mut [u8; 16], io: Io);

    /// CBC decryption; `prev` is the IV and becomes the last ciphertext block.
    unsafe fn cbc_decrypt(&self, key: &AesKey, prev: &mut [u8; 16], io: Io);

    /// CBC encryption of many messages, interleaved; each one's `prev` becomes its last block.
    unsafe fn cbc_encrypt(&self, chains: &mut [Chain<'_>]);

    /// XEX; `tweak` is the encrypted tweak of the first block and becomes that of the block after
    /// the last. With a key for tweaks it is the IV, which is encrypted first: in a call of its own,
    /// the text would wait longer for it.
    unsafe fn xts(
        &self,
        key: &AesKey,
        tweak_key: Option<&AesKey>,
        direction: Direction,
        tweak: &mut [u8; 16],
        io: Io,
    );

    /// GCM's two halves in one pass: counter mode (32 bits), and GHASH of the ciphertext into `y`.
    /// Any length, as for its two halves.
    unsafe fn gcm(
        &self,
        key: &AesKey,
        hash: &GhashKey,
        direction: Direction,
        counter: &mut GcmCounter,
        y: &mut [u8; 16],
        io: Io,
    );

    /// Processes short GCM messages together. Reorders them, does the first ones, and returns how
    /// many; the others are left for [`Kernels::gcm`].
    unsafe fn gcm_short(&self, _direction: Direction, _messages: &mut [Short<'_>]) -> usize {
        0
    }

    /// Whether [`Kernels::gcm_short`] is faster for all [`Short`] messages under one key.
    fn gcm_rows(&self) -> bool {
        false
    }

    /// GHASH of `data` into `y`; a last partial block is padded with zeros.
    fn ghash(&self, hash: &GhashKey, y: &mut [u8; 16], data: &[u8]);

    /// The end of a GCM message (SP 800-38D, 7.1, steps 5 and 6): the tag for the pre-counter block
    /// `first`, the hash `y` of associated data and ciphertext, and the block of their `lengths`.
    fn gcm_tag(
        &self,
        key: &AesKey,
        hash: &GhashKey,
        first: [u8; 16],
        mut y: [u8; 16],
        lengths: &[u8; 16],
    ) -> [u8; 16] {
        let mut mask = first;
        // SAFETY: the buffer is this function's own.
        unsafe { self.ecb(key, Direction::Encrypt, Io::in_place(&mut mask)) };
        self.ghash(hash, &mut y, lengths);
        (u128::from_ne_bytes(mask) ^ u128::from_ne_bytes(y)).to_ne_bytes()
    }
}
