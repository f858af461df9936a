//! Every kind of lanes, and single messages, against a model that goes step by step.

#[path = "../../../tests/engine/common/acorn.rs"]
mod model;

use super::*;
use crate::{Aad, Algorithm, Batch, Error, Ivs, Key, Keys, Span, Spans, Tags, Text};

/// Numbers that are the same in each run (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Single messages, then every kind of lanes that this machine has.
fn kinds() -> impl Iterator<Item = Option<&'static LaneKernels>> {
    std::iter::once(None).chain(LaneKernels::all().map(Some))
}

/// Spans of the given lengths with room for a tag after each.
fn spans(lens: &[usize]) -> (Vec<Span>, usize) {
    let mut end = 0;
    let spans = lens.iter().map(|&len| {
        let offset = end;
        end += len + 16;
        Span { offset, len }
    });
    (spans.collect(), end)
}

fn in_place<'a>(buffer: &'a mut [u8], spans: &'a [Span]) -> Text<'a> {
    Text::InPlace {
        buffer,
        spans: Spans::Ragged(spans),
    }
}

/// What the batches of a test have in common.
struct Parts<'a> {
    kind: Option<&'a LaneKernels>,
    ivs: &'a [u8],
    aad: &'a [u8],
    aad_spans: &'a [Span],
}

impl Parts<'_> {
    fn run(&self, batch: Batch<'_>) -> Vec<usize> {
        let batch = batch.ivs(Ivs::Each(self.ivs)).aad(Aad::Each {
            bytes: self.aad,
            spans: Spans::Ragged(self.aad_spans),
        });
        let job = Job::new(batch).unwrap();
        run_messages(self.kind, &job, 0..job.count())
    }
}

/// Seals and opens a batch of these lengths of text and associated data with a key each, in place
/// with tags appended, and apart with tags apart; some forgeries among them.
fn check(kind: Option<&LaneKernels>, lens: &[usize], aad_lens: &[usize], random: &mut Random) {
    let count = lens.len();
    let (keys, ivs) = (random.bytes(16 * count), random.bytes(16 * count));
    let ((spans, size), (aad_spans, aad_size)) = (spans(lens), spans(aad_lens));
    let (plain, aad) = (random.bytes(size), random.bytes(aad_size));
    let mut sealed = plain.clone();
    for (i, span) in spans.iter().enumerate() {
        let aad = &aad[aad_spans[i].offset..][..aad_spans[i].len];
        let text = &mut sealed[span.offset..][..span.len + 16];
        let each = 16 * i..16 * i + 16;
        let (cipher, tag) = model::seal(&keys[each.clone()], &ivs[each], aad, &text[..span.len]);
        text.copy_from_slice(&[&cipher[..], &tag].concat());
    }
    let tags: Vec<u8> = spans
        .iter()
        .flat_map(|span| &sealed[span.offset + span.len..][..16])
        .copied()
        .collect();

    let each = Keys::Each {
        algorithm: Algorithm::Acorn128,
        bytes: &keys,
    };
    let context = format!("texts of {lens:?}, associated data of {aad_lens:?}");

    let parts = Parts {
        kind,
        ivs: &ivs,
        aad: &aad,
        aad_spans: &aad_spans,
    };
    let mut buffer = plain.clone();
    let seal = Batch::seal(each, in_place(&mut buffer, &spans));
    assert!(parts.run(seal).is_empty());
    assert!(buffer == sealed, "{context}");
    let mut output = vec![0; size];
    let apart = Text::Apart {
        input: &plain,
        input_spans: Spans::Ragged(&spans),
        output: &mut output,
        output_spans: Spans::Ragged(&spans),
    };
    let mut found = vec![0; 16 * count];
    parts.run(Batch::seal(each, apart).tags(Tags::Apart(&mut found)));
    assert!(found == tags, "{context}");

    // A third is forged: a bit of the text or of the tag.
    let mut forged = Vec::new();
    for (i, span) in spans.iter().enumerate() {
        if random.next().is_multiple_of(3) {
            let bit = random.next() % (8 * (span.len + 16));
            buffer[span.offset + bit / 8] ^= 1 << (bit % 8);
            forged.push(i);
        }
    }
    let open = Batch::open(each, in_place(&mut buffer, &spans));
    assert_eq!(parts.run(open), forged);
    for (i, &Span { offset, len }) in spans.iter().enumerate() {
        let text = &buffer[offset..][..len];
        if forged.contains(&i) {
            assert!(text.iter().all(|&byte| byte == 0), "message {i}: {context}");
        } else {
            assert!(text == &plain[offset..][..len], "message {i}: {context}");
        }
    }
}

#[test]
fn equal_lengths() {
    let mut random = Random(1);
    for kind in kinds() {
        for len in [0, 1, 3, 4, 5, 31, 32, 33, 64, 100, 257] {
            for aad in [0, 1, 7, 16, 32, 33, 70] {
                check(kind, &[len; 16], &[aad; 16], &mut random);
            }
        }
    }
}

#[test]
fn every_number_of_messages() {
    let mut random = Random(2);
    for kind in kinds() {
        for count in 0..=40 {
            check(kind, &vec![70; count], &vec![9; count], &mut random);
        }
    }
}

#[test]
fn ragged_lengths() {
    let mut random = Random(3);
    for kind in kinds() {
        for round in 0..60 {
            let count = 1 + random.next() % 40;
            let most = [1, 40, 300, 1500][round % 4];
            let mut lens =
                || -> Vec<usize> { (0..count).map(|_| random.next() % (most + 1)).collect() };
            let (lens, aad_lens) = (lens(), lens());
            check(kind, &lens, &aad_lens, &mut random);
        }
    }
}

/// One that goes by itself, and lanes that wait for others.
#[test]
fn long_among_short() {
    let mut random = Random(4);
    for kind in kinds() {
        let mut lens = vec![50; 30];
        (lens[3], lens[17]) = (20_000, 9_001);
        let mut aad_lens = vec![3; 30];
        (aad_lens[5], aad_lens[17]) = (7_000, 8_000);
        check(kind, &lens, &aad_lens, &mut random);
    }
}

/// More than a window, from a table of keys, with associated data shared.
#[test]
fn windows_and_tables() {
    let mut random = Random(5);
    let keys: Vec<Key> = (0..3)
        .map(|_| Key::new(Algorithm::Acorn128, &random.bytes(16)).unwrap())
        .collect();
    let count = 2 * WINDOW + 5;
    let index: Vec<u32> = (0..count).map(|_| (random.next() % 3) as u32).collect();
    let ivs = random.bytes(16 * count);
    let lens: Vec<usize> = (0..count).map(|_| random.next() % 50).collect();
    let (spans, size) = spans(&lens);
    let plain = random.bytes(size);
    let results = kinds().map(|kind| {
        let mut buffer = plain.clone();
        let text = Text::InPlace {
            buffer: &mut buffer,
            spans: Spans::Ragged(&spans),
        };
        let keys = Keys::Indexed {
            keys: &keys,
            index: &index,
        };
        let batch = Batch::seal(keys, text).ivs(Ivs::Each(&ivs));
        let job = Job::new(batch.aad(Aad::Shared(b"the same"))).unwrap();
        run_messages(kind, &job, 0..count);
        buffer
    });
    let results: Vec<_> = results.collect();
    for result in &results[1..] {
        assert!(result == &results[0]);
    }
    let Span { offset, len } = spans[count - 1];
    let key = keys[index[count - 1] as usize].bytes();
    let iv = &ivs[16 * (count - 1)..];
    let (cipher, tag) = model::seal(key, iv, b"the same", &plain[offset..][..len]);
    assert_eq!(
        results[0][offset..][..len + 16],
        [&cipher[..], &tag].concat()
    );
}

#[test]
fn tags_have_16_bytes() {
    for len in [4, 8, 12, 15, 17] {
        let key = Key::new(Algorithm::Acorn128, &[0; 16]).unwrap();
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let mut buffer = [0; 40];
            let text = Text::InPlace {
                buffer: &mut buffer,
                spans: Spans::one(20),
            };
            let batch = Batch::new(direction, Keys::One(&key), text);
            let refused = Job::new(batch.ivs(Ivs::Each(&[0; 16])).tag_len(len));
            assert!(matches!(refused, Err(Error::Batch { .. })), "{len}");
        }
    }
}
