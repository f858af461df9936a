//! The rows.

use warplock::{Algorithm, Direction, Mode};

use crate::table::grouped;

/// One row.
pub(super) struct Case {
    pub(super) algorithm: Algorithm,
    pub(super) direction: Direction,
    pub(super) count: usize,
    /// Bytes of each message.
    pub(super) len: usize,
    /// A key for each message.
    pub(super) key_each: bool,
    /// Whether it depends on the size of the run.
    pub(super) every_size: bool,
}

/// The largest SSL record.
const RECORD: usize = 16 << 10;

const SECTOR: usize = 4096;

/// All rows of a run over `size` bytes, which is a multiple of 4 MiB.
pub(super) fn cases(size: usize) -> Vec<Case> {
    use Algorithm::*;
    use Direction::{Decrypt, Encrypt};
    let case = |algorithm, direction, count, len| Case {
        algorithm,
        direction,
        count,
        len,
        key_each: false,
        every_size: true,
    };
    let mut all = Vec::new();
    for algorithm in [Aes128Ctr, Aes192Ctr, Aes256Ctr] {
        all.push(case(algorithm, Encrypt, 1, size));
    }
    for direction in [Encrypt, Decrypt] {
        for algorithm in [Aes128Ecb, Aes192Ecb, Aes256Ecb] {
            all.push(case(algorithm, direction, 1, size));
        }
    }
    for algorithm in [Aes128Xts, Aes256Xts] {
        for direction in [Encrypt, Decrypt] {
            all.push(case(algorithm, direction, size / SECTOR, SECTOR));
        }
    }
    for algorithm in [Aes128Cbc, Aes192Cbc, Aes256Cbc] {
        all.push(case(algorithm, Decrypt, 1, size));
    }
    for count in [256, 1024, 4096, 16384, 65536] {
        if count * RECORD <= size {
            all.push(Case {
                every_size: false,
                ..case(Aes128Cbc, Encrypt, count, RECORD)
            });
        }
    }
    for algorithm in [Aes128Gcm, Aes256Gcm] {
        for (count, len) in [(1, size), (size / RECORD, RECORD)] {
            for direction in [Encrypt, Decrypt] {
                all.push(case(algorithm, direction, count, len));
            }
        }
    }
    let count = (size / 1024).min(65536);
    for direction in [Encrypt, Decrypt] {
        all.push(Case {
            key_each: true,
            every_size: false,
            ..case(Aes256Gcm, direction, count, 1024)
        });
    }
    for len in [64, 256, 1024, 4096] {
        for direction in [Encrypt, Decrypt] {
            all.push(Case {
                key_each: true,
                every_size: false,
                ..case(Acorn128, direction, (size / len).min(1 << 18), len)
            });
        }
    }
    for algorithm in [Aes128Ecb, Aes192Ecb, Aes256Ecb] {
        all.push(Case {
            key_each: true,
            ..case(algorithm, Encrypt, size / 16, 16)
        });
    }
    all
}

impl Case {
    /// Text bytes of all messages.
    pub(super) fn bytes(&self) -> usize {
        self.count * self.len
    }

    /// Whether every block has a key of its own.
    pub(super) fn key_each_block(&self) -> bool {
        self.key_each && self.len == 16
    }

    pub(super) fn mode(&self) -> Mode {
        self.algorithm.info().mode
    }

    /// CTR with keys of the same length, which is GCM without its hash, if all messages of a row of
    /// GCM have one key.
    pub(super) fn cipher_alone(&self) -> Option<Algorithm> {
        match self.algorithm {
            _ if self.key_each => None,
            Algorithm::Aes128Gcm => Some(Algorithm::Aes128Ctr),
            Algorithm::Aes192Gcm => Some(Algorithm::Aes192Ctr),
            Algorithm::Aes256Gcm => Some(Algorithm::Aes256Ctr),
            _ => None,
        }
    }

    /// The fewest seconds that a GPU with this many multiprocessors needs, if the kernel is limited
    /// by something other than memory: ACORN takes 28 instructions for 32 steps (13 functions of
    /// three inputs and 15 funnel shifts), of which a multiprocessor executes 64 in a cycle.
    pub(super) fn least_seconds(&self, multiprocessors: u32, hertz: f64) -> Option<f64> {
        if self.mode() != Mode::Acorn {
            return None;
        }
        let blocks = 96 + self.len.div_ceil(4);
        let instructions = (28 * blocks * self.count) as f64;
        Some(instructions / (64.0 * f64::from(multiprocessors) * hertz))
    }

    /// Its name in the table.
    pub(super) fn name(&self) -> String {
        let way = match (self.mode(), self.direction) {
            (Mode::Ctr, _) => "",
            (Mode::Gcm | Mode::Acorn, Direction::Encrypt) => " seal",
            (Mode::Gcm | Mode::Acorn, Direction::Decrypt) => " open",
            (_, Direction::Encrypt) => " encrypt",
            (_, Direction::Decrypt) => " decrypt",
        };
        let messages = match (self.mode(), self.count, self.key_each) {
            _ if self.key_each_block() => ", a key each block".to_owned(),
            (_, _, true) => format!(", {} B with a key each", grouped(self.len as u64)),
            (Mode::Xts, ..) => ", 4 KiB sectors".to_owned(),
            (_, 1, _) => String::new(),
            (Mode::Cbc, count, _) => format!(", {} x 16 KiB", grouped(count as u64)),
            _ => ", 16 KiB messages".to_owned(),
        };
        format!("{}{way}{messages}", self.algorithm)
    }
}
