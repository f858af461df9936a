//! Forgeries: one changed bit anywhere is refused, what comes out is zeros, and the batch's other
//! messages are right.

use warplock::{Algorithm, Direction};

use crate::common::layout::{Message, Plan};
use crate::common::random::Random;
use crate::common::{engines, iv_len};

fn sealed(random: &mut Random, algorithm: Algorithm, len: usize) -> Message {
    let key = random.bytes(algorithm.key_len());
    let iv = random.bytes(iv_len(algorithm.info().mode));
    let (aad, text) = (random.bytes(20), random.bytes(len));
    Message::new(algorithm, &key, &iv, &aad, text)
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// Opens the forged messages with good ones between them.
fn refuse(algorithm: Algorithm, good: &Message, forged: Vec<Message>, random: &mut Random) {
    let marked = forged.into_iter().map(|mut message| {
        message.forged = true;
        message
    });
    let mut messages: Vec<Message> = marked.chain((0..5).map(|_| good.clone())).collect();
    random.shuffle(&mut messages);
    for engine in engines(&[1, 2]) {
        let plan = Plan {
            name: "forgeries",
            algorithm,
            direction: Direction::Decrypt,
            messages: &messages,
        };
        plan.run(&engine, random);
    }
}

fn algorithms() -> impl Iterator<Item = Algorithm> {
    Algorithm::all().filter(|algorithm| algorithm.is_aead())
}

#[test]
fn every_bit_of_the_tag() {
    let mut random = Random::new(1);
    for algorithm in algorithms() {
        for len in [0, 5, 16, 700] {
            let info = algorithm.info();
            let fits = |len: &usize| info.accepts_tag_len(Direction::Decrypt, *len);
            for tag_len in [4, 8, 12, 13, 14, 15, 16].into_iter().filter(fits) {
                let mut good = sealed(&mut random, algorithm, len).reversed();
                good.tag.truncate(tag_len);
                let forged = (0..8 * tag_len).map(|bit| {
                    let mut message = good.clone();
                    flip(&mut message.tag, bit);
                    message
                });
                let forged = forged.collect();
                refuse(algorithm, &good, forged, &mut random);
            }
        }
    }
}

#[test]
fn every_bit_of_a_short_message() {
    let mut random = Random::new(2);
    for algorithm in algorithms() {
        let good = sealed(&mut random, algorithm, 37).reversed();
        let parts: [fn(&mut Message) -> &mut Vec<u8>; 4] = [
            |message| &mut message.input,
            |message| &mut message.aad,
            |message| &mut message.iv,
            |message| &mut message.key,
        ];
        let mut forged = Vec::new();
        for part in parts {
            for bit in 0..8 * part(&mut good.clone()).len() {
                let mut message = good.clone();
                flip(part(&mut message), bit);
                forged.push(message);
            }
        }
        refuse(algorithm, &good, forged, &mut random);
    }
}

/// The parts' lengths are authenticated too.
#[test]
fn shorter_longer_and_moved_parts() {
    let mut random = Random::new(3);
    for algorithm in algorithms() {
        let mut good = sealed(&mut random, algorithm, 64).reversed();
        good.aad.truncate(16);
        good = {
            let plain = good.output.clone();
            Message::new(algorithm, &good.key, &good.iv, &good.aad, plain).reversed()
        };
        let changes: [fn(&mut Message); 8] = [
            |m| m.aad.push(0),
            |m| m.aad.truncate(15),
            |m| m.aad.clear(),
            |m| m.input.push(0),
            |m| m.input.truncate(63),
            |m| m.input.clear(),
            // The same bytes hashed, but the border between the two is elsewhere.
            |m| m.aad.extend(m.input.drain(..16)),
            |m| m.input.splice(..0, m.aad.drain(..)).for_each(drop),
        ];
        let forged = changes.map(|change| {
            let mut message = good.clone();
            change(&mut message);
            message
        });
        refuse(algorithm, &good, forged.into(), &mut random);
    }
}

/// Messages that are cut over threads: a bit near each end and each cut.
#[test]
fn bits_of_long_messages() {
    let mut random = Random::new(4);
    for algorithm in algorithms() {
        let len = (768 << 10) + 7;
        let good = sealed(&mut random, algorithm, len).reversed();
        let cut = 256 << 10;
        let places = [
            0,
            cut - 1,
            cut,
            2 * cut - 1,
            2 * cut,
            3 * cut - 1,
            3 * cut,
            len - 1,
        ];
        let forged = places.map(|place| {
            let mut message = good.clone();
            flip(&mut message.input, 8 * place + 3);
            message
        });
        refuse(algorithm, &good, forged.into(), &mut random);
    }
}
