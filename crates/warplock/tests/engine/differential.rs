//! Random batches in random layouts against another author's code, on every instruction set and
//! with one, two and three threads.

use warplock::{Algorithm, Batch, Direction, Ivs, Key, Keys, Mode, Spans, Text};

use crate::common::layout::{Message, assert_same, both_ways};
use crate::common::random::Random;
use crate::common::{engines, iv_len, round_len};

/// Lengths at which something changes.
const LENGTHS: [usize; 25] = [
    0, 1, 15, 16, 17, // one block
    31, 32, 33, 47, // XTS steals from the second
    127, 128, 129, // eight registers of one block
    255, 256, 257, // of two
    511, 512, 513, // of four
    1023, 1024, 1039, // two such steps
    2032, 2048, 2063, // 127 to 129 blocks
    8000,
];

/// Lengths around the cut over threads: pieces of 256 KiB, from 512 KiB on.
const LONG: [usize; 8] = [
    (256 << 10) - 1,
    256 << 10,
    (256 << 10) + 1,
    (512 << 10) - 1,
    512 << 10,
    (512 << 10) + 1,
    (768 << 10) + 17,
    (3 << 20) + 5,
];

/// What the messages of a batch have in common.
struct Style {
    keys: usize,
    ivs_ragged: bool,
    sectors: bool,
    aad_shared: bool,
    /// The longest associated data.
    aad: usize,
    tag_len: usize,
}

impl Style {
    fn random(random: &mut Random, mode: Mode) -> Self {
        Style {
            keys: *random.pick(&[1, 1, 2, 5, 40]),
            ivs_ragged: mode == Mode::Gcm && random.flip(),
            sectors: mode == Mode::Xts && random.flip(),
            aad_shared: random.flip(),
            aad: *random.pick(&[0, 20, 1000]),
            tag_len: match mode {
                Mode::Gcm => *random.pick(&[12, 13, 14, 15, 16, 16, 16]),
                _ => 16,
            },
        }
    }
}

fn messages(
    random: &mut Random,
    algorithm: Algorithm,
    style: &Style,
    lens: &[usize],
) -> Vec<Message> {
    let mode = algorithm.info().mode;
    let keys: Vec<Vec<u8>> = (0..style.keys)
        .map(|_| random.bytes(algorithm.key_len()))
        .collect();
    // Near the end of the numbers, so that they wrap.
    let first_sector = u128::MAX - random.below(50) as u128;
    let aad_len = |random: &mut Random| match algorithm.is_aead() {
        true => random.below(style.aad + 1),
        false => 0,
    };
    let shared_len = aad_len(random);
    let shared = random.bytes(shared_len);
    let message = |(index, &len): (usize, &usize)| {
        let iv = if style.sectors {
            first_sector
                .wrapping_add(index as u128)
                .to_le_bytes()
                .to_vec()
        } else {
            let ragged = 1 + random.below(60);
            random.bytes(if style.ivs_ragged {
                ragged
            } else {
                iv_len(mode)
            })
        };
        let aad = if style.aad_shared {
            shared.clone()
        } else {
            let len = aad_len(random);
            random.bytes(len)
        };
        let text = random.bytes(round_len(mode, len));
        let key: &Vec<u8> = random.pick(&keys);
        let mut message = Message::new(algorithm, key, &iv, &aad, text);
        message.tag.truncate(style.tag_len);
        message
    };
    lens.iter().enumerate().map(message).collect()
}

#[test]
fn ragged_batches() {
    let engines = engines(&[1, 2, 3]);
    for (seed, algorithm) in Algorithm::all().enumerate() {
        let mut random = Random::new(seed as u64);
        for round in 0..60 {
            let count = *random.pick(&[0, 1, 2, 3, 7, 8, 9, 31, 33, 70]);
            let equal = random.flip().then(|| *random.pick(&LENGTHS));
            let len = |_| equal.unwrap_or_else(|| *random.pick(&LENGTHS));
            let lens: Vec<usize> = (0..count).map(len).collect();
            let style = Style::random(&mut random, algorithm.info().mode);
            let messages = messages(&mut random, algorithm, &style, &lens);
            let name = format!("round {round}");
            both_ways(&name, algorithm, &messages, &engines, &mut random);
        }
    }
}

#[test]
fn long_messages_between_short_ones() {
    let engines = engines(&[1, 2, 3]);
    for (seed, algorithm) in Algorithm::all().enumerate() {
        let mut random = Random::new(1000 + seed as u64);
        let mut lens = [&LONG[..], &LENGTHS[..]].concat();
        random.shuffle(&mut lens);
        let style = Style::random(&mut random, algorithm.info().mode);
        let messages = messages(&mut random, algorithm, &style, &lens);
        both_ways("long", algorithm, &messages, &engines, &mut random);
    }
}

#[test]
fn many_short_messages_with_a_key_each() {
    let engines = engines(&[1, 2, 3]);
    for (seed, algorithm) in Algorithm::all().enumerate() {
        let mut random = Random::new(2000 + seed as u64);
        // 5,000 blocks are more than what one thread would keep.
        let lens = vec![16; 5000];
        let mut style = Style::random(&mut random, algorithm.info().mode);
        style.keys = 300;
        let messages = messages(&mut random, algorithm, &style, &lens);
        both_ways("entries", algorithm, &messages, &engines, &mut random);
    }
}

/// GCM's messages under one key are cut into steps that depend on their length.
#[test]
fn short_messages_under_one_key_at_every_length() {
    let engines = engines(&[1]);
    let algorithms = Algorithm::all().filter(|algorithm| algorithm.info().mode == Mode::Gcm);
    for (seed, algorithm) in algorithms.enumerate() {
        let mut random = Random::new(7000 + seed as u64);
        let mut lens: Vec<usize> = (0..2100).collect();
        random.shuffle(&mut lens);
        let mut style = Style::random(&mut random, Mode::Gcm);
        (style.keys, style.ivs_ragged, style.aad) = (1, false, 40);
        let messages = messages(&mut random, algorithm, &style, &lens);
        both_ways("every length", algorithm, &messages, &engines, &mut random);
    }
}

/// CBC encryption takes more chains in step if all come to a cache line's start together.
#[test]
fn chains_with_the_same_start_in_a_line() {
    let engines = engines(&[1]);
    let algorithms = Algorithm::all().filter(|algorithm| algorithm.info().mode == Mode::Cbc);
    for (seed, algorithm) in algorithms.enumerate() {
        let mut random = Random::new(6000 + seed as u64);
        let mut style = Style::random(&mut random, Mode::Cbc);
        for (start, len) in (0..72)
            .step_by(8)
            .zip([16, 32, 48, 64, 80, 112, 192, 208, 320])
        {
            for (count, shared) in [(15, true), (16, true), (17, false), (37, true), (40, false)] {
                style.keys = if shared { 1 } else { 40 };
                let messages = messages(&mut random, algorithm, &style, &vec![len; count]);
                let key = Key::new(algorithm, &messages[0].key).unwrap();
                let bytes: Vec<u8> = messages.iter().flat_map(|m| m.key.clone()).collect();
                let ivs: Vec<u8> = messages.iter().flat_map(|m| m.iv.clone()).collect();
                let stride = len.next_multiple_of(64);
                let fill = random.bytes(64 + start + count * stride);
                for engine in &engines {
                    let (mut buffer, mut expected) = (fill.clone(), fill.clone());
                    // So that it is `start` bytes after a line's.
                    let line = buffer.as_ptr().align_offset(64) + start;
                    for (number, message) in messages.iter().enumerate() {
                        let at = line + number * stride;
                        buffer[at..at + len].copy_from_slice(&message.input);
                        expected[at..at + len].copy_from_slice(&message.output);
                    }
                    let text = Text::InPlace {
                        buffer: &mut buffer[line..],
                        spans: Spans::Even { count, len, stride },
                    };
                    let keys = match shared {
                        true => Keys::One(&key),
                        false => Keys::Each {
                            algorithm,
                            bytes: &bytes,
                        },
                    };
                    let batch = Batch::new(Direction::Encrypt, keys, text).ivs(Ivs::Each(&ivs));
                    engine.run(batch).unwrap();
                    let name = format!("{algorithm}: {count} x {len} from {start}");
                    assert_same(&buffer, &expected, &name);
                }
            }
        }
    }
}

/// GCM does short messages in step, up to 256 of a batch at a time.
#[test]
fn short_messages_of_many_lengths() {
    let engines = engines(&[1, 2]);
    for (seed, algorithm) in Algorithm::all().filter(|a| a.is_aead()).enumerate() {
        let mut random = Random::new(5000 + seed as u64);
        // Keys of their own, keys that change within a group, one key.
        for keys in [300, 5, 1] {
            let lens: Vec<usize> = (0..300).map(|_| random.below(2100)).collect();
            let style = Style {
                keys,
                ivs_ragged: false,
                sectors: false,
                aad_shared: false,
                aad: 70,
                tag_len: 16,
            };
            let messages = messages(&mut random, algorithm, &style, &lens);
            both_ways("short", algorithm, &messages, &engines, &mut random);
        }
    }
}

#[test]
fn ivs_of_1_to_1000_bytes() {
    let engines = engines(&[1, 2]);
    for algorithm in Algorithm::all().filter(|algorithm| algorithm.info().mode == Mode::Gcm) {
        let mut random = Random::new(3000);
        let key = random.bytes(algorithm.key_len());
        let messages: Vec<Message> = (1..=1000)
            .map(|len| {
                let (iv, text) = (random.bytes(len), random.bytes(40));
                Message::new(algorithm, &key, &iv, b"", text)
            })
            .collect();
        both_ways("IVs", algorithm, &messages, &engines, &mut random);
    }
}

#[test]
fn associated_data_of_0_to_200_kib() {
    let engines = engines(&[1, 2]);
    for algorithm in Algorithm::all().filter(|algorithm| algorithm.is_aead()) {
        let mut random = Random::new(4000);
        let around = |len: usize| [len - 1, len, len + 1];
        let mut lens: Vec<usize> = (0..=70).collect();
        // Steps of 8 and 32 blocks, the most powers of H, 2^16, and the whole.
        lens.extend(
            [128, 256, 512, 1024, 65_536, 200 << 10]
                .into_iter()
                .flat_map(around),
        );
        let messages: Vec<Message> = lens
            .iter()
            .map(|&len| {
                let key = random.bytes(algorithm.key_len());
                let iv = random.bytes(iv_len(algorithm.info().mode));
                let (aad, text) = (random.bytes(len), random.bytes(len % 50));
                Message::new(algorithm, &key, &iv, &aad, text)
            })
            .collect();
        both_ways("AD", algorithm, &messages, &engines, &mut random);
    }
}
