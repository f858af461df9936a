//! Random jobs through the ring on a device that is none, against the CPU backend: every byte of
//! every buffer, in rings so small that all messages are cut, with copies and kernels in random
//! order.

mod cuts;
mod fake;
mod interpreter;
mod leak;
mod selftest;
mod shared;
#[path = "../../../tests/constant_time/welch.rs"]
mod welch;

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use fake::FakeLink;

use super::copy::Copier;
use super::cut::Cutter;
use super::policy::Policy;
use super::ring::Ring;
use super::slot::Gpu;
use crate::backend::Backend;
use crate::cpu::{CpuBackend, InstructionSet};
use crate::job::Job;
use crate::portion::Portion;
use crate::{Aad, Algorithm, Batch, Direction, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// How a job's keys are given.
#[derive(Clone, Copy, Debug)]
enum KeyForm {
    One,
    Each,
    Indexed,
}

/// A job's parts but for the buffers that are written.
struct Setup {
    algorithm: Algorithm,
    form: KeyForm,
    keys: Vec<Key>,
    index: Vec<u32>,
    raw_keys: Vec<u8>,
    spans: Vec<Span>,
    even: bool,
    in_place: bool,
    input_spans: Vec<Span>,
    ivs: Vec<u8>,
    iv_spans: Vec<Span>,
    sectors: Option<u128>,
    aad: Vec<u8>,
    aad_spans: Vec<Span>,
    aad_shared: bool,
    appended: bool,
    tag_len: usize,
    size: usize,
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
    fn random(random: &mut Random, algorithm: Algorithm, room: usize) -> Self {
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

    fn spans<'a>(&'a self, spans: &'a [Span]) -> Spans<'a> {
        match spans.first() {
            Some(first) if self.even => Spans::Even {
                count: spans.len(),
                len: first.len,
                stride: first.len,
            },
            _ => Spans::Ragged(spans),
        }
    }

    fn batch<'a>(
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

    /// Where a message's ciphertext is read from when it is opened.
    fn sealed_at(&self, message: usize) -> Span {
        match self.in_place {
            true => self.spans[message],
            false => self.input_spans[message],
        }
    }
}

/// The buffers that a batch is given.
#[derive(Clone)]
struct Buffers {
    input: Vec<u8>,
    output: Vec<u8>,
    tags: Vec<u8>,
}

impl Buffers {
    /// Swaps a result's places for those it is read from.
    fn reversed(&self, setup: &Setup, random: &mut Random) -> Self {
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

    fn forge(&mut self, setup: &Setup, random: &mut Random) {
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

fn policy(random: &mut Random) -> Policy {
    let room = 512 * (1 + random.below(4));
    Policy {
        slots: 2 + random.below(3),
        largest: room,
        smallest: room,
        smallest_buffer: 16,
        messages: 1 + random.below(20),
        chains: 1 + random.below(8),
        direct_copies: random.below(4),
        gcm_long: [0, 300, u64::MAX][random.below(3)],
        ..Policy::DEFAULT
    }
}

/// Runs a job on the CPU.
fn expected(setup: &Setup, direction: Direction, buffers: &mut Buffers) -> Vec<usize> {
    let cpu = CpuBackend::new(InstructionSet::best(), NonZeroUsize::MIN).unwrap();
    let Buffers {
        input,
        output,
        tags,
    } = buffers;
    let job = Job::new(setup.batch(direction, input, output, tags)).unwrap();
    // SAFETY: the job's borrows live until it was waited for.
    unsafe { cpu.submit(&job) }.unwrap().wait().unwrap()
}

/// Bytes that must not stay behind: the keys, and plaintext.
fn secrets(
    setup: &Setup,
    direction: Direction,
    before: &Buffers,
    after: &Buffers,
) -> HashSet<[u8; 16]> {
    let keys = setup.keys.iter().map(Key::bytes);
    let raw = setup.raw_keys.chunks_exact(setup.algorithm.key_len());
    let mut secrets: HashSet<[u8; 16]> = keys
        .chain(raw)
        .map(|key| *key.first_chunk().unwrap())
        .collect();
    let (buffer, spans) = match direction {
        Direction::Decrypt => (&after.output, &setup.spans),
        Direction::Encrypt if setup.in_place => (&before.output, &setup.spans),
        Direction::Encrypt => (&before.input, &setup.input_spans),
    };
    for span in spans.iter().filter(|span| span.len >= 32) {
        let text = &buffer[span.offset..][..span.len];
        // Refused messages are zeros, and no secret.
        if text[..16] != [0; 16] {
            secrets.insert(*text.first_chunk().unwrap());
            secrets.insert(text[span.len / 32 * 16..].first_chunk().copied().unwrap());
        }
    }
    secrets
}

/// Runs a job through a ring, compares, and gives back the result.
fn check(
    setup: &Setup,
    direction: Direction,
    before: &Buffers,
    random: &mut Random,
    policy: Policy,
) -> Buffers {
    let context = format!(
        "{} {direction:?}, {} messages, keys {:?}, {policy:?}",
        setup.algorithm,
        setup.spans.len(),
        setup.form
    );
    let mut wanted = before.clone();
    let refused = expected(setup, direction, &mut wanted);
    let mut found = before.clone();
    let secrets = secrets(setup, direction, before, &wanted);
    let mut link = FakeLink::new(random.next(), None, secrets);
    if random.flip() {
        link.pin(&found.input);
    }
    if random.flip() {
        link.pin(&found.output);
    }
    let gpu = Arc::new(Gpu {
        link,
        policy,
        copier: Copier::new(NonZeroUsize::MIN, None),
    });
    let mut ring = Ring::new(&gpu);
    let Buffers {
        input,
        output,
        tags,
    } = &mut found;
    let job = Job::new(setup.batch(direction, input, output, tags)).unwrap();
    // SAFETY: nothing else uses the buffers.
    let failed = unsafe { ring.run(&job) }.unwrap();
    drop(ring);
    let known = selftest::kernels_tested_for(&job, &policy);
    let launched = gpu.link.launched();
    assert!(launched.is_subset(&known), "{context}: {launched:?}");
    assert_eq!(failed, refused, "{context}");
    assert_eq!(found.tags, wanted.tags, "{context}");
    assert_eq!(found.input, wanted.input, "{context}");
    let wrong = found
        .output
        .iter()
        .zip(&wanted.output)
        .position(|(a, b)| a != b);
    assert_eq!(wrong, None, "{context}: first wrong byte of the output");
    assert_eq!(gpu.link.under_way(), 0, "{context}");
    assert_eq!(gpu.link.leaks(), 0, "{context}: secrets stayed behind");
    found
}

/// Cuts all of a job.
fn whole<'a, 'job>(job: &'a Job<'job>, policy: &'a Policy) -> Cutter<'a, 'job> {
    let all = Portion::Messages(0..job.count());
    Cutter::new(job, policy, &all, policy.room(job.text_bytes()))
}

fn buffers(setup: &Setup, random: &mut Random) -> Buffers {
    Buffers {
        input: random.bytes(setup.size),
        output: random.bytes(setup.size),
        tags: random.bytes(setup.spans.len() * setup.tag_len),
    }
}

#[test]
fn random_jobs_in_small_rings_equal_the_cpu() {
    for algorithm in Algorithm::all() {
        for seed in 0..120 {
            let mut random = Random(seed << 8 | algorithm as u64);
            let policy = policy(&mut random);
            let setup = Setup::random(&mut random, algorithm, policy.largest);
            let plain = buffers(&setup, &mut random);
            let sealed = check(&setup, Direction::Encrypt, &plain, &mut random, policy);
            let mut sealed = sealed.reversed(&setup, &mut random);
            sealed.forge(&setup, &mut random);
            check(&setup, Direction::Decrypt, &sealed, &mut random, policy);
        }
    }
}

#[test]
fn after_a_failure_nothing_is_under_way() {
    for algorithm in [
        Algorithm::Aes128Gcm,
        Algorithm::Aes256Cbc,
        Algorithm::Aes128Xts,
        Algorithm::Acorn128,
    ] {
        for seed in 0..60 {
            let mut random = Random(seed);
            let policy = policy(&mut random);
            let setup = Setup::random(&mut random, algorithm, policy.largest);
            let mut buffers = buffers(&setup, &mut random);
            let good_calls = random.below(150) as u64;
            let mut link = FakeLink::new(seed, Some(good_calls), HashSet::new());
            link.pin(&buffers.input);
            link.pin(&buffers.output);
            let gpu = Arc::new(Gpu {
                link,
                policy,
                copier: Copier::new(NonZeroUsize::MIN, None),
            });
            let mut ring = Ring::new(&gpu);
            let Buffers {
                input,
                output,
                tags,
            } = &mut buffers;
            let batch = setup.batch(Direction::Encrypt, input, output, tags);
            // SAFETY: nothing else uses the buffers.
            let ran = unsafe { ring.run(&Job::new(batch).unwrap()) };
            assert!(ran.is_ok() || gpu.link.under_way() == 0);
        }
    }
}

#[test]
fn ghash_runs_where_machine_code_was_made_for_its_tensor_cores() {
    use crate::cuda::backend::hashes;
    let runs = [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)].map(hashes);
    assert_eq!(runs, [true; 6]);
    assert_eq!([(7, 5), (13, 0)].map(hashes), [false; 2]);
}
