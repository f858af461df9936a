//! The structures that kernels take, as in `kernels/abi.cuh`, which explains them.

use zeroize::Zeroize;

pub(crate) use crate::cuda::driver::memory::Address;

/// Bytes of a row, which kernels work on as a whole: 32 blocks.
pub(crate) const ROW: usize = 512;

/// The most round keys of AES: one more than rounds.
const ROUND_KEYS: usize = 15;

/// Round keys of one key and direction in the order in which they are used.
#[repr(C, align(16))]
pub(crate) struct RoundKeys {
    pub(crate) round: [[u8; 16]; ROUND_KEYS],
}

impl Drop for RoundKeys {
    fn drop(&mut self) {
        self.round.zeroize();
    }
}

/// Bytes that `expand_keys` makes of a key. Only the size is known here.
pub(crate) const TABLE_KEY: usize = 3 * size_of::<RoundKeys>() + 16;

/// Bytes that `gcm_powers` makes of a hash key. Only the size is known here.
pub(crate) const GCM_POWERS: usize = (5 * 256 + 320) * 16;

/// Bytes of a unit of GCM's kernels with multiprocessors that only hash.
pub(crate) const SPLIT_UNIT: usize = 16 << 10;

/// The only compute capability that has these kernels.
pub(crate) const SPLIT_CAPABILITY: (u32, u32) = (9, 0);

/// Entries of the split kernels' table of multiprocessors that may hash: all multiprocessors'
/// numbers are below this.
pub(crate) const MULTIPROCESSORS: usize = 1024;

/// Up to this many messages, one of the split kernels' blocks makes the tags, with a thread for
/// each.
pub(crate) const SPLIT_FINISHED: u64 = 768;

/// Units of a tile of the split kernels.
const SPLIT_TILE: u64 = 32;

/// Bytes of the state that the split kernels' blocks share. Only the size is known here.
pub(crate) const fn split_bytes(work: &Work) -> usize {
    SPLIT_HEAD + work.units.div_ceil(SPLIT_TILE) as usize * SPLIT_EACH
}

const SPLIT_HEAD: usize = 4 * 128;
/// For each tile: 16 bytes for each of its 128 stretches, and 16 more.
const SPLIT_EACH: usize = 129 * 16;

/// The most bytes that the kernel `put` takes.
pub(crate) const FEW_BYTES: usize = 3840;

/// Bytes that travel with a launch.
#[derive(Zeroize)]
#[repr(C, align(16))]
pub(crate) struct FewBytes(pub(crate) [u8; FEW_BYTES]);

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Piece {
    pub(crate) input: Address,
    pub(crate) output: Address,
    pub(crate) len: u64,
    pub(crate) before: u64,
    pub(crate) iv: Address,
    pub(crate) key: u32,
    pub(crate) message: u32,
    pub(crate) after: u64,
}

#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct GcmMessage {
    pub(crate) iv: Address,
    pub(crate) aad: Address,
    pub(crate) tag: Address,
    pub(crate) iv_len: u64,
    pub(crate) aad_len: u64,
    pub(crate) len: u64,
    pub(crate) key: u32,
    pub(crate) failed: u32,
    pub(crate) padding: u64,
    /// Counter, mask and hash: only the device uses them.
    pub(crate) state: [[u8; 16]; 3],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct AcornMessage {
    pub(crate) input: Address,
    pub(crate) output: Address,
    pub(crate) len: u64,
    pub(crate) aad: Address,
    pub(crate) aad_len: u64,
    pub(crate) iv: Address,
    pub(crate) tag: Address,
    pub(crate) key: u32,
    pub(crate) number: u32,
}

/// The verdict on a message of ACORN: 1 if its tag was wrong.
pub(crate) type Verdict = u32;

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Work {
    pub(crate) pieces: Address,
    pub(crate) starts: Address,
    pub(crate) each: u64,
    pub(crate) units: u64,
    pub(crate) count: u64,
}

impl Work {
    /// The same in units of [`SPLIT_UNIT`]: each piece has as many as one of `len` bytes, even if
    /// their numbers of rows differ.
    pub(crate) fn in_units(self, len: usize) -> Self {
        let each = len.div_ceil(SPLIT_UNIT) as u64;
        Work {
            each,
            units: each * self.count,
            ..self
        }
    }
}

// The kernels check the same numbers.
const _: () = {
    assert!(size_of::<RoundKeys>() == 240 && align_of::<RoundKeys>() == 16);
    assert!(TABLE_KEY == 736);
    assert!(size_of::<Piece>() == 56 && align_of::<Piece>() == 8);
    assert!(std::mem::offset_of!(Piece, after) == 48);
    assert!(size_of::<GcmMessage>() == 112 && align_of::<GcmMessage>() == 16);
    assert!(std::mem::offset_of!(GcmMessage, failed) == 52);
    assert!(std::mem::offset_of!(GcmMessage, state) == 64);
    assert!(size_of::<AcornMessage>() == 64);
    assert!(std::mem::offset_of!(AcornMessage, number) == 60);
    assert!(size_of::<Work>() == 40);
    assert!(GCM_POWERS == 25_600);
    assert!(SPLIT_HEAD == 512 && SPLIT_EACH == 2064);
    assert!(SPLIT_TILE == 32 && SPLIT_UNIT == 16_384);
};
