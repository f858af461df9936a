//! A row's messages in host memory.

use warplock::{
    Aad, Algorithm, Batch, Direction, Engine, Error as EngineError, Ivs, Keys, Spans, Tags, Text,
};

use crate::error::Result;
use crate::measure::interleave;
use crate::{Context, Error, Sample, message, random};

/// Messages with a key each, and the reference's results.
pub(super) struct Messages {
    pub(super) algorithm: Algorithm,
    pub(super) count: usize,
    pub(super) len: usize,
    /// Bytes of associated data of each.
    pub(super) aad_len: usize,
    pub(super) keys: Vec<u8>,
    pub(super) ivs: Vec<u8>,
    pub(super) aad: Vec<u8>,
    pub(super) plain: Vec<u8>,
    pub(super) cipher: Vec<u8>,
    pub(super) tags: Vec<u8>,
    output: Vec<u8>,
    output_tags: Vec<u8>,
}

impl Messages {
    pub(super) fn new(
        algorithm: Algorithm,
        (count, len, aad_len): (usize, usize, usize),
        reference: &Engine,
    ) -> Result<Self> {
        let iv_len = message::iv_len(algorithm.info().mode);
        let mut messages = Messages {
            algorithm,
            count,
            len,
            aad_len,
            keys: random::bytes(count * algorithm.key_len())?,
            ivs: random::bytes(count * iv_len)?,
            // A GPU has no empty buffers.
            aad: random::bytes((count * aad_len).max(1))?,
            plain: random::bytes(count * len)?,
            cipher: Vec::new(),
            tags: Vec::new(),
            output: vec![0; count * len],
            output_tags: vec![0; 16 * count],
        };
        messages.run(reference, Direction::Encrypt)?;
        messages.cipher.clone_from(&messages.output);
        messages.tags.clone_from(&messages.output_tags);
        Ok(messages)
    }

    fn run(
        &mut self,
        engine: &Engine,
        direction: Direction,
    ) -> std::result::Result<(), EngineError> {
        let even = |len| Spans::Even {
            count: self.count,
            len,
            stride: len,
        };
        let text = Text::Apart {
            input: match direction {
                Direction::Encrypt => &self.plain,
                Direction::Decrypt => &self.cipher,
            },
            input_spans: even(self.len),
            output: &mut self.output,
            output_spans: even(self.len),
        };
        let keys = Keys::Each {
            algorithm: self.algorithm,
            bytes: &self.keys,
        };
        let aad = Aad::Each {
            bytes: &self.aad,
            spans: even(self.aad_len),
        };
        let tags = match direction {
            Direction::Encrypt => Tags::Apart(&mut self.output_tags),
            Direction::Decrypt => Tags::Given(&self.tags),
        };
        let batch = Batch::new(direction, keys, text);
        engine.run(batch.ivs(Ivs::Each(&self.ivs)).aad(aad).tags(tags))
    }

    /// Bytes of text and associated data.
    pub(super) fn bytes(&self) -> usize {
        self.count * (self.len + self.aad_len)
    }

    fn poison(&mut self) {
        self.output.fill(0xa5);
        self.output_tags.fill(0xa5);
    }

    fn is_right(&self, direction: Direction) -> bool {
        match direction {
            Direction::Encrypt => self.output == self.cipher && self.output_tags == self.tags,
            Direction::Decrypt => self.output == self.plain,
        }
    }

    /// Bytes of text and associated data a second, on each engine.
    pub(super) fn measure(
        &mut self,
        context: &Context<'_>,
        engines: &[Engine],
        direction: Direction,
    ) -> Result<Vec<Sample>> {
        let bytes = self.bytes() as f64;
        let samples = interleave(
            &context.plan,
            engines.len(),
            self,
            Messages::poison,
            |messages, engine| Ok(messages.run(&engines[engine], direction)?),
            |messages, engine| match messages.is_right(direction) {
                true => Ok(()),
                false => Err(Error::Wrong(format!(
                    "{} messages of {} bytes: {} on {} threads does not agree with cpu:portable \
                     ({}, {direction:?})",
                    messages.count,
                    messages.len,
                    engines[engine].backend(),
                    if engine == 0 {
                        1
                    } else {
                        context.threads.get()
                    },
                    messages.algorithm,
                ))),
            },
        )?;
        let rate = |sample: Sample| sample.map(|seconds| bytes / seconds);
        Ok(samples.into_iter().map(rate).collect())
    }
}
