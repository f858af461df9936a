//! Data that is derived from a key once and used for every block.

use zeroize::{Zeroize, Zeroizing};

use super::kernels::{Io, Kernels};
use super::portable;
use crate::{Algorithm, Direction, Mode};

/// Round keys, 16 bytes each as in FIPS 197; `enc.len() - 1` is the largest number of rounds.
#[derive(Clone)]
#[repr(C, align(16))]
pub(crate) struct AesKey {
    /// For the cipher (FIPS 197, 5.1).
    pub(crate) enc: [[u8; 16]; 15],
    /// For the equivalent inverse cipher (5.3.5): reversed, the inner ones through InvMixColumns.
    /// Zeros if the key's mode never decrypts a block.
    pub(crate) dec: [[u8; 16]; 15],
    /// 10, 12 or 14.
    pub(crate) rounds: usize,
}

impl Drop for AesKey {
    fn drop(&mut self) {
        let keys: *mut u128 = (&raw mut *self).cast();
        // SAFETY: `enc` and `dec` are the first 30 blocks of all that `self` borrows (`repr(C)`),
        // aligned to 16. Wiped by words: by bytes, it would take longer than a short message.
        unsafe { std::slice::from_raw_parts_mut(keys, 30) }.zeroize();
    }
}

impl AesKey {
    /// Room for a key.
    pub(crate) const fn empty() -> Self {
        AesKey {
            enc: [[0; 16]; 15],
            dec: [[0; 16]; 15],
            rounds: 0,
        }
    }

    /// A key by itself.
    #[cfg(test)]
    pub(crate) fn of(kernels: &dyn Kernels, bytes: &[u8], inverse: bool) -> Self {
        let mut key = AesKey::empty();
        kernels.expand(bytes, inverse, &mut key);
        key
    }

    /// The round keys of a direction.
    #[inline(always)]
    pub(crate) fn round_keys(&self, direction: Direction) -> &[[u8; 16]; 15] {
        match direction {
            Direction::Encrypt => &self.enc,
            Direction::Decrypt => &self.dec,
        }
    }
}

/// The most powers of H that a kernel multiplies with before it reduces.
pub(crate) const MAX_POWERS: usize = 32;

/// Powers of the hash key, byte-reversed and times x (RFC 8452, appendix A), the highest first:
/// H^k is at `MAX_POWERS - k`. Each is there twice, as [`Lanes::hash`] takes it: first all of them
/// folded, then themselves. On a cache line's boundary, as registers of four are loaded.
///
/// [`Lanes::hash`]: super::body::Lanes::hash
#[derive(Clone)]
#[repr(align(64))]
pub(crate) struct Powers(pub(crate) [[u128; MAX_POWERS]; 2]);

/// What GHASH needs of its key, in the form of the instruction set that made it.
#[derive(Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "an allocation would take longer than the key of a short message"
)]
pub(crate) enum GhashKey {
    /// For carry-less multiplication instructions: as many powers as the kernel is wide.
    Clmul { h: [u8; 16], powers: Powers },
    /// For machines without them.
    Portable {
        h: [u8; 16],
        key: portable::GhashKey,
    },
}

impl GhashKey {
    /// Writes the key `h` to `to`; returns the room for the powers.
    pub(crate) fn clmul(h: [u8; 16], to: &mut Option<GhashKey>) -> &mut Powers {
        let empty = || GhashKey::Clmul {
            h,
            powers: Powers([[0; MAX_POWERS]; 2]),
        };
        match to.get_or_insert_with(empty) {
            GhashKey::Clmul { h: old, powers } => {
                *old = h;
                powers
            }
            GhashKey::Portable { .. } => unreachable!("its kernels have no such instructions"),
        }
    }

    /// The hash key itself.
    pub(crate) fn h(&self) -> [u8; 16] {
        match self {
            GhashKey::Clmul { h, .. } | GhashKey::Portable { h, .. } => *h,
        }
    }
}

impl Drop for GhashKey {
    fn drop(&mut self) {
        match self {
            GhashKey::Clmul { h, powers } => {
                h.zeroize();
                powers.0.as_flattened_mut().zeroize();
            }
            GhashKey::Portable { h, .. } => h.zeroize(),
        }
    }
}

/// A key as the CPU kernels use it.
pub(crate) struct Prepared {
    /// The data key; all zeros if the cipher is not AES.
    pub(crate) aes: AesKey,
    /// XTS's second key.
    pub(crate) tweak: Option<AesKey>,
    /// GCM's hash key.
    pub(crate) ghash: Option<GhashKey>,
    /// ACORN's key, as it is.
    pub(crate) acorn: Option<Zeroizing<[u8; 16]>>,
}

impl Prepared {
    /// Room for a key.
    pub(crate) const fn empty() -> Self {
        Prepared {
            aes: AesKey::empty(),
            tweak: None,
            ghash: None,
            acorn: None,
        }
    }

    /// Derives everything from a key's bytes, for messages of any length.
    pub(crate) fn new(kernels: &dyn Kernels, algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut prepared = Prepared::empty();
        prepared.set(kernels, algorithm, bytes, usize::MAX, true);
        prepared
    }

    /// Makes this the key with these bytes, for messages of at most `len` bytes, and for their
    /// decryption only if `decrypts`: what is not needed is left out. Its earlier keys had the same
    /// algorithm.
    pub(crate) fn set(
        &mut self,
        kernels: &dyn Kernels,
        algorithm: Algorithm,
        bytes: &[u8],
        len: usize,
        decrypts: bool,
    ) {
        let info = algorithm.info();
        if info.mode == Mode::Acorn {
            self.acorn = bytes.try_into().ok().map(Zeroizing::new);
            return;
        }
        let (data, tweak) = bytes.split_at(info.cipher.key_len());
        let inverse = decrypts && matches!(info.mode, Mode::Ecb | Mode::Cbc | Mode::Xts);
        kernels.expand(data, inverse, &mut self.aes);
        if info.mode == Mode::Gcm {
            let mut h = [0; 16];
            // SAFETY: the buffer is this function's own.
            unsafe { kernels.ecb(&self.aes, Direction::Encrypt, Io::in_place(&mut h)) };
            kernels.ghash_key(h, len.div_ceil(16), &mut self.ghash);
        }
        if info.mode == Mode::Xts {
            let second = self.tweak.get_or_insert_with(AesKey::empty);
            kernels.expand(tweak, false, second);
        }
    }
}
