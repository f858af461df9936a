//! Portable against the standards' examples, against independent implementations, and against
//! itself across its cores.

use super::*;
use crate::cpu::AesKey;
use crate::cpu::kernels::{Chain, CounterBits, Io, Kernels};
use ::aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

/// Numbers that look random and are the same in each run (splitmix64).
struct Noise(u64);

impl Noise {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.word() as u8).collect()
    }

    fn block(&mut self) -> [u8; 16] {
        (u128::from(self.word()) << 64 | u128::from(self.word())).to_le_bytes()
    }

    fn blocks(&mut self, count: usize) -> Vec<[u8; 16]> {
        (0..count).map(|_| self.block()).collect()
    }
}

fn hex<const N: usize>(text: &str) -> [u8; N] {
    assert_eq!(text.len(), 2 * N);
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

/// Encrypts with the crate `aes`.
fn reference_encrypt(key: &[u8], blocks: &mut [[u8; 16]]) {
    fn run<C: KeyInit + BlockCipherEncrypt<BlockSize = ::aes::cipher::consts::U16>>(
        key: &[u8],
        blocks: &mut [[u8; 16]],
    ) {
        let cipher = C::new_from_slice(key).unwrap();
        blocks
            .iter_mut()
            .for_each(|block| cipher.encrypt_block(block.into()));
    }
    match key.len() {
        16 => run::<::aes::Aes128>(key, blocks),
        24 => run::<::aes::Aes192>(key, blocks),
        _ => run::<::aes::Aes256>(key, blocks),
    }
}

/// Decrypts with the crate `aes`.
fn reference_decrypt(key: &[u8], blocks: &mut [[u8; 16]]) {
    fn run<C: KeyInit + BlockCipherDecrypt<BlockSize = ::aes::cipher::consts::U16>>(
        key: &[u8],
        blocks: &mut [[u8; 16]],
    ) {
        let cipher = C::new_from_slice(key).unwrap();
        blocks
            .iter_mut()
            .for_each(|block| cipher.decrypt_block(block.into()));
    }
    match key.len() {
        16 => run::<::aes::Aes128>(key, blocks),
        24 => run::<::aes::Aes192>(key, blocks),
        _ => run::<::aes::Aes256>(key, blocks),
    }
}

fn sliced(key: &[u8], blocks: usize) -> Sliced {
    let (keys, rounds) = expand(key);
    Sliced::new(&keys, rounds, blocks)
}

/// Multiplication in AES's field, bit by bit.
fn aes_mul(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        product ^= a * (b & 1);
        a = (a << 1) ^ (0x1b * (a >> 7));
        b >>= 1;
    }
    product
}

/// The S-box by its definition: inversion (with 0 to 0), then the affine map.
fn sbox_by_definition(x: u8) -> u8 {
    let inverse = (0..=255).find(|&y| aes_mul(x, y) == 1).unwrap_or(0);
    (0..5).fold(0x63, |sum, i| sum ^ inverse.rotate_left(i))
}

/// GPUs take these keys, also where the CPU has no AES instructions.
#[test]
fn inverse_keys_follow_the_definition() {
    let mut noise = Noise(8);
    for len in [16, 24, 32] {
        let key = AesKey::of(&Portable, &noise.bytes(len), true);
        let rounds = len / 4 + 6;
        let mut expected = [[0; 16]; 15];
        for (round, expected) in expected[..=rounds].iter_mut().enumerate() {
            let keys = key.enc[rounds - round];
            *expected = match round {
                0 => keys,
                _ if round == rounds => keys,
                _ => std::array::from_fn(|i| {
                    let column = i / 4 * 4;
                    let products = [14, 11, 13, 9].into_iter().enumerate();
                    products.fold(0, |sum, (j, by)| {
                        sum ^ aes_mul(keys[column + (i + j) % 4], by)
                    })
                }),
            };
        }
        assert_eq!(key.dec, expected, "{len} bytes");
    }
}

#[test]
fn sbox_circuits_follow_the_definition() {
    assert_eq!(
        [0x00, 0x01, 0x53].map(sbox_by_definition),
        [0x63, 0x7c, 0xed]
    );
    for x in 0..=255u8 {
        let s = sbox_by_definition(x);
        // Another byte in each place, so that lanes that mix show.
        let word = u64::from_le_bytes(std::array::from_fn(|i| x.wrapping_add((37 * i) as u8)));
        let expected = word.to_le_bytes().map(sbox_by_definition);
        assert_eq!(sbox::sub_bytes(word).to_le_bytes(), expected);

        let planes = |byte: u8| std::array::from_fn(|k| u64::from((byte >> k) & 1));
        assert_eq!(sbox::sub(planes(x)), planes(s ^ sbox::AFFINE));
        assert_eq!(sbox::inv_sub(planes(s ^ sbox::AFFINE)), planes(x));
    }
}

#[test]
fn fips_197_appendix_a_key_expansion() {
    let (keys, rounds) = expand(&hex::<16>("2b7e151628aed2a6abf7158809cf4f3c"));
    assert_eq!(rounds, 10);
    assert_eq!(keys[1], hex("a0fafe1788542cb123a339392a6c7605"));
    assert_eq!(keys[10], hex("d014f9a8c9ee2589e13f0cc8b6630ca6"));
    assert_eq!(keys[11..], [[0; 16]; 4]);

    let (keys, rounds) = expand(&hex::<24>(
        "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
    ));
    assert_eq!(rounds, 12);
    assert_eq!(keys[1], hex("62f8ead2522c6b7bfe0c91f72402f5a5"));
    assert_eq!(keys[12], hex("e98ba06f448c773c8ecc720401002202"));
    assert_eq!(keys[13..], [[0; 16]; 2]);

    let (keys, rounds) = expand(&hex::<32>(
        "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
    ));
    assert_eq!(rounds, 14);
    assert_eq!(keys[2], hex("9ba354118e6925afa51a8b5f2067fcde"));
    assert_eq!(keys[14], hex("fe4890d1e6188d0b046df344706c631e"));
}

#[test]
fn fips_197_appendix_c_examples() {
    let key: Vec<u8> = (0..32).collect();
    let plain = hex("00112233445566778899aabbccddeeff");
    for (len, expected) in [
        (16, "69c4e0d86a7b0430d8cdb78070b4c55a"),
        (24, "dda97ca4864cdfe06eaf70a0ec0d7191"),
        (32, "8ea2b7ca516745bfeafc49904b496089"),
    ] {
        let key = sliced(&key[..len], WIDE_LANES);
        // One block takes the narrow core, a full pass the wide one.
        for count in [1, WIDE_LANES] {
            let mut blocks = vec![plain; count];
            key.crypt(Direction::Encrypt, &mut blocks);
            assert!(
                blocks.iter().all(|block| *block == hex(expected)),
                "{len} {count}"
            );
            key.crypt(Direction::Decrypt, &mut blocks);
            assert!(blocks.iter().all(|block| *block == plain), "{len} {count}");
        }
    }
}

/// Counts around every boundary: words, passes of both cores, the crossings between them.
fn counts() -> impl Iterator<Item = usize> {
    let edges = [
        WIDE_LANES + WIDE_MIN - 1,
        WIDE_LANES + WIDE_MIN,
        2 * WIDE_LANES,
        777,
    ];
    (0..=WIDE_LANES + 44).chain(edges)
}

#[test]
fn any_count_of_blocks_agrees_with_another_implementation() {
    let mut noise = Noise(1);
    for (count, len) in counts().zip([16, 24, 32].into_iter().cycle()) {
        let key = noise.bytes(len);
        let plain = noise.blocks(count);
        let (mut ours, mut theirs) = (plain.clone(), plain.clone());
        sliced(&key, count).crypt(Direction::Encrypt, &mut ours);
        reference_encrypt(&key, &mut theirs);
        assert_eq!(ours, theirs, "{count} blocks, key of {len}");
        sliced(&key, count).crypt(Direction::Decrypt, &mut ours);
        assert_eq!(ours, plain, "{count} blocks, key of {len}");
        sliced(&key, count).crypt(Direction::Decrypt, &mut ours);
        reference_decrypt(&key, &mut theirs);
        reference_decrypt(&key, &mut theirs);
        assert_eq!(ours, theirs, "{count} blocks, key of {len}");
    }
}

#[test]
fn both_cores_agree_on_every_count() {
    fn check<const N: usize>(noise: &mut Noise, len: usize) {
        let (keys, rounds) = expand(&noise.bytes(len));
        for count in [1, 3, 4, 5, 63, 64, 65, 64 * N, 64 * N + 1] {
            let mut narrow = noise.blocks(count);
            let mut wide = narrow.clone();
            let prepared = NarrowKeys::new(&keys, rounds);
            let planes = SpreadKeys::new(&keys, rounds);
            prepared.crypt::<N>(Direction::Encrypt, rounds, &mut narrow);
            planes.crypt::<N>(Direction::Encrypt, &mut wide);
            assert_eq!(narrow, wide, "{N} {count}");
            prepared.crypt::<N>(Direction::Decrypt, rounds, &mut narrow);
            prepared.crypt::<N>(Direction::Decrypt, rounds, &mut narrow);
            planes.crypt::<N>(Direction::Decrypt, &mut wide);
            planes.crypt::<N>(Direction::Decrypt, &mut wide);
            assert_eq!(narrow, wide, "{N} {count}");
        }
    }
    let mut noise = Noise(2);
    for len in [16, 24, 32] {
        check::<1>(&mut noise, len);
        check::<2>(&mut noise, len);
        check::<4>(&mut noise, len);
    }
}

#[test]
fn a_key_for_each_block_agrees_with_one_key_at_a_time() {
    let mut noise = Noise(3);
    let edges = [
        0, 1, 3, 4, 5, 31, 32, 33, 127, 128, 129, 255, 256, 257, 287, 288, 384, 600,
    ];
    for (count, len) in edges.into_iter().flat_map(|n| [(n, 16), (n, 24), (n, 32)]) {
        let keys = noise.bytes(count * len);
        let plain = noise.blocks(count);
        let schedules: Vec<_> = keys.chunks_exact(len).map(|key| expand(key).0).collect();
        let mut expected = plain.clone();
        for (block, key) in expected.iter_mut().zip(keys.chunks_exact(len)) {
            reference_encrypt(key, std::slice::from_mut(block));
        }
        let expanded_here = (len == 16).then(|| SlicedEach::from_keys(keys.as_chunks().0));
        for each in std::iter::once(SlicedEach::new(&schedules, len / 4 + 6)).chain(expanded_here) {
            let mut blocks = plain.clone();
            each.encrypt_blocks(&mut blocks);
            assert_eq!(blocks, expected, "{count} keys of {len}");
        }
    }
}

/// GHASH of whole blocks with the crate `ghash`.
fn reference_ghash(h: [u8; 16], blocks: &[[u8; 16]]) -> [u8; 16] {
    use ::ghash::universal_hash::UniversalHash;
    let mut hash = ::ghash::GHash::new(&h.into());
    blocks
        .iter()
        .for_each(|block| hash.update(&[(*block).into()]));
    hash.finalize().into()
}

#[test]
fn ghash_agrees_with_another_implementation() {
    let mut noise = Noise(5);
    for count in 0..70 {
        let h = noise.block();
        let blocks = noise.blocks(count);
        let key = GhashKey::new(h);
        let mut whole = [0; 16];
        key.update(&mut whole, blocks.as_flattened());
        assert_eq!(whole, reference_ghash(h, &blocks), "{count} blocks");

        // The same in two parts, cut anywhere.
        let (head, tail) = blocks.split_at(count / 3);
        let mut parts = [0; 16];
        key.update(&mut parts, head.as_flattened());
        key.update(&mut parts, tail.as_flattened());
        assert_eq!(parts, whole, "{count} blocks in two parts");
    }
    // All columns as full as they get.
    for h in [[0xff; 16], [0; 16]] {
        let mut y = [0xff; 16];
        GhashKey::new(h).update(&mut y, &[0xff; 16 * 16]);
        let mut blocks = [[0xff; 16]; 16];
        blocks[0] = [0; 16];
        assert_eq!(y, reference_ghash(h, &blocks));
    }
}

#[test]
#[should_panic(expected = "GHASH takes whole blocks")]
fn ghash_takes_whole_blocks_only() {
    GhashKey::new([1; 16]).update(&mut [0; 16], &[0; 17]);
}

#[test]
fn the_field_of_ghash_is_one() {
    const ONE: [u8; 16] = 0x80u128.to_le_bytes();
    let xor = |a: [u8; 16], b: [u8; 16]| std::array::from_fn(|i| a[i] ^ b[i]);
    let mut noise = Noise(6);
    for _ in 0..100 {
        let (a, b, c) = (noise.block(), noise.block(), noise.block());
        assert_eq!(gf_mul(a, b), gf_mul(b, a));
        assert_eq!(gf_mul(a, gf_mul(b, c)), gf_mul(gf_mul(a, b), c));
        assert_eq!(gf_mul(a, xor(b, c)), xor(gf_mul(a, b), gf_mul(a, c)));
        assert_eq!(gf_mul(a, ONE), a);
        assert_eq!(gf_mul(a, b), reference_ghash(b, &[a]));
        let (m, n) = (noise.word() >> 1, noise.word() >> 1);
        assert_eq!(gf_mul(gf_pow(a, m), gf_pow(a, n)), gf_pow(a, m + n));
        assert_eq!(gf_mul(a, gf_inverse(a)), ONE);
    }
    let h = noise.block();
    let mut power = ONE;
    for n in 0..40 {
        assert_eq!(gf_pow(h, n), power, "power {n}");
        power = gf_mul(power, h);
    }
}

#[test]
fn partial_hashes_join_with_powers() {
    let mut noise = Noise(7);
    let key = GhashKey::new(hex("66e94bd4ef8a2c3b884cfa59ca342b2e"));
    let (head, tail) = (noise.bytes(16 * 13), noise.bytes(16 * 21));
    let mut whole = [0; 16];
    key.update(&mut whole, &[&head[..], &tail].concat());
    let (mut first, mut second) = ([0; 16], [0; 16]);
    key.update(&mut first, &head);
    key.update(&mut second, &tail);
    let moved = gf_mul(first, gf_pow(hex("66e94bd4ef8a2c3b884cfa59ca342b2e"), 21));
    assert_eq!(whole, std::array::from_fn(|i| moved[i] ^ second[i]));
}

#[test]
fn skipping_is_doubling_many_times() {
    let mut noise = Noise(8);
    let start = noise.block();
    let mut tweak = start;
    for n in 0..1000 {
        assert_eq!(xts_skip(start, n), tweak, "{n} blocks");
        tweak = xts_double(tweak);
    }
    for _ in 0..100 {
        let (m, n) = (noise.word() >> 1, noise.word() >> 1);
        assert_eq!(xts_skip(xts_skip(start, m), n), xts_skip(start, m + n));
    }
    assert_eq!(
        xts_skip(xts_skip(start, u64::MAX), 1),
        xts_skip(xts_skip(start, 1 << 63), 1 << 63)
    );
    // x^128 = x^7 + x^2 + x + 1.
    assert_eq!(
        xts_double((1u128 << 127).to_le_bytes()),
        0x87u128.to_le_bytes()
    );
}

#[test]
fn counter_mode_wraps_where_it_should_and_ends_anywhere() {
    let mut noise = Noise(9);
    let key_bytes = noise.bytes(32);
    let starts = [
        0,
        u128::from(u32::MAX) - 2,
        u128::from(u64::MAX) - 1,
        u128::MAX - 3,
    ];
    for (len, start) in [0usize, 1, 15, 16, 17, 4095, 4096, 4097, 9000]
        .into_iter()
        .flat_map(|len| starts.map(|start| (len, start)))
    {
        for bits in [CounterBits::B32, CounterBits::B128] {
            let blocks = len.div_ceil(16) as u32;
            let at = |i: u32| match bits {
                CounterBits::B32 => {
                    (start >> 32 << 32) | u128::from((start as u32).wrapping_add(i))
                }
                CounterBits::B128 => start.wrapping_add(u128::from(i)),
            };
            let mut stream: Vec<_> = (0..blocks).map(|i| at(i).to_be_bytes()).collect();
            reference_encrypt(&key_bytes, &mut stream);

            // XOR onto zeros leaves the key stream.
            let mut text = vec![0; len];
            let mut counter = start.to_be_bytes();
            let key = sliced(&key_bytes, blocks as usize);
            kernels::xor_key_stream(&key, &mut counter, bits, &mut text);
            assert_eq!(text, stream.as_flattened()[..len], "{len} from {start:x}");
            assert_eq!(counter, at(blocks).to_be_bytes(), "{len} from {start:x}");
        }
    }
}

#[test]
fn chains_of_any_lengths_run_in_step() {
    let mut noise = Noise(10);
    for (count, one_key) in [1, 2, 7, 150, 300]
        .into_iter()
        .flat_map(|n| [(n, true), (n, false)])
    {
        let mut keys: Vec<_> = (0..count).map(|_| noise.bytes(16)).collect();
        if one_key {
            let key = keys[0].clone();
            keys.fill(key);
        }
        let ivs = noise.blocks(count);
        let mut texts: Vec<_> = (0..count).map(|i| noise.bytes(16 * (i * 5 % 11))).collect();
        let mut expected = texts.clone();
        let mut last = ivs.clone();
        for ((text, key), prev) in expected.iter_mut().zip(&keys).zip(&mut last) {
            for block in text.as_chunks_mut::<16>().0 {
                (0..16).for_each(|i| block[i] ^= prev[i]);
                reference_encrypt(key, std::slice::from_mut(block));
                *prev = *block;
            }
        }

        let expanded: Vec<_> = keys
            .iter()
            .map(|key| AesKey::of(&Portable, key, false))
            .collect();
        let mut chains: Vec<_> = texts
            .iter_mut()
            .enumerate()
            .map(|(i, text)| Chain {
                key: &expanded[if one_key { 0 } else { i }],
                prev: ivs[i],
                io: Io::in_place(text),
            })
            .collect();
        // SAFETY: buffers of their own, in place.
        unsafe { Portable.cbc_encrypt(&mut chains) };
        let ends: Vec<_> = chains.iter().map(|chain| chain.prev).collect();
        assert_eq!(ends, last, "{count} chains, one key: {one_key}");
        assert_eq!(texts, expected, "{count} chains, one key: {one_key}");
    }
}
