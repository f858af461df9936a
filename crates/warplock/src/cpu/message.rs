//! A message in progress: the state that its mode carries from piece to piece, its start and end.

use std::ptr::write_volatile;
use std::sync::atomic::{Ordering, compiler_fence};

use subtle::ConstantTimeEq;

use super::acorn::Acorn;
use super::kernels::{Chain, CounterBits, GcmCounter, Io, Kernels, store_fence};
use super::portable::{gf_mul, gf_pow, xts_skip};
use super::prepared::{AesKey, GhashKey, Prepared};
use crate::secret::declassify;
use crate::{AlgorithmInfo, Direction, Mode};

/// The state that a mode carries from one piece of a message to the next.
#[derive(Clone)]
pub(crate) enum Running {
    Ecb,
    Cbc { prev: Carried },
    Ctr { counter: Carried },
    Xts { tweak: Tweak },
    Gcm(Gcm),
    Acorn(Acorn),
}

/// A block within one cache line: reading a block that was just written across two lines stalls,
/// which shows in a short message's time.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(crate) struct Carried(pub(crate) [u8; 16]);

/// XTS's next tweak: like [`Carried`], but the tweak key made it, so it is wiped.
#[derive(Clone)]
#[repr(align(16))]
pub(crate) struct Tweak(pub(crate) [u8; 16]);

impl Drop for Tweak {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// GCM's state (SP 800-38D, 7.1).
#[derive(Clone)]
#[repr(align(16))]
pub(crate) struct Gcm {
    counter: GcmCounter,
    /// GHASH of the associated data and the ciphertext so far.
    y: [u8; 16],
    /// The first counter block; encrypted, it masks the tag.
    first: [u8; 16],
    aad_len: u64,
    text_len: u64,
}

impl Drop for Gcm {
    fn drop(&mut self) {
        // These reveal the hash key; the counters do where the IV is hashed.
        wipe(&mut self.y);
        wipe(&mut self.first);
        wipe(&mut self.counter.block);
    }
}

impl Running {
    /// A message's start. The IV fits the algorithm.
    pub(crate) fn start(
        kernels: &dyn Kernels,
        prepared: &Prepared,
        info: &AlgorithmInfo,
        iv: &[u8],
        aad: &[u8],
    ) -> Self {
        match info.mode {
            Mode::Ecb => Running::Ecb,
            Mode::Cbc => Running::cbc(iv),
            Mode::Ctr => Running::ctr(iv),
            Mode::Xts => Running::xts(kernels, prepared, iv),
            Mode::Gcm => Running::gcm(kernels, prepared, iv, aad),
            Mode::Acorn => {
                let key = prepared.acorn.as_ref().expect("a key of ACORN's");
                Running::Acorn(Acorn::start(key, &block(iv), aad))
            }
        }
    }

    /// The start of a CBC message.
    #[inline(always)]
    pub(super) fn cbc(iv: &[u8]) -> Self {
        Running::Cbc {
            prev: Carried(block(iv)),
        }
    }

    /// The start of a CTR message.
    #[inline(always)]
    pub(super) fn ctr(iv: &[u8]) -> Self {
        Running::Ctr {
            counter: Carried(block(iv)),
        }
    }

    /// The start of an XTS message.
    #[inline(always)]
    pub(super) fn xts(kernels: &dyn Kernels, prepared: &Prepared, iv: &[u8]) -> Self {
        let mut tweak = [block(iv)];
        make_tweaks(kernels, prepared, &mut tweak);
        let [tweak] = tweak;
        Running::Xts {
            tweak: Tweak(tweak),
        }
    }

    /// The start of a GCM message.
    #[inline(always)]
    pub(super) fn gcm(kernels: &dyn Kernels, prepared: &Prepared, iv: &[u8], aad: &[u8]) -> Self {
        Running::Gcm(Gcm::start(kernels, prepared, iv, aad))
    }

    /// The state `blocks` later, for a piece that another thread takes. `before` is the 16 bytes
    /// of input before that piece. GCM's copy starts a hash of its own; see [`Running::join`].
    pub(crate) fn skip(&self, blocks: u64, before: [u8; 16]) -> Self {
        match self {
            Running::Ecb => Running::Ecb,
            Running::Cbc { .. } => Running::Cbc {
                prev: Carried(before),
            },
            Running::Ctr { counter } => Running::Ctr {
                counter: Carried(CounterBits::B128.advance(counter.0, blocks)),
            },
            Running::Xts { tweak } => Running::Xts {
                tweak: Tweak(xts_skip(tweak.0, blocks)),
            },
            Running::Gcm(gcm) => {
                let mut later = gcm.clone();
                later.counter.block = CounterBits::B32.advance(gcm.counter.block, blocks);
                later.y = [0; 16];
                later.text_len = 0;
                Running::Gcm(later)
            }
            Running::Acorn(_) => unreachable!("ACORN's messages are not cut"),
        }
    }

    /// Takes over from the state that has done the piece after this one.
    pub(crate) fn join(&mut self, prepared: &Prepared, later: Running) {
        match (self, later) {
            (Running::Gcm(this), Running::Gcm(later)) => {
                let h = ghash_key(prepared).h();
                this.y = gf_mul(this.y, gf_pow(h, later.text_len.div_ceil(16)));
                this.y
                    .iter_mut()
                    .zip(&later.y)
                    .for_each(|(y, later)| *y ^= later);
                this.counter = later.counter;
                this.text_len += later.text_len;
            }
            (this, later) => *this = later,
        }
    }

    /// From a message's start, the state for a part of it that runs by itself: `blocks` and
    /// `before` as for [`Running::skip`].
    pub(crate) fn part(&self, blocks: u64, before: [u8; 16]) -> Self {
        match self {
            Running::Gcm(_) => self.skip(blocks, before),
            _ if blocks == 0 => self.clone(),
            _ => self.skip(blocks, before),
        }
    }

    /// From a message's start, what GCM's tag would be if its text of `len` bytes added nothing;
    /// zeros for other modes. The tag is the sum of this and of all parts' shares.
    pub(crate) fn frame(&self, kernels: &dyn Kernels, prepared: &Prepared, len: usize) -> [u8; 16] {
        let Running::Gcm(gcm) = self else {
            return [0; 16];
        };
        let mut whole = gcm.clone();
        let h = ghash_key(prepared).h();
        whole.y = gf_mul(gcm.y, gf_pow(h, len.div_ceil(16) as u64));
        whole.text_len = len as u64;
        Running::Gcm(whole)
            .tag(kernels, prepared)
            .unwrap_or_default()
    }

    /// The contribution of a finished part of a GCM message to the tag; `after` bytes of text
    /// follow it.
    pub(crate) fn tag_share(&self, prepared: &Prepared, after: usize) -> Option<[u8; 16]> {
        let Running::Gcm(gcm) = self else {
            return None;
        };
        let h = ghash_key(prepared).h();
        Some(gf_mul(gcm.y, gf_pow(h, after.div_ceil(16) as u64 + 1)))
    }

    /// Works on whole blocks; at a message's end on any length, for modes that need no more there.
    ///
    /// # Safety
    /// As the methods of [`Kernels`].
    pub(crate) unsafe fn update(
        &mut self,
        kernels: &dyn Kernels,
        prepared: &Prepared,
        direction: Direction,
        io: Io,
    ) {
        let any = matches!(
            self,
            Running::Ctr { .. } | Running::Gcm(_) | Running::Acorn(_)
        );
        debug_assert!(any || io.len.is_multiple_of(16));
        // SAFETY: by this function's contract.
        unsafe {
            match io.non_temporal {
                true => self.update_non_temporal(kernels, prepared, direction, io),
                false => self.call(kernels, prepared, direction, io),
            }
        }
    }

    /// [`Running::update`] with non-temporal stores.
    ///
    /// # Safety
    /// As [`Running::update`].
    #[inline(never)]
    unsafe fn update_non_temporal(
        &mut self,
        kernels: &dyn Kernels,
        prepared: &Prepared,
        direction: Direction,
        io: Io,
    ) {
        let (cached, streamed) = io.non_temporal_part();
        // SAFETY: by this function's contract.
        unsafe {
            if cached.len > 0 {
                self.call(kernels, prepared, direction, cached);
            }
            if streamed.len > 0 {
                self.call(kernels, prepared, direction, streamed);
                store_fence();
            }
        }
    }

    /// [`Running::update`] with one call of a kernel.
    ///
    /// # Safety
    /// The same, and a non-temporal output begins at a cache line.
    #[inline(always)]
    unsafe fn call(
        &mut self,
        kernels: &dyn Kernels,
        prepared: &Prepared,
        direction: Direction,
        io: Io,
    ) {
        let key = &prepared.aes;
        // SAFETY: by this function's contract.
        unsafe {
            match self {
                Running::Ecb => kernels.ecb(key, direction, io),
                Running::Cbc { prev } => match direction {
                    Direction::Decrypt => kernels.cbc_decrypt(key, &mut prev.0, io),
                    Direction::Encrypt => {
                        let mut chain = [Chain {
                            key,
                            prev: prev.0,
                            io,
                        }];
                        kernels.cbc_encrypt(&mut chain);
                        prev.0 = chain[0].prev;
                    }
                },
                Running::Ctr { counter } => kernels.ctr(key, &mut counter.0, io),
                Running::Xts { tweak } => kernels.xts(key, None, direction, &mut tweak.0, io),
                Running::Gcm(gcm) => {
                    let hash = ghash_key(prepared);
                    kernels.gcm(key, hash, direction, &mut gcm.counter, &mut gcm.y, io);
                    gcm.text_len += io.len as u64;
                }
                Running::Acorn(acorn) => acorn.update(direction, io),
            }
        }
    }

    /// Works on the end of a message, of any length that its mode takes; for XTS, an end that is no
    /// whole number of blocks has at least one.
    ///
    /// # Safety
    /// As the methods of [`Kernels`].
    // A call would be a tenth of a short message's time, and the compiler sometimes makes it one.
    #[inline(always)]
    pub(crate) unsafe fn finish(
        &mut self,
        kernels: &dyn Kernels,
        prepared: &Prepared,
        direction: Direction,
        io: Io,
    ) {
        let stolen = match self {
            Running::Xts { .. } => stolen(io.len),
            _ => 0,
        };
        let whole = io.len - stolen;
        // SAFETY: both parts lie in `io`; the rest by this function's contract.
        unsafe {
            if whole > 0 {
                self.update(kernels, prepared, direction, io.part(0, whole));
            }
            if let Running::Xts { tweak } = self
                && stolen > 0
            {
                let end = io.part(whole, stolen);
                steal(kernels, prepared, direction, tweak.0, end);
            }
        }
    }

    /// The tag of a finished message; `None` for modes without tags.
    pub(crate) fn tag(&self, kernels: &dyn Kernels, prepared: &Prepared) -> Option<[u8; 16]> {
        let gcm = match self {
            Running::Gcm(gcm) => gcm,
            Running::Acorn(acorn) => return Some(acorn.tag()),
            _ => return None,
        };
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&(gcm.aad_len * 8).to_be_bytes());
        lengths[8..].copy_from_slice(&(gcm.text_len * 8).to_be_bytes());
        let hash = ghash_key(prepared);
        Some(kernels.gcm_tag(&prepared.aes, hash, gcm.first, gcm.y, &lengths))
    }

    /// Whether `tag` (or a shorter cut of it) is this finished message's, in constant time.
    pub(crate) fn verify(&self, kernels: &dyn Kernels, prepared: &Prepared, tag: &[u8]) -> bool {
        match self.tag(kernels, prepared) {
            Some(expected) => declassify(expected[..tag.len()].ct_eq(tag)),
            None => true,
        }
    }
}

/// An IV that is a block.
#[inline(always)]
fn block(iv: &[u8]) -> [u8; 16] {
    *iv.first_chunk()
        .expect("the job was checked: this mode's IV is a block")
}

/// Wipes a block as one: by bytes, it would show in a short message's time.
fn wipe(block: &mut [u8; 16]) {
    // SAFETY: a reference is valid and aligned.
    unsafe { write_volatile(block, [0; 16]) };
    compiler_fence(Ordering::SeqCst);
}

fn tweak_key(prepared: &Prepared) -> &AesKey {
    let key = prepared.tweak.as_ref();
    key.expect("an XTS key has a second half")
}

fn ghash_key(prepared: &Prepared) -> &GhashKey {
    prepared.ghash.as_ref().expect("a GCM key has a hash key")
}

impl Gcm {
    fn start(kernels: &dyn Kernels, prepared: &Prepared, iv: &[u8], aad: &[u8]) -> Self {
        let hash = ghash_key(prepared);
        let mut first = [0; 16];
        if iv.len() == 12 {
            first[..12].copy_from_slice(iv);
            first[15] = 1;
        } else {
            kernels.ghash(hash, &mut first, iv);
            let lengths = (iv.len() as u128 * 8).to_be_bytes();
            kernels.ghash(hash, &mut first, &lengths);
        }
        let mut y = [0; 16];
        if !aad.is_empty() {
            kernels.ghash(hash, &mut y, aad);
        }
        Gcm {
            counter: GcmCounter {
                block: CounterBits::B32.advance(first, 1),
                hidden: iv.len() != 12,
            },
            y,
            first,
            aad_len: aad.len() as u64,
            text_len: 0,
        }
    }
}

/// The tweaks of XTS messages' first blocks, from their IVs.
pub(super) fn make_tweaks(kernels: &dyn Kernels, prepared: &Prepared, tweaks: &mut [[u8; 16]]) {
    let io = Io::in_place(tweaks.as_flattened_mut());
    // SAFETY: the buffer is borrowed alone.
    unsafe { kernels.ecb(tweak_key(prepared), Direction::Encrypt, io) };
}

/// A whole XTS message of whole blocks, in one call of a kernel.
///
/// # Safety
/// As the methods of [`Kernels`]; no store is non-temporal.
pub(super) unsafe fn whole_xts(
    kernels: &dyn Kernels,
    prepared: &Prepared,
    direction: Direction,
    iv: &[u8],
    io: Io,
) {
    let mut tweak = Carried(block(iv));
    let (key, tweak_key) = (&prepared.aes, Some(tweak_key(prepared)));
    // SAFETY: by this function's contract.
    unsafe { kernels.xts(key, tweak_key, direction, &mut tweak.0, io) };
}

/// Bytes at the end of an XTS message that are left after its whole blocks: a partial block, and
/// the one before it.
pub(super) fn stolen(len: usize) -> usize {
    match len % 16 {
        0 => 0,
        partial => len.min(partial + 16),
    }
}

/// XTS's ciphertext stealing (IEEE 1619, 5.3.2 and 5.4.2): the last whole block and the partial one
/// after it.
///
/// # Safety
/// As the methods of [`Kernels`]; `io` has 17 to 31 bytes.
unsafe fn steal(
    kernels: &dyn Kernels,
    prepared: &Prepared,
    direction: Direction,
    tweak: [u8; 16],
    io: Io,
) {
    let partial = io.len - 16;
    // Decryption uses the tweaks in the other order.
    let (mut first, mut second) = match direction {
        Direction::Encrypt => (tweak, xts_skip(tweak, 1)),
        Direction::Decrypt => (xts_skip(tweak, 1), tweak),
    };
    // SAFETY: `io.len` is below 32; the rest by this function's contract.
    unsafe {
        let xts = |tweak, block: &mut [u8; 16]| {
            kernels.xts(&prepared.aes, None, direction, tweak, Io::in_place(block));
        };
        let mut block = io.src.cast::<[u8; 16]>().read();
        xts(&mut first, &mut block);
        // Its head becomes the partial block, its tail fills up the other.
        let mut other = block;
        let behind = io.src.add(16);
        behind.copy_to_nonoverlapping(other.as_mut_ptr(), partial);
        io.dst
            .add(16)
            .copy_from_nonoverlapping(block.as_ptr(), partial);
        xts(&mut second, &mut other);
        io.dst.cast::<[u8; 16]>().write(other);
    }
}
