//! The wide core: a lane per block, a bit plane per bit of the block.
//!
//! 64 · N blocks become 128 planes of N words. ShiftRows is then a choice of indices, MixColumns
//! a few XORs, and the S-box a circuit that works on full words. Loops over the N words of a
//! plane are innermost everywhere, so that the compiler turns them into vector code for whatever
//! target it builds for (SSE2 on baseline x86-64, and AVX2 once more, see `vectorised`).

use super::bits::{IN_BYTES, InLines, OF_BYTES, double, swap_squares, vectorised};
use super::sbox;
use super::schedule::{RoundKeys, next_rcon, rounds_for};
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

    /// Expands keys of `key_len` bytes and prepares them.
    pub(super) fn expand(keys: &[u8], key_len: usize) -> Self {
        Self::from_planes(expand_planes(keys, key_len))
    }

    fn from_planes(mut planes: Zeroizing<Vec<State<N>>>) -> Self {
        for byte in planes[1..].as_flattened_mut() {
            add_byte(byte, &spread(sbox::AFFINE));
        }
        Self(planes)
    }
}

impl<B: Zeroize> WideKeys<B> {
    /// Encrypts blocks, up to 64 · N at a time.
    pub(super) fn encrypt<const N: usize>(&self, blocks: &mut [[u8; 16]])
    where
        B: KeyByte<N>,
    {
        in_planes(blocks, |a, b| encrypt_planes(&self.0, a, b));
    }

    /// Decrypts blocks, up to 64 · N at a time.
    pub(super) fn decrypt<const N: usize>(&self, blocks: &mut [[u8; 16]])
    where
        B: KeyByte<N>,
    {
        in_planes(blocks, |a, b| decrypt_planes(&self.0, a, b));
    }
}

/// The round keys of up to 64 · N keys of `key_len` bytes, as in FIPS 197.
pub(super) fn expand<const N: usize>(keys: &[u8], key_len: usize, out: &mut [RoundKeys]) {
    let mut planes = expand_planes::<N>(keys, key_len);
    let mut blocks = Zeroizing::new(vec![[0; 16]; out.len()]);
    for (round, planes) in planes.iter_mut().enumerate() {
        unpack(planes, &mut blocks);
        for (block, keys) in blocks.iter().zip(out.iter_mut()) {
            keys[round] = *block;
        }
    }
}

/// Key expansion in planes; the result has no [`sbox::AFFINE`] added.
fn expand_planes<const N: usize>(keys: &[u8], key_len: usize) -> Zeroizing<Vec<State<N>>> {
    let words_in_key = key_len / 4;
    let mut rounds = Zeroizing::new(vec![[[[0; N]; 8]; 16]; rounds_for(key_len) + 1]);
    let mut blocks = Zeroizing::new(vec![[0; 16]; keys.len() / key_len]);
    for (part, planes) in rounds[..key_len.div_ceil(16)].iter_mut().enumerate() {
        for (block, key) in blocks.iter_mut().zip(keys.chunks_exact(key_len)) {
            // The second part of a 24-byte key fills half a block; expansion overwrites the rest.
            let part = key[16 * part..].iter().take(16);
            block
                .iter_mut()
                .zip(part)
                .for_each(|(to, from)| *to = *from);
        }
        pack(&blocks, planes);
    }
    let bytes = rounds.as_flattened_mut();
    let mut rcon = 1;
    for i in words_in_key..bytes.len() / 4 {
        let (done, rest) = bytes.split_at_mut(4 * i);
        let last = &done[4 * (i - 1)..];
        let word = &mut rest[..4];
        if i % words_in_key == 0 {
            for row in 0..4 {
                sub_byte(&last[(row + 1) % 4], &[0; 8], &mut word[row]);
                add_byte(&mut word[row], &spread(sbox::AFFINE));
            }
            add_byte(&mut word[0], &spread(rcon));
            rcon = next_rcon(rcon);
        } else if words_in_key == 8 && i % 8 == 4 {
            for row in 0..4 {
                sub_byte(&last[row], &[0; 8], &mut word[row]);
                add_byte(&mut word[row], &spread(sbox::AFFINE));
            }
        } else {
            word.copy_from_slice(last);
        }
        for row in 0..4 {
            add_byte(&mut word[row], &done[4 * (i - words_in_key) + row]);
        }
    }
    rounds
}

/// Runs a cipher on the planes of all blocks, 64 · N at a time; `cipher` leaves its result in
/// its first argument and may use the second.
fn in_planes<const N: usize>(
    blocks: &mut [[u8; 16]],
    mut cipher: impl FnMut(&mut State<N>, &mut State<N>),
) {
    // Even setting up and wiping the planes takes as long as a block of the narrow core.
    if blocks.is_empty() {
        return;
    }
    let InLines(state) = &mut InLines([[[0; N]; 8]; 16]);
    let InLines(other) = &mut InLines([[[0; N]; 8]; 16]);
    for group in blocks.chunks_mut(64 * N) {
        pack(group, state);
        cipher(state, other);
        unpack(state, group);
    }
    // The planes are those of the last group; wiping them costs less than 1 % of a group.
    state.zeroize();
    other.zeroize();
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
