//! The wide core: a lane per block, a bit plane per bit of the block.
//!
//! 64 · N blocks become 128 planes of N words. ShiftRows is then a choice of indices, MixColumns
//! a few XORs, and the S-box a circuit that works on full words. Loops over the N words of a
//! plane are innermost everywhere, so that the compiler turns them into vector code for whatever
//! target it builds for (SSE2 on baseline x86-64, and AVX2 once more, see `vectorised`).

use super::bits::{IN_BYTES, InLines, OF_BYTES, double, swap_squares, vectorised};
use super::sbox;
use super::schedule::{RoundKeys, next_rcon};
use crate::Direction;
use zeroize::{Zeroize, Zeroizing};

/// A byte position of every lane's block: 8 planes of N words.
pub(super) type Byte<const N: usize> = [[u64; N]; 8];

/// The planes of a block in every lane; bytes in the order of FIPS 197, so byte `4c + r` lies in
/// column `c`, row `r`.
type State<const N: usize> = [Byte<N>; 16];

/// The planes of one byte of a round key: the same in all lanes, or each lane's own.
pub(super) trait KeyByte<const N: usize> {
    fn word(&self, bit: usize, lane: usize) -> u64;
}

impl<const N: usize> KeyByte<N> for [u64; 8] {
    #[inline(always)]
    fn word(&self, bit: usize, _lane: usize) -> u64 {
        self[bit]
    }
}

impl<const N: usize> KeyByte<N> for Byte<N> {
    #[inline(always)]
    fn word(&self, bit: usize, lane: usize) -> u64 {
        self[bit][lane]
    }
}

/// The same byte in all lanes.
#[inline(always)]
fn spread(byte: u8) -> [u64; 8] {
    std::array::from_fn(|bit| 0u64.wrapping_sub(u64::from((byte >> bit) & 1)))
}

/// Round keys in planes, with [`sbox::AFFINE`] in all rounds but the first.
pub(super) struct WideKeys<B: Zeroize>(Zeroizing<Vec<[B; 16]>>);

/// One key for all lanes.
pub(super) type SpreadKeys = WideKeys<[u64; 8]>;

/// A key for each of up to 64 · N lanes.
pub(super) type LaneKeys<const N: usize> = WideKeys<Byte<N>>;

impl SpreadKeys {
    /// Prepares one expanded key.
    pub(super) fn new(keys: &RoundKeys, rounds: usize) -> Self {
        let mut planes = Zeroizing::new(vec![[[0; 8]; 16]; rounds + 1]);
        for (round, planes) in planes.iter_mut().enumerate() {
            let affine = if round == 0 { 0 } else { sbox::AFFINE };
            *planes = keys[round].map(|byte| spread(byte ^ affine));
        }
        Self(planes)
    }
}

impl<const N: usize> LaneKeys<N> {
    /// Prepares expanded keys, one per lane.
    pub(super) fn each(keys: &[RoundKeys], rounds: usize) -> Self {
        let mut planes = Zeroizing::new(vec![[[[0; N]; 8]; 16]; rounds + 1]);
        let mut blocks = Zeroizing::new(vec![[0; 16]; keys.len()]);
        for (round, planes) in planes.iter_mut().enumerate() {
            for (block, keys) in blocks.iter_mut().zip(keys) {
                *block = keys[round];
            }
            pack(&blocks, planes);
        }
        Self::from_planes(planes)
    }

    /// Expands keys of AES-128 and prepares them.
    pub(super) fn expand(keys: &[[u8; 16]]) -> Self {
        let mut planes = Zeroizing::new(vec![[[[0; N]; 8]; 16]; 11]);
        pack(keys, &mut planes[0]);
        let mut rcon = 1;
        for round in 1..=10 {
            let (done, rest) = planes.split_at_mut(round);
            let (last, key) = (&done[round - 1], &mut rest[0]);
            for row in 0..4 {
                sub_byte(&last[12 + (row + 1) % 4], &[0; 8], &mut key[row]);
                add_byte(&mut key[row], &spread(sbox::AFFINE));
            }
            add_byte(&mut key[0], &spread(rcon));
            rcon = next_rcon(rcon);
            for i in 0..16 {
                if i >= 4 {
                    key[i] = key[i - 4];
                }
                add_byte(&mut key[i], &last[i]);
            }
        }
        Self::from_planes(planes)
    }

    fn from_planes(mut planes: Zeroizing<Vec<State<N>>>) -> Self {
        for byte in planes[1..].as_flattened_mut() {
            add_byte(byte, &spread(sbox::AFFINE));
        }
        Self(planes)
    }
}

impl<B: Zeroize> WideKeys<B> {
    /// Encrypts or decrypts blocks, up to 64 · N at a time.
    pub(super) fn crypt<const N: usize>(&self, direction: Direction, blocks: &mut [[u8; 16]])
    where
        B: KeyByte<N>,
    {
        // Even setting up and wiping the planes takes as long as a block of the narrow core.
        if blocks.is_empty() {
            return;
        }
        let InLines(state) = &mut InLines([[[0; N]; 8]; 16]);
        let InLines(other) = &mut InLines([[[0; N]; 8]; 16]);
        for group in blocks.chunks_mut(64 * N) {
            pack(group, state);
            match direction {
                Direction::Encrypt => encrypt_planes(&self.0, state, other),
                Direction::Decrypt => decrypt_planes(&self.0, state, other),
            }
            unpack(state, group);
        }
        // The planes are those of the last group; wiping them costs less than 1 % of a group.
        state.zeroize();
        other.zeroize();
    }
}

/// Encrypts `state` with a key per round and one to start with; `other` is for its use.
fn encrypt_planes<const N: usize, B: KeyByte<N>>(
    keys: &[[B; 16]],
    state: &mut State<N>,
    other: &mut State<N>,
) {
    let rounds = keys.len() - 1;
    // Each round adds the previous round's key on the way into the S-box. Rounds go in pairs, so
    // that the result is back in `state`; their number is even.
    for round in (0..rounds).step_by(2) {
        sub_and_shift(&keys[round], state, other);
        other.as_chunks_mut().0.iter_mut().for_each(mix_column);
        sub_and_shift(&keys[round + 1], other, state);
        if round + 2 < rounds {
            state.as_chunks_mut().0.iter_mut().for_each(mix_column);
        }
    }
    add_key(&keys[rounds], state);
}

/// Decrypts `state` with the keys of [`encrypt_planes`].
fn decrypt_planes<const N: usize, B: KeyByte<N>>(
    keys: &[[B; 16]],
    state: &mut State<N>,
    other: &mut State<N>,
) {
    let rounds = keys.len() - 1;
    add_key(&keys[rounds], state);
    for round in (0..rounds).rev().step_by(2) {
        inv_sub_and_shift(&keys[round], state, other);
        other.as_chunks_mut().0.iter_mut().for_each(inv_mix_column);
        inv_sub_and_shift(&keys[round - 1], other, state);
        if round > 1 {
            state.as_chunks_mut().0.iter_mut().for_each(inv_mix_column);
        }
    }
}

/// AddRoundKey alone.
fn add_key<const N: usize, B: KeyByte<N>>(key: &[B; 16], state: &mut State<N>) {
    for (byte, key) in state.iter_mut().zip(key) {
        add_byte(byte, key);
    }
}

/// AddRoundKey, SubBytes and ShiftRows.
fn sub_and_shift<const N: usize, B: KeyByte<N>>(key: &[B; 16], from: &State<N>, to: &mut State<N>) {
    for (i, to) in to.iter_mut().enumerate() {
        let (col, row) = (i / 4, i % 4);
        let source = 4 * ((col + row) % 4) + row;
        sub_byte(&from[source], &key[source], to);
    }
}

/// InvShiftRows, InvSubBytes and AddRoundKey.
fn inv_sub_and_shift<const N: usize, B: KeyByte<N>>(
    key: &[B; 16],
    from: &State<N>,
    to: &mut State<N>,
) {
    for (i, to) in to.iter_mut().enumerate() {
        let (col, row) = (i / 4, i % 4);
        let source = 4 * ((col + 4 - row) % 4) + row;
        inv_sub_byte(&from[source], &key[i], to);
    }
}

// The loops over lanes below are functions of their own: with nothing but references as arguments
// the compiler knows that nothing overlaps, and vectorises each.

vectorised! {
    fn add_byte[const N: usize, B: KeyByte<N>][N, B](byte: &mut Byte<N>, key: &B) {
        for lane in 0..N {
            for bit in 0..8 {
                byte[bit][lane] ^= key.word(bit, lane);
            }
        }
    }
}

vectorised! {
    fn sub_byte[const N: usize, B: KeyByte<N>][N, B](from: &Byte<N>, key: &B, to: &mut Byte<N>) {
        for lane in 0..N {
            let out = sbox::sub(std::array::from_fn(|k| from[k][lane] ^ key.word(k, lane)));
            for k in 0..8 {
                to[k][lane] = out[k];
            }
        }
    }
}

vectorised! {
    fn inv_sub_byte[const N: usize, B: KeyByte<N>][N, B](from: &Byte<N>, key: &B, to: &mut Byte<N>) {
        for lane in 0..N {
            let out = sbox::inv_sub(std::array::from_fn(|k| from[k][lane]));
            for k in 0..8 {
                to[k][lane] = out[k] ^ key.word(k, lane);
            }
        }
    }
}

vectorised! {
    fn mix_column[const N: usize][N](column: &mut [Byte<N>; 4]) {
        for lane in 0..N {
            let a = mix(std::array::from_fn(|row| {
                std::array::from_fn(|k| column[row][k][lane])
            }));
            for row in 0..4 {
                for k in 0..8 {
                    column[row][k][lane] = a[row][k];
                }
            }
        }
    }
}

vectorised! {
    fn inv_mix_column[const N: usize][N](column: &mut [Byte<N>; 4]) {
        for lane in 0..N {
            let mut a: [[u64; 8]; 4] =
                std::array::from_fn(|row| std::array::from_fn(|k| column[row][k][lane]));
            // The inverse matrix is the forward one times circ(5, 0, 4, 0), so a_r becomes
            // a_r + 4 (a_r + a_{r+2}) before an ordinary MixColumns.
            for row in 0..2 {
                let sum = double(double(xor(a[row], a[row + 2])));
                a[row] = xor(a[row], sum);
                a[row + 2] = xor(a[row + 2], sum);
            }
            let a = mix(a);
            for row in 0..4 {
                for k in 0..8 {
                    column[row][k][lane] = a[row][k];
                }
            }
        }
    }
}

/// MixColumns on one column: 2 (a_r + a_{r+1}) + a_{r+1} + (a_{r+2} + a_{r+3}).
#[inline(always)]
fn mix(a: [[u64; 8]; 4]) -> [[u64; 8]; 4] {
    let sums: [[u64; 8]; 4] = std::array::from_fn(|row| xor(a[row], a[(row + 1) % 4]));
    std::array::from_fn(|row| {
        xor(
            xor(double(sums[row]), a[(row + 1) % 4]),
            sums[(row + 2) % 4],
        )
    })
}

#[inline(always)]
fn xor(a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
    std::array::from_fn(|k| a[k] ^ b[k])
}

/// Blocks into planes; lanes without a block are zero.
fn pack<const N: usize>(blocks: &[[u8; 16]], state: &mut State<N>) {
    let (low, high) = state.as_flattened_mut().split_at_mut(64);
    for lane in 0..N {
        let blocks = blocks.get(64 * lane..).unwrap_or_default();
        for i in 0..64 {
            let block = blocks.get(i).map_or(0, |block| u128::from_le_bytes(*block));
            low[i][lane] = block as u64;
            high[i][lane] = (block >> 64) as u64;
        }
    }
    transpose64(low);
    transpose64(high);
}

/// Planes back into blocks; leaves nothing useful in `state`.
fn unpack<const N: usize>(state: &mut State<N>, blocks: &mut [[u8; 16]]) {
    let (low, high) = state.as_flattened_mut().split_at_mut(64);
    transpose64(low);
    transpose64(high);
    for (lane, blocks) in blocks.chunks_mut(64).enumerate() {
        for (i, block) in blocks.iter_mut().enumerate() {
            *block = (u128::from(low[i][lane]) | u128::from(high[i][lane]) << 64).to_le_bytes();
        }
    }
}

/// Transposes N 64 x 64 bit matrices side by side: bit `j` of row `i` trades places with bit `i`
/// of row `j`.
fn transpose64<const N: usize>(rows: &mut [[u64; N]]) {
    // Six steps that swap ever smaller squares across the diagonal, three steps to a pass over
    // memory because 8 rows and what a swap needs fit the 16 registers of SSE2.
    for i in 0..8 {
        let InLines(group) = &mut InLines(std::array::from_fn(|k| rows[i + 8 * k]));
        swap_group::<N, true>(group);
        for k in 0..8 {
            rows[i + 8 * k] = group[k];
        }
    }
    for group in rows.as_chunks_mut().0 {
        swap_group::<N, false>(group);
    }
}

vectorised! {
    fn swap_group[const N: usize, const BYTES: bool][N, BYTES](group: &mut Byte<N>) {
        for lane in 0..N {
            let squares = if BYTES { &OF_BYTES } else { &IN_BYTES };
            let swapped = swap_squares(std::array::from_fn(|k| group[k][lane]), squares);
            for k in 0..8 {
                group[k][lane] = swapped[k];
            }
        }
    }
}
