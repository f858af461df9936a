//! Lays messages out in buffers in every way that a batch allows, runs them, and compares every
//! byte: results, refused messages (zeros), and what lies between and around (unchanged).

use std::collections::HashMap;

use warplock::{
    Aad, Algorithm, Batch, Direction, Engine, Error, Ivs, Key, Keys, Mode, Span, Spans, Tags, Text,
};

use super::oracle;
use super::random::Random;

/// One message and what must become of it.
#[derive(Clone)]
pub(crate) struct Message {
    pub(crate) key: Vec<u8>,
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    pub(crate) input: Vec<u8>,
    /// What comes out if it is not refused.
    pub(crate) output: Vec<u8>,
    /// What sealing must make of it or what opening is given; empty without authentication.
    pub(crate) tag: Vec<u8>,
    /// Must be refused: zeros come out.
    pub(crate) forged: bool,
}

impl Message {
    /// A message to encrypt, with the result that the other implementation gives.
    pub(crate) fn new(
        algorithm: Algorithm,
        key: &[u8],
        iv: &[u8],
        aad: &[u8],
        input: Vec<u8>,
    ) -> Self {
        let (output, tag) = oracle::encrypt(algorithm, key, iv, aad, &input);
        Message {
            key: key.to_vec(),
            iv: iv.to_vec(),
            aad: aad.to_vec(),
            input,
            output,
            tag,
            forged: false,
        }
    }

    /// The same message the other way round.
    pub(crate) fn reversed(&self) -> Self {
        Message {
            input: self.output.clone(),
            output: self.input.clone(),
            ..self.clone()
        }
    }
}

/// Messages that run as one batch.
pub(crate) struct Plan<'a> {
    pub(crate) name: &'a str,
    pub(crate) algorithm: Algorithm,
    pub(crate) direction: Direction,
    pub(crate) messages: &'a [Message],
}

/// Bytes before a buffer's start, so that every alignment occurs.
const SHIFTS: usize = 64;

/// Spans in a buffer of a certain size.
struct Places {
    /// Where each message's bytes lie; the engine may be told the same as [`Spans::Even`].
    spans: Vec<Span>,
    even: Option<usize>,
    size: usize,
}

impl Places {
    /// Room for spans of these lengths, `extra` bytes after each, in random order with gaps.
    fn random(random: &mut Random, lens: &[usize], extra: usize) -> Self {
        let gap = |random: &mut Random| if random.flip() { 0 } else { random.below(40) };
        let alike = lens.windows(2).all(|pair| pair[0] == pair[1]);
        if alike && random.flip() {
            let len = lens.first().copied().unwrap_or(0);
            let stride = len + extra + gap(random);
            let spans = (0..lens.len()).map(|index| Span {
                offset: index * stride,
                len,
            });
            return Places {
                spans: spans.collect(),
                even: Some(stride),
                size: stride * lens.len(),
            };
        }
        let mut order: Vec<usize> = (0..lens.len()).collect();
        if random.flip() {
            random.shuffle(&mut order);
        }
        let mut spans = vec![Span { offset: 0, len: 0 }; lens.len()];
        let mut end = gap(random);
        for index in order {
            let len = lens[index];
            spans[index] = Span { offset: end, len };
            end += len + extra + gap(random);
        }
        Places {
            spans,
            even: None,
            size: end,
        }
    }

    fn spans(&self) -> Spans<'_> {
        match self.even {
            Some(stride) => Spans::Even {
                count: self.spans.len(),
                len: self.spans.first().map_or(0, |span| span.len),
                stride,
            },
            None => Spans::Ragged(&self.spans),
        }
    }

    fn put<'a>(&self, buffer: &mut [u8], parts: impl Iterator<Item = &'a [u8]>) {
        for (span, part) in self.spans.iter().zip(parts) {
            buffer[span.offset..][..part.len()].copy_from_slice(part);
        }
    }

    fn put_behind<'a>(&self, buffer: &mut [u8], parts: impl Iterator<Item = &'a [u8]>) {
        for (span, part) in self.spans.iter().zip(parts) {
            buffer[span.offset + span.len..][..part.len()].copy_from_slice(part);
        }
    }
}

/// A set of keys in the three forms that a batch takes.
struct KeyTable {
    keys: Vec<Key>,
    index: Vec<u32>,
    concatenated: Vec<u8>,
}

impl KeyTable {
    fn new(random: &mut Random, plan: &Plan<'_>) -> Self {
        let mut distinct: Vec<&[u8]> = plan.messages.iter().map(|m| &m.key[..]).collect();
        distinct.sort_unstable();
        distinct.dedup();
        random.shuffle(&mut distinct);
        let key = |bytes: &&[u8]| super::key(plan.algorithm, bytes);
        let numbers: HashMap<&[u8], u32> = distinct.iter().copied().zip(0..).collect();
        KeyTable {
            keys: distinct.iter().map(key).collect(),
            index: plan.messages.iter().map(|m| numbers[&m.key[..]]).collect(),
            concatenated: plan.messages.iter().flat_map(|m| m.key.clone()).collect(),
        }
    }

    fn random<'a>(&'a self, random: &mut Random, algorithm: Algorithm) -> Keys<'a> {
        let equal_halves = |key: &[u8]| key[..key.len() / 2] == key[key.len() / 2..];
        let mut keys = self.concatenated.chunks(algorithm.key_len());
        let weak = algorithm.info().mode == Mode::Xts && keys.any(equal_halves);
        match random.below(3) {
            0 if self.keys.len() == 1 => Keys::One(&self.keys[0]),
            1 if !weak => self.each(algorithm),
            _ if self.keys.is_empty() => self.each(algorithm),
            _ => Keys::Indexed {
                keys: &self.keys,
                index: &self.index,
            },
        }
    }

    fn each(&self, algorithm: Algorithm) -> Keys<'_> {
        Keys::Each {
            algorithm,
            bytes: &self.concatenated,
        }
    }
}

/// Byte strings of one kind (IVs, associated data) somewhere in a buffer.
struct Strings {
    bytes: Vec<u8>,
    places: Places,
}

impl Strings {
    fn new<'a>(random: &mut Random, parts: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let lens: Vec<usize> = parts.clone().map(<[u8]>::len).collect();
        let places = Places::random(random, &lens, 0);
        let mut bytes = random.bytes(places.size);
        places.put(&mut bytes, parts);
        Strings { bytes, places }
    }
}

/// Runs messages to encrypt as one batch, and back as another, in a random layout on each engine.
pub(crate) fn both_ways(
    name: &str,
    algorithm: Algorithm,
    messages: &[Message],
    engines: &[Engine],
    random: &mut Random,
) {
    let back: Vec<Message> = messages.iter().map(Message::reversed).collect();
    for engine in engines {
        for (direction, messages) in [
            (Direction::Encrypt, messages),
            (Direction::Decrypt, &back[..]),
        ] {
            let plan = Plan {
                name,
                algorithm,
                direction,
                messages,
            };
            plan.run(engine, random);
        }
    }
}

impl Plan<'_> {
    /// Runs the plan in one random layout and compares everything.
    pub(crate) fn run(&self, engine: &Engine, random: &mut Random) {
        let seed = random.next();
        let random = &mut Random::new(seed);
        let context = format!(
            "{} ({}, {:?}, {} messages, {}, layout {seed:#x})",
            self.name,
            self.algorithm,
            self.direction,
            self.messages.len(),
            engine.backend(),
        );
        let messages = self.messages;
        let sealing = self.direction == Direction::Encrypt;
        let aead = self.algorithm.is_aead();
        let tag_len = messages.first().map_or(16, |m| m.tag.len());
        assert!(messages.iter().all(|m| m.tag.len() == tag_len), "{context}");

        let table = KeyTable::new(random, self);
        let mut keys = table.random(random, self.algorithm);
        let iv_strings = Strings::new(random, messages.iter().map(|m| &m.iv[..]));
        let packed_ivs: Vec<u8> = messages.iter().flat_map(|m| m.iv.clone()).collect();
        let aad = Strings::new(random, messages.iter().map(|m| &m.aad[..]));
        let aad = self.aad(random, &aad);

        let appended = aead && random.flip();
        let mut tags: Vec<u8> = messages.iter().flat_map(|m| m.tag.clone()).collect();
        let expected_tags = tags.clone();
        if sealing {
            tags.fill(0xEE);
        }
        let give_tags = !sealing && random.flip();

        let in_place = random.flip();
        let shift = random.below(SHIFTS);
        let lens: Vec<usize> = messages.iter().map(|m| m.input.len()).collect();
        let tag_room = |here: bool| if appended && here { tag_len } else { 0 };
        let to = Places::random(random, &lens, tag_room(sealing || in_place));
        let from = Places::random(random, &lens, tag_room(!sealing));

        // Noise everywhere; then the input in its places, and the result in a copy.
        let mut output = random.bytes(shift + to.size);
        let mut input = random.bytes(shift + from.size);
        {
            let (places, bytes) = match in_place {
                true => (&to, &mut output[shift..]),
                false => (&from, &mut input[shift..]),
            };
            places.put(bytes, messages.iter().map(|m| &m.input[..]));
            if appended && !sealing {
                places.put_behind(bytes, messages.iter().map(|m| &m.tag[..]));
            }
        }
        let mut expected = output.clone();
        for (message, span) in messages.iter().zip(&to.spans) {
            let place = &mut expected[shift + span.offset..][..span.len];
            match message.forged {
                true => place.fill(0),
                false => place.copy_from_slice(&message.output),
            }
        }
        if appended && sealing {
            to.put_behind(&mut expected[shift..], messages.iter().map(|m| &m.tag[..]));
        }

        let ran = loop {
            let text = if in_place {
                Text::InPlace {
                    buffer: &mut output[shift..],
                    spans: to.spans(),
                }
            } else {
                Text::Apart {
                    input: &input[shift..],
                    input_spans: from.spans(),
                    output: &mut output[shift..],
                    output_spans: to.spans(),
                }
            };
            let ivs = self.ivs(random, &iv_strings, &packed_ivs);
            let batch = Batch::new(self.direction, keys, text).ivs(ivs).aad(aad);
            let batch = match () {
                () if !aead => batch,
                () if appended => batch.tag_len(tag_len),
                () if give_tags => batch.tag_len(tag_len).tags(Tags::Given(&tags)),
                () => batch.tag_len(tag_len).tags(Tags::Apart(&mut tags)),
            };
            match engine.run(batch) {
                // Test vectors share nonces. With a key given for each message they run.
                Err(Error::NonceReuse { first, second, .. }) => {
                    assert!(self.collide(first, second), "{context}: {first}, {second}");
                    assert!(!matches!(keys, Keys::Each { .. }), "{context}");
                    keys = table.each(self.algorithm);
                }
                ran => break ran,
            }
        };

        let forged = (0..messages.len()).filter(|&index| messages[index].forged);
        let forged: Vec<usize> = forged.collect();
        match ran {
            Ok(()) => assert!(forged.is_empty(), "{context}: {forged:?} were not refused"),
            Err(Error::Authentication { failed, total }) => {
                assert_eq!(failed, forged, "{context}: other messages were refused");
                assert_eq!(total, messages.len(), "{context}");
            }
            Err(error) => panic!("{context}: {error}"),
        }
        assert_same(&output, &expected, &context);
        if aead && !appended {
            assert_same(&tags, &expected_tags, &format!("{context}, tags"));
        }
    }

    /// Whether two messages have a key and a nonce, or a counter block of CTR, in common.
    fn collide(&self, first: usize, second: usize) -> bool {
        let [a, b] = [first, second].map(|index| &self.messages[index]);
        let same_key = first < second && self.direction == Direction::Encrypt && a.key == b.key;
        let overlap = |a: &Message, b: &Message| {
            let start = |m: &Message| u128::from_be_bytes(m.iv[..].try_into().unwrap());
            start(b).wrapping_sub(start(a)) < a.input.len().div_ceil(16) as u128
        };
        same_key
            && match self.algorithm.info().mode {
                Mode::Gcm | Mode::Acorn => a.iv == b.iv,
                Mode::Ctr => overlap(a, b) || overlap(b, a),
                _ => false,
            }
    }

    fn ivs<'b>(&self, random: &mut Random, strings: &'b Strings, packed: &'b [u8]) -> Ivs<'b> {
        let first = self.messages.first().map_or(&[][..], |m| &m.iv);
        let mode = self.algorithm.info().mode;
        let alike = self.messages.iter().all(|m| m.iv.len() == first.len());
        let sectors = (mode == Mode::Xts && !first.is_empty()).then(|| {
            let first = u128::from_le_bytes(first.try_into().unwrap());
            let counted = (0u128..).zip(self.messages);
            let same = |(i, m): (u128, &Message)| first.wrapping_add(i).to_le_bytes() == m.iv[..];
            (counted.clone().all(same), first)
        });
        match sectors {
            Some((true, first)) if random.flip() => return Ivs::Sectors { first },
            _ => {}
        }
        match random.below(3) {
            0 if mode == Mode::Ecb => Ivs::None,
            1 if alike && first.len() == self.algorithm.info().iv_len() => Ivs::Each(packed),
            _ => Ivs::Ragged {
                bytes: &strings.bytes,
                spans: strings.places.spans(),
            },
        }
    }

    fn aad<'b>(&'b self, random: &mut Random, strings: &'b Strings) -> Aad<'b> {
        let first = self.messages.first().map_or(&[][..], |m| &m.aad);
        let alike = self.messages.iter().all(|m| m.aad == first);
        match random.below(3) {
            0 if alike && first.is_empty() => Aad::None,
            _ if !self.algorithm.is_aead() => Aad::None,
            1 if alike => Aad::Shared(first),
            _ => Aad::Each {
                bytes: &strings.bytes,
                spans: strings.places.spans(),
            },
        }
    }
}

/// `assert_eq` for long buffers: tells where they part instead of printing both.
pub(crate) fn assert_same(found: &[u8], expected: &[u8], context: &str) {
    assert_eq!(found.len(), expected.len(), "{context}: length");
    if found == expected {
        return;
    }
    let place = found
        .iter()
        .zip(expected)
        .position(|(a, b)| a != b)
        .unwrap();
    let wrong = found.iter().zip(expected).filter(|(a, b)| a != b).count();
    let end = (place + 32).min(found.len());
    panic!(
        "{context}: {wrong} of {} bytes are wrong, the first at {place}: {:02x?}, not {:02x?}",
        found.len(),
        &found[place..end],
        &expected[place..end]
    );
}
