//! AESAVS, 6.4: Monte Carlo. A hundred records a file, each a key and a block that is encrypted
//! 1,000 times over; the next record follows from the last two results. The records of a section
//! are independent once their starts are known, so they run as one batch, a thousand times.

use warplock::{Batch, Direction, Ivs, Key, Keys, Mode, Spans, Text};

use crate::common::vectors::{Record, records};
use crate::common::{algorithm, engines};

const ROUNDS: usize = 1000;

type Block = [u8; 16];

fn block(bytes: Vec<u8>) -> Block {
    bytes.try_into().unwrap()
}

/// One section of a file: a chain of records.
struct Chain {
    mode: Mode,
    direction: Direction,
    records: Vec<Record>,
}

impl Chain {
    fn input(&self, record: &Record) -> Block {
        block(record.bytes(match self.direction {
            Direction::Encrypt => "plaintext",
            Direction::Decrypt => "ciphertext",
        }))
    }

    fn output(&self, record: &Record) -> Block {
        block(record.bytes(match self.direction {
            Direction::Encrypt => "ciphertext",
            Direction::Decrypt => "plaintext",
        }))
    }

    /// The last two results of every record's inner loop.
    fn run(&self, engine: &warplock::Engine) -> Vec<[Block; 2]> {
        let name = |record: &Record| algorithm(self.mode, record.bytes("key").len()).unwrap();
        let key = |record: &Record| Key::new(name(record), &record.bytes("key")).unwrap();
        let keys: Vec<Key> = self.records.iter().map(key).collect();
        let index: Vec<u32> = (0..keys.len() as u32).collect();
        let first_ivs: Vec<u8> = match self.mode {
            Mode::Cbc => self.records.iter().flat_map(|r| r.bytes("iv")).collect(),
            _ => Vec::new(),
        };
        let mut ivs = first_ivs.clone();
        let mut text: Vec<u8> = self.records.iter().flat_map(|r| self.input(r)).collect();
        let mut before = Vec::new();
        let mut result = Vec::new();
        for round in 0..ROUNDS {
            let input = text.clone();
            let spans = Spans::Even {
                count: keys.len(),
                len: 16,
                stride: 16,
            };
            let buffer = Text::InPlace {
                buffer: &mut text,
                spans,
            };
            let keys = Keys::Indexed {
                keys: &keys,
                index: &index,
            };
            let batch = Batch::new(self.direction, keys, buffer);
            let iv = match self.mode {
                Mode::Cbc => Ivs::Each(&ivs),
                _ => Ivs::None,
            };
            engine.run(batch.ivs(iv)).unwrap();
            before = std::mem::replace(&mut result, text.clone());
            if self.mode == Mode::Cbc {
                // The chain goes on through the ciphertext; the next text is the result before.
                ivs = match self.direction {
                    Direction::Encrypt => result.clone(),
                    Direction::Decrypt => input,
                };
                text = if round == 0 {
                    first_ivs.clone()
                } else {
                    before.clone()
                };
            }
        }
        let blocks = |bytes: &[u8]| -> Vec<Block> {
            bytes.chunks(16).map(|c| c.try_into().unwrap()).collect()
        };
        let pairs = blocks(&before).into_iter().zip(blocks(&result));
        pairs.map(|(before, last)| [before, last]).collect()
    }

    /// Compares the results with the file, and each record's start with what follows from the
    /// record before it. Returns how many records there were.
    fn check(&self, engine: &warplock::Engine) -> usize {
        let results = self.run(engine);
        for (index, (record, &[before, last])) in self.records.iter().zip(&results).enumerate() {
            let context = format!("{} on {}", record.name, engine.backend());
            assert_eq!(last, self.output(record), "{context}");
            let Some(next) = self.records.get(index + 1) else {
                continue;
            };
            let key = record.bytes("key");
            let both = [before, last].concat();
            let change = &both[both.len() - key.len()..];
            let next_key: Vec<u8> = key.iter().zip(change).map(|(a, b)| a ^ b).collect();
            assert_eq!(next.bytes("key"), next_key, "{context}: the next key");
            if self.mode == Mode::Cbc {
                assert_eq!(block(next.bytes("iv")), last, "{context}: the next IV");
                assert_eq!(self.input(next), before, "{context}: the next text");
            } else {
                assert_eq!(self.input(next), last, "{context}: the next text");
            }
        }
        results.len()
    }
}

fn monte_carlo(mode: Mode, prefix: &str) {
    for bits in [128, 192, 256] {
        let (encrypt, decrypt): (Vec<_>, Vec<_>) = records(&format!("aes/mct/{prefix}{bits}.rsp"))
            .into_iter()
            .partition(|record| record.section == "ENCRYPT");
        for (direction, records) in [(Direction::Encrypt, encrypt), (Direction::Decrypt, decrypt)] {
            let chain = Chain {
                mode,
                direction,
                records,
            };
            for engine in engines(&[1]) {
                assert_eq!(chain.check(&engine), 100);
            }
        }
    }
}

#[test]
fn ecb() {
    monte_carlo(Mode::Ecb, "ECBMCT");
}

#[test]
fn cbc() {
    monte_carlo(Mode::Cbc, "CBCMCT");
}
