//! Random jobs for tests, and the buffers that they are given.

#[path = "../../tests/engine/common/random.rs"]
#[allow(
    dead_code,
    reason = "shared with the engine's tests, which use all of it"
)]
mod random;

pub(crate) use random::Random;

use crate::cpu::CpuBackend;
use crate::job::Job;
use crate::{Aad, Algorithm, Batch, Direction, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text};

/// The form of a job's keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyForm {
    One,
    Each,
    Indexed,
}

/// The parts of a job except the buffers that are written.
pub(crate) struct Setup {
    pub(crate) algorithm: Algorithm,
    pub(crate) form: KeyForm,
    pub(crate) keys: Vec<Key>,
    pub(crate) index: Vec<u32>,
    pub(crate) raw_keys: Vec<u8>,
    pub(crate) spans: Vec<Span>,
    pub(crate) even: bool,
    pub(crate) in_place: bool,
    pub(crate) input_spans: Vec<Span>,
    pub(crate) ivs: Vec<u8>,
    pub(crate) iv_spans: Vec<Span>,
    pub(crate) sectors: Option<u128>,
    pub(crate) aad: Vec<u8>,
    pub(crate) aad_spans: Vec<Span>,
    pub(crate) aad_shared: bool,
    pub(crate) appended: bool,
    pub(crate) tag_len: usize,
    pub(crate) size: usize,
}

const TAG_ROOM: usize = 16;

fn places(random: &mut Random, lens: &[usize], gapless: bool) -> (Vec<Span>, usize) {
    let mut order: Vec<usize> = (0..lens.len()).collect();
    if !gapless && random.flip() {
        for end in (1..order.len()).rev() {
            let other = random.below(end + 1);
            order.swap(end, other);
        }
    }
    let mut spans = vec![Span { offset: 0, len: 0 }; lens.len()];
    let mut end = if gapless { 0 } else { random.below(20) };
    for message in order {
        let len = lens[message];
        spans[message] = Span { offset: end, len };
        end += len;
        if !gapless {
            end += TAG_ROOM + random.below(40);
        }
    }
    (spans, end)
}

impl Setup {
    pub(crate) fn random(random: &mut Random, algorithm: Algorithm, room: usize) -> Self {
        let mode = algorithm.info().mode;
        let count = [0, 1, 1, 2, 5, 12, 30][random.below(7)];
        let single = mode == Mode::Ecb && random.below(3) == 0;
        let same = (random.below(4) == 0).then(|| random.below(3 * room));
        let lens: Vec<usize> = (0..count)
            .map(|_| {
                let len = match random.below(6) {
                    _ if single => 16,
                    _ if same.is_some() => same.unwrap_or(0),
                    0 => random.below(64),
                    1 => 0,
                    2 => random.below(6 * room),
                    3 => room + random.below(40) - 20,
                    4 => room * (1 + random.below(3)) + random.below(33),
                    _ => random.below(room / 2),
                };
                match mode {
                    Mode::Ecb | Mode::Cbc => len / 16 * 16,
                    Mode::Xts if len < 16 => 0,
                    _ => len,
                }
            })
            .collect();
        let gapless = single || !algorithm.is_aead() && random.below(4) == 0;
        let (spans, size) = places(random, &lens, gapless);
        let (input_spans, input_size) = places(random, &lens, gapless);
        let form = [KeyForm::One, KeyForm::Each, KeyForm::Indexed][random.below(3)];
        let keys: Vec<Key> = (0..3)
            .map(|_| Key::new(algorithm, &random.bytes(algorithm.key_len())).unwrap())
            .collect();
        let iv_len = |random: &mut Random| match mode {
            Mode::Ecb => 0,
            Mode::Gcm if random.flip() => 1 + random.below(40),
            Mode::Gcm => 12,
            _ => 16,
        };
        let mut ivs = Vec::new();
        let mut iv_spans = Vec::new();
        let mut aad_spans = Vec::new();
        for _ in 0..count {
            let len = iv_len(random);
            iv_spans.push(Span {
                offset: ivs.len(),
                len,
            });
            let iv = match random.below(4) {
                // Counters that wrap.
                0 => vec![0xFF; len],
                _ => random.bytes(len),
            };
            ivs.extend(iv);
            aad_spans.push(Span {
                offset: random.below(100),
                len: random.below(3) * random.below(300),
            });
        }
        let sectors = mode == Mode::Xts && random.flip();
        Setup {
            algorithm,
            form,
            keys,
            index: (0..count).map(|_| random.below(3) as u32).collect(),
            raw_keys: random.bytes(count * algorithm.key_len()),
            even: gapless && lens.windows(2).all(|pair| pair[0] == pair[1]),
            spans,
            in_place: random.flip(),
            input_spans,
            ivs,
            iv_spans,
            sectors: sectors.then_some(u128::MAX - 3),
            aad: random.bytes(700),
            aad_spans,
            aad_shared: random.flip(),
            appended: random.flip(),
            tag_len: match mode {
                Mode::Acorn => 16,
                _ => 12 + random.below(5),
            },
            size: size.max(input_size) + TAG_ROOM,
        }
    }

    pub(crate) fn spans<'a>(&'a self, spans: &'a [Span]) -> Spans<'a> {
        match spans.first() {
            Some(first) if self.even => Spans::Even {
                count: spans.len(),
                len: first.len,
                stride: first.len,
            },
            _ => Spans::Ragged(spans),
        }
    }

    pub(crate) fn batch<'a>(
        &'a self,
        direction: Direction,
        input: &'a [u8],
        output: &'a mut [u8],
        tags: &'a mut [u8],
    ) -> Batch<'a> {
        let keys = match self.form {
            KeyForm::One => Keys::One(&self.keys[0]),
            KeyForm::Each => Keys::Each {
                algorithm: self.algorithm,
                bytes: &self.raw_keys,
            },
            KeyForm::Indexed => Keys::Indexed {
                keys: &self.keys,
                index: &self.index,
            },
        };
        let text = match self.in_place {
            true => Text::InPlace {
                buffer: output,
                spans: self.spans(&self.spans),
            },
            false => Text::Apart {
                input,
                input_spans: self.spans(&self.input_spans),
                output,
                output_spans: self.spans(&self.spans),
            },
        };
        let ivs = match (self.algorithm.info().mode, self.sectors) {
            (Mode::Ecb, _) => Ivs::None,
            (_, Some(first)) => Ivs::Sectors { first },
            _ => Ivs::Ragged {
                bytes: &self.ivs,
                spans: Spans::Ragged(&self.iv_spans),
            },
        };
        let batch = Batch::new(direction, keys, text).ivs(ivs);
        if !self.algorithm.is_aead() {
            return batch;
        }
        let aad = match self.aad_shared {
            true => Aad::Shared(&self.aad),
            false => Aad::Each {
                bytes: &self.aad,
                spans: Spans::Ragged(&self.aad_spans),
            },
        };
        let batch = batch.aad(aad).tag_len(self.tag_len);
        match self.appended {
            true => batch,
            false => batch.tags(Tags::Apart(tags)),
        }
    }

    /// Where a message's ciphertext lies when it is opened.
    pub(crate) fn sealed_at(&self, message: usize) -> Span {
        match self.in_place {
            true => self.spans[message],
            false => self.input_spans[message],
        }
    }
}

/// The buffers of a batch.
#[derive(Clone)]
pub(crate) struct Buffers {
    pub(crate) input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) tags: Vec<u8>,
}

impl Buffers {
    /// Runs a job on the CPU; returns the messages that were refused.
    pub(crate) fn run(
        &mut self,
        cpu: &CpuBackend,
        setup: &Setup,
        direction: Direction,
    ) -> Vec<usize> {
        let Buffers {
            input,
            output,
            tags,
        } = self;
        let job = Job::new(setup.batch(direction, input, output, tags)).unwrap();
        // SAFETY: the job's borrows outlive the call.
        unsafe { cpu.run(&job) }
    }

    /// Buffers for the opposite direction: this result is their input.
    pub(crate) fn reversed(&self, setup: &Setup, random: &mut Random) -> Self {
        let mut next = self.clone();
        if !setup.in_place {
            next.input = random.bytes(setup.size);
            next.output = random.bytes(setup.size);
            for (from, to) in setup.spans.iter().zip(&setup.input_spans) {
                let room = from.len + if setup.appended { setup.tag_len } else { 0 };
                let room = if setup.algorithm.is_aead() {
                    room
                } else {
                    from.len
                };
                let text = &self.output[from.offset..][..room];
                next.input[to.offset..][..room].copy_from_slice(text);
            }
        }
        next
    }

    pub(crate) fn forge(&mut self, setup: &Setup, random: &mut Random) {
        if !setup.algorithm.is_aead() {
            return;
        }
        for message in 0..setup.spans.len() {
            if random.below(4) > 0 {
                continue;
            }
            let at = setup.sealed_at(message);
            let text = match setup.in_place {
                true => &mut self.output,
                false => &mut self.input,
            };
            match (random.flip() && at.len > 0, setup.appended) {
                (true, _) => text[at.offset + random.below(at.len)] ^= 4,
                (false, true) => text[at.offset + at.len + random.below(setup.tag_len)] ^= 64,
                (false, false) => {
                    let at = message * setup.tag_len + random.below(setup.tag_len);
                    self.tags[at] ^= 1;
                }
            }
        }
    }
}

pub(crate) fn buffers(setup: &Setup, random: &mut Random) -> Buffers {
    Buffers {
        input: random.bytes(setup.size),
        output: random.bytes(setup.size),
        tags: random.bytes(setup.spans.len() * setup.tag_len),
    }
}
