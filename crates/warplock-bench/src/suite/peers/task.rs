//! The tasks, and the buffers that all peers share.

use warplock::{Algorithm, Direction, Mode};

use crate::error::Result;
use crate::{message, random};

/// Equal messages under one algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) algorithm: Algorithm,
    pub(super) direction: Direction,
    /// How many messages.
    pub(super) count: usize,
    /// Bytes of each.
    pub(super) len: usize,
    /// A key for each message, not one for all.
    pub(super) own_keys: bool,
}

/// A task in one peer's way, on the shared buffers.
pub(super) type Work = Box<dyn FnMut(&mut Texts)>;

/// Every task, in the table's order.
pub(super) fn all() -> Vec<Task> {
    use Algorithm::*;
    let (encrypt, decrypt) = (Direction::Encrypt, Direction::Decrypt);
    let task = |algorithm, direction, count, len, own_keys| Task {
        algorithm,
        direction,
        count,
        len,
        own_keys,
    };
    let long = [
        (Aes128Gcm, encrypt),
        (Aes256Gcm, encrypt),
        (Aes128Ctr, encrypt),
        (Aes256Ctr, encrypt),
        (Aes128Xts, encrypt),
        (Aes256Xts, encrypt),
        (Aes128Cbc, decrypt),
        (Aes256Cbc, decrypt),
    ];
    let mut tasks = Vec::new();
    for (algorithm, direction) in long {
        for len in [16 << 10, 1 << 20] {
            tasks.push(task(algorithm, direction, 1, len, false));
        }
    }
    for algorithm in [Aes128Cbc, Aes256Cbc] {
        tasks.push(task(algorithm, encrypt, 64, 16 << 10, false));
    }
    // Records, packets and sectors.
    let short = [
        (Aes128Gcm, 1_000, 64),
        (Aes128Gcm, 250, 1_500),
        (Aes256Gcm, 250, 1_500),
        (Aes128Ctr, 1_000, 64),
        (Aes128Ctr, 250, 1_500),
        (Aes256Xts, 1_000, 512),
        (Aes256Xts, 100, 4_096),
    ];
    for (algorithm, count, len) in short {
        tasks.push(task(algorithm, encrypt, count, len, false));
    }
    for algorithm in [Aes128Gcm, Aes256Gcm, Aes128Ctr] {
        tasks.push(task(algorithm, encrypt, 1_000, 256, true));
    }
    tasks.push(task(Aes128Ecb, encrypt, 4_096, 16, true));
    tasks
}

impl Task {
    pub(super) fn name(&self) -> String {
        let direction = self.direction.name();
        let count = match self.count {
            1 => String::new(),
            count => format!("{count} x "),
        };
        let keys = if self.own_keys { ", a key each" } else { "" };
        format!(
            "{} {direction}, {count}{} B{keys}",
            self.algorithm, self.len
        )
    }

    /// Text bytes of all messages.
    pub(super) fn bytes(&self) -> usize {
        self.count * self.len
    }

    /// How often a turn repeats the task, each time on the result of the time before: until some
    /// hundred microseconds have passed. In shorter turns every peer would pay for what the others
    /// left in the CPU's tables of branches and instructions. An odd number: after an even one, CTR
    /// in place has restored the input, whatever its key stream was.
    pub(super) fn repeats(&self) -> usize {
        ((1 << 20) / self.bytes()) | 1
    }

    /// Bytes of a message's IV.
    pub(super) fn iv_len(&self) -> usize {
        message::iv_len(self.mode())
    }

    pub(super) fn mode(&self) -> Mode {
        self.algorithm.info().mode
    }

    /// Bits of the cipher's key.
    pub(super) fn bits(&self) -> usize {
        8 * self.algorithm.info().cipher.key_len()
    }

    pub(super) fn is_encrypting(&self) -> bool {
        self.direction == Direction::Encrypt
    }
}

/// The buffers of a task.
pub(super) struct Texts {
    task: Task,
    /// One key, or one for each message.
    pub(super) keys: Vec<u8>,
    pub(super) ivs: Vec<u8>,
    /// All messages: input, then output.
    pub(super) buffer: Vec<u8>,
    /// 16 bytes for each message of an AEAD.
    pub(super) tags: Vec<u8>,
    input: Vec<u8>,
    expected: Vec<u8>,
    expected_tags: Vec<u8>,
}

/// One message of a task.
pub(super) struct Message<'a> {
    pub(super) key: &'a [u8],
    /// Empty for ECB.
    pub(super) iv: &'a [u8],
    pub(super) text: &'a mut [u8],
    /// Empty if the algorithm makes none.
    pub(super) tag: &'a mut [u8],
}

impl Texts {
    /// Random keys, IVs and input.
    pub(super) fn new(task: &Task) -> Result<Self> {
        let keys = if task.own_keys { task.count } else { 1 };
        let input = random::bytes(task.bytes())?;
        let tags = if task.algorithm.is_aead() {
            task.count
        } else {
            0
        };
        Ok(Texts {
            task: *task,
            keys: random::bytes(keys * task.algorithm.key_len())?,
            ivs: random::bytes(task.count * task.iv_len())?,
            buffer: input.clone(),
            tags: vec![0; 16 * tags],
            input,
            expected: Vec::new(),
            expected_tags: Vec::new(),
        })
    }

    /// Takes the content of the buffers as the right result.
    pub(super) fn expect(&mut self) {
        self.expected.clone_from(&self.buffer);
        self.expected_tags.clone_from(&self.tags);
    }

    /// Puts the input back and spoils the tags.
    pub(super) fn reset(&mut self) {
        self.buffer.copy_from_slice(&self.input);
        self.tags.fill(0xa5);
    }

    pub(super) fn is_right(&self) -> bool {
        self.buffer == self.expected && self.tags == self.expected_tags
    }

    /// The messages, one after the other.
    pub(super) fn messages(&mut self) -> impl Iterator<Item = Message<'_>> {
        let Texts {
            task,
            keys,
            ivs,
            buffer,
            tags,
            ..
        } = self;
        let (key_len, iv_len) = (task.algorithm.key_len(), task.iv_len());
        let (keys, ivs) = (&**keys, &**ivs);
        let (own_keys, is_aead) = (task.own_keys, task.algorithm.is_aead());
        let mut tags = tags.chunks_mut(16);
        buffer
            .chunks_mut(task.len)
            .enumerate()
            .map(move |(number, text)| {
                let key = if own_keys { number } else { 0 };
                let tag = if is_aead { tags.next() } else { None };
                Message {
                    key: &keys[key * key_len..][..key_len],
                    iv: &ivs[number * iv_len..][..iv_len],
                    text,
                    tag: tag.unwrap_or_default(),
                }
            })
    }
}
