//! Short GCM messages in turn. The setup of a message (schedule, hash key, mask of the tag) is
//! computed for [`LANES`] messages side by side; the texts follow each other in steps of up to
//! [`WIDE`] blocks, and while one step is encrypted, the step before it is hashed, even if that is
//! another message's.
//!
//! # Safety of all unsafe functions
//! As [`gcm_short`](super::gcm_short), and what one says of its own.

use zeroize::Zeroize;

use super::counter;
use super::keys::{Places, expand128, expand256};
use super::pairs::{Powers, hash_block, hash_bytes, load, powers, store};
use super::step::{MASK, NUMBERS, Step, crypt};
use crate::Direction;
use crate::cpu::body::aes::opaque;
use crate::cpu::body::expand::expand;
use crate::cpu::body::{Block, WIDE};
use crate::cpu::kernels::{Io, MessageKey, Short};
use crate::cpu::prepared::{AesKey, Prepared};

/// Messages that are set up together: with their masks and hash keys, as many blocks as cover the
/// latency of a round.
const LANES: usize = WIDE / 2;

/// Blocks of half a step.
pub(super) const HALF: usize = WIDE / 2;

/// The setup of a message. Blocks are in the order of their bytes, unless stated otherwise.
#[repr(C, align(64))]
pub(super) struct Lane<'a> {
    /// Round keys of this message alone, unless they are shared.
    own: AesKey,
    powers: Powers,
    /// The counter block of number 0, XORed with round key 0.
    pub(super) counter: u128,
    /// The mask of the tag.
    mask: u128,
    /// The hash of the associated data, reversed.
    start: u128,
    /// The last block of the hash, reversed.
    lengths: u128,
    shared: Option<&'a AesKey>,
}

impl Lane<'_> {
    const fn empty() -> Self {
        Lane {
            own: AesKey::empty(),
            powers: [[0; 2]; 2],
            counter: 0,
            mask: 0,
            start: 0,
            lengths: 0,
            shared: None,
        }
    }

    #[inline(always)]
    pub(super) fn key(&self) -> &AesKey {
        self.shared.unwrap_or(&self.own)
    }

    /// The tag from the hash of all data.
    #[inline(always)]
    unsafe fn tag<One: Block>(&self, hash: One) -> [u8; 16] {
        let mut tag = [0; 16];
        // SAFETY: by this function's contract; a tag has 16 bytes.
        unsafe {
            let hash = hash_block(&self.powers, hash, load(&self.lengths));
            hash.reverse().xor(load(&self.mask)).store(tag.as_mut_ptr());
        }
        tag
    }
}

/// The last step of a message that is encrypted, but not hashed.
struct Waiting<One> {
    data: *const u8,
    /// `WIDE` or `HALF`.
    blocks: usize,
    /// The hash before it.
    hash: One,
    lane: usize,
    message: usize,
}

/// Messages under way.
pub(super) struct InTurn<'a, One: Block> {
    /// The messages set up last, and the previous ones.
    lanes: [Lane<'a>; 2 * LANES],
    waiting: Option<Waiting<One>>,
    /// Scratch for the padded copy of a step.
    copy: [u128; WIDE],
    /// The last key that came prepared.
    known: Option<(&'a Prepared, Powers)>,
}

impl<'a, One: Block> InTurn<'a, One> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        InTurn {
            lanes: [const { Lane::empty() }; 2 * LANES],
            waiting: None,
            copy: [0; WIDE],
            known: None,
        }
    }

    /// Encrypts or decrypts messages.
    #[inline(always)]
    pub(super) unsafe fn run(&mut self, direction: Direction, messages: &mut [Short<'a>]) {
        // SAFETY: by this function's contract.
        unsafe {
            for first in (0..messages.len()).step_by(LANES) {
                let group = first..messages.len().min(first + LANES);
                // The last of the previous messages may still wait: its lane is in the other half.
                let lane = first % (2 * LANES);
                self.set_up(lane, &messages[group.clone()]);
                for message in group {
                    let lane = lane + message - first;
                    match direction {
                        Direction::Encrypt => self.encrypt(messages, message, lane),
                        Direction::Decrypt => self.decrypt(messages, message, lane),
                    }
                }
            }
            self.hash_waiting(messages);
        }
    }

    /// Keys, masks, and hashes of associated data, in lanes from `first` on.
    #[inline(always)]
    unsafe fn set_up(&mut self, first: usize, messages: &[Short<'a>]) {
        let lanes = &mut self.lanes[first..first + LANES];
        let mut raw = [[0u8; 0].as_ptr(); LANES];
        let mut len = 0;
        for (i, lane) in lanes.iter_mut().enumerate() {
            // Lanes without a message take any.
            let message = messages.get(i).unwrap_or(&messages[0]);
            lane.counter = counter(message.iv, 0).swap_bytes();
            let bits = |bytes: usize| 8 * bytes as u128;
            lane.lengths = bits(message.message.aad.len()) << 64 | bits(message.message.len);
            match message.key {
                MessageKey::Bytes(bytes) => {
                    (raw[i], len) = (bytes.as_ptr(), bytes.len());
                    lane.own.rounds = len / 4 + 6;
                }
                MessageKey::Prepared(prepared) => lane.shared = Some(&prepared.aes),
            }
        }
        let places = Places {
            to: lanes
                .as_mut_ptr()
                .cast::<u8>()
                .wrapping_add(std::mem::offset_of!(Lane<'_>, own.enc)),
            round: 16,
            register: size_of::<Lane<'_>>(),
        };
        // SAFETY: by this function's contract: all keys are of one kind and length. The schedules
        // go to the lanes' own keys.
        unsafe {
            match len {
                0 => encrypt_first::<One, LANES>(lanes),
                16 => {
                    expand128::<One, LANES>(&raw, places);
                    encrypt_first::<One, { 2 * LANES }>(lanes);
                }
                32 => {
                    expand256::<One, LANES>(&raw, places);
                    encrypt_first::<One, { 2 * LANES }>(lanes);
                }
                _ => {
                    for (lane, raw) in lanes.iter_mut().zip(raw) {
                        let raw = std::slice::from_raw_parts(raw, len);
                        expand::<One>(raw, false, &mut lane.own);
                    }
                    encrypt_first::<One, { 2 * LANES }>(lanes);
                }
            }
            let zero = One::splat(&[0; 16]);
            for (lane, message) in lanes.iter_mut().zip(messages) {
                if let MessageKey::Prepared(prepared) = message.key {
                    lane.powers = match self.known {
                        Some((known, powers)) if std::ptr::eq(known, prepared) => powers,
                        _ => {
                            let hash = prepared.ghash.as_ref().expect("a GCM key has a hash key");
                            powers(One::splat(&hash.h()))
                        }
                    };
                    self.known = Some((prepared, lane.powers));
                }
                let start = hash_bytes(&lane.powers, zero, message.message.aad);
                store(start, &mut lane.start);
            }
        }
    }

    /// Encrypts the text of a message. Its last step then waits, unless it is a copy.
    #[inline(always)]
    unsafe fn encrypt(&mut self, messages: &mut [Short<'a>], message: usize, number: usize) {
        let text = messages[message].io();
        // SAFETY: by this function's contract; what is hashed during a step is encrypted.
        unsafe {
            let mut hash = load(&self.lanes[number].start);
            if text.len == 0 {
                self.hash_waiting(messages);
                messages[message].tag = self.lanes[number].tag(hash);
                return;
            }
            let mut step = self.step(text, 0);
            let lane = &self.lanes[number];
            match self.waiting.take() {
                Some(Waiting {
                    data,
                    blocks,
                    hash,
                    lane: of,
                    message,
                }) => {
                    let of = &self.lanes[of];
                    let hash = match (step.is_wide(), blocks == WIDE) {
                        (true, true) => {
                            crypt::<One, WIDE, WIDE>(lane, step, hash, data, &of.powers)
                        }
                        (true, false) => {
                            crypt::<One, WIDE, HALF>(lane, step, hash, data, &of.powers)
                        }
                        (false, true) => {
                            crypt::<One, HALF, WIDE>(lane, step, hash, data, &of.powers)
                        }
                        (false, false) => {
                            crypt::<One, HALF, HALF>(lane, step, hash, data, &of.powers)
                        }
                    };
                    messages[message].tag = of.tag(hash);
                }
                None if step.is_wide() => {
                    crypt::<One, WIDE, 0>(lane, step, hash, step.src, &lane.powers);
                }
                None => {
                    crypt::<One, HALF, 0>(lane, step, hash, step.src, &lane.powers);
                }
            }
            let mut done = step.len;
            while done < text.len {
                let data = step.dst;
                step = self.step(text, done);
                done += step.len;
                let lane = &self.lanes[number];
                hash = if step.is_wide() {
                    crypt::<One, WIDE, WIDE>(lane, step, hash, data, &lane.powers)
                } else {
                    crypt::<One, HALF, WIDE>(lane, step, hash, data, &lane.powers)
                };
            }
            if step.copied {
                let lane = &self.lanes[number];
                let data = std::slice::from_raw_parts(step.dst, step.len);
                messages[message].tag = lane.tag(hash_bytes(&lane.powers, hash, data));
                self.copy_back(text, step);
            } else {
                self.waiting = Some(Waiting {
                    data: step.dst,
                    blocks: step.len / 16,
                    hash,
                    lane: number,
                    message,
                });
            }
        }
    }

    /// Decrypts the text of a message.
    #[inline(always)]
    unsafe fn decrypt(&mut self, messages: &mut [Short<'a>], message: usize, number: usize) {
        let text = messages[message].io();
        // SAFETY: by this function's contract; a step is hashed before it is overwritten.
        unsafe {
            let mut hash = load(&self.lanes[number].start);
            let mut done = 0;
            while done < text.len {
                let step = self.step(text, done);
                done += step.len;
                let lane = &self.lanes[number];
                if step.copied {
                    let data = std::slice::from_raw_parts(step.src, step.len);
                    hash = hash_bytes(&lane.powers, hash, data);
                }
                hash = match (step.is_wide(), step.copied) {
                    (true, false) => {
                        crypt::<One, WIDE, WIDE>(lane, step, hash, step.src, &lane.powers)
                    }
                    (false, false) => {
                        crypt::<One, HALF, HALF>(lane, step, hash, step.src, &lane.powers)
                    }
                    (true, true) => crypt::<One, WIDE, 0>(lane, step, hash, step.src, &lane.powers),
                    (false, true) => {
                        crypt::<One, HALF, 0>(lane, step, hash, step.src, &lane.powers)
                    }
                };
                if step.copied {
                    self.copy_back(text, step);
                }
            }
            messages[message].tag = self.lanes[number].tag(hash);
        }
    }

    /// The step of a text at `done`.
    ///
    /// # Safety
    /// The text can be read, and there is some left.
    #[inline(always)]
    unsafe fn step(&mut self, text: Io, done: usize) -> Step {
        let rest = text.len - done;
        // SAFETY: by this function's contract; the copy holds what is less than a step.
        unsafe {
            let mut step = Step {
                src: text.src.add(done),
                dst: text.dst.add(done),
                len: rest.min(16 * WIDE),
                number: done / 16,
                copied: rest < 16 * WIDE && rest != 16 * HALF,
            };
            if step.copied {
                let copy: *mut u8 = self.copy.as_mut_ptr().cast();
                copy.copy_from_nonoverlapping(step.src, rest);
                (step.src, step.dst) = (copy, copy);
            }
            step
        }
    }

    /// Ends a step that was copied.
    ///
    /// # Safety
    /// The text can be written, and the step is its last one, under way in the copy.
    #[inline(always)]
    unsafe fn copy_back(&mut self, text: Io, step: Step) {
        // SAFETY: by this function's contract.
        unsafe {
            let dst = text.dst.add(16 * step.number);
            dst.copy_from_nonoverlapping(self.copy.as_ptr().cast(), step.len);
        }
        self.copy.zeroize();
    }

    /// Hashes the step that waits.
    #[inline(always)]
    unsafe fn hash_waiting(&mut self, messages: &mut [Short<'a>]) {
        let Some(waiting) = self.waiting.take() else {
            return;
        };
        let lane = &self.lanes[waiting.lane];
        // SAFETY: by this function's contract; the step is encrypted.
        unsafe {
            let data = std::slice::from_raw_parts(waiting.data, 16 * waiting.blocks);
            let hash = hash_bytes(&lane.powers, waiting.hash, data);
            messages[waiting.message].tag = lane.tag(hash);
        }
    }
}

impl<One: Block> Drop for InTurn<'_, One> {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            lane.powers.as_flattened_mut().zeroize();
            lane.counter.zeroize();
            lane.mask.zeroize();
            lane.start.zeroize();
        }
        if let Some((_, powers)) = &mut self.known {
            powers.as_flattened_mut().zeroize();
        }
    }
}

/// Encrypts the first counter blocks, which mask the tags, and with `W` of `2 * LANES` also zeros,
/// which gives the hash keys.
///
/// # Safety
/// The machine has the instructions; the keys are in place.
#[inline(always)]
unsafe fn encrypt_first<One: Block, const W: usize>(lanes: &mut [Lane<'_>]) {
    const { assert!(W == LANES || W == 2 * LANES) };
    // SAFETY: by this function's contract.
    unsafe {
        let mut blocks = [One::splat(&[0; 16]); W];
        for (i, lane) in lanes.iter_mut().enumerate() {
            let first = One::splat(&lane.key().enc[0]);
            let counter = load::<One>(&lane.counter).xor(first);
            store(counter, &mut lane.counter);
            blocks[i] = counter.xor(One::splat(&NUMBERS[MASK]));
            if W > LANES {
                blocks[LANES + i] = first;
            }
        }
        let keys: [&AesKey; LANES] = std::array::from_fn(|i| opaque(lanes[i].key()));
        let rounds = keys[0].rounds;
        for round in 1..rounds {
            each!(W, i => {
                blocks[i] = blocks[i].encrypt_round(One::splat(&keys[i % LANES].enc[round]));
            });
        }
        each!(W, i => {
            blocks[i] = blocks[i].encrypt_last(One::splat(&keys[i % LANES].enc[rounds]));
        });
        for (i, lane) in lanes.iter_mut().enumerate() {
            store(blocks[i], &mut lane.mask);
            if W > LANES {
                lane.powers = powers(blocks[LANES + i]);
            }
        }
    }
}
