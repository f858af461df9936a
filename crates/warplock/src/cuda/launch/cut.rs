//! Cuts a job into chunks that fit into a slot of the ring.
//!
//! Short messages are not cut; a chunk has many of them. A message that is longer than a chunk is
//! cut where its mode allows: CTR, XTS and GCM count blocks, CBC decryption needs the preceding
//! ciphertext block. CBC encryption is a chain: there a chunk takes a part of many messages, and
//! the next chunk continues them. ACORN's messages are never cut: one that is longer than a chunk
//! is a chunk by itself.

use std::ops::Range;

use super::abi::ROW;
use super::policy::Policy;
use crate::job::Job;
use crate::portion::Portion;
use crate::{Direction, Keys, Mode};

/// Messages of this length and more start at a multiple of [`ROW`]; shorter ones at one of 16.
const LONG_START: usize = 8 * ROW;

/// The block of ciphertext, IV or counter that a part starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Previous {
    Iv,
    /// CBC decryption: the preceding ciphertext block.
    Block([u8; 16]),
    /// CBC encryption: the block at this offset of the preceding chunk.
    Chained(usize),
}

/// A message, or a part of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The message's index in the job.
    pub(crate) message: usize,
    /// Bytes of the message before this part.
    pub(crate) before: usize,
    /// Bytes of this part.
    pub(crate) len: usize,
    /// Bytes of the message after this part.
    pub(crate) after: usize,
    /// The part's offset in the chunk's text.
    pub(crate) place: usize,
    pub(crate) previous: Previous,
}

/// The content of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Whole messages.
    Whole(Vec<Part>),
    /// A part of one message.
    Long(Part),
    /// Parts of chains, one of each message.
    Chains(Vec<Part>),
    /// Messages of one block with a key each, without gaps.
    Blocks(Range<usize>),
}

impl Chunk {
    /// The parts, in the order of their offsets; none if messages are single blocks.
    pub(crate) fn parts(&self) -> &[Part] {
        match self {
            Chunk::Whole(parts) | Chunk::Chains(parts) => parts,
            Chunk::Long(part) => std::slice::from_ref(part),
            Chunk::Blocks(_) => &[],
        }
    }
}

/// Cuts a portion of a job from its first message to its last.
pub(crate) struct Cutter<'a, 'job> {
    job: &'a Job<'job>,
    policy: &'a Policy,
    /// Bytes of text in a chunk.
    room: usize,
    /// The next message, and how many of its bytes are cut off already.
    next: usize,
    before: usize,
    /// The end of the portion's messages.
    end: usize,
    /// The range of the message's bytes, if the portion is a part of one.
    bytes: Option<Range<usize>>,
    /// CBC decryption: the ciphertext block before the next part.
    previous: [u8; 16],
    /// The chains of CBC encryption that are under way: their parts in the preceding chunk.
    chains: Vec<Part>,
}

/// The offset of a message of `len` bytes after `end`.
fn place_after(end: usize, len: usize) -> usize {
    end.next_multiple_of(if len >= LONG_START { ROW } else { 16 })
}

impl<'a, 'job> Cutter<'a, 'job> {
    /// For a portion, in chunks of up to `room` bytes.
    pub(crate) fn new(
        job: &'a Job<'job>,
        policy: &'a Policy,
        portion: &Portion,
        room: usize,
    ) -> Self {
        let (messages, bytes, previous) = match portion {
            Portion::Messages(messages) => (messages.clone(), None, [0; 16]),
            Portion::Part(part) => (
                part.message..part.message + 1,
                Some(part.bytes.clone()),
                part.previous,
            ),
        };
        Cutter {
            job,
            policy,
            room,
            next: messages.start,
            before: bytes.as_ref().map_or(0, |bytes| bytes.start),
            end: messages.end,
            bytes,
            previous,
            chains: Vec::new(),
        }
    }

    fn blocks(&mut self) -> Option<Chunk> {
        let count = self.end;
        if self.job.info().mode != Mode::Ecb || self.job.direction() != Direction::Encrypt {
            return None;
        }
        self.job.single_blocks(self.next..count)?;
        let each = 16 + self.job.info().key_len;
        let end = count.min(self.next + self.room / each);
        let start = std::mem::replace(&mut self.next, end);
        Some(Chunk::Blocks(start..end))
    }

    /// As many whole messages from `next` on as fit; at least one of ACORN's, whose chains are one
    /// lane's work.
    fn whole(&self) -> Vec<Part> {
        let uncut = self.job.info().mode == Mode::Acorn;
        let mut parts = Vec::new();
        let (mut end, mut aad) = (0, 0);
        for message in self.next..self.end {
            let len = self.job.text_len(message);
            let place = place_after(end, len);
            aad += self.job.aad_len(message);
            let full = parts.len() >= self.policy.messages
                || aad > self.room && !parts.is_empty()
                || place + len > self.room;
            if full && !(uncut && parts.is_empty()) {
                break;
            }
            end = place + len;
            parts.push(Part {
                message,
                before: 0,
                len,
                after: 0,
                place,
                previous: Previous::Iv,
            });
        }
        parts
    }

    /// The next part of the message at `next`, which is longer than a chunk.
    fn long(&mut self) -> Chunk {
        let len = self.job.text_len(self.next);
        let wanted = self.bytes.clone().unwrap_or(0..len);
        let (all, left) = (wanted.len(), wanted.end - self.before);
        // Equal parts: a short last one would leave the link idle.
        let each = all.div_ceil(all.div_ceil(self.room)).next_multiple_of(ROW);
        let mut len = left.min(each.min(self.room));
        // XTS steals from the last whole block: the two stay together.
        if self.job.info().mode == Mode::Xts && left > len && left - len < 32 {
            len -= 32;
        }
        let part = Part {
            message: self.next,
            before: self.before,
            len,
            after: self.job.text_len(self.next) - self.before - len,
            place: 0,
            previous: match (self.job.info().mode, self.before) {
                (Mode::Cbc, 1..) => Previous::Block(self.previous),
                _ => Previous::Iv,
            },
        };
        self.before += len;
        if self.before == wanted.end {
            self.next += 1;
            self.before = 0;
        } else if self.job.info().mode == Mode::Cbc {
            let message = self.job.message(part.message);
            // SAFETY: `before` is at least a block and inside the message; this chunk is not under
            // way yet.
            self.previous = unsafe { message.block_before(self.before) };
        }
        Chunk::Long(part)
    }

    /// Starts chains with the next messages: enough to keep the device busy.
    fn begin_chains(&mut self) {
        let most = self.policy.chains.min(self.room / ROW).max(1);
        let end = self.end.min(self.next + most);
        let begun = (self.next..end).map(|message| Part {
            message,
            before: 0,
            len: 0,
            after: self.job.text_len(message),
            place: 0,
            previous: Previous::Iv,
        });
        self.chains = begun.filter(|part| part.after > 0).collect();
        self.next = end;
    }

    /// The next part of every chain.
    fn advance_chains(&mut self) -> Chunk {
        let each = self.room / self.chains.len() / 16 * 16;
        let mut place = 0;
        for part in &mut self.chains {
            let (before, len) = (part.before + part.len, part.after.min(each));
            *part = Part {
                message: part.message,
                before,
                len,
                after: part.after - len,
                place,
                previous: match before {
                    0 => Previous::Iv,
                    _ => Previous::Chained(part.place + part.len - 16),
                },
            };
            place += len;
        }
        let parts = self.chains.clone();
        self.chains.retain(|part| part.after > 0);
        Chunk::Chains(parts)
    }
}

impl Iterator for Cutter<'_, '_> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        if !self.chains.is_empty() {
            return Some(self.advance_chains());
        }
        if self.next >= self.end {
            return None;
        }
        if self.before > 0 || self.bytes.is_some() {
            return Some(self.long());
        }
        if let Some(blocks) = self.blocks() {
            return Some(blocks);
        }
        let parts = self.whole();
        let end = self.next + parts.len();
        let chained =
            self.job.info().mode == Mode::Cbc && self.job.direction() == Direction::Encrypt;
        if chained && end < self.end && parts.len() < self.policy.chains {
            self.begin_chains();
            return self.next();
        }
        if parts.is_empty() {
            return Some(self.long());
        }
        self.next = end;
        Some(Chunk::Whole(parts))
    }
}

/// Whether a job has several keys, so that kernels look them up in a table.
pub(crate) fn has_table(job: &Job<'_>) -> bool {
    !matches!(job.keys(), Keys::One(_))
}
