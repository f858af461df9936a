//! Every number that decides how work is cut and buffered.

use std::time::Duration;

use super::abi::ROW;
use crate::Cipher;

/// Up to this many chains of CBC encryption take four lanes each. On an H100, 256 to 4,096 of
/// 16 KiB then take 0.40 ms; with a lane each 4,096 take 0.56 and 16,384 take 0.57. Where
/// in between the two are equal is estimated.
pub(crate) const FEW_CHAINS: u64 = 10_240;

/// From this mean number of rows of 32 blocks per piece (8 KiB), GCM with one key uses the kernel
/// in which warps divide the work. On an H100, pieces of 8 KiB then reach 544 instead of 502 GB/s,
/// those of 6 KiB 363 instead of 485.
pub(crate) const LONG_GCM_ROWS: u64 = 16;

/// Multiprocessors that only hash, in the GCM kernels that have such: the fewer bytes the others
/// encrypt, the fewer are needed. On an H100, 16 and 17 were the best of 14 to 18 for AES-128, and
/// 12 of 9 to 13 for AES-256; the number for AES-192 is interpolated. Texts at any byte are hashed
/// at two thirds of the speed: on an H200, 20 and 22 were the best of 17 to 22, and 16 of 12 to 18.
pub(crate) const fn hashers(cipher: Cipher, any_byte: bool) -> u32 {
    match (cipher, any_byte) {
        (Cipher::Aes128, false) => 17,
        (Cipher::Aes192, false) => 14,
        (_, false) => 12,
        (Cipher::Aes128, true) => 22,
        (Cipher::Aes192, true) => 19,
        (_, true) => 16,
    }
}

/// Whether GHASH runs on a device of this compute capability: its kernels need tensor cores that
/// multiply single bits, and machine code made for them. Older ones lack the instruction; for
/// later ones there is only the intermediate code, which is made without it.
pub(crate) fn hashes((major, _): (u32, u32)) -> bool {
    matches!(major, 8 | 9 | 10 | 12)
}

/// How a job is cut into chunks, and how many chunks are under way at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Chunks under way at the same time: one is filled, one is uploaded, one is worked on, one is
    /// downloaded.
    pub(crate) slots: usize,
    /// The most bytes of text in a chunk: large against the cost of starting a copy.
    pub(crate) largest: usize,
    /// The fewest bytes, unless the job has fewer: the driver takes some 35 us per chunk, in which
    /// the link would copy 1.7 MB.
    pub(crate) smallest: usize,
    /// The number of chunks of a medium job: the first upload and the last download overlap with
    /// nothing.
    pub(crate) chunks: u64,
    /// Buffers grow to powers of two from here on.
    pub(crate) smallest_buffer: usize,
    /// The most messages in a chunk, which bounds its sheet.
    pub(crate) messages: usize,
    /// Chains of CBC encryption that keep the device busy.
    pub(crate) chains: usize,
    /// The most copies to or from the caller's memory that are queued for one chunk; if more are
    /// needed, threads copy the text through pinned memory.
    pub(crate) direct_copies: usize,
    /// From this mean length on, messages with one key use the GCM kernels for long ones.
    pub(crate) gcm_long: u64,
    /// From this many rows of 32 blocks on, a piece of CTR uses the kernel in which each warp does
    /// many rows.
    pub(crate) ctr_long: u64,
    /// In GPU memory, messages of XTS with more than four times as many bytes are cut into pieces of
    /// this many: a warp counts its tweak up from the start of a piece. A multiple of [`ROW`].
    pub(crate) xts_piece: usize,
    /// The most pieces of all cut messages of a batch; the pieces grow for it.
    pub(crate) xts_pieces: u64,
    /// Batches in GPU memory with at least this many bytes of text under one key may take the GCM
    /// kernels with multiprocessors that only hash, those at any byte with twice as much; none: never.
    /// This is the one switch for `kernels/hopper`.
    pub(crate) gcm_split: Option<u64>,
    /// From this many messages on, the device makes a call's tables from their spans: two more
    /// launches, but some 30 ns less on the host for each message.
    pub(crate) spread: usize,
    /// Threads that copy to and from pinned memory.
    pub(crate) copy_threads: usize,
    /// Jobs that may be under way on one device at the same time, each with a ring of its own.
    pub(crate) rings: usize,
    /// A device that does not finish a chunk in this time hangs. It is thousands of times what the
    /// slowest chunk takes, because other programs may use the device, too.
    pub(crate) timeout: Duration,
    /// An upper bound of the nanoseconds in which a lane does a byte of ACORN or of associated
    /// data: ACORN takes seven instructions, most of which wait for the previous one.
    pub(crate) lane_byte: u64,
}

impl Policy {
    /// The values in use.
    pub(crate) const DEFAULT: Policy = Policy {
        slots: 4,
        largest: 16 << 20,
        smallest: 2 << 20,
        chunks: 24,
        smallest_buffer: 64 << 10,
        messages: 32 << 10,
        chains: 4096,
        direct_copies: 64,
        gcm_long: 2048,
        // 32 MiB.
        ctr_long: 64 << 10,
        // Two steps of 2,048 blocks and 31 of 32 from the start to the end of a piece.
        xts_piece: 64 << 10,
        xts_pieces: 4096,
        // At this size they are as fast as the others with AES-128, and faster with AES-256 (H100);
        // with less text, the start and the end, where one side waits, cost more than they bring.
        // Texts at any byte need twice as much (H200).
        gcm_split: Some(256 << 20),
        spread: 512,
        copy_threads: 16,
        rings: 4,
        timeout: Duration::from_secs(20),
        lane_byte: 200,
    };

    /// Bytes of text in a chunk of a job with `total` bytes.
    pub(crate) fn room(&self, total: u64) -> usize {
        let fair = usize::try_from(total / self.chunks).unwrap_or(usize::MAX);
        fair.clamp(self.smallest, self.largest)
            .next_multiple_of(ROW)
    }

    /// The same if chunks are expensive: threads copy each and wait for the slowest of them, or it
    /// takes as long as one of its chains.
    pub(crate) fn wide_room(&self, total: u64) -> usize {
        let fair = usize::try_from(total).unwrap_or(usize::MAX) / self.slots;
        fair.clamp(self.smallest, self.largest)
            .next_multiple_of(ROW)
    }
}
