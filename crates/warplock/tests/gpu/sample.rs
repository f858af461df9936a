//! Batches to run on both, and the comparison.

use warplock::{
    Aad, Algorithm, Batch, Direction, Engine, Error, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text,
};

use crate::random::Random;

/// A batch without its buffers.
pub(crate) struct Sample {
    pub(crate) algorithm: Algorithm,
    pub(crate) keys: Vec<Key>,
    /// Which message has which key; empty: all have the first.
    pub(crate) index: Vec<u32>,
    pub(crate) spans: Vec<Span>,
    pub(crate) ivs: Vec<u8>,
    pub(crate) aad: Vec<u8>,
}

/// What a batch gave.
#[derive(PartialEq)]
pub(crate) struct Outcome {
    pub(crate) text: Vec<u8>,
    pub(crate) tags: Vec<u8>,
    pub(crate) refused: Vec<usize>,
}

/// The bytes of IVs that a mode takes here.
fn iv_len(mode: Mode) -> usize {
    match mode {
        Mode::Ecb => 0,
        Mode::Gcm => 12,
        Mode::Cbc | Mode::Ctr | Mode::Xts | Mode::Acorn => 16,
    }
}

/// A length that the algorithm takes, near this one.
pub(crate) fn fitting(algorithm: Algorithm, len: usize) -> usize {
    match algorithm.info().mode {
        Mode::Ecb | Mode::Cbc => len / 16 * 16,
        Mode::Xts if len < 16 => 0,
        _ => len,
    }
}

impl Sample {
    /// Messages with these places, `keys` keys among them.
    pub(crate) fn new(
        random: &mut Random,
        algorithm: Algorithm,
        spans: Vec<Span>,
        keys: usize,
    ) -> Self {
        let key =
            |random: &mut Random| Key::new(algorithm, &random.bytes(algorithm.key_len())).unwrap();
        let index = match keys {
            1 => Vec::new(),
            _ => spans.iter().map(|_| random.below(keys) as u32).collect(),
        };
        Sample {
            algorithm,
            keys: (0..keys).map(|_| key(random)).collect(),
            index,
            ivs: random.bytes(spans.len() * iv_len(algorithm.info().mode)),
            spans,
            aad: random.bytes(19),
        }
    }

    /// Runs it; in place if there is no input.
    pub(crate) fn run(
        &self,
        engine: &Engine,
        direction: Direction,
        input: Option<&[u8]>,
        mut output: Vec<u8>,
        mut tags: Vec<u8>,
    ) -> Outcome {
        let refused = self.run_in(engine, direction, input, &mut output, &mut tags);
        Outcome {
            text: output,
            tags,
            refused,
        }
    }

    /// The same in the caller's memory; returns what was refused.
    pub(crate) fn run_in(
        &self,
        engine: &Engine,
        direction: Direction,
        input: Option<&[u8]>,
        output: &mut [u8],
        tags: &mut [u8],
    ) -> Vec<usize> {
        let spans = Spans::Ragged(&self.spans);
        let text = match input {
            None => Text::InPlace {
                buffer: output,
                spans,
            },
            Some(input) => Text::Apart {
                input,
                input_spans: spans,
                output,
                output_spans: spans,
            },
        };
        let keys = match self.index.is_empty() {
            true => Keys::One(&self.keys[0]),
            false => Keys::Indexed {
                keys: &self.keys,
                index: &self.index,
            },
        };
        let mut batch = Batch::new(direction, keys, text);
        if !self.ivs.is_empty() {
            batch = batch.ivs(Ivs::Each(&self.ivs));
        }
        if self.algorithm.is_aead() {
            batch = batch.aad(Aad::Shared(&self.aad)).tags(Tags::Apart(tags));
        }
        match engine.run(batch) {
            Ok(()) => Vec::new(),
            Err(Error::Authentication { failed, .. }) => failed,
            Err(error) => panic!("{}, {direction:?}: {error}", engine.backend()),
        }
    }

    /// Room for tags, with a pattern.
    pub(crate) fn tags(&self) -> Vec<u8> {
        vec![
            0xEE;
            if self.algorithm.is_aead() {
                16 * self.spans.len()
            } else {
                0
            }
        ]
    }

    /// Encrypts and decrypts on both, with one forged tag where there are tags, and compares.
    pub(crate) fn compare(&self, cpu: &Engine, gpu: &Engine, plain: &[u8], in_place: bool) {
        let context = format!("{}, {} messages", self.algorithm, self.spans.len());
        let both = |direction, text: &[u8], tags: &[u8]| {
            let run = |engine: &Engine| match in_place {
                true => self.run(engine, direction, None, text.to_vec(), tags.to_vec()),
                false => {
                    let output = vec![0xA5; text.len()];
                    self.run(engine, direction, Some(text), output, tags.to_vec())
                }
            };
            let (wanted, found) = (run(cpu), run(gpu));
            assert_eq!(found.refused, wanted.refused, "{context}, {direction:?}");
            assert!(found.tags == wanted.tags, "{context}, {direction:?}: tags");
            let wrong = found
                .text
                .iter()
                .zip(&wanted.text)
                .position(|(a, b)| a != b);
            assert_eq!(wrong, None, "{context}, {direction:?}: first wrong byte");
            found
        };
        let mut sealed = both(Direction::Encrypt, plain, &self.tags());
        if let Some(tag) = sealed.tags.last_mut() {
            *tag ^= 0x80;
        }
        both(Direction::Decrypt, &sealed.text, &sealed.tags);
    }
}
