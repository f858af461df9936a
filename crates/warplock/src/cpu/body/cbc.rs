//! Cipher block chaining.

use std::sync::atomic::{Ordering, compiler_fence};

use zeroize::Zeroize;

use super::aes::{crypt, decrypt_rounds, load, load_tail, opaque, put, store_tail, xor_each};
use super::{Lanes, WIDE};
use crate::Direction;
use crate::cpu::kernels::{Chain, Io, LINE};
use crate::cpu::prepared::AesKey;

/// CBC decryption, see [`crate::cpu::kernels::Kernels::cbc_decrypt`].
///
/// # Safety
/// As the trait's method; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn cbc_decrypt<L: Lanes>(key: &AesKey, prev: &mut [u8; 16], io: Io) {
    // SAFETY: by this function's contract; each step touches the blocks that it is given.
    unsafe {
        let mut before = <L::One as Lanes>::load(prev.as_ptr());
        let mut left = io;
        decrypt_steps::<L, WIDE>(key, &mut before, &mut left);
        if left.len > 0 {
            before = match left.len.div_ceil(16 * L::N) {
                1 => decrypt_tail::<L, 1>(key, before, left),
                2..=4 => decrypt_tail::<L, 4>(key, before, left),
                _ => decrypt_tail::<L, WIDE>(key, before, left),
            };
        }
        before.store(prev.as_mut_ptr());
    }
}

/// Whole steps of `W` registers, until less than one is left.
///
/// # Safety
/// As [`cbc_decrypt`].
#[inline(always)]
unsafe fn decrypt_steps<L: Lanes, const W: usize>(
    key: &AesKey,
    before: &mut L::One,
    left: &mut Io,
) {
    let stride = 16 * L::N * W;
    // SAFETY: by this function's contract; each step touches what it is given.
    unsafe {
        let (first, last) = (L::splat(&key.dec[0]), L::splat(&key.dec[key.rounds]));
        while left.len >= stride {
            let mut blocks = [first; W];
            each!(W, i => {
                blocks[i] = blocks[i].xor(L::load(left.src.add(16 * L::N * i)));
            });
            decrypt_rounds(key, &mut blocks);
            // The ciphertext is loaded a second time: keeping it would need as many registers
            // again.
            compiler_fence(Ordering::SeqCst);
            *before = decrypt_last_round::<L, W>(last, blocks, *before, *left);
            *left = left.part(stride, left.len - stride);
        }
    }
}

/// The last round of a step. Returns the last block of ciphertext. Single blocks are stored as they
/// are finished, which takes one register in addition to theirs (1.01 on Zen 4; wider registers
/// 0.98 to 1.03).
///
/// # Safety
/// As [`cbc_decrypt`]; there are `W` registers.
#[inline(always)]
unsafe fn decrypt_last_round<L: Lanes, const W: usize>(
    last: L,
    mut blocks: [L; W],
    before: L::One,
    Io {
        src,
        dst,
        non_temporal,
        ..
    }: Io,
) -> L::One {
    // SAFETY: by this function's contract.
    unsafe {
        let mut chained = L::load(src).shift_in(before);
        let mut end = before;
        for (i, block) in blocks.iter_mut().enumerate() {
            let at = 16 * L::N * i;
            // By the last round's key, as in `last_round_with_text`.
            *block = block.decrypt_last(chained.xor(last));
            // Before the store: in place, it overwrites this.
            let next = src.add(at + 16 * L::N - 16);
            match i + 1 == W {
                true => end = <L::One as Lanes>::load(next),
                false => chained = L::load(next),
            }
            if L::N == 1 {
                put([*block], dst.add(at), non_temporal);
            }
        }
        if L::N > 1 {
            put(blocks, dst, non_temporal);
        }
        end
    }
}

/// The rest after whole steps.
///
/// # Safety
/// As [`cbc_decrypt`]; there is at least a block, and at most `W` registers.
#[inline(always)]
unsafe fn decrypt_tail<L: Lanes, const W: usize>(
    key: &AesKey,
    before: L::One,
    Io { src, dst, len, .. }: Io,
) -> L::One {
    // SAFETY: by this function's contract.
    unsafe {
        let (first, last) = (L::splat(&key.dec[0]), L::splat(&key.dec[key.rounds]));
        let mut blocks = load_tail::<L, W>(src, len);
        let mut chained = blocks[0].shift_in(before);
        xor_each(&mut blocks, first);
        decrypt_rounds(key, &mut blocks);
        // As in `decrypt_steps`.
        compiler_fence(Ordering::SeqCst);
        each!(W, i => {
            let from = 16 * L::N * i;
            if i > 0 && len > from {
                chained = L::load_part(src.add(from - 16), (len + 16 - from).min(16 * L::N));
            }
            blocks[i] = blocks[i].decrypt_last(chained.xor(last));
        });
        // Before the store: in place, it overwrites this block.
        let end = <L::One as Lanes>::load(src.add(len - 16));
        store_tail(blocks, dst, len);
        end
    }
}

/// The most chains in step: four lanes of each of [`WIDE`] registers.
const MOST: usize = 4 * WIDE;

/// CBC encryption of many chains, see [`crate::cpu::kernels::Kernels::cbc_encrypt`]: a chain is
/// serial, so several registers of them fill the pipeline.
///
/// # Safety
/// As the trait's method; the machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn cbc_encrypt<L: Lanes>(chains: &mut [Chain<'_>]) {
    // Chains in progress are swapped to the front; finished ones gather after them.
    let mut left = chains.len();
    let mut done = vec![0; left];
    loop {
        let mut i = 0;
        while i < left {
            if done[i] == chains[i].io.len {
                left -= 1;
                chains.swap(i, left);
                done.swap(i, left);
            } else {
                i += 1;
            }
        }
        let (chains, done) = (&mut chains[..left], &mut done[..left]);
        // SAFETY: by this function's contract; each arm leaves out no more chains than there are.
        unsafe {
            match left {
                0 => return,
                // Chains of equal messages that follow each other in memory compete for one set of
                // the L1 cache, which has twelve ways: sixteen run at 7.9 GB/s where twelve run at
                // 12.0 (Sapphire Rapids, AES-128), unless each line is touched only once.
                16.. if L::N == 4 && in_line(&chains[..16], done) => rows::<L, 4>(chains, done),
                12.. if L::N == 4 => rows::<L, 3>(chains, done),
                8.. if L::N == 4 => rows::<L, 2>(chains, done),
                4.. if L::N == 4 => rows::<L, 1>(chains, done),
                _ if left >= L::N * WIDE => rows::<L, WIDE>(chains, done),
                _ if left >= L::N * WIDE / 2 => rows::<L, { WIDE / 2 }>(chains, done),
                WIDE.. => rows::<L::One, WIDE>(chains, done),
                4.. => rows::<L::One, 4>(chains, done),
                2 | 3 => rows::<L::One, 2>(chains, done),
                1 => rows::<L::One, 1>(chains, done),
            }
        }
    }
}

/// Bytes of the rest of a chain up to the next cache line, if they are whole blocks on both sides.
fn head(chain: &Chain<'_>, done: usize) -> Option<usize> {
    let to_line = |address: usize| address.wrapping_add(done).wrapping_neg() % LINE;
    let head = to_line(chain.io.src as usize);
    (head.is_multiple_of(16) && head == to_line(chain.io.dst as usize)).then_some(head)
}

/// Whether all chains reach the start of a cache line together.
fn in_line(chains: &[Chain<'_>], done: &[usize]) -> bool {
    let mut heads = chains
        .iter()
        .zip(done)
        .map(|(chain, &done)| head(chain, done));
    let first = heads.next().flatten();
    first.is_some() && heads.all(|head| head == first)
}

/// The round keys of chains in step.
trait Schedules<L: Lanes> {
    /// The blocks after `state` in their chains.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn encrypt<const W: usize>(&self, state: &mut [L; W], texts: [L; W]);
}

/// One key for all.
struct Shared<'a>(&'a AesKey);

impl<L: Lanes> Schedules<L> for Shared<'_> {
    #[inline(always)]
    unsafe fn encrypt<const W: usize>(&self, state: &mut [L; W], texts: [L; W]) {
        // SAFETY: by this function's contract.
        let first = unsafe { L::splat(&self.0.enc[0]) };
        each!(W, i => {
            // The part that depends on the previous block comes last: it is the one to wait for.
            state[i] = state[i].xor(texts[i].xor(first));
        });
        crypt(Direction::Encrypt, self.0, state);
    }
}

/// A key for each chain, round by round: one pointer reaches all keys, and one load those of all
/// lanes.
#[repr(align(64))]
struct Each {
    keys: [[u128; MOST]; 15],
    rounds: usize,
}

impl Each {
    fn new(chains: &[Chain<'_>]) -> Self {
        let mut keys = [[0; MOST]; 15];
        for (i, chain) in chains.iter().enumerate() {
            for (row, key) in keys.iter_mut().zip(&chain.key.enc) {
                row[i] = u128::from_ne_bytes(*key);
            }
        }
        let rounds = chains[0].key.rounds;
        Each { keys, rounds }
    }

    /// Wipes the keys of the first `count` chains. Only what was written, and word by word: byte by
    /// byte it would take longer than short messages.
    fn wipe(&mut self, count: usize) {
        for row in &mut self.keys[..=self.rounds] {
            row[..count].zeroize();
        }
    }
}

/// The keys of `W` registers in a row of [`Each`].
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
unsafe fn row<L: Lanes, const W: usize>(keys: &[u128; MOST]) -> [L; W] {
    const { assert!(W * L::N <= MOST) };
    // SAFETY: by this function's contract; there are that many keys.
    unsafe { load(keys.as_ptr().cast()) }
}

/// A round of each chain with its own key.
#[inline(always)]
fn round<L: Lanes, const W: usize>(state: &mut [L; W], keys: &[u128; MOST]) {
    // SAFETY: the caller holds lanes, so the machine has the instructions; see `row`.
    let keys: [L; W] = unsafe { row(keys) };
    each!(W, i => {
        state[i] = state[i].encrypt_round(keys[i]);
    });
}

impl<L: Lanes> Schedules<L> for Each {
    #[inline(always)]
    unsafe fn encrypt<const W: usize>(&self, state: &mut [L; W], texts: [L; W]) {
        let Each { keys, rounds } = opaque(self);
        // SAFETY: by this function's contract.
        let (first, last): ([L; W], [L; W]) = unsafe { (row(&keys[0]), row(&keys[*rounds])) };
        each!(W, i => {
            state[i] = state[i].xor(texts[i].xor(first[i]));
        });
        each!(10, number => {
            round(state, &keys[number]);
        }, 1 2 3 4 5 6 7 8 9);
        if *rounds > 10 {
            round(state, &keys[10]);
            round(state, &keys[11]);
            if *rounds > 12 {
                round(state, &keys[12]);
                round(state, &keys[13]);
            }
        }
        each!(W, i => {
            state[i] = state[i].encrypt_last(last[i]);
        });
    }
}

/// Encrypts the first `W * N` chains in step until one of them ends.
///
/// # Safety
/// As [`cbc_encrypt`]; there are that many chains.
#[inline(always)]
unsafe fn rows<L: Lanes, const W: usize>(chains: &mut [Chain<'_>], done: &mut [usize]) {
    let count = W * L::N;
    let chains = &mut chains[..count];
    let key = chains[0].key;
    // SAFETY: by this function's contract.
    unsafe {
        if chains.iter().all(|chain| std::ptr::eq(chain.key, key)) {
            run::<L, W>(chains, done, &Shared(key));
        } else {
            let mut keys = Each::new(chains);
            run::<L, W>(chains, done, &keys);
            keys.wipe(count);
        }
    }
}

/// [`rows`] with the chains' keys.
///
/// # Safety
/// As [`rows`]; the keys are those of the chains, of which there are `W * N`.
#[inline(always)]
unsafe fn run<L: Lanes, const W: usize>(
    chains: &mut [Chain<'_>],
    done: &mut [usize],
    keys: &impl Schedules<L>,
) {
    let mut len = usize::MAX;
    // A register is a line.
    let non_temporal = 16 * L::N == LINE
        && chains.iter().all(|chain| chain.io.non_temporal)
        && in_line(chains, done);
    let head = head(&chains[0], done[0]).unwrap_or(0);
    let mut prev = [[0; 16]; MOST];
    let mut src = [std::ptr::null(); MOST];
    let mut dst = [std::ptr::null_mut(); MOST];
    for (i, chain) in chains.iter().enumerate() {
        len = len.min(chain.io.len - done[i]);
        prev[i] = chain.prev;
        // SAFETY: `done` never exceeds a chain's length.
        unsafe {
            src[i] = chain.io.src.add(done[i]);
            dst[i] = chain.io.dst.add(done[i]);
        }
    }
    // SAFETY: `len` bytes are left in each chain; the rest by this function's contract.
    unsafe {
        let mut state = [L::load(prev[0].as_ptr()); W];
        each!(W, i => {
            state[i] = L::load(prev[i * L::N].as_ptr());
        });
        let mut offset = 0;
        while offset < len {
            // A register's blocks of each chain at a time, from the start of a cache line on. These
            // are whole lines, of which those of many chains may fall into one set of the cache;
            // each is touched once.
            if L::N == 1 || offset >= head && len - offset >= 16 * L::N {
                let mut tiles = [[state[0]; 4]; W];
                each!(W, i => {
                    each!(L::N, lane => {
                        tiles[i][lane] = L::load(src[i * L::N + lane].add(offset));
                    }, 0 1 2 3);
                    L::transpose(&mut tiles[i]);
                });
                // No loop: it would not be unrolled, and the tiles would go through memory.
                each!(L::N, block => {
                    let mut texts = state;
                    each!(W, i => {
                        texts[i] = tiles[i][block];
                    });
                    keys.encrypt(&mut state, texts);
                    each!(W, i => {
                        tiles[i][block] = state[i];
                    });
                }, 0 1 2 3);
                each!(W, i => {
                    L::transpose(&mut tiles[i]);
                    each!(L::N, lane => {
                        let to = dst[i * L::N + lane].add(offset);
                        if non_temporal {
                            tiles[i][lane].stream(to)
                        } else {
                            tiles[i][lane].store(to)
                        }
                    }, 0 1 2 3);
                });
                offset += 16 * L::N;
            } else {
                let mut texts = state;
                each!(W, i => {
                    texts[i] = L::gather(&src[i * L::N..], offset);
                });
                keys.encrypt(&mut state, texts);
                each!(W, i => {
                    state[i].scatter(&dst[i * L::N..], offset);
                });
                offset += 16;
            }
        }
        each!(W, i => {
            state[i].store(prev[i * L::N].as_mut_ptr());
        });
    }
    for ((chain, done), prev) in chains.iter_mut().zip(done).zip(prev) {
        chain.prev = prev;
        *done += len;
    }
}
