//! Known-answer tests of the kernels: before a kernel sees a caller's data, it runs on small
//! messages whose answers portable code computes in the same process.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock};

use super::cut::has_table;
use super::policy::{FEW_CHAINS, Policy};
use super::sheet::is_small;
use crate::cpu::{CpuBackend, InstructionSet};
use crate::cuda::driver::api::Failure;
use crate::job::Job;
use crate::lock::lock;
use crate::{Aad, Algorithm, Batch, Direction, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text};

/// The shapes of batches for which one algorithm and direction take different kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// One key for all messages; for GCM: messages that are not short.
    One,
    /// GCM of long messages with one key; CTR of one that is very long.
    Long,
    /// The same with plain ones ([`Messages`](super::pieces::Messages)).
    Plain,
    /// Keys from a table.
    Table,
    /// A key for each block.
    Blocks,
    /// CBC encryption of more messages than [`FEW_CHAINS`].
    Many,
    /// The same with keys from a table.
    ManyTable,
    /// GCM of short messages with one key.
    Small,
    /// GCM where some multiprocessors only hash; in GPU memory alone.
    Split { any_byte: bool },
    /// The same with plain messages.
    SplitPlain { any_byte: bool },
    /// The same with plain messages of one unit each.
    SplitUnits { any_byte: bool },
    /// ACORN of texts, and CTR of one that is very long, at any byte; in GPU memory alone.
    AnyByte,
}

impl Shape {
    /// Those where some multiprocessors only hash.
    pub(crate) const SPLIT: [Self; 6] = [
        Shape::Split { any_byte: false },
        Shape::SplitPlain { any_byte: false },
        Shape::SplitUnits { any_byte: false },
        Shape::Split { any_byte: true },
        Shape::SplitPlain { any_byte: true },
        Shape::SplitUnits { any_byte: true },
    ];

    /// Whether some multiprocessors only hash.
    pub(crate) fn splits(self) -> bool {
        Self::SPLIT.contains(&self)
    }

    /// Whether kernels for texts at any byte are tested, of which there are others for aligned ones.
    pub(crate) fn is_at_any_byte(self) -> bool {
        match self {
            Shape::AnyByte => true,
            Shape::Split { any_byte }
            | Shape::SplitPlain { any_byte }
            | Shape::SplitUnits { any_byte } => any_byte,
            _ => false,
        }
    }

    /// Whether the messages are plain ones.
    fn is_plain(self) -> bool {
        matches!(
            self,
            Shape::Plain | Shape::SplitPlain { .. } | Shape::SplitUnits { .. }
        )
    }
}

/// One test: the kernels of an algorithm, a direction and a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Case {
    pub(crate) algorithm: Algorithm,
    pub(crate) direction: Direction,
    pub(crate) shape: Shape,
}

impl Case {
    /// The cases that cover every kernel that a job may take.
    pub(crate) fn of(job: &Job<'_>, policy: &Policy) -> Vec<Case> {
        let (mode, direction) = (job.info().mode, job.direction());
        let chains = mode == Mode::Cbc && direction == Direction::Encrypt;
        let many = chains && job.count() as u64 > FEW_CHAINS;
        let mut shapes = Vec::new();
        if mode == Mode::Ecb
            && direction == Direction::Encrypt
            && job.single_blocks(0..job.count()).is_some()
        {
            shapes.push(Shape::Blocks);
        } else if has_table(job) {
            shapes.push(Shape::Table);
            if many {
                shapes.push(Shape::ManyTable);
            }
            if !chains {
                // For the parts of messages that are longer than a chunk.
                shapes.push(Shape::One);
            }
        } else {
            if is_small(job, policy) {
                shapes.push(Shape::Small);
            }
            shapes.push(Shape::One);
            if many {
                shapes.push(Shape::Many);
            }
        }
        if mode == Mode::Gcm && shapes.contains(&Shape::One) {
            shapes.extend([Shape::Long, Shape::Plain]);
        }
        let algorithm = job.info().algorithm;
        let case = |shape| Case {
            algorithm,
            direction,
            shape,
        };
        shapes.into_iter().map(case).collect()
    }

    /// The kernels that it covers.
    pub(crate) fn kernels(self) -> Vec<String> {
        let info = self.algorithm.info();
        let bits = 8 * info.cipher.key_len();
        let encrypts = self.direction == Direction::Encrypt;
        let way = self.direction.name();
        let table = matches!(self.shape, Shape::Table | Shape::ManyTable);
        let end = match table {
            true => "table".to_owned(),
            false => bits.to_string(),
        };
        let many = matches!(self.shape, Shape::Many | Shape::ManyTable);
        let mut names = match info.mode {
            Mode::Ecb if self.shape == Shape::Blocks => vec![format!("ecb_each_{bits}")],
            Mode::Ecb => vec![format!("ecb_{way}_{end}")],
            Mode::Cbc if encrypts && many => vec![format!("cbc_encrypt_{end}")],
            Mode::Cbc if encrypts => vec![format!("cbc_encrypt_few_{end}")],
            Mode::Cbc => vec!["cbc_save".to_owned(), format!("cbc_decrypt_{end}")],
            Mode::Ctr if matches!(self.shape, Shape::Long | Shape::AnyByte) => {
                vec![format!("ctr_long_{bits}")]
            }
            Mode::Ctr => vec![format!("ctr_{end}")],
            Mode::Xts => vec![
                "xts_tweaks".to_owned(),
                format!("xts_{way}_{end}"),
                format!("xts_steal_{way}"),
            ],
            Mode::Gcm if self.shape != Shape::Small && !table => {
                let splits = self.shape.splits();
                let stem = match self.shape {
                    Shape::One => "gcm",
                    _ if splits && self.shape.is_at_any_byte() => "gcm_split_any_byte",
                    _ if splits => "gcm_split",
                    _ => "gcm_long",
                };
                let mut names = vec!["gcm_powers".to_owned(), format!("{stem}_{way}_{bits}")];
                // For this few messages the split kernels make the tags, too.
                names.extend((!splits).then(|| "gcm_finish".to_owned()));
                names.extend((!self.shape.is_plain()).then(|| format!("gcm_prepare_{bits}")));
                names.extend((!encrypts).then(|| "gcm_wipe".to_owned()));
                names
            }
            Mode::Gcm => vec![format!("gcm_small_{way}")],
            Mode::Acorn if self.shape == Shape::AnyByte => vec!["acorn_any_byte".to_owned()],
            Mode::Acorn => vec![format!("acorn_{way}")],
        };
        if table && info.mode != Mode::Acorn {
            names.insert(0, "expand_keys".to_owned());
        }
        names
    }

    /// The messages' lengths: around blocks, rows of 32 of them, and several rows.
    pub(crate) fn lens(self) -> Vec<usize> {
        let lens: &[usize] = match (self.algorithm.info().mode, self.shape) {
            (_, Shape::Blocks) => &[16; 70],
            (_, Shape::Many | Shape::ManyTable) => &[16; FEW_CHAINS as usize + 1],
            (Mode::Gcm, Shape::One) => &[0, 8209, 2048],
            (Mode::Gcm, Shape::Long) => &[0, 33_000, 8209],
            (Mode::Gcm, Shape::Plain) => &[33_000, 16_384, 8209],
            // The same number of units of 16 KiB, but not of rows. Side by side, only the first of the
            // odd ones is aligned.
            (Mode::Gcm, Shape::Split { any_byte } | Shape::SplitPlain { any_byte }) => {
                match any_byte {
                    true => &[49_139, 33_000, 40_001],
                    false => &[49_152, 33_000, 40_001],
                }
            }
            (Mode::Gcm, Shape::SplitUnits { any_byte: true }) => &[16_377, 15_001, 16_384],
            (Mode::Gcm, Shape::SplitUnits { any_byte: false }) => &[16_384, 15_001, 16_000],
            (Mode::Gcm, _) => &[0, 1, 16, 33, 500, 513, 1500],
            (Mode::Ecb | Mode::Cbc, _) => &[16, 48, 496, 512, 528, 4128],
            (Mode::Xts, _) => &[16, 33, 500, 512, 513, 4127],
            // Some rows for each warp.
            (Mode::Ctr, Shape::Long | Shape::AnyByte) => &[(4 << 20) + 77],
            (Mode::Ctr, _) => &[1, 16, 33, 500, 512, 513, 4127],
            // As below, but for a second warp with other places of the results.
            (Mode::Acorn, Shape::AnyByte) => {
                let lens = (0..64).map(|lane| 250 - lane / 32 * 50 + 5 * (lane % 7));
                return lens.chain([0, 1, 16, 33, 63, 100, 191]).collect();
            }
            // A warp whose lanes all have whole tiles of 64 bytes, and one with other lengths.
            (Mode::Acorn, _) => {
                let lens = (0..32).map(|lane| 192 + 5 * (lane % 7));
                return lens.chain([0, 1, 16, 33, 63, 100, 191]).collect();
            }
        };
        lens.to_vec()
    }

    /// Lets `run` work on the case; returns whether the answer was right.
    pub(crate) fn passes<E>(
        self,
        run: impl FnOnce(&Job<'_>) -> Result<Vec<usize>, E>,
    ) -> Result<bool, E> {
        let question = Question::new(self);
        let mut right = question.blank();
        let mut refused = Vec::new();
        question.ask(self, &mut right, |job| refused = portable(job));
        let mut found = question.blank();
        let mut answer = Ok(Vec::new());
        question.ask(self, &mut found, |job| answer = run(job));
        Ok(answer? == refused && found == right)
    }
}

/// The right answer; returns the messages that do not verify.
fn portable(job: &Job<'_>) -> Vec<usize> {
    let portable = CpuBackend::new(InstructionSet::Portable, NonZeroUsize::MIN)
        .expect("portable code runs everywhere");
    // SAFETY: the job's borrows outlive the call.
    unsafe { portable.run(job) }
}

/// The input of a case.
struct Question {
    keys: Vec<Key>,
    raw_keys: Vec<u8>,
    index: Vec<u32>,
    spans: Vec<Span>,
    ivs: Vec<u8>,
    iv_spans: Vec<Span>,
    aad: Vec<u8>,
    input: Vec<u8>,
    /// Of the messages to open; one is forged.
    tags: Vec<u8>,
}

/// The output: texts and tags.
type Answer = (Vec<u8>, Vec<u8>);

/// Bytes that look random and are always the same: splitmix64.
fn bytes(state: &mut u64, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8)).flat_map(|_| {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).to_le_bytes()
    });
    words.take(len).collect()
}

/// Spans one after the other, at multiples of `to`, and the end of the last.
pub(crate) fn side_by_side(lens: impl Iterator<Item = usize>, to: usize) -> (Vec<Span>, usize) {
    let mut end = 0;
    let spans = lens.map(|len| {
        let offset = end;
        end = (end + len).next_multiple_of(to);
        Span { offset, len }
    });
    (spans.collect(), end)
}

impl Question {
    fn new(case: Case) -> Self {
        let mode = case.algorithm.info().mode;
        let key_len = case.algorithm.key_len();
        let lens = case.lens();
        let count = lens.len();
        let random = &mut 0;
        let key = |random: &mut u64| {
            Key::new(case.algorithm, &bytes(random, key_len)).expect("keys of this length fit")
        };
        let iv_len = |message: usize| match (mode, message % 3) {
            (Mode::Ecb, _) => 0,
            (Mode::Gcm, 0 | 1) => 12,
            (Mode::Gcm, _) if case.shape.is_plain() => 12,
            _ => 16,
        };
        let (spans, size) = side_by_side(lens.into_iter(), 1);
        let (iv_spans, ivs_size) = side_by_side((0..count).map(iv_len), 1);
        let mut ivs = bytes(random, ivs_size);
        for span in iv_spans.iter().step_by(2) {
            // Counters that wrap soon.
            let iv = &mut ivs[span.offset..][..span.len];
            iv.iter_mut().rev().skip(1).for_each(|byte| *byte = 0xFF);
        }
        let mut question = Question {
            keys: (0..3).map(|_| key(random)).collect(),
            raw_keys: match case.shape {
                Shape::Blocks => bytes(random, count * key_len),
                _ => Vec::new(),
            },
            index: (0..count as u32).map(|message| message % 3).collect(),
            spans,
            ivs,
            iv_spans,
            aad: match case.shape.is_plain() {
                true => Vec::new(),
                false => bytes(random, 21),
            },
            input: bytes(random, size),
            tags: vec![
                0;
                if case.algorithm.is_aead() {
                    16 * count
                } else {
                    0
                }
            ],
        };
        if case.direction == Direction::Decrypt && case.algorithm.is_aead() {
            question.seal(case);
        }
        question
    }

    /// Makes the input ciphertext that verifies, except for one message.
    fn seal(&mut self, case: Case) {
        let seals = Case {
            direction: Direction::Encrypt,
            ..case
        };
        let mut sealed = self.blank();
        self.ask(seals, &mut sealed, |job| {
            portable(job);
        });
        (self.input, self.tags) = sealed;
        self.tags[16] ^= 1;
    }

    /// Room for an answer, filled with bytes that no answer has.
    fn blank(&self) -> Answer {
        (vec![0xA5; self.input.len()], self.tags.clone())
    }

    fn ask(&self, case: Case, answer: &mut Answer, run: impl FnOnce(&Job<'_>)) {
        let (output, tags) = answer;
        let keys = match case.shape {
            Shape::Blocks => Keys::Each {
                algorithm: case.algorithm,
                bytes: &self.raw_keys,
            },
            Shape::Table | Shape::ManyTable => Keys::Indexed {
                keys: &self.keys,
                index: &self.index,
            },
            _ => Keys::One(&self.keys[0]),
        };
        let spans = match case.shape {
            Shape::Blocks => Spans::Even {
                count: self.spans.len(),
                len: 16,
                stride: 16,
            },
            _ => Spans::Ragged(&self.spans),
        };
        let text = Text::Apart {
            input: &self.input,
            input_spans: spans,
            output,
            output_spans: spans,
        };
        let mut batch = Batch::new(case.direction, keys, text);
        if !self.ivs.is_empty() {
            batch = batch.ivs(Ivs::Ragged {
                bytes: &self.ivs,
                spans: Spans::Ragged(&self.iv_spans),
            });
        }
        if case.algorithm.is_aead() {
            batch = batch.aad(Aad::Shared(&self.aad)).tags(Tags::Apart(tags));
        }
        run(&Job::new(batch).expect("the cases keep the rules of batches"));
    }
}

/// The kernels of a device that gave right answers.
#[derive(Default)]
pub(crate) struct Tested {
    passed: Mutex<HashSet<Case>>,
    /// The error; the device is then no longer used.
    broken: OnceLock<String>,
}

impl Tested {
    /// The tests that a device has passed in this process.
    pub(crate) fn on(device: u32) -> Arc<Tested> {
        static DEVICES: OnceLock<Mutex<HashMap<u32, Arc<Tested>>>> = OnceLock::new();
        let devices = DEVICES.get_or_init(Mutex::default);
        let mut devices = lock(devices);
        Arc::clone(devices.entry(device).or_default())
    }

    /// Whether all kernels that a job may take were tested.
    pub(crate) fn covers(&self, job: &Job<'_>, policy: &Policy) -> bool {
        let passed = lock(&self.passed);
        Case::of(job, policy)
            .iter()
            .all(|case| passed.contains(case))
    }

    /// Tests the kernels that a job may take and that were not tested yet: `run` runs the cases'
    /// jobs on the device. Other callers wait meanwhile.
    ///
    /// # Errors
    /// A sentence that says what was wrong.
    pub(crate) fn ensure(
        &self,
        job: &Job<'_>,
        policy: &Policy,
        mut run: impl FnMut(&Job<'_>) -> Result<Vec<usize>, Failure>,
    ) -> Result<(), String> {
        self.ensure_cases(Case::of(job, policy), |_, job| run(job))
    }

    /// The same for cases.
    ///
    /// # Errors
    /// As [`Tested::ensure`].
    pub(crate) fn ensure_cases<E: fmt::Display>(
        &self,
        cases: Vec<Case>,
        mut run: impl FnMut(Case, &Job<'_>) -> Result<Vec<usize>, E>,
    ) -> Result<(), String> {
        let mut passed = lock(&self.passed);
        if let Some(wrong) = self.broken.get() {
            return Err(wrong.clone());
        }
        for case in cases {
            if passed.contains(&case) {
                continue;
            }
            let kernels = case.kernels().join(", ");
            let right = case
                .passes(|job| run(case, job))
                .map_err(|failure| format!("testing {kernels}: {failure}"))?;
            if !right {
                let wrong = format!(
                    "{kernels}: wrong answer in the test with known answers ({}, {:?}); this GPU \
                     is not used any more, use cpu",
                    case.algorithm, case.direction
                );
                return Err(self.broken.get_or_init(|| wrong).clone());
            }
            passed.insert(case);
        }
        Ok(())
    }
}
