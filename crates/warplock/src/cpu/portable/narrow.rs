//! The narrow core: 4 blocks in 8 words, for work too small for the wide core.
//!
//! Plane `k` holds bit `k` of all bytes of 4 · N blocks in N words; byte (row r, column c) of
//! block b sits at bit `16r + 4c + b`. Bytes never move for ShiftRows: after m of them, byte
//! (r, c) simply stays where it was, at column `c + m·r`, and MixColumns and the round keys of
//! round m reckon with that. This is the fixsliced representation of Adomnicai and Peyrin
//! ("Fixslicing AES-like ciphers", 2020), in an arrangement of our own.

use super::bits::{IN_BYTES, double, swap_squares};
use super::sbox;
use super::schedule::RoundKeys;
use crate::Direction;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// 8 planes of N words.
type State<const N: usize> = [[u64; N]; 8];

/// Round keys in the narrow core's arrangement, for four blocks with a key each or one for all.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(super) struct NarrowKeys([[u64; 8]; 15]);

impl NarrowKeys {
    /// Prepares one key for all blocks.
    pub(super) fn new(keys: &RoundKeys, rounds: usize) -> Self {
        let mut planes = [[0; 8]; 15];
        // Four round keys are packed as if they were four blocks, then each is spread over all.
        for (group, keys) in keys[..=rounds].chunks(4).enumerate() {
            let mut packed = pack::<1>(keys);
            for i in 0..keys.len() {
                let round = 4 * group + i;
                let spread = packed.map(|[word]| ((word >> i) & 0x1111_1111_1111_1111) * 15);
                planes[round] = arrange(spread, round);
            }
            packed.zeroize();
        }
        Self(planes)
    }

    /// Prepares a key for each of up to four blocks.
    pub(super) fn each(keys: &[RoundKeys], rounds: usize) -> Self {
        let mut planes = [[0; 8]; 15];
        let mut blocks = [[0; 16]; 4];
        for (round, planes) in planes[..=rounds].iter_mut().enumerate() {
            for (block, keys) in blocks.iter_mut().zip(keys) {
                *block = keys[round];
            }
            *planes = arrange(pack::<1>(&blocks).map(|[word]| word), round);
        }
        blocks.zeroize();
        Self(planes)
    }

    /// Encrypts or decrypts blocks, 4 · N at a time.
    pub(super) fn crypt<const N: usize>(
        &self,
        direction: Direction,
        rounds: usize,
        blocks: &mut [[u8; 16]],
    ) {
        for group in blocks.chunks_mut(4 * N) {
            let mut state = pack::<N>(group);
            match direction {
                Direction::Encrypt => self.encrypt_planes(rounds, &mut state),
                Direction::Decrypt => self.decrypt_planes(rounds, &mut state),
            }
            unpack(state, group);
        }
    }

    fn encrypt_planes<const N: usize>(&self, rounds: usize, state: &mut State<N>) {
        add_key(state, &self.0[0]);
        for round in 1..rounds {
            let key = &self.0[round];
            match round % 4 {
                0 => encrypt_round::<N, 0>(state, key),
                1 => encrypt_round::<N, 1>(state, key),
                2 => encrypt_round::<N, 2>(state, key),
                _ => encrypt_round::<N, 3>(state, key),
            }
        }
        for lane in 0..N {
            put(state, lane, sbox::sub(get(state, lane)));
        }
        add_key(state, &self.0[rounds]);
        skip_rows(state, rounds);
    }

    fn decrypt_planes<const N: usize>(&self, rounds: usize, state: &mut State<N>) {
        skip_rows(state, rounds);
        add_key(state, &self.0[rounds]);
        for round in (1..rounds).rev() {
            let key = &self.0[round];
            match round % 4 {
                0 => decrypt_round::<N, 0>(state, key),
                1 => decrypt_round::<N, 1>(state, key),
                2 => decrypt_round::<N, 2>(state, key),
                _ => decrypt_round::<N, 3>(state, key),
            }
        }
        for lane in 0..N {
            put(state, lane, sbox::inv_sub(get(state, lane)));
        }
        add_key(state, &self.0[0]);
    }
}

#[inline(always)]
fn get<const N: usize>(state: &State<N>, lane: usize) -> [u64; 8] {
    std::array::from_fn(|k| state[k][lane])
}

#[inline(always)]
fn put<const N: usize>(state: &mut State<N>, lane: usize, planes: [u64; 8]) {
    for k in 0..8 {
        state[k][lane] = planes[k];
    }
}

#[inline(always)]
fn add_key<const N: usize>(state: &mut State<N>, key: &[u64; 8]) {
    for k in 0..8 {
        for lane in 0..N {
            state[k][lane] ^= key[k];
        }
    }
}

/// A whole round; `M` is its number modulo 4.
#[inline(always)]
fn encrypt_round<const N: usize, const M: u32>(state: &mut State<N>, key: &[u64; 8]) {
    for lane in 0..N {
        let mixed = mix_columns::<M>(sbox::sub(get(state, lane)));
        put(state, lane, std::array::from_fn(|k| mixed[k] ^ key[k]));
    }
}

/// A whole round backward, in the order InvShiftRows, InvSubBytes, AddRoundKey, InvMixColumns.
#[inline(always)]
fn decrypt_round<const N: usize, const M: u32>(state: &mut State<N>, key: &[u64; 8]) {
    for lane in 0..N {
        let a = sbox::inv_sub(get(state, lane));
        let a: [u64; 8] = std::array::from_fn(|k| a[k] ^ key[k]);
        // The inverse matrix is the forward one times circ(5, 0, 4, 0).
        let sum = double(double(std::array::from_fn(|k| {
            a[k] ^ rows_down::<M, 2>(a[k])
        })));
        put(
            state,
            lane,
            mix_columns::<M>(std::array::from_fn(|k| a[k] ^ sum[k])),
        );
    }
}

/// MixColumns: 2 (a_r + a_{r+1}) + a_{r+1} + (a_{r+2} + a_{r+3}).
#[inline(always)]
fn mix_columns<const M: u32>(a: [u64; 8]) -> [u64; 8] {
    let next: [u64; 8] = std::array::from_fn(|k| rows_down::<M, 1>(a[k]));
    let sum: [u64; 8] = std::array::from_fn(|k| a[k] ^ next[k]);
    let doubled = double(sum);
    std::array::from_fn(|k| doubled[k] ^ next[k] ^ rows_down::<M, 2>(sum[k]))
}

/// Brings to each place the byte that stands `ROWS` rows below it in the same logical column,
/// which after `M` skipped ShiftRows lies `M · ROWS` physical columns to the right.
#[inline(always)]
fn rows_down<const M: u32, const ROWS: u32>(x: u64) -> u64 {
    let x = x.rotate_right(16 * ROWS);
    match M * ROWS % 4 {
        0 => x,
        1 => ((x >> 4) & 0x0fff_0fff_0fff_0fff) | ((x << 12) & 0xf000_f000_f000_f000),
        2 => ((x >> 8) & 0x00ff_00ff_00ff_00ff) | ((x << 8) & 0xff00_ff00_ff00_ff00),
        _ => ((x >> 12) & 0x000f_000f_000f_000f) | ((x << 4) & 0xfff0_fff0_fff0_fff0),
    }
}

/// Makes up for the ShiftRows skipped in `rounds` rounds, an even number: nothing for 12, two
/// columns in rows 1 and 3 for 10 and 14. Its own inverse.
#[inline(always)]
fn skip_rows<const N: usize>(state: &mut State<N>, rounds: usize) {
    if rounds % 4 == 2 {
        for word in state.as_flattened_mut() {
            let swap = (*word ^ (*word >> 8)) & 0x00ff_0000_00ff_0000;
            *word ^= swap ^ (swap << 8);
        }
    }
}

/// Puts a round key where `round` skipped ShiftRows leave the bytes, and adds the S-box's
/// constant in all rounds but the first.
fn arrange(planes: [u64; 8], round: usize) -> [u64; 8] {
    std::array::from_fn(|k| {
        let placed = (0..4).fold(0, |word, row| {
            let field = (planes[k] >> (16 * row)) as u16;
            word | u64::from(field.rotate_left((4 * round * row % 16) as u32)) << (16 * row)
        });
        let affine = round != 0 && (sbox::AFFINE >> k) & 1 == 1;
        if affine { !placed } else { placed }
    })
}

/// Blocks into planes; places without a block are zero.
#[inline(always)]
fn pack<const N: usize>(blocks: &[[u8; 16]]) -> State<N> {
    let mut state = [[0; N]; 8];
    for (i, block) in blocks.iter().enumerate() {
        let columns = columns(block);
        for pair in 0..2 {
            state[4 * pair + i % 4][i / 4] =
                interleave(columns[pair]) | interleave(columns[pair + 2]) << 8;
        }
    }
    swap_bits(&mut state);
    state
}

/// Planes back into blocks.
#[inline(always)]
fn unpack<const N: usize>(mut state: State<N>, blocks: &mut [[u8; 16]]) {
    swap_bits(&mut state);
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut columns = [0; 4];
        for pair in 0..2 {
            let word = state[4 * pair + i % 4][i / 4];
            columns[pair] = gather(word);
            columns[pair + 2] = gather(word >> 8);
        }
        for (bytes, column) in block.as_chunks_mut().0.iter_mut().zip(columns) {
            *bytes = column.to_le_bytes();
        }
    }
}

fn columns(block: &[u8; 16]) -> [u32; 4] {
    let (columns, _) = block.as_chunks();
    std::array::from_fn(|c| u32::from_le_bytes(columns[c]))
}

/// Transposes the 8 x 8 bits that the same byte of the 8 words makes.
#[inline(always)]
fn swap_bits<const N: usize>(state: &mut State<N>) {
    for lane in 0..N {
        put(state, lane, swap_squares(get(state, lane), &IN_BYTES));
    }
}

/// Spreads the 4 bytes of a column over the even bytes of a word.
#[inline(always)]
fn interleave(column: u32) -> u64 {
    let x = u64::from(column);
    let x = (x | (x << 16)) & 0x0000_ffff_0000_ffff;
    (x | (x << 8)) & 0x00ff_00ff_00ff_00ff
}

/// Undoes [`interleave`].
#[inline(always)]
fn gather(word: u64) -> u32 {
    let x = word & 0x00ff_00ff_00ff_00ff;
    let x = (x | (x >> 8)) & 0x0000_ffff_0000_ffff;
    (x | (x >> 16)) as u32
}
