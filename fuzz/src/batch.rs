//! Builds a batch from arbitrary bytes, mostly nonsense, and runs it. Whatever it is: no panic; a
//! refused batch changes nothing; an accepted one changes only what it may; what was encrypted
//! decrypts to what it was.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::OnceLock;

use warplock::{
    Aad, Algorithm, Batch, BatchProblem, Direction, Engine, Error, InstructionSet, Ivs, Key, Keys,
    Span, Spans, Tags, Text,
};

/// Takes values from the front of the fuzzer's bytes; zeros when they are used up.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// A number from 0 to `end - 1`.
    fn below(&mut self, end: usize) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        number % end
    }

    /// A plausible number, or, rarely, one at the edge of what a number can be.
    fn number(&mut self, plausible: usize) -> usize {
        match self.byte() {
            255 => usize::MAX,
            254 => usize::MAX - self.below(64),
            253 => usize::MAX / 2 + self.below(64),
            252 => self.below(1 << 16),
            _ => self.below(plausible + 1),
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.byte()).collect()
    }

    /// `count` spans that probably, not surely, lie in `size` bytes without overlap.
    fn spans(&mut self, count: usize, size: usize, multiple: usize) -> OwnSpans {
        if self.byte() & 1 == 0 {
            let len = self.number(size / count.max(1)) / multiple * multiple;
            let stride = match self.byte() {
                0..200 => len.saturating_add(16),
                _ => self.number(size),
            };
            let count = if self.byte() > 252 {
                self.number(count)
            } else {
                count
            };
            return OwnSpans::Even { count, len, stride };
        }
        let mut end = 0usize;
        let span = |_| {
            let len = self.number(size / count.max(1)) / multiple * multiple;
            let offset = if self.byte() > 252 {
                self.number(size)
            } else {
                end
            };
            end = offset.wrapping_add(len).wrapping_add(16);
            Span { offset, len }
        };
        OwnSpans::Ragged((0..count).map(span).collect())
    }
}

/// [`Spans`] that own their array.
#[derive(Clone)]
enum OwnSpans {
    Even {
        count: usize,
        len: usize,
        stride: usize,
    },
    Ragged(Vec<Span>),
}

impl OwnSpans {
    fn get(&self) -> Spans<'_> {
        match self {
            &OwnSpans::Even { count, len, stride } => Spans::Even { count, len, stride },
            OwnSpans::Ragged(spans) => Spans::Ragged(spans),
        }
    }
}

/// Everything that a batch borrows, so that one like it can be built again for the way back.
struct Parts {
    direction: Direction,
    algorithm: Algorithm,
    key: Key,
    key_bytes: Vec<u8>,
    keys: Vec<Key>,
    index: Vec<u32>,
    key_kind: u8,
    in_place: bool,
    /// In place: not used.
    from: OwnSpans,
    to: OwnSpans,
    iv_bytes: Vec<u8>,
    iv_spans: OwnSpans,
    iv_kind: u8,
    aad_bytes: Vec<u8>,
    aad_spans: OwnSpans,
    aad_kind: u8,
    tag_kind: u8,
    tag_len: usize,
}

impl Parts {
    fn new(input: &mut Input<'_>, size: usize) -> Self {
        let algorithms: Vec<Algorithm> = Algorithm::all().collect();
        let pick = |input: &mut Input<'_>| algorithms[input.below(algorithms.len())];
        let algorithm = pick(input);
        let count = input.below(9);
        let key = |algorithm: Algorithm, input: &mut Input<'_>| {
            let seed = input.byte();
            let mut bytes = vec![seed; algorithm.key_len()];
            // XTS refuses equal halves.
            bytes[0] ^= 1;
            Key::new(algorithm, &bytes).expect("the length fits")
        };
        let keys = (0..input.below(4)).map(|_| {
            let other = if input.byte() == 255 {
                pick(input)
            } else {
                algorithm
            };
            key(other, input)
        });
        let keys: Vec<Key> = keys.collect();
        let index = (0..count).map(|_| match input.byte() {
            255 => u32::MAX,
            number => u32::from(number) % (keys.len().max(1) as u32 + u32::from(number == 254)),
        });
        let index = index.collect();
        let off = |input: &mut Input<'_>| usize::from(input.byte() == 255);
        let key_len = algorithm.key_len() * count + off(input);
        let iv_len = [0, 12, 12, 16, 16, 16, 1, 40][input.below(8)] * count + off(input);
        let tight = algorithm.info().accepts_text_len(1);
        let multiple = if tight { 1 } else { 16 };
        Parts {
            direction: if input.byte() & 1 == 0 {
                Direction::Encrypt
            } else {
                Direction::Decrypt
            },
            algorithm,
            key: key(algorithm, input),
            key_bytes: input.bytes(key_len),
            keys,
            index,
            key_kind: input.byte(),
            in_place: input.byte() & 1 == 0,
            from: input.spans(count, size, multiple),
            to: input.spans(count, size, multiple),
            iv_bytes: input.bytes(iv_len),
            iv_spans: input.spans(count, iv_len, 1),
            iv_kind: input.byte(),
            aad_bytes: input.bytes(40),
            aad_spans: input.spans(count, 40, 1),
            aad_kind: input.byte(),
            tag_kind: input.byte(),
            tag_len: if input.byte() < 200 {
                16
            } else {
                input.below(20)
            },
        }
    }

    fn keys(&self) -> Keys<'_> {
        match self.key_kind % 3 {
            0 => Keys::One(&self.key),
            1 => Keys::Each {
                algorithm: self.algorithm,
                bytes: &self.key_bytes,
            },
            _ => Keys::Indexed {
                keys: &self.keys,
                index: &self.index,
            },
        }
    }

    fn ivs(&self) -> Ivs<'_> {
        match self.iv_kind % 8 {
            0 => Ivs::None,
            1 => Ivs::Sectors {
                first: u128::MAX - 2,
            },
            2 | 3 => Ivs::Ragged {
                bytes: &self.iv_bytes,
                spans: self.iv_spans.get(),
            },
            _ => Ivs::Each(&self.iv_bytes),
        }
    }

    fn aad(&self) -> Aad<'_> {
        match self.aad_kind % 4 {
            0 if self.algorithm.is_aead() => Aad::Shared(&self.aad_bytes),
            1 => Aad::Each {
                bytes: &self.aad_bytes,
                spans: self.aad_spans.get(),
            },
            _ => Aad::None,
        }
    }

    fn batch<'a>(
        &'a self,
        direction: Direction,
        input: &'a [u8],
        output: &'a mut [u8],
        tags: &'a mut [u8],
    ) -> Batch<'a> {
        // The way back reads where the way there has written.
        let back = direction != self.direction;
        let to = if back { &self.from } else { &self.to };
        let from = if back { &self.to } else { &self.from };
        let text = if self.in_place {
            Text::InPlace {
                buffer: output,
                spans: self.to.get(),
            }
        } else {
            Text::Apart {
                input,
                input_spans: from.get(),
                output,
                output_spans: to.get(),
            }
        };
        let batch = Batch::new(direction, self.keys(), text);
        let batch = batch.ivs(self.ivs()).aad(self.aad()).tag_len(self.tag_len);
        match self.tag_kind % 4 {
            0 => batch.tags(Tags::Apart(tags)),
            1 if direction == Direction::Decrypt => batch.tags(Tags::Given(tags)),
            1 => batch.tags(Tags::Apart(tags)),
            _ => batch,
        }
    }

    /// The places in the output that a batch in the first direction may write.
    fn writable(&self) -> Vec<Range<usize>> {
        // A table of keys may be for another algorithm altogether.
        let algorithm = match self.keys.first() {
            Some(key) if self.key_kind % 3 == 2 => key.algorithm(),
            _ => self.algorithm,
        };
        let sealing = algorithm.is_aead() && self.direction == Direction::Encrypt;
        let tag = if sealing && self.tag_kind % 4 > 1 {
            self.tag_len
        } else {
            0
        };
        let spans = self.to.get();
        let range = |index| {
            let span = spans.get(index);
            span.offset..span.offset + span.len + tag
        };
        (0..filled(spans, tag)).map(range).collect()
    }
}

/// How many messages to look at. Texts and tags without bytes are as many as anybody likes.
fn filled(spans: Spans<'_>, tag: usize) -> usize {
    match spans {
        Spans::Even { len: 0, .. } if tag == 0 => 0,
        _ => spans.count(),
    }
}

/// Every instruction set, on one thread.
fn engines() -> &'static [Engine] {
    static ENGINES: OnceLock<Vec<Engine>> = OnceLock::new();
    ENGINES.get_or_init(|| {
        let sets = InstructionSet::all().filter(|set| set.is_available());
        let engine = |set: InstructionSet| {
            let choice = format!("cpu:{}", set.name()).parse()?;
            Engine::builder()
                .backend(choice)
                .threads(NonZeroUsize::MIN)
                .build()
        };
        sets.map(|set| engine(set).expect("the set is available"))
            .collect()
    })
}

/// Checks one input. True if a batch came of it that ran there and back.
pub(crate) fn check(data: &[u8]) -> bool {
    let mut input = Input(data);
    let engine = &engines()[input.below(engines().len())];
    let size = input.below(1500);
    let parts = Parts::new(&mut input, size);
    let count = parts.to.get().count();
    let tags_len = match (parts.tag_len * count.min(64), input.byte()) {
        (len, 255) => len + 1,
        (len, _) => len,
    };
    let text: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
    let poison: Vec<u8> = (0..size).map(|i| (i * 11 + 3) as u8).collect();
    let mut output = if parts.in_place { text.clone() } else { poison };
    let before = output.clone();
    let mut tags = vec![0x5A; tags_len];

    let result = engine.run(parts.batch(parts.direction, &text, &mut output, &mut tags));
    match result {
        Ok(()) => {}
        // Random tags are never right, but this is no check of cryptography.
        Err(Error::Authentication { failed, total }) => {
            assert_eq!(parts.direction, Direction::Decrypt);
            assert!(failed.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(total == count && failed.last() < Some(&total));
        }
        Err(Error::Batch { .. } | Error::NonceReuse { .. }) => {
            assert_eq!(output, before, "a refused batch wrote");
            assert!(
                tags.iter().all(|&byte| byte == 0x5A),
                "a refused batch wrote tags"
            );
            return false;
        }
        Err(error) => panic!("{error}"),
    }

    let mut outside = before;
    for range in parts.writable() {
        outside[range.clone()].copy_from_slice(&output[range]);
    }
    assert!(
        output == outside,
        "an accepted batch wrote between its messages"
    );

    if parts.direction == Direction::Decrypt {
        return false;
    }
    let mut again = if parts.in_place {
        output.clone()
    } else {
        vec![0; size + 16]
    };
    let back = parts.batch(Direction::Decrypt, &output, &mut again, &mut tags);
    match engine.run(back) {
        Ok(()) => {}
        // Encryption may read texts that overlap; decryption cannot write them so.
        Err(Error::Batch {
            problem: BatchProblem::ResultsOverlap,
            ..
        }) => return false,
        Err(error) => panic!("the way back failed: {error}"),
    }
    let spans = if parts.in_place {
        parts.to.get()
    } else {
        parts.from.get()
    };
    for index in 0..filled(spans, 0) {
        let Span { offset, len } = spans.get(index);
        assert_eq!(
            again[offset..][..len],
            text[offset..][..len],
            "message {index}"
        );
    }
    true
}
