//! Counters that wrap: at 2^32, 2^64 and 2^128 in CTR, at 2^32 without a carry in GCM; at every
//! place of a kernel's step, and around the cut of a long message over threads. And at 2^40 and
//! before, in texts that are long enough for kernels to keep what neighbouring counters share.

use warplock::{Algorithm, Mode};

use crate::common::layout::{Message, both_ways};
use crate::common::random::Random;
use crate::common::{engines, gpu, oracle};

/// More blocks than two steps of any kernel.
const STEPS: u32 = 72;

/// Blocks of a piece, as long messages are cut over threads.
const PIECE: u32 = (256 << 10) / 16;

/// A text whose parts go to several threads.
const CUT_TEXT: usize = (512 << 10) + 600;

/// The distances from the start at which a wrap may disturb a cut text.
fn around_cuts() -> impl Iterator<Item = u32> + Clone {
    [PIECE, 2 * PIECE]
        .into_iter()
        .flat_map(|cut| [cut - 8, cut - 1, cut, cut + 1, cut + 8])
}

/// Blocks of the parts in which a GPU gets [`CHUNKED_TEXT`], or a few less.
const CHUNK: u32 = (1 << 20) / 16;

/// A text that a GPU gets in three parts.
const CHUNKED_TEXT: usize = (2 << 20) + 600;

/// The distances from the start at which a wrap may disturb a text in parts.
fn around_chunks() -> impl Iterator<Item = u32> {
    let third = (CHUNKED_TEXT.div_ceil(3).next_multiple_of(512) / 16) as u32;
    [third, CHUNK, 2 * third]
        .into_iter()
        .flat_map(|cut| [cut - 33, cut - 1, cut, cut + 1, cut + 32])
}

/// Lengths around the one from which states of neighbouring counters are kept, and twice it.
fn near_texts() -> impl Iterator<Item = usize> {
    let around = |blocks: usize| [blocks - 33, blocks - 1, blocks, blocks + 8, blocks + 39];
    let lens = [512, 1024].into_iter().flat_map(around);
    lens.map(|blocks| 16 * blocks + 7)
}

/// Counters at every kind of place before the last byte's overflow, some of which also overflow
/// in other bytes on the way.
fn near_starts(random: &mut Random, low_bits: u32) -> Vec<u128> {
    let high = u128::from_le_bytes(random.bytes(16).try_into().unwrap());
    let places = [
        0, 1, 2, 3, 5, 8, 17, 31, 33, 64, 100, 255, 256, 257, 300, 511,
    ];
    let mut starts: Vec<u128> = places
        .into_iter()
        .map(|blocks| ((high >> low_bits) << low_bits).wrapping_sub(blocks))
        .collect();
    starts.push(high);
    starts
}

fn of_mode(mode: Mode) -> impl Iterator<Item = Algorithm> {
    Algorithm::all().filter(move |algorithm| algorithm.info().mode == mode)
}

/// Start counters that reach a multiple of 2^`bits` after `blocks` blocks.
fn start(random: &mut Random, bits: u32, blocks: u32) -> u128 {
    let high = match random.flip() {
        true => u128::MAX,
        false => u128::from_le_bytes(random.bytes(16).try_into().unwrap()),
    };
    let multiple = if bits == 128 { 0 } else { high << bits };
    multiple.wrapping_sub(blocks.into())
}

/// Messages of all lengths of [`near_texts`], whose counters overflow in the last byte, and in
/// more bytes together.
fn near(
    algorithm: Algorithm,
    key: &[u8],
    low_bits: [u32; 2],
    random: &mut Random,
    iv: impl Fn(u128) -> [u8; 16],
) -> Vec<Message> {
    let mut messages = Vec::new();
    for len in near_texts() {
        let text = random.bytes(len);
        for bits in low_bits {
            for start in near_starts(random, bits) {
                let iv = iv(start);
                messages.push(Message::new(algorithm, key, &iv, b"", text.clone()));
            }
        }
    }
    messages
}

#[test]
fn ctr() {
    let mut random = Random::new(1);
    for algorithm in of_mode(Mode::Ctr) {
        let key = random.bytes(algorithm.key_len());
        let mut messages = |blocks: &mut dyn Iterator<Item = u32>, len: usize| -> Vec<Message> {
            let text = random.bytes(len);
            blocks
                .flat_map(|blocks| [32, 64, 128].map(|bits| start(&mut random, bits, blocks)))
                .map(|iv| Message::new(algorithm, &key, &iv.to_be_bytes(), b"", text.clone()))
                .collect()
        };
        let steps = messages(&mut (0..=STEPS), 80 * 16 + 5);
        let cuts = messages(&mut around_cuts(), CUT_TEXT);
        let gpu = gpu();
        let chunks = match &gpu {
            Some(_) => messages(&mut around_chunks(), CHUNKED_TEXT),
            None => Vec::new(),
        };
        both_ways("steps", algorithm, &steps, &engines(&[1]), &mut random);
        let near = near(algorithm, &key, [16, 40], &mut random, |counter| {
            counter.to_be_bytes()
        });
        both_ways("near", algorithm, &near, &engines(&[1]), &mut random);
        if algorithm == Algorithm::Aes128Ctr {
            both_ways("cuts", algorithm, &cuts, &engines(&[2, 3]), &mut random);
        }
        if let Some(gpu) = gpu {
            both_ways("chunks", algorithm, &chunks, &[gpu], &mut random);
        }
    }
}

/// Products in GCM's field (SP 800-38D, 6.3); the highest bit is the constant term.
fn multiply(x: u128, mut y: u128) -> u128 {
    let mut product = 0;
    for bit in (0..128).rev() {
        if x >> bit & 1 == 1 {
            product ^= y;
        }
        y = y >> 1 ^ if y & 1 == 1 { 0xE1 << 120 } else { 0 };
    }
    product
}

/// The 16-byte IV that gives GCM this first counter block. GHASH of an IV and its length L is
/// (IV * H + L) * H, and H has an inverse.
fn iv_for(h: [u8; 16], counter: u128) -> [u8; 16] {
    let h = u128::from_be_bytes(h);
    // H^(2^128 - 2) is the product of H^2, H^4, H^8, ...
    let one = 1 << 127;
    let (mut inverse, mut square) = (one, h);
    for _ in 1..128 {
        square = multiply(square, square);
        inverse = multiply(inverse, square);
    }
    assert_eq!(multiply(inverse, h), one);
    let len = 128;
    multiply(multiply(counter, inverse) ^ len, inverse).to_be_bytes()
}

#[test]
fn gcm() {
    let mut random = Random::new(2);
    for algorithm in of_mode(Mode::Gcm) {
        let key = random.bytes(algorithm.key_len());
        let h = oracle::hash_key(algorithm, &key);
        let mut messages = |blocks: &mut dyn Iterator<Item = u32>, len: usize| -> Vec<Message> {
            let text = random.bytes(len);
            blocks
                .map(|blocks| {
                    let counter = start(&mut random, 32, blocks);
                    let iv = iv_for(h, counter);
                    assert_eq!(oracle::start_counter(h, &iv), counter.to_be_bytes());
                    Message::new(algorithm, &key, &iv, b"", text.clone())
                })
                .collect()
        };
        let steps = messages(&mut (0..=STEPS), 80 * 16 + 5);
        let cuts = messages(&mut around_cuts(), CUT_TEXT);
        let gpu = gpu();
        let chunks = match &gpu {
            Some(_) => messages(&mut around_chunks(), CHUNKED_TEXT),
            None => Vec::new(),
        };
        both_ways("steps", algorithm, &steps, &engines(&[1]), &mut random);
        let near = near(algorithm, &key, [16, 32], &mut random, |counter| {
            iv_for(h, counter)
        });
        both_ways("near", algorithm, &near, &engines(&[1]), &mut random);
        if algorithm == Algorithm::Aes128Gcm {
            both_ways("cuts", algorithm, &cuts, &engines(&[2, 3]), &mut random);
        }
        if let Some(gpu) = gpu {
            both_ways("chunks", algorithm, &chunks, &[gpu], &mut random);
        }
    }
}
